"""Guesses that somebody else made on an export of a run, taken in to be scored.

What the submitter says of floor and control counts for nothing: a blind guess that is too good
would make any leak look small. The blind guess is made here, by the attack that is installed under
the name. So is the control, where the submitter's sources are the installed ones and these make the
same guesses here: anybody can copy a digest and send guesses that are bad on purpose. Else nobody
ran that attack on the control: the submission stands in its place, and the flag `no_control` says
that such a row may accuse and never acquit. Its word that it believes a guess is not taken either,
or the cascade would pick bad ones.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from leakbench.attacking import guess_file, guessing
from leakbench.attacking.attack import Attack
from leakbench.attacking.choices import build
from leakbench.attacking.guess import Guess, checked_guesses, guess_on_device
from leakbench.attacking.guessing import Guessed, folder_of, rounds_of
from leakbench.attacking.view import View
from leakbench.base.errors import MethodError, UsageError
from leakbench.base.files import file_digest, read_meta, read_sealed, write_sealed
from leakbench.record import attack_code, exporting
from leakbench.record.folders import AttackFolder
from leakbench.record.placing import GUESS, NAME, hidden
from leakbench.record.recording import Recording

Key = tuple[str, int | None]  # unit, probe


def submitted_attack(recording: Recording, folder: Path) -> tuple[str, Attack, dict[str, Any]]:
    """The submission's attack by its name, as it is installed here, and its attack.json.

    Raises:
        UsageError: it was made on something else than an export of this run, its attack is not
            installed, or its attack.json is not as ``leakbench attack`` writes it.
        BrokenFile: a file of it is damaged.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder: expected what leakbench attack writes below attacks/ of an"
            " export."
        )
    meta = read_sealed(folder / NAME)
    name, params, of = (meta.get(k) for k in ("attack", "params", "of"))
    if not isinstance(name, str) or not isinstance(params, dict):
        raise UsageError(f"{folder / NAME} names no attack and parameters. Ask for it again.")
    export = exporting.archive_name(recording.run)
    if of != export and not _of_these_messages(recording, folder):
        raise UsageError(
            f"{folder} was not made on an export of {recording.run.path}: expected one of"
            f" {export['run']}. Give the run that was exported, as it was then."
        )
    AttackFolder(folder, {**meta, "files": dict(meta.get("files") or {})}).check(GUESS)
    return name, build(name, params).attack, meta


def _of_these_messages(recording: Recording, folder: Path) -> bool:
    """Were the guesses made from the very messages of this run, recorded without their truth?"""
    made = read_meta(folder / GUESS)
    return isinstance(made, dict) and made.get("transcript") == recording.run.transcript


def taken_submission(recording: Recording, folder: Path) -> Path:
    """The submission with floor and control of our own, in a hidden folder, not yet scored.

    Raises:
        UsageError: as for ``submitted_attack``; a guess is not about what was attacked, or one
            is left out.
        BrokenFile: a file of it is damaged.
    """
    name, attack, meta = submitted_attack(recording, folder)
    given, _ = guess_file.read_guesses(folder / GUESS)
    mine = [g for g in given if g.role == "attack"]
    if not mine:
        raise UsageError(f"{folder} holds no guess of the attack itself.")
    wanted = set(rounds_of(recording, attack))
    strange = [(g.stage, g.guess.round) for g in mine if (g.stage, g.guess.round) not in wanted]
    if strange:
        stage, t = strange[0]
        raise UsageError(f"{folder} guesses at stage {stage!r}, round {t}, which is not attacked.")
    at: dict[tuple[str, int], list[Guess]] = {}
    for g in mine:
        at.setdefault((g.stage, g.guess.round), []).append(g.guess)
    stages = sorted(at, key=lambda s: s[1])
    parts = {(stage, t): _parted(recording, attack, at[stage, t], t) for stage, t in stages}
    ours = _same_sources(attack, recording.run.spec, meta)
    ours = ours and all(_made_here(recording, attack, parts[s][0], s[1]) for s in stages)
    found: list[Guessed] = []
    for stage, t in stages:
        given_there, floor = parts[stage, t]
        control = given_there
        if ours:
            control = attack(View(attack.threat, recording, t, control=True))
        roles: dict[guessing.Role, list[Guess]] = {"attack": given_there, "floor": floor}
        for role, guesses in {**roles, "control": control}.items():
            found += [Guessed(role, stage, g) for g in guesses]
    fresh = hidden(folder_of(recording, name, attack), "submitted")
    shutil.rmtree(fresh, ignore_errors=True)
    guessing._save(fresh / GUESS, found, recording.run.transcript)
    about = guessing.attack_described(recording, name, attack, 0.0)
    about |= {"sources": _sources(meta), "submitted": True, "no_control": not ours}
    about["command"] = shlex.join(["leakbench", "submit", str(recording.run.path), str(folder)])
    write_sealed(fresh / NAME, {**about, "files": {GUESS: file_digest(fresh / GUESS)}})
    return fresh


