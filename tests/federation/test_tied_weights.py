"""Networks in which one tensor stands in several places: trained, recorded and replayed as torch
trains them.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.federations import digits, first_digits, method
from helpers.small_runs import plugged, results
from torch import nn
from torch.nn.functional import cross_entropy

from leakbench import api
from leakbench.attacking.replay import Replay
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import ThreatModel, View
from leakbench.federation.client_tensors import kept_names
from leakbench.federation.defense import Defense
from leakbench.federation.federation import Federation
from leakbench.federation.net import Net
from leakbench.federation.parties import Batch


class Tied(nn.Module):
    """The head reads with the weights that the first layer embeds with; a layer is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(10, 64, bias=False)
        self.twice = nn.Linear(10, 10)
        self.head = nn.Linear(10, 64)
        self.head.weight = self.embed.weight

    def forward(self, x):
        h = (x.flatten(1) @ self.embed.weight).tanh()
        return self.head(self.twice(self.twice(h).tanh()))[:, :10]


class Task(type(digits())):  # type: ignore[misc]
    """Digits, read by that network."""

    def module(self, facts: Any) -> nn.Module:
        return Tied()


def trained(engine: str, **params: Any) -> Federation:
    _, data = first_digits(10)
    task = Task.build(digits().parameters(), "task tied")
    return Federation(
        method("fedavg", **params), task, data, seed=1, engine=engine, dtype=torch.float64
    )


@pytest.mark.parametrize(
    ("engine", "steps"), [("loop", 2), ("fused", 1), ("stacked", 2), ("threads", 2)]
)
def test_every_engine_trains_as_torch_does(engine, steps):
    fed = trained(engine, steps=steps, batch=4, lr=0.1)
    net = Tied().double()
    net.load_state_dict({**net.state_dict(), **fed.model, "head.weight": fed.model["embed.weight"]})
    assert fed.model.keys() == dict(net.named_parameters()).keys()
    fed.begin()
    start, batches = {k: v.clone() for k, v in fed.model.items()}, []
    watched = Defense.loss

    def loss(self, net, batch, me):
        if not torch._C._functorch.is_batchedtensor(batch.x):
            batches.append((batch.x.clone(), batch.y.clone()))
        return watched(self, net, batch, me)

    reference = trained("loop", steps=steps, batch=4, lr=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(reference.method), "loss", loss)
        reference.begin()
        reference.step()
    fed.step()
    ends = []
    for c in range(10):
        with torch.no_grad():
            for k, p in net.named_parameters():
                p.copy_(start[k])
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in batches[c * steps : (c + 1) * steps]:
            optimiser.zero_grad()
            torch.autograd.backward(cross_entropy(net(x), y))
            optimiser.step()
        ends.append({k: p.detach().clone() for k, p in net.named_parameters()})
    for k, v in fed.model.items():
        assert torch.allclose(v, torch.stack([e[k] for e in ends]).mean(0), atol=1e-12)


def test_a_replay_gives_the_update_that_was_sent():
    net = Tied().double()
    x, y = torch.rand(3, 1, 8, 8, dtype=torch.float64), torch.tensor([1, 2, 2])
    gradients = torch.autograd.grad(cross_entropy(net(x), y), list(net.parameters()))
    seen = Transcript(net, cross_entropy, shape=(1, 8, 8), classes=10, lr=0.1)
    seen.add("update", [-0.1 * g for g in gradients], labels=y)
    view = View(ThreatModel(knows=("method", "facts")), seen, 1)
    (message,) = view.messages("update")
    replay = Replay(view, message, torch.Generator(), sizes=(3,))
    made = replay.gradient(Batch(x, y), {})
    assert {k: v.shape for k, v in made.items()} == {k: v.shape for k, v in net.named_parameters()}
    for (k, v), g in zip(net.named_parameters(), gradients, strict=True):
        assert v.shape == g.shape
        assert torch.allclose(made[k], g, atol=1e-12)


def test_its_first_name_is_the_one_that_is_lacking_or_kept():
    net = Tied()
    numbers = dict(net.named_parameters())
    assert Net(net, numbers).lacking == []
    assert Net(net, {k: v for k, v in numbers.items() if "twice" in k}).lacking == [
        "embed.weight",
        "head.bias",
    ]

    class KeepsHead(Defense):
        paper = ""

        def keeps(self, name, module):
            return name.startswith("head.")

    assert kept_names(KeepsHead(), net) == {"embed.weight", "head.bias"}


PLUGIN = '''
"""Digits, read by a network of two layers with one weight."""

from torch import nn

from leakbench.tasks.digits import Digits


class Net(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.head = nn.Linear(64, out)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.head(self.second(self.first(x.flatten(1)).tanh()).tanh())


class TiedDigits(Digits):
    """Digits."""

    def module(self, facts):
        return Net(facts.dim)
'''


def test_a_run_is_recorded_goes_on_and_is_attacked(tmp_path):
    with plugged("leakbench.tasks", tmp_path, tied_digits=PLUGIN):
        how = {"task": "tied-digits", "task_params": {"evaluations": 10}, "device": "cpu"}
        done = api.train("fedavg", rounds=10, out=tmp_path / "runs", params={"batch": 1}, **how)
        few = {"message": "update", "targets": 2, "steps": 40, "restarts": 1, "at": ["final"]}
        found = api.attack(done, "gradient_inversion", labels="inferred", **few)
        row = results(found.path, "label_accuracy")
        assert (row["value"], row["failed"]) == (1.0, 0)
