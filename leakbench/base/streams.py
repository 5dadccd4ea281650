"""Named random streams: a draw is a pure function of the seed and of what it is drawn for.

That is (seed, domain, round, phase, step, name, party). There is no state to save or restore, so a
resumed run draws what the uninterrupted one would have drawn, whatever engine runs and whoever else
draws. Numbers are SplitMix64 (Steele, Lea, Flood 2014) started at a SHA-256 of the name; round,
step and party are mixed in as integers, so everything runs on any device and under vmap.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from leakbench.base import dice
from leakbench.base.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
SHARED = -1  # the party number of draws that belong to nobody, and of the server
SIDE_BY_SIDE = "torch's own dice are thrown, of which clients side by side have one set for all"
DICE = "dice"  # what the log calls the number at which the process's own dice began


def _mix(z: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64: wrapping products, logical shifts by masks."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * (0x94D049BB133111EB - (1 << 64))
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


def _wrap(value: int) -> int:
    """A whole number as int64 wraps it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _mix_number(z: int) -> int:
    """The same as ``_mix``, of a number of Python's."""
    z = _wrap((z ^ ((z >> 30) & 0x3FFFFFFFF)) * 0xBF58476D1CE4E5B9)
    z = _wrap((z ^ ((z >> 27) & 0x1FFFFFFFFF)) * 0x94D049BB133111EB)
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@lru_cache(maxsize=4096)
def _start(*path: str | int) -> int:
    """The 64-bit start of the stream called ``path``."""
    text = "/".join(map(str, path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


class Rng:
    """A party's named draws. The same name at the same place of the run is the same draw.

    Args:
        seed: the run's seed.
        domain: whose dice these are ("defense", "init", "batch", "audit", ...).
        party: () or (M,) int64, the client's index; or ``SHARED``, drawn on ``device``.
        dtype: of the floating-point draws.
        round: of the run; step: within the phase, or 0.
        phase: name of the phase, "" outside training.
    """

    def __init__(
        self,
        seed: int,
        domain: str,
        party: Tensor | int,
        dtype: torch.dtype,
        *,
        round: int = 0,
        phase: str = "",
        step: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.seed, self.domain, self.party, self.dtype = seed, domain, party, dtype
        self.device = device if isinstance(party, int) else party.device
        self.round, self.phase, self.step = round, phase, step
        self.log: dict[str, Tensor] | None = None  # filled while the truth is recorded

    def at(self, phase: str, step: int = 0) -> Rng:
        """The same party's dice in another phase or local step."""
        rng = type(self)(self.seed, self.domain, self.party, self.dtype, device=self.device)
        rng.round, rng.phase, rng.step = self.round, phase, step
        rng.log = self.log
        return rng

    def always(self) -> Rng:
        """The same party's dice outside all rounds: the same draw whenever it is asked for."""
        rng = type(self)(self.seed, self.domain, self.party, self.dtype, device=self.device)
        rng.log = self.log
        return rng

    def _draw(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        value = make()
        if self.log is not None:
            self.log[f"{self.step}/{name}"] = value
        return value

    def _unit(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """U(0, 1) in float64, never 0 or 1; a leading axis for the parties if ``party`` is (M,)."""
        key: Tensor | int
        if isinstance(self.party, int):
            # In Python: fifteen kernels for one number take longer than those of a short draw.
            key = self._key(name, self.party)
        else:
            start = _start(self.seed, self.domain, self.phase, name)
            key = _mix(self.party * _GOLDEN + start)
            for turn in (self.round, self.step):
                key = _mix(key + _wrap(turn * _GOLDEN))
            key = key.view((*key.shape, *[1] * len(shape)))
        count = torch.arange(1, math.prod(shape) + 1, device=self.device).view(shape)
        bits = _mix(key + count * _GOLDEN)
        return (((bits >> 11) & ((1 << 53) - 1)).double() + 0.5) * 2.0**-53

    def _key(self, name: str, party: int) -> int:
        start = _start(self.seed, self.domain, self.phase, name)
        key = _mix_number(_wrap(party * _GOLDEN + start))
        for turn in (self.round, self.step):
            key = _mix_number(_wrap(key + turn * _GOLDEN))
        return key

    @contextmanager
    def lent(self) -> Iterator[None]:
        """The process's own dice (``dice``) begin where this stream says, and are put back.

        For code that throws those, as dropout does: a single party's; of parties side by side each
        would have to throw its own. The log, if there is one, says that they were thrown.

        Raises:
            RuntimeError: they were, by parties side by side.
        """
        if not isinstance(self.party, int) and torch._C._functorch.is_batchedtensor(self.party):
            with dice.untouched(SIDE_BY_SIDE):
                yield
            return
        number = self._number()
        with dice.lent(number):
            yield
            if self._notes and dice.thrown(number):
                self._draw(DICE, lambda: torch.tensor(number))

    def _number(self) -> int:
        """Where the process's own dice begin."""
        return self._key(DICE, int(self.party)) % 2**dice.BITS

    @property
    def _notes(self) -> bool:
        return self.log is not None

    def uniform(self, name: str, *shape: int) -> Tensor:
        """U(0, 1), shape ``shape``."""
        return self._draw(name, lambda: self._unit(name, shape).to(self.dtype))

    def normal(self, name: str, *shape: int) -> Tensor:
        """N(0, 1), shape ``shape``, by the inverse distribution function."""
        return self._draw(name, lambda: torch.special.ndtri(self._unit(name, shape)).to(self.dtype))

    def integers(self, name: str, high: int, *shape: int) -> Tensor:
        """Uniform on 0 .. high - 1, int64."""
        return self._draw(name, lambda: (self._unit(name, shape) * high).long().clamp(max=high - 1))

    def permutation(self, name: str, n: int) -> Tensor:
        """A permutation of n as indices (n,), int64."""
        return self._draw(name, lambda: self._unit(name, (n,)).argsort(-1))

    def some(self, name: str, n: int, k: int) -> Tensor:
        """The first k of the permutation of that name, (k,), int64; without sorting the others."""
        return self._draw(
            name, lambda: self._unit(name, (n,)).topk(k, largest=False, sorted=True).indices
        )

    def beta(self, name: str, a: int, *shape: int) -> Tensor:
        """Beta(a, a) for a whole a: the middle one of 2a - 1 uniforms."""

        def middle() -> Tensor:
            uniforms = self._unit(name, (*shape, 2 * a - 1))
            return uniforms.sort(-1).values[..., a - 1].to(self.dtype)

        return self._draw(name, middle)


def shared(
    seed: int,
    domain: str,
    dtype: torch.dtype | None = None,
    *,
    round: int = 0,
    device: torch.device | str = "cpu",
) -> Rng:
    """Dice that belong to no client: selection, initial weights, audits, splits.

    ``dtype``: of real numbers, float64 if None.
    """
    real = torch.float64 if dtype is None else dtype
    return Rng(seed, domain, SHARED, real, round=round, device=device)
