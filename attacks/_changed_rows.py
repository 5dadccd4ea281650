"""What a wrapper did to rows that clients share, undone or imitated: scaled, noised, left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from leakbench.base import kept, torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

MAIN = 0.9  # of the mean squares, by the axes that rows vary along
ALIKE = 1.25  # times: rows whose scale differs by less are as they were made
NOISE = 0.5  # of the mean deviation of a number: less noise than that is none
LARGEST = 0.25  # of the mean size of what was sent: where the least are larger, small ones were not
FEWEST = 0.05  # of what was sent, that are the least of it
FEW = 0.1  # of the messages
FAR = 1e4  # deviations from the attacker's own rows: nothing further out tells more


@dataclass(frozen=True)
class Rows:
    """The rows of a message that are finite, as they were sent."""

    x: Tensor  # (k, d) float64
    there: Tensor  # (k, d) bool: which numbers were sent
    at: Tensor  # (k,) int64: which rows of the message they are

    @classmethod
    def of(cls, x: Tensor, there: Tensor) -> Self:
        """Of a message (n, ...); rows of which a number is not finite, or of none, are left out."""
        flat = x.detach().double().flatten(1).cpu()
        at = flat.float().isfinite().all(1).nonzero().flatten()
        return cls(flat[at], there.flatten(1).cpu()[at], at)


def axes_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """The singular values (r,) and axes (r, d) of rows (n, d), worked out once for all clients."""

    def made() -> tuple[Tensor, ...]:
        return torch.linalg.svd(x, full_matrices=False)[1:]

    sizes, axes = kept.once(kept.digest("axes", x), made)
    return sizes, axes


@dataclass(frozen=True)
class RowChange:
    """What was done to the rows of all messages that were made alike."""

    mean: Tensor  # (d,) of the attacker's own rows
    size: Tensor  # (d,) mean squares of the same
    axes: Tensor  # (d, r) orthonormal, the main ones of the same
    along: float  # mean squares along these, of all of them together
    rest: float  # and beside them
    scaled: bool  # were they scaled?
    noise: float  # standard deviation beside what rows are when scaled back
    share: float  # of the numbers that are sent, and are not 0 by themselves
    least: float  # of the attacker's own numbers, by size, that would be sent; 0: of any size
    top: float  # mean squares of those

    @classmethod
    def of(cls, own: Tensor, messages: Sequence[Rows]) -> Self:
        """From the attacker's rows own (n, d), as they are made before anything is done to them."""
        sizes, ways = axes_of(own / len(own) ** 0.5)
        power = sizes.square()
        explained = power.cumsum(0) / power.sum().clamp(min=1e-300)
        many = int((explained < MAIN).sum()) + 1
        along, rest = float(power[:many].sum()), float(power[many:].sum())
        size = own.square().mean(0)
        share, least = _sent(own, messages)
        about = (own.mean(0), size, ways[:many].T, along, rest)
        numbers = own[(own != 0) & (own.abs() >= least)]
        top = float(numbers.square().mean()) if len(numbers) else 0.0
        change = cls(*about, False, 0.0, share, least, top)
        found = [change.measured(one) for one in messages if len(one.x)]
        if not found:
            return change
        scales = torch.tensor([s for s, _ in found], dtype=torch.float64)
        noise = float(torch.tensor([n for _, n in found], dtype=torch.float64).median())
        usual = float(own.std(0, correction=0).square().mean().sqrt())
        low, high = float(scales.quantile(FEW)), float(scales.quantile(1 - FEW))
        scaled = high < 1 / ALIKE or low > ALIKE  # one that is small may be of somebody small
        noise = noise if noise > NOISE * usual else 0.0
        return cls(*about, scaled, noise, share, least, top)

    def measured(self, rows: Rows) -> tuple[float, float]:
        """By how much rows were scaled, and the noise's deviation once they are scaled back.

        White noise adds as much along each axis, and what rows vary by is along few. Of rows that
        were not sent whole no noise is told; the numbers that were are the larger ones, if any.
        """
        if not bool(rows.there.all()):
            sizes = rows.x[rows.there].square()
            usual = max(self.top, 1e-300)
            return (float(sizes.mean()) / usual) ** 0.5 if len(sizes) else 1.0, 0.0
        each = rows.x @ self.axes
        on = each.square().sum(1)
        off = (rows.x.square().sum(1) - on).clamp(min=0)
        main, other = float(on.median()), float(off.median())  # one absurd row is one row
        wide, r = rows.x.shape[1], self.axes.shape[1]
        ratio = self.rest / max(self.along, 1e-300)
        room = wide - r - r * ratio
        noise = max(other - main * ratio, 0.0) / room if room > 0 else 0.0
        scale = (max(main - noise * r, 1e-12 * main) / max(self.along, 1e-300)) ** 0.5
        return scale, noise**0.5 / max(scale, 1e-300)

    def undone(self, rows: Rows, expected: Tensor) -> Tensor:
        """(k, d): scaled back, and in place of what was not sent ``expected`` (k, d)."""
        x = rows.x / max(self.measured(rows)[0], 1e-300) if self.scaled else rows.x
        far = FAR * self.size.mean().sqrt().clamp(min=1e-300)
        return torch.where(rows.there, x, expected).clamp(-far, far)

    def imitated(self, own: Tensor, expected: Tensor, rng: torch.Generator) -> Tensor:
        """The attacker's own rows (n, d) with as much noise on them, and as little of them sent."""
        if self.noise:
            own = own + self.noise * torch.randn(own.shape, generator=rng, dtype=own.dtype)
        if self.share == 1:
            return own
        drawn = torch.rand(own.shape, generator=rng, dtype=own.dtype) < self.share
        return torch.where(own.abs() >= self.least if self.least else drawn, own, expected)


def _sent(own: Tensor, messages: Sequence[Rows]) -> tuple[float, float]:
    """The share of numbers that messages have, and how large they are where the largest were sent.

    The least of what was drawn at random is next to nothing.
    """
    masked = [one for one in messages if not bool(one.there.all()) and bool(one.there.any())]
    if not masked:
        return 1.0, 0.0
    real = float((own != 0).double().mean())
    sent = [float(one.there.double().mean()) / max(real, 1e-300) for one in masked]
    share = min(float(torch.tensor(sent).median()), 1.0)
    edges = []
    for one in masked:
        sizes = one.x[one.there].abs()
        small = sizes.kthvalue(1 + int(FEWEST * (len(sizes) - 1))).values
        edges.append(float(small / sizes.square().mean().sqrt()))
    if float(torch.tensor(edges).median()) < LARGEST:
        return share, 0.0
    ordered = own.abs().flatten().sort(descending=True).values
    return share, float(ordered[min(int(share * real * len(ordered)), len(ordered) - 1)])
