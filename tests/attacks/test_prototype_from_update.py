"""The last layer's step tells the prototype: by exact algebra, in runs, and never from noise."""

import dataclasses

import pytest
import torch
from helpers.small_runs import Lazily, again, build, obstacle, results, trained
from torch.nn.functional import normalize

import leakbench
from attacks import _last_layer, _last_layer_plane
from attacks._last_layer import LayerStep
from attacks._last_layer_cosine import of_many, of_one
from leakbench.attacking.view import View
from leakbench.record.messages import Message
from leakbench.scoring.truth import Truth

RATE, ATTACK = 0.1, "prototype_from_update"
TASK = {"model": "mlp", "width": 48, "dim": 40}


def dice(seed):
    return torch.Generator().manual_seed(seed)


def normal(rng, *shape):
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def step_of(batch, seed, bias=True, near=2.0):
    """(a step of FedHide's positive loss on ``batch`` images, its prototype); exact."""
    rng = dice(seed)
    start = normal(rng, 30, 41) / 5
    one = normal(rng, 40)
    hidden = torch.tanh(one + 0.3 * normal(rng, batch, 40))
    inputs = torch.cat([hidden, torch.ones(batch, 1, dtype=torch.float64)], 1)
    if not bias:
        start, inputs = start[:, :-1], inputs[:, :-1]
    w = normal(rng, 30) / 30**0.5 + near * normalize(inputs.mean(0) @ start.T, dim=0)
    w = w / w.norm()
    free = start.clone().requires_grad_()
    loss = (1 - normalize(inputs @ free.T, dim=1) @ w).square().mean()
    (slope,) = torch.autograd.grad(loss, free)
    sent = Message(1, 0, "client/0", "server", "update", {})
    usual = torch.tanh(one)
    usual = torch.cat([usual, torch.ones_like(usual[:1])]) if bias else usual
    return LayerStep(sent, start, -RATE * slope, RATE, usual, bias, clipped=False), w


def planes(step, rank):
    return _last_layer_plane.plane(step, _last_layer_plane.inputs(step, rank))


def pull(c):
    return 2 * (1 - c)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_of_one_image_the_prototype_is_exact(seed, bias):
    step, w = step_of(1, seed, bias)
    assert _last_layer_plane.images(step.moved)[0] == 1
    plane = planes(step, 1)
    t = of_one(plane, RATE, pull)
    found = (1 - t * t) ** 0.5 * plane.across + t * plane.along
    assert float((found - w).norm()) < 1e-9


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_of_a_batch_the_plane_is_exact_and_the_place_in_it_nearly(seed, bias):
    step, w = step_of(14, seed, bias)
    rank, noise = _last_layer_plane.images(step.moved)
    assert rank == 14
    assert noise < 1e-10
    plane = planes(step, rank)
    assert plane.misfit < 1e-9
    inside = (w @ plane.across) ** 2 + (w @ plane.along) ** 2
    assert float(inside) == pytest.approx(1, abs=1e-9)
    t = of_many(plane, RATE, pull)
    found = (1 - t * t) ** 0.5 * plane.across + t * plane.along
    assert float(found @ w) > 0.999
    one = planes(step, 1)  # as if the batch was one image: not the plane
    assert (w @ one.across) ** 2 + (w @ one.along) ** 2 < inside - 1e-7


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")

    def made(name, rounds=20, **more):
        given = {"task_params": TASK, "rounds": rounds, "out": out, "device": "cpu"}
        return lambda: leakbench.train(name, **given, **more)

    noisy = {"wrappers": [("clip_noise", {"clip": 1.0, "noise": 0.1})]}
    return Lazily(
        fedhide=made("fedhide", params={"alpha": 0.1, "k": 5}),
        fedgn=made("fedgn", params={"sigma": 0.5}),
        brief=made("fedgn", rounds=4, params={"sigma": 0.5}),
        another=made("fedgn", params={"sigma": 0.5}, seed=1),
        fedcs=made("fedcs"),
        fedaws=made("fedaws"),
        steps=made("fedgn", params={"sigma": 0.5, "steps": 3}),
        clipped=made(
            "fedgn", params={"sigma": 0.5}, wrappers=[("clip_noise", {"clip": 0.01, "noise": 0.0})]
        ),
        noisy=made("fedgn", params={"sigma": 0.5}, **noisy),
        rounded=made("fedgn", params={"sigma": 0.5}, dtype="bfloat16"),
        rounded_noisy=made("fedgn", params={"sigma": 0.5}, dtype="bfloat16", **noisy),
        summed=made("fedgn", params={"sigma": 0.5}, wrappers=[("secure_sum", {})]),
        fedmetric=made("fedmetric", rounds=4),
        alone=made("fedmetric", rounds=4, params={"variant": "pos", "normalised": False}),
        deepsvdd=made("deepsvdd", rounds=2),
        feduv=made("feduv", rounds=2),
    )


