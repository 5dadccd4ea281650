"""What the evaluator, who is no party, measures between rounds: test utility and diagnostics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leakbench.base.errors import LeakbenchError, MethodError
from leakbench.base.raised import first_line
from leakbench.base.streams import shared
from leakbench.base.tree import Tree, each_row, row
from leakbench.federation.defense import Defense
from leakbench.federation.objective import class_logits
from leakbench.federation.parties import weighted_mean
from leakbench.federation.utility import METRICS

if TYPE_CHECKING:
    from leakbench.federation.federation import Federation

CHUNK = 250  # test inputs at a time
EXAMPLES = 1000  # at most, of the clients' own, that ``global_loss`` is the mean over


@dataclass(frozen=True)
class Answers:
    """What models say of all test inputs, as a utility metric asks them."""

    each: Tensor  # (models, n, ...)
    # (C,) int64, the class that each of the columns of ``each`` (1, n, C) stands for, where these
    # are clients: each was asked how well the inputs fit it.
    own: Tensor | None = None


@dataclass
class Evaluations:
    """What was measured over the rounds."""

    scores: dict[int, Tensor] = field(default_factory=dict)  # round -> (test units,) float32
    # (round, name, value)
    diagnostics: list[tuple[int, str, float]] = field(default_factory=list)

    def add(self, fed: Federation) -> None:
        """Evaluate the federation as it stands after its newest round."""
        answers = _answers(fed)
        self.scores[fed.t] = utility_scores(fed, answers).float().cpu()
        self.diagnostics += [(fed.t, name, value) for name, value in diagnose(fed, answers).items()]

    def begin(self, fed: Federation) -> None:
        """Note the loss of one of the first rounds: later ones stand beside it."""
        loss = diagnose_loss(fed)
        if math.isfinite(loss):
            self.diagnostics.append((fed.t, "loss", loss))

    def note(self, fed: Federation) -> None:
        """Note what clients could notice of a server that departed from its method."""
        self.diagnostics += [(fed.t, name, value) for name, value in fed.noticed.items()]


def evaluated(rounds: int, times: int) -> set[int]:
    """The rounds after which utility is measured: ``times``, evenly spaced, the last among them."""
    return {max(1, round(rounds * (i + 1) / times)) for i in range(times)}


@torch.no_grad()
def utility_scores(fed: Federation, answers: Answers | None = None) -> Tensor:
    """(test units,) of the task's metric, whose mean is its value."""
    found = answers or _answers(fed)
    return METRICS[fed.task.metric].together(found.each, fed.data, found.own)


