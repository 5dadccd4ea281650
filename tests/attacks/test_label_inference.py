"""Label inference: what label messages and output biases say, against counts made by hand from the
files.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import torch
from helpers.small_runs import (
    FEW_PROBES,
    Lazily,
    again,
    build,
    by_hand,
    obstacle,
    plugged,
    results,
    units,
)

from attacks import _updates
from attacks._label_shares import Biases, _simplest, fitted, solved, taken
from attacks._noisy_counts import most_likely, of_named
from attacks.label_inference import _many, counted
from leakbench import api, cli
from leakbench.attacking import choices, guessing
from leakbench.attacking.guess import Guess
from leakbench.attacking.replay import Replay
from leakbench.attacking.view import View
from leakbench.base.errors import MethodError, UsageError
from leakbench.federation.task_data import Examples
from leakbench.record.folders import load
from leakbench.record.messages import Message
from leakbench.scoring import score as scoring
from leakbench.scoring.truth import Truth

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = {"model": "mlp", "width": 8, "dim": 8}
QUICK = {
    "epochs": 2,
    "examples": 4,
    "hidden": 8,
    "search_steps": 3,
    "identifier_epochs": 1,
    "tune_steps": 1,
}
UNEVEN = {**SMALL, "split": "dir", "split_param": 0.5}
BIASLESS = '''
"""FedAvg on a network whose last layer has no bias, or keeps it."""

from pydantic import Field
from torch import nn

from leakbench import Defense


class {name}(Defense):
    """FedAvg."""

    def module(self, module, facts):
        if {without}:
            stage = [n for n, _ in module.named_children()][-1]
            old = [m for m in module.modules() if isinstance(m, nn.Linear)][-1]
            module.set_submodule(stage, nn.Linear(old.in_features, old.out_features, bias=False))
        return module

    def keeps(self, name, module):
        return not {without} and name == "head.bias" and getattr(module, "out_features", 0) == 10
'''

COUPLED = '''
"""A loss whose gradient is no mean over the examples of a batch."""

import torch

from leakbench import Defense


class Coupled(Defense):
    """Cross-entropy divided by the spread of the labels in the batch."""

    def loss(self, net, batch, me):
        return super().loss(net, batch, me) / (0.05 + batch.y.double().var(correction=0))
'''


def trained(out, method, task_params=SMALL, rounds=2, **more):
    how = {"task_params": task_params, "device": "cpu", "record": FEW_PROBES, **more}
    return api.train(method, rounds=rounds, out=out, **how)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """FedAA with one class a client, and with uneven shares of several; the methods of the FLea
    paper.
    """
    out = tmp_path_factory.mktemp("runs")
    qua = {**SMALL, "split": "qua", "split_param": 3}
    one_step = {"steps": 1, "epochs": 0, "optimizer": "sgd", "batch": 16}
    return Lazily(
        islands=partial(trained, out, "fedaa", params=QUICK),
        uneven=partial(trained, out, "fedaa", UNEVEN, params={**QUICK, "fraction": 1.0}),
        flea=partial(
            trained,
            out,
            "flea",
            qua,
            6,
            params={"epochs": 1, "fraction": 0.5, "share": 0.1, "subset": "fresh"},
            record="all",
        ),
        fedmix=partial(trained, out, "fedmix", qua, 1, params={"epochs": 1}),
        feddata=partial(trained, out, "feddata", qua, 1, params={"epochs": 1}),
        fedavg=partial(trained, out, "fedavg", qua, 1, params=one_step),
        several=partial(
            trained,
            out,
            "fedavg",
            UNEVEN,
            1,
            params={**one_step, "steps": 0, "epochs": 3, "lr": 0.1, "average": "weighted"},
        ),
        iid=partial(
            trained,
            out,
            "fedavg",
            {**SMALL, "split": "iid", "split_param": 1.0},
            2,
            params=one_step,
        ),
    )


def labels(payload, kind="labels"):
    return Message(3, 1, "client/0", "server", kind, payload)


def attacked(run, **params):
    return api.attack(run, "label_inference", **params).path


def guesses(folder, role="attack", stage="final"):
    return {
        g.guess.unit: g.guess for g in guessing.saved(folder) if (g.role, g.stage) == (role, stage)
    }


def held(run, client):
    """{class: how many} of the client's data, by a loop over its rows."""
    data = Truth(load(run.path)).data
    return Counter(int(data["y"][r]) for r in data["rows"][client, : data["counts"][client]])


