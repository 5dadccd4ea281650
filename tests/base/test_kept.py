"""What was worked out is kept for whoever asks the same again, and never passed off for another."""

import pytest
import torch

from leakbench import api
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
