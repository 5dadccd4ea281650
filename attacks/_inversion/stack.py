"""Several victims' gradients at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attacks._inversion.directions import Directions
from attacks._inversion.signs import Signs
from attacks._inversion.victims import Victim
from leakbench.attacking import Replay
from leakbench.base import Tree, torch
from leakbench.federation import Batch

if TYPE_CHECKING:
    from torch import Tensor


# Victims side by side, by what a step differentiates: benchmarks/inversion.py measures it. Fixed
# numbers and no measurement of the moment, so that a run's guesses do not depend on its clock.
# (weights of the net at most, victims); a larger net goes one at a time. No GPU was measured.
MOST = {"cpu": ((200_000, 16), (2_000_000, 4)), "cuda": ((20_000_000, 64),)}


def stackable(victim: Victim) -> int:
    """How many such victims it pays to search at once."""
    replay = victim.replay(torch.float32)
    if not replay.vectorises:
        return 1
    size = sum(p.numel() for p in replay.module.parameters())
    table = MOST.get(torch.device(replay.device).type, MOST["cpu"])
    return next((count for weights, count in table if size <= weights), 1)


class Stack:
    """Victims of one kind, one after another in every tensor: (V, ...).

    What all of them read alike (the model of the round) is kept once. ``beside``: stacks of their
    other updates, of other rounds, by the same images, as many in each as are ``stackable``.
    """

    def __init__(self, victims: Sequence[Victim], dtype: torch.dtype) -> None:
        self.victims, self.dtype = tuple(victims), dtype
        replays = [v.replay(dtype) for v in victims]
        self.first, self.facts = replays[0], replays[0].facts
        others = [other for v in victims for other in v.beside]
        most = stackable(victims[0])
        self.beside = [Stack(others[k : k + most], dtype) for k in range(0, len(others), most)]
        self._lies = self.facts.input_range
        self.labels = torch.stack([v.labels for v in victims])
        together = stacked([r.observed() for r in replays])
        # What a sender left out is not compared: whole tensors of zeros, or single numbers.
        told = stacked([r.sent() for r in replays]) if self.first.message.sparse else {}
        self.sent = {k: _beside(t.flatten(1).any(1).to(t), t) for k, t in together.items()}
        self.sent = {k: t * told[k] if told else t for k, t in self.sent.items()}
        steps = [r.adam for r in replays if r.adam is not None]
        pairs = [r.pair for r in replays if r.pair is not None]
        self._signs: Signs | Directions | None = None
        if all(v.by_signs for v in victims):
            several = Directions(pairs, self.sent) if pairs else None
            self._signs = several or Signs(steps, together, self.sent)
        together = {k: t * self.sent[k] for k, t in together.items()}
        size = length(together).clamp(min=1e-30)
        self.target = {k: t / _beside(size, t) for k, t in together.items()}
        places = stacked([r.place() for r in replays])
        self._shared = {k: v[0] for k, v in places.items() if bool((v == v[:1]).all())}
        self._each = {k: v for k, v in places.items() if k not in self._shared}
        inputs = stacked([v.private for v in victims])
        self.private = {k: v.to(_type(v, dtype)) for k, v in inputs.items()}

    def gradient(self, x: Tensor, free: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """{name: (V, ...)}: what each victim's batch ``x`` (V, B, ...) would have given.

        As far as its update tells (``Replay.compared``), or whole where signs are compared, and of
        each of two steps that tell their directions. Images are on [0, 1], where inputs have
        bounds.
        ``free``: {name: (V, ...)} of the private inputs that are solved for.
        """
        inputs = {**self.private, **free}

        def told(replay: Replay, batch: Batch, private: Tree) -> dict[str, Tensor]:
            if isinstance(self._signs, Directions):
                return replay.each(batch, private)
            found = replay.gradient(batch, private)
            return found if self._signs else replay.compared(found)

        if len(self.victims) == 1:
            batch = Batch(self._lies.native(x[0]), self.labels[0])
            found = told(self.first, batch, _row(inputs, 0))
            return {k: g[None] for k, g in found.items()}

        def one(each: Tree, images: Tensor, y: Tensor, private: Tree) -> Tree:
            place = {**self._shared, **each}
            there = self.first.at(place)
            batch = Batch(self._lies.native(images), y)
            return told(there, batch, private)

        found = torch.func.vmap(one)(self._each, x, self.labels, inputs)
        return dict(found)

    def mismatch(self, x: Tensor, free: Mapping[str, Tensor]) -> Tensor:
        """1 - cosine of each victim's gradient and the one that was sent, (V,), in [0, 2].

        Half the squared distance of the unit vectors, which keeps its digits where the cosine has
        none left; the mean over a victim's updates. The direction alone: matching it gives away one
        equation of thousands, and makes clipping harmless to the attacker. Of steps of Adam that
        tell signs what ``Signs`` or ``Directions`` say.
        """
        return self.mismatches(x, free).mean(1)

    def mismatches(self, x: Tensor, free: Mapping[str, Tensor]) -> Tensor:
        """(V, R): the same of each of a victim's R updates, its own first."""
        own = self._mismatch(x, free)[:, None]
        if not self.beside:
            return own
        wide = x.repeat_interleave(len(self.victims[0].beside), 0)
        parts = torch.split(wide, len(self.beside[0].victims))
        found = [s._mismatch(part, {}) for s, part in zip(self.beside, parts, strict=True)]
        return torch.cat([own, torch.cat(found).view(len(x), -1)], 1)

    @property
    def numbers(self) -> Tensor:
        """(V, R): how many numbers each of a victim's updates tells."""
        told = [(t != 0).flatten(1).sum(1) for t in self.target.values()]
        own = torch.stack(told).sum(0)[:, None]
        if not self.beside:
            return own
        others = torch.cat([s.numbers for s in self.beside])
        return torch.cat([own, others.view(len(own), -1)], 1)

    def _mismatch(self, x: Tensor, free: Mapping[str, Tensor]) -> Tensor:
        made = self.gradient(x, free)
        if self._signs:
            return self._signs.apart(made)
        g = {k: made[k] * sent for k, sent in self.sent.items()}
        size = length(g).clamp(min=1e-30)
        apart = [
            (t - g[k] / _beside(size, t)).flatten(1).square().sum(1) for k, t in self.target.items()
        ]
        return 0.5 * torch.stack(apart).sum(0)


def length(tensors: Mapping[str, Tensor]) -> Tensor:
    """Euclidean norm of each victim's tensors {name: (V, ...)} together, (V,)."""
    squares = [t.flatten(1).square().sum(1) for t in tensors.values()]
    return torch.stack(squares).sum(0).sqrt()


def _beside(size: Tensor, t: Tensor) -> Tensor:
    """``size`` (V,) shaped so that it meets ``t`` (V, ...)."""
    return size.view(-1, *[1] * (t.dim() - 1))


def _row(tensors: Mapping[str, Tensor], j: int) -> dict[str, Tensor]:
    return {k: v[j] for k, v in tensors.items()}


def _type(t: Tensor, dtype: torch.dtype) -> torch.dtype:
    return dtype if t.is_floating_point() else t.dtype


def stacked(each: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """{name: (V, ...)} of V dicts of the same names."""
    out = {}
    for name in each[0]:
        out[name] = torch.stack([one[name] for one in each])
    return out
