"""Of every client of an audited round at least the last layer's part of its update is kept."""

import pytest
import torch
from helpers.small_runs import TASK, messages_in

from leakbench.attacking.view import ThreatModel, View
from leakbench.record import last_layers
from leakbench.record.folders import load
from leakbench.record.policy import Policy
from leakbench.record.recording import Recording
from leakbench.record.runspec import make_spec
from leakbench.record.training import train_run

LAST = {"head.weight", "head.bias"}
ONE = {"steps": 1, "batch": 4}


def run(out, name="fedgn", record="standard", **more):
    params = {**ONE, **more.pop("params", {})}
    how = {"rounds": 6, "seed": 3, "dtype": "float64", "record": record, **more}
    return train_run(make_spec(name, params=params, task_params=TASK, **how), out).path


def updates(folder, room="transcript"):
    return [m for m in messages_in(folder / room) if m.kind == "update" and m.probe is None]


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("fedgn", {}),
        ("fedgn", {"wrappers": [("clip_noise", {"clip": 0.01})]}),
        ("fedhide", {"params": {"k": 2}, "engine": "loop"}),
        ("fedavg", {"params": {"steps": 3}}),
    ],
)
def test_the_part_is_that_of_the_update_which_crossed(tmp_path, name, more):
    part = [m for m in updates(run(tmp_path / "some", name, **more)) if m.part]
    everything = updates(run(tmp_path / "all", name, record="all", **more))
    whole = {m.name: m.payload for m in everything}
    assert not any(m.part for m in everything)
    assert {m.round for m in part} >= {1, 3, 6}
    for m in part:
        assert set(m.payload) == LAST
        for key, value in m.payload.items():
            assert torch.allclose(value, whole[m.name][key], rtol=1e-12, atol=1e-14)


def test_every_client_of_an_audited_round_is_there_once(tmp_path):
    found = updates(run(tmp_path, params={"fraction": 1.0}))
    for t in (1, 3, 6):
        assert sorted(m.sender for m in found if m.round == t) == sorted(
            f"client/{i}" for i in range(10)
        )
        assert sum(not m.part for m in found if m.round == t) == Policy().audited


@pytest.mark.parametrize(("fraction", "turns"), [(0.2, 5), (0.34, 4)])
def test_at_the_end_everybody_had_a_turn(tmp_path, fraction, turns):
    """A third of ten clients are three: three rounds would leave one out."""
    folder = run(tmp_path, params={"fraction": fraction}, rounds=12)
    late = [m for m in updates(folder) if m.round > 12 - turns]
    assert {m.sender for m in late} == {f"client/{i}" for i in range(10)}
    models = [m for m in messages_in(folder / "transcript") if m.kind == "model"]
    assert {m.round for m in models} >= {*range(13 - turns, 13)}
    assert all(set(m.payload) == LAST for m in models if m.part)


def test_the_control_holds_it_without_the_wrapper(tmp_path):
    wrapper = ("clip_noise", {"clip": 0.01, "noise": 1.0})
    noisy = run(tmp_path / "noisy", wrappers=[wrapper])
    bare = {m.name: m.payload for m in updates(noisy, "control") if m.part}
    for m in updates(noisy):
        if m.part:
            assert not torch.allclose(m.payload["head.bias"], bare[m.name]["head.bias"], rtol=0.1)


def test_a_secure_sum_shows_the_server_no_part(tmp_path):
    folder = run(tmp_path, wrappers=[("secure_sum", {})])
    parts = [m for m in updates(folder) if m.part]
    assert parts
    assert {m.receiver for m in parts} == {"aggregator"}
    threat = ThreatModel(kinds=("update",))
    assert not View(threat, Recording(load(folder)), 6).messages("update", last_layer=True)
    control = View(threat, Recording(load(folder)), 6, control=True)
    assert len(control.messages("update", round=6, last_layer=True)) == 10


def test_who_does_not_ask_gets_whole_updates_only(tmp_path):
    folder = run(tmp_path)
    view = View(ThreatModel(kinds=("update",)), Recording(load(folder)), 6)
    assert all(not m.part for m in view.messages("update"))
    more = view.messages("update", round=6, last_layer=True)
    assert len(more) == 10
    assert all(set(m.payload) >= LAST for m in more)


def test_no_more_is_kept_than_there_is_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(last_layers, "LIMIT", 2 * 8 * (8 * 8 + 8) + 1)
    found = updates(run(tmp_path, params={"fraction": 1.0}))
    assert [sum(bool(m.part) for m in found if m.round == t) for t in (1, 3, 6)] == [2, 2, 2]


def test_where_nobody_is_audited_nothing_is_kept(tmp_path):
    assert not updates(run(tmp_path, record=Policy(audited=0, probes=0)))


def test_a_run_of_many_turns_keeps_no_more_than_a_run_may(tmp_path, monkeypatch):
    """Else a federation of thousands with few of them in a round would be refused."""
    one = 8 * (8 * 8 + 8)
    monkeypatch.setattr(last_layers, "WHOLE", 8 * one)  # rounds 0, 1, 3, 6 and 7 are kept
    found = updates(run(tmp_path, params={"fraction": 1.0}))
    assert [sum(bool(m.part) for m in found if m.round == t) for t in (1, 3, 6)] == [1, 1, 1]
