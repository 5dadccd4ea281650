"""An own network that does not run in a row is cut by the name of a layer, or refused."""

import pytest
import torch
from torch import nn

import leakbench as lb

CLASSES = 3
QUICK = {"examples": 4, "hidden": 8, "search_steps": 2, "identifier_epochs": 1, "tune_steps": 1}
QUICK |= {"epochs": 1, "steps": 0}


class Block(nn.Module):
    """A residual one."""

    def __init__(self, width):
        super().__init__()
        self.one, self.norm = nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(2, width)

    def forward(self, x):
        return torch.relu(x + self.norm(self.one(x)))


class Residual(nn.Module):
    """Not in a row."""

    def __init__(self, out):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.layer1, self.layer2 = Block(4), Block(4)
        self.fc = nn.Linear(4, out)

    def forward(self, x):
        return self.fc(self.layer2(self.layer1(torch.relu(self.stem(x)))).mean((2, 3)))


class Beside(Residual):
    """Something passes beside layer2."""

    def forward(self, x):
        f = self.layer1(self.stem(x))
        return self.fc((f + self.layer2(f)).mean((2, 3)))


def data():
    dice = torch.Generator().manual_seed(0)
    y = torch.arange(90) % CLASSES
    x = torch.rand(90, 1, 8, 8, generator=dice) * 0.3 + y.view(-1, 1, 1, 1) / 6
    return lb.clients(x, y, clients=3, split="iid")


def task(name, network=Residual, **how):
    train = {"lr": 0.1, "batch": 4, "steps": 2, "epochs": 0}
    return lb.task(name, data(), model=network, train=train, **how)


def test_methods_that_cut_it_train_and_their_features_are_attacked(tmp_path):
    made, how = task("cut-at-two", cut="layer2"), {"rounds": 2, "out": tmp_path}
    for method in ("moon", "fedaa"):
        params = QUICK if method == "fedaa" else {}
        assert lb.train(method, task=made, params=params, **how).meta["status"] == "done"
    run = lb.train("flea", task=made, params={"optimizer": "sgd", "fraction": 1.0}, **how)
    assert run.meta["spec"]["defense"]["params"]["layer"] == "layer2"
    frame = lb.attack(run, "decoder", epochs=2).to_frame()
    assert len(frame)
    assert bool(frame["value"].notna().all())


def test_engines_are_the_same_to_the_last_digits(tmp_path):
    """Side by side, in threads and one after the other."""
    made, found = task("cut-engines", cut="layer1"), []
    for engine in ("loop", "stacked", "threads"):
        how = {"engine": engine, "dtype": "float64", "rounds": 2, "out": tmp_path / engine}
        run = lb.train("moon", task=made, **how)
        found.append((run.path / "utility.csv").read_text())
    assert found[0] == found[1] == found[2]


def test_without_a_name_it_is_the_last_that_a_trained_layer_follows():
    first, named = task("cut-default"), task("cut-named", cut="layer1")
    assert [*first.places.before] == ["stem", "layer1", "layer2"]
    assert [*named.places.before] == ["stem", "layer1"]
    assert first().defaults("flea")["layer"] == "stem"
    assert named().defaults("flea")["layer"] == "layer1"
    assert "layer" not in named().defaults("fedavg")
    assert "layer" not in named().defaults("ccvr")  # it cuts where the network is cut
    assert first.made_of["network"] != named.made_of["network"]
    assert [*task("cut-beside", Beside).places.before] == ["stem", "layer1"]


def in_a_row(out):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, out))


def test_a_network_in_a_row_is_stages_as_before():
    assert task("cut-row", in_a_row).places is None
    assert [*task("cut-row-named", in_a_row, cut="1").places.before] == ["0", "1"]


WRONG = {
    "unknown": ({"cut": "layr2"}, "cut = 'layr2': expected the name of a layer", "'layer2'?"),
    "last": ({"cut": "fc"}, "no layer with parameters follows 'fc'"),
    "beside": ({"cut": "layer2", "network": Beside}, "something passes beside 'layer2'"),
    "no name": ({"cut": 4}, "cut = 4: expected the name of a layer"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_sentence(name):
    how, *said = WRONG[name]
    with pytest.raises(lb.UsageError) as error:
        task(f"cut-wrong-{name.replace(' ', '-')}", **how)
    for part in said:
        assert part in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [None, "layer4"])
def test_torchvisions_resnet(tmp_path, cut):
    torchvision = pytest.importorskip("torchvision")
    dice = torch.Generator().manual_seed(0)
    x, y = torch.rand(60, 3, 16, 16, generator=dice), torch.arange(60) % CLASSES
    network = lambda out: torchvision.models.resnet18(num_classes=out)  # noqa: E731
    train = {"lr": 0.05, "batch": 4, "steps": 1, "epochs": 0}
    made = lb.task(
        f"resnet-{cut or 'default'}",
        lb.clients(x, y, clients=3, split="iid"),
        model=network,
        train=train,
        cut=cut,
    )
    assert [*made.places.before][-1] == (cut or "avgpool")
    how = {"task": made, "rounds": 1, "out": tmp_path}
    assert lb.train("moon", **how).meta["status"] == "done"
    run = lb.train("flea", params={"optimizer": "sgd", "fraction": 1.0}, **how)
    assert run.meta["spec"]["defense"]["params"]["layer"] == (cut or "conv1")
    assert len(lb.attack(run, "decoder", epochs=1).to_frame())
