"""Two classes in one output: the sign of its bias's gradient tells the label, its size how many."""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import FEW_PROBES, TASK, again, build, obstacle, plugged, results
from torch import nn
from torch.nn import functional

from leakbench import api
from leakbench.attacking.transcript import Transcript
from leakbench.base.errors import MethodError, UsageError
from leakbench.federation.net import Net
from leakbench.federation.objective import class_logits, fits_target
from leakbench.models.stages import squashes
from leakbench.utilities.accuracy import Accuracy

RATE = 0.5


def network(*, sigmoid=False, seed=0):
    layers = [nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 1)]
    net = nn.Sequential(*layers, *([nn.Sigmoid()] if sigmoid else [])).double()
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(
                (2 * torch.rand(p.shape, generator=rng, dtype=p.dtype) - 1) / p.shape[-1] ** 0.5
            )
    return net


def images(y, seed=1):
    """Images of class 1 are bright on the left, those of class 0 on the right."""
    x = 0.3 * torch.rand(len(y), 1, 4, 4, generator=torch.Generator().manual_seed(seed)).double()
    for i, c in enumerate(y):
        x[i, :, :, :2] += 0.6 * float(c)
        x[i, :, :, 2:] += 0.6 * (1 - float(c))
    return x


def seen(y, *, sigmoid=False, loss=None, **fields):
    net = network(sigmoid=sigmoid)
    kind = nn.BCELoss if sigmoid else nn.BCEWithLogitsLoss
    x, y = images(y), torch.tensor(y)
    value = kind()(net(x), y.double()[:, None])
    gradients = torch.autograd.grad(value, list(net.parameters()))
    aux = [0, 1] * 20
    told = Transcript(
        net, loss or kind(), lr=RATE, batch=len(y), aux_data=(images(aux, seed=2), aux), **fields
    )
    told.add("update", [-RATE * g for g in gradients], labels=y)
    told.add("count", len(y))
    return told


@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize("y", [[0], [1], [0, 0, 0], [1, 1]])
def test_the_sign_tells_the_label(y, sigmoid):
    (guess,) = seen(y, sigmoid=sigmoid).attack("label_inference", source="update")
    assert guess.tensors["shares"].tolist() == [1.0 - y[0], float(y[0])]


@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize("y", [[0], [1], [0, 1, 1, 1], [0, 0, 0, 1, 0], [0, 1] * 4, [1] * 5])
def test_the_size_tells_how_many(y, sigmoid):
    told = seen(y, sigmoid=sigmoid)
    (guess,) = told.attack("label_inference", source="calibrated")
    share = sum(y) / len(y)
    assert guess.tensors["shares"][1].item() == pytest.approx(share, abs=0.1)
    (found,) = told.attack("gradient_inversion", labels="inferred", steps=1, restarts=1)
    assert sorted(found.tensors["labels"].tolist()) == sorted(y)
    (blind,) = told.attack("gradient_inversion", labels="inferred", blind=True)
    assert len(blind.tensors["labels"]) == len(y)


def test_that_one_output_moved_names_neither_class():
    with pytest.raises(UsageError, match="one output stands for both classes"):
        seen([1]).attack("label_inference", source="moved")


def test_a_loss_that_does_not_fit_says_so():
    with pytest.raises(
        MethodError, match=r"does not take outputs \(1, 1\) and labels \(1,\), which"
    ):
        seen([1], loss=lambda out, y: functional.nll_loss(out, y[:, None])).attack(
            "gradient_inversion", steps=1
        )


def test_a_logit_stands_for_two():
    z, y = torch.tensor([[0.3], [-2.0], [40.0]]).double(), torch.tensor([0, 1, 1])
    logits = class_logits(z)
    assert torch.allclose(logits.softmax(1)[:, 1], z[:, 0].sigmoid())
    binary = functional.binary_cross_entropy_with_logits(z[:, 0], y.double(), reduction="none")
    assert torch.allclose(functional.cross_entropy(logits, y, reduction="none"), binary)
    net, x = network(), images([0, 1])
    numbers = dict(net.named_parameters())
    made = fits_target(Net(net, numbers), x, torch.tensor([0, 1]))
    wanted = functional.binary_cross_entropy_with_logits(
        net(x)[:, 0], torch.tensor([0.0, 1.0]).double(), reduction="none"
    )
    assert torch.allclose(made, wanted)
    several = torch.rand(2, 3)
    assert class_logits(several) is several


