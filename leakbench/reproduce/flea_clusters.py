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
from leakbench.reproduce.orders import Less
from leakbench.reproduce.recipe import Case, Measure, Params, Recipe, Scale, Setup

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation.federation import Federation
    from leakbench.federation.task_data import Examples, TaskData

RIGHT = 0.4  # of the test set, where the round begins
# The rounds before: small, so as not to overshoot.
WARM: Params = {"fraction": 1.0, "steps": 2, "epochs": 0}
MOST = 300  # of these rounds
LOCAL = 10  # clients of the round
GIVEN = 1000  # of the shared set, in the paper


def clusters(setup: Setup, params: Params, seed: int) -> dict[str, float]:
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


MANY, SOME, FEW, HELPED = "|D| = 5,000", "|D| = 1,000", "|D| = 100", "|D| = 100 + 1,000"


def _setup(
    sizes: Mapping[str, int], given: int, local: Params, warm: Params | None = None, **more: Any
) -> Setup:
    params: dict[str, Params] = {name: {"clients": n} for name, n in sizes.items()}
    params |= {"local": local, "shared": {"examples": given}, "warm": warm or {}}
    return Setup(dataset="cifar10", rounds=0, params=params, **more)


def _cifar(local: Params, *differs: str, **net: Any) -> Setup:
    return _setup(
        {"many": 10, "some": 50, "few": 500},
        GIVEN,
        {"batch": 64, **local},
        warm={"steps": 8, "batch": 64, "lr": 0.002, "decay": 1.0},
        task="cifar10",
        task_params={"utility": "accuracy", **net},
        needs="cifar10",
        differs=differs,
    )


_DIGITS = _setup(
    {"many": 10, "some": 50, "few": 100},
    100,
    {"epochs": 10, "batch": 8},
    task="digits",
    stand_in="scikit-learn's 8x8 digits: 107, 21 and 10 a client, 100 shared, in place of CIFAR-10",
    differs=("a small LeNet", "batches of 8, not 64"),
)
_RESNET: dict[str, Any] = {"model": "resnet8", "width": 8, "aux_per_class": 500}
_NET = ("ResNet-8 of 8 to 32 channels, not MobileNetV2",)

RECIPE = Recipe(
    name="flea-figure3",
    paper="flea",
    about=(
        "FLea, Figure 3: Davies-Bouldin index of features before and after a round of local"
        " training, IID, from a model at 40 %."
    ),
    cases=(
        Case(MANY, "", {"size": "many"}),
        Case(SOME, "", {"size": "some"}),
        Case(FEW, "", {"size": "few"}),
        Case(HELPED, "", {"size": "few", "shared": True}),
    ),
    measures=(
        Measure("before", "test set, before", "davies_bouldin", printed=False),
        Measure("own", "own examples, local models", "davies_bouldin", printed=False),
        Measure("test", "test set, local models", "davies_bouldin", printed=False),
        Measure("gap", "test less own", "davies_bouldin_gap", printed=False),
        Measure("global", "test set, their mean", "davies_bouldin", printed=False),
    ),
    scales={
        "smoke": Scale("a minute on one core", (_DIGITS,), seeds=(0, 1, 2)),
        "small": Scale(
            "an hour on one core", (_cifar({"epochs": 10}, *_NET, **_RESNET),), seeds=(0, 1, 2)
        ),
        "full": Scale(
            "an hour on one GPU, never tried",
            (_cifar({"epochs": 10}, model="mobilenetv2"),),
            seeds=(0, 1, 2, 3, 4),
        ),
    },
    orders=(
        Less("the fewer examples, the nearer their own classes", "own", pairs=((FEW, MANY),)),
        Less("and the wider the gap to the test set", "gap", pairs=((MANY, FEW),)),
        Less("shared examples make the gap smaller", "gap", pairs=((HELPED, FEW),)),
        Less("and help the mean of the models", "global", pairs=((HELPED, FEW),)),
    ),
    choices=(
        (
            "The paper's numbers, read in its text: 4.8 before, after local training 3.1 (5,000"
            " examples) and 0.8 (100) on the clients' own examples; the others are bars alone."
        ),
        (
            "Ten clients take part; own and test are means over them. It does not say how many did,"
            " nor for how long they trained: ten epochs here, as in its other studies."
        ),
        "How the model at 40 % was trained it does not say: rounds of a few steps of Adam here.",
        "The t-SNE plots are left out: they show what the index measures.",
    ),
    study=clusters,
)
