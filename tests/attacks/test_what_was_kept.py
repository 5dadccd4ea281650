"""Attacks that nobody gave settings fall to what a run kept: BatchNorm's nets have no probes."""

from __future__ import annotations

import pytest
import torch
from helpers.own_loops import loop, watched
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
        with pytest.raises(UsageError, match=r"no probe was kept .*: use message=update"):
            api.attack(run, "gradient_inversion", message="probe", **QUICK)


@pytest.mark.parametrize("message", ["update", "probe"])
def test_what_would_be_refused_as_well_is_not_recommended(tmp_path, message):
    """Its updates are of ten steps, and an outside record has no probe."""
    sgd = {"lr": 0.1, "batch": 1, "epochs": 1}
    run = watched(tmp_path, lambda seen: loop(seen, 1, 1), sgd=sgd).run
    said = {"update": "and 8 at most are replayed.", "probe": "there is no such update)."}
    with pytest.raises(UsageError) as error:
        api.attack(run, "gradient_inversion", message=message, **QUICK)
    assert str(error.value).endswith(said[message])


def test_what_is_recommended_fits(tmp_path):
    run = watched(tmp_path, lambda seen: loop(seen, 1, 1)).run  # its updates are of three steps
    with pytest.raises(UsageError) as error:
        api.attack(run, "gradient_inversion", prior="principal", **QUICK)
    first = "; what fits is gradient_inversion(attacker=naive, message=update) or"
    assert first in str(error.value)
    with pytest.raises(UsageError, match=r"no such update\): use message=update\.$"):
        api.attack(run, "gradient_inversion", message="probe", **QUICK)
    assert api.attack(run, "gradient_inversion", attacker="naive", message="update", **QUICK)


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
