"""Un-mixing solves what was mixed, from the bank of its round alone, and finds nothing in noise."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.small_runs import again, build, obstacle, trained

import leakbench
from attacks import _unmixing_banks as banks
from attacks import _unmixing_settings as settings
from attacks._unmixing import Bank, Mixed, search
from attacks._unmixing_rounds import unmixed
from leakbench import View, unit
from leakbench.attacking import guessing

GOLDEN = json.loads(Path(__file__).with_name("unmixing.json").read_text(encoding="utf-8"))


def directions(n, dim, rng):
    return unit(torch.randn(n, dim, generator=rng, dtype=torch.float64))


def federation(seed, clients=40, dim=32, alpha=0.1, k=4, rounds=6):
    """True prototypes, and the messages of the last rounds: each client's, oldest first."""
    rng = torch.Generator().manual_seed(seed)
    w, bank = directions(clients, dim, rng), directions(clients, dim, rng)
    out = {str(c): [] for c in range(clients)}
    for _ in range(rounds):
        sent = []
        for c in range(clients):
            near = bank @ w[c]
            near[c] = -2
            chosen = near.argsort(descending=True)[:k]
            total = torch.stack([bank[j] for j in chosen]).sum(0)
            mix = alpha * w[c] + (1 - alpha) * total / total.norm()
            sent.append(mix / mix.norm())
        for c in range(clients):
            out[str(c)].append(Mixed(Bank(bank), c, sent[c], alpha, k))
        bank = torch.stack(sent)
    return w, out


@pytest.mark.parametrize(("alpha", "k"), [(0.1, 4), (0.01, 4), (0.3, 8)])
def test_every_prototype_is_solved_from_single_messages(alpha, k):
    w, messages = federation(0, alpha=alpha, k=k)
    found = unmixed({c: of[-1:] for c, of in messages.items()})
    cosine = torch.stack([found[str(c)].prototype @ w[c] for c in range(len(w))])
    assert all(f.newest for f in found.values())
    assert float(cosine.min()) > 0.99


