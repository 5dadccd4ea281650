"""EER: the error of verification where false accepts are as frequent as false rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeAlias

from leakbench.base import Meaning, UsageError, torch
from leakbench.federation import Client, Defense, Net, TaskData, UtilityMetric

if TYPE_CHECKING:
    from torch import Tensor

_Moments: TypeAlias = "tuple[Tensor, Tensor]"
CHUNK = 100_000  # pairs at a time
INPUTS = 250  # at a time


class Eer(UtilityMetric):
    """Are two inputs of one identity? The equal error rate over the task's pairs.

    A pair scores minus the squared distance of its embeddings: of methods that compare by cosine,
    or by nothing, of embeddings of length 1, where that is twice the cosine minus 2. Of inputs with
    several crops (n, crops, ...) the mean over all pairs of crops (as FedHide, Section 4.1).

    False rejects are genuine pairs that score less than a threshold, false accepts impostor pairs
    that score as much or more. Both are drawn as a line over all thresholds, straight between
    neighbours, as a ROC curve is; the EER is where they meet.

    Pairs are not independent: those of one person share a voice or a face, whether it is hard to
    know, and who resembles it. The units are the identities: whose score is the EER plus its
    influence, -(m - 1) (EER without all its pairs - the mean of these), of m identities (the
    delete-one jackknife, whose pseudo-values are centred on the EER itself). A pair of two people
    counts for both, as it must: a mean over such pairs varies with each of its people. The spread
    of the scores then is that of other people from the same population, not of other recordings of
    these. results/eer-coverage.md says how often the interval holds the true EER.
    """

    meaning: ClassVar[Meaning] = Meaning(
        name="eer",
        direction="down",
        low=0.0,
        high=1.0,
        unit="test identity",
        margin=0.02,
        title="equal error rate",
        verb="has equal error rate",
        about="Verification error where false accepts equal false rejects: lower is better.",
        decimals=3,
    )
    asks: ClassVar[str] = "embed"

    def ask(self, method: Defense, net: Net, x: Tensor, me: Client) -> Tensor:
        """Embeddings (n, d), or (n, crops, d) of inputs with crops."""
        crops = x.unbind(1) if x.dim() == len(me.facts.shape) + 2 else (x,)
        found = torch.stack([method.embed(net, c, me).flatten(1) for c in crops], 1)
        if method.distance != "euclidean":
            found = torch.nn.functional.normalize(found, dim=-1)
        return found if len(crops) > 1 else found[:, 0]

    def scores(self, answer: Tensor, data: TaskData, own: Tensor | None) -> Tensor:
        """(identities,) in the order of their numbers, of those that stand in a pair.

        Raises:
            UsageError: the task has no pairs, or none of one identity, or none of two.
        """
        pairs = _pairs(data)
        same, alike = pairs[:, 2] == 1, similarity(answer, pairs)
        people, whose = torch.unique(data.test.y[pairs[:, :2]], return_inverse=True)
        order = alike.argsort(descending=True, stable=True)
        alike, same, whose = alike[order], same[order], whose[order]
        left = [(whose != who).all(1) for who in range(len(people))]
        value = equal_error(alike, same)
        # Where two are all there is no pair of two without either: nothing tells of the spread.
        if not all(bool(same[kept].any() and (~same[kept]).any()) for kept in left):
            return torch.full((len(people),), value, dtype=torch.float64)
        without = [equal_error(alike[kept], same[kept]) for kept in left]
        influence = torch.tensor(without, dtype=torch.float64)
        return value - (len(people) - 1) * (influence - influence.mean())

    def untaught(self, data: TaskData) -> dict[str, float]:
        """Of the inputs themselves, the better of their distance and their cosine."""
        pairs, test = _pairs(data), data.test
        start = 1 + (test.stored.dim() > data.train.stored.dim())  # behind the crops
        rows = torch.split(torch.arange(len(test), device=test.y.device), INPUTS)
        plain, long = list[_Moments](), list[_Moments]()
        for some in rows:
            x = test.images(some).double().flatten(start)
            plain.append(_moments(x))
            long.append(_moments(torch.nn.functional.normalize(x, dim=-1)))
        same = pairs[:, 2] == 1
        found = []
        for parts in (plain, long):
            centre, square = map(torch.cat, zip(*parts, strict=True))
            order = _alike(centre, square, pairs).sort(descending=True, stable=True)
            found.append(equal_error(order.values, same[order.indices]))
        return {"raw": min(found)}

    def chance(self, classes: int) -> float:
        return 0.5


def _pairs(data: TaskData) -> Tensor:
    """The task's pairs (P, 3).

    Raises:
        UsageError: there are none, or none of one identity, or none of two.
    """
    pairs = data.pairs
    same = None if pairs is None else pairs[:, 2] == 1
    if pairs is None or same is None or bool(same.all()) or not bool(same.any()):
        raise UsageError(
            "task.utility = 'eer' compares pairs of test inputs, some of one identity and some"
            " of two, but the task has no such pairs. Take another utility metric."
        )
    return pairs


def similarity(found: Tensor, pairs: Tensor) -> Tensor:
    """(P,) float64: minus the squared distance of ``pairs`` (P, 2 or 3), rows of ``found``.

    ``found``: (n, d), or (n, crops, d): then its mean over all pairs of crops.
    """
    return _alike(*_moments(found), pairs)


def _moments(found: Tensor) -> _Moments:
    """The mean over the crops of each input, (n, d), and the mean of its crops' squares, (n,)."""
    crops = found.double() if found.dim() == 3 else found.double()[:, None]
    return crops.mean(1), crops.square().sum(-1).mean(1)


def _alike(centre: Tensor, square: Tensor, pairs: Tensor) -> Tensor:
    out = []
    for part in torch.split(pairs, CHUNK):
        i, j = part[:, 0], part[:, 1]
        out.append(2 * (centre[i] * centre[j]).sum(-1) - square[i] - square[j])
    return torch.cat(out)


def equal_error(alike: Tensor, same: Tensor) -> float:
    """The equal error rate of pairs in descending order of their similarity (P,).

    Args:
        alike: (P,), descending.
        same: (P,) bool, is the pair genuine? Some are and some are not.
    """
    last = torch.ones_like(same)  # of equal scores: a threshold takes all or none
    last[:-1] = alike[:-1] != alike[1:]
    accepted, genuine = (~same).cumsum(0)[last].double(), same.cumsum(0)[last].double()
    zero = accepted.new_zeros(1)
    accepts = torch.cat([zero, accepted / accepted[-1]])
    rejects = 1 - torch.cat([zero, genuine / genuine[-1]])
    gap = rejects - accepts  # from 1 down to -1
    k = int((gap <= 0).nonzero()[0])
    part = gap[k - 1] / (gap[k - 1] - gap[k])
    return float(accepts[k - 1] + part * (accepts[k] - accepts[k - 1]))
