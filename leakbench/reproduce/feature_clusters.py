"""FLea's Figure 3: how well classes are apart in local models trained on many examples and on few.

No run is made: one model is trained until it is right in 40 % of the test set, then one round is
taken from it with clients of each size, and the features of the models before and after compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from leakbench.base import registry
from leakbench.base.errors import NotMeasured
from leakbench.base.lazy import torch
from leakbench.base.spec import canonical
from leakbench.base.streams import shared
from leakbench.base.tree import Tree, tmap
from leakbench.reproduce.recipe import Params, Setup

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation.federation import Federation
    from leakbench.federation.task_data import Examples, TaskData

RIGHT = 0.4  # of the test set, where the round begins
# The rounds before: small, so as not to overshoot.
WARM: Params = {"fraction": 1.0, "steps": 2, "epochs": 0}
MOST = 300  # of these rounds
LOCAL = 10  # clients of the round


def feature_clusters(setup: Setup, params: Params, seed: int) -> dict[str, float]:
    """Davies-Bouldin indices (0 or more; smaller: classes overlap less) of features (B, d).

    Features are what goes into the last layer, classes the true ones. ``before``: of the test set
    in the common model; ``own``: of each client's own examples in its trained model, the mean over
    clients that have two classes at least; ``test``: of the test set there; ``gap``: the second
    less the first; ``global``: of the test set in the mean of the clients' models.

    Args:
        setup: its ``params`` say under each case's ``size`` how many clients there are, and under
            ``warm`` what the rounds before have in the place of ``WARM``'s settings.
        params: ``size`` and ``shared``: are examples given to everybody beside its own?
        seed: of weights, draws and which examples are shared.

    Raises:
        NotMeasured: the common model never gets so far.
    """
    sizes = setup.params[str(params["size"])]
    local = setup.params["local"]
    task = canonical({**setup.task_params, "clients": sizes["clients"], "split": "iid"})
    many = int(sizes["clients"])
    given = int(setup.params["shared"]["examples"]) if params.get("shared") else 0
    training = {**local, "fraction": min(1.0, LOCAL / many), "average": "plain"}
    fed, watch = _federation(setup.task, task, training, seed, given)
    warm = canonical({**WARM, **setup.params.get("warm", {})})
    common = _common(setup.task, canonical(dict(setup.task_params)), warm, seed)
    fed.model = tmap(torch.clone, common)
    received = dict(fed.model)
    before = _index(fed, received, fed.data.test)
    fed.step()
    own, test = [], []
    for client, model in watch.models(received):
        mine = fed.data.train.some(fed.data.rows[client, : int(fed.data.counts[client])])
        if int(mine.y.max()) > int(mine.y.min()):
            own.append(_index(fed, model, mine))
        test.append(_index(fed, model, fed.data.test))
    found = {"before": before, "own": _mean(own), "test": _mean(test)}
    after = _index(fed, dict(fed.model), fed.data.test)
    return {**found, "gap": found["test"] - found["own"], "global": after}


@lru_cache(maxsize=4)
def _common(task: str, params: str, warm: str, seed: int) -> Tree:
    """The model where the round begins: the first of FedAvg's that is right in ``RIGHT``.

    ``warm``: the settings of the rounds before, as JSON, as ``params`` are the task's.
    """
    from leakbench.federation.evaluate import utility_scores

    given = canonical({**json.loads(params), "clients": LOCAL, "split": "iid"})
    fed, _ = _federation(task, given, json.loads(warm), seed, 0)
    fed.begin()
    for _ in range(MOST):
        fed.step()
        if float(utility_scores(fed).mean()) >= RIGHT:
            return dict(fed.model)
    raise NotMeasured(f"{MOST} rounds of FedAvg do not get to an accuracy of {RIGHT}.")


def _federation(
    task: str, params: str, training: Mapping[str, Any], seed: int, given: int
) -> tuple[Federation, Any]:
    """FedAvg on a task, and who keeps its clients' updates; ``given``: shared with everybody."""
    from leakbench.federation.federation import Federation
    from leakbench.federation.observer import Observer

    class Watch(Observer["Federation"]):
        """Keeps what the last round's clients sent."""

        def trained(self, fed: Federation, name: str, each: Tree, todo: Any, update: Tree) -> None:
            self.who, self.update = each["index"].tolist(), update

        def models(self, received: Tree) -> Sequence[tuple[int, Tree]]:
            """(client, its trained model) of each."""

            def of(i: int) -> Tree:
                return {
                    k: v + self.update[k][i] if k in self.update else v for k, v in received.items()
                }

            return [(who, of(i)) for i, who in enumerate(self.who)]

    made = registry.load_plugin("tasks", task).build(json.loads(params), f"task {task}")
    method = registry.load_plugin("defenses", "fedavg")
    chosen = method.build({**made.defaults("fedavg"), **training}, "defense fedavg")
    data, watch = made.load(), Watch()
    if given:
        data = _shared(data, given, seed)
    fed = Federation(chosen, made, data, seed=seed, engine="loop", recorder=watch)
    return fed, watch


def _shared(data: TaskData, given: int, seed: int) -> TaskData:
    """The same with ``given`` examples of the training set, at random, beside everybody's own."""
    from leakbench.federation.task_data import padded

    rows = shared(seed, "reproduce/flea-figure3").permutation("shared", len(data.train))[:given]
    held = [data.rows[c, : int(n)] for c, n in enumerate(data.counts)]
    mine, counts = padded([torch.cat([own, rows]) for own in held])
    return replace(data, rows=mine, counts=counts)


def _index(fed: Federation, model: Tree, examples: Examples) -> float:
    """Davies and Bouldin's, of the features that ``model`` makes of the examples."""
    from sklearn.metrics import davies_bouldin_score

    from leakbench.federation.evaluate import CHUNK
    from leakbench.federation.net import Net, training_mode

    net, parts = Net(fed.module, model), torch.split(torch.arange(len(examples)), CHUNK)
    with torch.no_grad(), training_mode(fed.module, False):
        features: list[Tensor] = [
            net(examples.some(rows).x, stop=net.representation).flatten(1) for rows in parts
        ]
    return float(davies_bouldin_score(torch.cat(features).double().numpy(), examples.y.numpy()))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
