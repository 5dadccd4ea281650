"""L-BFGS on the mismatch: exact where the net is smooth and the gradient says it all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attacks._inversion.stack import Stack
from attacks._inversion.variation import variation
from attacks._lbfgs import Solution, minimise
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

MEMORY = 100  # pairs; as many as there are unknowns, or joint recovery stalls
EXACT = 1e-11  # float32 updates hold no more


def descend(
    stack: Stack,
    x: Tensor,
    free: Mapping[str, Tensor],
    *,
    steps: int,
    weight: float = 0.0,
    box: bool = False,
) -> tuple[Tensor, dict[str, Tensor], Solution]:
    """Where L-BFGS ends for the one victim of ``stack``, from ``x`` (1, B, *shape) and ``free``.

    In double precision. Matching the direction converges, on nets with a prototype loss, where
    matching values stalls (8 of 8 probes of a trained net against 6).

    Args:
        stack: one victim.
        x: where the images start.
        free: where the private inputs start that are solved for.
        steps: most iterations.
        weight: of the total variation beside the mismatch.
        box: are images kept in [0, 1]?
    """
    names, pixels = list(free), x.numel()

    def unpack(v: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        images, *rest = torch.split(v, [pixels, *(free[k].numel() for k in names)])
        return images.view(x.shape), {
            k: r.view(free[k].shape) for k, r in zip(names, rest, strict=True)
        }

    def objective(v: Tensor) -> Tensor:
        images, inputs = unpack(v)
        value = stack.mismatch(images, inputs)[0]
        return value + weight * variation(images)[0] if weight else value

    start = torch.cat([x.flatten(), *(free[k].flatten() for k in names)])
    enough = EXACT if not weight else -math.inf
    bounds = (0.0, 1.0, pixels) if box else None
    found = minimise(objective, start, steps=steps, memory=MEMORY, enough=enough, box=bounds)
    images, inputs = unpack(found.x)
    return images.detach(), {k: v.detach() for k, v in inputs.items()}, found
