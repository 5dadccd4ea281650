"""What is true, from whoever knows it.

What a metric compares a guess with where there is no run folder.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from leakbench.attacking import payloads
from leakbench.attacking.guess import Guess
from leakbench.base.errors import NotMeasured, UsageError
from leakbench.federation.input_range import DECLARE, InputRange, declared
from leakbench.scoring.originals import ROWS, Originals, as_floats


class KnownAnswer:
    """The truth about one client, as in ``PSNR.score(guess, KnownAnswer(x=x))[0].value``.

    Args:
        client: its number.
        x: (B, ...), the examples behind its update in any order, or behind its features row by row.
        y: (n,), the labels that were guessed.
        prototypes: (C, dim), of all clients.
        distance: how prototypes are compared.
        input_range: where the numbers of ``x`` lie, (low, high) or an ``InputRange``. Unless given
            that of the transcript that the guess is from, else [0, 1]; ``x`` of uint8 stands for
            x / 255 there.
        signal: is ``x`` without bounds? As ``InputRange.unbounded()``.

    Raises:
        UsageError: ``input_range`` is none.
    """

    def __init__(
        self,
        *,
        client: int = 0,
        x: Tensor | None = None,
        y: Tensor | None = None,
        prototypes: Tensor | None = None,
        distance: Literal["cosine", "euclidean"] = "cosine",
        input_range: InputRange | tuple[float, float] | None = None,
        signal: bool = False,
    ) -> None:
        self.client, self.distance = client, distance
        shape = () if x is None else x.shape[1:]
        said = signal or input_range is not None
        self._range = declared(input_range, shape, signal=signal) if said else None
        self._given = {"x": x, "y": y, "prototypes": prototypes}

    def _lies(self, guess: Guess) -> InputRange:
        """Where inputs lie: as was said here, or where the guess is from."""
        theirs, x = guess.input_range, self._get("x")
        if self._range is None:
            return declared(theirs, x.shape[1:])
        if theirs and (theirs.low, theirs.high) != (self._range.low, self._range.high):
            raise UsageError(
                f"the guess was made for inputs in {theirs}, and the answer says {self._range}:"
                " give the same input_range to Transcript and KnownAnswer."
            )
        return self._range

    def _get(self, name: str) -> Tensor:
        value = self._given[name]
        if value is None:
            raise UsageError(f"this metric needs the true {name}: write KnownAnswer({name}=...).")
        return value.detach().cpu()

    def originals(self, guess: Guess) -> Originals:
        """What ``guess`` is about: its rows of ``x``, or ``x`` in any order.

        Raises:
            UsageError: ``x`` was not given, or lies outside of its range.
        """
        lies = self._lies(guess)
        x = as_floats(self._get("x"), lies)
        if lies.beyond(x):
            raise UsageError(f"the true inputs {lies.beyond(x)}: say KnownAnswer(x=x, {DECLARE}).")
        for name, at in guess.tensors.items():
            if name.endswith(ROWS):
                return Originals.of(x[at.cpu()], at.cpu(), lies, ordered=True)
        spare = len(guess.tensors["x"]) > len(x)
        return Originals.of(x, torch.arange(len(x)), lies, ordered=False, spare=spare)

    def inputs(self, kind: str) -> Tensor:
        """``x``, float64."""
        return self._get("x").double()

    def labels(self, phase: int | None = None) -> Tensor:
        """``y``, int64.

        Raises:
            UsageError: ``y`` was not given, or is no labels.
        """
        y = self._get("y")
        columns = y.shape[1] if y.ndim == 2 and y.shape[1] > 1 else 0
        return payloads.labels_payload(y, "the true y", columns)

    def classes(self, guess: Guess) -> tuple[Tensor, Tensor]:
        """``y``, each example once, and its place (B,)."""
        y = self.labels()
        return y, torch.arange(len(y))

    def prototypes(self) -> Tensor:
        """``prototypes``, float64."""
        return self._get("prototypes").double()

    def directions(self) -> Tensor:
        """``prototypes`` at length 1; 0 stays 0."""
        return torch.nn.functional.normalize(self.prototypes(), dim=-1)

    def gallery(self, row: int, true: Tensor) -> Any:
        """Raise NotMeasured: other examples of a class are a task's."""
        raise NotMeasured("in memory there is no gallery of other examples to tell the guess from")

    @property
    def truth(self) -> Any:
        """Raise NotMeasured: there is no run."""
        raise NotMeasured("it needs the truth of a whole run")
