"""attack: run one attack on one run folder, and save its guesses.

Guessing never opens the truth.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.attacking.public_facts import Outline, undeclared
from leakbench.attacking.view import View
from leakbench.base import provenance, registry
from leakbench.base.errors import UsageError
from leakbench.base.files import SEALED_SCHEMA, file_digest, read_tree, write_sealed, write_tree
from leakbench.base.jobs import Progress
from leakbench.base.raised import faults_pass
from leakbench.base.shapes import check_shape
from leakbench.base.spec import option_text
from leakbench.record import attack_code, origin
from leakbench.record.placing import GUESS, NAME, hidden, put
from leakbench.record.recording import Recording
from leakbench.record.shapes import GuessesHeader

Role = Literal["attack", "floor", "control"]
ROLES: tuple[Role, ...] = ("attack", "floor", "control")
BEFORE, AFTER = "before", "after"  # what is sent outside the rounds
CURVE = 20  # points of a curve over rounds, beside the stages
PARTS = 100  # of one call of an attack, by which a bar moves


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
        return [("all", stages["final"] + bool(_outside(recording, attack, AFTER)))]
    if attack.curious:  # what is sent in the last round is handed on in none
        end = max(1, recording.spec.rounds - 1)
        stages = {s: t for s, t in stages.items() if s != "final" and t < end} | {"final": end}
    surveyed = recording.spec.record.surveys if attack.curve else None
    last = recording.spec.rounds
    between: list[int] = []
    if surveyed:
        between = [t for t in range(1, last) if surveyed(t, last) and t not in stages.values()]
    step = max(1, -(-len(between) // CURVE))
    curve = [("curve", t) for t in between[::step]]
    wanted = attack.stages_of(Outline(recording, attack.threat))
    chosen = [(s, t) for s, t in stages.items() if not wanted or s in wanted]
    if not chosen:  # a short run has fewer stages; the last is always there
        chosen = [("final", last)]
    return sorted([*chosen, *curve], key=lambda s: s[1])


def _outside(recording: Recording, attack: Attack, stage: str) -> set[tuple[Any, ...]]:
    """The names of what clients sent before the first round, or after the last, to be attacked."""
    t = 0 if stage == BEFORE else recording.spec.rounds + 1
    kinds = attack.attacks(Outline(recording, attack.threat))
    sent = [m for m in recording.transcript if m.round == t and m.kind in kinds]
    whole = [m for m in sent if m.probe is None and not m.part]
    return {m.name for m in whole if m.sender.startswith("client/")}


def _every(
    recording: Recording, attack: Attack, reached: set[tuple[Any, ...]]
) -> Iterator[tuple[str, int]]:
    """``rounds_of``, and then before and after all rounds, where something was sent and not read.

    ``reached`` grows as the attack reads. What a method sends in any phase is attacked: else it
    could keep what it leaks for the last one.
    """
    yield from rounds_of(recording, attack)
    wanted = attack.stages_of(Outline(recording, attack.threat))
    if attack.over == "all" or (wanted and "final" not in wanted):
        return
    for stage, t in ((BEFORE, 0), (AFTER, recording.spec.rounds + 1)):
        if _outside(recording, attack, stage) - reached:
            yield stage, t


def guess(
    recording: Recording, name: str, attack: Attack, *, progress: Progress = lambda *_: None
) -> Path:
    """Run the attack, its blind guess and its control; save them in the attack's folder.

    What is there is replaced. Raises as ``guessed``.
    """
    return put(
        guessed(recording, name, attack, progress=progress), folder_of(recording, name, attack)
    )


# (name, attack, view, blind): what the attack makes of the view, somewhere else than here.
Elsewhere = Callable[[str, Attack, View, bool], list[Guess]]


def guessed(
    recording: Recording,
    name: str,
    attack: Attack,
    *,
    elsewhere: Elsewhere | None = None,
    progress: Progress = lambda *_: None,
) -> Path:
    """Run the attack, its blind guess and its control; save them in a hidden folder.

    Each in every round that the attack looks at. Of a run that was exported there is no control,
    unless nothing is defended in it. ``elsewhere``: calls the attack in isolation.

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
    why = undeclared(recording, attack.threat)
    why = why or attack.obstacle(Outline(recording, attack.threat))
    if why:
        raise UsageError(f"{name} does not fit {run.id}: {why}.")
    begun, code = time.monotonic(), attack_code.guessed_by(attack, run.spec)
    steps, found = len(rounds_of(recording, attack)), []
    reached: set[tuple[Any, ...]] = set()
    roles = ROLES if recording.controlled else ROLES[:2]

    def call(view: View, blind: bool) -> list[Guess]:
        return elsewhere(name, attack, view, blind) if elsewhere else attack(view, blind=blind)

    for i, (stage, t) in enumerate(_every(recording, attack, reached)):
        steps = max(steps, i + 1)
        views: dict[Role, View] = {}
        for role in roles:
            threat = attack.floor_threat if role == "floor" else attack.threat
            views[role] = View(threat, recording, t, control=role == "control")
        made: dict[Role, list[Guess]] = {}
        for role in roles:
            before, whole = len(roles) * i + roles.index(role), len(roles) * steps
            views[role]._tell = _within(progress, before, whole, f"{name}, {stage}")
            views[role].progress(0)
            again = role == "control" and views[role].same_as(views["attack"])
            made[role] = made["attack"] if again else call(views[role], role == "floor")
        found += [Guessed(role, stage, g) for role in roles for g in made[role]]
        reached |= views["attack"]._reached if stage != "curve" else set()
    if not any(g.role == "attack" for g in found):
        why = attack.nothing_kept(Outline(recording, attack.threat))
        raise UsageError(f"{name} found nothing to attack in {run.id}: {why}.")
    fresh = hidden(folder_of(recording, name, attack), "part")
    shutil.rmtree(fresh, ignore_errors=True)
    _save(fresh / GUESS, found, run.transcript)
    meta = attack_described(recording, name, attack, time.monotonic() - begun)
    code |= attack_code.attack_opened(attack, run.spec)
    meta |= {"sources": code, "isolated": elsewhere is not None}
    listed = {GUESS: file_digest(fresh / GUESS)}
    write_sealed(fresh / NAME, {**meta, "files": listed})
    return fresh


