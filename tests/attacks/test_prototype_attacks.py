"""The attacks on prototypes do what they say: noise that is drawn afresh averages out, a mixture
does not.
"""

import pytest
import torch

import leakbench
from leakbench.attacking import guessing
from leakbench.metrics import P_LEAK
from leakbench.scoring import KnownAnswer


@pytest.fixture(scope="module")
def p_leak(tmp_path_factory):
    def of(defense, attack, **params):
        out = tmp_path_factory.getbasetemp() / "prototype_attacks"
        run = leakbench.train(
            defense,
            task_params={"model": "mlp", "width": 8},
            params=params,
            rounds=60,
            out=out,
            device="cpu",
        )
        rows = leakbench.attack(run, attack, device="cpu").rows
        return next(r for r in rows if r["metric"] == "p_leak" and r["stage"] in ("final", "all"))

    return of


def test_averaging_names_more_clients_than_the_newest_message(p_leak):
    newest, mean = (
        p_leak("fedgn", "prototype_leakage", sigma=2.0),
        p_leak("fedgn", "prototype_averaging", sigma=2.0),
    )
    assert newest["value"] + 0.3 <= mean["value"]
    assert (mean["stage"], mean["rung"], mean["round"]) == ("all", "method", 60)
    assert mean["control"] == 1
    assert mean["floor"] == pytest.approx(0.1)


def test_the_mean_of_one_message_is_that_message(tmp_path):
    run = leakbench.train(
        "fedgn", task_params={"model": "mlp", "width": 8}, rounds=5, out=tmp_path, device="cpu"
    )
    one = leakbench.attack(run, "prototype_averaging", device="cpu", window=1)
    newest = leakbench.attack(run, "prototype_leakage", device="cpu")
    saved = [
        {
            g.guess.unit: g.guess
            for g in guessing.saved(r.path)
            if g.role == "attack" and g.guess.round == 5
        }
        for r in (one, newest)
    ]
    assert len(saved[0]) == 10
    for unit, guess in saved[0].items():
        assert torch.allclose(
            guess.tensors["prototype"], saved[1][unit].tensors["prototype"], atol=1e-6
        )


def transcript(method, proxies, **fields):
    """A transcript of ``proxies`` (rounds, clients, dim)."""
    seen = leakbench.Transcript(method=method, clients=proxies.shape[1], **fields)
    for t, bank in enumerate(proxies, start=1):
        for client, vector in enumerate(bank):
            seen.add("prototype", vector, sender=f"client/{client}", round=t)
    return seen


def hits(guesses, true):
    answers = [KnownAnswer(client=c, prototypes=true) for c in range(len(true))]
    scores = [P_LEAK.score(g, a)[0].value for g, a in zip(guesses, answers, strict=True)]
    return sum(scores) / len(scores)


def collapsed(seed=0, clients=40, dim=32):
    """Prototypes that nearly are one direction, and proxies that are more nearly still."""
    rng = torch.Generator().manual_seed(seed)
    common = 3 * torch.nn.functional.normalize(torch.randn(dim, generator=rng), dim=0)
    own = torch.randn(clients, dim, generator=rng) / dim**0.5
    size = 0.2 + torch.rand(clients, 1, generator=rng)
    return torch.nn.functional.normalize(common + size * own, dim=1), common + 0.02 * own


def test_what_proxies_have_in_common_hides_nobody():
    true, proxy = collapsed()
    seen = transcript("fedhide", proxy[None], k=3)
    assert hits(seen.attack("prototype_leakage"), true) < 0.3
    assert hits(seen.attack("prototype_centring"), true) > 0.9


@pytest.mark.parametrize("attack", ["prototype_centring", "prototype_averaging"])
def test_random_messages_name_nobody_beyond_chance(attack):
    found = []
    for seed in range(10):
        rng = torch.Generator().manual_seed(seed)
        true, sent = torch.randn(40, 32, generator=rng), torch.randn(30, 40, 32, generator=rng)
        found.append(hits(transcript("fedgn", sent).attack(attack), true))
    assert sum(found) / len(found) < 3 / 40


def test_one_client_alone_has_nothing_in_common():
    (guess,) = transcript("fedgn", torch.randn(3, 1, 8)).attack("prototype_centring")
    assert "only one client" in guess.failed


def test_averaging_reaches_back_as_far_as_the_noise_asks():
    rng = torch.Generator().manual_seed(0)
    true = torch.nn.functional.normalize(torch.randn(20, 32, generator=rng), dim=1)
    seen = transcript("fedgn", true + torch.randn(150, 20, 32, generator=rng))
    assert hits(seen.attack("prototype_averaging", window=20), true) < 0.9
    assert hits(seen.attack("prototype_averaging"), true) > 0.95


def spheres(clients=10, dim=16, rounds=60):
    """(true centres, shown centres, margins) at s = 1.5, R about 1."""
    rng = torch.Generator().manual_seed(0)
    true = torch.randn(clients, dim, generator=rng)
    radius = 1 + 0.1 * torch.rand(rounds, clients, generator=rng)
    turn = torch.nn.functional.normalize(torch.randn(rounds, clients, dim, generator=rng), dim=-1)
    return true, true + 1.5 * radius[..., None] * turn, 2.5 * radius


def centres(guesses):
    return torch.stack([g.tensors["centre"] for g in guesses]).double()


def test_known_distances_give_the_centres():
    true, shown, margins = spheres()
    seen = transcript("fedmetric", shown, scale=1.5)
    for t, row in enumerate(margins, start=1):
        for client, margin in enumerate(row):
            seen.add("statistics", margin, sender=f"client/{client}", round=t)
    of_mean = (centres(seen.attack("prototype_averaging")) - true).norm(dim=1).mean()
    found = (centres(seen.attack("prototype_spheres")) - true).norm(dim=1).mean()
    assert found < 0.03 < of_mean / 3


def test_a_client_solves_from_the_banks_that_it_received():
    true, shown, margins = spheres()
    seen = leakbench.Transcript(method="fedmetric", clients=10, scale=1.5)
    for t, (bank, row) in enumerate(zip(shown, margins, strict=True), start=1):
        seen.add("prototype", bank, sender="server", receiver="client/*", round=t)
        seen.add("statistics", row, sender="server", receiver="client/*", round=t)
        seen.add("prototype", bank[9], sender="client/9", round=t)
    guesses = seen.attack("prototype_spheres", observer="client/9")
    assert [g.unit for g in guesses] == [f"client/{i}" for i in range(9)]
    assert (centres(guesses) - true[:9]).norm(dim=1).mean() < 0.03


def test_the_error_is_told_in_radii(tmp_path):
    run = leakbench.train(
        "fedmetric", task_params={"model": "mlp", "width": 8}, rounds=40, out=tmp_path, device="cpu"
    )
    of = {}
    for attack, params in (("prototype_spheres", {}), ("prototype_averaging", {"window": 1})):
        rows = leakbench.attack(run, attack, device="cpu", **params).rows
        of[attack] = next(r for r in rows if r["metric"] == "centre_error")
    assert of["prototype_averaging"]["value"] == pytest.approx(1.5, abs=1e-3)  # s radii
    assert of["prototype_spheres"]["value"] < 0.8
    assert of["prototype_spheres"]["control"] == pytest.approx(0, abs=1e-5)
