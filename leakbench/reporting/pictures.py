"""Reconstructions as pictures: original, blind guess, control and attack.

They show the same few units, never the best ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from leakbench.attacking import guessing
from leakbench.base.errors import BrokenFile, NotMeasured
from leakbench.base.streams import shared
from leakbench.metrics.images import IDENTIFICATION, PSNR
from leakbench.record import columns
from leakbench.record.folders import AttackFolder, Run
from leakbench.reporting.data import Picture, Role
from leakbench.reporting.png import Images
from leakbench.results.settings import Setting
from leakbench.scoring.truth import Truth

ROLES: tuple[Role, ...] = ("attack", "floor", "control")
UNITS = 8  # pictures of one attack on one run
ATTACKS = 3  # on one run


def of(setting: Setting, images: Images) -> list[Picture]:
    """Pictures of every complete run of a setting; their bytes go into ``images``."""
    return [picture for run in setting.runs for picture in of_run(run, images)]


def of_run(run: Run, images: Images) -> Iterator[Picture]:
    """Pictures of at most ``ATTACKS`` reconstruction attacks on this run.

    Each is at the last stage that it attacked; there are none of signals.

    Of attacks the strongest are taken, by rung and order, and one with the paper's own where there
    is any. Of a guess about several examples the first one is shown.
    """
    shape, truth = run.meta["facts"]["shape"], Truth(run)
    if len(shape) != 3 or shape[0] not in (1, 3) or truth.task.signal:
        return
    for attack in _shown([a for a in run.attacks if a.done and PSNR.name in a.meta["metrics"]]):
        yield from _of_attack(run, attack, truth, images)


def _shown(attacks: Sequence[AttackFolder]) -> list[AttackFolder]:
    """Chosen by what they may know, never by what came out; weakest first."""

    def strength(a: AttackFolder) -> tuple[int, int, str, str]:
        return columns.RUNGS.index(a.meta["threat"]["rung"]), int(a.meta["order"]), a.name, a.params

    ranked = sorted(attacks, key=strength)
    paper = [a for a in ranked if a.meta["threat"]["rung"] == "paper"][:1]
    return paper + [a for a in ranked if a not in paper][-(ATTACKS - len(paper)) :]


def _of_attack(run: Run, attack: AttackFolder, truth: Truth, images: Images) -> Iterator[Picture]:
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
    scores = {}
    for u in attack.table("units.csv", columns.UNITS):
        if u["round"] == last and u["metric"] in (PSNR.name, IDENTIFICATION.name):
            scores[u["role"], u["metric"], u["unit"], u["probe"]] = u["score"]
    for key in [units[i] for i in order[:UNITS]]:
        mine = {role: guesses[key] for role, guesses in roles.items() if key in guesses}
        yield from _of_unit(run, attack, truth, mine, scores, images)


def _of_unit(
    run: Run,
    attack: AttackFolder,
    truth: Truth,
    roles: dict[str, Any],
    scores: dict[Any, float],
    images: Images,
) -> Iterator[Picture]:
    guess = roles["attack"].guess
    made = [g.guess for g in roles.values() if not g.guess.failed]
    try:
        true = truth.answer(guess).originals(made[0] if made else guess)
    except NotMeasured:  # then its scores are missing, too, and missing.csv says why
        return
    x, shape, unit = true.x, run.meta["facts"]["shape"], f"{guess.unit}/{int(true.rows[0])}"

    def picture(role: Role, image: torch.Tensor) -> Picture:
        at = (unit, guess.probe is not None)
        measured = {} if role == "original" else scores
        pixels = _pixels(image.reshape(*shape))
        return Picture(
            attack=attack.name,
            params=json.loads(attack.params),
            unit=unit,
            probe=guess.probe,
            round=guess.round,
            seed=run.seed,
            role=role,
            sha256=images.add(pixels),
            psnr=measured.get((role, PSNR.name, *at)),
            found=measured.get((role, IDENTIFICATION.name, *at)),
        )

    yield picture("original", x[0])
    for role in ROLES:
        g = roles.get(role)
        if g is None:
            continue
        if g.guess.failed:
            yield picture(role, torch.full_like(x[0], math.nan))  # the page says that there is none
        else:
            yield picture(role, true.beside(g.guess.tensors["x"], clip=True)[0])


def _pixels(image: torch.Tensor) -> Any:
    """(C, H, W) -> (H, W) or (H, W, 3) on [0, 1]."""
    image = image.detach().cpu().double().clamp(0, 1)
    return (image[0] if len(image) == 1 else image.permute(1, 2, 0)).numpy()
