"""A matrix of which a part is told: the rest by what of low rank explains that part.

The step of a linear layer is a sum of products, one for each example, so it has no more rank than
the batch has examples, and what of it was sent tells the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

RANKS = (1, 2, 3, 4, 6, 8, 12, 16)
BACK = 10  # one of so many numbers is kept back to choose the rank by, where none is exact
EXACT = 1e-5  # of the told numbers' length: a rank that misses them by less is the rank
TURNS = 200  # of one factor and the other
STILL = 1e-9  # of the matrix's length: nothing moves any more
RIDGE = 1e-12  # beside the factors' own size
SPARE = 1.2  # numbers told for each unknown of a rank, at least


def completed(matrix: Tensor, told: Tensor, most: int = RANKS[-1]) -> Tensor:
    """The matrix (m, n) in float64 where ``told`` (m, n) bool is false, too.

    Of the least rank that makes all that is told, with numbers to spare; else of the one, ``most``
    at most, that tells numbers best which were kept back. Rows and columns of which nothing is told
    are 0.
    """
    if bool(told.all()) or not bool(told.any()):
        return matrix.double() * told
    whole = matrix.double()
    dice = torch.Generator().manual_seed(0)
    back = torch.randint(BACK, told.shape, generator=dice).to(told.device) == 0
    tried = []
    for rank in (r for r in RANKS if r <= most and _enough(told, r)):
        made = _factored(whole, told, rank)
        if _apart(made, whole, told) < EXACT and _enough(told, rank, spare=SPARE):
            return torch.where(told, whole, made)
        again = _factored(whole, told & ~back, rank)
        tried.append((_apart(again, whole, told & back), rank, made))
    return torch.where(told, whole, min(tried, key=lambda one: one[:2])[2])


def _apart(made: Tensor, whole: Tensor, where: Tensor) -> float:
    """How far two matrices are apart ``where`` it is true, over the second one's length there."""
    return float(((made - whole) * where).norm() / (whole * where).norm().clamp(min=1e-300))


def _enough(told: Tensor, rank: int, spare: float = 0.0) -> bool:
    """Are more numbers told than a matrix of this rank has unknowns, ``spare`` times as many?"""
    rows, columns = int(told.any(1).sum()), int(told.any(0).sum())
    many = int(told.sum()) > max(spare, 1.0) * rank * (rows + columns - rank)
    return many or (rank == 1 and not spare)


def _factored(whole: Tensor, told: Tensor, rank: int) -> Tensor:
    """The matrix of rank ``rank`` nearest to ``whole`` where it is told, by least squares in turns.

    From the singular vectors of what is told.
    """
    weight = told.to(whole)
    part = whole * weight
    _, values, right = torch.linalg.svd(part, full_matrices=False)
    rank = min(rank, len(values))
    ways = (right[:rank] * values[:rank, None].sqrt()).T
    length, found = part.norm().clamp(min=1e-300), torch.zeros_like(whole)
    for _ in range(TURNS):
        left = _solved(part, weight, ways)
        ways = _solved(part.T, weight.T, left)
        before, found = found, left @ ways.T
        if float((found - before).norm()) <= STILL * float(length):
            break
    return found


def _solved(part: Tensor, weight: Tensor, ways: Tensor) -> Tensor:
    """(m, r): row by row the factors that ``ways`` (n, r) make the told numbers of."""
    rank = ways.shape[1]
    pairs = (ways[:, :, None] * ways[:, None]).flatten(1)
    gram = (weight @ pairs).view(-1, rank, rank)
    size = ways.square().sum().clamp(min=1e-300)
    ridge = RIDGE * size * torch.eye(rank, dtype=ways.dtype, device=ways.device)
    return torch.linalg.solve(gram + ridge, (part @ ways)[:, :, None])[:, :, 0]
