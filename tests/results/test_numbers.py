"""What one number says of itself, unit by unit and on which scale, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.report_data import gained
from helpers.verdicts import BASE, change, number
from scipy.stats import t as student

from leakbench.base.meaning import Meaning
from leakbench.base.reason import in_words, reason
from leakbench.base.reason_words import reason_text
from leakbench.metrics import context, images
from leakbench.metrics.prototypes import P_LEAK, PROTOTYPE_COSINE
from leakbench.results import cascade, paired, pooling, rise, utility
from leakbench.results.cells import claim_cells, claimed_in
from leakbench.results.dead import why_dead
from leakbench.results.front import best_numbers, fits_front, mark
from leakbench.results.names import Method, setting_names
from leakbench.results.number import (
    Attacker,
    Claim,
    Configuration,
    Environment,
    Evaluated,
    Evaluation,
    Measured,
    Power,
    Unit,
    when,
)
from leakbench.statistics.intervals import Estimate

UP, DOWN = P_LEAK.meaning, images.LPIPS.meaning


def units(*scores, clusters=None, **more):
    names = [f"client/{i}" for i in range(len(scores))]
    about = {"failed": False, "accepted": False, **more}
    owners = clusters or names
    told = zip(names, owners, scores, strict=True)
    return tuple(Unit(name, owner, score, **about) for name, owner, score in told)


def measured(attack, floor, control, meaning=UP, seed=0, rung="method", name="a", **more):
    by_role = {"attack": attack, "floor": floor, "control": control}
    means = {r: sum(u.score for u in of) / max(len(of), 1) for r, of in by_role.items()}
    each = {r: Estimate(m, m, m, len(attack), meaning.unit, "student") for r, m in means.items()}
    given = {
        "run": SimpleNamespace(seed=seed, id=f"run-{seed}", path="a/run"),
        "attacker": Attacker(name=name, rung=rung),
        "meaning": meaning,
        "stage": "final",
        "round": 1,
        "probe": False,
        "value": each["attack"],
        "floor": each["floor"],
        "control": each["control"],
        "flags": frozenset(),
        "order": 0,
        "units": by_role,
        "exact": frozenset(),
        "guesses": {},
        "code": {},
        "made": Environment("fused", "cpu", "float32", "0.1.0", "abc"),
    }
    return Measured(**given | more)


# -- unit by unit --------------------------------------------------------------------------------


def test_the_lower_limit_of_the_differences_is_students():
    m = measured(units(1, 1, 0, 1, 1, 0.5), units(0.1, 0.2, 0.3, 0, 0.1, 0.5), units(*[1] * 6))
    d = np.array([0.9, 0.8, -0.3, 1.0, 0.9, 0.0])
    assert list(paired.differences(m, "attack").values()) == pytest.approx(d.tolist())
    half = student.ppf(0.95, 5) * d.std(ddof=1) / math.sqrt(6)
    assert paired.lower([m], "attack", 0.05) == pytest.approx(d.mean() - half)
    # 1 / 2 ** 6 is above one in a hundred: so few show nothing there.
    assert paired.lower([m], "attack", 0.01) == -math.inf
    assert paired.lower([m], "attack", 1 / 64) > -math.inf
    assert paired.cluster_count([m]) == 6
    turned = measured(units(0.2, 0.1), units(0.5, 0.7), units(0, 0), DOWN)
    assert list(paired.differences(turned, "attack").values()) == pytest.approx([0.3, 0.6])
    assert list(paired.differences(turned, "control").values()) == pytest.approx([0.5, 0.7])


def test_three_seeds_bring_their_own_spread_and_units_of_two_seeds_are_two():
    levels = (0.2, 0.5, 0.8)
    seeds = [
        measured(units(*[x] * 4), units(*[0.1] * 4), units(*[1] * 4), seed=s)
        for s, x in enumerate(levels)
    ]
    d = np.array(levels) - 0.1
    over_seeds = d.mean() - student.ppf(0.975, 2) * d.std(ddof=1) / math.sqrt(3)
    assert paired.lower(seeds, "attack", 0.025) == pytest.approx(over_seeds)
    two = paired.lower(seeds[:2], "attack", 0.025)
    d = np.repeat(np.array(levels[:2]) - 0.1, 4)
    assert two == pytest.approx(d.mean() - student.ppf(0.975, 7) * d.std(ddof=1) / math.sqrt(8))
    assert paired.cluster_count(seeds) == 12
    shared = measured(units(1, 1, 1, 1, clusters=["a", "a", "b", "b"]), (), ())
    assert paired.cluster_count([shared, shared]) == 2


def test_an_attack_is_shown_by_intervals_or_unit_by_unit():
    m = measured(units(*[0.3] * 6), units(*[0.1] * 6), units(*[0.2] * 6))
    wide = Estimate(0.1, 0.0, 0.5, 6, "client", "student")
    assert paired.control_shown([m], m.floor, m.control)
    assert paired.control_shown([m], wide, m.control)  # every unit is beyond its own blind guess
    assert paired.beyond_floor([m], m.value, wide)
    even = measured(units(*[0.1] * 6), units(*[0.1] * 6), units(*[0.1] * 6))
    assert not paired.control_shown([even], wide, even.control)
    assert not paired.beyond_floor([even], even.value, wide)
    few = measured(units(*[0.3] * 4), units(*[0.1] * 4), units(*[0.2] * 4))
    assert not paired.control_shown([few], wide, few.control)
    # Of five a control is shown at 5 %, and an attack is not at 2.5 %.
    five = measured(units(*[0.3] * 5), units(*[0.1] * 5), units(*[0.3] * 5))
    assert paired.control_shown([five], wide, five.control)
    assert not paired.beyond_floor([five], five.value, wide)


@pytest.mark.parametrize(
    ("blind", "clusters"),
    # So many hits in a row are once in forty: 0.1 ** 2, 0.15 ** 2, 0.16 ** 3, 0.29 ** 3, ...
    [(0.0, 1), (0.024, 1), (0.1, 2), (0.15, 2), (0.16, 3), (0.29, 3), (0.3, 4), (0.9, 5), (1.0, 5)],
)
def test_how_many_clusters_show_that_a_perfect_attack_works(blind, clusters):
    floor = Estimate(blind, 0.0, blind, 9, "client", "student")
    parts = [measured(units(1), units(0), units(1))]
    assert paired.needed(parts, floor, "clopper-pearson") == clusters
    assert paired.needed(parts, floor, "exact") == 2
    falling = Estimate(1 - blind, 1 - blind, 1.0, 9, "client", "student")
    error = Meaning(name="m", direction="down", low=0.0, high=1.0, unit="client")
    assert paired.needed([change_of(parts[0], error)], falling, "student") == clusters
    assert paired.needed([change_of(parts[0], images.PSNR.meaning)], floor, "student") == 2


def change_of(m, meaning):
    return measured(m.units["attack"], m.units["floor"], m.units["control"], meaning)


def test_units_whose_search_is_open():
    plain, control = units(0, 0, 0, 0), units(1, 1, 1, 1, accepted=True)
    assert paired.unsettled(measured(plain, plain, control)) == 4
    assert paired.unsettled(measured(plain, plain, plain)) == 0
    assert paired.unsettled(measured(units(0, 0, settled=False), plain, plain)) == 2
    assert paired.unsettled(measured(units(0, 0, settled=False, failed=True), plain, plain)) == 0
    assert paired.unsettled(measured(units(0, 0, accepted=True), plain, control)) == 0
    assert paired.unsettled(measured(plain, plain, control[:3])) == 3


def test_units_as_good_as_the_original_where_the_blind_guess_is_not():
    limit = DOWN.as_good
    attack = units(limit, limit + 0.01, 0.0, 0.0)
    floor = units(0.6, 0.6, limit, 0.6)
    assert paired.as_good(measured(attack, floor, attack, DOWN)) == 2
    failed = units(0.0, 0.0, failed=True)
    assert paired.as_good(measured(failed, floor, failed, DOWN)) == 0
    assert paired.as_good(measured(attack, (), attack, DOWN)) == 3
    assert PROTOTYPE_COSINE.meaning.as_good is None
    assert paired.as_good(measured(attack, floor, attack, PROTOTYPE_COSINE.meaning)) == 0


# -- scales --------------------------------------------------------------------------------------


def test_a_number_is_turned_so_that_more_is_more_leakage():
    up = number(0.3, low=0.2, high=0.5, floor=0.1, floor_low=0.05, floor_high=0.15)
    assert (up.low, up.leak, up.high, up.blind, up.blind_high) == (0.2, 0.3, 0.5, 0.1, 0.15)
    assert up.half == pytest.approx(0.55)
    down = number(0.3, low=0.2, high=0.5, floor=0.6, control=0.1, metric=images.LPIPS)
    down = change(down, floor=Estimate(0.6, 0.55, 0.7, 9, "image", "student"))
    assert (down.low, down.leak, down.high) == (-0.5, -0.3, -0.2)
    assert (down.blind, down.blind_high) == (-0.6, -0.55)
    assert down.half == pytest.approx(-0.35)
    log = number(100.0, low=10.0, high=1000.0, floor=1000, metric=context.SAMPLES_TO_90)
    assert log.leak == pytest.approx(-math.log(100))
    for n in (up, down, log):
        assert n.unturned(n.leak) == pytest.approx(n.value.value)


def test_the_best_is_the_control_or_what_was_found_and_no_better_than_the_original():
    assert number(0.3, control=0.8).best == 0.8
    assert number(0.9, control=0.8).best == 0.9
    capped = number(0.3, low=0.2, high=0.4, floor=0.6, control=0.001, metric=images.LPIPS)
    assert capped.best == -images.LPIPS.meaning.as_good
    nobody = number(0.3, control=0.8, flags=["no_control"])
    assert nobody.best == nobody.success == 1.0
    assert not nobody.able
    assert not nobody.weak


@pytest.mark.parametrize(("control", "able"), [(0.505, True), (0.504, False)])
def test_able_is_half_way_to_success(control, able):
    assert number(0.01, control=control).able == able


@pytest.mark.parametrize(
    ("control", "power", "weak"),
    [
        (0.12, None, False),
        (0.109, None, True),  # less than two margins above the blind guess
        (0.12, {"shown": False}, True),
        (0.12, {"clusters": 4, "needed": 5}, True),
        (0.12, {"clusters": 5, "needed": 5}, False),
        (0.05, {"beyond": True}, False),
        (0.05, {"as_good": 1}, False),
    ],
)
def test_weak_is_what_was_not_shown_to_work(control, power, weak):
    n = number(0.02, control=control)
    if power is not None:
        about = {"shown": True, "beyond": False, "clusters": 9, "needed": 1}
        n = change(n, power=Power(**{**about, "unsettled": 0, "as_good": 0, **power}))
    assert n.weak == weak
    assert n.few == (power is not None and power.get("clusters") == 4)


def test_excess_is_beyond_the_blind_guess_and_the_margin():
    assert number(0.02, low=0.0, high=0.06).excess == 0.0
    assert number(0.02, low=0.0, high=0.08).excess == pytest.approx(0.02)
    assert number(0.02, low=0.0, high=0.03).excess == pytest.approx(-0.03)


def test_stages_of_one_question():
    assert [when(s) for s in ("final", "all", "after", "before", "early")] == ["final"] * 4 + [
        "early"
    ]


# -- the front, the cascade ----------------------------------------------------------------------


def placed(name, leak, gain, **more):
    base = Configuration(task="t", defense=name, params={})
    n = change(number(leak, width=0.01, **more), configuration=base)
    return change(n, utility=gained(base, gain))


def test_the_front_of_settings_and_what_may_not_lie_on_it():
    a, b, c, d = (
        placed(*x) for x in (("a", 0.2, 0.5), ("b", 0.3, 0.5), ("c", 0.3, 0.6), ("d", 0.1, 0.4))
    )
    about = {n.configuration.key: "data" for n in (a, b, c, d)}
    assert [n.configuration.defense for n in best_numbers([a, b, c, d], about)] == ["a", "c", "d"]
    same = change(a, configuration=b.configuration)
    assert len(best_numbers([a, same], about)) == 2  # equals stand together
    assert not fits_front(placed("e", 0.5, 0.5, flags=["dead_run"]))
    assert not fits_front(change(a, uneven=(in_words("x"),)))
    assert not fits_front(placed("e", 0.5, 0.5, rung="paper", attack="any_attack"))
    assert fits_front(placed("e", 0.5, 0.5, rung="paper", attack="nearest"))
    # Of several parameters of an attack the number that leaks most stands for a.
    more = change(a, value=Estimate(0.4, 0.3, 0.5, 9, "client", "student"))
    assert [n.on_front for n in mark([a, b, c, more], about)] == [False, False, True, False]


def test_the_last_accepted_guess_counts_and_a_failed_one_never():
    floor, control = units(0.1, 0.1, 0.1), units(1, 1, 1)
    one = measured(units(0.2, 0.3, 0.4), floor, control, name="one")
    two = measured(units(0.5, 0.6, 0.7, accepted=True), floor, control, name="two")
    three = measured(units(0.8, 0.9, 1.0), floor, control, name="three")
    made = cascade.combine("cascade", [one, two, three])
    assert [u.score for u in made.units["attack"]] == [0.5, 0.6, 0.7]
    lost = measured(units(0, 0, 0, accepted=True, failed=True), floor, control, name="lost")
    made = cascade.combine("cascade", [lost, one, three])
    assert [u.score for u in made.units["attack"]] == [0.2, 0.3, 0.4]
    worst = cascade.combine("any_attack", [one, two, three])
    assert [u.score for u in worst.units["attack"]] == [0.8, 0.9, 1.0]
    assert worst.round == 1
    assert cascade.distinct(["a|b", "b", "", "c|a"]) == ("a", "b", "c")
    order = cascade.entering("any_attack", [three, two, one], lambda m: m.attacker.name == "two")
    assert [m.attacker.name for m in order] == ["one", "three"]
    paper = measured(units(1), units(0), units(1), rung="paper", name="own")
    assert cascade.entering("cascade", [paper, one], lambda m: False) == [one]
    assert cascade.entering("any_attack", [one, paper], lambda m: False) == [paper, one]
    assert cascade.why_none("cascade", [paper]) == reason("only_paper")
    assert cascade.why_none("any_attack", [paper]) == reason("all_weak")
    assert cascade.why_none("cascade", [paper, one]) == reason("all_weak")


def test_which_attack_lacks_which_seeds():
    def of(name, seed):
        return measured(units(1), units(0), units(1), name=name, seed=seed)

    asked = [of("a", 0), of("a", 1), of("a", 2), of("b", 1)]
    assert pooling._lacking(asked, asked) == (reason("seed_lacks", attack="b", seeds=[0, 2]),)
    assert pooling._lacking(asked, asked[:3]) == ()
    where = pooling._at(False, in_words("why"), "final", "early")
    assert reason_text(where) == "stage early, final or all, real messages: why"
    assert reason_text(where, {"final": "late"}) == "early, late or all, real messages: why"
    probes = pooling._at(True, in_words("why"), "middle")
    assert reason_text(probes) == "stage middle, probes: why"


# -- utility, dead runs, names, claims -----------------------------------------------------------


def evaluation(round_, value, scores=None, half=0.1):
    kept = None if scores is None else np.array(scores, dtype=float)
    return Evaluation(round_, value, value - half, value + half, 8, kept)


def test_the_mean_of_evaluations_averages_their_intervals():
    one, two = evaluation(1, 0.2, [0, 1], 0.1), evaluation(2, 0.6, [1, 1], 0.3)
    got = rise.mean([one, two])
    assert (got.round, got.value, got.low, got.high) == pytest.approx((2, 0.4, 0.2, 0.6))
    assert got.scores.tolist() == [0.5, 1.0]
    assert rise.mean([one]) is one
    assert rise.mean([one, evaluation(2, 0.6)]).scores is None
    assert rise.mean([one, evaluation(2, 0.6, [1, 1, 1])]).scores is None


def test_the_best_and_the_last_evaluations():
    up = Evaluated(
        None, UP, tuple(evaluation(t, v) for t, v in enumerate([0.2, 0.9, 0.9, 0.1])), None, None
    )
    down = Evaluated(None, DOWN, up.evaluations, None, None)
    assert [e.round for e in utility._chosen(up, "best")] == [1]
    assert [e.round for e in utility._chosen(down, "best")] == [3]
    assert [e.round for e in utility._chosen(up, "final")] == [3]
    long = Evaluated(None, UP, tuple(evaluation(t, 0.5) for t in range(12)), None, None)
    assert [e.round for e in utility._chosen(long, "last10")] == list(range(2, 12))


def test_utility_over_seeds_without_units_goes_from_the_lowest_to_the_highest():
    two = {0: evaluation(9, 0.2), 1: evaluation(9, 0.4)}
    got = utility.over_seeds(two, "another")
    assert (got.value, got.low, got.high, got.n) == pytest.approx((0.3, 0.1, 0.5, 8))
    three = {**two, 2: evaluation(9, 0.9)}
    got = utility.over_seeds(three, "another")
    half = student.ppf(0.975, 2) * np.std([0.2, 0.4, 0.9], ddof=1) / math.sqrt(3)
    assert got.low == max(0.0, 0.5 - half) == 0.0
    assert got.high == pytest.approx(min(1.0, 0.5 + half))
    near = {s: evaluation(9, v, half=0.01) for s, v in enumerate((0.5, 0.52, 0.54))}
    half = student.ppf(0.975, 2) * 0.02 / math.sqrt(3)
    got = utility.over_seeds(near, "another")
    assert (got.low, got.high) == pytest.approx((0.52 - half, 0.52 + half))


@pytest.mark.parametrize(
    ("low", "distance", "last", "dead"),
    [
        (0.11, "cosine", 0.5, False),
        (0.1, "cosine", 0.5, True),  # chance
        (0.11, "cosine", 0.991, True),
        (0.11, "cosine", 0.99, False),
        (0.11, "euclidean", 0.0099, True),
        (0.11, "euclidean", 0.01, False),
        (0.11, "euclidean", 0.995, False),
        (0.11, "", 0.995, False),
        (0.11, "cosine", None, False),
    ],
)
def test_a_run_is_dead_at_chance_or_where_its_prototypes_collapsed(low, distance, last, dead):
    name = {"cosine": "prototype_mean_cosine"}.get(distance, "prototype_distance_ratio")
    lines = (
        []
        if last is None
        else [
            {"round": 10, "name": name, "value": last},
            {"round": 9, "name": name, "value": 0.5},
            {"round": 11, "name": "another", "value": 1.0},
        ]
    )
    run = SimpleNamespace(
        meta={"utility": {"chance": 0.1}, "distance": distance}, table=lambda *_: lines
    )
    final = Estimate(0.2, low, 0.3, 100, "test unit", "student")
    up = gained(BASE, 0.2).meaning
    assert bool(why_dead(run, up, final)) == dead
    error = gained(BASE, 0.2, "eer").meaning
    run.meta["utility"]["chance"] = 0.3
    at_chance = Estimate(0.2, 0.1, 0.3, 100, "test unit", "student")
    assert why_dead(run, error, at_chance)


@pytest.mark.parametrize("what", ["constant", "raw", "untrained"])
def test_a_run_is_dead_where_no_training_gets_as_far(what):
    """An untrained net, one answer for all, the inputs themselves: whichever is the best."""
    about = {"chance": 0.1, "untaught": {what: 0.25}}
    run = SimpleNamespace(meta={"utility": about, "distance": ""}, table=lambda *_: [])
    up = gained(BASE, 0.2).meaning
    for low, dead in ((0.25, True), (0.26, False)):
        assert (
            bool(why_dead(run, up, Estimate(0.3, low, 0.35, 100, "test unit", "student"))) == dead
        )
    error = gained(BASE, 0.2, "eer").meaning
    about["chance"] = 0.5
    for high, dead in ((0.25, True), (0.24, False)):
        final = Estimate(0.2, 0.1, high, 100, "test unit", "student")
        assert bool(why_dead(run, error, final)) == dead


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([("loss", 1, 2.3), ("loss", 9, 23.1)], "its training loss was 2.3 in round 1"),
        ([("loss", 1, 2.3), ("loss", 9, 22.9)], ""),
        ([("loss", 1, 0.0), ("loss", 9, 9.9)], ""),  # a hinge with nothing to do at first
        ([("loss", 1, 0.0), ("loss", 9, 10.1)], "its training loss was 0 in round 1"),
        # What pushes clients apart is there from round 2 on, and is no running away.
        ([("loss", 1, 0.4), ("loss", 2, 2.0), ("loss", 9, 13.6)], ""),
        (
            [("loss", 1, 0.4), ("loss", 2, 2.0), ("loss", 9, 20.1)],
            "its training loss was 2 in round 2",
        ),
        # Later rounds excuse nothing, and the last one not itself.
        ([("loss", 1, 0.4), ("loss", 3, 9.0), ("loss", 9, 13.6)], "its training loss was 0.4"),
        ([("loss", 1, 0.4), ("loss", 2, 13.6)], "its training loss was 0.4 in round 1"),
        # Round 1 had run away already: nothing to compare it with but who answers all alike.
        (
            [("loss", 1, 7e9), ("loss", 9, 2e9), ("global_loss", 9, 2e9)],
            "its model's loss is 2e+09",
        ),
        ([("global_loss", 9, 23.1)], "its model's loss is 23.1"),
        ([("global_loss", 9, 23.0)], ""),
    ],
)
def test_a_run_whose_loss_ran_away_is_dead_whatever_it_still_answers_right(lines, says):
    table = [{"name": name, "round": t, "value": value} for name, t, value in lines]
    about = {"utility": {"chance": 0.1}, "distance": "", "facts": {"classes": 10}}
    run = SimpleNamespace(meta=about, table=lambda *_: table)
    alive = Estimate(0.45, 0.4, 0.5, 100, "test unit", "student")
    why = why_dead(run, gained(BASE, 0.2).meaning, alive)
    assert bool(why) == bool(says)
    assert not why or reason_text(why).startswith(says)


def test_names_of_settings_are_told_apart_and_short():
    def of(task="t", wrappers=(), **params):
        return Configuration(
            task=task, defense="mine", params=params, wrappers=[{"name": w} for w in wrappers]
        )

    a, b, c = of(x=1, y=0.25), of(x=2, y=0.25), of(x=1, y=0.25, wrappers=["clip", "noise"])
    names = setting_names([a, b, c], {})
    assert [str(names[s.key]) for s in (a, b, c)] == [
        "mine x 1",
        "mine x 2",
        "mine x 1 + clip + noise",
    ]
    long = [of(x="z" * 24), of(x="z" * 25), of(x=0.123456789)]
    names = setting_names(long, {})
    assert [str(names[s.key]) for s in long] == [
        f"mine x {'z' * 24}",
        f"mine x {'z' * 23}…",
        "mine x 0.123457",
    ]
    many = [of(**{f"p{i}": f"{v}{'q' * 20}" for i in range(9)}) for v in "ab"]
    assert {len(str(replace(n, mark=""))) for n in setting_names(many, {}).values()} == {120}
    twice = [of(x="z" * 30 + "1"), of(x="z" * 30 + "2")]
    told = {*setting_names(twice, {}).values()}
    assert len(told) == 2
    assert all(len(n.mark) == 4 for n in told)


def test_wrappers_are_told_apart_by_what_differs():
    def of(**params):
        made = [{"name": "clip_noise", "params": {"kinds": ["update"], **params}}]
        return Configuration(task="t", defense="mine", params={}, wrappers=made)

    two = [of(clip=1.0, noise=0.001), of(clip=1.0, noise=0.1)]
    names = setting_names(two, {})
    assert [str(names[s.key]) for s in two] == ["mine + clip_noise 0.001", "mine + clip_noise 0.1"]
    both = [*two, of(clip=5.0, noise=0.1)]
    names = setting_names(both, {})
    assert str(names[both[-1].key]) == "mine + clip_noise clip 5, noise 0.1"
    alone = of(clip=1.0, noise=0.001)
    assert str(setting_names([alone], {})[alone.key]) == "mine + clip_noise"


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("FedAvg, momentum", "FedAvg, momentum 0.9, nesterov true"),
        ("momentum", "momentum 0.9, nesterov true"),
        ("FedAvg", "FedAvg momentum 0.9, nesterov true"),
        (" ", "momentum 0.9, nesterov true"),
    ],
)
def test_the_last_word_of_a_title_is_not_said_twice(title, expected):
    one = Configuration(task="t", defense="mine", params={"momentum": 0.9, "nesterov": True})
    other = Configuration(task="t", defense="mine", params={"momentum": 0.9, "nesterov": False})
    about = Method("mine", {"title": title, "principal": ["momentum"]})
    assert str(setting_names([one, other], {"mine": about})[one.key]) == expected


def test_a_claim_comes_back_from_its_cells():
    for one in (Claim(value=0.5, low=0.4, high=0.6, source="x"), None):
        assert claimed_in(claim_cells(one)) == one
    bare = Claim(value=0.0, low=None, high=None, source="x")
    assert claim_cells(bare)["claimed"] == 0.0
    assert claimed_in(claim_cells(bare)) == bare
