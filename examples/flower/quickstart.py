"""Flower's PyTorch quickstart on CIFAR-10, recorded: what did its updates give away?

OUT=runs uv run python examples/flower/quickstart.py

Its network, batches of 32, SGD with momentum .9 at 0.1, one local epoch, normalised images, ten
clients with equal parts of whom half train in each of three rounds. For the record come the
import, `load` for the truth, the mod `tell` with its rows, `Recorded`, and what follows the
simulation. SPLIT=dir gives each client classes of its own, by shares from Dirichlet(0.5).
"""

import os
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn import functional as F

import leakbench as lb
from leakbench.data import image_sets
from leakbench.flower import Recorded, tell

OUT = str(Path(os.environ.get("OUT", "runs")).absolute())
SPLIT = os.environ.get("SPLIT", "iid")
NAME, CLIENTS, BATCH = f"quickstart-{SPLIT}", 10, 32
SGD = {"lr": 0.1, "momentum": 0.9, "batch": BATCH, "epochs": 1}


class Net(nn.Module):
    """The small network of PyTorch's sixty minutes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1, self.fc2 = nn.Linear(16 * 5 * 5, 120), nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (B, 10) of images (B, 3, 32, 32)."""
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


def load() -> lb.clients:
    """CIFAR-10, normalised, over ten clients."""
    (x, y), (tested, classes) = image_sets.load_images("cifar10")
    normal = [(images.float() / 255 - 0.5) / 0.5 for images in (x, tested)]
    own, half = {"mean": 0.5, "std": 0.5}, len(tested) // 2
    beside = {"test": (normal[1][:half], classes[:half]), "aux": (normal[1][half:], classes[half:])}
    how = {"split": SPLIT, "param": 0.5} if SPLIT == "dir" else {"split": SPLIT}
    return lb.clients(normal[0], y, clients=CLIENTS, **how, **beside, **own)


DATA = load()


def order(message: Message, context: Context) -> np.ndarray:
    """The rows of an epoch, as a shuffling loader of this round and client has them."""
    t, c = message.content["config"]["server-round"], context.node_config["partition-id"]
    return np.random.default_rng([t, c]).permutation(len(DATA.client(c)[1]))


def trained_on(message: Message, context: Context) -> list[list[int]]:
    """The rows of each step."""
    rows = order(message, context)
    return [rows[i : i + BATCH].tolist() for i in range(0, len(rows), BATCH)]


client = ClientApp(mods=[tell(out=OUT, name=NAME, rows=trained_on)])


@client.train()
def train(message: Message, context: Context) -> Message:
    """One epoch of SGD."""
    torch.set_num_threads(1)
    model = Net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = DATA.client(context.node_config["partition-id"])
    optimizer = torch.optim.SGD(model.parameters(), lr=SGD["lr"], momentum=SGD["momentum"])
    for rows in trained_on(message, context):
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    numbers = MetricRecord({"num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": numbers})
    return Message(content=content, reply_to=message)


server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """FedAvg as it is, recorded."""
    how = {"model": Net, "data": DATA, "loss": F.cross_entropy, "sgd": SGD}
    strategy = Recorded(
        FedAvg(fraction_train=0.5, fraction_evaluate=0.0), out=OUT, name=NAME, **how
    )
    config = ConfigRecord({"lr": SGD["lr"]})
    strategy.start(grid, ArrayRecord(Net().state_dict()), train_config=config, num_rounds=3)


if __name__ == "__main__":
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    here = {"init_args": {"num_cpus": 2, "address": "local"}, "client_resources": {"num_cpus": 1}}
    run_simulation(server, client, num_supernodes=CLIENTS, backend_config=here)
    run = f"{OUT}/{NAME}-s0"
    lb.attack_all(run, minutes=2)
    print(lb.report(run, f"{OUT}/report"))
