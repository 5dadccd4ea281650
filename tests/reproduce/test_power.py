"""What is apart seed by seed, and how many seeds it would take where nothing is."""

import itertools

import numpy as np
import pytest

from leakbench.federation.utility import METRICS
from leakbench.reproduce import between, catalogue, needs, orders, overview, power, statements
from leakbench.reproduce.row import FEWEST, Measurement, Row, read_rows, write_rows
from leakbench.statistics.looks import InterimLook


def gained(values, width=0.2):
    """A gain over seeds 0, 1, ...; of a number alone nobody knows its seeds, which are three."""
    each = {} if isinstance(values, float) else dict(enumerate(values))
    value = values if isinstance(values, float) else sum(values) / len(values)
    more = {"low": value - width, "high": value + width, "look": InterimLook(3, len(each) or 3)}
    return Measurement(value=value, n=100, unit="test unit", each=each, **more)


def row(label, ours, seconds=None, seeds=3, **more):
    told = {"recipe": "r", "scale": "small", "dataset": "d", "task": "t", "measure": "u"}
    of = {"metric": "accuracy", "seeds": tuple(range(seeds)), "seconds": seconds}
    return Row(**told, label=label, ours=ours, **of, **more)


SPLITS = (0.1, 0.3, 0.5)  # what the split does to everybody


def test_what_a_split_does_to_both_does_not_hide_a_difference():
    a, b = gained([*SPLITS]), gained([x + 0.02 + 0.001 * x for x in SPLITS])
    assert power.relation(a, b) == "below"
    assert power.relation(b, a) == "above"
    alone = [m.model_copy(update={"each": {}}) for m in (a, b)]
    assert power.relation(*alone) == "in order"


@pytest.mark.parametrize("shift", [0.0, 0.02])
def test_seeds_that_do_not_differ_at_all_prove_nothing(shift):
    """Three clients of three name the same: by their seeds nobody knows how sure that is."""
    a, b = gained([0.5, 0.5, 0.5]), gained([0.5 + shift] * 3)
    assert power.relation(a, b) == "in order"