def _within(progress: Progress, before: int, whole: int, what: str) -> Callable[[float], None]:
    """What moves the bar from the call numbered ``before``, of ``whole``, to the next.

    By steps of a hundredth of a call, and told only when there is one: an attack may tell often.
    """
    told = -1

    def tell(share: float) -> None:
        nonlocal told
        done = min(int(PARTS * share), PARTS - 1)
        if done > told:
            told = done
            progress(PARTS * before + done, PARTS * whole, what)

    return tell


def failed(recording: Recording, name: str, attack: Attack, why: str) -> None:
    """Leave a note in the run folder that this attack failed, and why; it has no guesses then."""
    folder = folder_of(recording, name, attack)
    fresh = hidden(folder, "part")
    shutil.rmtree(fresh, ignore_errors=True)
    code = attack_code.guessed_by(attack, recording.run.spec)
    told: dict[str, Any] = {"reads": [], "pools": False, "conditions": {}}
    with faults_pass():  # it may be that of which it failed
        told = _told(recording, attack)
    meta = {**_described(recording, name, attack, 0.0), **told, "sources": code}
    write_sealed(fresh / NAME, {**meta, "status": f"failed: {why}"})
    put(fresh, folder)


def attack_described(
    recording: Recording, name: str, attack: Attack, seconds: float
) -> dict[str, Any]:
    """attack.json of guesses that are not scored."""
    return {**_described(recording, name, attack, seconds), **_told(recording, attack)}


def _told(recording: Recording, attack: Attack) -> dict[str, Any]:
    """What the attack itself says of its guesses."""
    outline = Outline(recording, attack.threat)
    return {
        "reads": sorted(attack.attacks(outline)),
        "pools": attack.hears_out(outline),
        "conditions": attack.conditions(outline),
    }


def _command(recording: Recording, name: str, attack: Attack) -> str:
    """What guesses so again; "" where the task or the attack was made in Python."""
    found = registry.options([("tasks", recording.spec.task.name), ("attacks", name)])
    if found is None:
        return ""
    words = ["leakbench", "attack", str(recording.run.path), "-a", name]
    for k, v in attack.parameters().items():
        words += ["-s", f"{name}.{k}={option_text(v)}"]
    return shlex.join([*words, *found])


def _described(recording: Recording, name: str, attack: Attack, seconds: float) -> dict[str, Any]:
    threat = attack.threat
    return {
        "schema": SEALED_SCHEMA,
        "status": "guessed",
        "of": recording.run.named,
        "sources": {},
        "attack": name,
        "params": attack.parameters(),
        "threat": threat.parameters(),
        "order": attack.order,
        "paper": attack.paper,
        "metrics": {},
        "missing": [],
        "seconds": round(seconds, 3),
        **({"no_control": True} if recording.covered_alone else {}),
        "machine": origin.machine(),
        "command": _command(recording, name, attack),
        "files": {},
        **provenance.provenance(provenance.device_name(recording.device), recording.spec.dtype),
    }


def _save(path: Path, found: list[Guessed], transcript: str) -> None:
    """Write the guesses; ``transcript``: the digest of the messages that they were made from."""
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
    tensors = {str(i): g.guess.tensors for i, g in enumerate(found)}
    write_tree(path, tensors, {"guesses": table, "transcript": transcript})


def saved(folder: Path) -> list[Guessed]:
    """The guesses of an attack folder.

    Raises:
        BrokenFile: the file is damaged.
    """
    path = folder / GUESS
    tree, meta = read_tree(path)
    check_shape(GuessesHeader, meta, path)
    out = []
    for i, g in enumerate(meta["guesses"]):
        about = {k: g[k] for k in ("unit", "round", "accepted", "probe", "failed")}
        guess = Guess(**about, tensors=tree.get(str(i), {}), flags=tuple(g["flags"]))
        out.append(Guessed(g["role"], g["stage"], guess))
    return out
