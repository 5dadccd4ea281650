"""Where the numbers of an input lie: a public fact of the data, like an input's shape.

A search keeps to it, and images are shown and scored on [0, 1], onto which it is mapped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

SLACK = 1e-4  # of a range's length: the rounding of half precision is not outside


@dataclass(frozen=True)
class InputRange:
    """From ``low`` to ``high``: one number for all, or one for each channel; () without bounds.

    ``InputRange((-1.0,), (1.0,))``; ``InputRange.normalised(mean, std)`` of images on [0, 1] of
    which a channel's mean was taken off and which were divided by its deviation; and
    ``InputRange.unbounded()`` of standardised signals and tables. In place of the first ``(-1, 1)``
    will do.
    """

    low: tuple[float, ...] = (0.0,)
    high: tuple[float, ...] = (1.0,)
    behind: int = 0  # axes of an input behind that of its channels

    @classmethod
    def normalised(cls, mean: Sequence[float] | float, std: Sequence[float] | float) -> Self:
        """Of images on [0, 1] that became (x - mean) / std, channel by channel or alike.

        Raises:
            UsageError: they are no numbers, no equally many, or a deviation is not above 0.
        """
        centre, wide = _numbers(mean, "mean"), _numbers(std, "std")
        if len(centre) != len(wide) or min(wide) <= 0:
            raise UsageError(
                f"mean = {mean}, std = {std}: expected as many of one as of the other, one for each"
                " channel or one for all, and every std above 0."
            )
        both = list(zip(centre, wide, strict=True))
        return cls(tuple(-m / s for m, s in both), tuple((1 - m) / s for m, s in both))

    @classmethod
    def unbounded(cls) -> Self:
        """Of what has no ends, as standardised signals and tables."""
        return cls((), ())

    @classmethod
    def of(cls, given: Any, shape: Sequence[int]) -> Self:
        """What somebody declared, a range or (low, high), for inputs of ``shape``.

        Raises:
            UsageError: it is no range, or has another number of channels.
        """
        if not isinstance(given, cls):
            if not isinstance(given, Sequence) or len(given) != 2:
                raise UsageError(
                    f"input_range = {given!r}: expected (low, high), as (0, 255), or an InputRange."
                )
            given = cls(_numbers(given[0], "input_range"), _numbers(given[1], "input_range"))
        many = len(given.low)
        pairs = zip(given.low, given.high, strict=False)
        if many != len(given.high) or not all(low < high for low, high in pairs):
            raise UsageError(
                f"input_range from {given.low} to {given.high}: expected every low below its high."
            )
        if many > 1 and (not shape or shape[0] != many):
            raise UsageError(
                f"input_range has {many} channels, and inputs are {tuple(shape)}: give a number for"
                " each channel, or one for all."
            )
        return replace(given, behind=max(len(shape) - 1, 0))

    @property
    def bounded(self) -> bool:
        """Has it ends?"""
        return bool(self.low)

    @property
    def plain(self) -> bool:
        """Is it [0, 1], or without bounds? Then nothing is mapped."""
        return not self.low or ({*self.low}, {*self.high}) == ({0.0}, {1.0})

    def ends(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Low and high as tensors that meet inputs (..., *shape), of the kind of ``like``."""
        low, high = self.low or (-math.inf,), self.high or (math.inf,)
        wide = [1] * (self.behind if len(low) > 1 else 0)
        made = [torch.tensor(end, dtype=like.dtype, device=like.device) for end in (low, high)]
        return made[0].view(-1, *wide), made[1].view(-1, *wide)

    def unit(self, x: Tensor) -> Tensor:
        """Inputs (..., *shape) on [0, 1]; as they are, where there are no bounds."""
        if self.plain:
            return x
        low, high = self.ends(x)
        return (x - low) / (high - low)

    def native(self, u: Tensor) -> Tensor:
        """The inputs (..., *shape) whose ``unit`` is ``u``."""
        if self.plain:
            return u
        low, high = self.ends(u)
        return low + (high - low) * u

    def kept(self, x: Tensor) -> Tensor:
        """Inputs (..., *shape), cut off at the ends."""
        return x.clamp(*self.ends(x)) if self.bounded else x

    def beyond(self, x: Tensor) -> str:
        """How inputs (..., *shape) leave the range, half a sentence; empty where they do not."""
        if not self.bounded or not x.numel():
            return ""
        least, most = self.unit(x).aminmax()
        if float(least) >= -SLACK and float(most) <= 1 + SLACK:
            return ""
        return f"lie between {float(x.min()):.4g} and {float(x.max()):.4g}, outside {self}"

    def __str__(self) -> str:
        if not self.bounded:
            return "no bounds"
        each = zip(self.low, self.high, strict=True)
        return ", ".join(f"[{low:.4g}, {high:.4g}]" for low, high in each)


UNIT = InputRange()
# What a user writes, to say where inputs lie that are not on [0, 1].
DECLARE = (
    "input_range=(low, high), leakbench.InputRange.normalised(mean, std) of normalised images, or"
    " leakbench.InputRange.unbounded() of standardised signals and tables"
)


def declared(given: Any, shape: Sequence[int], *, signal: bool = False) -> InputRange:
    """What a user says of inputs of ``shape``: a range, or that they are signals, or nothing.

    Raises:
        UsageError: both, or it is no range.
    """
    if signal and given is not None:
        raise UsageError("signal=True means no bounds: say either that or input_range.")
    if signal:
        given = InputRange.unbounded()
    return InputRange.of(UNIT if given is None else given, shape)


def _numbers(given: Any, what: str) -> tuple[float, ...]:
    try:
        found = tuple(float(v) for v in (given if isinstance(given, Sequence) else [given]))
    except (TypeError, ValueError):
        found = ()
    if not found or not all(map(math.isfinite, found)):
        raise UsageError(f"{what} = {given!r}: expected a finite number, or one for each channel.")
    return found
