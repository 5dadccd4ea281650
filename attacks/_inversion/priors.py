"""What auxiliary images say of a victim's: a decoder from gradients to images, trained on them.

The way back from gradients is learnt (Wu et al. 2023, "Learning to invert"), not a generator whose
code is searched for (GIAS, Jeon et al. 2021; GGL, Li et al. 2022): results/inversion-priors.md
compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attacks._inversion.stack import Stack, length
from attacks._inversion.victims import Victim
from leakbench.base import torch
from leakbench.federation import Batch, Examples

if TYPE_CHECKING:
    from torch import Tensor

COUNT = 800  # batches of auxiliary images whose gradients are computed
SIDE_BY_SIDE = 32  # of these
KEPT = 2048  # numbers of a tensor's gradient that are read, drawn at random
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)  # beside the mean of the kernel's diagonal
BACK = 5  # one of so many batches is kept back to choose the ridge by
NEAR = (1.0, 0.5)  # how far the batches spread about the guess, in turn
SOLVED = 2.0  # seconds of the linear algebra of one regression
LEAST = 20  # auxiliary examples below which nothing is learnt


def guess(victim: Victim, aux: Examples, dice: torch.Generator) -> Tensor:
    """The images (B, *shape), float32, on [0, 1], that the decoder makes of the victim's gradient.

    Batches of auxiliary images are sent through the victim's own loss, with the victim's labels and
    private inputs, and a ridge regression by the gradients' kernel leads from their directions to
    the images. Each tensor's gradient counts alike: the last layers', which are large, tell least.
    Then the same again with batches drawn together about the guess, where the loss is straighter.
    A later guess is kept where its gradient is nearer to the victim's.

    Args:
        victim: whose update is attacked.
        aux: the attacker's own examples, at least ``LEAST``.
        dice: which of them make a batch.
    """
    stack = Stack([victim], torch.float32)
    size = len(victim.labels)
    x = stack.facts.input_range.unit(aux.x.to(stack.first.device, torch.float32))
    rows = torch.stack([torch.randperm(len(x), generator=dice) for _ in range(size)], 1)
    batches = x[rows[:COUNT].to(x.device)]
    mean = batches.mean(0)
    reader = _Reader(stack, dice)
    seen = reader.target()
    best, least, at = mean, float("inf"), mean
    for near in NEAR:
        about = at + near * (batches - mean)
        at = _regressed(reader.of(about), seen, about)
        if not stack.facts.signal:
            at = at.clamp(0, 1)
        apart = _apart(reader.of(at[None]), seen)
        if apart < least:
            best, least = at, apart
    return best


class _Reader:
    """Directions of gradients as the decoder reads them: some numbers of each tensor."""

    def __init__(self, stack: Stack, dice: torch.Generator) -> None:
        self.stack = stack
        self.sent = {k: t for k, t in stack.target.items() if bool(t.any())}
        self.some = {}
        for k, t in self.sent.items():
            told = stack.sent[k].expand_as(t).flatten().nonzero().flatten()
            self.some[k] = told[torch.randperm(len(told), generator=dice)[:KEPT].to(t.device)]

    def target(self) -> list[Tensor]:
        """The victim's, one tensor (1, n) for each of the update's."""
        return self._read(self.sent)

    def of(self, batches: Tensor) -> list[Tensor]:
        """Those of ``batches`` (N, B, *shape), (N, n) each."""
        replay, labels = self.stack.first, self.stack.labels[0]
        private = {k: v[0] for k, v in self.stack.private.items()}

        def one(x: Tensor) -> Mapping[str, Tensor]:
            made = replay.gradient(Batch(replay.facts.input_range.native(x), labels), private)
            return {k: made[k].detach() * self.stack.sent[k][0] for k in self.sent}

        together = SIDE_BY_SIDE if replay.vectorises else 1
        parts = []
        with torch.no_grad():
            for some in torch.split(batches, together):
                alone = len(some) == 1
                if alone:
                    parts.append(self._read({k: v[None] for k, v in one(some[0]).items()}))
                else:
                    parts.append(self._read(torch.func.vmap(one)(some)))
        return [torch.cat(same) for same in zip(*parts, strict=True)]

    def _read(self, made: Mapping[str, Tensor]) -> list[Tensor]:
        size = length(made).clamp(min=1e-30)[:, None]
        return [made[k].flatten(1)[:, self.some[k]] / size for k in self.sent]


def _regressed(read: Sequence[Tensor], seen: Sequence[Tensor], batches: Tensor) -> Tensor:
    """The batch (B, *shape) that a ridge regression on ``batches`` makes of ``seen``."""
    n = len(batches)
    kernel, beside = torch.zeros(n, n).to(batches), torch.zeros(n).to(batches)
    for part, own in zip(read, seen, strict=True):
        mean = part.mean(0)
        part, own = part - mean, own[0] - mean
        spread = part.square().sum(1).mean()
        if bool(spread > 0):
            kernel += part @ part.T / spread
            beside += part @ own / spread
    mean = batches.mean(0)
    images = (batches - mean).flatten(1)
    back = max(n // BACK, 1)
    ridge = min(RIDGES, key=lambda r: _error(kernel, images, back, r))
    return (beside @ _solved(kernel, images, ridge)).view(mean.shape) + mean


def _error(kernel: Tensor, images: Tensor, back: int, ridge: float) -> float:
    """The mean squared error on the first ``back`` batches of what the others teach."""
    learnt = _solved(kernel[back:, back:], images[back:], ridge)
    return float((kernel[:back, back:] @ learnt - images[:back]).square().mean())


def _solved(kernel: Tensor, images: Tensor, ridge: float) -> Tensor:
    small = ridge * kernel.diagonal().mean().clamp(min=1e-30)
    return torch.linalg.solve(kernel + small * torch.eye(len(kernel)).to(kernel), images)


def _apart(made: Sequence[Tensor], seen: Sequence[Tensor]) -> float:
    """How far two gradients are apart, each tensor by its direction, the mean over tensors."""
    pairs = zip(made, seen, strict=True)
    alike = [torch.nn.functional.cosine_similarity(a, b).mean() for a, b in pairs]
    return 1 - float(torch.stack(alike).mean())
