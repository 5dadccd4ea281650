"""A server that plants models: clients get what is recorded, and without it all is as ever."""

from __future__ import annotations

import csv

import pytest
import torch

from leakbench import api
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.files import read_tree
from leakbench.record.folders import load
from leakbench.record.messages import read_messages, round_file
from leakbench.record.recording import Recording
from leakbench.record.runspec import make_spec

TASK = {"model": "mlp_relu", "width": 16, "split": "iid", "evaluations": 10}
SGD = {"batch": 4, "optimizer": "sgd", "steps": 1, "epochs": 0, "lr": 0.1, "decay": 1.0} | {
    "fraction": 1.0
}
ALIKE = ("transcript", "control", "known", "truth")


def trained(out, *wrappers, rounds=10, task=TASK, **how):
    return api.train(
        "fedavg", params=SGD, task_params=task, rounds=rounds, wrappers=wrappers, out=out, **how
    )


def model(run, t, receiver="client/*"):
    sent = read_messages(run.path, [f"transcript/{round_file(t)}"])
    (found,) = [m for m in sent if m.kind == "model" and m.receiver == receiver]
    return found


def diagnostics(run):
    with (run.path / "diagnostics.csv").open() as file:
        return {(int(d["round"]), d["name"]): float(d["value"]) for d in csv.DictReader(file)}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("honest"))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    wrapper = ("active_server", {"way": "imprint", "rounds": [5, 10]})
    return trained(tmp_path_factory.mktemp("planted"), wrapper)


def test_with_the_way_off_the_record_is_that_of_the_honest_run(honest, tmp_path):
    off = trained(tmp_path, ("active_server", {"way": "none"}))
    files = [p.relative_to(honest.path) for p in sorted(honest.path.rglob("*.*")) if p.is_file()]
    same = [p for p in files if p.parts[0] in ALIKE or p.suffix == ".csv"]
    assert len(same) > 6
    for name in same:
        assert (off.path / name).read_bytes() == (honest.path / name).read_bytes(), name
    assert off.meta["sent"] == honest.meta["sent"]


def test_what_clients_received_stands_in_the_record_and_in_the_name(planted, honest):
    (wrapper,) = planted.spec["wrappers"]
    assert wrapper["params"]["way"] == "imprint"
    assert wrapper["params"]["rounds"] == [5, 10]
    assert planted.path.name != honest.path.name
    assert [s["kind"] for s in planted.meta["sent"] if s.get("changed")] == ["model"]
    assert planted.meta["hides"] is False
    sent = model(planted, 5)
    assert sent.changed
    rows = sent.payload["first.1.weight"]
    assert torch.equal(rows, rows[:1].expand_as(rows))
    assert not model(planted, 1).changed
    assert torch.equal(
        model(planted, 1).payload["first.1.weight"], model(honest, 1).payload["first.1.weight"]
    )


def test_clients_train_on_what_they_received(planted):
    """The update is minus the rate times the gradient of the planted model on the true batch."""
    recording = Recording(load(planted.path))
    (u, *_) = [m for m in recording.transcript if (m.kind, m.round, m.probe) == ("update", 5, None)]
    truth = read_tree(planted.path / "truth" / round_file(5))[0]["client"]
    batch = truth[u.sender.split("/")[1]][str(u.phase)]
    module, sent = recording.module(), model(planted, 5).payload
    weights = {k: v.clone().requires_grad_() for k, v in sent.items()}
    out = torch.func.functional_call(module, weights, (batch["x"],))
    torch.nn.functional.cross_entropy(out, batch["y"]).backward()
    for name, moved in u.payload.items():
        torch.testing.assert_close(moved, -SGD["lr"] * weights[name].grad, atol=1e-5, rtol=1e-3)


def test_the_round_is_lost_and_training_goes_on(planted):
    """The model after the planted round is the one before it, as an honest server sent it."""
    wrapper = ("active_server", {"way": "class", "rounds": [1]})
    before, after = (
        registry.load_plugin("wrappers", "active_server")(way=w).departures()
        for w in ("none", "class")
    )
    assert (before, after) == ((), ())  # none are named, and no run was told
    spec = make_spec("fedavg", params=SGD, task_params=TASK, rounds=10, wrappers=[wrapper])
    assert spec.wrappers[0].params["rounds"] == [1]
    with (planted.path / "utility.csv").open() as file:
        utility = [float(r["value"]) for r in csv.DictReader(file)]
    assert utility[4] == utility[3]  # round 5 changed nothing
    assert utility[9] == utility[8]
    assert utility[8] > utility[4]


def test_what_clients_could_notice_is_told(planted, honest):
    told, usual = diagnostics(planted), diagnostics(honest)
    assert not [name for _, name in usual if name.startswith("noticed")]
    assert {t for t, name in told if name.startswith("noticed")} == {5, 10}
    assert told[5, "noticed_distance"] > 10 * told[5, "noticed_distance_usual"]
    assert told[5, "noticed_loss"] > told[5, "noticed_loss_usual"]
    assert told[10, "loss"] == pytest.approx(told[10, "noticed_loss_usual"])
    for name in ("noticed_dead_units", "noticed_dead_units_usual"):
        assert 0 <= told[5, name] <= 1


def test_those_who_are_not_aimed_at_are_silenced_or_left_alone(tmp_path):
    quiet, plain = (
        trained(
            tmp_path,
            ("active_server", {"way": "class", "clients": [3], "others": others, "rounds": [1]}),
            rounds=1,
        )
        for others in ("silent", "honest")
    )
    assert not any(bool(v.any()) for v in model(quiet, 1, "client/4").payload.values())
    assert model(quiet, 1, "client/4").changed
    assert not model(plain, 1, "client/4").changed
    for run in (quiet, plain):
        aimed = model(run, 1, "client/3")
        assert aimed.changed
        head = aimed.payload["head.weight"]
        assert head.any(1).nonzero().flatten().tolist() == [0]
    truth = read_tree(quiet.path / "truth" / round_file(1))[0]["client"]
    assert "3" in truth  # its batch is audited, whoever else is drawn


@pytest.mark.parametrize(
    ("params", "task", "words"),
    [
        ({"rounds": [3]}, TASK, "round 3 is not audited"),
        ({"clients": [99]}, TASK, "no client 99"),
        ({"way": "class", "label": 12}, TASK, "no class 12"),
        ({"way": "imprint"}, {**TASK, "model": "lenet"}, "linear first layer"),
        ({"way": "trap"}, {**TASK, "model": "lenet"}, "linear first layer"),
        ({"way": "feature"}, {**TASK, "model": "lenet"}, "before the last layer"),
    ],
)
def test_what_does_not_fit_is_said(params, task, words, tmp_path):
    with pytest.raises(UsageError, match=words):
        trained(tmp_path, ("active_server", params), rounds=10, task=task)


def test_a_trap_lets_a_share_of_the_auxiliary_data_through(tmp_path):
    run = trained(tmp_path, ("active_server", {"way": "trap", "share": 0.1}), rounds=1)
    sent = model(run, 1).payload
    aux = Recording(load(run.path)).known("aux_data").x.float().flatten(1)
    fires = (aux @ sent["first.1.weight"].T > 0).float().mean(0)
    assert fires.min() > 0.05
    assert fires.max() < 0.15
