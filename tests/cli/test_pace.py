"""When several jobs will have ended."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from leakbench.cli import console
from leakbench.cli.pace import Pace, duration


class Clock:
    """Shows what it is set to."""

    now = 0.0

    def __call__(self):
        return self.now


def test_predictions_weigh_and_the_clock_measures():
    clock = Clock()
    pace = Pace(3, {"a": 1.0, "b": 9.0, "c": 10.0}, clock)
    assert (pace.share, pace.left) == (0.0, "")
    clock.now = 10.0  # five times slower than predicted
    pace.heard("a", 1, 1)
    pace.heard("b", 1, 9)
    assert pace.share == pytest.approx(0.1)
    assert pace.left == ", about 90 s left".replace("90 s", "2 min")
    pace.heard("b", 9, 9)
    pace.heard("c", 10, 10)
    assert (pace.share, pace.left) == (1.0, "")


def test_jobs_of_which_nothing_is_known_weigh_alike():
    clock = Clock()
    pace = Pace(4, clock=clock)
    clock.now = 30.0
    pace.heard("a", 5, 5)
    pace.heard("b", 0, 0)  # nobody knows how much there is
    assert (pace.begun, pace.share, pace.left) == (2, 0.25, ", about 2 min left")


def test_a_first_quick_job_foretells_no_days():
    """Of an hour's work one of a hundredth of a second, beside the start of its process."""
    clock = Clock()
    pace = Pace(3, {"a": 0.01, "b": 0.01, "c": 3600.0}, clock)
    clock.now = 20.0
    pace.heard("a", 1, 1)
    assert pace.left == ""
    pace.heard("c", 36, 3600)
    assert pace.left == ", about 32 min left"


def test_words():
    assert [duration(s) for s in (0, 40.4, 89.4, 90, 5399, 5400, 9000)] == [
        *("about 1 s", "about 40 s", "about 89 s", "about 2 min", "about 90 min"),
        *("about 1.5 h", "about 2.5 h"),
    ]


def test_a_log_has_a_line_when_one_begins_and_one_a_minute(capsys, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    monkeypatch.setattr(console, "Pace", partial(Pace, clock=clock))
    with console.Console().progress(2) as tell:
        for second in range(0, 200, 10):
            clock.now = float(second)
            tell("long", second, 200, "training")
        tell("other", 1, 1, "done")
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] long",
        "long: training, 60 of 200, about 6 min left",
        "long: training, 120 of 200, about 5 min left",
        "long: training, 180 of 200, about 4 min left",
        "[2/2] other, about 5 s left",
    ]
