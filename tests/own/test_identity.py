"""Another network under the same name is another task; a covered record is reported."""

import copy

import pytest
import torch
from helpers.own_loops import DATA, net, weights
from torch import nn

import leakbench as lb


class Own(nn.Module):
    def __init__(self, out, scale=1.0):
        super().__init__()
        self.last = nn.Linear(5, out)
        with torch.no_grad():
            self.last.weight.fill_(scale)

    def forward(self, x):
        return self.last(torch.tanh(x))


class Other(Own):
    def forward(self, x):
        return self.last(torch.relu(x))


def named(cls, name):
    made = type("Own", (cls,), dict(vars(cls)))
    made.__qualname__ = name
    return made


def frozen(out):
    made = Own(out)
    made.last.bias.requires_grad_(False)
    return made


def network_of(model):
    return lb.task("same-name", DATA, model=model).made_of["network"]


def test_a_network_is_the_same_every_time():
    module = Own(2)
    assert network_of(Own) == network_of(Own) == network_of(lambda out: Own(out))
    assert network_of(module) == network_of(copy.deepcopy(module))
    assert network_of(net) == network_of(net)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Own(2, 1.0), Own(2, 2.0)),
        (Own, lambda out: Own(out, 2.0)),
        (named(Own, "N"), named(Other, "N")),
        (Own, frozen),
    ],
    ids=["numbers", "begins with", "forward", "what is trained"],
)
def test_another_network_is_another(one, other):
    assert network_of(one) != network_of(other)


def test_a_covered_record_is_reported(tmp_path):
    """With what would have been sent uncovered there is a control; without, no acquittal."""
    for told in (True, False):
        how = {"name": f"covered-{told}".lower(), "model": net, "data": DATA}
        sgd = {"lr": 0.1, "batch": 4, "epochs": 1}
        with lb.observe(tmp_path, covered=["update"], sgd=sgd, **how) as seen:
            for t in (1, 2):
                seen.sent("model", model_of(t), round=t)
                for c in range(len(DATA)):
                    plain = weights(t, c)
                    noised = {k: v + 0.1 * torch.randn_like(v) for k, v in plain.items()}
                    more = {"uncovered": plain} if told else {}
                    seen.update(noised, client=c, round=t, **more)
        run = seen.run
        assert run.meta["hides"] is True
        lb.attack(run, "label_inference", source="update")
        lb.report([run], tmp_path / f"report-{told}", formats=("json", "csv"))
        lb.export(run, tmp_path / f"{told}.tar")


def model_of(t):
    from helpers.own_loops import model

    return model(t)


def test_the_code_of_own_tasks_moves_the_digest_of_a_run():
    from leakbench.record import origin

    lb.task("digested", DATA, model=net)
    spec = {"task": {"name": "digested", "params": {}}, "defense": {"name": "fedavg"}}
    modules = origin._modules({**spec, "wrappers": []})
    assert modules == {"leakbench.own.own_task", "defenses.fedavg"}
    assert origin.spec_code({**spec, "wrappers": []})["method"]
