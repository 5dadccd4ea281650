"""Updates of several local steps, and of a round's second training: replayed, inverted, and scored
beside what luck gives.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from helpers.small_runs import Lazily, again, build, by_hand, obstacle, results, units

from attacks import _updates
from defenses.fedaa import FedAA
from defenses.fedavg import FedAvg
from leakbench import api
from leakbench.attacking import choices, guessing
from leakbench.attacking.guess import Guess
from leakbench.attacking.replay import Replay
from leakbench.attacking.view import View
from leakbench.base import registry
from leakbench.federation.batches import batch_plan
from leakbench.federation.local_steps import Training, trainings
from leakbench.federation.parties import Batch
from leakbench.federation.task_data import Examples, TaskData
from leakbench.record.folders import load
from leakbench.scoring import image_distances, score
from leakbench.scoring.truth import Truth
from leakbench.work import pipeline

SMALL = {"model": "mlp", "width": 8, "dim": 8}
QUICK = {
    "epochs": 2,
    "examples": 4,
    "hidden": 8,
    "search_steps": 5,
    "identifier_epochs": 1,
    "tune_steps": 1,
    "lr": 0.05,
    "eta3": 3.0,
}
FEW = {"split": "shards", "split_param": 1.0, "clients": 100}  # 11 images each


def trained(out, method="fedaa", task_params=SMALL, rounds=2, **params):
    return api.train(
        method,
        task="digits",
        task_params=task_params,
        rounds=rounds,
        out=out,
        device="cpu",
        dtype="float64",
        params=params,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """FedAA with 4 local steps in its second training, with one (twice); FedAvg with 3 steps, with
    2 epochs of one full batch; FedAA with no step in its first training.
    """
    out = tmp_path_factory.mktemp("runs")
    return Lazily(
        four=partial(trained, out, **QUICK, batch=32),
        one=partial(trained, out, task_params={**SMALL, **FEW}, **QUICK, fraction=0.1, batch=32),
        lenet=partial(
            trained, out, task_params=FEW, **{**QUICK, "epochs": 10}, fraction=0.1, batch=32
        ),
        steps=partial(trained, out, "fedavg", steps=3, batch=4, lr=0.05),
        epochs=partial(
            trained,
            out,
            "fedavg",
            {**SMALL, **FEW},
            steps=0,
            epochs=2,
            batch=32,
            lr=0.05,
            fraction=0.1,
        ),
        none=partial(trained, out, **{**QUICK, "epochs": 0}, batch=32),
    )


def recorded(run, unit, t, phase):
    """(x, y, rows) behind a client's update of a phase, as they were recorded."""
    entry = Truth(load(run.path)).round(t)["client"][unit.removeprefix("client/")][str(phase)]
    return entry["x"], entry["y"], entry["rows"]


def attacked(run, **params):
    return api.attack(
        run, "gradient_inversion", **{"at": ["final"], "message": "update", **params}
    ).path


def guesses(folder, role="attack"):
    return {g.guess.unit: g.guess for g in guessing.saved(folder) if g.role == role}


class TestTrainings:
    def test_are_read_off_the_choreography(self):
        assert trainings(FedAvg(steps=0, epochs=3), 1) == [Training(2, "loss", 0, 3)]
        assert trainings(FedAA(epochs=7, second_epochs=2), 5) == [
            Training(2, "loss", 0, 7),
            Training(5, "second_loss", 0, 2),
        ]
        assert trainings(FedAA(steps=2, epochs=7), 1)[0] == Training(2, "loss", 2, 7)

    @pytest.mark.parametrize("name", registry.names("defenses"))
    def test_every_methods_round_can_be_read(self, name):
        method = registry.load_plugin("defenses", name).build({}, name)
        found = trainings(method, 1)
        assert found
        assert all(callable(getattr(method, t.name)) for t in found)

    @pytest.mark.parametrize("name", ["four", "one", "steps", "epochs"])
    def test_phases_and_steps_are_those_of_the_run(self, runs, name):
        run = runs[name]
        method, rounds = again(run).method, Truth(load(run.path))
        behind_of = [
            {int(p): e for p, e in client.items() if "rows" in e}
            for client in rounds.round(2)["client"].values()
        ]
        behind_of = [b for b in behind_of if b]  # of the audited clients
        assert len(behind_of) == 5
        for behind in behind_of:
            assert [t.phase for t in trainings(method, 2)] == sorted(behind)
            for t in trainings(method, 2):
                assert sum(t.sizes(len(behind[t.phase]["rows"]), method.batch)) == len(
                    behind[t.phase]["rows"]
                )

    @pytest.mark.parametrize(("steps", "epochs"), [(1, 0), (3, 0), (0, 1), (0, 2)])
    @pytest.mark.parametrize("counts", [(12, 12), (20, 9), (4, 4)])
    def test_sizes_are_those_of_the_plan(self, steps, epochs, counts):
        """Against the batches that the federation makes; where they cannot be told of several
        steps, nothing is said.
        """
        rows = torch.arange(40).reshape(2, 20)
        examples = Examples(torch.zeros(40, 1), torch.zeros(40, dtype=torch.int64))
        data = TaskData(
            examples,
            examples,
            examples,
            rows,
            torch.tensor(counts),
            torch.zeros(2, dtype=torch.int64),
        )
        todo = batch_plan(
            data, range(2), seed=0, round=1, phase=2, batch=8, steps=steps, epochs=epochs
        )
        for j in range(2):
            want = [len(r) for r in todo.rows(j)]
            got = Training(2, "loss", steps, epochs).sizes(sum(want), 8)
            assert got == want or (got == [] and steps > 1 and min(counts) < 8)


