"""A round of FedAvg in Flower's simulation, one client a core: a contender of ``peers.py``.

The clients are those of the setting, and so are their batches; all else is Flower's own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import Any

import flwr
import ray
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from peers_setting import Desk, put, read, sgd

client = ClientApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """One client's local training."""
    torch.set_num_threads(1)
    config = message.content["config"]
    setting = read(str(config["setting"]))
    net = setting.network()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = setting.client(int(config["round"]), int(config["place"]))
    sgd(net, x, y, setting.lr)
    numbers = MetricRecord({"num-examples": y.numel()})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": numbers})
    return Message(content=content, reply_to=message)


class Chosen(FedAvg):
    """Flower's FedAvg; it waits for its turn, and each node is told which client it is."""

    def __init__(self, desk: Desk, path: str, clients: int) -> None:
        super().__init__(fraction_evaluate=0.0)
        self.desk, self.path, self.clients = desk, path, clients

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As many messages as clients take part."""
        while len(nodes := sorted(grid.get_node_ids())) < self.clients:
            time.sleep(0.1)  # they sign in one by one
        self.desk.wait()
        told = []
        for j, node in enumerate(nodes[: self.clients]):
            about = {"setting": self.path, "round": server_round - 1, "place": j}
            content = RecordDict({"arrays": arrays, "config": ConfigRecord({**config, **about})})
            told.append(Message(content=content, message_type="train", dst_node_id=node))
        return told

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Flower's, then the clock stops."""
        replies = list(replies)
        if len(replies) < self.clients or any(r.has_error() for r in replies):
            raise RuntimeError("a client failed")
        out = super().aggregate_train(server_round, replies)
        self.desk.done()
        return out


def main(folder: str, name: str) -> None:
    # Else Ray packs the working directory and sets up an environment for each worker.
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    path = f"{folder}/setting.safetensors"
    setting = read(path)
    desk = Desk(folder, name, f"flwr {flwr.__version__}, ray {ray.__version__}")
    server = ServerApp()

    @server.main()
    def run(grid: Grid, context: Context) -> None:
        strategy = Chosen(desk, path, setting.chosen.shape[1])
        first = ArrayRecord(setting.network().state_dict())
        result = strategy.start(grid, first, num_rounds=setting.rounds)
        net = setting.network()
        put(net, list(result.arrays.to_torch_state_dict().values()))
        desk.end(list(net.parameters()))

    # A cluster of its own, not one that somebody else has begun on this machine.
    here = {"num_cpus": setting.threads, "address": "local"}
    workers = {"client_resources": {"num_cpus": 1}, "init_args": here}
    nodes = int(setting.chosen.max()) + 1
    run_simulation(server, client, num_supernodes=nodes, backend_config=workers)


if __name__ == "__main__":
    main(*sys.argv[1:3])