def guesses(run, t, change=None):
    """The guesses at round ``t``, of updates that ``change`` made others of."""
    recording = again(run)
    if change:
        changed = [change(m) if m.kind == "update" else m for m in recording.transcript]
        vars(recording)["transcript"] = changed
    attack = build(ATTACK)
    return attack(View(attack.threat, recording, t))


def right(run, found, t):
    """{unit: (is its owner named, cosine)}."""
    true = normalize(Truth(run).round(t)["everyone"]["prototype"].double(), dim=1)
    out = {}
    for g in found:
        alike = true @ normalize(g.tensors["prototype"].double(), dim=0)
        i = int(g.unit.split("/")[1])
        out[g.unit] = (int(alike.argmax()) == i, float(alike[i]))
    return out


@pytest.mark.parametrize("name", ["fedhide", "fedgn", "fedcs", "fedaws"])
def test_one_update_of_a_batch_of_sixteen_names_its_client(runs, name):
    folder = leakbench.attack(runs[name], ATTACK, device="cpu").path
    for stage in ("untrained", "middle", "final"):
        row = results(folder, "p_leak", stage)
        assert (row["value"], row["n"], row["failed"]) == (1, 10, 0)
        assert row["control"] == 1
        assert row["floor"] == pytest.approx(0.1)
    assert results(folder, "prototype_cosine", "final")["value"] > 0.995
    assert results(folder, "recovered", "final")["value"] >= 0.9
    assert results(folder, "recovery_precision", "final")["value"] >= 0.9


def test_several_local_steps_are_told_from_their_sum(runs):
    found = right(runs["steps"], guesses(runs["steps"], 20), 20)
    assert all(named for named, _ in found.values())
    assert min(cosine for _, cosine in found.values()) > 0.97


def test_clipping_alone_hides_nothing_and_is_noticed(runs):
    made = guesses(runs["clipped"], 10)
    assert not any(g.accepted for g in made)
    assert sum(named for named, _ in right(runs["clipped"], made, 10).values()) >= 9


def test_the_roundings_of_bfloat16_hide_nothing_and_shake_no_confidence(runs):
    folder = leakbench.attack(runs["rounded"], ATTACK, device="cpu").path
    assert results(folder, "p_leak", "final")["value"] == 1
    assert results(folder, "recovered", "final")["value"] >= 0.9
    assert results(folder, "recovery_precision", "final")["value"] >= 0.9


@pytest.mark.parametrize("run", ["noisy", "rounded_noisy"])
def test_noise_on_updates_hides_the_prototype_and_nothing_is_accepted(runs, run):
    made = guesses(runs[run], 20)
    assert not any(g.accepted for g in made)
    found = right(runs[run], made, 20)
    assert sum(named for named, _ in found.values()) <= 7  # of ten, over all rounds that are kept
    assert max(cosine for _, cosine in found.values()) < 0.8


