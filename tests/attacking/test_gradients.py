"""A control variate is a gradient, attacked as one, whatever is done to the update beside it."""

from __future__ import annotations

import pytest
import torch
from helpers.federations import federation, method, run
from helpers.small_runs import again, build, obstacle, trained

from leakbench import api
from leakbench.attacking.replay import Replay
from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import UsageError
from leakbench.federation.batches import batch_plan
from leakbench.federation.parties import Batch
from leakbench.record.folders import load
from leakbench.record.recording import Recording
from leakbench.results.cells import missing_text
from leakbench.results.tables import collect

LR, STEPS, BATCH = 0.1, 2, 4


def by_hand(rounds):
    """SCAFFOLD's model and variate after some rounds: Algorithm 1 with option II in a few lines."""
    fed = federation("scaffold", lr=LR, steps=STEPS, batch=BATCH)
    x, clients = dict(fed.model), range(fed.facts.clients)
    c = {k: torch.zeros_like(v) for k, v in x.items()}
    mine = [{k: torch.zeros_like(v) for k, v in x.items()} for _ in clients]
    for t in range(1, rounds + 1):
        todo = batch_plan(
            fed.data, clients, seed=1, round=t, phase=2, batch=BATCH, steps=STEPS, epochs=0
        )
        moves, changes = [], []
        for i in clients:
            y = {k: v.clone() for k, v in x.items()}
            for batch in todo.batches(fed.data, i):
                leaves = {k: v.requires_grad_() for k, v in y.items()}
                out = torch.func.functional_call(fed.module, leaves, (batch.x,))
                value = torch.nn.functional.cross_entropy(out, batch.y)
                g = dict(zip(leaves, torch.autograd.grad(value, [*leaves.values()]), strict=True))
                y = {k: (v - LR * (g[k] - mine[i][k] + c[k])).detach() for k, v in leaves.items()}
            new = {k: mine[i][k] - c[k] + (x[k] - y[k]) / (STEPS * LR) for k in x}
            changes.append({k: new[k] - mine[i][k] for k in x})
            moves.append({k: y[k] - x[k] for k in x})
            mine[i] = new
        x = {k: x[k] + torch.stack([m[k] for m in moves]).mean(0) for k in x}
        c = {k: c[k] + torch.stack([m[k] for m in changes]).mean(0) for k in x}
    return x, c


def test_scaffold_is_algorithm_1():
    fed = run(federation("scaffold", lr=LR, steps=STEPS, batch=BATCH), 3)
    model, variate = by_hand(3)
    assert all(torch.allclose(fed.model[k], model[k], atol=1e-14, rtol=1e-12) for k in model)
    found = fed.state["variate"]
    assert all(torch.allclose(found[k], variate[k], atol=1e-13, rtol=1e-11) for k in variate)


def test_it_takes_no_steps_of_adam():
    with pytest.raises(UsageError, match="optimizer"):
        method("scaffold", optimizer="adam")