def overlap(guessed, true):
    """As multisets: of as many guessed labels as there are true ones, how many are right."""
    n = sum(true.values())
    return sum(min(share * n, true[k]) for k, share in guessed.items()) / n


class TestMessage:
    def test_a_name_is_the_whole_answer_where_a_client_has_one_class(self, runs):
        folder = attacked(runs["islands"])
        for metric in ("label_overlap", "label_set"):
            row = results(folder, metric)
            assert (row["value"], row["control"], row["n"], row["interval"]) == (
                1,
                1,
                10,
                "clopper-pearson",
            )
            assert row["floor"] == pytest.approx(0.1, abs=1e-12)
            assert row["floor_low"] == row["floor_high"]
            assert "control_failed" not in row["flags"]
            assert (row["rung"], row["knowledge"], row["observer"]) == (
                "transcript",
                "facts",
                "server",
            )
        assert all(g.accepted for g in guesses(folder).values())

    def test_names_are_evenly_guessed_and_scored_on_all_of_the_clients_data(self, runs):
        folder = attacked(runs["uneven"])
        found = {m: units(folder, m, round=2) for m in ("label_overlap", "label_set")}
        for client in range(10):
            true, unit = held(runs["uneven"], client), f"client/{client}"
            assert found["label_overlap"][unit] == pytest.approx(
                overlap(dict.fromkeys(true, 1 / len(true)), true)
            )
            assert found["label_set"][unit] == 1
        # The names do not say how often they occur.
        assert results(folder, "label_overlap")["value"] < 0.95

    def test_the_floor_is_what_the_auxiliary_data_say(self, runs):
        folder = attacked(runs["uneven"])
        found = {m: units(folder, m, "floor", round=2) for m in ("label_overlap", "label_set")}
        for client in range(10):  # 30 auxiliary images of each digit
            true, unit = held(runs["uneven"], client), f"client/{client}"
            assert found["label_overlap"][unit] == pytest.approx(
                overlap(dict.fromkeys(range(10), 0.1), true)
            )
            assert found["label_set"][unit] == len(true) / 10

    def test_in_the_control_every_image_has_its_label(self, runs):
        folder, control = attacked(runs["uneven"]), guesses(attacked(runs["uneven"]), "control")
        for client in range(10):
            true = held(runs["uneven"], client)
            sent = {k: min(n, QUICK["examples"]) for k, n in true.items()}
            share = {k: n / sum(sent.values()) for k, n in sent.items()}
            assert control[f"client/{client}"].tensors["shares"].tolist() == pytest.approx(
                [share.get(k, 0.0) for k in range(10)]
            )
            assert units(folder, "label_overlap", "control", 2)[
                f"client/{client}"
            ] == pytest.approx(overlap(share, true))

    def test_each_clients_newest_labels_are_counted(self, runs):
        """FLea draws afresh in each round, so its messages differ; a client that was not chosen has
        said its last word before.
        """
        said = {}
        for m in again(runs["flea"]).transcript:
            if m.kind == "labels" and m.sender != "server":
                said[m.sender] = (m.round, Counter(m.payload.tolist()))
        assert {t for t, _ in said.values()} > {6}
        found = guesses(attacked(runs["flea"]))
        assert found.keys() == said.keys()
        for unit, (_, count) in said.items():
            total = sum(count.values())
            assert found[unit].tensors["shares"].tolist() == pytest.approx(
                [count[k] / total for k in range(10)]
            )

    @pytest.mark.parametrize("method", ["fedmix", "feddata"])
    def test_labels_that_are_sent_once_before_training(self, runs, method):
        """FedMix sends means of one-hot labels, FedData labels."""
        found = guesses(attacked(runs[method]))
        sent = {
            m.sender: m.payload
            for m in again(runs[method]).transcript
            if m.kind == "labels" and m.sender != "server"
        }
        assert found.keys() == sent.keys()
        for unit, labels in sent.items():
            if not len(labels):
                assert found[unit].failed
                continue
            hot = labels if method == "fedmix" else torch.eye(10)[labels]
            assert found[unit].tensors["shares"].tolist() == pytest.approx(
                [float(c) / len(hot) for c in hot.sum(0)]
            )
        row = results(attacked(runs[method]), "label_overlap")
        assert row["low"] > row["floor"]

    def test_all_that_a_client_ever_sent_is_added_up(self, runs):
        said: dict[str, Counter[int]] = {}
        for m in again(runs["flea"]).transcript:
            if m.kind == "labels" and m.sender != "server":
                said.setdefault(m.sender, Counter()).update(m.payload.tolist())
        found = guesses(attacked(runs["flea"], source="messages"))
        assert found.keys() == said.keys()
        for unit, count in said.items():
            total = sum(count.values())
            assert found[unit].tensors["shares"].tolist() == pytest.approx(
                [count[k] / total for k in range(10)]
            )

    def test_noise_on_counts_cancels_over_the_rounds(self, tmp_path):
        """Of FedGen's clients, who say the same in every round; the newest alone hides them."""
        cover = [("clip_noise", {"kinds": ["label_counts"], "clip": 100.0, "noise": 1.0})]
        given = {"fraction": 1.0, "epochs": 1}
        run = trained(tmp_path, "fedgen", UNEVEN, 24, params=given, wrappers=cover)
        newest, all_ = (
            results(attacked(run, source=s), "label_overlap")["value"]
            for s in ("message", "messages")
        )
        assert all_ > newest + 0.1

    def test_classes_of_noise_alone_are_not_named(self, tmp_path):
        cover = [("clip_noise", {"kinds": ["label_counts"]})]
        given = {"fraction": 1.0, "steps": 1, "epochs": 0}
        run = trained(tmp_path, "fedgen", SMALL, 2, params=given, wrappers=cover)
        cut, freed = (
            results(attacked(run, source=s), "label_set")["value"] for s in ("messages", "denoised")
        )
        assert cut < 0.5
        assert freed > 0.8

    def test_where_nothing_is_covered_there_is_no_noise_to_take_off(self, runs):
        why = obstacle(build("label_inference", source="denoised"), again(runs["fedmix"]))
        assert why.startswith("no wrapper covers")

    def test_what_is_sent_once_has_nothing_to_add_up(self, runs):
        for method in ("fedmix", "feddata"):
            why = obstacle(build("label_inference", source="messages"), again(runs[method]))
            assert why == "clients send labels in one round alone: see source=message"

    def test_what_is_no_list_of_labels_says_nothing(self):
        bad = [
            torch.tensor([0.5, 1.0]),
            torch.tensor([3, 10]),
            torch.tensor([-1]),
            torch.zeros(0, dtype=torch.int64),
            torch.zeros(0, 10),
        ]
        bad += [torch.full((2, 10), float("nan")), -torch.ones(2, 10), torch.ones(2, 9)]
        assert [counted(labels(v), 10) for v in bad] == [None] * len(bad)
        assert counted(labels(torch.tensor([9, 0, 9])), 10).tolist() == [1, *[0] * 8, 2]

    def test_noise_on_shares_cancels_in_their_mean(self):
        soft = torch.tensor([[0.5, 0.9, -0.2], [-0.3, 0.9, 0.2]])
        assert counted(labels(soft), 3).tolist() == pytest.approx([0.1, 0.9, 0.0])


