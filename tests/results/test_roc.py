"""Members named, by false alarms: by hand, and of a run with its page."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.small_runs import trained

from leakbench import api
from leakbench.record.folders import load
from leakbench.record.policy import Policy
from leakbench.reporting.write import read_tables
from leakbench.results.roc import _named
from reports._chart.roc import at

HELD = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10, "split": "iid", "held_out": 20}


def test_at_no_more_false_alarms_than_that():
    score = np.array([9.0, 8.0, 7.0, 1.0, 8.5, 6.0, 5.0, 4.0])
    member = np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    told = np.stack([member, score])
    found = _named(told, np.array([0.2, 0.25, 0.3, 0.5, 1.0]))
    # 9 alone is beyond every other; one of four others (8.5) lets 8 and 7 through, all let 1.
    assert found == pytest.approx([0.25, 0.75, 0.75, 0.75, 1.0])


def test_who_says_nothing_of_a_client_finds_none_of_its_members():
    told = np.array([[1.0, 0.0, 1.0, 0.0], [2.0, 1.0, -np.inf, -np.inf]])
    assert _named(told, np.array([0.4, 0.5, 1.0])) == pytest.approx([0.5, 0.5, 1.0])


def test_a_run_has_a_curve_and_its_page_draws_it(tmp_path):
    params = {"steps": 1, "epochs": 0, "fraction": 1.0, "share": 0.1}
    how = {"task_params": HELD, "record": Policy(name="all", probes=0), "params": params}
    run = load(trained(tmp_path / "runs", "feddata", 1, **how).path)
    rows = api.attack(run, "shared_membership", signal="nearest").rows
    (setting,) = read_tables([load(run.path)]).settings
    (curve,) = setting.roc
    assert curve.others == 200
    assert curve.true[-1] == 1.0 == curve.false[-1]
    told = next(r["value"] for r in rows if r["metric"] == "membership_tpr")
    assert 0.01 in curve.false  # a step there is not read too early
    # Two of 200 others are one in a hundred; the metric shares out ties, a curve does not.
    assert at(curve, 0.01) == pytest.approx(told, abs=0.02)
    # Who observes is asked of the others alone: its own members are none that it missed.
    api.attack(run, "shared_membership", signal="nearest", observer="clients/0,1")
    both = read_tables([load(run.path)]).settings[0].roc
    (of_two,) = (c for c in both if c.attacker.observer == ("clients/0,1",))
    assert of_two.others == 160
    api.report(tmp_path / "runs", tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text("utf-8")
    assert "Who was trained on" in page
    assert "shared nearest names" in page
