"""Repairs of the prototype methods and two controls: what leaves a client, and what no longer does.

What they repair is measured by attacks (results/repairs.md); here is what the files promise.
"""

import pytest
import torch
from helpers.federations import federation, gap, method, run, wrapper
from helpers.small_runs import again, build, messages_in, trained
from torch import nn
from torch.nn.functional import normalize

from leakbench import UsageError, View
from leakbench.base.files import read_sealed, read_tree
from leakbench.base.streams import Rng
from leakbench.federation.net import Net
from leakbench.federation.parties import Client, Facts

DIM, CLIENTS = 48, 12
ONCE = {"fedgn_once": {"sigma": 0.5}, "fedcs_once": {"cos_theta": 0.3}}
FRESH = {"fedgn_once": "fedgn", "fedcs_once": "fedcs"}


def client(index=2, round=1, bank=None, seed=0):
    rng = Rng(seed, "defense", torch.tensor(index), torch.float64, round=round)
    inbox = {} if bank is None else {"prototype": bank}
    facts = Facts(CLIENTS, CLIENTS, DIM, (3,))
    return Client(
        torch.tensor(index), torch.tensor(9), round, facts, {}, {}, inbox, Net(None, {}), rng
    )


def directions(n, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(n, DIM, generator=rng, dtype=torch.float64), dim=1)


# one draw a client --------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ONCE)
def test_a_client_that_does_not_move_sends_the_same_in_every_round(name):
    once, fresh = method(name, **ONCE[name]), method(FRESH[name], **ONCE[name])
    (w,) = directions(1)
    sent = torch.stack([once.proxy(w, client(round=t)) for t in range(1, 200)])
    assert torch.equal(sent, sent[:1].expand_as(sent))
    again = torch.stack([fresh.proxy(w, client(round=t)) for t in range(1, 200)])
    assert float(normalize(again.mean(0), dim=0) @ w) > 0.95  # what averaging makes of fresh draws
    assert float(normalize(sent.mean(0), dim=0) @ w) < 0.6
    others = [once.proxy(w, client(index=i)) for i in range(CLIENTS)]
    assert float(torch.pdist(torch.stack(others)).min()) > 0.1
    assert not torch.equal(sent[0], once.proxy(w, client(seed=1)))


@pytest.mark.parametrize("name", ONCE)
def test_one_draw_is_the_draw_of_the_method_that_it_repairs(name):
    """As far from w, over many clients, as a fresh one; undefended it is w itself."""
    once, fresh = method(name, **ONCE[name]), method(FRESH[name], **ONCE[name])
    (w,) = directions(1)
    far = [
        torch.stack([m.proxy(w, client(index=i)) @ w for i in range(400)]) for m in (once, fresh)
    ]
    (mean, spread), (wanted, usual) = ((float(f.mean()), float(f.std())) for f in far)
    assert mean == pytest.approx(wanted, abs=usual / 5 + 1e-12)  # four standard errors
    assert spread == pytest.approx(usual, rel=0.2, abs=1e-12)
    assert torch.allclose(once.undefended().proxy(w, client()), w, atol=1e-12)
    assert once.hides()


def test_the_cosine_stays_exact_while_the_prototype_moves():
    once = method("fedcs_once", cos_theta=0.3)
    for w in directions(20):
        assert float(once.proxy(w, client()) @ w) == pytest.approx(0.3, abs=1e-12)


# random alpha -------------------------------------------------------------------------------------
def test_alpha_is_drawn_from_the_range_in_each_round_at_each_client(tmp_path):
    fields = {"alpha_low": 0.02, "alpha": 0.3, "k": 3}
    run_ = trained(tmp_path, "fedhide_random", rounds=12, params=fields)
    drawn = []
    for t in (1, 6, 12):
        truth = read_tree(run_.path / "truth" / f"round-{t:06d}.safetensors")[0]["client"]
        for phases in truth.values():
            drawn += [float(p["draws"]["0"]["alpha"]) for p in phases.values() if "draws" in p]
    alphas = [0.02 + 0.28 * a for a in drawn]
    assert len(set(alphas)) == len(alphas) >= 25
    assert 0.02 <= min(alphas) < 0.06
    assert 0.26 < max(alphas) <= 0.3
    assert {m.kind for m in messages_in(run_.path / "transcript")} == {
        "model",
        "update",
        "prototype",
    }


def test_a_range_of_one_point_is_fedhide():
    bank, (w,) = directions(CLIENTS, 1), directions(1)
    fixed = {"alpha": 0.2, "alpha_low": 0.2, "k": 3}
    sent = method("fedhide_random", **fixed).proxy(w, client(bank=bank))
    assert torch.allclose(sent, method("fedhide", alpha=0.2, k=3).proxy(w, client(bank=bank)))
    bare = method("fedhide_random", k=3).undefended()
    assert torch.allclose(bare.proxy(w, client(bank=bank)), w)