class TestUpdate:
    def test_classes_whose_bias_rose_in_proportion(self, runs):
        """Against the transcript, and against the labels of the batch behind each update."""
        run = runs["fedavg"]
        folder = attacked(run, source="update")
        sent = {
            m.sender: m.payload["head.bias"]
            for m in again(run).transcript
            if (m.kind, m.probe) == ("update", None)
        }
        found, truth = guesses(folder), Truth(load(run.path))
        assert found.keys() == sent.keys()
        assert len(found) == 5  # the audited clients
        for unit, bias in sent.items():
            rises = [max(0.0, b) for b in bias.tolist()]
            share = {k: r / sum(rises) for k, r in enumerate(rises)}
            assert found[unit].tensors["shares"].tolist() == pytest.approx(list(share.values()))
            (entry,) = [
                e
                for e in truth.round(1)["client"][unit.removeprefix("client/")].values()
                if "y" in e
            ]
            assert len(entry["y"]) == 16
            assert units(folder, "label_overlap")[unit] == pytest.approx(
                overlap(share, Counter(entry["y"].tolist()))
            )
        row = results(folder, "label_overlap")
        assert row["value"] > row["floor"]
        assert (row["rung"], row["knowledge"]) == ("method", "method|facts")

    def test_a_single_class_is_read_off_the_update_alone(self, runs):
        row = results(attacked(runs["islands"], source="update"), "label_overlap")
        assert (row["value"], row["n"]) == (1, 5)

    def test_the_first_update_of_the_round_is_read(self, runs):
        """FedAA sends two. The second comes from the tuned model, with another loss."""
        run = runs["uneven"]
        found = guesses(attacked(run, source="update"))
        sent = [
            m
            for m in again(run).transcript
            if (m.kind, m.round, m.probe, m.part) == ("update", 2, None, "")
        ]
        first, second = sorted({m.phase for m in sent})
        for m in sent:
            rise = m.payload["head.bias"].double().clamp(min=0)
            same = torch.allclose(found[m.sender].tensors["shares"], rise / rise.sum())
            assert same == (m.phase == first)
            assert int(found[m.sender].tensors["phase"]) == first < second
        answer, n = (
            Truth(load(run.path)).answer(found[sent[0].sender]),
            sum(held(run, int(sent[0].sender.split("/")[1])).values()),
        )
        assert [len(answer.labels(phase)) for phase in (first, second)] == [QUICK["epochs"] * n, n]

    def test_probes_are_no_units(self, runs):
        assert not any(g.probe for g in guesses(attacked(runs["fedavg"], source="update")).values())

    def test_an_update_that_raises_nothing_fails(self, runs):
        attack = build("label_inference", source="update")
        view = View(attack.threat, again(runs["fedavg"]), 1)
        real = [m for m in view._seen if m.kind == "update" and m.probe is None]
        real[0].payload["head.bias"].zero_()
        real[1].payload["head.bias"][3] = float("nan")
        out = attack.run(view, torch.Generator())
        assert [g.failed for g in out[:3]] == [
            "no output bias rose",
            "the update is not finite",
            "",
        ]