class TestReplay:
    @pytest.mark.parametrize(
        ("name", "steps"), [("four", 4), ("one", 1), ("steps", 3), ("epochs", 2)]
    )
    def test_gives_the_recorded_update(self, runs, name, steps):
        """On the true images, step after step, with the second training's own loss and inbox;
        and as no single step would.
        """
        run = runs[name]
        view = View(build("gradient_inversion").threat, again(run), 2)
        found = _updates.shortest(view, probe=False, most=8)
        assert len(found) == 5
        for b in found:
            assert len(b.sizes) == steps
            x, y, _ = recorded(run, b.message.sender, 2, b.message.phase)
            for sizes in (b.sizes, [len(y)]):
                replay = Replay(
                    view, b.message, torch.Generator().manual_seed(0), sizes=sizes, phase=b.loss
                )
                made = {k: v.detach() for k, v in replay.update(Batch(x, y), {}).items()}
                far = max(float((made[k] - b.message.payload[k]).abs().max()) for k in made)
                assert far < 1e-12 if sizes == b.sizes else far > 1e-4

    def test_is_differentiable_through_the_steps(self, runs):
        """Against finite differences: the second step sees the first one's weights."""
        run = runs["steps"]
        view = View(build("gradient_inversion").threat, again(run), 2)
        b = _updates.shortest(view, probe=False, most=8)[0]
        x, y, _ = recorded(run, b.message.sender, 2, b.message.phase)
        replay = Replay(
            view, b.message, torch.Generator().manual_seed(0), sizes=b.sizes, phase=b.loss
        )

        def size(x):
            return torch.stack(
                [(g * g).sum() for g in replay.gradient(Batch(x, y), {}).values()]
            ).sum()

        leaf = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(size(leaf), leaf)
        way = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        step = 1e-5 * way
        with torch.enable_grad():
            rise = (size(x + step) - size(x - step)).detach() / 2e-5
        assert float((slope * way).sum()) == pytest.approx(float(rise), rel=1e-5)

    def test_the_rate_is_the_methods_schedule(self, runs):
        class Halved(FedAvg):
            def schedule(self, round):
                return 0.5 if round == 2 else 1.0

        view = View(build("gradient_inversion").threat, again(runs["steps"]), 2)
        replay = Replay(view, view.messages("update", round=2)[0], torch.Generator())
        replay.method = Halved(lr=0.3)
        assert replay.rate == 0.15