def test_a_range_the_wrong_way_round_is_refused():
    with pytest.raises(UsageError, match=r"alpha_low = 0.5 is above alpha = 0.1"):
        federation("fedhide_random", alpha=0.1, alpha_low=0.5)


# the last layer at the client ---------------------------------------------------------------------
HEAD = {"layer": {"head.weight", "head.bias"}, "bias": {"head.bias"}}


@pytest.mark.parametrize("stays", HEAD)
@pytest.mark.parametrize("engine", ["loop", "auto"])
def test_what_stays_is_trained_by_its_client_and_by_nobody_else(stays, engine):
    fed = federation("fedhide_own_layer", engine, stays=stays, fraction=0.4)
    plain = federation("fedhide")
    begun = {k: v.clone() for k, v in fed.columns["kept"].items()}
    assert set(begun) == HEAD[stays]
    # Every client begins where FedHide's model does.
    assert all(torch.equal(v, plain.model[k].expand_as(v)) for k, v in begun.items())
    fed.begin()
    fed.step()
    assert set(fed.model) == set(plain.model) - HEAD[stays]
    moved = {int(i) for i in fed.chosen}
    for k, v in fed.columns["kept"].items():
        still = [torch.equal(v[i], begun[k][i]) for i in range(10)]
        assert {i for i in range(10) if not still[i]} == moved
        assert float(torch.pdist(v[fed.chosen].flatten(1)).min()) > 0


def test_no_message_holds_what_stays(tmp_path):
    for stays, names in HEAD.items():
        run_ = trained(tmp_path, "fedhide_own_layer", params={"stays": stays})
        sent = [m for m in messages_in(run_.path / "transcript") if m.kind in ("model", "update")]
        assert {m.kind for m in sent} == {"model", "update"}
        assert not [m for m in sent if names & set(m.payload)]


def test_a_last_layer_without_a_bias_cannot_keep_it():
    with pytest.raises(UsageError, match="last layer has no bias; use stays = layer"):
        method("fedhide_own_layer", stays="bias").module(
            nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5, bias=False)), Facts(2, 2, 5, (3,))
        )


# controls -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["own_prototypes", "fixed_prototypes"])
def test_controls_share_the_model_and_nothing_else(name, tmp_path):
    run_ = trained(tmp_path, name)
    meta = read_sealed(run_.path / "run.json")
    assert {(s["kind"], s["sender"]) for s in meta["sent"]} == {
        ("model", "server"),
        ("update", "client"),
    }
    assert meta["hides"] is True
    secret = read_tree(run_.path / "truth" / "round-000010.safetensors")[0]["everyone"]["prototype"]
    assert torch.allclose(secret.norm(dim=1), torch.ones(10), atol=1e-6)


@pytest.mark.parametrize("stored", ["as_drawn", "unit"])
def test_own_prototypes_train_as_fedhide_does_without_its_negative_loss(stored):
    same = {"stored": stored, "own_lr": 0.7, "fraction": 0.4}
    alone = run(federation("own_prototypes", "loop", **same), 4)
    hide = run(federation("fedhide", "loop", lam=0.0, **same), 4)
    hide.state = {}  # the proxies that were sent
    assert gap(alone, hide) < 1e-12


def test_fixed_prototypes_never_move_and_train_as_own_ones_of_rate_zero():
    fixed, still = (
        run(federation(n, "loop", own_lr=0.0, fraction=0.4), 4)
        for n in ("fixed_prototypes", "own_prototypes")
    )
    drawn = federation("fixed_prototypes").secrets()["prototype"]
    assert torch.equal(fixed.secrets()["prototype"], drawn)
    assert max(float((fixed.model[k] - v).abs().max()) for k, v in still.model.items()) < 1e-12
    assert torch.allclose(still.secrets()["prototype"], drawn)
    assert torch.equal(federation("fixed_prototypes", own_lr=5.0).secrets()["prototype"], drawn)


# quantise -----------------------------------------------------------------------------------------
def quantised(t, number):
    return wrapper("quantise", number=number).uplink(t, client())


def test_rounding_by_hand():
    """Scale 2 / 7 for int4: 0.3 is 1.05 of it, -1.3 is -4.55; of int2 there are -2, 0 and 2."""
    t = torch.tensor([2.0, 0.3, -1.3, 0.0], dtype=torch.float64)
    assert torch.allclose(quantised(t, "int4"), t.new_tensor([7, 1, -5, 0]) * 2 / 7)
    assert torch.equal(quantised(t, "int2"), t.new_tensor([2, 0, -2, 0]))
    assert torch.equal(quantised(t, "float16"), t.half().double())


