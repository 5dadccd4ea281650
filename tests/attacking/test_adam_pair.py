"""Two steps of Adam tell the direction of their two gradients, number by number."""

from __future__ import annotations

from itertools import chain

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leakbench.attacking.replay import Replay
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import ThreatModel, View
from leakbench.federation.parties import Batch

RATE = 1e-3
THREAT = ThreatModel(kinds=("update", "model"), knows=("method", "facts", "labels"))
X = torch.rand(6, 12, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 3, 1, 2, 4, 0])
ROWS = [[0, 1, 2], [3, 4, 5]]
DECAYS = {
    "adam": {},
    "adamw": {"weight_decay": 0.01, "decoupled": True},
    "decay": {"weight_decay": 0.01},
}


def kinked():
    """Some of its units are off, so that some gradients are 0."""
    return nn.Sequential(
        nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 5)
    )


def replayed(how="adam", *, rows=ROWS, change=lambda update: update, **more):
    """What torch's own optimizer made of two steps, as an attacker replays it."""
    net, dice = kinked(), torch.Generator().manual_seed(1)
    for p in net.parameters():
        nn.init.uniform_(p, -0.3, 0.3, generator=dice)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    fields = {"lr": RATE, "optimizer": "adam", "steps": len(rows), "epochs": 0, "batch": 3}
    told = {**fields, **DECAYS[how], **more}
    said = Transcript(net, shape=(12,), method="fedavg_optim", **told)
    make = torch.optim.AdamW if how == "adamw" else torch.optim.Adam
    optimizer = make(net.parameters(), lr=RATE, weight_decay=told.get("weight_decay", 0.0))
    slopes, weights = [], []
    for some in rows:
        optimizer.zero_grad()
        F.cross_entropy(net(X[some]), Y[some]).backward()
        decay = 0.01 if how == "decay" else 0.0
        slopes.append({k: p.grad + decay * p.detach() for k, p in net.named_parameters()})
        weights.append({k: p.detach().clone() for k, p in net.named_parameters()})
        optimizer.step()
    update = {k: p.detach() - before[k] for k, p in net.named_parameters()}
    said.add("update", change(update), sender="client/0", labels=Y[list(chain(*rows))])
    net.load_state_dict(before)
    view = View(THREAT, said, 1)
    (m,) = view.messages("update")
    return Replay(view, m, torch.Generator().manual_seed(0), rows=rows), slopes, weights


def along(pair, slopes):
    """The share of the gradients' lengths that lies along what was told."""
    whole, found = 0.0, 0.0
    for name, g in slopes[0].items():
        both = torch.stack([g, slopes[1][name]]).double()
        ways = torch.stack([pair.one[name], pair.other[name]])
        found += float((ways * both).sum(1).amax(0).sum())
        whole += float(both.norm(dim=0).sum())
    return found / whole


@pytest.mark.parametrize("how", DECAYS)
def test_directions_and_the_weights_between_are_the_clients(how):
    replay, slopes, weights = replayed(how)
    assert replay.pair is not None
    assert along(replay.pair, slopes) > 0.999
    for name, w in weights[1].items():
        there = (replay.pair.second[name] - w).abs() > RATE / 100
        assert float(there.double().mean()) < 0.01
    turned = [slopes[1], slopes[0]]
    assert along(replay.pair, turned) < 0.95


@pytest.mark.parametrize("how", DECAYS)
def test_the_replay_makes_both_gradients(how):
    replay, slopes, _ = replayed(how)
    made = replay.each(Batch(X, Y), {})
    for i in (0, 1):
        for name, g in slopes[i].items():
            torch.testing.assert_close(made[f"{i}/{name}"], g, rtol=1e-2, atol=1e-5)


def test_the_same_rows_twice_are_two_steps_of_them():
    replay, slopes, _ = replayed(rows=[[0, 1, 2], [0, 1, 2]])
    assert along(replay.pair, slopes) > 0.999


def test_what_was_not_sent_tells_nothing():
    def halved(update):
        kept = {}
        for name, v in update.items():
            kept[name] = v * (torch.arange(v.numel()) % 2 == 0).view(v.shape)
        return kept

    replay, slopes, _ = replayed(change=halved)
    pair = replay.pair
    some = {k: (torch.arange(v.numel()) % 2 == 0).view(v.shape) for k, v in slopes[0].items()}
    sent = [{k: g * some[k] for k, g in each.items()} for each in slopes]
    assert along(pair, sent) > 0.999
    assert not any(bool(pair.one[k][:, ~told].any()) for k, told in some.items())


def noised(update):
    rng = torch.Generator().manual_seed(2)
    return {k: v + RATE * torch.randn(v.shape, generator=rng) for k, v in update.items()}


def shortened(update):
    return {k: 0.8 * v for k, v in update.items()}


@pytest.mark.parametrize("change", [noised, shortened])
def test_a_message_that_was_changed_is_not_taken_for_two_steps(change):
    assert replayed(change=change)[0].pair is None


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        ([[0, 1, 2]], {}),
        ([[0], [1], [2]], {}),
        (ROWS, {"optimizer": "adam_each_step"}),
        (ROWS, {"beta2": 0.0}),
        (ROWS, {"rates": ((RATE, 0.0),)}),
        (ROWS, {"lr": 1e-8}),  # which rounding swallows
    ],
)
def test_other_trainings_are_no_pair(rows, more):
    assert replayed(rows=rows, **more)[0].pair is None
