"""What a network gives is looked at when the task is made, before anything is trained."""

import pytest
import torch
from torch import nn

import leakbench as lb

WIDE, CLASSES = 6, 3


class Failing(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.last, self.factor = nn.Linear(WIDE, CLASSES), factor

    def forward(self, x):
        return self.last(x) * self.factor


class Words(nn.Module):
    def __init__(self, known):
        super().__init__()
        self.known, self.last = nn.Embedding(known, 4), nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.last(self.known(x).mean(1))


def data(classes=CLASSES, **how):
    x = torch.rand(60, WIDE, generator=torch.Generator().manual_seed(0)) - 0.5
    return lb.clients(x, torch.arange(60) % classes, **{"clients": 3, **how})


def linear(out, *after, into=WIDE):
    return lambda: nn.Sequential(nn.Linear(into, out), *after)


REFUSED = {
    "more": (linear(5), "gives (1, 5) of one input, and the task has 3 classes"),
    "fewer": (linear(2), "gives (1, 2) of one input, and the task has 3 classes"),
    "one": (linear(1), "has one output, and the task 3 classes"),
    "per row": (lambda: nn.Unflatten(1, (2, 3)), "gives (1, 2, 3) of one input"),
    "no tensor": (lambda: nn.LSTM(WIDE, CLASSES), "gives tuple of one input"),
    "nan": (lambda: Failing(float("nan")), "gives nan for 16 of 16 of the clients' inputs"),
    "infinite": (lambda: Failing(1e39), "inf for 16 of 16 of the clients' inputs"),
    "softmax": (linear(CLASSES, nn.Softmax(1)), "gives shares that sum to 1, as after a softmax"),
    "inputs": (linear(CLASSES, into=7), "does not take the clients' inputs, (16, 6) (addmm: mat1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_network_that_says_no_classes_is_refused(what):
    model, said = REFUSED[what]
    with pytest.raises(lb.UsageError) as caught:
        lb.task(f"refused-{what.replace(' ', '-')}", data(), model=model)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sigmoid_of_one_output_is_refused():
    with pytest.raises(lb.UsageError, match="ends in a sigmoid: let it end before that"):
        lb.task("refused-sigmoid", data(2), model=linear(1, nn.Sigmoid()))


def test_a_token_beyond_the_words_is_refused_wherever_it_stands():
    x = torch.arange(180).reshape(60, 3) % 8
    x[-7:, 1] = 9
    held = lb.clients(x, torch.arange(60) % CLASSES, clients=3, test=0.02, aux=0.02)
    assert lb.task("words-enough", held, model=lambda: Words(10))
    with pytest.raises(lb.UsageError, match=r"does not take the clients' inputs, \(17, 3\)"):
        lb.task("words-too-few", held, model=lambda: Words(9))


@pytest.mark.parametrize(
    ("model", "classes", "how"),
    [
        (linear(CLASSES), CLASSES, {}),
        (linear(CLASSES, nn.LogSoftmax(1)), CLASSES, {}),  # of which the softmax is the same
        (linear(CLASSES, nn.Sigmoid()), CLASSES, {}),
        (linear(1), 2, {}),
        (linear(CLASSES)().double(), CLASSES, {}),
        (linear(64)(), CLASSES, {"split": "class"}),  # an embedding of as many as task.dim
    ],
    ids=["logits", "log-softmax", "sigmoids", "one", "double", "embedding"],
)
def test_what_can_be_trained_is_taken(model, classes, how, request):
    name = request.node.callspec.id
    assert lb.task(f"taken-{name}", data(classes, **how), model=model).given_name == f"taken-{name}"


def test_a_loop_says_nothing_of_the_numbers_a_network_begins_with(tmp_path):
    how = {"sgd": {"lr": 0.1, "batch": 4, "steps": 1}, "data": data()}
    with lb.observe(tmp_path, name="looped", model=linear(CLASSES, nn.Softmax(1)), **how) as seen:
        net = linear(CLASSES, nn.Softmax(1))()
        seen.sent("model", net.state_dict(), round=1)
        moved = {k: v + 0.01 for k, v in net.state_dict().items()}
        seen.update(moved, client=0, round=1, rows=[0, 1, 2, 3])
    assert seen.begun == 1