class TestEpochs:
    """Over epochs an image is one unknown."""

    def test_its_images_once_give_the_recorded_update(self, runs):
        """Eleven images, two epochs of one batch: 11 unknowns, and the update to the last digit."""
        run = runs["epochs"]
        view = View(build("gradient_inversion", message="update").threat, again(run), 2)
        for b in _updates.shortest(view, probe=False, most=8):
            x, y, rows = recorded(run, b.message.sender, 2, b.message.phase)
            n = len(rows.unique())
            assert (b.examples, b.sizes, b.guessed) == (n, [n, n], False)
            assert b.labels.tolist() == y[:n].tolist()
            dice = torch.Generator().manual_seed(0)
            replay = Replay(view, b.message, dice, rows=b.rows, phase=b.loss)
            made = replay.update(Batch(x[:n], y[:n]), {})
            for k, v in made.items():
                assert float((v.detach() - b.message.payload[k]).abs().max()) < 1e-12

    def test_images_of_one_class_each_are_told_in_every_batch(self, tmp_path):
        """Two batches an epoch: labels say which image came again where, unless two share one."""
        run = trained(
            tmp_path,
            "fedavg",
            {**SMALL, "split": "iid", "clients": 200},
            steps=0,
            epochs=3,
            batch=3,
            optimizer="sgd",
            lr=0.05,
            fraction=0.1,
        )
        view = View(build("gradient_inversion", message="update").threat, again(run), 2)
        assert view.facts.augmented is False
        found = _updates.shortest(view, probe=False, most=9)
        assert found
        exact = 0
        for b in found:
            x, y, rows = recorded(run, b.message.sender, 2, b.message.phase)
            n = b.examples
            assert n == len(rows.unique())
            for step, labels in zip(b.rows, torch.split(y, b.sizes), strict=True):
                assert b.labels[list(step)].tolist() == labels.tolist()
            for epoch in torch.split(torch.cat([torch.tensor(r) for r in b.rows]), n):
                assert sorted(epoch.tolist()) == list(range(n))
            assert b.guessed == (len(b.labels.unique()) < n)
            if b.guessed:
                continue
            dice = torch.Generator().manual_seed(0)
            replay = Replay(view, b.message, dice, rows=b.rows, phase=b.loss)
            made = replay.update(Batch(x[:n], y[:n]), {})
            far = max(float((made[k].detach() - b.message.payload[k]).abs().max()) for k in made)
            assert far < 1e-12
            exact += 1
        assert exact

    def test_an_image_that_is_turned_anew_is_another_one(self, runs, monkeypatch):
        run = runs["epochs"]
        recording = again(run)
        turned = replace(recording.facts, augmented=True)
        monkeypatch.setitem(vars(recording), "facts", turned)
        view = View(build("gradient_inversion", message="update").threat, recording, 2)
        for b in _updates.shortest(view, probe=False, most=8):
            assert b.examples == sum(b.sizes) == len(b.labels)


def bytes_of(x):
    """To tell images apart."""
    return x.double().numpy().tobytes()


class TestAttack:
    def test_fedaas_second_update_gives_its_images_away(self, runs):
        """Ten epochs hide what one epoch of a few images then shows."""
        folder = attacked(runs["lenet"], restarts=1, targets=2, steps=60)
        row, psnr = results(folder, "identification"), results(folder, "psnr")
        assert row["value"] > row["floor"] + 0.3
        assert psnr["value"] > psnr["floor"] + 2
        phases = {int(g.tensors["phase"]) for g in guesses(folder).values()}
        assert phases == {trainings(FedAA(), 2)[1].phase}
        assert all(
            g.tensors["phase"] == guesses(folder, "floor")[u].tensors["phase"]
            for u, g in guesses(folder).items()
        )

    def test_scores_are_of_the_images_behind_that_update(self, runs):
        folder = attacked(runs["one"], steps=3, restarts=1)
        found = units(folder, "mse")
        for unit, g in guesses(folder).items():
            x, _, rows = recorded(runs["one"], unit, 2, int(g.tensors["phase"]))
            each = image_distances.mse(
                g.tensors["x"][image_distances.match(g.tensors["x"], x, clip=True)], x, clip=True
            )
            for r, v in zip(rows.tolist(), each.tolist(), strict=True):
                assert found[f"{unit}/{r}"] == pytest.approx(v)

    def test_its_probes_are_attacked_where_nothing_is_named(self, runs):
        """A client with one image takes one step in the second training, whatever the
        others take.
        """
        assert {"gradient_inversion"} <= {c.name for c in choices.planned(again(runs["four"]))}
        folder = attacked(runs["four"], message="probe", targets=2, restarts=1)
        assert results(folder, "identification")["value"] == 1
        assert "probe" in results(folder, "psnr")["flags"]

    def test_an_image_seen_in_two_steps_is_one_unit(self, runs):
        run = runs["epochs"]
        folder, want = attacked(run, steps=3, restarts=1, targets=2), set()
        for unit, g in guesses(folder).items():
            _, y, rows = recorded(run, unit, 2, int(g.tensors["phase"]))
            assert len(y) == 2 * len(rows.unique()) == 2 * len(g.tensors["x"])
            true = Truth(load(run.path)).answer(g).originals(g)
            assert true.rows.tolist() == list(dict.fromkeys(rows.tolist()))
            # Each guess stands beside one image: none is counted twice, none left out.
            beside = true.beside(g.tensors["x"], clip=True)
            assert len(beside) == len(g.tensors["x"])
            assert {*map(bytes_of, beside)} == {*map(bytes_of, g.tensors["x"])}
            want |= {f"{unit}/{r}" for r in rows.tolist()}
        assert set(units(folder, "mse")) == want

    def test_who_takes_too_many_steps_or_adam_is_said(self, runs, tmp_path):
        with pytest.raises(
            pipeline.UsageError,
            match="every update is of 4 local steps or more, and 3 at most are replayed",
        ):
            attacked(runs["four"], local_steps=3)
        with pytest.raises(
            pipeline.UsageError,
            match="every update is of 4 local steps or more, and 1 at most are replayed",
        ):
            attacked(runs["four"], engine="breaching", attacker="naive")
        signs = trained(tmp_path, "fedavg", steps=2, batch=4, optimizer="adam_each_step")
        why = obstacle(build("gradient_inversion", message="update"), again(signs))
        assert why == "of several steps that are signs an update does not tell the gradients"
        for run in (signs, runs["epochs"]):
            two = obstacle(build("gradient_inversion"), again(run))
            assert two == "the update is not a single step, so it is no gradient"


