"""The attacks on prototypes do what they say: noise that is drawn afresh averages out, a mixture
does not.
"""

import pytest
import torch

import leakbench
from leakbench.attacking import guessing


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
