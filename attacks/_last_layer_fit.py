"""The centre behind a step of the last layer, by least squares through the method's own loss.

For losses of a distance, whose other terms (others' spheres) have no closed form: a few images'
inputs of the layer and the centre are sought that together make the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attacks import _last_layer
from attacks._last_layer import LayerStep
from attacks._last_layer_plane import inputs
from attacks._lbfgs import minimise
from attacks._least_squares import least_squares
from leakbench.attacking import Replay
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

IMAGES = 8  # that stand for the batch
RANK = 6  # directions of the layer's input in which they differ, at most
STEPS = 60
ALIKE = 0.98  # cosine of the centre and the mean embedding, at least
APART = 0.05  # of the images at the start, relative to their inputs


def centre(step: LayerStep, replay: Replay, key: str, rank: int, rng: torch.Generator) -> Tensor:
    """(dim,): the centre under the name ``key`` that a step of ``rank`` images was pulled to.

    The step tells its direction and hardly its length, which is taken from the embeddings'; both
    are, where the direction is far from theirs.
    """
    basis = inputs(step, min(rank, RANK))
    moved, reach = step.moved @ basis, step.start @ basis  # (dim, rank)
    size = moved.norm().clamp(min=1e-300)
    one = _mean_input(step, basis)
    level = step.usual @ basis if not step.bias else basis[-1]  # inputs have this part alike
    free = torch.eye(len(one), dtype=one.dtype, device=one.device)
    free = free - torch.outer(level, level) / level.square().sum().clamp(min=1e-300)

    def unpack(v: Tensor) -> tuple[Tensor, Tensor]:
        c, apart = torch.split(v, [len(reach), IMAGES * len(one)])
        return c, one + one.norm() * apart.view(IMAGES, -1) @ free

    def off(v: Tensor) -> Tensor:
        c, y = unpack(v)
        pulled = _last_layer.pull(replay, key, c, y @ reach.T, differentiable=True)
        return ((step.rate * pulled.T @ y / IMAGES - moved) / size).square().sum()

    near = _seen(replay, key, (reach @ one)[None])[0]
    noise = torch.randn(IMAGES * len(one), generator=rng, dtype=torch.float64).to(near)
    found = minimise(off, torch.cat([near, APART * noise]), steps=STEPS, memory=STEPS)
    c, y = unpack(found.x)
    mean, towards = _seen(replay, key, y @ reach.T).mean(0), c / c.norm().clamp(min=1e-300)
    along = mean @ towards
    return along * towards if along > ALIKE * mean.norm() else mean


def _mean_input(step: LayerStep, basis: Tensor) -> Tensor:
    """(rank,): the layer's input as if the batch was one image."""
    hidden = basis[:, 0]
    if step.bias:
        return hidden @ basis / hidden[-1]
    return (hidden * (hidden @ step.usual).sign() * step.usual.norm()) @ basis


def _seen(replay: Replay, key: str, outputs: Tensor) -> Tensor:
    """(k, dim): where the method sees ``outputs`` (k, dim), normalised, say.

    A centre's slope points away from there: from two centres it is where the two lines meet.
    """
    out = []
    for z in outputs:
        starts = torch.stack([torch.zeros_like(z), 0.5 * z.flip(0)])
        ways = torch.stack([_last_layer.slope(replay, key, c, z) for c in starts])
        ways = ways / ways.norm(dim=1, keepdim=True).clamp(min=1e-300)
        across = (
            torch.eye(len(z), dtype=z.dtype, device=z.device) - ways[:, :, None] * ways[:, None]
        )
        out.append(least_squares(across.sum(0), (across @ starts[:, :, None]).sum(0)))
    return torch.cat(out, 1).T
