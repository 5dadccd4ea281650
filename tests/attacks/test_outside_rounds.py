"""What a method sends before its rounds or after them is recorded, attacked and judged, and what is
left of its model then is what its utility is of.
"""

import pytest
import torch
from helpers.small_runs import TASK, plugged, trained

from leakbench import api
from leakbench.base.files import read_tree
from leakbench.federation import trainings
from leakbench.federation.federation import Federation
from leakbench.record import training
from leakbench.record.runspec import make_spec, parts
from leakbench.results.number import END, when
from leakbench.results.tables import collect

METHOD = '''
"""FedAvg that keeps what it leaks for outside its rounds."""

from typing import Any

import torch

from leakbench import Client, Defense, Server


class Late(Defense):
    """Late."""

    layer: str = "input"
    raw: str = "after"
    forgets: bool = False
    trains: bool = False

    def before(self, fed: Any) -> None:
        if self.raw == "before":
            fed.clients(self.tell)

    def after(self, fed: Any) -> None:
        if self.raw == "after":
            fed.clients(self.tell)
        if self.trains:
            fed.server(self.downlink)
            fed.train(self.late_loss)
        if self.forgets:
            fed.server(self.forget)

    def uplink(self, me: Client) -> Any:
        if self.raw == "after":
            return {"features": torch.zeros(0, *me.facts.shape)}

    def tell(self, me: Client) -> Any:
        return {"features": me.data.x[:4]}

    def inputs(self, me: Client) -> Any:
        return {"features": me.data.x[:4]}

    def late_loss(self, net: Any, batch: Any, me: Client) -> Any:
        return self.loss(net, batch, me)

    def forget(self, server: Server) -> Any:
        server.model = {k: torch.zeros_like(v) for k, v in server.model.items()}
'''
ROUNDS = 10


@pytest.fixture(scope="module", autouse=True)
def late(tmp_path_factory):
    with plugged("defenses", tmp_path_factory.mktemp("late"), late=METHOD):
        yield


def made(out, **params):
    return trained(out, "late", ROUNDS, params=params)


@pytest.mark.parametrize(("where", "t"), [("before", 0), ("after", ROUNDS + 1)])
def test_raw_inputs_sent_outside_the_rounds_are_found_at_the_end(tmp_path, where, t):
    run = made(tmp_path, raw=where)
    rows = [r for r in api.attack(run, "decoder", network="linear").rows if r["stage"] == where]
    (psnr,) = [r for r in rows if r["metric"] == "psnr"]
    assert psnr["round"] == t
    assert psnr["value"] == 100  # pixel by pixel
    assert psnr["floor"] < 20
    tables = collect([api.load(run.path)])
    asked = [n for n in tables.numbers if n.metric == "psnr" and when(n.stage) == "final"]
    worst = next(n for n in asked if n.attacker.name == "any_attack")
    assert worst.value.value == 100


def test_the_stages_outside_are_one_question_with_the_end():
    assert {when(stage) for stage in END} == {"final"}
    assert {"before", "after"} <= set(END)


def test_the_model_that_is_left_is_the_one_that_is_evaluated_and_kept(tmp_path):
    whole, gone = made(tmp_path / "a"), made(tmp_path / "b", forgets=True)
    last = [collect([run]).settings[0].final for run in (whole, gone)]
    assert last[0].value.value > 0.3
    assert last[1].value.value < 0.2
    assert "dead_run" in last[1].flags
    assert [r["round"] for r in gone.table("utility.csv", ("round",))][-2:] == [ROUNDS, ROUNDS + 1]
    # Where nothing changed there is nothing to measure again.
    assert [r["round"] for r in whole.table("utility.csv", ("round",))][-1] == ROUNDS
    model = read_tree(gone.path / "checkpoint" / "model.safetensors")[0]
    assert not any(bool(v.any()) for v in model.values())


def test_an_update_made_after_the_last_round_is_attacked(tmp_path):
    run = made(tmp_path, raw="never", trains=True)
    rows = api.attack(run, "label_inference", source="update").rows
    assert {(r["stage"], r["round"]) for r in rows} >= {("final", 10), ("after", 11)}
    found = api.attack(run, "gradient_inversion", restarts=1, steps=2, targets=1)
    assert "after" in {r["stage"] for r in found.rows}


def test_the_trainings_outside_the_rounds_are_those_that_are_made_there():
    method = parts(make_spec("late", params={"trains": True}, task_params=TASK)).method
    assert [t.name for t in trainings(method, 3, last=10)] == ["loss"]
    assert [(t.name, t.phase) for t in trainings(method, 11, last=10)] == [("late_loss", 2)]
    assert trainings(method, 0, last=10) == []


def test_killed_before_what_follows_the_last_round_it_ends_in_the_same_bytes(tmp_path, monkeypatch):
    spec = make_spec("late", params={"forgets": True}, task_params=TASK, rounds=ROUNDS)
    whole = training.train_run(spec, tmp_path / "whole").path

    def unplugged(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(training, "CHECKPOINT_SECONDS", 0.0)
        m.setattr(training, "CHECKPOINT_SHARE", 0)
        m.setattr(Federation, "end", unplugged)
        with pytest.raises(KeyboardInterrupt):
            training.train_run(spec, tmp_path / "cut")
    cut = training.train_run(spec, tmp_path / "cut").path
    for path in sorted(p for p in whole.rglob("*") if p.is_file()):
        assert path.read_bytes() == (cut / path.relative_to(whole)).read_bytes(), path
    assert torch.equal(*(read_tree(p / "utility.safetensors")[0]["000011"] for p in (whole, cut)))


def test_what_is_read_at_the_end_anyway_is_not_attacked_twice(tmp_path):
    """FedMix shares before round 1 what its attackers read at any time."""
    run = api.train("fedmix", task_params={**TASK, "split": "qua"}, rounds=4, out=tmp_path)
    rows = api.attack(run, "label_inference", source="message").rows
    assert "before" not in {r["stage"] for r in rows}
