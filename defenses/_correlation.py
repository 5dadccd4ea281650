"""How closely a batch's features follow its inputs, as a loss (FLea, Eq. 5 and 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


LEAST = 1e-7  # inside the released code's roots


def squared(x: Tensor, f: Tensor) -> Tensor:
    """FLea, Eq. 8: nu^2(x, f) / sqrt(nu^2(x, x) nu^2(f, f)), (), in [0, 1]; x and f are (B, ...).

    nu^2 is the mean product of doubly centred matrices of *squared* Euclidean distances, which are
    -2 times the centred Gram matrices: so this is linear CKA, computed from these. (Eq. 5 as
    printed has nu^2(x, f) under the root, a misprint.) A batch of one, or one whose rows are equal,
    gives 0.
    """
    a, b = _gram(x), _gram(f)
    return (a * b).sum() / (_length(a) * _length(b))


def plain_root(x: Tensor, f: Tensor) -> Tensor:
    """The released code's: Székely's distance correlation R, with ``LEAST`` inside its roots, ().

    On plain distances. Biased: near 1 for small batches whatever they hold. A batch of one gives
    about 1 (without a gradient).
    """
    a, b = _centred(_distances(x)), _centred(_distances(f))
    ab, aa, bb = (((u * v).mean() + LEAST).sqrt() for u, v in ((a, b), (a, a), (b, b)))
    return ab / ((aa + LEAST).sqrt() * (bb + LEAST).sqrt())


def _gram(v: Tensor) -> Tensor:
    v = v.flatten(1)
    v = v - v.mean(0)
    return v @ v.T


def _length(v: Tensor) -> Tensor:
    """|v|, at least the rounding of nothing; its gradient at 0 is 0."""
    return v.square().sum().clamp(min=1e-24).sqrt()


def _distances(v: Tensor) -> Tensor:
    v = v.flatten(1)
    squares = v.square().sum(1)
    return (squares[:, None] + squares - 2 * v @ v.T).clamp(min=LEAST).sqrt()


def _centred(d: Tensor) -> Tensor:
    return d - d.mean(0) - d.mean(1, keepdim=True) + d.mean()


LOSSES = {"squared": squared, "plain_root": plain_root}
