"""Attacks that nobody gave settings fall to what a run kept: BatchNorm's nets have no probes."""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import TASK, again, plugged, trained
from torch import nn
from torch.nn.functional import cross_entropy

from leakbench import api
from leakbench.attacking import choices
from leakbench.attacking.transcript import Transcript
from leakbench.base.errors import MethodError, UsageError
from leakbench.base.files import read_sealed

PLUGIN = '''
"""Digits, read by a network with BatchNorm."""

from torch import nn

from leakbench.models import Stages
from leakbench.tasks.digits import Digits


class NormedDigits(Digits):
    """Digits."""

    def module(self, facts):
        first = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Tanh())
        return Stages({"first": first, "head": nn.Linear(16, facts.dim)})
'''
HOW = {"task": "normed-digits", "task_params": TASK, "device": "cpu", "rounds": 10}
QUICK = {"steps": 2, "restarts": 1, "targets": 2}


def test_of_a_run_without_probes_the_real_updates_are_attacked(tmp_path):
    """It said that no message of ten kinds was kept, though updates were."""
    with plugged("leakbench.tasks", tmp_path, normed_digits=PLUGIN):
        run = api.train("fedavg", out=tmp_path / "runs", params={"batch": 4}, **HOW)
        planned = [c for c in choices.planned(again(run)) if c.name == "gradient_inversion"]
        assert {c.attack.message for c in planned} == {"update"}
        assert [c.attack.attacker for c in planned] == ["naive", "joint", "joint"]
        assert "gradient_inversion" in dict(choices.Fits().fitting(run))
        found = api.attack(run, "gradient_inversion", **QUICK)
        assert read_sealed(found.path / "attack.json")["params"]["message"] == "update"
        assert api.score(run, "gradient_inversion", **QUICK).path == found.path
        with pytest.raises(UsageError, match=r"no probe was kept .*: message=update reads"):
            api.attack(run, "gradient_inversion", message="probe", **QUICK)


def test_where_there_are_probes_nothing_changes(tmp_path):
    run = trained(tmp_path, "fedavg")
    planned = [c for c in choices.planned(again(run)) if c.name == "gradient_inversion"]
    assert {c.attack.message for c in planned} == {"probe"}


def test_a_transcript_has_no_probes():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).double()
    seen = Transcript(net, cross_entropy, shape=(1, 2, 2))
    seen.add("update", [torch.full_like(p, 0.1) for p in net.parameters()], labels=[1])
    assert len(seen.attack("gradient_inversion", steps=1, restarts=1)) == 1


def test_one_example_in_training_is_refused_in_a_sentence(tmp_path):
    with (
        plugged("leakbench.tasks", tmp_path, normed_digits=PLUGIN),
        pytest.raises(
            MethodError, match="a batch of one example has no statistics for the network"
        ),
    ):
        api.train("fedavg", out=tmp_path / "runs", params={"batch": 1}, **HOW)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.BatchNorm1d(3)).double().train()
    seen = Transcript(net, cross_entropy, shape=(1, 2, 2))
    seen.add("update", [torch.full_like(p, 0.1) for p in net.parameters()], labels=[1])
    with pytest.raises(MethodError, match="give every batch two examples or more"):
        seen.attack("gradient_inversion", steps=1)