def test_accuracy_of_one_output():
    class Data:
        class test:
            y = torch.tensor([0, 1, 1, 0])

    answer = torch.tensor([[-1.0], [2.0], [-3.0], [0.0]])
    assert Accuracy().scores(answer, Data, None).tolist() == [1, 1, 0, 0.5]


def test_a_network_that_ends_in_a_sigmoid_is_known():
    assert not squashes(network(), (1, 4, 4))
    assert squashes(network(sigmoid=True), (1, 4, 4))


PLUGIN = '''
"""Is a digit five or more?"""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import nn

from leakbench.models import Stages
from leakbench.tasks.digits import Digits


class LargeDigits(Digits):
    """Digits, small or large."""

    classes: ClassVar[int] = 2
    end: ClassVar[str] = "{end}"

    def load(self):
        data = Digits.build({{**self.parameters(), "split": "class"}}, "digits").load()
        parts = {{"client_class": torch.full_like(data.client_class, -1)}}
        for name in ("train", "test", "aux"):
            old = getattr(data, name)
            parts[name] = replace(old, y=(old.y >= {above}).long())
        return replace(data, **parts)

    def module(self, facts):
        first = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh())
        head = nn.Sequential(nn.Linear(16, {outputs}), *([nn.Sigmoid()] if self.end else []))
        return Stages({{"first": first, "head": head}})
'''


def task(end="", above=5, outputs=1):
    return PLUGIN.format(end=end, above=above, outputs=outputs)


SGD = {"lr": 1.0, "batch": 16, "steps": 1, "epochs": 0, "optimizer": "sgd", "decay": 1.0}
HOW = {"task": "large-digits", "task_params": {**TASK, "split": "qua"}, "device": "cpu"}


def test_a_run_trains_is_measured_and_its_labels_are_read(tmp_path):
    with plugged("leakbench.tasks", tmp_path, large_digits=task()):
        how = {"out": tmp_path / "runs", "params": SGD}
        run = api.train("fedavg", rounds=40, record=FEW_PROBES, **how, **HOW)
        row = results(api.attack(run, "label_inference", source="update").path, "label_overlap")
        gained = api.tables([run.path]).to_frame("tradeoff").iloc[0]
        assert gained["utility"] > 0.6  # 0.5 is a coin
        assert row["value"] > 0.95  # each client's digits are small, or large
        why = obstacle(build("label_inference", source="moved"), again(run))
        assert why == "one output stands for both classes, so that it moves names neither"


@pytest.mark.parametrize(
    ("source", "method", "why"),
    [
        (task("sigmoid"), "fedavg", "ends in a sigmoid: let it end before that"),
        (task(), "fedlc", "FedLC reads a logit for each class: give the network two outputs"),
        (
            task().replace("ClassVar[int] = 2", "ClassVar[int] = 10"),
            "fedavg",
            "has one output, and the task 10 classes",
        ),
    ],
    ids=["sigmoid", "method", "classes"],
)
def test_one_output_that_says_no_class_is_refused(tmp_path, source, method, why):
    with (
        plugged("leakbench.tasks", tmp_path, large_digits=source),
        pytest.raises(UsageError, match=why),
    ):
        api.train(method, rounds=10, out=tmp_path / "runs", **HOW)


class Turned(nn.Module):
    """Gives the last layer's outputs turned round: its bias says the other class."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(16, 2).double()

    def forward(self, x):
        return -self.last(x.flatten(1))


def test_outputs_that_are_no_logits_are_not_read_as_classes():
    net, y = Turned(), torch.tensor([0, 0, 0])
    value = functional.cross_entropy(net(images([0, 0, 0])), y)
    aux = [0, 1] * 20
    loss = functional.cross_entropy
    told = Transcript(net, loss, lr=RATE, batch=3, aux_data=(images(aux, seed=2), aux))
    gradients = torch.autograd.grad(value, list(net.parameters()))
    told.add("update", [-RATE * g for g in gradients], labels=[0, 0, 0])
    told.add("count", 3)
    for source in ("update", "moved"):
        with pytest.raises(UsageError, match="are not the logits of what the network gives"):
            told.attack("label_inference", source=source)
    with pytest.raises(UsageError, match="does not end in a linear layer of class logits"):
        told.attack("gradient_inversion", message="update", labels="inferred")
    (guess,) = told.attack("label_inference", source="calibrated")
    assert guess.tensors["shares"].argmax() == 0  # it replays the network as it is
