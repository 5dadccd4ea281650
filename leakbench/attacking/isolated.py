"""Guesses made in a process that is given what a view grants, and nothing else.

Its working folder holds a handout and the job; neither its arguments nor its environment name the
run. That keeps an attack from reading the rest by accident or out of convenience. It is no sandbox:
a process may read whatever its user may (see docs/threat-models.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from leakbench.attacking import grant, guess_file, guessing
from leakbench.attacking.attack import Attack
from leakbench.attacking.choices import build
from leakbench.attacking.guess import Guess, checked
from leakbench.attacking.view import View
from leakbench.base import opened, plugins
from leakbench.base.errors import LeakbenchError, MethodError
from leakbench.base.files import read_json, write_json
from leakbench.base.printable_text import one_line
from leakbench.record.runspec import RunSpec

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


def guesses(name: str, attack: Attack, view: View, spec: RunSpec, *, blind: bool) -> list[Guess]:
    """What ``attack``, called ``name``, makes of the view in a process of its own.

    Raises:
        MethodError: it failed there, or what it made is no guess about what was attacked.
    """
    with tempfile.TemporaryDirectory(prefix="leakbench-") as made:
        place = Path(made)
        grant.write(view, spec, place)
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
        found, _ = guess_file.read(place / GUESS)
        view._reached |= {tuple(name) for name in read_json(place / READ)}
        opened.add(read_json(place / OPENED))
    moved = [_moved(g.guess, view.device) for g in found]
    return checked(moved, type(attack).__name__, view, attack.covers)


def _moved(guess: Guess, device: str) -> Guess:
    tensors = {k: t.to(device) for k, t in guess.tensors.items()}
    return replace(guess, tensors=tensors)


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
        view = grant.HandedView.of(grant.Handout(Path(), job["device"]))
        found = attack(view, blind=job["blind"])
    except LeakbenchError as error:
        write_json(Path(ERROR), {"error": str(error)})
        return
    except Exception as error:  # a fault of the attack's own; it is told by its name
        write_json(Path(ERROR), {"error": f"{type(error).__name__}: {error}"})
        return
    write_json(Path(READ), sorted(view._reached, key=str))
    write_json(Path(OPENED), opened.by)
    guessing._save(Path(GUESS), [guessing.Guessed("attack", "", g) for g in found], "")