@torch.no_grad()
def global_loss(fed: Federation) -> float | None:
    """Cross-entropy of the global model on the clients' training examples, whatever they minimise.

    Where clients keep parts, each has its own for its own examples. The mean over clients, of at
    most ``EXAMPLES`` in all, of each equally many, evenly spaced. None where there are no class
    logits: of captions, of embeddings, of methods that answer in a way of their own.
    """
    method = fed.method
    if method.outputs != "logits" or type(method).predict is not Defense.predict:
        return None
    data = fed.data
    if data.train.targets is not None:
        return None
    each, asked = fed.tables(), _spaced(len(data.sizes), EXAMPLES)
    most = max(1, EXAMPLES // len(asked))
    rows = [data.rows[c][_spaced(data.sizes[c], most)] for c in asked]

    def losses(client: int, mine: Tensor) -> Tensor:
        me = fed.outside(row(each, client))
        said = class_logits(method.predict(me.net, data.train.images(mine), me))
        return torch.nn.functional.cross_entropy(
            said.double(), data.train.y[mine], reduction="none"
        )

    # Of a network that draws, other dice than the evaluation's, which decide the utility.
    with shared(fed.seed, "global loss", round=fed.t, device=fed.device).lent():
        if fed.columns["kept"]:
            found = [losses(c, mine) for c, mine in zip(asked, rows, strict=True)]
        else:  # one model: all at once, in parts
            every = [losses(asked[0], part) for part in torch.split(torch.cat(rows), CHUNK)]
            found = list(torch.split(torch.cat(every), list(map(len, rows))))
    return float(torch.stack([one.mean() for one in found]).mean())


def _spaced(count: int, most: int) -> list[int]:
    """At most ``most`` of ``count`` numbers, evenly spaced."""
    some = min(count, most)
    return [i * count // some for i in range(some)]


def untaught(fed: Federation) -> dict[str, float]:
    """What there is to be had without any training, by how (``UtilityMetric.untaught``).

    ``untrained``: by the network as it begins, of a federation before round 0; not where its method
    needs a round before it can answer.
    """
    found = METRICS[fed.task.metric].untaught(fed.data)
    try:
        return {**found, "untrained": float(utility_scores(fed).double().mean())}
    except LeakbenchError:
        return found


def _answers(fed: Federation) -> Answers:
    """What the task's metric asks of the global model; of all clients where they keep parts."""
    metric, method = METRICS[fed.task.metric], fed.method

    def ask(e: Tree, x: Tensor) -> Tensor:
        me = fed.outside(e)
        said = metric.ask(method, me.net, x, me)
        if not isinstance(said, Tensor):
            raise MethodError(
                f"{metric.asks} of {type(method).__name__} gives {type(said).__name__}: expected a"
                " tensor with a row for each input; the function must return it."
            )
        return said

    # The base's functions read nothing that a client holds but the model.
    plain = getattr(type(method), metric.asks, None) is getattr(Defense, metric.asks, None)
    with shared(fed.seed, "evaluation", round=fed.t, device=fed.device).lent():
        found = _asked(fed, ask, ("kept",) if plain else ("own", "state", "kept"))
    # A fit of minus infinity is a class that is ruled out; of all else a metric makes a number
    # that may pass for a measured one.
    right = found.each.isfinite() | ((found.each == -torch.inf) & (metric.asks == "predict"))
    if not bool(right.all()):
        raise diverged(fed, "what a model says of a test input is not a number")
    return found


def diverged(fed: Federation, why: str) -> MethodError:
    """What is raised where nothing can be measured any more."""
    lr, own = fed.method.lr, fed.method.own_lr
    return MethodError(
        f"training diverged by round {fed.t} ({why}): lower lr ({lr:g}) or own_lr ({own:g})."
    )


def _asked(
    fed: Federation, ask: Callable[[Tree, Tensor], Tensor], read: tuple[str, ...]
) -> Answers:
    """``ask`` about all test inputs; of one client where none holds any of ``read``."""
    test, each = fed.data.test, fed.tables()
    first = row(each, 0)
    fits = ask(first, test.images(torch.arange(1, device=test.y.device))).dim() == 1
    same = not fits and not any(fed.columns[k] for k in read)
    parts = []
    for rows in torch.split(torch.arange(len(test), device=test.y.device), CHUNK):
        x = test.images(rows)

        def one(e: Tree, x: Tensor = x) -> Tensor:
            return ask(e, x)

        parts.append(one(first)[None] if same else _over_clients(fed, one, each))
    found = torch.cat(parts, dim=1)
    if not fits:
        return Answers(found)
    # No client stands for a class: every answer would count as wrong.
    if bool((fed.data.client_class < 0).any()):
        raise MethodError(
            f"{type(fed.method).__name__}.predict says how well x fits a client, but clients of"
            " this task have several classes: let it return class logits (n, classes)."
        )
    return Answers(found.T[None], fed.data.client_class)


def _over_clients(fed: Federation, ask: Callable[[Tree], Tensor], each: Tree) -> Tensor:
    """``ask`` of every client: at once, or one by one where each has a whole network of its own.

    Convolutions whose weights differ between clients are several times slower at once.
    """
    if not fed.runner.trained.issubset(fed.columns["kept"]) and "predict" not in fed.fallbacks:
        try:
            return each_row(ask, each)
        except RuntimeError as error:  # vmap refused it: one by one, or the real error
            fed.fallbacks["predict"] = first_line(error)
    return torch.stack([ask(row(each, i)) for i in range(len(fed.everyone))])


def diagnose_loss(fed: Federation) -> float:
    """The clients' mean loss in the newest round, at what they received; NaN without training."""
    return math.nan if fed.losses is None else float(fed.losses.double().mean())


@torch.no_grad()
def diagnose(fed: Federation, answers: Answers | None = None) -> dict[str, float]:
    """Diagnostics after a round: {name: value}.

    Training loss, the global model's, norm of the mean update, how far apart the local models and
    how alike the true prototypes are. ``local_variance``: mean over the trained parameters of the
    variance over the round's clients, before averaging (FedAA, Figure 5); of a second training in a
    round, ``local_variance_<its name>``. Not of rounds of one SGD step, which may be fused. Of a
    round in which the server departed from its method neither norm nor variance, and the loss at
    the model that it should have sent.
    """
    out = {} if fed.losses is None else {"loss": diagnose_loss(fed)}
    if (of_all := global_loss(fed)) is not None:
        out["global_loss"] = of_all
    variances = {} if fed.meant else fed.variances
    for i, (training, variance) in enumerate(variances.items()):
        name = f"local_variance_{training.removesuffix('_loss')}" if i else "local_variance"
        out[name] = float(variance)
    mean = fed.means.get("update")
    # The loop: only the server's function averages.
    if mean is None and "update" in fed.received and fed.share is not None:
        mean = weighted_mean(fed.received["update"], fed.share)
    if mean and not fed.meant:
        out["update_norm"] = float(sum(v.double().square().sum() for v in mean.values()) ** 0.5)
    true = fed.secrets().get("prototype")
    if true is not None:
        w = torch.nn.functional.normalize(true.double(), dim=-1)
        n = len(w)
        out["prototype_mean_cosine"] = float(((w @ w.T).sum() - w.square().sum()) / (n * (n - 1)))
        if fed.method.distance == "euclidean":
            found = answers or _answers(fed)
            if found.own is not None:
                fits = found.each[0].T
                out["prototype_distance_ratio"] = _distance_ratio(fed, true.double(), fits)
    return out


def _distance_ratio(fed: Federation, true: Tensor, fits: Tensor) -> float:
    """Mean distance between true prototypes over the test embeddings' mean distance to their own.

    ``fits`` (C, n): minus the distances.
    """
    own = {c: i for i, c in enumerate(fed.data.client_class.tolist())}
    index = torch.tensor([own[y] for y in fed.data.test.y.tolist()], device=fits.device)
    to_own = fits.double().gather(0, index[None]).mean()
    return float(torch.pdist(true).mean() / -to_own.clamp(max=-1e-12))
