"""The golden twin of a run: the same run, three rounds long, told in a few numbers.

A digest of the sources moves with every comment and every file that gets another name. Two codes
that bring forth one twin train alike, so a number of the older one is not stale. The twin is of the
run's own task, data, network, method, wrappers and metric, from before the first round to after the
last: nothing has to be taken on trust. What changes with the rounds later on, and the attacks, it
does not see.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakbench.base import provenance
from leakbench.base.errors import BrokenFile, LeakbenchError
from leakbench.base.tree import Tree, flat
from leakbench.data import sets
from leakbench.federation.evaluate import Evaluations
from leakbench.federation.federation import Federation
from leakbench.federation.observer import Observer
from leakbench.record import origin, rounds
from leakbench.record.runspec import RunSpec, parts
from leakbench.reproduce import row
from leakbench.reproduce.plan import Planned
from leakbench.reproduce.row import Row
from leakbench.results.settings import Setting

ROUNDS = 3
# Of a tensor's norm. Commits that sum in another order moved a product by up to 1e-4 of it, in
# float32; the smallest mu of a paper's sweep of FedProx moves one by 1e-3.
TOLERANCE = 3e-4
_SKETCHES = 3

# {what it is of: its norm, and its products with some random vectors of signs}
Twin = Mapping[str, Sequence[float]]


class _Sketches(Observer[Federation]):
    """Of everything sent, by kind, its norm and its products with random signs.

    A difference of the norm d moves each product by about d, whatever its direction.
    """

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}  # (1 + _SKETCHES,): squares, products
        self.draws: dict[str, torch.Generator] = {}

    def add(self, name: str, tree: Tree) -> None:
        """Every leaf of ``tree``, in the order of their names."""
        total = self.sums.setdefault(name, torch.zeros(1 + _SKETCHES, dtype=torch.float64))
        draws = self.draws.setdefault(name, torch.Generator().manual_seed(0))
        for v in _leaves(tree):
            signs = torch.randint(2, (_SKETCHES, v.numel()), generator=draws).double() * 2 - 1
            total += torch.cat([v.square().sum()[None], signs @ v])

    def down(self, fed: Federation, kind: str, payload: Tree, *, each: bool) -> None:
        """The server's message."""
        self.add(f"down {kind}", payload)

    def up(self, fed: Federation, name: str, each: Tree, sent: Tree, draws: Tree) -> None:
        """The clients' messages."""
        for kind, payload in sorted(sent.items()):
            self.add(f"up {kind}", payload)

    def trained(self, fed: Federation, name: str, each: Tree, todo: Any, update: Tree) -> None:
        """Their updates, where there are single ones."""
        self.add("up update", update)

    def summed(self, fed: Federation, kind: str, payload: Tree) -> None:
        """The aggregator's sum."""
        self.add(f"sum {kind}", payload)

    def told(self) -> Twin:
        """All of it."""
        found = {}
        for name, sums in sorted(self.sums.items()):
            square, *products = sums.tolist()
            found[name] = [float(f"{x:.6g}") for x in (math.sqrt(square), *products)]
        return found


def _leaves(tree: Tree) -> Iterator[Tensor]:
    for _, leaf in sorted(flat(tree).items()):
        for v in leaf if isinstance(leaf, list) else [leaf]:
            yield v.detach().cpu().double().flatten()


def of(spec: RunSpec, device: str = "auto") -> Twin:
    """The twin of ``spec`` by the installed code; shorter where the run itself is.

    Three rounds beyond the one after which the method begins something, where it says so.

    Raises:
        LeakbenchError: its data are not there, or it cannot be trained.
    """
    made = parts(spec)
    data = made.task.examined(made.task.load())
    seen = _Sketches()
    how: dict[str, Any] = {"seed": spec.seed, "engine": spec.engine, "wrappers": made.wrappers}
    how |= {"dtype": getattr(torch, spec.dtype), "device": provenance.device(device)}
    fed = Federation(made.method, made.task, data, recorder=seen, **how)
    scores = Evaluations()
    last = min(ROUNDS + int(getattr(made.method, "begin", 0)), spec.rounds)
    fed.begin()
    rounds.run(fed, last, {last}, scores, lambda: None)
    for name, state in fed.snapshot().items():
        seen.add(name, state)
    for t, scored in sorted(scores.scores.items()):
        seen.add(f"utility {t}", scored)
    return seen.told()


def known(path: Path) -> dict[tuple[str, ...], Twin]:
    """{runs and commits: the twin} of the table at ``path``; {} where there is none to be read."""
    if not path.is_file():
        return {}
    try:
        return {_made_of(r): r.twin for r in row.read(path) if r.twin}
    except BrokenFile:  # it is about to be written anew
        return {}


def added(
    rows: Sequence[Row],
    planned: Sequence[Planned],
    settings: Mapping[tuple[str, str], Setting],
    before: Mapping[tuple[str, ...], Twin],
) -> list[Row]:
    """``rows`` with the twin of each case that has runs, as in the table of ``before`` if it is in.

    ``settings``: {(label, column): its runs}.
    """
    cases = {p.key: p for p in planned}
    out = []
    for r in rows:
        key = (r.label, r.dataset)
        if r.runs and r.ours and key in settings:
            found = before.get(_made_of(r)) or _of_runs(settings[key], cases[key])
            r = r.model_copy(update={"twin": found})
        out.append(r)
    return out


def _made_of(r: Row) -> tuple[str, ...]:
    return (*r.runs, *r.commit)


def _of_runs(setting: Setting, case: Planned) -> Twin | None:
    """None where the installed code did not make the runs: its twin would say nothing of them."""
    metas = [r.meta for r in setting.runs]
    if provenance.source()[1] or any(m["dirty"] or origin.stale(m) for m in metas):
        return None
    return today(case)


def today(case: Planned) -> Twin | None:
    """The twin of its first seed by the installed code, trained once in a process.

    None where its data are not here, or it cannot be trained.
    """
    if not case.specs or (case.setup.needs and not sets.found(case.setup.needs)):
        return None
    return _today(case.specs[0].model_dump_json())


@cache
def _today(spec: str) -> Twin | None:
    try:
        return of(RunSpec.model_validate_json(spec))
    except LeakbenchError:
        return None


def alike(a: Twin | None, b: Twin | None) -> bool:
    """Are they twins of one training? Not known is no."""
    if not a or not b or a.keys() != b.keys():
        return False
    return all(_near(v, b[name]) for name, v in a.items())


def _near(a: Sequence[float], b: Sequence[float]) -> bool:
    most = TOLERANCE * max(a[0], b[0])
    return len(a) == len(b) and all(abs(x - y) <= most for x, y in zip(a, b, strict=True))