THREAT = ThreatModel(
    kinds=("update", "model"), rounds="audited", knows=("method", "facts", "labels")
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("scaffold")
    given = {"dtype": "float64", "params": {"steps": 1, "batch": 2}, "record": "standard"}
    return {
        "plain": trained(out / "a", "scaffold", **given),
        "noised": trained(out / "b", "scaffold", wrappers=[("clip_noise", {})], **given),
        "summed": trained(out / "c", "scaffold", wrappers=[("secure_sum", {})], **given),
    }


def explained(run, t, *, probe):
    """How far the updates that an attack sees are from the gradients of the plain loss."""
    recording = Recording(run)
    view = View(THREAT, recording, t)
    found = view.messages("update", round=t, probe=probe)
    assert found
    worst = 0.0
    truth = run.tree(f"truth/round-{t:06d}.safetensors")[0]["client"]
    for m in found:
        assert m.loss == "uncorrected_loss"
        replay = Replay(
            view, m, torch.Generator().manual_seed(0), sizes=(1 if probe else 2,), phase=m.loss
        )
        assert replay.unknown == {}
        entry = truth[m.sender.split("/")[1]][str(m.phase)]
        entry = entry["probe"][str(m.probe)] if probe else entry
        update = replay.update(Batch(entry["x"], entry["y"]), {})
        worst = max(worst, *(float((update[k] - m.payload[k]).abs().max()) for k in update))
    return worst


@pytest.mark.parametrize("kind", ["plain", "noised", "summed"])
def test_what_is_read_off_a_variate_is_the_plain_gradient_at_every_stage(runs, kind):
    """Also late, when the client's own variate bends every step, and also where updates are noised
    or summed on the way: the variate passes untouched.
    """
    for t in (1, 5, 10):
        assert explained(runs[kind], t, probe=False) < 1e-7


def test_probes_are_freed_of_the_clients_own_variate(runs):
    for t in (1, 5, 10):
        assert explained(runs["plain"], t, probe=True) < 1e-7


@pytest.mark.parametrize("kind", ["noised", "summed"])
def test_covering_the_update_alone_hides_no_labels(runs, kind):
    def found(name):
        rows = api.attack(runs[name], "label_inference", source="update").rows
        return {r["stage"]: r["value"] for r in rows if r["metric"] == "label_set"}

    assert found(kind) == pytest.approx(found("plain"))


def noised(out, kinds=("variate",), record="standard", **params):
    """A run whose messages of these kinds are noised."""
    return trained(
        out, "scaffold", wrappers=[("clip_noise", {"kinds": list(kinds)})], record=record,
        dtype="float64", params={"steps": 1, "batch": 2, **params},
    )  # fmt: skip


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    return noised(tmp_path_factory.mktemp("hidden"))


def rounds_of(recording):
    """In which rounds each client sent an update."""
    out = {}
    for t, sender, _ in recording.traffic["update"].tolist():
        out.setdefault(f"client/{sender}", []).append(t)
    return out


class TestACoveredVariate:
    """The update is bent by what nobody is told, but by nothing that earlier ones do not tell."""

    def test_after_a_gap_in_the_record_no_update_is_read(self, hidden):
        assert explained(hidden, 1, probe=False) < 1e-7
        assert explained(hidden, 1, probe=True) < 1e-7
        for t in (5, 10):
            view = View(THREAT, Recording(hidden), t)
            assert not view.messages("update", round=t)
            assert not view.messages("update", round=t, probe=True)
            assert not view.messages("update", round=t, last_layer=True)

    def test_without_a_gap_every_one_is_the_plain_gradient(self, tmp_path):
        run = noised(tmp_path, record="all")
        for t in (1, 5, 10):
            assert explained(run, t, probe=False) < 1e-7
            assert explained(run, t, probe=True) < 1e-7

    def test_a_late_first_update_is_freed_of_what_the_server_sent(self, tmp_path):
        """One of ten clients takes part in a round, so that some stages have one that is new."""
        run = noised(tmp_path, fraction=0.1)
        recording = Recording(run)
        sent = rounds_of(recording)
        late = {
            t for t in recording.stages.values() if t > 1 and [t] in [r[:1] for r in sent.values()]
        }
        assert late
        for t in late:
            seen = View(THREAT, recording, t).messages("update", round=t)
            assert all(sent[m.sender][0] == t for m in seen)
            assert explained(run, t, probe=False) < 1e-7

    def test_the_clients_of_a_round_come_in_the_order_of_the_record(self, tmp_path):
        """An attack on the first few must meet the same in the control."""
        recording = Recording(noised(tmp_path, record="all", fraction=0.4))
        stage = max(recording.stages.values())
        orders = []
        for control in (False, True):
            view = View(THREAT, recording, stage, control=control)
            orders.append([m.sender for m in view.messages("update", round=stage)])
        seen, control = orders
        assert len(seen) == 4
        assert seen == control

    def test_the_control_has_the_updates_that_can_be_read_and_no_others(self, tmp_path):
        """After gaps in the record some clients of a round are not read: they are in neither."""
        recording = Recording(noised(tmp_path, fraction=0.5))
        for t in recording.stages.values():
            found = []
            for control in (False, True):
                view = View(THREAT, recording, t, control=control)
                messages = view.messages("update", round=t, probe=True)
                found.append({(m.sender, m.probe) for m in messages})
            assert found[0] == found[1]

    def test_it_is_attacked_where_it_can_be_read_and_the_rest_is_said(self, hidden):
        found = api.attack(hidden, "label_inference", source="update")
        stages = {r["stage"] for r in found.rows if r["metric"] == "label_set"}
        assert stages == {"untrained"}
        lines = collect([load(hidden.path)]).missing
        assert [x for x in lines if x.reason.code == "no_end" and "update" in missing_text(x)]

    def test_where_the_update_is_covered_too_nothing_is_said(self, tmp_path):
        run = noised(tmp_path, ("variate", "update"))
        for name, given in (("label_inference", {"source": "update"}), ("gradient_inversion", {})):
            why = obstacle(build(name, **given), again(run))
            assert "covers variate" in why


def test_probes_of_covered_updates_are_not_attacked(runs):
    probe = obstacle(build("gradient_inversion", message="probe"), again(runs["noised"]))
    assert "not recorded" in probe
    real = obstacle(build("gradient_inversion", message="update"), again(runs["noised"]))
    assert real == ""
    assert obstacle(build("gradient_inversion", message="probe"), again(runs["plain"])) == ""
