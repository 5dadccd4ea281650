"""What the evaluator measures between rounds: utility on the test set, and diagnostics. It is not a party."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leakbench.parties import weighted_mean
from leakbench.tree import Tree, each_row, row

if TYPE_CHECKING:
    from leakbench.federation import Federation


@dataclass
class Evaluations:
    """``scores``: round -> (test units,) float32; ``diagnostics``: (round, name, value)."""

    scores: dict[int, Tensor] = field(default_factory=dict)
    diagnostics: list[tuple[int, str, float]] = field(default_factory=list)

    def add(self, fed: Federation) -> None:
        """Evaluate the federation as it stands after its newest round."""
        self.scores[fed.t] = accuracy_scores(fed).float().cpu()
        self.diagnostics += [(fed.t, name, value) for name, value in diagnose(fed).items()]


def evaluated(rounds: int, times: int) -> set[int]:
    """The rounds after which utility is measured: ``times`` evenly spaced ones, the last among them."""
    return {max(1, round(rounds * (i + 1) / times)) for i in range(times)}


@torch.no_grad()
def accuracy_scores(fed: Federation) -> Tensor:
    """(test units,) in [0, 1]: was the example's class named?

    Methods whose ``predict`` says how well x fits one client: the class of the best-fitting client, ties shared. Methods
    with class logits: the global model's class, or where clients keep parts, the share of clients that name it.
    """
    test, method = fed.data.test, fed.method
    each = fed.tables()

    def ask(e: Tree) -> Tensor:
        return method.predict(fed.outside(e).net, test.x, fed.outside(e))

    first = ask(row(each, 0))
    if first.dim() == 2:
        same = not any(fed.columns[k] for k in ("own", "state", "kept"))
        logits = first[None] if same else _over_clients(fed, each)
        return (logits.argmax(-1) == test.y).double().mean(0)
    fits = _over_clients(fed, each).T  # (n, C)
    best = fits >= fits.max(1, keepdim=True).values
    right = fed.data.client_class[None] == test.y[:, None]
    return (best & right).sum(1).double() / best.sum(1)


def _over_clients(fed: Federation, each: Tree) -> Tensor:
    test = fed.data.test

    def ask(e: Tree) -> Tensor:
        me = fed.outside(e)
        return fed.method.predict(me.net, test.x, me)

    try:
        return each_row(ask, each)
    except RuntimeError:  # vmap refused it: one by one, or the real error
        return torch.stack([ask(row(each, i)) for i in range(len(fed.everyone))])


@torch.no_grad()
def diagnose(fed: Federation) -> dict[str, float]:
    """{name: value} after a round: training loss, norm of the mean update, how alike the true prototypes are."""
    out = {}
    if fed.losses is not None:
        out["loss"] = float(fed.losses.double().mean())
    mean = fed.means.get("update")
    if mean is None and "update" in fed.received and fed.share is not None:  # the loop: only the server's function averages
        mean = weighted_mean(fed.received["update"], fed.share)
    if mean:
        out["update_norm"] = float(sum(v.double().square().sum() for v in mean.values()) ** 0.5)
    true = fed.secrets().get("prototype")
    if true is not None:
        w = torch.nn.functional.normalize(true.double(), dim=-1)
        n = len(w)
        out["prototype_mean_cosine"] = float(((w @ w.T).sum() - w.square().sum()) / (n * (n - 1)))
        if fed.method.distance == "euclidean":
            out["prototype_distance_ratio"] = _distance_ratio(fed, true.double())
    return out


def _distance_ratio(fed: Federation, true: Tensor) -> float:
    """Mean distance between true prototypes over the test embeddings' mean distance to their own."""
    embedded = fed.outside(row(fed.tables(), 0)).net(fed.data.test.x).double()
    own = {int(c): i for i, c in enumerate(fed.data.client_class)}
    index = torch.tensor([own[int(y)] for y in fed.data.test.y])
    spread = torch.pdist(true).mean()
    return float(spread / (embedded - true[index]).norm(dim=-1).mean().clamp(min=1e-12))
