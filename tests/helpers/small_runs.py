"""Real runs small enough for tests, attacks written by hand, and methods that live in a temporary
folder for a while.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from leakbench import api
from leakbench.attacking import choices
from leakbench.attacking.guess import Guess
from leakbench.attacking.guessing import Guessed, _save, attack_described, folder_of
from leakbench.attacking.public_facts import Outline
from leakbench.base.files import digests, read_csv, read_sealed, write_sealed
from leakbench.record.folders import Run, load
from leakbench.record.messages import Message, read_messages
from leakbench.record.policy import Policy
from leakbench.record.recording import Recording

TASK = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10}
# Of each audited client two single images are trained on apart, not sixteen: that alone takes two
# thirds of the time of a small run.
FEW_PROBES: Any = Policy(probes=2)
ON_THE_LINE = [
    "-s",
    "task.model=mlp",
    "-s",
    "task.width=8",
    "-s",
    "task.dim=8",
    "-s",
    "task.evaluations=10",
]


class Lazily(dict[str, Any]):
    """{name: what ``make[name]`` returns}, made when it is first asked for: a test that runs alone
    waits for its own runs only.
    """

    def __init__(self, **make: Callable[[], Any]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, name: str) -> Any:
        self[name] = self.make[name]()
        return self[name]


def trained(out: Path, defense: str = "fedgn", rounds: int = 10, **more: Any) -> Run:
    """A run on digits with an MLP of eight hidden units, recorded with ``FEW_PROBES``."""
    how: dict[str, Any] = {"task_params": TASK, "device": "cpu", "record": FEW_PROBES, **more}
    return api.train(defense, rounds=rounds, out=out, **how)


def attacked(out: Path, rounds: int, **more: Any) -> Run:
    """A run of FedGN that the paper's own attack has read."""
    run = trained(out, "fedgn", rounds=rounds, **more)
    api.attack(run.path, "prototype_leakage")
    return load(run.path)


def again(run: Run) -> Recording:
    """What attacks are made from, read afresh from the folder."""
    return Recording(load(run.path))


def copied(run: Run, to: Path) -> Run:
    """The same folder elsewhere, to be spoilt."""
    shutil.copytree(run.path, to / run.path.name)
    return load(to / run.path.name)


def listed(run: Run, **files: Callable[[Path], None]) -> Run:
    """Change files of a run and its list of hashes with them: a run that was made so, not a damaged
    one. Names: `a__b` is a/b.
    """
    meta = read_sealed(run.path / "run.json")
    for name, change in files.items():
        path = run.path / (name.replace("__", "/") + ".safetensors").replace("round_", "round-")
        change(path)
        key = path.relative_to(run.path).as_posix()
        meta["files"].pop(key, None)
        if path.exists():
            meta["files"][key] = hashlib.sha256(path.read_bytes()).hexdigest()
    write_sealed(run.path / "run.json", meta)
    return load(run.path)


def messages_in(folder: Path) -> list[Message]:
    """All messages that lie in a transcript or control folder, listed or not."""
    return read_messages(folder, sorted(p.name for p in folder.glob("round-*.safetensors")))


def write_guesses(
    recording: Recording, name: str, attack: Any, found: Iterable[tuple[str, str, Guess]]
) -> Path:
    """An attack's folder with these (role, stage, guess), as if it had guessed them."""
    folder = folder_of(recording, name, attack)
    guesses = [Guessed(role, stage, g) for role, stage, g in found]  # type: ignore[arg-type]
    _save(folder / "guess.safetensors", guesses, recording.run.transcript)
    files = digests(folder, without=("attack.json", "units.csv", "results.csv"))
    meta = {**attack_described(recording, name, attack, 0.0), "files": files}
    write_sealed(folder / "attack.json", meta)
    return folder


def by_hand(
    recording: Recording,
    name: str,
    attack: Any,
    guesses: Sequence[Guess],
    floor: Sequence[Guess],
    control: Sequence[Guess] = (),
) -> Path:
    """As ``write_guesses``, at the last stage; the control is the attack unless given."""
    roles = {"attack": guesses, "floor": floor, "control": control or guesses}
    return write_guesses(
        recording, name, attack, [(role, "final", g) for role, gs in roles.items() for g in gs]
    )


def build(name: str, **params: Any) -> Any:
    """An attack."""
    return choices.build(name, params).attack