def _parted(
    recording: Recording, attack: Attack, given: list[Guess], t: int
) -> tuple[list[Guess], list[Guess]]:
    """The submission's guesses at round ``t``, and our blind guesses about the same units."""
    who = f"the submitted {type(attack).__name__}"
    view = View(attack.threat, recording, t)
    made = [replace(guess_on_device(g, recording.device), accepted=False) for g in given]
    try:
        mine = checked_guesses(made, who, view, attack.covers)
    except MethodError as error:
        raise UsageError(f"{error} Ask for it again.") from None
    blind = attack(View(attack.floor_threat, recording, t), blind=True)
    floor: dict[Key, Guess] = {(g.unit, g.probe): g for g in blind if g.probe is None}
    got: dict[Key, Guess] = {(g.unit, g.probe): g for g in mine}
    for key in floor.keys() ^ got.keys():
        what = "leaves out" if key in floor else "guesses about"
        other = "" if key in floor else ", which is no unit of this attack"
        raise UsageError(f"{who} {what} {key[0]} at round {t}{other}.")
    needs = {name for metric in attack.metrics for name in metric.needs}
    for key, guess in got.items():
        _fits(guess, floor[key], needs, f"{who} about {guess.unit} at round {t}")
    return mine, [floor[key] for key in got]


def _made_here(recording: Recording, attack: Attack, given: list[Guess], t: int) -> bool:
    """Does the installed attack make these very guesses of round ``t``, but for rounding?"""
    made = {(g.unit, g.probe): g for g in attack(View(attack.threat, recording, t))}
    return all(_alike(g, made.get((g.unit, g.probe))) for g in given)


def _alike(one: Guess, other: Guess | None) -> bool:
    if other is None or bool(one.failed) != bool(other.failed):
        return False
    if one.tensors.keys() != other.tensors.keys():
        return False
    pairs = [(t.double(), other.tensors[k].double()) for k, t in one.tensors.items()]
    same = [a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in pairs]
    return all(same)


def _fits(guess: Guess, floor: Guess, needs: set[str], what: str) -> None:
    """Tensors have the shapes of the blind guess's, and say the same of what is guessed about.

    Raises:
        UsageError: naming the first that does not.
    """
    if guess.failed or floor.failed:
        return
    for name, own in floor.tensors.items():
        tensor = guess.tensors.get(name)
        if tensor is None:
            if name in needs or not own.is_floating_point():
                raise UsageError(f"{what} has no {name!r}.")
            continue
        if tensor.shape != own.shape or tensor.is_floating_point() != own.is_floating_point():
            raise UsageError(
                f"{what}: expected {name!r} to be {tuple(own.shape)} {own.dtype}, got"
                f" {tuple(tensor.shape)} {tensor.dtype}."
            )
        said = name not in needs and not own.is_floating_point()
        if said and not bool((tensor == own).all()):
            raise UsageError(f"{what} is about another {name!r} than was attacked.")
    others = sorted(set(guess.tensors) - set(floor.tensors))
    odd = [k for k in others if not guess.tensors[k].is_floating_point()]
    if odd:
        raise UsageError(f"{what} holds {odd[0]!r}, which no guess of this attack has.")


def _sources(meta: Mapping[str, Any]) -> dict[str, str]:
    """What the submission says of the code that made it: digests, or nothing."""
    said = meta.get("sources")
    if not isinstance(said, dict):
        return {}
    texts = {part: said.get(part) for part in attack_code.GUESSED}
    return {k: v for k, v in texts.items() if isinstance(v, str) and len(v) == 64}


def _same_sources(attack: Attack, spec: Mapping[str, Any], meta: Mapping[str, Any]) -> bool:
    """Is the submitter's code of this attack the one that is installed here?"""
    here, there = attack_code.guessed_by(attack, spec), _sources(meta)
    return all(here.get(part) and here[part] == there.get(part) for part in attack_code.GUESSED)
