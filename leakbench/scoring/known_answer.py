"""What is true, from whoever knows it.

What a metric compares a guess with where there is no run folder.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from leakbench.attacking.guess import Guess
from leakbench.base.errors import NotMeasured, UsageError
from leakbench.scoring.originals import ROWS, Originals


class KnownAnswer:
    """The truth about one client, as in ``PSNR.score(guess, KnownAnswer(x=x))[0].value``.

    Args:
        client: its number.
        x: (B, ...), the examples behind its update in any order, or behind its features row by row.
        y: (n,), the labels that were guessed.
        prototypes: (C, dim), of all clients.
        distance: how prototypes are compared.
        signal: is ``x`` without bounds, no image in [0, 1]?
    """

    def __init__(
        self,
        *,
        client: int = 0,
        x: Tensor | None = None,
        y: Tensor | None = None,
        prototypes: Tensor | None = None,
        distance: Literal["cosine", "euclidean"] = "cosine",
        signal: bool = False,
    ) -> None:
        self.client, self.distance, self.signal = client, distance, signal
        self._given = {"x": x, "y": y, "prototypes": prototypes}

    def _get(self, name: str) -> Tensor:
        value = self._given[name]
        if value is None:
            raise UsageError(f"this metric needs the true {name}: write KnownAnswer({name}=...).")
        return value.detach().cpu()

    def originals(self, guess: Guess) -> Originals:
        """What ``guess`` is about: its rows of ``x``, or ``x`` in any order.

        Raises:
            UsageError: ``x`` was not given.
        """
        x = self._get("x").double()
        for name, at in guess.tensors.items():
            if name.endswith(ROWS):
                return Originals(x[at.cpu()], at.cpu(), ordered=True)
        spare = len(guess.tensors["x"]) > len(x)
        return Originals(x, torch.arange(len(x)), ordered=False, spare=spare)

    def inputs(self, kind: str) -> Tensor:
        """``x``, float64."""
        return self._get("x").double()

    def labels(self, phase: int | None = None) -> Tensor:
        """``y``, int64."""
        return self._get("y").long()

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