@pytest.mark.parametrize(("number", "bits"), [("int16", 16), ("int8", 8), ("int4", 4)])
def test_no_number_is_off_by_more_than_half_a_step(number, bits):
    (t,) = directions(1)
    sent = quantised(t, number)
    step = float(t.abs().max()) / (2 ** (bits - 1) - 1)
    assert 0.4 * step < float((sent - t).abs().max()) <= 0.5 * step * (1 + 1e-9)
    assert torch.allclose(sent, (sent / step).round() * step, atol=1e-15)
    assert torch.allclose(quantised(sent, number), sent, rtol=1e-12)  # nothing is left to round


@pytest.mark.parametrize("number", ["float16", "int8"])
def test_odd_payloads_stay_finite_and_whole_numbers_whole(number):
    whole, none = torch.tensor([1, 5, 300]), torch.zeros(0, 3)
    big = torch.tensor([1e30, -1.0])
    payload = {"labels": whole, "none": none, "zero": torch.zeros(4), "deep": {"big": big}}
    sent = quantised(payload, number)
    assert sent["labels"] is whole
    assert sent["none"].shape == (0, 3)
    assert torch.equal(sent["zero"], torch.zeros(4))
    assert bool(sent["deep"]["big"].isfinite().all())


def test_everybody_but_its_client_has_the_rounded_proxy():
    """The server's bank, what comes down, and so whom a client mixes in."""
    fed = federation("fedhide", wrappers=[wrapper("quantise", kinds=("prototype",), number="int4")])
    fed.begin()
    fed.step()
    fed.step()
    for row in (*fed.state["bank"], *fed.inbox["prototype"]):
        step = row.abs().max() / 7
        assert torch.allclose(row / step, (row / step).round(), atol=1e-9)
    secret = fed.secrets()["prototype"]
    assert torch.allclose(secret.norm(dim=1), torch.ones(10, dtype=torch.float64))
    assert fed.engine == "fused"  # updates are what they were


# without the bias ---------------------------------------------------------------------------------
def test_the_bias_is_sent_by_nobody_and_moves_at_its_client_only(tmp_path):
    cover = [("without_bias", {})]
    run_ = trained(tmp_path, "fedhide", rounds=3, wrappers=cover)
    meta = read_sealed(run_.path / "run.json")
    assert meta["engine"] == "parallel"
    sent = [m for m in messages_in(run_.path / "transcript") if m.kind == "update"]
    bare = [m for m in messages_in(run_.path / "control") if m.kind == "update"]
    assert len(sent) == len(bare) > 0
    # The control is the update as it was computed; the reference computes it, so up to rounding.
    for a, b in zip(sent, bare, strict=True):
        assert set(b.payload) - set(a.payload) == {"head.bias"}
        assert float(b.payload["head.bias"].abs().max()) > 0
        assert all(torch.allclose(v, b.payload[k], atol=1e-7) for k, v in a.payload.items())


def test_the_global_bias_stays_and_local_training_uses_its_own():
    """Three local steps: the second starts where the first took the bias."""
    bare, cut = (
        federation("fedhide", "loop", steps=3, wrappers=w) for w in ([], [wrapper("without_bias")])
    )
    begun = cut.model["head.bias"].clone()
    for fed in (bare, cut):
        fed.begin()
        fed.step()
    assert torch.equal(cut.model["head.bias"], begun)
    assert not torch.equal(bare.model["head.bias"], begun)
    others = [k for k in bare.model if k != "head.bias"]
    assert all(torch.equal(bare.model[k], cut.model[k]) for k in others)
    run(cut, 2)
    assert torch.equal(cut.model["head.bias"], begun)


def test_a_network_without_that_bias_is_refused_and_a_message_that_is_no_update_left_alone():
    with pytest.raises(UsageError, match="leaves what clients send as 'update' as it is"):
        run(federation("feduv", "loop", wrappers=[wrapper("without_bias")]), 2)
    (w,) = directions(1)
    assert wrapper("without_bias").uplink(w, client()) is w


def test_fused_rounds_are_refused_without_the_bias():
    with pytest.raises(UsageError, match="WithoutBias changes single updates"):
        federation("fedhide", "fused", wrappers=[wrapper("without_bias")])


def test_an_attack_on_the_bias_says_that_it_is_not_there(tmp_path):
    run_ = trained(tmp_path, "fedavg", wrappers=[("without_bias", {})])
    for source in ("update", "calibrated"):
        attack = build("label_inference", source=source)
        found = attack.run(View(attack.threat, again(run_), 10), torch.Generator())
        assert [g.failed for g in found] == ["the update holds no output bias"] * 5
