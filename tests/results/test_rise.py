"""Does a run's utility still rise steeply at its end? Asked of curves whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

import leakbench
from leakbench.api import tables
from leakbench.federation.utility import METRICS
from leakbench.results import rise, utility
from leakbench.results.number import Evaluation
from leakbench.scoring import flags

UP = METRICS["accuracy"].meaning
DOWN = UP.model_copy(update={"direction": "down"})
UNITS = 2000


def curve(of, count=20, units=UNITS, rounds=1000):
    """Evaluations whose value at the share t of the rounds is ``of(t)``, of 0/1 test units."""
    out = []
    for i in range(1, count + 1):
        value = of(i / count)
        # Which images are right grows with the value, as in a run that forgets nothing.
        scores = None if units == 0 else (np.arange(units) < value * units).astype(float)
        out.append(Evaluation(i * rounds // count, value, value - 0.01, value + 0.01, 8, scores))
    return out


def nearing(pace):
    """A curve that nears 0.9 exponentially, from 0.1."""
    return lambda t: 0.1 + 0.8 * (1 - math.exp(-pace * t))


def test_a_straight_line_is_steep():
    """By hand: the means of 16 to 20 and of 11 to 15 twentieths lie 5 apart, of 18."""
    got = rise.rise(curve(lambda t: 0.1 + 0.8 * t), UP, 0.1)
    assert got == pytest.approx(5 / 18)
    assert flags.of_rises([got]) == {"undertrained"}


@pytest.mark.parametrize(("pace", "steep"), [(1, True), (2, True), (4, False), (8, False)])
def test_who_nears_a_limit_is_trained_at_nine_tenths_of_the_way(pace, steep):
    got = rise.rise(curve(nearing(pace)), UP, 0.1)
    assert (got > flags.STEEP) == steep
    assert (1 - math.exp(-pace) < 0.9) == steep


def test_the_same_downwards():
    up = rise.rise(curve(lambda t: 0.1 + 0.8 * t), UP, 0.1)
    down = rise.rise(curve(lambda t: 0.9 - 0.8 * t), DOWN, 0.9)
    assert down == pytest.approx(up)
    assert rise.rise(curve(lambda t: 0.9 - 0.8 * t), UP, 0.1) == 0


def test_what_is_within_its_interval_is_no_rise():
    """A quarter of all was gained at the end, but of ten images."""
    few = curve(lambda t: 0.1 + 0.3 * t, units=10)
    assert rise.rise(few, UP, 0.1) == 0
    assert rise.rise(curve(lambda t: 0.1 + 0.3 * t), UP, 0.1) > 0.2


def test_images_are_compared_each_with_itself():
    """A rise of .01 is lost in two intervals side by side, and plain image by image."""
    line = curve(lambda t: 0.4 + 0.04 * t)
    assert line[-1].low < line[10].high
    assert rise.rise(line, UP, 0.4) > flags.STEEP


def test_where_scores_lack_the_intervals_must_be_apart():
    assert rise.rise(curve(lambda t: 0.1 + 0.8 * t, units=0), UP, 0.1) == pytest.approx(5 / 18)
    assert rise.rise(curve(lambda t: 0.4 + 0.04 * t, units=0), UP, 0.4) is None
    assert rise.rise(curve(lambda t: 0.4 - 0.04 * t, units=0), UP, 0.4) == 0


@pytest.mark.parametrize(("count", "told"), [(0, False), (1, False), (5, False), (8, True)])
def test_of_too_few_evaluations_nobody_can_tell(count, told):
    got = rise.rise(curve(lambda t: 0.1 + 0.8 * t, count=count), UP, 0.1)
    assert (got is not None) == told
    assert (flags.CURVE_UNKNOWN in flags.of_rises([got])) != told


def test_what_was_there_before_training_was_not_gained():
    """The untrained network's, where it was evaluated; else chance."""
    about = {"chance": 0.1}
    line = curve(nearing(3))
    far = rise.rise_of_run(line, UP, about)
    near = rise.rise_of_run(line, UP, {**about, "untaught": {"untrained": 0.7}})
    assert near > flags.STEEP > far


def test_who_rises_from_below_its_start_rises_all_the_way():
    assert rise.rise(curve(lambda t: 0.1 + 0.3 * t), UP, 0.9) == 1


def test_one_steep_seed_is_enough_and_so_is_one_unknown():
    assert flags.of_rises([0.0, 0.5]) == {"undertrained"}
    assert flags.of_rises([0.0, None]) == {"curve_unknown"}
    assert flags.of_rises([0.0, flags.STEEP]) == set()
    assert rise.most([None, 0.2, 0.1]) == 0.2
    assert rise.most([None]) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Twenty rounds at a small rate: it has barely begun."""
    place = tmp_path_factory.mktemp("rise")
    return leakbench.train("fedavg", params={"lr": 0.03}, rounds=20, out=place)


def test_every_number_of_a_run_that_is_read_has_the_flag_of_its_curve(run):
    """No file of the run says it: it is computed when a table is made."""
    assert "undertrained" not in (run.path / "run.json").read_text("utf-8")
    leakbench.attack(run, "label_inference", source="update")
    assert utility.utility_of_run(run).rise > flags.STEEP
    made = tables([run])
    for name, column in (("tradeoff", "utility_flags"), ("utility", "flags")):
        rows = made.rows(name)
        assert rows
        assert all("undertrained" in r[column] for r in rows)
    for name in ("results", "tradeoff"):  # a message has no curve
        assert not any("undertrained" in r["flags"] for r in made.rows(name))
    assert all("undertrained" in n.flags for n in made.numbers)
    for folder in (run.path / "attacks").iterdir():
        assert "undertrained" not in (folder / "results.csv").read_text("utf-8")
