"""What was sent is held against what the declared training makes of its rows."""

import copy

import pytest
import torch
from helpers.own_loops import DATA, net
from torch.nn import functional as F

import leakbench as lb

DECLARED = {"lr": 0.1, "batch": 4, "steps": 2}
MOMENTUM = {**DECLARED, "momentum": 0.5, "weight_decay": 0.01}
EPOCHS = {"lr": 0.1, "batch": 4, "epochs": 2}


def drawn(dice):
    """Who judges by a tolerance is tried on the same network each time."""
    model = net(2)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3, generator=dice)
    return model


def record(place, sgd, *, lr=0.1, momentum=0.0, decay=0.0, scale=1.0, name="like", **how):
    """A loop of one round, whose clients really train so."""
    dice = torch.Generator().manual_seed(0)
    model = drawn(dice)
    with lb.observe(place, name=name, model=net, data=DATA, sgd=sgd, **how) as seen:
        seen.sent("model", model.state_dict(), round=1)
        for c in range(len(DATA)):
            local, (x, y) = copy.deepcopy(model), DATA.client(c)
            optimizer = torch.optim.SGD(
                local.parameters(), lr=lr, momentum=momentum, weight_decay=decay
            )
            order = torch.randperm(len(y), generator=dice).tolist()
            for rows in steps(sgd, order):
                optimizer.zero_grad()
                F.cross_entropy(local(scale * x[rows]), y[rows]).backward()
                optimizer.step()
            told = None if "epochs" in sgd else [r for s in steps(sgd, order) for r in s]
            seen.update(local.state_dict(), client=c, round=1, rows=told)
    return seen.run


def steps(sgd, order):
    if "steps" in sgd:
        return [order[4 * s : 4 * s + 4] for s in range(sgd["steps"])]
    return [order[i : i + 4] for _ in range(sgd["epochs"]) for i in range(0, len(order), 4)]


@pytest.mark.parametrize(
    ("sgd", "really"), [(DECLARED, {}), (MOMENTUM, {"momentum": 0.5, "decay": 0.01}), (EPOCHS, {})]
)
def test_what_is_as_declared_is_alike(tmp_path, capsys, sgd, really):
    run = record(tmp_path, sgd, **really)
    assert "no_control" not in run.meta
    assert "declared" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sgd", "really"),
    [
        (DECLARED, {"lr": 0.2}),
        (DECLARED, {"momentum": 0.9}),
        (DECLARED, {"scale": -1.0}),
        (MOMENTUM, {}),
        (EPOCHS, {"lr": 0.5}),
        (EPOCHS, {"scale": -1.0}),
    ],
)
def test_what_is_not_acquits_nobody(tmp_path, capsys, sgd, really):
    run = record(tmp_path, sgd, **really)
    assert run.meta["no_control"] is True
    assert "is not what the declared" in capsys.readouterr().err
    frame = lb.attack(run, "label_inference", source="moved").to_frame()
    assert all("no_control" in flags.split("|") for flags in frame["flags"])


def test_covered_messages_are_not_compared(tmp_path, capsys):
    run = record(tmp_path, DECLARED, lr=0.7, covered=["update"])
    assert run.meta["no_control"] is True  # for nobody says what would have been sent
    assert "declared" not in capsys.readouterr().err


# Numbers are noise, so nothing settles, and large steps lead elsewhere by rounding alone.
NOISE = torch.randn(600, 64, generator=torch.Generator().manual_seed(0)), torch.arange(600) % 10
NOISY = lb.clients(*NOISE, clients=2, split="iid")
LARGE = 0.5
KEPT = {"lr": 0.003, "batch": 16, "epochs": 1}


def bent(out):
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, out))


def watched(place, capsys, sgd, make, *, ordered, rounds=1, kept=False, **how):
    """Is what clients send like what is declared? Their batches stand the other way round."""
    dice, states, size = torch.Generator().manual_seed(0), {}, sgd["batch"]
    model = bent(10)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3, generator=dice)
    with lb.observe(place, name="noise", model=bent, data=NOISY, sgd=sgd, **how) as seen:
        for t in range(1, rounds + 1):
            seen.sent("model", model.state_dict(), round=t)
            for c in range(2):
                local, (x, y) = copy.deepcopy(model), NOISY.client(c)
                optimizer = make(local.parameters())
                if kept and c in states:
                    optimizer.load_state_dict(states[c])
                order = torch.randperm(len(y), generator=dice).tolist()
                told = [order[i : i + size] for i in range(0, len(y), size)]
                for rows in told:
                    optimizer.zero_grad()
                    F.cross_entropy(local(x[rows[::-1]]), y[rows[::-1]]).backward()
                    optimizer.step()
                states[c] = optimizer.state_dict()
                seen.update(local.state_dict(), client=c, round=t, rows=told if ordered else None)
    return "no_control" not in seen.run.meta and "declared" not in capsys.readouterr().err


@pytest.mark.parametrize("really", [LARGE, LARGE / 10])
def test_where_rounding_leads_elsewhere_as_far_is_alike(tmp_path, capsys, really):
    sgd = {"lr": LARGE, "batch": 4, "epochs": 1, "momentum": 0.9}

    def make(weights):
        return torch.optim.SGD(weights, really, momentum=0.9)

    assert watched(tmp_path, capsys, sgd, make, ordered=True) == (really == LARGE)


@pytest.mark.parametrize("kept", [False, True])
def test_adams_state_that_was_kept_and_not_declared_is_seen(tmp_path, capsys, kept):
    """By the length, in no order that is known; its direction tells nothing."""

    def make(weights):
        return torch.optim.Adam(weights, 0.003)

    how = {"ordered": False, "rounds": 2, "kept": kept, "optimizer": "adam"}
    assert watched(tmp_path, capsys, KEPT, make, **how) != kept
