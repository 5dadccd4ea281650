"""What does a Flower app leak? Its strategy is recorded, its clients tell, and it is attacked.

OUT=runs uv run python examples/flower/digits.py, or with `flwr run examples/flower` in a federation
"""

import os
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from sklearn.datasets import load_digits
from torch import nn

import leakbench as lb
from leakbench.flower import Recorded, tell

OUT = str(Path(os.environ.get("OUT", "runs")).absolute())
SGD = {"lr": 0.1, "batch": 8, "steps": 2}


def net() -> nn.Module:
    """A small network."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def load() -> lb.clients:
    """Digits, over ten clients with few classes each."""
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype("float32")
    return lb.clients(images, digits.target, clients=10, split="dir", param=0.5)


def trained_on(message: Message, context: Context) -> list[list[int]]:
    """The rows of each step, drawn from the round and the client's number."""
    t, c = message.content["config"]["server-round"], context.node_config["partition-id"]
    order = np.random.default_rng([t, c]).permutation(len(load().client(c)[1]))
    return [order[i * 8 : i * 8 + 8].tolist() for i in range(SGD["steps"])]


client = ClientApp(mods=[tell(out=OUT, name="flower-digits", rows=trained_on)])


@client.train()
def train(message: Message, context: Context) -> Message:
    """Two steps of plain SGD."""
    torch.set_num_threads(1)
    model = net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = load().client(context.node_config["partition-id"])
    optimizer = torch.optim.SGD(model.parameters(), lr=SGD["lr"])
    for rows in trained_on(message, context):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    numbers = MetricRecord({"num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": numbers})
    return Message(content=content, reply_to=message)


server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """FedAvg as it is, recorded."""
    how = {"model": net, "data": load(), "loss": nn.functional.cross_entropy, "sgd": SGD}
    strategy = Recorded(FedAvg(fraction_evaluate=0.0), out=OUT, name="flower-digits", **how)
    strategy.start(grid, ArrayRecord(net().state_dict()), num_rounds=3)


if __name__ == "__main__":
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    here = {"init_args": {"num_cpus": 2, "address": "local"}, "client_resources": {"num_cpus": 1}}
    run_simulation(server, client, num_supernodes=10, backend_config=here)
    run = f"{OUT}/flower-digits-s0"
    lb.attack(run, "label_inference", source="update")
    print(lb.report(run, f"{OUT}/report"))
