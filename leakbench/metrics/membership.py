"""How well members are told from examples that a client never saw.

The question stands only where nothing but messages can tell: candidates that a classifier of their
inputs parts are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base import kept
from leakbench.base.errors import NotMeasured
from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.scoring.truth import Answer

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

FOLDS = 5
CHANCE = 0.001  # that candidates alike by nature are refused
COMPONENTS = 30  # principal ones of the inputs, that a forest reads
NEIGHBOURS = 5
FEWEST = 10  # members: of fewer nobody can tell whether inputs give them away


def _auc(guess: Guess, answer: Answer) -> list[Score]:
    """The chance that a member of the client outranks one of its others; ties count a half."""
    told, member = _both(guess, answer)
    mine, others = told[member][:, None], told[~member][None]
    above = (mine > others).double() + (mine == others).double() / 2
    return [Score(guess.unit, guess.unit, float(above.mean()))]


def _at(rate: float) -> Callable[[Sequence[tuple[Guess, Answer]]], Callable[..., list[Score]]]:
    """Of all guesses: the share of a client's members beyond what ``rate`` of all others reach."""

    def across(guesses: Sequence[tuple[Guess, Answer]]) -> Callable[..., list[Score]]:
        others = torch.zeros(0, dtype=torch.float64)
        for one in guesses:
            told, member = _both(*one)
            others = torch.cat([others, told[~member]])
        if len(others) * rate < 1:
            raise NotMeasured(
                f"a false-positive rate of {rate:.1%} takes {round(1 / rate):,} examples that"
                f" nobody trained on, and there are {len(others)} (see the task's held_out)."
            )
        may = len(others) * rate
        limit = others.sort(descending=True).values[min(int(may), len(others) - 1)]
        beyond, tied = int((others > limit).sum()), int((others == limit).sum())

        def score(guess: Guess, answer: Answer) -> list[Score]:
            told, member = _both(guess, answer)
            mine = told[member]
            # Of those at the limit as many are named as the rate has room for.
            share = (mine > limit).double() + (mine == limit).double() * (may - beyond) / tied
            return [Score(guess.unit, guess.unit, float(share.mean()))]

        return score

    return across


def _both(guess: Guess, answer: Answer) -> tuple[Tensor, Tensor]:
    """Scores (n,) of the client's candidates, and which are members, bool.

    Raises:
        ValueError: there is no score for each.
        NotMeasured: the inputs alone tell members from others.
    """
    told = guess.tensors["membership"].double().cpu()
    member = answer.member
    if told.shape != member.shape:
        raise ValueError(
            f"{guess.unit}: expected a score for each of {len(member)} candidates, got"
            f" {tuple(told.shape)}."
        )
    _not_told_by_inputs(answer)
    return told, member


def _not_told_by_inputs(answer: Answer) -> None:
    """Raises NotMeasured where members are told from others by what they look like."""
    found, chance = told_by_inputs(*answer.candidates)
    if chance < CHANCE:
        raise NotMeasured(
            f"the inputs alone tell members from others, with an AUC of {found:.2f}, so that no"
            " message is needed: the others are not drawn as a client's own are. Where the task has"
            " held_out, hold some of each client's own out, and train again."
        )


def told_by_inputs(
    x: Tensor, member: Tensor, client: Tensor, y: Tensor | None = None
) -> tuple[float, float]:
    """How well inputs alone tell members, and how likely chance does so well.

    By a forest on all of them, by their nearest neighbours of the same client, by each number
    alone, and by how many of its nearest neighbours have its class: what differs is one number, or
    the sites that clients are, or a shape, or how many are labelled wrongly.

    Args:
        x: (n, ...), of all candidates.
        member: (n,) bool.
        client: (n,) int64, whose they are said to be.
        y: (n,) int64, their classes.

    Returns:
        The AUC that is least likely, and its chance, times the number of trials.

    Raises:
        NotMeasured: there are too few to tell.
    """
    pairs = min(int(member.sum()), int((~member).sum()))
    if pairs < FEWEST:
        raise NotMeasured(
            f"there are {pairs} members and others of whom membership could be asked, too few to"
            f" tell whether their inputs give it away: {FEWEST} are needed."
        )
    y = torch.zeros_like(client) if y is None else y
    key = kept.digest("told_by_inputs", x, member, client, y)

    def make() -> tuple[Tensor]:
        return (torch.tensor(_told(x, member, client, y), dtype=torch.float64),)

    found, chance = kept.once(key, make)[0].tolist()
    return found, chance


