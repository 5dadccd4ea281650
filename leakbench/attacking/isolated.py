"""Guesses made in a process that is given what a view grants, and nothing else.

Its working folder holds a handout and the job; neither its arguments nor its environment name the
run, and nothing says whether the messages are those that were sent or those of the control. That
keeps an attack from reading the rest by accident or out of convenience. It is no sandbox: a process
may read whatever its user may (see docs/threat-models.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.attacking import guess_file, guessing
from leakbench.attacking.attack import Attack
from leakbench.attacking.choices import build
from leakbench.attacking.guess import Guess, checked_guesses, guess_on_device
from leakbench.attacking.view import ThreatModel, View
from leakbench.base import opened, plugins
from leakbench.base.errors import MethodError
from leakbench.base.files import read_json, read_tree, write_json, write_tree
from leakbench.base.printable_text import one_line
from leakbench.base.raised import raised_text
from leakbench.base.tree import flat, tmap
from leakbench.data.log_mel import LogMel
from leakbench.federation.defense import Defense
from leakbench.federation.input_range import InputRange
from leakbench.federation.network import built
from leakbench.federation.parties import Facts
from leakbench.federation.precision import kept_dtype, products
from leakbench.federation.task_data import Examples
from leakbench.record.knowledge import Source, chosen
from leakbench.record.messages import Message, read_messages, write_messages
from leakbench.record.runspec import Parts, RunSpec, parts

ABOUT, MESSAGES, TRAFFIC = "about.json", "messages.safetensors", "traffic.safetensors"
START = "from leakbench.attacking.isolated import main; main()"
JOB, GUESS, ERROR, READ = "job.json", "guess.safetensors", "error.json", "read.json"
OPENED = "opened.json"
# What of the environment a Python with torch needs to be the same program.
PASSED = ("PATH", "HOME", "LANG", "TMPDIR", "TEMP", "SYSTEMROOT", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
OWN = ("XDG_CONFIG_HOME", plugins.VARIABLE)  # where the user's own methods lie
PREFIXES = (
    *("LC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_"),
    *("CUDA_", "CUBLAS_", "NVIDIA_", "PYTORCH_"),
)


def write_handout(view: View, spec: RunSpec, folder: Path) -> None:
    """Everything that ``view`` grants, and nothing else; ``spec``: of the run, for the names."""
    knows = view.threat.knows
    write_messages(folder / MESSAGES, list(view._seen))
    write_tree(folder / TRAFFIC, {kind: view.traffic(kind) for kind in view.threat.kinds}, {})
    about: dict[str, Any] = {
        "threat": view.threat.parameters(),
        "round": view.round,
        "last": view.last,
        "dtype": str(view.products).removeprefix("torch."),
        "facts": asdict(view._source.facts),
    }
    if "method" in knows:
        about["trains"] = spec.public().model_dump(mode="json")
        about["trainable"] = view._source.trainable
        about["sends_as"] = view._sends_as.parameters()
    for row in chosen(knows):
        if row.held:
            _write_known(_place(folder, row.name), view._known(row.name))
    write_json(folder / ABOUT, about)


def _place(folder: Path, name: str) -> Path:
    return folder / "known" / f"{name}.safetensors"


def _write_known(path: Path, known: Examples | Mapping[tuple[Any, ...], Any]) -> None:
    """Examples; or what is known of updates by their places, tensors or numbers."""
    if isinstance(known, Examples):
        write_tree(path, known.tree, {})
        return
    tensors = {str(i): v for i, v in enumerate(known.values()) if isinstance(v, Tensor)}
    numbers = {str(i): v for i, v in enumerate(known.values()) if str(i) not in tensors}
    write_tree(path, tensors, {"of": [list(place) for place in known], "numbers": numbers})


class Handout(Source):
    """What ``write`` wrote, read again: all that is granted, and no more."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder, self.device = folder, device
        self.about: dict[str, Any] = dict(read_json(folder / ABOUT))

    @property
    def dtype(self) -> torch.dtype:
        """Of its floating-point tensors."""
        return kept_dtype(self.about["dtype"])

    @property
    def products(self) -> torch.dtype:
        """Of what local training multiplied in."""
        return products(self.about["dtype"])

    @property
    def rounds(self) -> int:
        """The run's last round."""
        return int(self.about["last"])

    @property
    def method(self) -> Defense:
        """The method whose loss made the updates."""
        return self.parts.method

    @property
    def sends_as(self) -> Defense:
        """The method as it sends: in the control its uplinks hide nothing."""
        method = self.method
        return type(method).build(self.about["sends_as"], "the method")

    @cached_property
    def parts(self) -> Parts:
        """Task, method and wrappers of the run."""
        return parts(RunSpec.build(self.about["trains"], "the run"))

    @property
    def trainable(self) -> bool:
        """Is it known how the whole federation trained?"""
        return bool(self.about.get("trainable", False))

    @cached_property
    def facts(self) -> Facts:
        """Public facts of the task."""
        facts = self.about["facts"]
        sound = facts["sound"] and LogMel(**facts["sound"])
        low, high = (tuple(facts["input_range"][end]) for end in ("low", "high"))
        lies = InputRange.of(InputRange(low, high), facts["shape"])
        told = {**facts, "shape": tuple(facts["shape"]), "sound": sound, "input_range": lies}
        return Facts(**told)

    @cached_property
    def transcript(self) -> list[Message]:
        """The messages that are granted, in order."""
        found = read_messages(self.folder, [MESSAGES])
        return [replace(m, payload=tmap(lambda t: t.to(self.device), m.payload)) for m in found]

    @cached_property
    def traffic(self) -> dict[str, Tensor]:
        """What the observer saw pass of the declared kinds."""
        return flat(read_tree(self.folder / TRAFFIC)[0])

    def module(self) -> nn.Module:
        """The public architecture; its numbers say nothing."""
        made = built(self.parts.task, self.method, self.facts)
        return made.to(self.device, self.dtype).eval()

    def holds(self, name: str) -> bool:
        """Was it granted?"""
        return _place(self.folder, name).is_file()

    def known(self, name: str) -> Any:
        """What was granted under that name.

        Raises:
            BrokenFile: nothing was.
        """
        tree, meta = read_tree(_place(self.folder, name))
        if "of" not in meta:
            return Examples.of(tree).to(self.device, self.dtype)
        places, numbers = [tuple(place) for place in meta["of"]], meta["numbers"]
        held = {**{i: y.to(self.device) for i, y in tree.items()}, **numbers}
        return {place: held[str(i)] for i, place in enumerate(places)}


