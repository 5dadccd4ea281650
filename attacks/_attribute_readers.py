"""What tells an attribute by rows: classifiers trained on examples whose attribute is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

FOLDS = 5
COMPONENTS = 100  # principal ones that a classifier reads, at most
TREES = 200
SURE = 3.0  # standard errors beyond the most frequent value


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
        seed: of the forest.
    """
    from sklearn.model_selection import StratifiedKFold

    place = value.argsort(stable=True)
    x, value, y = x[place], value[place], None if y is None else y[place]
    folds = max(2, min(FOLDS, int(value.bincount().clamp(min=1).max())))
    parts = [*StratifiedKFold(folds).split(value.numpy(), value.numpy())]
    best: tuple[int, Callable[[Tensor, Tensor | None], Tensor]] | None = None
    for make in _ways(seed):
        right = 0
        for train, test in parts:
            one = make(x[train], None if y is None else y[train], value[train], values)
            said = one(x[test], None if y is None else y[test]).argmax(1)
            right += int((said == value[test]).sum())
        if best is None or right > best[0]:
            best = (right, make(x, y, value, values))
    assert best is not None  # noqa: S101 - there are four
    right, says = best
    most = float(value.bincount().max()) / len(value)
    error = (most * (1 - most) / len(value)) ** 0.5
    return Reader(says, right / len(value) > most + SURE * error)


def _ways(seed: int) -> Iterator[Callable[..., Any]]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import ExtraTreesClassifier

    for described in (_flat, _unmoved):
        for make in (
            lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
            lambda: ExtraTreesClassifier(TREES, min_samples_leaf=2, random_state=seed),
        ):
            yield _way(described, make)


def _way(described: Callable[[Tensor], Tensor], make: Callable[[], Any]) -> Callable[..., Any]:
    def trained(
        x: Tensor, y: Tensor | None, value: Tensor, values: int
    ) -> Callable[[Tensor, Tensor | None], Tensor]:
        from sklearn.decomposition import PCA

        raw = described(x)
        mean, scale = raw.mean(0), raw.std(0)
        scale = scale + 0.1 * float(scale.square().mean().sqrt()) + 1e-12
        few = min(COMPONENTS, raw.shape[1], len(raw))
        axes = PCA(few, svd_solver="full").fit(((raw - mean) / scale).numpy())
        classes = 1 + int(y.max()) if y is not None else 0

        def given(x: Tensor, y: Tensor | None) -> Any:
            found = torch.from_numpy(axes.transform(((described(x) - mean) / scale).numpy()))
            if y is None or not classes:
                return found.numpy()
            size = float(axes.explained_variance_[0]) ** 0.5
            of_class = torch.nn.functional.one_hot(y.clamp(max=classes - 1), classes)
            return torch.cat([found, size * of_class.to(found)], 1).numpy()

        model = make().fit(given(x, y), value.numpy())

        def says(x: Tensor, y: Tensor | None) -> Tensor:
            out = torch.zeros(len(x), values, dtype=torch.float64)
            out[:, torch.from_numpy(model.classes_)] = torch.from_numpy(
                model.predict_proba(given(x, y))
            ).double()
            return out

        return says

    return trained


def _flat(x: Tensor) -> Tensor:
    return x.double().flatten(1)


def _unmoved(x: Tensor) -> Tensor:
    """What a shift along the longest axis leaves: sizes of Fourier coefficients, and the mean."""
    if x.ndim < 3:
        return _flat(x)
    axis = 1 + max(range(x.ndim - 1), key=lambda i: x.shape[1 + i])
    sizes = torch.fft.rfft(x.double(), dim=axis).abs().log1p()
    return torch.cat([sizes.flatten(1), x.double().mean(axis).flatten(1)], 1)
