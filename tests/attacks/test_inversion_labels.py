"""Labels that nobody gave: read off the last layer, used by gradient inversion, and scored."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from helpers.small_runs import Lazily, again, biasless, build, obstacle, plugged, results, units
from torch import nn

from attacks import _updates
from attacks._inversion import labels
from attacks._inversion.labels import Layer, settled, vectors
from leakbench import api
from leakbench.attacking import guessing
from leakbench.attacking.guess import Guess
from leakbench.attacking.replay import Replay
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import View
from leakbench.base.errors import MethodError, ThreatViolation
from leakbench.metrics import LABEL_ACCURACY
from leakbench.record.folders import load
from leakbench.scoring import KnownAnswer
from leakbench.scoring.truth import Truth

IID = {"model": "mlp", "width": 16, "split": "iid", "clients": 20}
FIELDS = {
    "at": ["untrained"],
    "message": "update",
    "engine": "lbfgs",
    "steps": 12,
    "restarts": 1,
    "targets": 3,
}


def trained(out, method="fedavg", task_params=IID, **params):
    fields = {"optimizer": "sgd", "steps": 1, "batch": 8, "lr": 0.1, **params}
    return api.train(
        method,
        task="digits",
        task_params=task_params,
        rounds=2,
        out=out,
        device="cpu",
        dtype="float64",
        params=fields,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    one = {"steps": 0, "epochs": 0}
    return Lazily(
        step=partial(trained, out),
        epochs=partial(trained, out, **{**one, "epochs": 2, "batch": 64, "lr": 0.02}),
        adam=partial(trained, out, optimizer="adam", lr=1e-3),
        hidden=partial(
            api.train,
            "fedgn",
            task="digits",
            task_params={"model": "mlp", "width": 8, "dim": 8},
            rounds=2,
            out=out,
            device="cpu",
        ),
    )


def view_of(run, t=1, **fields):
    attack = build("gradient_inversion", **{**FIELDS, "labels": "inferred", **fields})
    return View(attack.threat, again(run), t), attack


def true_labels(run, b):
    """What a client trained on, each example once."""
    m = b.message
    answer = Truth(load(run.path)).answer(Guess(m.sender, m.round))
    return answer.classes(Guess(m.sender, m.round, {"phase": torch.tensor(m.phase)}))[0]


def share(found, true):
    """Of the labels that are right, as multisets."""
    both = torch.minimum(found.bincount(minlength=10), true.bincount(minlength=10))
    return float(both.sum()) / len(true)


def batches(classes, size, *, seed, hidden=12):
    """(head, its gradient's rows and bias, y) of a batch through a random ReLU layer."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.rand(size, 30, generator=rng, dtype=torch.float64)
    first = torch.randn(hidden, 30, generator=rng, dtype=torch.float64) / 30**0.5
    head = nn.Linear(hidden, classes).double()
    for p in head.parameters():
        p.data = torch.randn(p.shape, generator=rng, dtype=torch.float64) / hidden**0.5
    y = torch.randint(classes, (size,), generator=rng)
    nn.functional.cross_entropy(head((x @ first.T).relu()), y).backward()
    return head, head.weight.grad, head.bias.grad, y


class TestInferred:
    @pytest.mark.parametrize(("classes", "size"), [(100, 1), (100, 8), (10, 1), (10, 8), (10, 16)])
    def test_counts_of_an_untrained_head_are_nearly_all_right(self, classes, size):
        """Beside the rise of the biases alone, which finds too few classes where there are few."""
        found, raw = [], []
        for seed in range(6):
            head, rows, bias, y = batches(classes, size, seed=seed)
            layer = Layer(head.weight.detach(), head.bias.detach())
            shares = settled(rows, bias, layer, size)
            assert float(shares.sum()) == pytest.approx(1)
            rise = (-bias).clamp(min=0)
            for out, s in ((found, shares), (raw, rise / rise.sum())):
                counts = vectors(s, size, 1)[0].bincount(minlength=classes)
                out.append(float(torch.minimum(counts, y.bincount(minlength=classes)).sum()) / size)
        assert sum(found) / len(found) > 0.97
        assert sum(found) >= sum(raw)
        if (classes, size) == (10, 16):
            assert sum(raw) / len(raw) < 0.9

    def test_vectors_are_the_nearest_counts_and_then_one_label_exchanged(self):
        shares = torch.tensor([0.0, 0.55, 0.24, 0.21])
        best, *others = vectors(shares, 4, 4)
        assert best.tolist() == [1, 1, 2, 3]
        assert len(others) == 3
        counts = [v.bincount(minlength=4) for v in (best, *others)]
        far = [float((c - 4 * shares).square().sum()) for c in counts]
        assert far == sorted(far)
        assert all(int((c - counts[0]).abs().sum()) == 2 for c in counts[1:])
        assert vectors(torch.tensor([0.0, 1.0]), 1, 1)[0].tolist() == [1]

    @pytest.mark.parametrize(("name", "least"), [("step", 0.97), ("epochs", 0.8), ("adam", 0.4)])
    def test_of_recorded_updates(self, runs, name, least):
        """One step of eight of ten classes; two epochs of 64 and more; the signs of Adam."""
        run = runs[name]
        view, attack = view_of(run)
        right = []
        for b in _updates.shortest(view, probe=False, most=4):
            assert b.labels is None
            (found,) = labels.behind(view, b, attack, torch.Generator().manual_seed(0))
            true = true_labels(run, b)
            assert len(found) == len(true) == b.examples
            right.append(share(found, true))
        assert sum(right) / len(right) > least

    def test_without_a_bias_the_rows_tell(self, tmp_path):
        with plugged("defenses", tmp_path, biasless=biasless("fedavg.FedAvg", "Biasless")):
            run = trained(tmp_path / "runs", "biasless", {**IID, "model": "cnn", "width": 2})
            view, attack = view_of(run)
            assert not obstacle(attack, again(run))
            right = []
            for b in _updates.shortest(view, probe=False, most=4):
                (found,) = labels.behind(view, b, attack, torch.Generator().manual_seed(0))
                right.append(share(found, true_labels(run, b)))
            assert sum(right) / len(right) > 0.9


class TestAttack:
    def test_knows_how_many_there_are_and_not_which(self, runs):
        view, attack = view_of(runs["step"])
        assert "labels" not in attack.threat.knows + attack.floor_threat.knows
        with pytest.raises(ThreatViolation, match="'labels' is not in the declared knowledge"):
            view.know("labels")
        assert {*view.know("sizes").values()} >= {8}
        given = build("gradient_inversion", **FIELDS)
        assert "labels" in given.threat.knows

    def test_inferred_and_given_stand_side_by_side(self, runs):
        rows = {}
        for how in ("given", "inferred", "solved"):
            folder = api.attack(runs["step"], "gradient_inversion", **FIELDS, labels=how).path
            rows[how] = results(folder, "psnr", "untrained")
            knows = rows[how]["knowledge"].split("|")
            assert ("labels" in knows, "oracle_labels" in rows[how]["flags"]) == (
                (how == "given"),
                (how == "given"),
            )
            if how == "given":
                names = {r["metric"] for r in api.Results(folder).rows}
                assert "label_accuracy" not in names
                continue
            right = results(folder, "label_accuracy", "untrained")
            assert right["value"] > 0.97 > right["floor"] + 0.1
            assert right["n"] == 3 * 8
        assert rows["inferred"]["value"] == pytest.approx(rows["given"]["value"], abs=1.5)

    def test_the_floor_is_told_as_much(self, runs):
        """The mean of all auxiliary images, and labels as frequent as there."""
        _, attack = view_of(runs["step"])
        floor = View(attack.floor_threat, again(runs["step"]), 1)
        aux = floor.know("aux_data")
        for g in attack.blind(floor, torch.Generator().manual_seed(0)):
            for image in g.tensors["x"]:
                torch.testing.assert_close(image, aux.x.mean(0))
            assert len(g.tensors["labels"]) == len(g.tensors["x"]) == 8
            assert len(g.tensors["labels"].unique()) >= 7

    def test_a_loss_without_labels_needs_none(self, runs):
        fields = {**FIELDS, "message": "probe", "labels": "inferred", "targets": 2}
        folder = api.attack(runs["hidden"], "gradient_inversion", **fields).path
        for g in guessing.saved(folder):
            assert "labels" not in g.guess.tensors
        assert results(folder, "psnr", "untrained")["n"] == 2

    def test_a_loss_that_reads_labels_of_an_embedding_is_refused(self, runs, monkeypatch):
        view, attack = view_of(runs["hidden"], message="probe")
        (b, *_) = _updates.shortest(view, probe=True, most=1)
        method = type(view.loss_method())
        loss = getattr(method, b.loss)
        monkeypatch.setattr(
            method, b.loss, lambda self, net, b, me: loss(self, net, b, me) + b.y.sum()
        )
        with pytest.raises(MethodError, match="use labels=given"):
            labels.behind(view, b, attack, torch.Generator().manual_seed(0))

    def test_what_cannot_be_inferred_is_said(self, runs, tmp_path):
        kept = '''
"""FedAvg that keeps its last layer."""

from torch import nn

from leakbench import Defense


class Kept(Defense):
    """FedAvg."""

    def keeps(self, name, module):
        return getattr(module, "out_features", 0) == 10
'''
        with plugged("defenses", tmp_path, kept=kept):
            run = trained(tmp_path / "runs", "kept")
            why = obstacle(build("gradient_inversion", **FIELDS, labels="inferred"), again(run))
            assert why == "the last layer (head) is not shared, so labels cannot be inferred"


class TestScore:
    @pytest.mark.parametrize(
        ("found", "right"),
        [
            ([1, 2, 2], [1, 1, 0]),
            ([2, 2, 2], [1, 0, 0]),
            ([0, 0, 0], [0, 0, 0]),
            ([1, 1, 2], [1, 1, 1]),
        ],
    )
    def test_counts_each_label_once(self, found, right):
        answer = KnownAnswer(y=torch.tensor([2, 1, 1]))
        scores = LABEL_ACCURACY.score(Guess("client/0", 1, {"labels": torch.tensor(found)}), answer)
        assert [s.value for s in scores] == right
        assert len({s.unit for s in scores}) == 3

    def test_an_image_guessed_in_each_epoch_counts_once(self):
        answer = KnownAnswer(y=torch.tensor([2, 1]))
        guess = Guess("client/0", 1, {"labels": torch.tensor([1, 1, 2, 3])})
        assert [s.value for s in LABEL_ACCURACY.score(guess, answer)] == [0, 1]

    def test_shares_are_no_labels(self):
        guess = Guess("client/0", 1, {"labels": torch.tensor([0.5, 0.5])})
        with pytest.raises(ValueError, match="labels must be integers"):
            LABEL_ACCURACY.score(guess, KnownAnswer(y=torch.tensor([2, 1])))

    def test_units_are_the_images_once(self, runs):
        folder = api.attack(
            runs["epochs"],
            "gradient_inversion",
            **{**FIELDS, "steps": 3, "targets": 2},
            labels="inferred",
        ).path
        assert units(folder, "label_accuracy").keys() == units(folder, "mse").keys()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("losses")
    names = ("fedavg", "fedprox", "feddecorr", "fedntd", "fedlc", "fedmix", "fedbr")
    given = {"epochs": 0, "fraction": 1.0}
    return Lazily(**{n: partial(trained, out, n, **given) for n in names})


class TestOtherLosses:
    @pytest.mark.parametrize(
        ("name", "same"),
        [
            *(("fedavg", True), ("fedprox", True), ("feddecorr", True), ("fedntd", True)),
            *(("fedlc", False), ("fedmix", False), ("fedbr", False)),
        ],
    )
    def test_what_is_cross_entropy_at_the_last_layer_is_told_from_what_is_not(
        self, made, name, same
    ):
        view, _ = view_of(made[name])
        m = view.messages("update", round=1)[0]
        rng = torch.Generator().manual_seed(0)
        replay = Replay(view, m, rng, sizes=(8,), dtype=torch.float64)
        times = labels.scale(replay, rng)
        assert (times is not None) is same
        assert times is None or times == pytest.approx(1.0, abs=1e-3)

    @pytest.mark.parametrize(("reduction", "times"), [("mean", 1.0), ("sum", 8.0)])
    @pytest.mark.parametrize("weight", [1.0, 0.3])
    def test_a_multiple_of_cross_entropy_is_measured(self, reduction, times, weight):
        """Of a sum over the examples, too: else its shares are those of another batch."""
        rng = torch.Generator().manual_seed(2)
        net = nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 10))
        for p in net.parameters():
            p.data = torch.randn(p.shape, generator=rng) / p[0].numel() ** 0.5
        x, y = torch.rand(8, 1, 4, 4, generator=rng), torch.tensor([1, 1, 1, 4, 4, 7, 9, 9])

        def loss(out, y):
            return weight * nn.functional.cross_entropy(out, y, reduction=reduction)

        slopes = torch.autograd.grad(loss(net(x), y), list(net.parameters()))
        said = Transcript(net, loss, shape=(1, 4, 4), batch=8, lr=0.1)
        said.add("update", [-0.1 * g for g in slopes], sender="client/0", labels=y)
        attack = build("gradient_inversion", message="update", labels="inferred")
        view = View(attack.threat, said, 1)
        (b,) = _updates.shortest(view, probe=False, most=1)
        replay = Replay(view, b.message, rng, rows=b.rows, phase=b.loss, dtype=torch.float64)
        assert labels.scale(replay, rng) == pytest.approx(weight * times, rel=1e-3)
        (found,) = labels.behind(view, b, attack, torch.Generator().manual_seed(0))
        assert sorted(found.tolist()) == sorted(y.tolist())

    def test_of_another_loss_the_raised_classes_come_first(self, made):
        view, attack = view_of(made["fedlc"])
        for b in _updates.shortest(view, probe=True, most=1)[:4]:
            found = labels.behind(view, b, attack, torch.Generator().manual_seed(0))
            assert [y.tolist() for y in found] == [true_probe(made["fedlc"], b).tolist()]


def true_probe(run, b):
    """The label of the one image behind a probe."""
    m = b.message
    entry = Truth(load(run.path)).round(1)["client"][m.sender.removeprefix("client/")]
    return entry[str(m.phase)]["probe"][str(m.probe)]["y"]