def test_an_interval_over_three_seeds_is_widened_as_students():
    """Eight true values, each a mean of three seeds: seldom is one of them said to be another."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        for seeds in rng.normal(0.5, 0.05, (8, 3)):
            half = 4.303 * seeds.std(ddof=1) / 3**0.5
            m = gained(float(seeds.mean()), half)
            if power.surely_outside(m, 0.5, 0.0, among=8):
                wrong += 1
                break
    assert wrong / 400 < 0.05


@pytest.mark.parametrize(("seeds", "verdict"), [((0, 1, 2), "holds"), ((0, 1, 3), None)])
def test_who_picked_seeds_is_told_nothing(seeds, verdict):
    """Of the best three of ten seeds two methods that are alike are told apart in 65 of 100."""
    a, b = (row(x, gained([v] * 3, 0.01)) for x, v in (("a", 0.5), ("b", 0.6)))
    rows = [r.model_copy(update={"seeds": seeds}) for r in (a, b)]
    said = orders.Less("a < b", "u", pairs=(("a", "b"),)).judge(rows, "d")
    assert said.verdict == (verdict or statements.WITHIN)
    assert verdict or "a, b of seeds that are not the first" in said.sentence


def kept(loss, spread):
    """The verdict on a method that loses so much, as six seeds have it."""
    rng = np.random.default_rng(0)
    ref = gained([0.9] * 6, 0.002)
    each = 0.9 - loss + spread * rng.normal(0, 1, 6)
    mine = gained((each - each.mean() + 0.9 - loss).tolist(), 0.002)
    told = {"meaning": METRICS["accuracy"].meaning}
    live = {"r": ref.model_copy(update=told), "a": mine.model_copy(update=told)}
    return orders.Keeps("kept", "u", those=("a",), reference="r").verdict(live)[0]


@pytest.mark.parametrize(
    ("loss", "spread", "verdict"),
    [
        (0.05, 0.001, statements.FAILS),
        (0.022, 0.01, statements.WITHIN),  # apart from no loss at all, but not from the margin
        (0.018, 0.01, statements.WITHIN),
        (0.005, 0.001, statements.HOLDS),
    ],
)
def test_only_a_loss_that_is_surely_beyond_the_margin_contradicts(loss, spread, verdict):
    assert kept(loss, spread) == verdict


def test_other_seeds_are_no_pairs():
    a = gained([*SPLITS])
    b = gained([x + 0.02 + 0.001 * x for x in SPLITS])
    b = b.model_copy(update={"each": {s + 7: v for s, v in b.each.items()}})
    assert power.relation(a, b) == "in order"


def test_pairs_without_a_difference_are_seldom_told_apart():
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        pairs = [[gained(rng.normal(0.5, 0.05, 3).tolist()) for _ in "ab"] for _ in range(5)]
        told = [power.relation(a, b, len(pairs)) for a, b in pairs]
        wrong += any(t in ("below", "above") for t in told)
    assert wrong / 400 < 0.08


def test_as_many_seeds_as_are_asked_for_tell_and_the_look_before_does_not():
    rng, mean, spread = np.random.default_rng(1), 0.03, 0.03

    def sides(n):
        """Two rows over ``n`` seeds whose differences have this mean and this spread."""
        split, noise = rng.normal(0.5, 0.1, n), rng.normal(0, 1, n)
        noise = spread * (noise - noise.mean()) / noise.std(ddof=1)
        return gained(split.tolist()), gained((split + mean + noise).tolist())

    k = power.seeds_needed(*sides(3))
    assert k == 12
    assert [power.relation(*sides(n)) for n in (k // 2, k)] == ["in order", "below"]
    assert power.seeds_needed(gained([0.5]), gained([0.6])) == FEWEST
    assert power.seeds_needed(gained([0.5] * 3), gained([0.5] * 3)) is None


def test_what_is_needed_goes_by_the_seeds_that_both_have():
    """One row has two seeds more than the other: those are no pairs."""
    a, b = gained([0.5, 0.52, 0.54]), gained([0.53, 0.54, 0.6, 0.1, 0.9])
    few = gained([b.each[s] for s in range(3)])
    assert power.seeds_needed(a, b) == power.seeds_needed(a, few) == 6


def test_of_an_old_table_intervals_are_shrunk():
    a, b = gained(0.5, 0.05), gained(0.56, 0.05)
    assert power.seeds_needed(a, b) == 6  # Student's of three seeds is wide
    assert power.seeds_needed(a, gained(0.51, 0.05)) > 6
    assert power.seeds_beside(a, 0.54, 0.0) == 12
    assert power.seeds_beside(a, 0.5001, 0.0) is None


class TestStatements:
    less = orders.Less("x", "u", pairs=(("a", "b"),))

    def test_what_is_open_says_what_it_needs(self):
        rows = [row("a", gained(0.5, 0.05), 360.0), row("b", gained(0.56, 0.05), 720.0)]
        found = self.less.judge(rows, "d")
        assert found.verdict == statements.WITHIN
        k = found.needs.seeds
        assert found.needs.labels == ("a", "b")
        assert found.needs.hours == pytest.approx((k - 3) * 1080 / 3600)
        assert f"It needs about {k} seeds (a, b), about {found.needs.hours:.1f} hours" in (
            found.sentence
        )

    def test_what_is_decided_needs_nothing(self):
        rows = [row("a", gained(0.1, 0.05)), row("b", gained(0.56, 0.05))]
        found = self.less.judge(rows, "d")
        assert (found.verdict, found.needs) == (statements.HOLDS, None)

    def test_more_seeds_train_nobody_to_the_end(self):
        rows = [row("a", gained(0.5, 0.05), flags="undertrained"), row("b", gained(0.56, 0.05))]
        found = self.less.judge(rows, "d")
        assert found.needs == needs.Needs(rounds=("a",))
        assert found.sentence.endswith("It needs more rounds (a).")

    def test_after_the_papers_rounds_its_word_is_judged(self):
        young = {"flags": {"undertrained"}, "rounds": 100}
        rows = [row("a", gained(0.6, 0.01), **young), row("b", gained(0.5, 0.01), **young)]
        short = self.less.judge(rows, "d", 101)
        assert (short.verdict, short.needs.rounds) == (statements.WITHIN, ("a", "b"))
        whole = self.less.judge(rows, "d", 100)
        assert whole.verdict == statements.FAILS
        assert "After the paper's rounds still learning: a, b." in whole.sentence

    def test_who_was_not_tuned_needs_its_sweep(self):
        rows = [row("a", gained(0.5, 0.05), flags="untuned"), row("b", gained(0.56, 0.05))]
        found = self.less.judge(rows, "d")
        assert found.needs == needs.Needs(sweep=("a",))
        assert found.sentence.endswith("It needs every value that its paper tried (a).")

    def test_who_is_not_there_or_dead_needs_a_run(self):
        rows = [row("a", gained(0.5, 0.05), flags="dead_run")]
        found = self.less.judge(rows, "d")
        assert found.verdict == statements.OPEN
        assert found.needs == needs.Needs(runs=("b",), dead=("a",))
        told = "It needs runs that are there (b); runs that learn something (a)."
        assert found.sentence.endswith(told)

    def test_what_cannot_be_measured_needs_no_run(self):
        rows = [row("a", gained(0.5, 0.05)), row("b", gained(0.5, 0.05))]
        rows[1] = rows[1].model_copy(update={"measure": "v"})
        found = self.less.judge(rows, "d")
        assert found.needs == needs.Needs(unmeasured=("b",))
        assert found.sentence.endswith("It needs data on which it can be measured (b).")

    def test_what_two_columns_lack_is_said_of_the_row_once(self):
        order = between.Below("x", "u", than="v", words=("one", "other"), those=("a",))
        rows = [row("a", gained(0.5, 0.05), flags="undertrained")]
        both = [rows[0], rows[0].model_copy(update={"measure": "v"})]
        assert order.judge(both, "d").needs == needs.Needs(rounds=("a",))

    def test_no_seeds_part_what_is_alike(self):
        rows = [row("a", gained(0.5, 0.05)), row("b", gained(0.5, 0.05))]
        assert "too little for 100 seeds" in self.less.judge(rows, "d").sentence

    def test_one_time_that_nobody_knows_is_said_of_no_hours(self):
        rows = [row("a", gained(0.5, 0.05), 360.0), row("b", gained(0.56, 0.05))]
        assert self.less.judge(rows, "d").needs.hours is None

    @pytest.mark.parametrize(
        ("order", "labels"),
        [
            (orders.Falls("x", "u", along=("b", "a", "c")), ("c", "b")),
            (orders.Falls("x", "u", along=("a", "b")), ("b", "a")),
            (orders.Best("x", "u", those=("b",), reference="a"), ("a", "b")),
            (orders.Equals("x", "u", values=(("a", 0.52), ("b", 0.56))), ("a",)),
        ],
    )
    def test_every_kind_of_order_names_what_is_open(self, order, labels):
        values = {"a": 0.5, "b": 0.56, "c": 0.52}
        rows = [row(label, gained(v, 0.05)) for label, v in values.items()]
        found = order.judge(rows, "d")
        assert found.verdict == statements.WITHIN
        assert {*found.needs.labels} >= {*labels}


def test_a_table_keeps_what_each_seed_came_to(tmp_path):
    rows = [row("a", gained([*SPLITS]), 12.5), row("b", gained(0.5))]
    write_rows(tmp_path / "t.csv", rows)
    found = read_rows(tmp_path / "t.csv")
    assert [r.ours.each for r in found] == [dict(enumerate(SPLITS)), {}]
    assert [r.seconds for r in found] == [12.5, None]


class TestWhatIsPicked:
    def test_the_best_of_ten_that_are_alike_is_seldom_above(self):
        rng, wrong = np.random.default_rng(2), 0
        those = tuple(f"x{i}" for i in range(10))
        best = orders.Best("x", "u", those=those, reference="r")
        for _ in range(300):
            split = rng.normal(0.5, 0.1, 5)
            live = {x: gained((split + rng.normal(0, 0.02, 5)).tolist()) for x in ("r", *those)}
            wrong += best.verdict(live)[0] == statements.HOLDS
        assert wrong / 300 < 0.05

    def test_what_is_lost_against_a_reference_that_nobody_knows_is_not_excluded(self):
        """The reference may be far better than its number."""
        keeps = orders.Keeps("x", "u", those=("a",), reference="r")
        sure, unsure = (number(0.8, width) for width in (0.005, 0.2))
        live = {"r": sure, "a": number(0.8, 0.005)}
        assert keeps.verdict(live)[0] == statements.HOLDS
        assert keeps.verdict({**live, "r": unsure})[0] == statements.WITHIN

    def test_who_keeps_what_a_split_lets_both_have_keeps_it(self):
        """Seed by seed nothing is lost, however much the seeds differ."""
        keeps = orders.Keeps("x", "u", those=("a",), reference="r")
        a, r = number(0, 0.2, [*SPLITS]), number(0, 0.2, [x + 0.001 + 0.001 * x for x in SPLITS])
        assert keeps.verdict({"a": a, "r": r})[0] == statements.HOLDS


def number(value, width, values=None):
    """An accuracy, of seeds 0, 1, ... where ``values`` are given."""
    found = gained(values or float(value), width)
    return found.model_copy(update={"meaning": METRICS["accuracy"].meaning})


def test_of_one_seed_nobody_knows_how_many_it_takes():
    rows = [row("a", gained(0.5, 0.05), 360.0, seeds=1, flags="one_seed"), row("b", gained(0.9))]
    found = TestStatements.less.judge(rows, "d")
    assert "It needs at least 3 seeds (a), about 0.2 hours" in found.sentence


class TestNothingThatMatters:
    """A gain is claimed; that there is none to speak of can be shown as well."""

    less = orders.Less("x", "u", pairs=(("a", "b"), ("c", "d")))
    falls = orders.Falls("x", "u", along=("a", "b", "c"))

    def test_pairs_that_surely_differ_by_less_than_the_margin_do_not_hold(self):
        near = {x: number(0.8, 0.005) for x in "abcd"}
        assert self.less.verdict(near) == (statements.FAILS, "a gap of more than 0.02 is excluded")
        unsure = {x: number(0.8, 0.03) for x in "abcd"}
        assert self.less.verdict(unsure)[0] == statements.WITHIN

    def test_a_gap_that_the_paper_itself_prints_as_smaller_is_not_refuted_by_the_margin(self):
        one = orders.Less("x", "u", pairs=(("a", "b"),))

        def beside(printed, width):
            return {
                x: number(0.8, width).model_copy(update={"claimed": claimed})
                for x, claimed in zip("ab", printed, strict=True)
            }

        assert one.verdict(beside((0.7, 0.75), 0.005))[0] == statements.FAILS
        assert one.verdict(beside((0.7, 0.704), 0.005))[0] == statements.WITHIN
        sure = beside((0.7, 0.704), 0.001)
        assert one.verdict(sure) == (statements.FAILS, "a gap of more than 0.004 is excluded")
        # What it prints the other way round tells nothing of how large the gap is to be.
        assert one.verdict(beside((0.7, 0.69), 0.005))[0] == statements.FAILS

    def test_one_pair_that_is_apart_leaves_it_open(self):
        some = {x: number(0.8, 0.005) for x in "abc"} | {"d": number(0.9, 0.005)}
        assert self.less.verdict(some)[0] == statements.WITHIN

    def test_of_numbers_without_intervals_nothing_is_excluded(self):
        bare = {x: number(0.8, 0.0).model_copy(update={"low": None, "high": None}) for x in "abcd"}
        assert self.less.verdict(bare)[0] == statements.WITHIN

    def test_a_small_gain_that_is_sure_still_is_one(self):
        sure = {x: number(0.8, 0.001) for x in "ac"} | {x: number(0.81, 0.001) for x in "bd"}
        assert self.less.verdict(sure)[0] == statements.HOLDS

    def test_what_falls_by_nothing_that_matters_does_not_fall(self):
        flat = {x: number(0.8, 0.005) for x in "abc"}
        assert self.falls.verdict(flat) == (
            statements.FAILS,
            "a change of more than 0.02 is excluded",
        )
        assert self.falls.verdict({x: flat[x] for x in "ab"})[0] == statements.WITHIN
        steep = {**flat, "a": number(0.85, 0.005)}
        assert self.falls.verdict(steep)[0] == statements.HOLDS

    def test_seed_by_seed_a_split_that_moves_both_hides_nothing(self):
        a, b = number(0, 0.2, [*SPLITS]), number(0, 0.2, [x + 0.001 + 0.001 * x for x in SPLITS])
        one = orders.Less("x", "u", pairs=(("b", "a"),))
        assert one.verdict({"a": a, "b": b})[0] == statements.FAILS

    def test_of_a_gain_that_is_there_it_is_seldom_said(self):
        """A gain of twice the margin, over seeds that vary by as much as it."""
        rng, wrong = np.random.default_rng(3), 0
        one = orders.Less("x", "u", pairs=(("a", "b"),))
        for _ in range(400):
            split = rng.normal(0.5, 0.1, 5)
            low, high = (split + shift + rng.normal(0, 0.04, 5) for shift in (0.0, 0.04))
            live = {"a": number(0, 0.2, low.tolist()), "b": number(0, 0.2, high.tolist())}
            wrong += one.verdict(live)[0] == statements.FAILS
        assert wrong / 400 < 0.05


class TestLooks:
    """Who adds seeds where nothing is told looks again, until something is."""

    def verdicts(self, rng, looks, gap=0.0):
        """Of two rows alike but for ``gap``: what it says with more and more seeds."""
        order, split = orders.Less("x", "u", pairs=(("a", "b"),)), rng.normal(0.5, 0.1, max(looks))
        both = {x: split + rng.normal(0, 0.04, max(looks)) for x in "ab"}
        both["b"] += gap
        for n in looks:
            live = {x: number(0, 0.5, values[:n].tolist()) for x, values in both.items()}
            yield order.verdict(live)[0]

    @pytest.mark.parametrize(("verdict", "gap"), [("HOLDS", 0.0), ("FAILS", 0.02)])
    def test_who_looks_until_it_is_told_is_told_the_false_seldom(self, verdict, gap):
        """A gain that is none, and of one of the margin that there is none."""
        rng, wrong, said = np.random.default_rng(4), 0, getattr(statements, verdict)
        for _ in range(1000):
            wrong += said in list(self.verdicts(rng, (3, 6, 12, 24), gap))
        assert wrong / 1000 < 0.06

    def test_seeds_that_were_planned_cost_nothing(self):
        planned = number(0, 0.5, [0.5, 0.52, 0.54, 0.5, 0.53, 0.55])
        other = number(0, 0.5, [0.51, 0.55, 0.55, 0.51, 0.56, 0.57])
        told = []
        for first in (6, 3):
            look = {"look": InterimLook(first, 6)}
            pair = (other.model_copy(update=look), planned.model_copy(update=look))
            told.append(power.most_above(*pair))
        assert told[0] < told[1]

    def test_each_look_has_twice_the_seeds_and_half_the_share(self):
        later = itertools.islice(InterimLook(3, 4).later(), 3)
        assert [look.seeds for look in later] == [6, 12, 24]
        shares = {n: InterimLook(3, n).share for n in (0, 1, 3, 4, 6, 7, 12)}
        assert shares == {0: 1 / 2, 1: 1 / 2, 3: 1 / 2, 4: 1 / 4, 6: 1 / 4, 7: 1 / 8, 12: 1 / 8}

    def test_a_table_without_seeds_and_of_a_scale_that_is_gone_is_judged_all_the_same(self):
        recipe = catalogue.find_recipe("findings-iid")
        assert "full" not in recipe.scales
        labels = recipe.orders[0].labels()
        told = {"recipe": recipe.name, "scale": "full", "dataset": "digits", "task": "digits"}
        told |= {"measure": recipe.orders[0].measure, "metric": "accuracy"}
        rows = [Row(**told, label=x, ours=number(0.8, 0.005)) for x in labels]
        assert overview.judged(recipe, "full", rows, "digits")


class TestValuesThatAreMet:
    """Each of several values has its own chance to be missed by luck."""

    def test_of_ten_that_are_met_it_is_seldom_said_that_one_is_not(self):
        rng, wrong, values = np.random.default_rng(5), 0, tuple((f"x{i}", 0.5) for i in range(10))
        order = orders.Equals("x", "u", values=values, tolerance=0.001)
        for _ in range(300):
            live = {x: gained(v + float(rng.normal(0, 0.05)), 0.098) for x, v in values}
            wrong += order.verdict(live)[0] == statements.FAILS
        assert wrong / 300 < 0.05
