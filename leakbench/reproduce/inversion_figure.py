"""FedHide's Table 2 as it is printed: every rebuilt image, the true ones above them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from leakbench.attacking import choices, guessing
from leakbench.base import plots
from leakbench.base.spec import canonical
from leakbench.record.folders import AttackFolder, Run
from leakbench.reproduce.panels import Settings
from leakbench.reproduce.recipe import Measure, Recipe
from leakbench.reproduce.row import Row
from leakbench.scoring.truth import Truth

GAP, BLOCK = 1, 4  # pixels between images, and more between the columns of two attacks
EMPTY = 0.85  # grey where nothing was rebuilt
Images = dict[int, tuple[Tensor, Tensor | None]]  # client -> its image, and what was rebuilt
Mosaic = np.ndarray[Any, np.dtype[np.float64]]


def draw(
    recipe: Recipe, scale: str, rows: Sequence[Row], settings: Settings, folder: Path
) -> list[Path]:
    """A row for each case, a column for each attack, model and client, of the first seed.

    In the first row stand the true images. They are the same for all methods: who trains on what is
    drawn by the seed alone.
    """
    from matplotlib.figure import Figure

    measures = [m for m in recipe.measures if m.metric == "psnr"]
    run = next(iter(settings.values())).runs[0]
    clients, shape = run.spec["record"]["clients"], run.meta["facts"]["shape"]
    true: dict[tuple[str, int], Tensor] = {}
    lines: list[tuple[str, list[Tensor | None]]] = []
    for (label, _), setting in settings.items():
        line: list[Tensor | None] = []
        for m in measures:
            found = _rebuilt(setting.runs[0], m, recipe.asked(m, scale))
            true |= {(m.key, i): original for i, (original, _) in found.items()}
            line += [found[i][1] if i in found else None for i in clients]
        lines.append((label, line))
    if not true:
        return []
    first = [true.get((m.key, i)) for m in measures for i in clients]
    lines.insert(0, ("true image", first))
    mosaic = _mosaic([line for _, line in lines], len(clients), shape)
    height, width = mosaic.shape[:2]
    with plots.style():
        figure = Figure(figsize=(8.4, 7.2 * height / width + 0.5), layout="constrained")
        axes = figure.subplots()
        axes.imshow(mosaic, interpolation="nearest", vmin=0, vmax=1)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        tall, wide = shape[1] + GAP, len(clients) * (shape[2] + GAP) + BLOCK
        names = [label for label, _ in lines]
        at = [tall * (k + 0.5) - GAP / 2 for k in range(len(lines))]
        axes.set_yticks(at, names, fontsize=7, parse_math=False)
        heads = [m.title.removeprefix("PSNR, ") for m in measures]
        middle = [wide * (k + 0.5) - BLOCK / 2 for k in range(len(measures))]
        axes.set_xticks(middle, heads, fontsize=7, parse_math=False)
        return plots.save(figure, folder, scale)


def _rebuilt(run: Run, m: Measure, asked: dict[str, Any]) -> Images:
    """What the attack behind ``m`` made of each client's first image, at the measure's stage."""
    wanted = canonical(choices.build(m.attack, asked).attack.parameters())
    out: Images = {}
    for attack in run.attacks:
        if attack.done and (attack.name, attack.params) == (m.attack, wanted):
            for client, pair in _pairs(run, attack, run.meta["stages"].get(m.stage or "final")):
                out.setdefault(client, pair)
    return out


def _pairs(
    run: Run, attack: AttackFolder, t: int | None
) -> Iterator[tuple[int, tuple[Tensor, Tensor | None]]]:
    attack.check("guess.safetensors")
    truth = Truth(run)
    for g in guessing.saved(attack.path):
        if g.role != "attack" or g.guess.round != t:
            continue
        answer = truth.answer(g.guess)
        original = answer.originals(g.guess)
        found = None
        if not g.guess.failed:
            found = original.beside(g.guess.tensors["x"], clip=True)[0]
        yield answer.client, (original.x[0], found)


def _mosaic(lines: Sequence[Sequence[Tensor | None]], block: int, shape: Sequence[int]) -> Mosaic:
    """(height, width, 3) on [0, 1], white between the images; a wider gap after each ``block``."""
    channels, tall, wide = shape
    columns = len(lines[0])
    width = columns * (wide + GAP) + (columns // block - 1) * BLOCK - GAP
    out = np.ones((len(lines) * (tall + GAP) - GAP, width, 3))
    for i, line in enumerate(lines):
        for j, image in enumerate(line):
            top, left = i * (tall + GAP), j * (wide + GAP) + j // block * BLOCK
            place = out[top : top + tall, left : left + wide]
            if image is None:
                place[:] = EMPTY
                continue
            pixels = image.detach().cpu().double().clamp(0, 1).reshape(channels, tall, wide)
            place[:] = pixels.permute(1, 2, 0).expand(tall, wide, 3).numpy()
    return out
