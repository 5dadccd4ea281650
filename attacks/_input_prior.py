"""Which inputs of a class are likely: a Gaussian, of an attacker's own examples.

Half of its covariance is the class's own, half that of all examples about the means of their
classes, and a little is the same for all numbers, so that nothing is impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbench.attacking import Outline
from leakbench.base import torch
from leakbench.federation import Examples, InputRange

if TYPE_CHECKING:
    from torch import Tensor

COMPONENTS = 256  # principal ones of a class, at most
EXAMPLES = 1000  # of all classes, and of the class, that its covariance is made of, at most
ANY = 1e-3  # variance of each number that no example shows
BEYOND = 0.03  # how far an image lies outside of its range, about
LEAST = 20  # examples below which there is no covariance


def unknown(run: Outline) -> str:
    """Why there is no such prior; empty where there is."""
    if not run.holds("aux_data"):
        return "the run holds no auxiliary data to tell likely inputs by"
    if run.auxiliary < LEAST:
        return f"{run.auxiliary} auxiliary examples are too few: a prior needs {LEAST}"
    return ""


class InputPrior:
    """Inputs as they are about the mean of their class, in units of how much they vary there.

    On [0, 1] where they have bounds; float64, on the processor.

    Args:
        aux: the attacker's own examples, ``LEAST`` or more.
        lies: where inputs lie.
    """

    def __init__(self, aux: Examples, lies: InputRange) -> None:
        self.x, self.y = lies.unit(aux.x.double().cpu()), aux.y.cpu()
        self.bounded = lies.bounded
        self._apart = self.x.clone()
        for c in sorted(set(self.y.tolist())):
            self._apart[self.y == c] -= self.x[self.y == c].mean(0)
        self._known: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, label: int) -> tuple[Tensor, Tensor]:
        """The class's mean (*shape,) and its components (D, *shape).

        A likely input is the mean and as many standard normal times of each component. D is the
        same for all classes. A class of which there is no example is taken for any: it has mean and
        covariance of all.
        """
        if label not in self._known:
            mine = self.y == label
            mean = self.x[mine].mean(0) if bool(mine.any()) else self.x.mean(0)
            parts = [_some(self._apart), _some(self._apart[mine])]
            if not bool(mine.any()):
                parts = [_some(self.x - mean)] * 2
            rows = [part.flatten(1) / (2 * max(len(part) - 1, 1)) ** 0.5 for part in parts]
            _, scale, ways = torch.linalg.svd(torch.cat(rows), full_matrices=False)
            many = min(COMPONENTS, len(rows[0]), ways.shape[1])
            long = ways[:many] * (scale[:many].square() + ANY).sqrt()[:, None]
            self._known[label] = mean, long.view(many, *mean.shape)
        return self._known[label]

    def means(self, labels: Sequence[int]) -> Tensor:
        """(B, *shape): the means of the classes ``labels``."""
        return torch.stack([self.of(label)[0] for label in labels])

    def inputs(self, labels: Sequence[int], z: Tensor) -> Tensor:
        """(..., B, *shape) of standard normal numbers z (..., B, D) and the B classes."""
        out = []
        for i, label in enumerate(labels):
            mean, ways = (t.to(z) for t in self.of(label))
            moved = z[..., i, :] @ ways.flatten(1)
            out.append(mean + moved.view(*moved.shape[:-1], *mean.shape))
        return torch.stack(out, -1 - mean.dim())

    def size(self, labels: Sequence[int]) -> int:
        """D: how many numbers an input is made of."""
        return len(self.of(labels[0])[1])

    def unlikely(self, x: Tensor, z: Tensor) -> Tensor:
        """(...): minus the log-likelihood of ``x`` (..., B, *shape), made of ``z`` (..., B, D).

        But for a constant; lower is likelier.
        """
        off = 0.5 * z.square().flatten(z.dim() - 2).sum(-1)
        if not self.bounded:
            return off
        outside = (x.clamp(max=0) + (x - 1).clamp(min=0)) / BEYOND
        return off + 0.5 * outside.square().flatten(z.dim() - 2).sum(-1)


def _some(x: Tensor) -> Tensor:
    """``EXAMPLES`` of the rows of x at most, evenly spaced: they may be sorted by class."""
    return x[:: -(-max(len(x), 1) // EXAMPLES)]