class TestLuck:
    """Of a batch the guesses are matched to its images, and the nearest of many is often near."""

    def test_guesses_that_know_nothing_are_at_the_floor(self, runs):
        """Auxiliary images of the labels, others than the floor's, in place of an attack: far above
        1 / gallery, and no leak.
        """
        run = runs["four"]
        recording, attack = again(run), build("gradient_inversion", message="update", at=["final"])
        view = View(attack.floor_threat, recording, 2)
        blind = {seed: attack.blind(view, torch.Generator().manual_seed(seed)) for seed in (1, 2)}
        made = [
            Guess(g.unit, g.round, {"x": g.tensors["sample"], "phase": g.tensors["phase"]})
            for g in blind[1]
        ]
        by_hand(recording, "gradient_inversion", attack, made, blind[2])
        row = results(score.score(recording, "gradient_inversion", attack), "identification")
        assert row["value"] > 0.05
        assert row["floor"] == pytest.approx(row["value"], abs=0.08)
        assert row["low"] <= row["floor_high"]
        assert "control_failed" in row["flags"]

    def test_the_floor_by_hand(self, runs):
        run = runs["one"]
        folder, truth = attacked(run, steps=3, restarts=1), Truth(load(run.path))
        found = units(folder, "identification", "floor")
        for unit, g in guesses(folder, "floor").items():
            answer = truth.answer(g)
            x, _, rows = recorded(run, unit, 2, int(g.tensors["phase"]))
            picked = g.tensors["sample"][image_distances.match(g.tensors["sample"], x, clip=True)]
            for guess, true, r in zip(picked, x, rows.tolist(), strict=True):
                gallery, place = answer.gallery(r, true)
                far = (gallery - guess).square().flatten(1).sum(1)
                assert found[f"{unit}/{r}"] == pytest.approx(
                    float(far[place] <= far.min()) / int((far <= far.min()).sum())
                )

    def test_the_sample_is_of_the_labels_and_no_image_comes_twice(self, runs):
        recording = again(runs["one"])
        attack = build("gradient_inversion", message="update")
        view, aux = View(attack.floor_threat, recording, 2), recording.known("aux_data")
        for g in attack.blind(view, torch.Generator()):
            _, y, _ = recorded(runs["one"], g.unit, 2, int(g.tensors["phase"]))
            at = [int((aux.x - x).abs().flatten(1).sum(1).argmin()) for x in g.tensors["sample"]]
            assert aux.y[at].tolist() == y.tolist()
            assert len(set(at)) == len(at)

    def test_of_one_image_it_is_one_in_a_gallery(self, runs):
        folder = attacked(runs["four"], message="probe", targets=2, restarts=1)
        row = results(folder, "identification")
        assert row["floor"] == row["floor_low"] == row["floor_high"] == 0.01


class TestWithoutSteps:
    """A training of no epochs: its update is zero, and nothing is behind it."""

    def test_the_other_updates_are_inverted(self, runs):
        for message in ("probe", "update"):
            found = guesses(attacked(runs["none"], message=message, targets=2, steps=2, restarts=1))
            assert {int(g.tensors["phase"]) for g in found.values()} == {
                trainings(FedAA(), 2)[1].phase
            }

    def test_labels_are_read_off_the_other_update(self, runs):
        """FedAA with no epochs before the examples: its first update is zero, and what can be read
        is the second.
        """
        folder = api.attack(runs["none"], "label_inference", source="update").path
        row = results(folder, "label_overlap")
        assert (row["value"], row["n"]) == (1, 5)
        assert {int(g.tensors["phase"]) for g in guesses(folder).values()} == {
            trainings(FedAA(), 2)[1].phase
        }
