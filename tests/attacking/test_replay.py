"""A loss that is replayed leaves what the victim received as it was."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from helpers.federations import short
from helpers.small_runs import Lazily, again, trained
from torch import nn

from attacks import _updates
from leakbench import api
from leakbench.attacking.guess import Guess
from leakbench.attacking.replay import Replay
from leakbench.attacking.view import ThreatModel, View
from leakbench.base import registry
from leakbench.federation.parties import Batch
from leakbench.models import networks
from leakbench.models.stages import Stages
from leakbench.record.messages import KINDS
from leakbench.scoring.truth import Truth

ROUNDS = 2
THREAT = ThreatModel(kinds=KINDS, knows=("method", "facts", "labels"))
# Every private input of these losses is known to who has the batch.
OPEN = ("fedavg", "fedprox", "feddecorr", "fedntd")
SILENT = ("deepsvdd", "fedproto", "fedpcl")  # send no update
SENDS = [name for name in registry.names("defenses") if name not in SILENT]


def normed(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """An MLP with BatchNorm in front and behind."""

    def block(inputs: int, *before: nn.Module) -> nn.Sequential:
        return nn.Sequential(*before, nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.Tanh())

    first = block(math.prod(shape), nn.Flatten())
    return Stages({"first": first, "second": block(width), "head": nn.Linear(width, out)})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(networks.MODELS, "mlp", normed)

        def made(name):
            few = {"steps": 1, "epochs": 0, "batch": 16, "lr": 0.1, "optimizer": "sgd"}
            layer = {"layer": "first"} if name == "flea" else {}
            given = {**few, **short(name), **layer, "fraction": 1.0}
            given |= {"epochs": 0} if name != "fedaa" else {"epochs": 1, "steps": 0, "batch": 512}
            return trained(out, name, ROUNDS, params=given)

        makers = {name: lambda name=name: made(name) for name in SENDS}
        yield Lazily(**makers)


def residual(replay: Replay, batch: Batch) -> float:
    """1 - cosine between the gradient that was sent and the one of ``batch``."""
    found, sent = replay.gradient(batch, replay.unknown), replay.observed()
    a = torch.cat([found[k].detach().flatten() for k in sorted(found)])
    b = torch.cat([sent[k].flatten() for k in sorted(found)])
    return 1 - float(torch.nn.functional.cosine_similarity(a, b, dim=0))


@pytest.mark.parametrize("name", SENDS)
def test_at_the_true_batch_the_residual_is_the_same_each_time(runs, name):
    run = runs[name]
    recording = again(run)
    view = View(THREAT, recording, ROUNDS)
    kept = copy.deepcopy([m.payload for m in recording.transcript])
    (behind, *_) = _updates.shortest(view, probe=False, most=99)
    m = behind.message
    x, y, _ = Truth(run).answer(Guess(m.sender, m.round)).batch(m.phase)
    batch = Batch(x, y)
    rng = torch.Generator().manual_seed(0)
    replay = Replay(view, m, rng, sizes=behind.sizes, phase=behind.loss, dtype=torch.float64)
    received = copy.deepcopy(dict(replay.inbox))
    residuals = [residual(replay, batch) for _ in range(3)]
    assert residuals[0] == residuals[1] == residuals[2]
    if name in OPEN:
        assert residuals[0] < 1e-5
    torch.testing.assert_close(dict(replay.inbox), received, rtol=0, atol=0)
    view._unwritten("the replay")
    now = [m.payload for m in recording.transcript]
    for a, b in zip(now, kept, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("sizes", [(4, 3), (3, 4)])
@pytest.mark.parametrize("name", ["flea", "fedmix", "feddata"])
def test_a_smaller_step_throws_fewer_dice(runs, name, sizes):
    """Of several steps what they throw is one unknown, as long as the largest of them."""
    view = View(THREAT, again(runs[name]), ROUNDS)
    (behind, *_) = _updates.shortest(view, probe=False, most=99)
    rng = torch.Generator().manual_seed(0)
    how = {"sizes": sizes, "phase": behind.loss, "dtype": torch.float64}
    replay = Replay(view, behind.message, rng, **how)
    assert any(k.startswith("draw/") for k in replay.unknown)
    x = torch.rand(7, *view.facts.shape, dtype=torch.float64)
    moved = replay.gradient(Batch(x, torch.arange(7)), replay.unknown)
    assert all(bool(v.isfinite().all()) for v in moved.values())


@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_a_margin_of_a_clients_own_counts_is_unknown_and_with_it_the_residual_is_zero(
    tmp_path, tau
):
    """FedLC's: with what ``start`` makes of the client's true labels the gradient is the one sent,
    with what it makes of no example or of other labels it is not.
    """
    given = {"steps": 1, "epochs": 0, "lr": 0.1, "optimizer": "sgd", "fraction": 1.0, "tau": tau}
    task = {"model": "mlp", "width": 8, "split": "qua", "split_param": 3}
    how = {"task_params": task, "params": given, "rounds": ROUNDS, "device": "cpu"}
    run = api.train("fedlc", out=tmp_path, **how)
    view = View(THREAT, again(run), ROUNDS)
    (behind, *_) = _updates.shortest(view, probe=False, most=99)
    m, truth = behind.message, Truth(run)
    x, y, _ = truth.answer(Guess(m.sender, m.round)).batch(m.phase)
    rng = torch.Generator().manual_seed(0)
    replay = Replay(view, m, rng, sizes=behind.sizes, dtype=torch.float64)
    assert set(replay.unknown) == {"state/margin"}
    client = int(m.sender.removeprefix("client/"))
    rows = truth.data["rows"][client, : truth.data["counts"][client]]
    own = truth.data["y"][rows]
    true = replay.started(Batch(torch.zeros(len(own), *x.shape[1:]).double(), own))
    other = replay.started(Batch(torch.zeros(len(own), *x.shape[1:]).double(), (own + 1) % 10))

    def apart(private):
        found, sent = replay.gradient(Batch(x, y), private), replay.observed()
        a, b = (torch.cat([g[k].flatten() for k in sorted(sent)]) for g in (found, sent))
        return float((a - b).norm() / b.norm())

    assert apart(true) < 1e-5
    assert apart(replay.unknown) > 0.05
    assert apart(other) > 0.05