class TestCalibrated:
    """What the model predicts anyway, measured on auxiliary data, taken off the rise of the
    biases.
    """

    @pytest.mark.parametrize("k", [2, 7])
    def test_solved_gives_back_what_made_the_rise(self, k):
        rng = torch.Generator().manual_seed(k)
        predicted = torch.rand(k, k, generator=rng, dtype=torch.float64)
        predicted = predicted / predicted.sum(1, keepdim=True)
        for shares in (
            torch.rand(k, generator=rng, dtype=torch.float64),
            torch.eye(k, dtype=torch.float64)[1],
        ):
            true = shares / shares.sum()
            rise = torch.stack(
                [true[c] - sum(true[y] * predicted[y, c] for y in range(k)) for c in range(k)]
            )
            assert torch.allclose(solved(rise, predicted), true, atol=1e-9)

    def test_solved_is_the_best_of_all_shares_where_none_fits(self):
        rng = torch.Generator().manual_seed(3)
        predicted = torch.softmax(3 * torch.randn(3, 3, generator=rng, dtype=torch.float64), 1)
        rise = 0.7 * torch.randn(3, generator=rng, dtype=torch.float64)
        grid = (
            torch.tensor([[i, j, 100 - i - j] for i in range(101) for j in range(101 - i)]).double()
            / 100
        )
        far = (grid - grid @ predicted - rise).square().sum(1)
        found = solved(rise, predicted)
        assert (found.sum(), bool((found >= 0).all())) == (pytest.approx(1), True)
        assert float((found - grid[far.argmin()]).abs().max()) < 0.02

    def test_of_cross_entropy_slopes_are_shares_less_mean_predictions(self, runs):
        recording = again(runs["fedavg"])
        view = View(build("label_inference", source="calibrated").threat, recording, 1)
        aux, net = recording.known("aux_data"), recording.module()
        m = _updates.first(view)[0]
        weights = next(e.payload for e in recording.transcript if e.kind == "model")
        net.load_state_dict(weights)
        # Of one class there is none.
        some = Examples(aux.x[aux.y != 4], aux.y[aux.y != 4]).to("cpu", torch.float32)
        replay = Replay(view, m, torch.Generator(), sizes=(2,))
        biases = Biases((replay,), weights, "head.bias", some, 16, 10)
        found = biases.slopes({})
        assert biases.mixes(found, {})
        for c in range(10):
            of = net.requires_grad_(False)(some.x[some.y == c] if c != 4 else some.x)
            said = of.double().softmax(1).mean(0)
            assert found[c].tolist() == pytest.approx(
                [float(k == c) - float(v) for k, v in enumerate(said)], abs=1e-6
            )

    @pytest.mark.parametrize("name", ["islands", "several", "fedavg"])
    def test_steps_are_those_that_were_taken(self, runs, name):
        run = runs[name]
        view, rounds = (
            View(build("label_inference", source="calibrated").threat, again(run), 1),
            Truth(load(run.path)),
        )
        for m in _updates.first(view, trained=True):
            y = rounds.round(1)["client"][m.sender.removeprefix("client/")][str(m.phase)]["y"]
            n = sum(held(run, int(m.sender.removeprefix("client/"))).values())
            if name == "fedavg":
                assert taken(view, m) == (1, 16) == (1, len(y))
            else:
                epochs, batch = again(run).method.epochs, again(run).method.batch
                assert taken(view, m) == (epochs * -(-n // batch), n)
                assert len(y) == epochs * n

    def test_a_batch_is_read_where_raw_biases_name_too_few(self, runs):
        """Sixteen examples of all classes alike: raw, worse than the prior; calibrated, nearly all
        of them.
        """
        raw, found = (
            results(attacked(runs["iid"], source=s), "label_overlap", "untrained")
            for s in ("update", "calibrated")
        )
        assert raw["value"] < raw["floor"]
        assert found["value"] > 0.9 > found["floor"]
        assert found["low"] > found["floor_high"]
        assert (found["rung"], found["knowledge"], raw["rung"]) == (
            "public",
            "aux_data|method|facts",
            "method",
        )

    def test_after_epochs_it_reads_the_clients_own_model(self, runs):
        raw, found = (
            results(attacked(runs["several"], source=s), "label_overlap")
            for s in ("update", "calibrated")
        )
        assert found["value"] > raw["value"]
        assert found["value"] > found["floor"] + 0.2

    def test_less_than_half_an_example_is_none(self, runs):
        for g in guesses(attacked(runs["iid"], source="calibrated"), stage="untrained").values():
            shares = g.tensors["shares"]
            assert float(shares.sum()) == pytest.approx(1)
            assert bool(((shares == 0) | (shares >= 0.5 / 16)).all())

    def test_what_was_not_kept_or_is_not_finite_fails(self, runs):
        attack = build("label_inference", source="calibrated")
        view = View(attack.threat, again(runs["several"]), 1)
        updates = _updates.first(view)
        updates[0].payload["first.1.weight"].fill_(float("nan"))
        uncounted = ("count", updates[1].sender)
        view._hold([m for m in view._seen if (m.kind, m.sender) != uncounted])
        said = [g.failed for g in attack.run(view, torch.Generator())]
        assert said[:3] == [
            "the update is not finite",
            "how many local steps it took cannot be told",
            "",
        ]
        view._hold([m for m in view._seen if m.kind != "model"])
        assert attack.run(view, torch.Generator())[2].failed == "the model it received was not kept"

    def test_a_single_step_that_is_not_finite_fails_alone(self, runs):
        """There the client's own weights are not looked at, but its bias is."""
        attack = build("label_inference", source="calibrated")
        view = View(attack.threat, again(runs["fedavg"]), 1)
        _updates.first(view)[0].payload["head.bias"][3] = float("nan")
        assert [g.failed for g in attack.run(view, torch.Generator())[:2]] == [
            "the update is not finite",
            "",
        ]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("losses")
    step = {"steps": 1, "epochs": 0, "optimizer": "sgd", "batch": 16, "lr": 0.1}
    step |= {"fraction": 1.0, "average": "weighted"}
    qua = {**SMALL, "split": "qua", "split_param": 3}

    def of(name, task=qua, **more):
        return partial(trained, out, name, task, 2, params={**step, **more})

    return Lazily(
        fedlc=of("fedlc"),
        alike=of("fedlc", {**SMALL, "split": "iid", "split_param": 1.0}),
        fedntd=of("fedntd"),
        fedavg=of("fedavg"),
        fedbr=of("fedbr"),
    )


class TestOtherLosses:
    """The method's own loss is replayed: margins, mixed labels and teachers are no excuse."""

    def overlap(self, run, source="calibrated"):
        row = results(attacked(run, source=source), "label_overlap", "untrained")
        assert "failed_units" not in row["flags"]
        return row["value"]

    def test_margins_of_the_clients_own_counts_are_found_with_the_shares(self, made):
        """And taken for cross-entropy the same updates would name other classes."""
        run = made["fedlc"]
        assert self.overlap(run) > self.overlap(run, "update") + 0.05
        view = View(build("label_inference", source="calibrated").threat, again(run), 1)
        truth, wrong = Truth(load(run.path)), []
        weights = view.messages("model", sender="server", round=1)[-1].payload
        for m in _updates.first(view):
            replay = Replay(view, m, torch.Generator(), sizes=(2,))
            plain = Biases((replay,), weights, "head.bias", view.know("aux_data"), 16, 10)
            none = {"state/margin": torch.zeros(10)}
            shares = fitted(m.payload["head.bias"].double() / 0.1, plain.slopes(none))[0]
            y = truth.round(1)["client"][m.sender.removeprefix("client/")][str(m.phase)]["y"]
            wrong.append(overlap(dict(enumerate(shares.tolist())), Counter(y.tolist())))
        assert self.overlap(run) > sum(wrong) / len(wrong) + 0.1

    def test_margins_where_all_clients_have_all_classes(self, made):
        row = results(attacked(made["alike"], source="calibrated"), "label_overlap", "untrained")
        assert row["value"] > row["floor"] + 0.1

    def test_a_teacher_says_nothing_at_the_weights_that_it_has_itself(self, made):
        plain = self.overlap(made["fedavg"])
        assert self.overlap(made["fedntd"]) == pytest.approx(plain, abs=1e-6)
        assert plain > 0.95

    @pytest.mark.slow
    def test_targets_that_are_mixed_are_taken_off_again(self, made):
        assert self.overlap(made["fedbr"]) > 0.9

    def test_of_what_explains_the_rise_the_fewest_classes(self):
        rise = torch.tensor([0.4, -0.4, 0.0]).double()
        few, many = torch.tensor([0.6, 0.4, 0.0]).double(), torch.tensor([0.4, 0.3, 0.3]).double()
        tried = [(many, 0.0), (few, 0.01), (torch.tensor([1.0, 0.0, 0.0]).double(), 0.3)]
        assert _simplest(tried, rise, 16) is few
        assert _simplest([(many, 0.2), (few, 0.3)], rise, 16) is many  # none explains it

    def test_a_bias_that_does_not_move_by_the_mean_over_a_batch_is_no_guess(self, tmp_path):
        with plugged("defenses", tmp_path, coupled=COUPLED):
            run = trained(tmp_path, "coupled", rounds=1)
            attack = build("label_inference", source="calibrated")
            view = View(attack.threat, again(run), 1)
            said = {g.failed for g in attack.run(view, torch.Generator())}
            assert said == {
                "its output bias does not move by the mean over the examples of a batch"
            }
            row = results(attacked(run, source="calibrated"), "label_overlap")
            assert "failed_units" in row["flags"]


class TestWhereItFits:
    def test_reasons(self, runs, tmp_path):
        def why(run, source):
            return obstacle(build("label_inference", source=source), again(run))

        assert why(runs["fedavg"], "message") == "clients send the server no labels"
        assert (
            not why(runs["islands"], "message")
            + why(runs["islands"], "update")
            + why(runs["flea"], "update")
        )
        # As wide as there are classes, but no logits.
        hide = trained(tmp_path, "fedhide", {**SMALL, "dim": 10}, rounds=1)
        assert (
            why(hide, "update")
            == "the network does not end in a linear layer of class logits, so no output bias"
            " stands for a class"
        )
        summed = trained(tmp_path, "fedavg", rounds=1, wrappers=[("secure_sum", {})])
        assert (
            why(summed, "update")
            == "the server receives only the sum of what clients send as update"
        )
        with plugged(
            "defenses",
            tmp_path,
            bare=BIASLESS.format(name="Bare", without=True),
            kept=BIASLESS.format(name="Kept", without=False),
        ):
            for method in ("bare", "kept"):
                run = trained(tmp_path, method, rounds=1)
                assert (
                    why(run, "update")
                    == "the last layer (head) shares no bias that would rise for the classes in a"
                    " batch"
                )
        with pytest.raises(UsageError, match="clients send the server no labels"):
            api.attack(runs["fedavg"], "label_inference")

    def test_what_calibration_needs(self, runs, tmp_path):
        def why(run):
            return obstacle(build("label_inference", source="calibrated"), again(run))

        assert not why(runs["fedavg"]) + why(runs["islands"]) + why(runs["several"])
        plain = trained(
            tmp_path, "fedavg", rounds=1, params={"steps": 0, "epochs": 1, "average": "plain"}
        )
        assert why(plain) == "clients send no count, so how many steps they take cannot be told"
        assert not obstacle(build("label_inference", source="update"), again(plain))
        adam = trained(tmp_path, "fedavg", rounds=1, params={"steps": 1, "optimizer": "adam"})
        assert (
            why(adam)
            == "the update was made by Adam, of which the bias does not say how far each class"
            " was off"
        )
        normed = trained(tmp_path, "fedbn", rounds=1, params={"epochs": 1})
        assert (
            why(normed)
            == "a part of the network never leaves the client, so what it predicts cannot be told"
        )
        assert why(trained(tmp_path, "fedhide", {**SMALL, "dim": 10}, rounds=1)).startswith(
            "the network does not end in a linear layer"
        )

    def test_all_ways_are_tried_where_none_is_named(self, runs):
        sources = [
            c.attack.source
            for c in choices.planned(again(runs["islands"]))
            if c.name == "label_inference"
        ]
        assert sources == ["message", "messages", "update", "moved", "calibrated", "pooled"]

    def test_show_says_that_nothing_is_inferred(self, capsys):
        assert cli.run(["show", "label_inference"]) == 0
        assert "the labels are read straight off the message" in capsys.readouterr().out


class TestScores:
    def score(self, run, change):
        """The first client's guess changed by hand."""
        recording, attack = again(run), build("label_inference", source="message")
        made = attack(View(attack.threat, recording, 2))
        blind = attack(View(attack.floor_threat, recording, 2), blind=True)
        folder = by_hand(
            recording, "label_inference", attack, [change(g) for g in made], blind, made
        )
        return scoring.score(recording, "label_inference", attack), folder

    def test_another_clients_labels_score_nothing(self, runs, tmp_path):
        def other(g):
            return Guess(g.unit, g.round, {"shares": g.tensors["shares"].roll(1)})

        folder, _ = self.score(trained(tmp_path, "fedaa", params=QUICK), other)
        assert (
            results(folder, "label_overlap")["value"] == results(folder, "label_set")["value"] == 0
        )

    @pytest.mark.parametrize(
        ("shares", "why"),
        [
            (torch.full((10,), 0.2), "sum of 2"),
            (torch.tensor([1.5, -0.5, *[0.0] * 8]), "must be 0 or more"),
            (torch.tensor([1.0]), "the shares of at least 2 classes, got 1"),
        ],
        ids=["too much", "negative", "too few"],
    )
    def test_what_is_no_shares_is_refused(self, runs, tmp_path, shares, why):
        with pytest.raises(MethodError, match=why):
            self.score(
                trained(tmp_path, "fedaa", params=QUICK),
                lambda g: Guess(g.unit, g.round, {"shares": shares.double()}),
            )


class TestNamesAlone:
    """Sharing label names leaks nothing, says FedAA. What they tell in each split:
    benchmarks/shared_labels.py.
    """

    @pytest.fixture
    def names(self, monkeypatch):
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("shared_labels")
        del sys.modules["shared_labels"]

    def test_by_hand(self, names):
        held = [torch.tensor(y) for y in ([0, 0, 0, 1], [1, 0], [2], [2, 3, 2, 3])]
        found = names.told(held, 4)
        # {0, 1} evenly against three to one: a half and a quarter.
        assert found.overlap == pytest.approx((0.75 + 1 + 1 + 1) / 4)
        assert found.floor == pytest.approx((0.5 + 0.5 + 0.25 + 0.5) / 4)
        assert (found.names, found.unique, found.remain) == (7 / 4, 2 / 4, (2 + 2 + 1 + 1) / 4)

    def test_one_class_a_client_is_named_and_told_from_everybody_else(self, names):
        found = names.of_split("class", 1, 10)
        assert (found.names, found.overlap, found.unique, found.remain) == (1, 1, 1, 1)

    def test_the_attack_says_the_same(self, names, runs):
        found = names.of_split("dir", UNEVEN["split_param"], 10)
        row = results(attacked(runs["uneven"]), "label_overlap")
        assert (row["value"], row["floor"]) == pytest.approx((found.overlap, found.floor))

    def test_only_where_all_clients_hold_all_classes_do_names_say_nothing(self, names):
        rows = {(s, p): names.of_split(s, p, 10) for s, p in names.SPLITS}
        assert rows["iid", 1].overlap == pytest.approx(rows["iid", 1].floor)
        assert (rows["iid", 1].unique, rows["iid", 1].remain) == (0, 10)
        assert all(
            r.overlap > r.floor + 0.1 and r.unique > 0.5
            for split, r in rows.items()
            if split != ("iid", 1)
        )

    def test_the_table_has_all_splits_and_says_where_it_is_from(self, names, tmp_path, capsys):
        names.main(tmp_path / "table.md")
        said, text = capsys.readouterr().out, (tmp_path / "table.md").read_text(encoding="utf-8")
        assert said.count("\n") == 2 + 2 * len(names.SPLITS) - 1
        assert said in text
        assert "python benchmarks/shared_labels.py" in text


class TestNoisyCounts:
    """Noise on counts is told by those that it made negative, and taken off."""

    @staticmethod
    def overlap(guess, true):
        return float(torch.minimum(guess / guess.sum(), true / true.sum()).sum())

    def test_counts_without_a_negative_one_stay(self):
        counts = torch.tensor([3.0, 0.0, 1e-9, 5.0], dtype=torch.float64)
        assert torch.equal(most_likely(counts), counts)
        assert torch.equal(most_likely(-counts), torch.zeros(4, dtype=torch.float64))

    @pytest.mark.parametrize(("classes", "held"), [(10, 1), (10, 3), (100, 2)])
    def test_classes_that_are_not_there_are_left_out(self, classes, held):
        rng, named, plain = torch.Generator().manual_seed(0), [], []
        for _ in range(40):
            true = torch.zeros(classes, dtype=torch.float64)
            true[:held] = 1 / held**0.5
            noisy = true + 0.1 * torch.randn(classes, generator=rng, dtype=torch.float64)
            found = most_likely(noisy)
            there, said = true > 0, found > 0
            named.append(int((there & said).sum()) / int((there | said).sum()))
            plain.append(self.overlap(found, true) - self.overlap(noisy.clamp(min=0), true))
        assert sum(named) / len(named) > 0.75  # 0.2, 0.5 and 0.04 of those cut off at 0
        assert sum(plain) / len(plain) > 0.02

    @pytest.mark.parametrize(
        "counts",
        [
            [-5.0, 1e-7, -3.0],
            [100.0, -1e-170, 40.0, 0.0],
            [1e308, -1e308, 1e300],
            [1e-200, -1e-201, 1e-210],
            [1.0, -1000.0, 1000.0, 3.0, 2.0],
        ],
    )
    def test_whatever_the_scale_it_is_a_number_and_names_no_negative_one(self, counts):
        counts = torch.tensor(counts, dtype=torch.float64)
        found = most_likely(counts)
        assert bool(found.isfinite().all())
        assert bool(found.any())
        assert not bool(found[counts < -1e-3 * counts.max()].any())

    def test_where_all_classes_are_there_it_errs_hardly_more_than_cutting_off_at_0(self):
        rng, gained = torch.Generator().manual_seed(1), []
        for level in (0.1, 0.2):
            for _ in range(30):
                true = torch.rand(10, generator=rng, dtype=torch.float64) + 0.1
                true /= true.norm()
                noisy = true + level * torch.randn(10, generator=rng, dtype=torch.float64)
                found = self.overlap(most_likely(noisy), true)
                gained.append(found - self.overlap(noisy.clamp(min=0), true))
        assert sum(gained) / len(gained) > -0.03

    def test_noise_alone_gives_no_class_away_and_no_failure(self):
        rng = torch.Generator().manual_seed(2)
        found = most_likely(torch.randn(10, generator=rng, dtype=torch.float64))
        assert bool(found.isfinite().all())
        assert bool((found >= 0).all())
        assert bool(found.any())


def test_names_stand_for_as_many_examples_as_the_statistics_beside_them_say():
    names = Message(3, 0, "client/1", "server", "labels", torch.tensor([2, 5]))
    for many in ([3, 1], [0.03, 0.01]):  # as they are, and clipped
        told = counted(_many(names, {"count": torch.tensor(many)}, 10), 10)
        assert torch.allclose(told[[2, 5]] / told.sum(), torch.tensor([0.75, 0.25]).double())
    for other in (
        None,
        torch.ones(2),
        {"covariance": torch.ones(2)},
        {"count": torch.tensor([3, 1, 1])},
        {"count": torch.tensor([-1, 0])},
        {"count": torch.tensor([torch.nan, 1.0])},
    ):
        assert _many(names, other, 10) is names
    assert _many(names, {"count": torch.tensor([3, 1])}, 4) is names  # no such class
    shares = Message(3, 0, "client/1", "server", "labels", torch.ones(2, 10))
    assert _many(shares, {"count": torch.tensor([3, 1])}, 10) is shares


@pytest.mark.parametrize("noise", [0.3, 3.0, 300.0])
def test_noise_on_counts_of_named_classes_denies_none_and_errs_less_than_it_is(noise):
    raw = shrunk = even = 0.0
    for seed in range(30):
        dice = torch.Generator().manual_seed(seed)
        true = torch.randint(1, 20, (6,), generator=dice).double()
        seen = true + noise * torch.randn(6, generator=dice, dtype=torch.float64)
        found = of_named(seen)
        assert bool((found > 0).all())
        true = true / true.sum()
        cut = seen.clamp(min=1e-9)
        raw += float(torch.minimum(cut / cut.sum(), true).sum())
        shrunk += float(torch.minimum(found / found.sum(), true).sum())
        even += float(torch.minimum(torch.full_like(true, 1 / 6), true).sum())
    assert shrunk >= raw - 0.3
    assert shrunk > even if noise < 1 else shrunk > 0.8 * even