class HandedView(View):
    """A view of all that is in a handout: it was chosen where that was written."""

    _source: Handout

    def _chosen(self) -> Sequence[Message]:
        return self._source.transcript

    def _told(self, sender: str, round: int, _phase: int, probe: int | None) -> bool:
        return True

    @cached_property
    def _sends_as(self) -> Defense:
        return self._source.sends_as


def handed(folder: Path, device: str = "cpu") -> View:
    """The view that was written to ``folder``."""
    handout = Handout(folder, device)
    threat = ThreatModel.build(handout.about["threat"], "the threat model")
    return HandedView(threat, handout, int(handout.about["round"]))


def guesses(name: str, attack: Attack, view: View, spec: RunSpec, *, blind: bool) -> list[Guess]:
    """What ``attack``, called ``name``, makes of the view in a process of its own.

    Raises:
        MethodError: it failed there, or what it made is no guess about what was attacked.
    """
    with tempfile.TemporaryDirectory(prefix="leakbench-") as made:
        place = Path(made)
        write_handout(view, spec, place)
        job: dict[str, Any] = {"attack": name, "params": attack.parameters(), "blind": blind}
        job |= {"device": view.device, "threads": torch.get_num_threads()}
        job["deterministic"] = torch.are_deterministic_algorithms_enabled()
        write_json(place / JOB, job)
        with tempfile.TemporaryFile() as said:
            command = [sys.executable, "-P", "-s", "-B", "-c", START]
            done = subprocess.run(  # noqa: S603 (this very Python, and a constant)
                command,
                cwd=place,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                check=False,
            )
            said.seek(max(0, said.tell() - 2000))
            last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
        if (place / ERROR).is_file():
            raise MethodError(one_line(str(read_json(place / ERROR)["error"])))
        if done.returncode or not (place / GUESS).is_file():
            raise MethodError(
                f"{name} ended with exit status {done.returncode} in its own process:"
                f" {one_line(last) or 'it said nothing'}."
            )
        found, _ = guess_file.read_guesses(place / GUESS)
        view._reached |= {tuple(name) for name in read_json(place / READ)}
        opened.add(read_json(place / OPENED))
    here = [guess_on_device(g.guess, view.device) for g in found]
    return checked_guesses(here, type(attack).__name__, view, attack.covers)


def _environment() -> dict[str, str]:
    """Of this process's what the other one needs to find the same packages and devices."""
    out = {k: v for k, v in os.environ.items() if k in (*PASSED, *OWN) or k.startswith(PREFIXES)}
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if any(paths):
        out["PYTHONPATH"] = os.pathsep.join(str(Path(p).resolve()) for p in paths if p)
    return out


def main() -> None:
    """Do the job that lies in the working folder."""
    job = read_json(Path(JOB))
    torch.set_num_threads(job["threads"])
    if job["deterministic"]:
        torch.use_deterministic_algorithms(True)
    try:
        attack = build(job["attack"], job["params"]).attack
        view = handed(Path(), job["device"])
        found = attack(view, blind=job["blind"])
    except (Exception, SystemExit) as error:  # an attack of somebody's may raise anything, or leave
        write_json(Path(ERROR), {"error": raised_text(error)})
        return
    write_json(Path(READ), sorted(view._reached, key=str))
    write_json(Path(OPENED), opened.by)
    guessing._save(Path(GUESS), [guessing.Guessed("attack", "", g) for g in found], "")
