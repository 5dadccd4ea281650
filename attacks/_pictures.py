"""Pictures for vectors: images whose embedding is the vector wanted, searched for or decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

    Embed = Callable[[Tensor], Tensor]  # (n, *shape) to (n, dim)


CHUNK = 256  # images at once
KNOWN = 2000  # auxiliary images that the components are of, at most
FLAT = 1e-3  # of the largest deviation: components below it are left out
RATE = 0.1  # of Adam, in standard deviations of a component
PIXEL_RATE = 0.03  # the same, of pixels between 0 and 1


class PictureSettings(Protocol):
    """What of the attack's fields is read here."""

    @property
    def steps(self) -> int: ...
    @property
    def restarts(self) -> int: ...
    @property
    def prior(self) -> float: ...
    @property
    def total_variation(self) -> float: ...
    @property
    def ridge(self) -> float: ...


@dataclass(frozen=True)
class Space:
    """Where a picture is sought: ``image`` makes one of each row of numbers."""

    image: Callable[[Tensor], Tensor]  # (n, size) to (n, *shape)
    cost: Callable[[Tensor], Tensor]  # (n, size) to (n,): how unlikely such a picture is
    start: Callable[[int], Tensor]  # a count to that many rows
    rate: float
    box: bool  # are the numbers pixels, and stay within [0, 1]?


def components(x: Tensor, how: PictureSettings, rng: torch.Generator) -> Space:
    """Pictures as the mean of ``x`` (n, *shape) and its principal components.

    The cost is that of a Gaussian with their mean and covariance: the mean square of a picture's
    numbers, in standard deviations.
    """
    some = torch.randperm(len(x), generator=rng)[:KNOWN].to(x.device)
    mean, flat = x.mean(0), x[some].flatten(1)
    _, sizes, axes = torch.linalg.svd(flat - flat.mean(0), full_matrices=False)
    sizes = sizes / len(some) ** 0.5
    kept = sizes > FLAT * sizes.max().clamp(min=1e-30)
    turn = sizes[kept, None] * axes[kept]

    def image(v: Tensor) -> Tensor:
        return mean + (v @ turn).view(len(v), *x.shape[1:])

    def start(count: int) -> Tensor:
        return 0.3 * torch.randn(count, len(turn), generator=rng).to(x)

    return Space(image, lambda v: how.prior * v.square().mean(1), start, RATE, box=False)


def pixels(shape: tuple[int, ...], how: PictureSettings, rng: torch.Generator) -> Space:
    """Pictures as their pixels, from grey on; the cost is the total variation."""

    def image(v: Tensor) -> Tensor:
        return v.view(len(v), *shape)

    def start(count: int) -> Tensor:
        size = torch.Size(shape).numel()
        return (0.5 + 0.02 * torch.randn(count, size, generator=rng)).clamp(0, 1)

    def cost(v: Tensor) -> Tensor:
        return how.total_variation * variation(image(v))

    return Space(image, cost, start, PIXEL_RATE, box=True)


def variation(x: Tensor) -> Tensor:
    """Mean square of the differences of neighbours, along every side of ``x`` (n, C, ...): (n,)."""
    sides = [x.diff(dim=d) for d in range(2, x.dim()) if x.shape[d] > 1]
    return torch.stack([d.square().flatten(1).mean(1) for d in sides]).sum(0)


def sought(embed: Embed, wanted: Tensor, space: Space, how: PictureSettings) -> Tensor:
    """(n, *shape): for each of ``wanted`` (n, dim) the best picture of all restarts.

    What is lowest is the distance of its embedding, squared, in that of the vectors wanted among
    themselves, and the space's cost.
    """
    scale = spread(wanted)

    def height(v: Tensor, aims: Tensor) -> Tensor:
        away = (embed(space.image(v)) - aims).square().sum(1)
        return away / (2 * scale) + space.cost(v)

    out = []
    for aims in torch.split(wanted, CHUNK):
        tried = [_descended(height, aims, space, how.steps) for _ in range(how.restarts)]
        heights = torch.stack([h for h, _ in tried])  # (restarts, n)
        best = heights.nan_to_num(nan=torch.inf).argmin(0)
        points = torch.stack([v for _, v in tried])
        out.append(space.image(points[best, torch.arange(len(aims), device=best.device)]))
    return torch.cat(out)


def spread(wanted: Tensor) -> float:
    """Mean squared distance of ``wanted`` (n, dim) from their mean; 1 where it is 0."""
    scale = float((wanted - wanted.mean(0)).square().sum(1).mean())
    return scale if scale > 0 else 1.0


def _descended(
    height: Callable[[Tensor, Tensor], Tensor], aims: Tensor, space: Space, steps: int
) -> tuple[Tensor, Tensor]:
    """The height of each picture after ``steps`` of Adam, (n,), and its numbers (n, size)."""
    v = space.start(len(aims)).to(aims).requires_grad_()
    optimizer = torch.optim.Adam([v], lr=space.rate)
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.enable_grad():
            torch.autograd.backward(height(v, aims).sum())
        optimizer.step()
        if space.box:
            with torch.no_grad():
                v.clamp_(0, 1)
    with torch.no_grad():
        return height(v, aims), v.detach()


def decoded(embed: Embed, wanted: Tensor, x: Tensor, how: PictureSettings) -> Tensor:
    """(n, *shape): pictures of ``wanted`` (n, dim) by ridge regression of ``x`` on its embeddings.

    The ridge is in mean variances of an embedding's number: at 1 the regression is that of
    embeddings with as much noise as signal, so a vector that lies further out than any image's
    embedding is not taken for more than it says.
    """
    with torch.no_grad():
        f = torch.cat([embed(some) for some in torch.split(x, CHUNK)]).double()
    centre, mean = f.mean(0), x.mean(0)
    away, change = f - centre, (x - mean).flatten(1).double()
    weight = how.ridge * float(away.square().sum()) / f.shape[1]
    gram = away.T @ away + max(weight, 1e-12) * torch.eye(f.shape[1]).to(f)
    turn = torch.linalg.solve(gram, away.T @ change)
    moved = (wanted.double() - centre) @ turn
    return mean + moved.view(len(wanted), *x.shape[1:]).to(mean)
