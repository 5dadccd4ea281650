"""Axes: from values to pixels, linear or logarithmic, either way round, with round ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leakbench.base import Meaning
from leakbench.results import Number
from leakbench.statistics import Estimate

FAR = 0.25  # of the way from a blind guess to nothing defended; less is drawn as a line


@dataclass(frozen=True)
class AxisScale:
    """From values to pixels; values outside are put on the edge.

    ``low`` lies at pixel ``start``, ``high`` at ``stop`` (an axis may run down).
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        a, b, v = (self._map(x) for x in (self.low, self.high, value))
        share = min(max((v - a) / (b - a), 0.0), 1.0)
        return self.start + share * (self.stop - self.start)

    def value(self, pixel: float) -> float:
        """The value at a pixel."""
        a, b = self._map(self.low), self._map(self.high)
        found = a + (pixel - self.start) / (self.stop - self.start) * (b - a)
        return 10.0**found if self.log else found

    def _map(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value

    def ticks(self, count: int = 5) -> list[tuple[float, str]]:
        """(value, label) of about ``count`` round values within the domain."""
        low, high = sorted((self.low, self.high))
        if self.log:
            powers = range(math.ceil(self._map(low) - 1e-9), math.floor(self._map(high) + 1e-9) + 1)
            if len(powers) < 2:  # less than two decades: round values between them as well
                decades = range(math.floor(self._map(low)), math.ceil(self._map(high)) + 1)
                between = [m * 10.0**p for p in decades for m in (1, 2, 5)]
                return [(v, f"{v:g}") for v in between if low <= v <= high]
            return [(10.0**p, f"{10.0**p:g}") for p in powers[:: max(1, len(powers) // count)]]
        step = nice((high - low) / count)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        return [(i * step, f"{i * step:.{digits}f}") for i in range(first, last + 1)]


def nice(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * 0.999)


def domain(
    values: Iterable[float], top: float | None, *, log: bool = False, full: bool = False
) -> tuple[float, float]:
    """The stretch of an axis that holds all ``values``.

    From 0, at most to ``top`` (all of it if ``full``); or padded, where there is no top.
    """
    found = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(found), max(found)
    if log:
        low, high = max(low, 1e-9), max(high, 1e-9)
        return 10 ** math.floor(math.log10(low) - 1e-9), 10 ** math.ceil(math.log10(high) + 1e-9)
    if top and full:
        return min(0.0, math.floor(low * 5) / 5), top
    if top:
        return 0.0, min(top, math.ceil((high + 0.02) * 10) / 10)
    pad = 0.06 * (high - low or 1.0)
    return (0.0 if 0 <= low < 0.4 * high else low - pad), high + pad


def leakage(meaning: Meaning, numbers: Iterable[Number], start: float, stop: float) -> AxisScale:
    """An axis that holds all of ``numbers``, their blind guesses and controls.

    Towards ``stop`` is more leakage.
    """
    values: list[float] = []
    for n in numbers:
        values += [n.value.value, n.value.low, n.value.high, n.floor.value, n.control.value]
    log = meaning.drawn == "log"
    low, high = domain(values, top_of(meaning), log=log, full=True)
    if meaning.direction == "down":
        start, stop = stop, start
    return AxisScale(low, high, start, stop, log)


def top_of(meaning: Meaning) -> float | None:
    """Where an axis ends that is drawn from 0 to 1."""
    return 1.0 if meaning.drawn == "unit" else None


def blind_guess(rows: Sequence[Number]) -> tuple[float, float]:
    """From the lowest to the highest; with the interval's end where that reaches far inwards."""
    return _with_far(rows, [r.floor for r in rows], inwards=1)


def nothing_defended(rows: Sequence[Number]) -> tuple[float, float]:
    """From the lowest to the highest; with the interval's end where that reaches far inwards.

    Eight images of eight are no point: they are 63 to 100 % of all.
    """
    return _with_far(rows, [r.control for r in rows], inwards=-1)


def _with_far(
    rows: Sequence[Number], ends: Sequence[Estimate], *, inwards: int
) -> tuple[float, float]:
    found = [e.value for e in ends]
    for row, end in zip(rows, ends, strict=True):
        up = (row.meaning.direction == "up") == (inwards > 0)
        reached = end.high if up else end.low
        if abs(reached - end.value) > FAR * abs(row.control.value - row.floor.value):
            found.append(reached)
    return min(found), max(found)
