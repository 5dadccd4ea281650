"""What the evaluator, who is no party, measures between rounds: test utility and diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leakbench.base.errors import MethodError
from leakbench.base.tree import Tree, each_row, row
from leakbench.federation.defense import Defense
from leakbench.federation.parties import weighted_mean
from leakbench.federation.utility import METRICS

if TYPE_CHECKING:
    from leakbench.federation.federation import Federation

CHUNK = 250  # test images at a time
# What ``predict`` says of every test example: (True, class logits (clients or 1, n, K)), or
# (False, how well each fits each client (C, n)).
Answers = tuple[bool, Tensor]


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


def evaluated(rounds: int, times: int) -> set[int]:
    """The rounds after which utility is measured: ``times``, evenly spaced, the last among them."""
    return {max(1, round(rounds * (i + 1) / times)) for i in range(times)}


@torch.no_grad()
def utility_scores(fed: Federation, answers: Answers | None = None) -> Tensor:
    """(test units,) of the task's metric, whose mean is its value.

    Methods whose ``predict`` says how well x fits one client: the clients' fits are those to their
    classes. Methods with class logits: the global model's log-probabilities, or where clients keep
    parts, the mean over clients of what each scores with its own.
    """
    score = METRICS[fed.task.metric].score
    logits, fits = answers or _answers(fed)
    y = fed.data.test.y[:, None]
    if logits:
        classes = torch.arange(fits.shape[-1], device=y.device)
        return torch.stack([score(f.double().log_softmax(-1), y == classes) for f in fits]).mean(0)
    # No client stands for a class: every answer would count as wrong.
    if bool((fed.data.client_class < 0).any()):
        raise MethodError(
            f"{type(fed.method).__name__}.predict says how well x fits a client, but clients of"
            " this task have several classes: let it return class logits (n, classes)."
        )
    return score(fits.T, y == fed.data.client_class)


def _answers(fed: Federation) -> Answers:
    test, each = fed.data.test, fed.tables()
    # Defense.predict reads nothing that a client holds but the model.
    plain = type(fed.method).predict is Defense.predict
    read = ("kept",) if plain else ("own", "state", "kept")
    same = not any(fed.columns[k] for k in read)
    parts, logits = [], False
    for rows in torch.split(torch.arange(len(test), device=test.y.device), CHUNK):
        x = test.images(rows)

        def ask(e: Tree, x: Tensor = x) -> Tensor:
            me = fed.outside(e)
            return fed.method.predict(me.net, x, me)

        logits = ask(row(each, 0), x[:1]).dim() == 2
        parts.append(ask(row(each, 0))[None] if logits and same else _over_clients(fed, ask, each))
    return logits, torch.cat(parts, dim=1)


def _over_clients(fed: Federation, ask: Callable[[Tree], Tensor], each: Tree) -> Tensor:
    """``ask`` of every client: at once, or one by one where each has a whole network of its own.

    Convolutions whose weights differ between clients are several times slower at once.
    """
    if not fed.runner.trained.issubset(fed.columns["kept"]) and "predict" not in fed.fallbacks:
        try:
            return each_row(ask, each)
        except RuntimeError as error:  # vmap refused it: one by one, or the real error
            fed.fallbacks["predict"] = str(error).splitlines()[0]
    return torch.stack([ask(row(each, i)) for i in range(len(fed.everyone))])


@torch.no_grad()
def diagnose(fed: Federation, answers: Answers | None = None) -> dict[str, float]:
    """Diagnostics after a round: {name: value}.

    Training loss, norm of the mean update, how far apart the local models and how alike the true
    prototypes are. ``local_variance``: mean over the trained parameters of the variance over the
    round's clients, before averaging (FedAA, Figure 5); of a second training in a round,
    ``local_variance_<its name>``. Not of rounds of one SGD step, which may be fused.
    """
    out = {}
    if fed.losses is not None:
        out["loss"] = float(fed.losses.double().mean())
    for i, (training, variance) in enumerate(fed.variances.items()):
        name = f"local_variance_{training.removesuffix('_loss')}" if i else "local_variance"
        out[name] = float(variance)
    mean = fed.means.get("update")
    # The loop: only the server's function averages.
    if mean is None and "update" in fed.received and fed.share is not None:
        mean = weighted_mean(fed.received["update"], fed.share)
    if mean:
        out["update_norm"] = float(sum(v.double().square().sum() for v in mean.values()) ** 0.5)
    true = fed.secrets().get("prototype")
    if true is not None:
        w = torch.nn.functional.normalize(true.double(), dim=-1)
        n = len(w)
        out["prototype_mean_cosine"] = float(((w @ w.T).sum() - w.square().sum()) / (n * (n - 1)))
        if fed.method.distance == "euclidean":
            _, fits = answers or _answers(fed)
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
