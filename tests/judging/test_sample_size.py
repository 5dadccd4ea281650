"""How many seeds, clients and units would settle it, and what a pick costs, worked by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from helpers.report_data import gained, runs_of
from helpers.verdicts import at, by, case, change, judged, known, number, question, text_of
from scipy.stats import binomtest, t

from leakbench.base.reason import in_words, reason
from leakbench.judging.acquittal import doubts, open_share
from leakbench.judging.evidence import Evidence
from leakbench.judging.judging import _audited, _because, _present, _Reasons, _Why
from leakbench.judging.sample_size import clusters_needed, seeds_needed
from leakbench.judging.verdict import judge_evidence
from leakbench.metrics import images
from leakbench.results.number import Missing, Power, Unit
from leakbench.statistics.multiplicity import bonferroni
from leakbench.words import amounts
from leakbench.words.headlines import _keeps, lede
from leakbench.words.verdicts import more_units, sentence

EDGE = number(0.0).blind + number(0.0).meaning.matters


def power(clusters, needed=1, **more):
    about = {"shown": True, "beyond": False, "unsettled": 0, "as_good": 0}
    return Power(clusters=clusters, needed=needed, **about | more)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_interval_of_one_that_was_picked_is_wider_on_both_sides(count):
    row = change(number(0.5, n=10), value=number(0.5).value)
    row = change(row, value=change_of(row.value, n=10, low=0.4, high=0.7, interval="student"))
    wider = t.ppf(1 - 0.025 / count, 9) / t.ppf(0.975, 9)
    got = bonferroni(row.value, count)
    assert (got.low, got.high) == pytest.approx((0.5 - wider * 0.1, 0.5 + wider * 0.2))
    assert bonferroni(row.value, 1) == row.value
    sure = change(row, value=change_of(row.value, interval="exact"))
    assert bonferroni(sure.value, count) == sure.value


def change_of(estimate, **more):
    return type(estimate)(**{**vars(estimate), **more})


@pytest.mark.parametrize(("hits", "n"), [(0, 20), (20, 20), (7, 20), (1, 2)])
def test_of_a_share_it_is_never_narrower_than_clopper_and_pearsons(hits, n):
    own = binomtest(hits, n).proportion_ci(0.95, "exact")
    row = number(hits / n, n=n, low=own.low, high=own.high)
    wide = binomtest(hits, n).proportion_ci(1 - 0.05 / 3, "exact")
    wider = t.ppf(1 - 0.025 / 3, n - 1) / t.ppf(0.975, n - 1)
    share, got = hits / n, bonferroni(row.value, 3)
    low = min(share - wider * (share - own.low), wide.low)
    high = max(share + wider * (own.high - share), wide.high)
    assert (got.low, got.high) == pytest.approx((max(low, 0.0), min(high, 1.0)), abs=1e-12)


@pytest.mark.parametrize(
    ("row", "seeds", "more"),
    [
        # Held at 0.06: (0.09 - 0.02) / (0.06 - 0.02) = 1.75, and 3 * 1.75 ** 2 = 9.2.
        (number(0.02, low=0.0, high=0.09, floor_high=0.05), 3, 7),
        (number(0.02, low=0.0, high=0.09, floor_high=0.05), 1, 3),
        (number(0.02, low=0.0, high=0.09, floor_high=0.05), 0, 3),
        # In part above 0.05: (0.2 - 0.02) / (0.2 - 0.05) = 1.2, and 4 * 1.2 ** 2 = 5.8.
        (number(0.2, low=0.02, high=0.4, floor_high=0.05), 4, 2),
        # At the very edge of what may be called held nothing brings it within.
        (number(EDGE, low=0.0, high=0.09, floor_high=EDGE), 3, None),
        (number(0.061, low=0.0, high=0.09, floor_high=0.07), 3, None),
    ],
)
def test_seeds_needed_by_hand(row, seeds, more):
    assert seeds_needed(row, seeds) == more


def test_clusters_needed_by_hand():
    assert clusters_needed(number(0.02)) is None
    few = change(number(0.02), power=power(3, 8))
    assert clusters_needed(few) == 8
    # Nothing found in any of n: the limit 1 - 0.025 ** (1 / n) must be below the floor and margin.
    none = change(number(0.0, low=0.0, high=0.1, floor=0.01), power=power(30))
    n = clusters_needed(none)
    assert 1 - 0.025 ** (1 / n) <= 0.01 + 0.05 < 1 - 0.025 ** (1 / (n - 1))
    # Else by the square root: 30 * 1.75 ** 2 = 91.9, and 30 * 1.2 ** 2 = 43.2.
    near = change(number(0.02, low=0.0, high=0.09, floor_high=0.05), power=power(30))
    assert clusters_needed(near) == 92
    far = change(number(0.2, low=0.02, high=0.4, floor_high=0.05), power=power(30))
    assert clusters_needed(far) == 44
    edge = change(number(EDGE, low=0.0, high=0.09, floor_high=EDGE), power=power(30))
    assert clusters_needed(edge) is None


def lacking(clusters=15, audited=5, present=None, targets=None, seeds=3):
    """What more than 15 clusters of three seeds are needed for: 46, or 16 a round."""
    row = change(number(0.02, low=0.0, high=0.09, floor_high=0.05), power=power(clusters))
    if targets is not None:
        row = change(row, attacker=change(row.attacker, params={"targets": targets}))
    evidence = case(row, audited=audited, present=present, seeds=seeds)
    return more_units(evidence, evidence.attacks[0])


def test_more_units_are_asked_of_what_limits_them():
    # 15 * 1.75 ** 2 = 45.9: 46 in three seeds, 16 a round of each.
    told = lacking()
    assert "record.audited=16" in told
    assert "targets" not in told
    assert "5 clients a round were audited, 16 are needed" in told
    assert lacking(audited=6) == ""  # five of six that were recorded: neither limits them
    both = lacking(targets=5)
    assert "record.audited=16" in both
    assert "unmix.targets=16" in both
    alone = lacking(audited=40, targets=5)
    assert "record.audited" not in alone
    assert "5 clients a round were attacked, 16 are needed" in alone
    assert "targets=16" in alone
    assert lacking(audited=None, targets=6) == ""
    assert lacking(audited=None, targets=16) == ""
    # No more than eight take part: 46 / 8 makes six seeds.
    some = lacking(present=8)
    assert "record.audited=8" in some
    assert "take 6 seeds" in some
    assert "train 6 seeds" not in some
    assert "train 10 seeds" in lacking(present=5)
    enough = change(number(0.02, low=0.0, high=0.05), power=power(15))
    assert more_units(case(enough, audited=5), enough) == ""
    # One seed: as many a round as there are to be.
    assert "record.audited=46" in lacking(audited=15, seeds=1)


def test_an_attack_acquits_only_if_one_alone_works():
    weak = number(0.01, control=0.3, width=0.01)  # half way to all there is would be 0.505
    strong = by(number(0.01, width=0.01), "cascade")
    evidence = case(weak, cascade=strong)
    assert [d.lack for d in doubts(evidence, (weak,))] == ["control"]
    assert doubts(case(change(weak, control=strong.control), cascade=strong), (strong,)) == ()
    # Where the paper's own alone counts, what is made of all must work.
    paper = number(0.01, "paper", width=0.01)
    made = change(case(paper, cascade=strong), any_attack=None)
    assert doubts(made, (paper,)) == ()
    made = change(case(paper, cascade=change(weak, attacker=strong.attacker)), any_attack=None)
    assert [d.lack for d in doubts(made, (paper,))] == ["control"]


def test_the_share_of_open_units_counts_failed_and_unsettled():
    row = change(number(0.01, failed=3, tried=40), power=power(10, unsettled=5))
    assert open_share(row) == pytest.approx(8 / 40)
    assert open_share(change(row, power=None)) == pytest.approx(3 / 40)
    assert open_share(number(0.01)) == 0.0


def facts(clients=None, fraction=None, **record):
    made = known("a")
    told = {} if clients is None else {"facts": {"clients": clients}}
    told |= {"spec": {"record": record}}
    if fraction is not None:
        made = change(made, configuration=change(made.configuration, params={"fraction": fraction}))
    return change(made, runs=runs_of(r.meta | told for r in made.runs))


def test_how_many_take_part_and_are_recorded_whole():
    assert _present(facts(20)) == 20
    assert _present(facts(20, 0.1)) == 2
    assert _present(facts(5, 0.1)) == 1  # somebody does
    assert _present(facts()) is None
    assert _present(change(known("a"), runs=())) is None
    assert _audited(facts(20, name="standard", audited=7)) == 7
    assert _audited(facts(20, name="all", audited=7)) is None
    assert _audited(facts(20, name="standard")) is None
    runs = [
        *facts(20, name="standard", audited=7).runs,
        *facts(20, name="standard", audited=3).runs,
    ]
    assert _audited(change(known("a"), runs=runs_of(r.meta for r in runs))) == 3


def test_two_reasons_are_told():
    three = tuple(map(in_words, ("One.", "Two.", "Three.")))
    assert _because(_Why(three)) == three[:2]
    assert amounts.lacking(Evidence(meaning=images.LPIPS.meaning, reasons=three[:2])) == "One. Two"
    assert _because(_Why()) == (reason("none_fits"),)


def test_nine_tenths_of_what_an_error_rate_leaves():
    base = known("a").configuration
    free = gained(base, 0.1, "eer")  # 0.9 are right, so that 0.81 keep nine tenths of it
    assert _keeps(gained(base, 0.18, "eer"), free)
    assert not _keeps(gained(base, 0.2, "eer"), free)
    assert _keeps(gained(base, 0.45), gained(base, 0.5))
    assert not _keeps(gained(base, 0.44), gained(base, 0.5))


def test_an_error_rate_is_not_called_a_gain():
    def useful(name, error, **more):
        one = judged("leaks", name, **more)
        own = (gained(one.setting.configuration, error, "eer", 0.5),)
        return change(one, setting=change(one.setting, utility=own))

    q = question(useful("FedAwS", 0.1, reference=True), useful("a", 0.3))
    assert text_of(lede(q)) == (
        "No defense setting keeps nine tenths of what FedAwS, which hides nothing, gets right."
    )


@pytest.mark.parametrize(("clients", "told"), [(7, True), (20, False)])
def test_a_client_of_three_seeds_is_one_client(clients, told):
    one = judged("leaks", "a")
    units = tuple(Unit(f"client/{c}", f"client/{c}", 1.0, False, False) for c in range(clients))
    parts = (SimpleNamespace(units={"attack": units}),) * 3
    worst = change(one.verdict.worst, power=power(3 * clients), parts=parts)
    one = change(one, verdict=change(one.verdict, worst=worst))
    said = f"The verdict rests on {clients} clients and 3 seeds."
    assert text_of(lede(question(one))) == said * told


@pytest.mark.parametrize(("paper", "told"), [(0.85, False), (0.84, False), (0.83, True)])
def test_who_looks_safest_is_told_from_two_margins_on(paper, told):
    q = question(judged("leaks", "a", paper=paper), judged("leaks", "b", paper=0.9))
    assert ("looks safest" in text_of(lede(q))) == told


def test_the_papers_own_attack_is_not_set_against_itself():
    alone = case(number(0.9, "paper"), cascade=None)
    assert judge_evidence(alone).rule == 5
    assert "paper's own attack names" not in sentence(alone, judge_evidence(alone))


def test_a_metric_that_falls_has_its_edges_turned():
    far = {"floor": 0.6, "control": 0.01, "metric": images.LPIPS}
    row = number(0.58, low=0.5, high=0.66, floor_low=0.55, **far)
    matters = images.LPIPS.meaning.matters
    ratio = (0.58 - 0.5) / (matters - 0.02)  # the better end, against floor and margin
    assert seeds_needed(row, 3) == max(1, math.ceil(3 * ratio**2) - 3)
    assert at(row, 0.6, 0.6, 0.6).excess < 0


@pytest.mark.parametrize(("copies", "rule"), [(1, 8), (149, 8), (150, 5)])
def test_copies_accuse_where_no_attack_counts(copies, rule):
    """By another metric of the question; half of the units are most of what there is."""
    weak = number(0.02, flags=["control_failed"])
    copied = change(number(0.3, n=300), power=power(9, as_good=copies))
    verdict = judge_evidence(case(weak, beside=(copied,)))
    assert (verdict.reached, verdict.rule) == (None, rule)
    assert verdict.word == {8: "leaks in part", 5: "leaks"}[rule]


def test_why_a_setting_lacks_a_number_is_found_by_the_attack_that_measures_it():
    here = change(known("a"), numbers=(number(0.3, attack="unmix"),))
    there = known("b")

    def lacks(attack, why, **more):
        about = {"configuration": there.configuration, "attack": attack, "reason": why}
        return Missing(metric="", **about, **more)

    asks = question()
    broken = reason("failed", text="no memory")
    failed = lacks("unmix", broken)
    why = _Reasons([here], [failed]).of(there, asks)
    assert why.reasons == (broken,)
    assert len(why.gone) == 1
    other = change(here, numbers=(number(0.3, attack="turn", metric=images.LPIPS),))
    why = _Reasons([here, other], [lacks("turn", broken)]).of(there, asks)
    assert (why.reasons, why.gone) == ((), ())  # it asks another question
    why = _Reasons([here], [lacks("new", broken)]).of(there, asks)
    assert len(why.gone) == 1  # it may have asked any
    why = _Reasons([here], [lacks("unmix", "failed in my words")]).of(there, asks)
    assert (why.reasons, why.gone) == ((in_words("failed in my words"),), ())
    assert _Reasons([here], [failed]).of(here, asks).reasons == ()
