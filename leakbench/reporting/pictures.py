"""Reconstructions as pictures, of sound as spectrograms that can be heard.

Original, blind guess, control and attack show the same few units, never the best ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from leakbench.attacking import guessing
from leakbench.attacking.guess import Guess
from leakbench.base.errors import BrokenFile, NotMeasured, UnknownName
from leakbench.base.streams import shared
from leakbench.data.log_mel import UNIT, LogMel
from leakbench.metrics.images import IDENTIFICATION, MSE, PSNR
from leakbench.metrics.pictures import PICTURE_NAMES, PICTURE_PSNR, means, shown
from leakbench.record import columns
from leakbench.record.folders import AttackFolder, Run
from leakbench.reporting.data import Picture, Role
from leakbench.reporting.png import Images
from leakbench.reporting.sounds import Sounds, shade, sound_scale
from leakbench.results.settings import Setting
from leakbench.scoring.truth import Truth

ROLES: tuple[Role, ...] = ("attack", "floor", "control")
UNITS = 8  # pictures of one attack on one run
ATTACKS = 3  # on one run, of those that rebuild examples and of those that draw what clients hold


@dataclass(frozen=True)
class Media:
    """Where the bytes of pictures and sounds go."""

    images: Images = field(default_factory=Images)
    sounds: Sounds = field(default_factory=Sounds)


@dataclass(frozen=True)
class Portrayed:
    """What is shown of a unit: its original, and each guess as it stands beside that."""

    unit: str
    original: torch.Tensor  # (...)
    image: Callable[[Guess], torch.Tensor]  # to (...)


def pictures_of(setting: Setting, media: Media) -> list[Picture]:
    """Pictures of every complete run of a setting; their bytes go into ``media``."""
    return [picture for run in setting.runs for picture in run_pictures(run, media)]


def run_pictures(run: Run, media: Media) -> Iterator[Picture]:
    """Pictures of at most ``ATTACKS`` reconstruction attacks on this run.

    Each is at the last stage that it attacked; there are none of signals but sound, nor of a task
    that is not installed.

    Of attacks the strongest are taken, by rung and order, and one with the paper's own where there
    is any. Of a guess about several examples the first one is shown; a picture of all that a client
    holds stands beside the mean of its images.
    """
    shape, truth, sound = run.meta["facts"]["shape"], Truth(run), sound_scale(run)
    try:
        signal = truth.task.signal
    except UnknownName:  # missing.csv says that it is not installed here
        return
    if sound is None and (len(shape) != 3 or shape[0] not in (1, 3) or signal):
        return
    for metric in (MSE if sound else PSNR, PICTURE_NAMES):
        chosen = [a for a in run.attacks if a.done and metric.name in a.meta["metrics"]]
        for attack in _shown(chosen):
            yield from _of_attack(run, attack, truth, media)


def _is_drawn(attack: AttackFolder) -> bool:
    """Are its pictures of all that a client holds, and of no single example?"""
    return PICTURE_NAMES.name in attack.meta["metrics"]


def _shown(attacks: Sequence[AttackFolder]) -> list[AttackFolder]:
    """Chosen by what they may know, never by what came out; weakest first."""

    def strength(a: AttackFolder) -> tuple[int, int, str, str]:
        return columns.RUNGS.index(a.meta["threat"]["rung"]), int(a.meta["order"]), a.name, a.params

    ranked = sorted(attacks, key=strength)
    paper = [a for a in ranked if a.meta["threat"]["rung"] == "paper"][:1]
    return paper + [a for a in ranked if a not in paper][-(ATTACKS - len(paper)) :]


def _of_attack(run: Run, attack: AttackFolder, truth: Truth, media: Media) -> Iterator[Picture]:
    attack.check("guess.safetensors")
    saved = guessing.saved(attack.path)
    if not saved:
        raise BrokenFile(
            f"{attack.path / 'guess.safetensors'} holds no guess, though its scores are of some:"
            " leakbench attack --force makes it again, or delete the folder."
        )
    last = max(g.guess.round for g in saved)
    roles: dict[str, dict[Any, guessing.Guessed]] = {"attack": {}, "floor": {}, "control": {}}
    for g in saved:
        if g.guess.round == last:
            roles[g.role][g.guess.unit, g.guess.probe] = g
    units = sorted(roles["attack"], key=str)
    # Drawn by name, before anything is known of what came out; the same in all settings that
    # attacked the same units.
    named = f"{run.spec['task']['name']}/{run.seed}"
    order = shared(0, "pictures").permutation(named, len(units)).tolist()
    near, found = (PICTURE_PSNR, PICTURE_NAMES) if _is_drawn(attack) else (PSNR, IDENTIFICATION)
    said, scores = {near.name: "near", MSE.name: "off", found.name: "found"}, {}
    for u in attack.table("units.csv", columns.UNITS):
        if u["round"] == last and u["metric"] in said:
            scores[u["role"], said[u["metric"]], u["unit"], u["probe"]] = u["score"]
    for key in [units[i] for i in order[:UNITS]]:
        mine = {role: guesses[key] for role, guesses in roles.items() if key in guesses}
        yield from _of_unit(run, attack, truth, mine, scores, media)


def _of_unit(
    run: Run,
    attack: AttackFolder,
    truth: Truth,
    roles: dict[str, Any],
    scores: dict[Any, float],
    media: Media,
) -> Iterator[Picture]:
    guess = roles["attack"].guess
    try:
        show = _mean(truth, guess) if _is_drawn(attack) else _example(truth, roles)
    except NotMeasured:  # then its scores are missing, too, and missing.csv says why
        return
    shape, scale = run.meta["facts"]["shape"], sound_scale(run)

    def picture(role: Role, image: torch.Tensor) -> Picture:
        at = (show.unit, guess.probe is not None)
        measured = {} if role == "original" else scores
        seen, sound = _taken(image.reshape(*shape), scale, media)
        error = measured.get((role, "off", *at)) if scale else None
        return Picture(
            attack=attack.name,
            params=json.loads(attack.params),
            unit=show.unit,
            probe=guess.probe,
            round=guess.round,
            seed=run.seed,
            role=role,
            of="client" if _is_drawn(attack) else "example",
            sha256=seen,
            psnr=measured.get((role, "near", *at)),
            found=measured.get((role, "found", *at)),
            sound=sound,
            off=None if error is None else UNIT * math.sqrt(error),
        )

    yield picture("original", show.original)
    for role in ROLES:
        g = roles.get(role)
        if g is None:
            continue
        if g.guess.failed:  # the page says that there is none
            yield picture(role, torch.full_like(show.original, math.nan))
        else:
            yield picture(role, show.image(g.guess))


def _example(truth: Truth, roles: dict[str, Any]) -> Portrayed:
    """The first of the examples that the guesses are about."""
    guess = roles["attack"].guess
    made = [g.guess for g in roles.values() if not g.guess.failed]
    true = truth.answer(guess).originals(made[0] if made else guess)
    row, clip = int(true.rows[0]), truth.task.lies_in.bounded

    def image(g: Guess) -> torch.Tensor:
        """What it makes of the example; nothing where it is about others."""
        own = truth.answer(guess).originals(g)
        if row not in own.rows.tolist():
            return torch.full_like(true.x[0], math.nan)
        return own.beside(g.tensors["x"], clip=clip)[own.rows.tolist().index(row)]

    return Portrayed(f"{guess.unit}/{row}", true.x[0], image)


def _mean(truth: Truth, guess: Guess) -> Portrayed:
    """The mean of the images that the client holds."""
    answer = truth.answer(guess)
    return Portrayed(guess.unit, means(truth)[answer.client], lambda g: shown(g, answer))


def _taken(
    image: torch.Tensor, scale: LogMel | None, media: Media
) -> tuple[str | None, str | None]:
    """The names of (C, H, W) as a picture and, on a scale, as a sound."""
    if scale is None:
        return media.images.add(_pixels(image)), None
    spectrogram = image.detach().cpu().double().numpy()
    return media.images.add(shade(spectrogram)), media.sounds.add(spectrogram, scale)


def _pixels(image: torch.Tensor) -> Any:
    """(C, H, W) -> (H, W) or (H, W, 3) on [0, 1]."""
    image = image.detach().cpu().double().clamp(0, 1)
    return (image[0] if len(image) == 1 else image.permute(1, 2, 0)).numpy()