def obstacle(attack: Any, source: Any) -> str:
    """Why an attack does not fit; empty where it fits."""
    return attack.obstacle(Outline(source, attack.threat))


def seconds(attack: Any, source: Any) -> float:
    """How long an attack is predicted to take."""
    return attack.seconds(Outline(source, attack.threat))


def units(
    folder: Path, metric: str, role: str = "attack", round: int | None = None
) -> dict[str, float]:
    """{unit: score} of units.csv."""
    rows = read_csv(folder / "units.csv", ("role", "metric", "round", "unit", "score"))
    return {
        r["unit"]: float(r["score"])
        for r in rows
        if (r["role"], r["metric"]) == (role, metric) and round in (None, int(r["round"]))
    }


def results(folder: Path, metric: str, stage: str = "final") -> dict[str, Any]:
    """The one line of results.csv at a stage."""
    (row,) = [r for r in api.Results(folder).rows if (r["metric"], r["stage"]) == (metric, stage)]
    return row


def tree_of(folder: Path) -> dict[str, bytes]:
    """{name: bytes} of every file below a folder."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


_count = itertools.count()


@contextmanager
def plugged(package: str, folder: Path, **sources: str) -> Iterator[None]:
    """Modules of ``package`` from ``folder`` for a while: what adding a file to it does."""
    place = folder / f"plugged{next(_count)}"
    place.mkdir()
    for name, source in sources.items():
        (place / f"{name}.py").write_text(source, encoding="utf-8")
    paths = importlib.import_module(package).__path__
    paths.append(str(place))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        paths.remove(str(place))
        for name in sources:
            sys.modules.pop(f"{package}.{name}", None)
            vars(sys.modules[package]).pop(name, None)


FEATURES = '''
"""Shares the first stage's features of a few examples, with noise."""

from typing import Any, Self

from pydantic import Field

from leakbench import Client, Defense


class FedFeatures(Defense):
    """FedAvg, and ``share`` of each client's features."""

    share: int = Field(12, ge=1, description="examples")
    noise: float = Field(0.0, ge=0, description="standard deviation")

    def uplink(self, me: Client) -> Any:
        f = me.net(me.data.x[: self.share], stop="first")
        return {"features": f + self.noise * me.rng.normal("noise", *f.shape)}

    def inputs(self, me: Client) -> Any:
        return {"features": me.data.x[: self.share]}

    def undefended(self) -> Self:
        return self.model_copy(update={"noise": 0.0})
'''


_ATTACK = '''
"""An attack for tests."""

from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.metrics.prototypes import P_LEAK
from leakbench.attacking.view import ThreatModel


class Mine(Attack):
    """Mine."""

    about = "a test"
    metrics = (P_LEAK,)

    @property
    def threat(self):
        return ThreatModel(kinds=("prototype",), rounds="last"){threat}

    def run(self, view, rng):
        {run}

    def blind(self, view, rng):
        import torch
        sent = [m for m in view.messages("prototype") if m.sender != "server"]
        made = [{{"prototype": torch.randn(8, generator=rng)}} for _ in sent]
        return [Guess(m.sender, view.round, w) for m, w in zip(sent, made)]
'''
PLAIN = (
    'return [Guess(m.sender, view.round, {"prototype": m.payload}) for m in'
    ' view.messages("prototype") if m.sender != "server"]'
)


def source(run: str = PLAIN, threat: str = "") -> str:
    """An attack's module; ``run``: the lines of its method of that name."""
    return _ATTACK.format(run=run, threat=threat)


def noise(seed: int, *shape: int) -> torch.Tensor:
    """Uniform on [0, 1], the same each time."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def biasless(base: str, name: str) -> str:
    """A defense file: ``base`` ("fedavg.FedAvg") on a network whose last layer has no bias."""
    module, parent = base.split(".")
    return f'''
"""A method on a network whose last layer has no bias."""

from torch import nn

from defenses.{module} import {parent}


class {name}({parent}):
    """The same otherwise."""

    def module(self, module, facts):
        stage = [n for n, _ in module.named_children()][-1]
        old = [m for m in module.modules() if isinstance(m, nn.Linear)][-1]
        module.set_submodule(stage, nn.Linear(old.in_features, old.out_features, bias=False))
        return module
'''
