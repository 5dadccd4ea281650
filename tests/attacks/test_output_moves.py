"""Which outputs moved: the set of a client's classes, where a method leaves those it lacks out."""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import FEW_PROBES, again, biasless, obstacle, plugged, results

from attacks._output_moves import moved
from attacks.label_inference import LabelInference
from leakbench import api

SMALL = {"model": "mlp", "width": 8, "dim": 8, "split": "qua", "split_param": 3}
EPOCHS = {"steps": 0, "epochs": 2, "average": "weighted", "fraction": 1.0}


def train(out, method, **params):
    return api.train(
        method,
        task="digits",
        task_params=SMALL,
        params={**EPOCHS, **params},
        rounds=1,
        out=out,
        device="cpu",
        record=FEW_PROBES,
    )


def read(run, metric="label_set", source="moved"):
    return results(api.attack(run, "label_inference", source=source).path, metric)


class TestMoved:
    def update(self, lengths):
        return {
            "head.weight": torch.tensor(lengths)[:, None] * torch.ones(1, 4),
            "head.bias": torch.tensor(lengths),
            "other.bias": torch.ones(len(lengths)),
        }

    def test_the_widest_gap_parts_them(self):
        found = moved(self.update([1.0, 1e-4, 0.2, 1e-5, 0.0]), "head", 5)
        assert found.tolist() == [0.5, 0, 0.5, 0, 0]

    def test_without_a_gap_all_moved_but_those_that_stood_still(self):
        assert moved(self.update([1.0, 0.1, 0.01]), "head", 3).tolist() == [1 / 3] * 3
        assert moved(self.update([1.0, 0.1, 0.0]), "head", 3).tolist() == [0.5, 0.5, 0]

    @pytest.mark.parametrize("at", [float("nan"), float("inf"), 0.0])
    def test_nothing_is_told_of_no_numbers(self, at):
        assert not moved(self.update([at, 0.0]), "head", 2).any()

    def test_a_layer_that_was_not_sent_says_nothing(self):
        assert not moved({"other.bias": torch.ones(3)}, "head", 3).any()


class TestOnRuns:
    @pytest.mark.parametrize("optimizer", ["sgd", "adam"])
    def test_fedlc_tells_exactly_which_classes_a_client_has(self, tmp_path, optimizer):
        """Its update says so whatever rose, and the raw rise does not find it."""
        run = train(tmp_path, "fedlc", optimizer=optimizer)
        row = read(run)
        assert row["value"] == 1
        assert row["value"] > row["floor"]
        assert read(run, source="update")["value"] < 0.8

    def test_without_a_bias_the_weights_say_it(self, tmp_path):
        with plugged("defenses", tmp_path, bare=biasless("fedlc.FedLC", "Bare")):
            run = train(tmp_path, "bare")
            assert read(run)["value"] == 1

    def test_cross_entropy_moves_every_output(self, tmp_path):
        row = read(train(tmp_path, "fedavg"))
        assert row["value"] == pytest.approx(0.3)

    def test_where_nothing_of_the_layer_is_sent(self, tmp_path):
        run = train(tmp_path, "fedproto")
        assert obstacle(LabelInference(source="moved"), again(run))