@pytest.mark.parametrize("seed", range(10))
def test_of_a_random_update_nothing_is_accepted(runs, seed):
    rng = dice(seed)

    def random(m):
        payload = {k: 0.01 * torch.randn(v.shape, generator=rng) for k, v in m.payload.items()}
        return dataclasses.replace(m, payload=payload)

    made = guesses(runs["brief"], 4, random)  # where none has the form, all rounds are asked
    assert len(made) == 10
    assert not any(g.accepted for g in made)
    assert max(abs(c) for _, c in right(runs["brief"], made, 4).values()) < 0.7


def test_an_update_of_another_federation_does_not_fit_the_model_of_this_one(runs):
    sent = again(runs["another"]).transcript
    newest = [m for m in sent if (m.kind, m.round, m.probe) == ("update", 20, None)]
    theirs = {m.sender: m.payload for m in newest}

    def swapped(m):
        return dataclasses.replace(m, payload=theirs[m.sender])

    assert not any(g.accepted for g in guesses(runs["fedgn"], 20, swapped))


def test_under_another_clients_name_it_tells_of_whose_it_is(runs):
    run = runs["fedgn"]
    now = {
        m.sender: m.payload
        for m in again(run).transcript
        if (m.kind, m.round, m.probe) == ("update", 20, None)
    }

    def other(name):
        return f"client/{(int(name.split('/')[1]) + 1) % 10}"

    def swapped(m):
        change = m.round == 20 and other(m.sender) in now
        return dataclasses.replace(m, payload=now[other(m.sender)]) if change else m

    found = right(run, guesses(run, 20, swapped), 20)
    assert sum(named for named, _ in found.values()) == 0


@pytest.mark.parametrize("name", ["fedmetric", "alone"])
def test_a_centre_is_told_by_its_pull(runs, name):
    run = runs[name]
    true = Truth(run).round(4)["everyone"]["prototype"].double()
    made = guesses(run, 4)
    named = 0
    for g in made:
        i, w = int(g.unit.split("/")[1]), g.tensors["prototype"].double()
        named += int((true - w).norm(dim=1).argmin()) == i
        assert not g.accepted
    assert named >= 8


def test_it_says_why_where_there_is_nothing_to_read(runs):
    def why(name, **params):
        return obstacle(build(ATTACK, **params), again(runs[name]))

    assert why("fedgn") == ""
    assert why("summed") == "the server receives only the sum of what clients send as update"
    assert "no prototype" in why("deepsvdd")
    assert "no prototype" in why("feduv")
    assert "no update of other clients" in why("fedgn", observer="client/3")


def test_the_steps_bias_may_be_kept_back(runs):
    def bare(m):
        return dataclasses.replace(
            m, payload={k: v for k, v in m.payload.items() if k != "head.bias"}
        )

    found = right(runs["fedgn"], guesses(runs["fedgn"], 20, bare), 20)
    assert sum(named for named, _ in found.values()) >= 8


def test_only_the_newest_update_speaks_for_a_client(runs):
    recording = again(runs["fedgn"])
    attack = build(ATTACK)
    sent = _last_layer.sent(View(attack.threat, recording, 10))
    assert {m.round for m in sent} == {1, 2, 10}
    vars(recording)["transcript"] = [
        m for m in recording.transcript if (m.kind, m.round, m.sender) != ("update", 10, "client/0")
    ]
    sent = _last_layer.sent(View(attack.threat, recording, 10))
    assert "client/0" not in {m.sender for m in sent}


def test_what_the_joint_inversion_solves_for_is_scored(tmp_path):
    run = trained(tmp_path, "fedgn", rounds=2)
    few = {"at": ["final"], "targets": 2, "steps": 40, "device": "cpu"}
    rows = leakbench.attack(run, "gradient_inversion", attacker="joint", **few)
    assert {"p_leak", "prototype_cosine", "psnr"} <= {r["metric"] for r in rows.rows}
    naive = leakbench.attack(run, "gradient_inversion", attacker="naive", **few)
    assert "p_leak" not in {r["metric"] for r in naive.rows}
