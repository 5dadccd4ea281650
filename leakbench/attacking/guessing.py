"""attack: run one attack on one run folder, save its guesses, then score them.

Guessing never opens the truth.
"""

from __future__ import annotations

import shlex
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import View
from leakbench.base import provenance
from leakbench.base.errors import UsageError
from leakbench.base.files import (
    SEALED_SCHEMA,
    digests,
    read_sealed,
    read_tree,
    write_sealed,
    write_tree,
)
from leakbench.base.jobs import Progress
from leakbench.base.shapes import checked
from leakbench.base.spec import canonical
from leakbench.base.version import __version__
from leakbench.record.recording import Recording
from leakbench.record.shapes import GuessesHeader

Role = Literal["attack", "floor", "control"]
ROLES: tuple[Role, ...] = ("attack", "floor", "control")
CURVE = 20  # points of a curve over rounds, beside the stages


@dataclass(frozen=True)
class Guessed:
    """One saved guess: its role, and the stage it belongs to."""

    role: Role
    stage: str
    guess: Guess


def folder_of(recording: Recording, name: str, attack: Attack) -> Path:
    """Where the attack's results on this run lie."""
    return recording.run.path / "attacks" / f"{name}-{attack.fingerprint()}"


def rounds_of(recording: Recording, attack: Attack) -> list[tuple[str, int]]:
    """(stage, round) of everything this attack looks at."""
    stages = recording.stages
    if attack.over == "all":
        return [("all", stages["final"])]
    surveyed = recording.spec.record.surveys if attack.curve else None
    last = recording.spec.rounds
    between: list[int] = []
    if surveyed:
        between = [t for t in range(1, last) if surveyed(t, last) and t not in stages.values()]
    step = max(1, -(-len(between) // CURVE))
    curve = [("curve", t) for t in between[::step]]
    wanted = attack.stages_of(recording)
    chosen = [(s, t) for s, t in stages.items() if not wanted or s in wanted]
    if not chosen:  # a short run has fewer stages; the last is always there
        chosen = [("final", last)]
    return sorted([*chosen, *curve], key=lambda s: s[1])


def guess(
    recording: Recording, name: str, attack: Attack, *, progress: Progress = lambda *_: None
) -> Path:
    """Run the attack, its blind guess and its control; save ``guess.safetensors``.

    Each in every round that the attack looks at. Of a run that was exported there is no control,
    unless nothing is defended in it.

    Raises:
        UsageError: the attack does not fit what the run shared, or there was nothing to attack.
        ThreatViolation: it asked for what it does not declare.
    """
    run = recording.run
    if not run.done:
        raise UsageError(
            f"{run.path} is not complete (status: {run.status}). Train it first; the same command"
            " resumes it."
        )
    why = attack.obstacle(recording)
    if why:
        raise UsageError(f"{name} does not fit {run.id}: {why}.")
    folder, begun = folder_of(recording, name, attack), time.monotonic()
    todo, found = rounds_of(recording, attack), []
    roles = ROLES if recording.controlled else ROLES[:2]
    for i, (stage, t) in enumerate(todo):
        views: dict[Role, View] = {}
        for role in roles:
            threat = attack.floor_threat if role == "floor" else attack.threat
            views[role] = View(threat, recording, t, control=role == "control")
        made: dict[Role, list[Guess]] = {}
        for role in roles:
            progress(len(roles) * i + roles.index(role), len(roles) * len(todo), f"{name}, {stage}")
            again = role == "control" and views[role].same_as(views["attack"])
            made[role] = made["attack"] if again else attack(views[role], blind=role == "floor")
        found += [Guessed(role, stage, g) for role in roles for g in made[role]]
    if not any(g.role == "attack" for g in found):
        raise UsageError(
            f"{name} found nothing to attack in {run.id}: no message of the kinds"
            f" {list(attack.threat.kinds)} was kept."
        )
    fresh = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(fresh, ignore_errors=True)
    _save(fresh / "guess.safetensors", found)
    meta = _meta(recording, name, attack, time.monotonic() - begun)
    write_sealed(fresh / "attack.json", meta | {"files": digests(fresh)})
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return folder


def failed(
    recording: Recording, name: str, attack: Attack, why: str, *, scoring: bool = False
) -> None:
    """Leave a note in the run folder that this attack failed, and why.

    ``scoring``: it was scoring that failed, so the guesses stay, to be scored again; else nothing
    of an earlier time does.
    """
    folder = folder_of(recording, name, attack)
    if not scoring:
        shutil.rmtree(folder, ignore_errors=True)
    meta = {**_meta(recording, name, attack, 0.0), "status": f"failed: {why}"}
    meta["files"] = digests(folder, without=("attack.json",))
    write_sealed(folder / "attack.json", meta)


def _meta(recording: Recording, name: str, attack: Attack, seconds: float) -> dict[str, Any]:
    threat = attack.threat
    words = ["leakbench", "attack", str(recording.run.path), "-a", name]
    for k, v in attack.parameters().items():
        words += ["-s", f"{name}.{k}={v if isinstance(v, str) else canonical(v)}"]
    return {
        "schema": SEALED_SCHEMA,
        "status": "guessed",
        "attack": name,
        "params": attack.parameters(),
        "threat": threat.parameters(),
        "order": attack.order,
        "paper": attack.paper,
        "metrics": {},
        "missing": [],
        "seconds": round(seconds, 3),
        "command": shlex.join(words),
        "files": {},
        **provenance.provenance(provenance.device_name(recording.device), recording.spec.dtype),
    }


def _save(path: Path, found: list[Guessed]) -> None:
    table = [
        {
            "role": g.role,
            "stage": g.stage,
            "unit": g.guess.unit,
            "round": g.guess.round,
            "probe": g.guess.probe,
            "accepted": g.guess.accepted,
            "failed": g.guess.failed,
            "flags": sorted(g.guess.flags),
        }
        for g in found
    ]
    write_tree(path, {str(i): g.guess.tensors for i, g in enumerate(found)}, {"guesses": table})


def saved(folder: Path) -> list[Guessed]:
    """The guesses of an attack folder.

    Raises:
        BrokenFile: the file is damaged.
    """
    path = folder / "guess.safetensors"
    tree, meta = read_tree(path)
    checked(GuessesHeader, meta, path)
    out = []
    for i, g in enumerate(meta["guesses"]):
        about = {k: g[k] for k in ("unit", "round", "accepted", "probe", "failed")}
        guess = Guess(**about, tensors=tree.get(str(i), {}), flags=tuple(g["flags"]))
        out.append(Guessed(g["role"], g["stage"], guess))
    return out


def complete(recording: Recording, name: str, attack: Attack) -> bool:
    """Are this attack's results on this run there, made by this version of leakbench?

    Scored, if they can be.
    """
    path = folder_of(recording, name, attack) / "attack.json"
    if not path.exists():
        return False
    meta = read_sealed(path)
    there = "guessed" if recording.exported else "done"
    return meta.get("status") == there and meta.get("versions", {}).get("leakbench") == __version__
