"""Distance correlation of two batches that belong together row by row, in float64.

Such as images and what was sent of them. Three numbers of the same pass over pairs of rows, in
tiles, so that no n x n matrix exists:

* ``dcor``: Székely, Rizzo, Bakirov 2007, the root R of R^2 = dCov^2(x, z) / sqrt(dVar^2(x)
  dVar^2(z)), in [0, 1]. Biased: with many dimensions and few rows it nears 1 for independent data.
  Read it beside ``permuted`` only.
* ``dcor2_corrected``: Székely and Rizzo 2013, the bias-corrected R^2, mean 0 for independent data,
  at most 1, may be negative.
* ``flea_correlation``: FLea, Eq. 8, nu^2(x, z) / sqrt(nu^2(x, x) nu^2(z, z)) on *squared* Euclidean
  distances, in [0, 1]. Centring squared distances twice gives -2 times the Gram matrix, so this is
  linear CKA: blind to what is not linear. (The authors' code takes plain distances and a root,
  which is ``dcor``.)

With a_ij the distances of x and a_i their row sums, the sums over doubly centred A and B are those
of a and b and of row sums: sum AB = sum ab - 2/n sum a_i b_i + a b/n^2 (and n - 2, (n - 1)(n - 2)
in their places for the corrected one), so one pass will do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

TILE = 256  # rows at most; a tile of distances is then 0.5 MB
SLAB = 2**20  # numbers of one side's rows in float64 at a time (8 MB): longer rows, smaller tiles
MEMORY = 128 * 2**20  # bytes that ``permuted`` may spend on keeping distances

NAMES = ("dcor", "dcor2_corrected", "flea_correlation")


def correlations(x: Tensor, z: Tensor, *, tile: int | None = None) -> dict[str, float]:
    """All three numbers, by name.

    Args:
        x: (n, ...), flattened per row, of any type: of truth values 0 and 1 are taken, of complex
            numbers the real and the imaginary part, which keeps distances.
        z: (n, ...), row i belonging to row i of ``x``.
        tile: rows of a tile, at most 256 by default; under 200 MiB beyond the inputs are used then,
            whatever n.

    Raises:
        ValueError: rows differ in number, there are fewer than 4, or something is not finite.
    """
    a, b, tile = _sides(x, z, tile)
    ratios = _ratios(_moments(a, b, tile), len(a.x))
    return {name: float(v) for name, v in zip(NAMES, ratios, strict=True)}


def permuted(
    x: Tensor,
    z: Tensor,
    *,
    generator: torch.Generator,
    permutations: int = 200,
    tile: int | None = None,
    memory: int = MEMORY,
) -> dict[str, Tensor]:
    """The three numbers for random pairings of the same rows: what no dependence looks like.

    By name, each (permutations,) float64. The distances of the side with shorter rows are computed
    once and kept if n^2 * 8 bytes fit ``memory`` (n = 4,096 by default), else every time.

    Args:
        x: (n, ...).
        z: (n, ...).
        generator: a CPU generator; draws the permutations.
        permutations: how many.
        tile: as in ``correlations``.
        memory: bytes.

    Raises:
        ValueError: as ``correlations``; ``permutations`` is not positive.
    """
    if permutations < 1:
        raise ValueError(f"expected at least one permutation, got {permutations}. Give 200.")
    a, b, tile = _sides(x, z, tile)
    n = len(a.x)
    if a.x.shape[1] < b.x.shape[1]:
        a, b = b, a  # all is symmetric, and b's distances are what is looked up or computed again
    moments = _moments(a, b, tile)
    orders = torch.stack([torch.randperm(n, generator=generator) for _ in range(permutations)])
    orders = orders.to(a.x.device)
    kept = _distances(b, tile) if n * n * 8 <= memory else None
    ab = torch.zeros(permutations, dtype=torch.float64, device=a.x.device)
    gram = torch.zeros_like(ab)
    for i, j, twice in _tiles(n, tile):
        tile_gram = a.gram(i, j)
        g, d = tile_gram.flatten(), a.distances(tile_gram, i, j).flatten()
        for p, order in enumerate(orders):
            rows, columns = order[i], order[j]
            if kept is None:
                e = b.distances(b.gram(rows, columns), rows, columns).flatten()
            else:  # five times as fast as kept[rows[:, None], columns]
                e = kept.view(-1).index_select(0, (rows[:, None] * n + columns).flatten())
            ab[p] += twice * torch.dot(d, e)
            # Rows of a doubly centred Gram matrix sum to 0, so of b's only -d^2 / 2 counts.
            gram[p] -= twice * torch.dot(g, e.square_()) / 2
    moments = replace(moments, ab=ab, rows=(a.rows * b.rows[orders]).sum(1), ab_gram=gram)
    return dict(zip(NAMES, _ratios(moments, n), strict=True))


def p_value(observed: float, null: Tensor) -> float:
    """Share of pairings, the observed one among them, that are at least as dependent.

    (1 + #{null >= observed}) / (1 + P), equal up to rounding counting as at least. One-sided, valid
    for any n.
    """
    return (1 + int((null >= observed - 1e-10).sum())) / (1 + len(null))


class _Side:
    """One batch; rows are centred and made float64 tile by tile, so that it is never copied."""

    def __init__(self, x: Tensor, tile: int) -> None:
        self.x, self.tile = x, tile
        # Row sums of the distances, filled by _moments.
        self.rows = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        self.mean = torch.zeros(x.shape[1], dtype=torch.float64, device=x.device)
        for rows in _slabs(x, tile):
            self.mean += rows.double().sum(0) / len(x)
        spread = max(float((rows.double() - self.mean).abs().amax()) for rows in _slabs(x, tile))
        largest = max(float(rows.abs().amax()) for rows in _slabs(x, tile))
        # A constant batch (dead features) must give exactly 0 distances, or rounding would
        # correlate with rounding.
        self.scale = float(spread > 1e-13 * largest)
        # Into one place: small results kept between large tiles would hold the heap open, row for
        # row, up to the size of the inputs.
        self.squares = torch.empty(len(x), dtype=torch.float64, device=x.device)
        for k in range(0, len(x), tile):
            self.squares[k : k + tile] = self.part(slice(k, k + tile)).square().sum(1)

    def part(self, rows: slice | Tensor) -> Tensor:
        return (self.x[rows].double() - self.mean) * self.scale

    def gram(self, i: slice | Tensor, j: slice | Tensor) -> Tensor:
        return self.part(i) @ self.part(j).T

    def distances(self, gram: Tensor, i: slice | Tensor, j: slice | Tensor) -> Tensor:
        """Distances from the Gram tile; of near pairs, where it cancels, from differences."""
        scale = self.squares[i][:, None] + self.squares[j]
        d = (scale - 2 * gram).clamp_(min=0)
        near = (d < 1e-5 * scale).nonzero()
        numbers = torch.arange(len(self.x), device=gram.device)
        at_i, at_j = numbers[i], numbers[j]
        for some in _slabs(near, self.tile):
            u, v = at_i[some[:, 0]], at_j[some[:, 1]]
            squares = (self.x[u].double() - self.x[v].double()).square().sum(1)
            d[some[:, 0], some[:, 1]] = squares * self.scale
        return d.sqrt_()


@dataclass(frozen=True)
class _Moments:
    """Sums over all ordered pairs of rows."""

    ab: Tensor  # of products of distances
    aa: Tensor
    bb: Tensor
    rows: Tensor  # of products of row sums
    a_rows: Tensor
    b_rows: Tensor
    ab_gram: Tensor  # of products of centred Gram entries
    aa_gram: Tensor
    bb_gram: Tensor


def _sides(x: Tensor, z: Tensor, tile: int | None) -> tuple[_Side, _Side, int]:
    if x.ndim < 2 or z.ndim < 2 or len(x) != len(z) or not x[0].numel() or not z[0].numel():
        raise ValueError(
            f"expected (n, ...) and (n, ...), got {tuple(x.shape)} and {tuple(z.shape)}. Pair the"
            " rows."
        )
    if len(x) < 4:
        raise ValueError(
            f"the bias-corrected distance correlation needs 4 rows, got {len(x)}. Pool more."
        )
    x, z = _real(x), _real(z).to(x.device)
    tile = tile or min(TILE, max(32, SLAB // max(x.shape[1], z.shape[1])))
    for rows in (*_slabs(x, tile), *_slabs(z, tile)):
        if not bool(rows.isfinite().all()):
            raise ValueError("the rows are not finite. Leave out what failed, and count it.")
    return _Side(x, tile), _Side(z, tile), tile


def _real(x: Tensor) -> Tensor:
    """(n, d) at the same distances: of a complex number both parts, of a truth value 0 or 1."""
    x = x.detach()
    if x.is_complex():
        x = torch.view_as_real(x.resolve_conj())
    return (x.byte() if x.dtype == torch.bool else x).flatten(1)


def _slabs(x: Tensor, rows: int) -> list[Tensor]:
    return [x[k : k + rows] for k in range(0, len(x), rows)]


def _tiles(n: int, tile: int) -> Iterator[tuple[slice, slice, int]]:
    """The tiles on and above the diagonal, and how often each counts."""
    for i in range(0, n, tile):
        for j in range(i, n, tile):
            yield slice(i, min(i + tile, n)), slice(j, min(j + tile, n)), 1 if i == j else 2


def _moments(a: _Side, b: _Side, tile: int) -> _Moments:
    sums = torch.zeros(6, dtype=torch.float64, device=a.x.device)
    a.rows.zero_()
    b.rows.zero_()
    for i, j, twice in _tiles(len(a.x), tile):
        grams = [side.gram(i, j) for side in (a, b)]
        far = [side.distances(g, i, j) for side, g in zip((a, b), grams, strict=True)]
        for side, d in zip((a, b), far, strict=True):
            if twice == 1:
                d.fill_diagonal_(0)
            else:
                side.rows[j] += d.sum(0)
            side.rows[i] += d.sum(1)
        pairs = [(0, 1), (0, 0), (1, 1)]
        sums += twice * torch.stack([(t[u] * t[v]).sum() for t in (far, grams) for u, v in pairs])
    ab, aa, bb, ab_gram, aa_gram, bb_gram = sums
    return _Moments(ab, aa, bb, a.rows @ b.rows, a.rows, b.rows, ab_gram, aa_gram, bb_gram)


def _distances(side: _Side, tile: int) -> Tensor:
    """All n x n distances of one side."""
    n = len(side.x)
    out = torch.zeros(n, n, dtype=torch.float64, device=side.x.device)
    for i, j, _ in _tiles(n, tile):
        out[i, j] = side.distances(side.gram(i, j), i, j)
        out[j, i] = out[i, j].T.clone()
    return out.fill_diagonal_(0)


def _ratios(m: _Moments, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The three numbers of the moments; 0 where a side does not vary (Székely's convention)."""
    a, b = m.a_rows.sum(), m.b_rows.sum()
    both = m.ab, m.rows, a * b
    first, second = (m.aa, m.a_rows @ m.a_rows, a * a), (m.bb, m.b_rows @ m.b_rows, b * b)
    raw = (both, first, second)
    xz, xx, zz = (s - 2 / n * r + t / n**2 for s, r, t in raw)
    biased = _share(xz.clamp(min=0), xx, zz, m.aa, m.bb).clamp(max=1).sqrt()
    xz, xx, zz = (s - 2 / (n - 2) * r + t / ((n - 1) * (n - 2)) for s, r, t in raw)
    corrected = _share(xz, xx, zz, m.aa, m.bb).clamp(max=1)
    flea = _share(m.ab_gram.clamp(min=0), m.aa_gram, m.bb_gram, m.aa_gram, m.bb_gram).clamp(max=1)
    return biased, corrected, flea


def _share(xz: Tensor, xx: Tensor, zz: Tensor, x_size: Tensor, z_size: Tensor) -> Tensor:
    """The ratio xz / sqrt(xx zz), 0 where xx or zz is nothing but rounding."""
    if float(xx) <= 1e-14 * float(x_size) or float(zz) <= 1e-14 * float(z_size):
        return torch.zeros_like(xz)
    return xz / math.sqrt(float(xx) * float(zz))
