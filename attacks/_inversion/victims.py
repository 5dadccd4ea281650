"""Whose update is inverted, and what a search of it came to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from attacks._inversion.variation import OF_BATCHES, OF_FEW, OF_SIGNS, Fading
from attacks._updates import Behind
from leakbench.attacking import Replay, View
from leakbench.base import torch
from leakbench.federation import Batch, party
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

PROTOTYPE = "prototype"  # what methods call it among their private tensors
FEW = 1024  # pixels of a batch whose images are as settled by its gradient as a single one
ROUGH = ("ReLU", "LeakyReLU", "ReLU6", "MaxPool2d", "MaxPool1d")  # of torch.nn


class Settings(Protocol):
    """What of the attack's fields the searches read."""

    @property
    def steps(self) -> int: ...
    @property
    def restarts(self) -> int: ...
    @property
    def total_variation(self) -> float: ...
    @property
    def side_by_side(self) -> int: ...


class Victim:
    """One update, what is known of its batch, and what is solved for.

    Args:
        view: where the message was seen.
        behind: the update, and the local steps that made it.
        labels: (B,) of the examples sought.
        private: the loss's private inputs, each with a value: a stand-in, or where a search starts.
        free: the names of those that are solved for, with the images.
        seed: of the dice that stand for the victim's own.
        beside: other updates by the same examples, which are matched together with this one.
    """

    def __init__(
        self,
        view: View,
        behind: Behind,
        labels: Tensor,
        private: Mapping[str, Tensor],
        free: Sequence[str],
        seed: int,
        beside: Sequence[Victim] = (),
    ) -> None:
        self.view, self.behind, self.labels = view, behind, labels
        self.private, self.free, self.seed = dict(private), tuple(free), seed
        self.beside = tuple(beside)
        self.shape = (len(labels), *view.facts.shape)
        self._by_signs = False
        self._replays: dict[torch.dtype, Replay] = {}

    @property
    def by_signs(self) -> bool:
        """Is a candidate held against the signs of the updates, not their numbers?"""
        return self._by_signs

    @by_signs.setter
    def by_signs(self, value: bool) -> None:
        self._by_signs = value
        for other in self.beside:
            other.by_signs = value

    def replay(self, dtype: torch.dtype) -> Replay:
        """The victim's loss, computed in ``dtype``."""
        if dtype not in self._replays:
            self._replays[dtype] = replayed(self.view, self.behind, self.seed, dtype)
        return self._replays[dtype]

    @property
    def tells_signs(self) -> bool:
        """Was its update one step of Adam, which tells the sign alone of some numbers, or two?"""
        adam = self.replay(torch.float32).adam
        return self.paired or (adam is not None and not adam.rough and not adam.whole)

    @property
    def paired(self) -> bool:
        """Was it two steps of Adam, each number of which tells a direction?"""
        return self.replay(torch.float32).pair is not None

    @property
    def smooth(self) -> bool:
        """Has what is searched no kinks? Then second derivatives help."""
        if self.by_signs:
            return False
        rough = tuple(getattr(torch.nn, name) for name in ROUGH)
        return not any(isinstance(m, rough) for m in self.replay(torch.float32).module.modules())

    @property
    def few(self) -> bool:
        """Is it one image, or are they tiny? Many other batches match as well as a larger one."""
        return len(self.labels) == 1 or math.prod(self.shape) <= FEW

    @property
    def fading(self) -> Fading:
        """How much of the prior its search keeps."""
        if self.by_signs:
            return OF_SIGNS
        return OF_BATCHES if self.smooth and not self.few else OF_FEW

    @property
    def kind(self) -> tuple[object, ...]:
        """Victims of one kind can be searched side by side: all their tensors have equal shapes."""
        m = self.behind.message
        inputs = tuple((k, tuple(v.shape)) for k, v in sorted(self.private.items()))
        names = tuple((k, tuple(v.shape)) for k, v in sorted(m.payload.items()))
        adam = self.replay(torch.float32).adam
        rough = adam is not None and adam.rough  # a clipped step of Adam is read in another way
        behind, read = self.behind, (rough, self.paired, self.by_signs, m.sparse)
        beside = len(self.beside)
        return (behind.rows, behind.loss, self.shape, inputs, self.free, names, beside, *read)


def replayed(view: View, behind: Behind, seed: int, dtype: torch.dtype) -> Replay:
    """The loss behind an update; the same ``seed``, the same throws of dice."""
    dice = torch.Generator().manual_seed(seed)
    return Replay(view, behind.message, dice, rows=behind.rows, phase=behind.loss, dtype=dtype)


def started(replay: Replay, labels: Tensor) -> dict[str, Tensor]:
    """The loss's private inputs, as they were of a client with examples of such labels (B,) alone.

    For whoever knows no more of its data; images are blank.
    """
    x = replay.blank.x.new_zeros(len(labels), *replay.facts.shape)
    return replay.started(Batch(x, labels.to(replay.device)))


def stand_in(view: View, m: Message, name: str, guess: Tensor) -> Tensor:
    """The newest message of that name that the victim had sent *before* this loss.

    Where none was kept, the one of this round (one step later); else the guess.
    """
    kind = name.rpartition("/")[2]
    if kind not in view.threat.kinds:
        return guess
    said = [e for e in view.messages(kind, sender=m.sender) if e.round <= m.round]
    me = party(m.sender)
    sent = [t for t, sender, _ in view.traffic(kind).tolist() if sender == me and t < m.round]
    # One that is older still stands in for nothing newer.
    said.sort(key=lambda e: (e.round in sent[-1:], e.round))
    if not said or said[-1].payload.shape != guess.shape:
        return guess
    return said[-1].payload.to(guess)


def prototype(private: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A client's own prototype among private inputs, "own/prototype" or wherever it keeps it."""
    kept = [v for k, v in private.items() if k.rpartition("/")[2] == PROTOTYPE]
    return {PROTOTYPE: kept[0]} if kept else {}


@dataclass(frozen=True)
class Candidate:
    """Where one search of one victim ended."""

    x: Tensor  # (B, *shape) float64, on [0, 1] where inputs have bounds
    private: dict[str, Tensor] = field(default_factory=dict)  # the ``free`` ones, float64
    mismatch: float = math.inf  # 1 - cosine of the gradients, in float64, without any prior
    variation: float = 0.0  # total variation of x, as ``priors`` weighs it
    engine: str = ""
    restart: int = 0
    settled: bool = True  # did the search end by itself, or by its budget?
