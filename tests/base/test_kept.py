"""What was worked out is kept for whoever asks the same again, and never passed off for another."""

import pytest
import torch
from helpers.small_runs import again, plugged, trained

from attacks.membership import Membership
from leakbench import api
from leakbench.attacking.view import View
from leakbench.base import kept


@pytest.fixture(autouse=True)
def nothing_kept():
    kept.forget()
    yield
    kept.forget()


def counted(made):
    def make():
        made.append(1)
        return (torch.ones(4),)

    return make


def test_the_second_asks_for_nothing():
    made = []
    first, second = (kept.once("a", counted(made))[0] for _ in range(2))
    assert first is second
    assert len(made) == 1


def test_what_has_no_name_is_made_each_time():
    made = []
    for _ in range(2):
        kept.once("", counted(made))
    assert len(made) == 2


def test_what_was_asked_for_longest_ago_goes_first(monkeypatch):
    monkeypatch.setattr(kept, "MOST", 2 * 16)
    made = []
    for key in ("a", "b", "a", "c", "a"):
        kept.once(key, counted(made))
    assert len(made) == 3
    kept.once("b", counted(made))
    assert len(made) == 4


def test_what_is_too_large_is_handed_out_all_the_same(monkeypatch):
    monkeypatch.setattr(kept, "MOST", 1)
    assert kept.once("a", counted([]))[0].shape == (4,)


@pytest.mark.parametrize(
    "other",
    [
        ("a", {"x": torch.zeros(2), "y": torch.ones(2)}),  # another number
        ("a", {"x": torch.zeros(2), "z": torch.zeros(2)}),  # another name
        ("a", {"x": torch.zeros(2), "y": torch.zeros(2, dtype=torch.float64)}),
        ("a", {"x": torch.zeros(2), "y": torch.zeros(1, 2)}),
        ("a", {"x": torch.zeros(2)}),
        ("b", {"x": torch.zeros(2), "y": torch.zeros(2)}),
        ("a", "", {"x": torch.zeros(2), "y": torch.zeros(2)}),
    ],
)
def test_a_digest_tells_everything_apart(other):
    one = ("a", {"x": torch.zeros(2), "y": torch.zeros(2)})
    assert kept.digest(*one) == kept.digest("a", {"y": torch.zeros(2), "x": torch.zeros(2)})
    assert kept.digest(*one) != kept.digest(*other)


def test_texts_do_not_run_into_one_another():
    assert kept.digest("ab", "c") != kept.digest("a", "bc")


@pytest.mark.parametrize("method", ["fedavg", "fedgn", "flea", "fedprox"])
def test_no_signal_finds_another_number_where_others_asked_before(tmp_path, method):
    """Warm, with all that other methods and signals left, and cold: the very same."""
    task = {"split": "class", "held_out": 10, "mean_local_size": 20, "model": "mlp", "width": 16}
    runs = [
        api.train(m, task="digits", task_params=task, rounds=2, out=tmp_path, record="all")
        for m in ("moon", method)
    ]

    def asked(run, signal):
        rows = api.attack(run, "membership", signal=signal).rows
        return [(r["metric"], r["value"], r["floor"], r["control"]) for r in rows]

    signals = ("cosine", "loss", "likelihood")
    cold = {}
    for signal in signals:
        kept.forget()
        cold[signal] = asked(runs[1], signal)
        (runs[1].path / "attacks").rename(tmp_path / f"cold-{signal}")
    kept.forget()
    for run in runs:
        warm = {signal: asked(run, signal) for signal in signals}
    assert warm == cold
    assert any(value == value for rows in cold.values() for _, value, _, _ in rows)


NUMBERED = '''
"""Each client has labels of its own."""

from torch.nn import functional

from leakbench import Defense


class Numbered(Defense):
    """Labels are turned by the client's number."""

    def loss(self, net, batch, me):
        return functional.cross_entropy(net(batch.x), (batch.y + {times} * me.index) % 10)
'''
SIX = {"split": "iid", "clients": 6, "held_out": 10, "mean_local_size": 20, "model": "mlp"}


def scores(run, signal="likelihood"):
    attack = Membership(signal=signal)
    guesses = attack(View(attack.threat, again(run), run.spec["rounds"]))
    return {g.unit: g.tensors["membership"] for g in guesses}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[u], other[u]) for u in one)


@pytest.mark.parametrize("signal", ["cosine", "loss", "likelihood"])
def test_a_loss_that_goes_by_the_clients_number_is_another_at_each(tmp_path, monkeypatch, signal):
    source = NUMBERED.format(times=3)
    with plugged("defenses", tmp_path, numbered=source):
        run = trained(tmp_path, "numbered", 2, task_params=SIX, record="all")
        warm = scores(run, signal)
        monkeypatch.setattr(kept, "once", lambda _, make: make())
        assert same(warm, scores(run, signal))
    assert len(warm) >= 3


def test_other_code_of_the_same_name_is_another_method(tmp_path):
    """Of a single round, before which all models are alike."""
    runs = []
    for times in (3, 4):
        source = NUMBERED.format(times=times)
        with plugged("defenses", tmp_path, numbered=source):
            out = tmp_path / str(times)
            run = trained(out, "numbered", 1, task_params=SIX, record="all")
            warm = scores(run)
            kept_so_far = dict(kept._HELD.of)
            kept.forget()
            cold = scores(run)
            for key, made in kept_so_far.items():
                kept._HELD.put(key, made)
            runs.append(same(warm, cold))
    assert runs == [True, True]


def test_a_number_of_any_type_is_told(tmp_path):
    one, other = (torch.tensor([x], dtype=torch.bfloat16) for x in (1.0, 2.0))
    assert kept.digest(one) != kept.digest(other)
    assert kept.digest(one) == kept.digest(one.clone())
    assert kept.digest(torch.tensor(1.0)) != kept.digest(torch.tensor([1.0]))
