"""What tells an attribute by rows: classifiers trained on examples whose attribute is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

FOLDS = 3
COMPONENTS = 100  # principal ones that a classifier reads, at most
TREES = 100
SURE = 3.0  # standard errors beyond the most frequent value
FLOOR = 0.1  # of the mean deviation: a number that hardly varies is not blown up


@dataclass(frozen=True)
class Reader:
    """Says of rows how likely each value is."""

    # Rows (k, ...) and their classes (k,), or None -> (k, V) float64, rows sum to 1.
    says: Callable[[Tensor, Tensor | None], Tensor]
    sure: bool  # is it right, of examples it was not trained on, more often than a constant?


def fitted(x: Tensor, y: Tensor | None, value: Tensor, values: int, seed: int) -> Reader:
    """The classifier, of four, that is right most often on known examples it was not trained on.

    Linear discriminants with a shrunk covariance, or a forest; on principal components of the
    numbers as they are, or of what stays when a row is moved along its longest axis: the size of
    its Fourier coefficients, and the mean. Examples are left out in blocks as they lie: neighbours
    in time are alike.

    Args:
        x: (n, ...) rows that the attacker made.
        y: (n,) int64 their classes, where the victims' rows have them; else None.
        value: (n,) int64, 0 to ``values`` - 1.
        values: V.
        seed: of the forest, and of the components.
    """
    parts, best = _parts(value), -1
    for described in (_flat, _unmoved):
        axes = Components.of(described, x, y, seed)
        given = axes.given(x, y)
        for make in (_discriminants, lambda: _forest(seed)):
            right = 0
            for train, test in parts:
                said = make().fit(given[train], value[train].numpy()).predict(given[test])
                right += int((torch.from_numpy(said) == value[test]).sum())
            if right > best:
                best, chosen = right, (axes, make().fit(given, value.numpy()))
    most = float(value.bincount().max()) / len(value)
    error = (most * (1 - most) / len(value)) ** 0.5
    return Reader(_says(*chosen, values), best / len(value) > most + SURE * error)


def _parts(value: Tensor) -> Sequence[tuple[Any, Any]]:
    """Rows to train on and rows left out: of each value blocks of neighbours."""
    block = torch.zeros(len(value), dtype=torch.int64)
    for v in sorted({*value.tolist()}):
        own = (value == v).nonzero().flatten()
        block[own] = torch.arange(len(own)) * FOLDS // len(own)
    return [
        ((block != i).nonzero().flatten(), (block == i).nonzero().flatten()) for i in range(FOLDS)
    ]


def _says(axes: Components, model: Any, values: int) -> Callable[[Tensor, Tensor | None], Tensor]:
    def says(x: Tensor, y: Tensor | None) -> Tensor:
        out = torch.zeros(len(x), values, dtype=torch.float64)
        told = torch.from_numpy(model.predict_proba(axes.given(x, y))).double()
        out[:, torch.from_numpy(model.classes_)] = told
        return out

    return says


def _discriminants() -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


def _forest(seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(TREES, min_samples_leaf=2, random_state=seed)


@dataclass(frozen=True)
class Components:
    """Principal components of a description of rows, and the class beside them."""

    described: Callable[[Tensor], Tensor]
    mean: Tensor
    scale: Tensor
    axes: Any
    classes: int  # 0: rows have none

    @classmethod
    def of(
        cls, described: Callable[[Tensor], Tensor], x: Tensor, y: Tensor | None, seed: int
    ) -> Components:
        """Of rows x (n, ...), of classes y (n,) where they have some."""
        from sklearn.decomposition import PCA

        raw = described(x)
        scale, mean = torch.std_mean(raw, 0, correction=0)
        scale = scale + FLOOR * scale.square().mean().sqrt() + 1e-12
        few = min(COMPONENTS, raw.shape[1], len(raw))
        axes = PCA(few, svd_solver="randomized", random_state=seed)
        axes.fit(((raw - mean) / scale).numpy())
        return cls(described, mean, scale, axes, 0 if y is None else 1 + int(y.max()))

    def given(self, x: Tensor, y: Tensor | None) -> Any:
        """What a classifier reads (n, k)."""
        raw = (self.described(x) - self.mean) / self.scale
        found = torch.from_numpy(self.axes.transform(raw.numpy()))
        if y is None or not self.classes:
            return found.numpy()
        size = float(self.axes.explained_variance_[0]) ** 0.5
        of_class = torch.nn.functional.one_hot(y.clamp(max=self.classes - 1), self.classes)
        return torch.cat([found, size * of_class.to(found)], 1).numpy()


def _flat(x: Tensor) -> Tensor:
    return x.float().flatten(1)


def _unmoved(x: Tensor) -> Tensor:
    """What a shift along the longest axis leaves: sizes of Fourier coefficients, and the mean."""
    if x.ndim < 3:
        return _flat(x)
    axis = 1 + max(range(x.ndim - 1), key=lambda i: x.shape[1 + i])
    sizes = torch.fft.rfft(x.float(), dim=axis).abs().log1p()
    return torch.cat([sizes.flatten(1), x.float().mean(axis).flatten(1)], 1)