def _told(x: Tensor, member: Tensor, client: Tensor, y: Tensor) -> tuple[float, float]:
    from scipy.stats import mannwhitneyu

    raw, own = x.flatten(1).double().nan_to_num(), member.numpy()
    flat = (raw - raw.mean(0)) / raw.std(0).clamp(min=1e-12)
    trials = []
    for said in (_by_forest(flat, member), _by_neighbours(flat, member, client)):
        one = mannwhitneyu(said[own], said[~own], alternative="greater")
        trials.append((float(one.pvalue), float(one.statistic)))
    if int(y.min()) < int(y.max()):
        said = _by_class(flat, y)
        one = mannwhitneyu(said[own], said[~own])
        trials.append((float(one.pvalue), float(one.statistic)))
    each = mannwhitneyu(raw[member].numpy(), raw[~member].numpy())
    best = int(each.pvalue.argmin())
    trials.append((float(each.pvalue[best]) * raw.shape[1], float(each.statistic[best])))
    chance, ranks = min(trials)
    auc = ranks / (int(own.sum()) * int((~own).sum()))
    return max(auc, 1 - auc), min(1.0, chance * len(trials))


def _by_forest(flat: Tensor, member: Tensor) -> NDArray[Any]:
    """(n,) how likely each is a member, by a forest that was made without it."""
    from sklearn.decomposition import PCA
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    most = min(COMPONENTS, flat.shape[1], len(member) * (FOLDS - 1) // FOLDS)
    forest = make_pipeline(
        PCA(most, svd_solver="full"), ExtraTreesClassifier(100, min_samples_leaf=2, random_state=0)
    )
    how = {"cv": folds, "method": "predict_proba"}
    said: NDArray[Any] = cross_val_predict(forest, flat.numpy(), member.numpy(), **how)[:, 1]
    return said


def _by_neighbours(flat: Tensor, member: Tensor, client: Tensor) -> NDArray[Any]:
    """(n,) how many of the nearest candidates of the same client are members, itself left out."""
    far = torch.cdist(flat, flat).fill_diagonal_(torch.inf)
    far[client[:, None] != client[None]] = torch.inf
    found = far.topk(min(NEIGHBOURS, len(flat)), largest=False)
    there = found.values.isfinite()
    share = (member[found.indices] & there).double().sum(1) / there.double().sum(1).clamp(min=1)
    return share.numpy()


def _by_class(flat: Tensor, y: Tensor) -> NDArray[Any]:
    """(n,) the share of the nearest candidates that have its class, itself left out."""
    far = torch.cdist(flat, flat).fill_diagonal_(torch.inf)
    nearest = far.topk(min(NEIGHBOURS, len(flat) - 1), largest=False).indices
    return (y[nearest] == y[:, None]).double().mean(1).numpy()


MEMBERSHIP_AUC = Metric(
    Meaning(
        name="membership_auc",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="members told from others",
        verb="tells members from others with an AUC of",
        about=(
            "How often an example that the client trained on is ranked above one of its class that"
            " it never saw: 0.5 is chance."
        ),
        topic=topics.MEMBERS,
    ),
    needs=("membership",),
    score=_auc,
)
"""Area under the ROC of a client's candidates: the chance that a member outranks another.

Ties count a half. ``membership`` (n,): a score for each candidate of the client, in their order,
the higher the likelier it is a member.
"""


def _tpr(rate: float, name: str, rank: int) -> Metric:
    return Metric(
        Meaning(
            name=name,
            direction="up",
            low=0.0,
            high=1.0,
            unit="client",
            title=f"members found at {rate:.1%} false alarms",
            verb=f"finds, at {rate:.1%} false alarms, a share of members of",
            about=(
                "Share of the examples a client trained on that are named, where of those that"
                f" nobody trained on {rate:.1%} are named, too."
            ),
            topic=topics.MEMBERS,
            rank=rank,
        ),
        needs=("membership",),
        score=_auc,
        across=_at(rate),
    )


MEMBERSHIP_TPR = _tpr(0.01, "membership_tpr", 1)
"""Share of a client's members whose score is beyond that of 1 % of all clients' others.

Who says so of a few is sure of them, which an AUC does not show (Carlini et al. 2022, Section III).
Scores of all clients are held against one limit, so an attack makes them alike. Its own error is
not in the interval of one run, which is over clients; that over seeds has it.
"""

MEMBERSHIP_TPR_LOW = _tpr(0.001, "membership_tpr_low", 2)
"""The same at 0.1 %: of 1,000 examples that nobody trained on, or more."""
