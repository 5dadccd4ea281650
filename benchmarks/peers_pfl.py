"""A round of FedAvg in pfl-research's simulation: a contender of ``peers.py``.

The clients are those of the setting, and so are their batches; all else is pfl-research's own.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

import torch
from peers_setting import Desk, Setting, network, put, read
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn


class Net(nn.Module):
    """The network with the two functions that pfl-research asks of it."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.net = network(tuple(setting.x.shape[1:]), len(setting.start[-1]))
        put(self.net, setting.start)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def loss(self, x: Tensor, y: Tensor, **_: Any) -> Tensor:
        self.train()
        return nn.functional.cross_entropy(self.net(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor, **_: Any) -> dict[str, Any]:
        return {}


class Turns(TrainingProcessCallback):
    """Says that a round is done, and waits for the next one."""

    def __init__(self, desk: Desk, rounds: int) -> None:
        self.desk, self.rounds, self.t = desk, rounds, 0

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.desk.done()
        self.t += 1
        if self.t < self.rounds:
            self.desk.wait()
        return False, Metrics()


def main(folder: str, name: str) -> None:
    setting = read(f"{folder}/setting.safetensors")
    torch.set_num_threads(setting.threads)
    desk = Desk(folder, name, f"pfl {version('pfl')}")
    turns, clients = Turns(desk, setting.rounds), setting.chosen.shape[1]
    place = iter(range(setting.rounds * clients))

    def of_user(j: int) -> Dataset:
        x, y = setting.client(turns.t, j % clients)
        return Dataset((x.flatten(0, 1), y.flatten()), user_id=str(j))

    net = Net(setting)
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    data = FederatedDataset(of_user, lambda: next(place))
    backend = SimulatedBackend(training_data=data, val_data=None)
    how = NNAlgorithmParams(setting.rounds, setting.rounds + 1, clients, None)
    local = NNTrainHyperParams(
        local_batch_size=setting.rows.shape[-1], local_num_epochs=1, local_learning_rate=setting.lr
    )
    desk.wait()
    FederatedAveraging().run(how, backend, model, local, None, [turns])
    desk.end(list(net.net.parameters()))


if __name__ == "__main__":
    main(*sys.argv[1:3])
