"""What does not fit into the time says how much of it would do, and for what."""

import re

import pytest

import leakbench as lb
from leakbench.attacking.choices import build
from leakbench.record.recording import Recording
from leakbench.work import attack_plan
from leakbench.work.attack_plan import AttackPlan

NAME = "gradient_inversion"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return lb.train("fedavg", task="digits", rounds=1, out=tmp_path_factory.mktemp("runs"))


def test_the_minutes_that_are_said_are_enough_and_hardly_less_would_be(run, monkeypatch, capsys):
    monkeypatch.setattr(attack_plan, "planned", lambda _: [build(NAME, {})])
    assert lb.attack_all(run, minutes=0.001) == []
    said = capsys.readouterr().err
    assert "it was not run. What was made stays: called again, minutes=" in said
    minutes = float(re.search(r"minutes=([0-9.]+) is enough for", said)[1])
    assert "targets=2" in said
    recording = Recording(run)
    fits = [
        AttackPlan(recording, build(NAME, {}).within(recording, 60 * m))
        for m in (minutes, 0.4 * minutes)
    ]
    assert fits[0].seconds <= 60 * minutes
    assert fits[1].seconds > 60 * minutes


def test_the_least_setting_is_said_as_the_command_line_takes_it(run):
    plan = AttackPlan(Recording(run), build(NAME, {}))
    assert plan.choice.options == f"-a {NAME}"  # all by default
    assert f" -s '{NAME}.at=[" in plan.least.choice.options
    words = plan.least.choice.options.split()
    assert words[:2] == ["-a", NAME]
    assert f"{NAME}.targets=2" in words
    assert plan.least.seconds < plan.seconds


def test_what_has_no_lesser_setting_is_itself(run):
    plan = AttackPlan(Recording(run), build("label_inference", {}))
    vars(plan)["seconds"] = 100.0
    assert plan.least is plan