def test_a_record_of_long_ago_is_solved_as_it_was():
    rows = torch.tensor(GOLDEN["bank"], dtype=torch.float64)
    message = torch.tensor(GOLDEN["message"], dtype=torch.float64)
    mixed = Mixed(Bank(rows), GOLDEN["own"], message, GOLDEN["alpha"], GOLDEN["k"])
    found = search(mixed)
    assert found.consistent
    assert found.agree
    want = torch.tensor(GOLDEN["prototype"], dtype=torch.float64)
    assert torch.allclose(found.prototype, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_recovered_where_nothing_was_mixed(seed):
    w, messages = federation(seed, rounds=3)
    rng = torch.Generator().manual_seed(100 + seed)
    noise = {c: [replace(of[-1], message=directions(1, 32, rng)[0])] for c, of in messages.items()}
    strangers = Bank(directions(40, 32, rng))
    random = {c: [replace(of[0], bank=strangers)] for c, of in noise.items()}
    for null in (noise, random):
        found = unmixed(null)
        assert not any(f.newest for f in found.values())
        named = sum(int((w @ f.prototype).argmax()) == int(c) for c, f in found.items())
        assert named <= 6  # of 40 by luck 1; 7 or more: once in ten thousand


def test_a_search_that_fails_begins_anew_from_an_older_message(monkeypatch):
    w, messages = federation(1)
    tried = []

    def blind_to_the_newest(mixed, more=(), steps=40):
        tried.append(len(list(more)))
        if mixed is messages["0"][-1] and not more:
            return search(mixed, steps=0)._replace(consistent=False)
        return search(mixed, more, steps)

    monkeypatch.setattr("attacks._unmixing_rounds.search", blind_to_the_newest)
    found = unmixed(messages)["0"]
    assert found.newest
    assert max(tried) >= 1
    assert float(found.prototype @ w[0]) > 0.99


def test_how_it_was_mixed_need_not_be_told():
    _, messages = federation(2, alpha=0.1, k=4)
    sample = [of[-1] for of in messages.values()][: settings.SAMPLE]
    assert settings.neighbours(sample) == 4
    alpha, k = settings.both(sample, (4, 5))
    assert k == 4
    assert alpha == pytest.approx(0.1, rel=0.1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return leakbench.train(
        "fedhide",
        task_params={"model": "mlp", "width": 8, "dim": 16},
        params={"k": 3, "fraction": 0.5},
        rounds=40,
        out=tmp_path_factory.mktemp("unmixing"),
        device="cpu",
    )


def values(results):
    return {r["metric"]: r["value"] for r in results.rows}


def test_all_clients_of_a_run_are_named_and_recovered(run):
    found = values(leakbench.attack(run, "prototype_unmixing", device="cpu"))
    assert found["p_leak"] == 1
    assert found["recovered"] == 1
    assert found["recovery_precision"] == 1
    newest = values(leakbench.attack(run, "prototype_leakage", device="cpu"))
    assert newest["p_leak"] < 1


def test_a_client_is_no_unit_of_its_own_attack(run):
    results = leakbench.attack(run, "prototype_unmixing", observer="client/3", device="cpu")
    guesses = [g.guess for g in guessing.saved(results.path) if g.role == "attack"]
    assert {g.unit for g in guesses} == {f"client/{i}" for i in range(10)} - {"client/3"}
    assert values(results)["p_leak"] >= 0.8


def test_a_bank_is_known_only_where_no_message_is_missing(run):
    attack = build("prototype_unmixing")
    recording = again(run)
    view = View(attack.threat, recording, recording.rounds)
    proxies = banks.sent(view)
    whole = banks.exact(view, proxies, 4)
    last = recording.rounds
    kept = banks.received(view)
    assert torch.equal(whole[last].rows, kept[last])
    # Without the banks of the last rounds they are put together again, to the last bit.
    fewer = [m for m in recording.transcript if m.sender != "server" or m.round < last - 5]
    recording.__dict__["transcript"] = fewer
    view = View(attack.threat, recording, last)
    assert torch.equal(banks.exact(view, proxies, 4)[last].rows, kept[last])
    gone = next(iter(proxies[last - 2]))
    short = {t: dict(came) for t, came in proxies.items()}
    del short[last - 2][gone]
    assert last not in banks.exact(view, short, 4)
    assert last - 2 in banks.exact(view, short, 4)


def test_messages_that_were_changed_on_their_way_are_not_accepted(tmp_path):
    run = leakbench.train(
        "fedhide",
        task_params={"model": "mlp", "width": 8, "dim": 16},
        params={"k": 3},
        wrappers=[("clip_noise", {"kinds": ["prototype"], "clip": 1.0, "noise": 0.001})],
        rounds=20,
        out=tmp_path,
        device="cpu",
    )
    results = leakbench.attack(run, "prototype_unmixing", device="cpu")
    guesses = [g.guess for g in guessing.saved(results.path) if g.role == "attack"]
    assert len(guesses) == 10
    assert not any(g.accepted for g in guesses)
    assert values(results)["p_leak"] >= 0.5


def test_it_does_not_fit_a_method_that_mixes_nothing(tmp_path):
    gn = again(trained(tmp_path, "fedgn", rounds=2))
    assert "mix nothing of others" in obstacle(build("prototype_unmixing"), gn)


@pytest.mark.parametrize(
    ("defense", "params", "noise"),
    [
        ("fedhide_random", {"k": 3}, None),
        ("fedhide", {"k": 3, "alpha": 1.0}, {"kinds": ["prototype"], "noise": 0.03}),
    ],
)
def test_what_an_unknown_weight_or_noise_gives_is_not_accepted(tmp_path, defense, params, noise):
    wrappers = [("clip_noise", noise)] if noise else []
    run = trained(tmp_path, defense, params=params, wrappers=wrappers)
    attack = build("prototype_unmixing")
    guesses = attack(View(attack.threat, again(run), 10))
    assert len(guesses) == run.meta["facts"]["clients"]
    assert not any(g.accepted for g in guesses)


def test_a_weight_that_is_drawn_from_a_single_one_is_known(tmp_path):
    run = trained(tmp_path, "fedhide_random", params={"k": 3, "alpha_low": 0.1})
    attack = build("prototype_unmixing")
    assert any(g.accepted for g in attack(View(attack.threat, again(run), 10)))
