"""The verdict table, rule by rule, its sentences at 0, 1 and n, and the headline."""

from __future__ import annotations

import re

import pytest
from helpers.report_data import runs_of
from helpers.verdicts import asked, at, case, change, judged, known, number, question, text_of
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from leakbench import metrics
from leakbench.attacking.metric import Metric
from leakbench.base.reason import in_words
from leakbench.base.reason_words import reason_text
from leakbench.federation.utility import METRICS as UTILITIES
from leakbench.judging.evidence import Evidence
from leakbench.judging.gaps import unread
from leakbench.judging.judging import _sends_kind
from leakbench.judging.sample_size import seeds_needed
from leakbench.judging.verdict import judge_evidence
from leakbench.metrics import context, images, topics
from leakbench.metrics.prototypes import P_LEAK, PROTOTYPE_COSINE
from leakbench.results.number import Power
from leakbench.statistics.multiplicity import bonferroni
from leakbench.words.amounts import count, plural, value_text
from leakbench.words.headlines import headline, lede, other_questions, unattacked, with_words
from leakbench.words.verdict_counts import counts, unjudged
from leakbench.words.verdicts import sentence


def words_of(reasons):
    return list(map(reason_text, reasons))


def said(c):
    return sentence(c, judge_evidence(c))


def test_rule_1_sends_nothing_of_the_kind():
    c = case(kind="prototype", sends=("update",), sends_kind=False)
    assert judge_evidence(c).rule == 1
    assert said(c) == "Sends no prototype: nothing for this attack to read. Judge it by its update."
    assert said(change(c, sends=("features", "labels", "update"))).endswith(
        "Judge it by its features, labels and update."
    )


def test_rule_2_not_attacked_says_why():
    c = case(reasons=(in_words("its prediction was over ten minutes"),))
    assert judge_evidence(c).rule == 2
    assert (
        said(c)
        == "Not attacked: its prediction was over ten minutes. Nothing is known about its leakage."
    )


def test_rule_3_dead_only_if_every_seed_is():
    c = case(number(0.9), dead_seeds=3, dead_because="accuracy 0.100 is not beyond chance (0.100)")
    assert judge_evidence(c).rule == 3
    assert said(c).startswith(
        "Dead run: accuracy 0.100 is not beyond chance (0.100). Its leakage says nothing about the"
        " method"
    )
    assert "It is not private either: an attacker names 90 of 100 clients on average." in said(c)
    assert "not private either" not in said(
        change(c, attacks=(number(0.01),), cascade=number(0.01), any_attack=number(0.01))
    )
    paper = case(number(0.9, "paper"), dead_seeds=3, dead_because="it did not learn")
    assert "It is not private either" in said(paper)
    some = change(c, dead_seeds=1)
    assert judge_evidence(some).rule == 5
    assert "1 of 3 seeds died." in said(some)


def test_rule_4_needs_a_control_that_succeeded():
    failed = number(0.02, flags=["control_failed"])
    assert judge_evidence(case(failed)).rule == 4
    # What is beyond the blind guess was found, whatever the control.
    assert judge_evidence(case(number(0.9, control=0.0, flags=["control_failed"]))).word == "leaks"
    assert judge_evidence(case(number(0.02, control=0.1))).rule == 4  # k - f = 0.09 < 2 * 0.05
    assert judge_evidence(case(number(0.02, control=0.12))).rule != 4
    text = said(case(number(0.02, control=0.05)))
    assert text.startswith(
        "Attack too weak to judge: even with nothing defended it names 5 of 100 clients on average;"
        " a blind guess names 1 of 100."
    )
    assert "This is not a sign of privacy." in text


def test_a_weak_attack_does_not_count_beside_a_strong_one():
    weak = number(0.02, attack="weak", flags=["control_failed"])
    c = case(weak, number(0.012, width=0.012), worst=number(0.012, attack="any_attack"))
    verdict = judge_evidence(c)
    assert [a.attacker.name for a in verdict.counting] == ["unmix"]
    assert "1 of 2 attacks was too weak and does not count." in said(c)


def test_rule_5_low_at_least_half_way():
    half = 0.01 + (1.0 - 0.01) / 2
    assert judge_evidence(case(number(0.6, low=half))).rule == 5
    assert judge_evidence(case(number(0.6, low=half - 1e-6))).rule == 8
    c = case(
        number(0.04, "paper", "nearest"), number(0.94), worst=number(0.97, attack="any_attack")
    )
    assert (
        said(c)
        == "Leaks: an attacker names 94 of 100 clients on average, at worst 97 of 100. A blind"
        " guess names 1 of 100. Its paper's own attack names 4 of 100."
    )


def test_accuses_with_the_best_single_attack_if_it_beats_the_cascade():
    c = case(
        number(0.9, attack="a"), number(0.2, attack="b"), cascade=number(0.2, attack="cascade")
    )
    verdict = judge_evidence(c)
    assert verdict.rule == 5
    assert verdict.reached.attacker.name == "a"


def test_the_best_of_several_attacks_pays_for_having_been_picked():
    row = number(
        0.5,
        n=40,
        low=binomtest(20, 40).proportion_ci().low,
        high=binomtest(20, 40).proportion_ci().high,
    )
    wide = binomtest(20, 40).proportion_ci(1 - 0.05 / 4)
    assert bonferroni(row.value, 1) == row.value
    assert bonferroni(row.value, 4).low == pytest.approx(wide.low, abs=0.015)
    assert bonferroni(row.value, 4).low <= wide.low
    close = number(0.58, attack="a", low=0.506, n=60)
    others_ = [number(0.02, attack=f"b{i}", width=0.02) for i in range(3)]
    assert judge_evidence(case(close, cascade=number(0.02, attack="cascade"))).rule == 5
    assert judge_evidence(case(close, *others_, cascade=number(0.02, attack="cascade"))).rule == 8


@pytest.mark.parametrize(("value", "rule"), [(0.9, 5), (0.2, 6), (0.0, 6)])
def test_rule_6_only_the_papers_own_attack(value, rule):
    c = case(number(value, "paper"), cascade=None)
    assert judge_evidence(c).rule == rule
    if rule == 6:
        assert said(c).startswith(
            f"Cannot tell: only the paper's own attack was tried; it names {count(value, 100)}"
            " clients"
        )


def test_paper_alone_is_said_to_count_where_others_were_too_weak():
    c = Evidence(
        meaning=P_LEAK.meaning,
        attacks=(number(0.2, "paper"), number(0.02, flags=["control_failed"])),
        any_attack=number(0.2, "paper", "any_attack"),
        seeds=3,
    )
    assert "only the paper's own attack counts" in said(c)


def test_rule_7_held_by_the_upper_bound_of_every_attack():
    fine = number(0.01, low=0.0, high=0.05)
    c = case(fine, number(0.02, attack="b", low=0.0, high=0.06))
    assert judge_evidence(c).rule == 7
    assert (
        said(c)
        == "Held on this question against the 2 attacks tried: at worst 2 of 100 clients on average"
        " (0 of 100 to 6 of 100 with 95 % confidence); a blind guess names 1 of 100. Other"
        " attacks may do better."
    )
    assert judge_evidence(case(fine, number(0.02, attack="b", low=0.0, high=0.0601))).rule == 9
    # Nothing is acquitted without the upper bound.
    assert judge_evidence(change(c, any_attack=None)).rule == 9


def test_copies_that_raise_the_floor_of_any_attack_acquit_nobody():
    row = number(0.15, low=0.005, high=0.2)
    c = case(row, worst=number(0.15, attack="any_attack", low=0.1, high=0.2, floor=0.2))
    assert judge_evidence(c).rule == 9


def test_held_is_refused_where_the_low_is_beyond_the_floor():
    assert judge_evidence(case(number(0.03, low=0.02, high=0.05))).rule == 8


@pytest.mark.parametrize(("failed", "rule"), [(0, 7), (30, 7), (31, 9)])
def test_more_than_a_tenth_failed_is_no_acquittal(failed, rule):
    c = case(number(0.01, low=0.0, high=0.05, failed=failed, tried=300))
    assert judge_evidence(c).rule == rule


def test_rule_8_in_part():
    c = case(
        number(0.38, "paper"), number(0.54, width=0.06), worst=number(0.62, attack="any_attack")
    )
    assert judge_evidence(c).rule == 8
    assert said(c).startswith(
        "Leaks in part: an attacker names 54 of 100 clients on average, at worst 62 of 100. "
        "A blind guess names 1 of 100, with nothing defended it is 100 of 100."
    )


def test_rule_9_says_what_would_settle_it():
    c = case(number(0.03, low=0.005, high=0.09))
    assert judge_evidence(c).rule == 9
    # (0.09 - 0.03) / (0.06 - 0.03) = 2 for held; (0.03 - 0.005) / (0.03 - 0.01) = 1.25 for in part:
    # 3 * 1.25 ** 2 - 3 = 1.7
    assert said(c).startswith(
        "Cannot tell: between fewer than 1 of 100 and 9 of 100 with 95 % confidence, n = 300. About"
        " 2 more seeds would settle it."
    )
    assert seeds_needed(number(0.03, low=0.029, high=0.5), c.seeds) == 1
    assert seeds_needed(number(0.07, low=0.005, high=0.09, floor_high=0.08), c.seeds) is None


def test_less_is_more_for_distances_and_counts():
    far = {"floor": 0.6, "control": 0.01, "metric": images.LPIPS}
    near = number(0.1, low=0.08, high=0.12, **far)
    c = case(near, metric=images.LPIPS)
    assert near.best == -0.05  # as good as the original, not better
    assert judge_evidence(c).rule == 5
    assert judge_evidence(case(at(near, 0.6, 0.58, 0.62), metric=images.LPIPS)).rule == 7
    needed = {"floor": 1000, "control": 8, "metric": context.SAMPLES_TO_90}
    samples = number(64, "public", "ctx", low=40, high=88, **needed)
    # Half way on logarithms: 89.
    assert judge_evidence(case(samples, metric=context.SAMPLES_TO_90)).rule == 5
    assert judge_evidence(case(at(samples, 64, 40, 91), metric=context.SAMPLES_TO_90)).rule == 8


def test_open_ended_metrics_cap_the_control():
    row = number(40.0, low=38.0, high=42.0, floor=12.0, control=78.0, metric=images.PSNR)
    assert judge_evidence(case(row, metric=images.PSNR)).rule == 5
    assert "rebuilds images to 40.0 dB" in said(case(row, metric=images.PSNR))
    assert judge_evidence(case(at(row, 18.0, 16.0, 20.0), metric=images.PSNR)).rule == 8


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 of 100"),
        (0.004, "fewer than 1 of 100"),
        (0.01, "1 of 100"),
        (0.94, "94 of 100"),
        (0.999, "more than 99 of 100"),
        (1.0, "100 of 100"),
    ],
)
def test_none_and_all_only_if_exact(value, text):
    assert count(value, 100) == text


def test_a_half_goes_up_and_is_never_told_as_less():
    halves = [(h + 0.5) / 10 for h in range(10)]
    told = ["fewer than 1 of 10", *(f"{h + 1} of 10" for h in range(1, 9)), "more than 9 of 10"]
    assert [count(v, 10) for v in halves] == told
    assert count(0.145, 100) == "15 of 100"  # the product of floats is a little below 14.5


def test_a_whole_of_one_unit_has_no_fraction():
    assert [count(v, 1) for v in (0.0, 0.5, 0.7, 1.0)] == [
        "0 of 1",
        "fewer than 1 of 1",
        "fewer than 1 of 1",
        "1 of 1",
    ]
    c = case(number(1.0, n=1), seeds=1)
    assert value_text(c, c.attacks[0], 1.0, full=True) == "1 of 1 client"


@given(st.floats(0, 1), st.integers(1, 500))
def test_a_count_never_overstates(value, whole):
    text = count(value, whole)
    assert (text == f"0 of {whole}") == (value <= 1e-9)
    assert text != f"{whole} of {whole}" or value >= 1 - 1e-9


def test_numbers_are_never_a_bare_or_negative_zero():
    assert PROTOTYPE_COSINE.meaning.text(-0.001) == "0.00"
    assert P_LEAK.meaning.text(0.001) == "under 0.01"
    assert P_LEAK.meaning.text(0.0) == "0.00"
    assert images.PSNR.meaning.text(46.23) == "46.2 dB"


@pytest.mark.parametrize(
    ("failed", "text"),
    [
        (0, None),
        (1, "The attack failed on 1 client; it is counted as not named."),
        (7, "The attack failed on 7 of 300 clients; they are counted as not named."),
    ],
)
def test_failed_units_are_said(failed, text):
    c = case(number(0.9, failed=failed, tried=300))
    assert (text in said(c)) if text else ("failed" not in said(c))


def test_additions_one_seed_oracle_weights():
    c = case(number(0.2, "paper", flags=["oracle_prototypes"]), cascade=None, seeds=1)
    assert "One seed only: the interval does not cover how training runs differ." in said(c)
    assert "This attack is given the true prototypes; without it: not measured." in said(c)
    assert "without it: 10 of 100 clients on average." in said(change(c, public=number(0.1)))
    assert "weights not found (`leakbench doctor`)" in said(
        change(c, unmeasured=("LPIPS of the reconstruction",))
    )
    assert "on average" not in said(c)


def test_the_papers_gap_is_not_said_below_two_margins_or_where_it_held():
    assert "paper's own" not in said(case(number(0.85, "paper"), number(0.94)))
    assert "paper's own" in said(case(number(0.83, "paper"), number(0.94)))
    held = case(number(0.01, "paper", low=0.0, high=0.04), number(0.01, low=0.0, high=0.04))
    assert judge_evidence(held).rule == 7
    assert "paper's own" not in said(held)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.floats(0, 0.3),
            st.sampled_from(["paper", "transcript", "method", "public"]),
        ),
        max_size=4,
    ),
    st.integers(0, 3),
)
def test_every_case_has_a_verdict_and_a_sentence(rows, dead):
    attacks = [number(v, rung, f"a{i}", width=w) for i, (v, w, rung) in enumerate(rows)]
    c = case(
        *attacks,
        dead_seeds=dead,
        dead_because="accuracy 0.1 is not beyond chance (0.1)",
        reasons=(in_words("nobody did"),),
    )
    verdict = judge_evidence(c)
    text = sentence(c, verdict)
    assert text.endswith(".")
    assert "nan" not in text.lower()
    assert not re.search(r"(?<!not )\b(private|safe|secure)\b", text)
    if verdict.rule == 7:
        assert all(a.value.high <= a.floor.value + 0.05 + 1e-9 for a in verdict.counting)
        assert any(a.attacker.rung != "paper" for a in verdict.counting)


# the headline


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "Nothing here can be judged: no setting is here."),
        (["none", "none"], "Nothing here can be judged: 2 not attacked."),
        (["leaks"], "The one defense setting judged leaks most of what there is to leak."),
        (["part"], "The one defense setting judged leaks in part."),
        (["held"], "The one defense setting judged held against every attack on prototypes tried."),
        (
            ["leaks", "leaks"],
            (
                "Both defense settings leak most of what there is to leak. None held against every"
                " attack tried."
            ),
        ),
        (
            ["leaks", "part"],
            (
                "1 of 2 defense settings leaks most of what there is to leak, 1 in part. None held"
                " against every attack tried."
            ),
        ),
        (
            ["leaks", "leaks", "part"],
            (
                "2 of 3 defense settings leak most of what there is to leak, 1 in part. None held"
                " against every attack tried."
            ),
        ),
        (
            ["part", "part"],
            (
                "None of 2 defense settings is shown to give away most of it; 2 leak in part. None"
                " held against every attack tried."
            ),
        ),
        (
            ["part", "held"],
            (
                "None of 2 defense settings is shown to give away most of it; 1 leaks in part. The"
                " only one that held has accuracy 0.500."
            ),
        ),
        (
            ["held", "held"],
            (
                "None of 2 defense settings leaked to the attacks on prototypes tried here. The"
                " best of the 2 that held has accuracy 0.500."
            ),
        ),
    ],
)
def test_headline(words, expected):
    assert (
        text_of(headline(question(*(judged(w, f"s{i}") for i, w in enumerate(words))))) == expected
    )


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (
            ["leaks", "none"],
            (
                "The one of 2 defense settings that could be judged leaks most of what there is to"
                " leak; left open: 1 not attacked."
            ),
        ),
        (
            ["held", "none", "none"],
            (
                "The one of 3 defense settings that could be judged held against every attack"
                " on prototypes tried; left open: 2 not attacked."
            ),
        ),
        (
            ["part", "part", "none"],
            (
                "None of the 2 that could be judged of 3 defense settings is shown to give away"
                " most of it; 2 leak in part; left open: 1 not attacked. "
            ),
        ),
        (
            ["held", "held", "none"],
            (
                "None of the 2 that could be judged of 3 defense settings leaked to the attacks"
                " on prototypes tried here; left open: 1 not attacked. "
            ),
        ),
        (
            ["leaks", "leaks", "none"],
            "2 of 3 defense settings leak most of what there is to leak; left open: 1 not attacked",
        ),
        (["leaks", "held", "none"], " most of what there is to leak; left open: 1 not attacked. "),
    ],
)
def test_the_first_sentence_says_of_how_many_and_who_is_left_open(words, first):
    every = [judged(w, f"s{i}") for i, w in enumerate(words)]
    reference = judged("none", "FedAvg", reference=True)
    assert first in text_of(headline(question(*every, reference)))


def test_headline_without_any_attack():
    assert (
        text_of(unattacked(())) == "No attack has been run: this report says nothing about privacy."
    )


def test_references_and_dead_settings_are_not_counted_among_the_defenses():
    q = question(
        judged("leaks", "FedAwS", 0.58, reference=True),
        judged("leaks", "a"),
        judged("held", "b", 0.15),
        judged("leaks", "c", dead=1),
    )
    assert (
        text_of(headline(q))
        == "1 of 3 defense settings leaks most of what there is to leak; left open: 1 with a dead"
        " seed, which leaks. The only one that held has accuracy 0.150 where no hiding gives 0.580."
    )
    # The bar counts as the headline does, and names who is there besides.
    assert [(n, word) for _, n, word, _ in counts(q)] == [
        ("1,", "the reference and 1 with a dead seed leak"),
        ("0", "leak in part"),
        ("1", "held"),
        ("0", "cannot be judged"),
    ]


def told(*settings):
    """Headline, lede, and what the bar counts."""
    q = question(*settings)
    return text_of(headline(q)), text_of(lede(q)), [f"{n} {word}" for _, n, word, _ in counts(q)]


def test_a_method_that_hides_nothing_is_judged_by_itself():
    first, more, bar = told(judged("leaks", "FedAvg", reference=True))
    assert first == (
        "FedAvg leaks: an attacker names 94 of 100 clients on average, at worst 94 of 100. A blind"
        " guess names 1 of 100."
    )
    assert more == ""
    assert bar == ["1 leaks", "0 leak in part", "0 held", "0 cannot be judged"]


def test_what_hides_nothing_is_its_own_control():
    """All that is found is all there is: beyond the blind guess it leaks, and it never held."""
    some = case(number(0.3, low=0.06, control=0.3))
    assert judge_evidence(some).word == "leaks in part"
    assert judge_evidence(change(some, hides=False)).word == "leaks"
    assert judge_evidence(change(some, hides=False, dead_seeds=3)).word == "dead run"
    only = case(number(0.3, "paper", low=0.06, control=0.3))
    assert (
        judge_evidence(change(only, hides=False)).word == judge_evidence(only).word == "cannot tell"
    )
    little = case(number(0.012, width=0.012))
    assert judge_evidence(little).word == "held"
    none = change(little, hides=False)
    assert judge_evidence(none).word == "attack too weak"
    assert said(none).startswith(
        "Attack too weak to judge: even with nothing defended it names 1 of 100 clients on average;"
    )


def test_a_reference_that_nobody_found_anything_in_is_not_praised_for_it():
    first, more, bar = told(judged("held", "FedAvg", reference=True))
    assert first == "Nothing here can be judged: 1 attack too weak."
    assert more.startswith("FedAvg: Attack too weak to judge: even with nothing defended it names")
    assert more.endswith("This is not a sign of privacy.")
    assert bar == ["0 leak", "0 leak in part", "0 held", "1 cannot be judged"]


def test_references_are_counted_where_there_is_no_defense():
    two = (judged("leaks", "FedAvg", reference=True), judged("leaks", "FedSGD", reference=True))
    assert told(*two)[0] == "Both settings that hide nothing leak."
    assert told(*two)[2][0] == "2 leak"
    weak = judged("held", "FedProx", reference=True)
    assert told(*two, weak)[0] == "2 of 3 settings that hide nothing leak."


def test_a_dead_seed_is_a_reason_wherever_one_is_given():
    """A verdict with a dead seed is in no headline; why was an empty pair of brackets."""
    some = judged("leaks", "FedGN", dead=1)
    assert told(some)[0] == "Nothing here can be judged: 1 with a dead seed, which leaks."
    assert (
        unjudged([some, judged("none", "a")]) == "1 not attacked, 1 with a dead seed, which leaks"
    )
    dead = [judged("part", "b", dead=1), judged("part", "c", dead=2)]
    assert unjudged([some, *dead]) == "3 with a dead seed, of which 3 leak"
    assert told(some)[2][0] == " 1 with a dead seed leaks"


def test_a_reference_speaks_where_no_defense_can_be_judged():
    dead = judged("leaks", "FedGN", dead=3)
    first, _, bar = told(judged("leaks", "FedAvg", reference=True), dead)
    assert first.startswith("No defense setting here can be judged: 1 dead. FedAvg leaks: an")
    assert bar[0] == " the reference leaks"
    assert bar[3] == "1 cannot be judged"


def test_lede_names_what_looked_safest_and_what_leaks_least_and_stays_useful():
    q = question(
        judged("leaks", "FedAwS", 0.58, reference=True, paper=1.0),
        judged("leaks", "FedHide", 0.57, paper=0.04),
        judged("part", "FedGN", 0.56, paper=0.2),
        judged("held", "noise", 0.15),
    )
    assert (
        text_of(lede(q))
        == "FedHide looks safest by its own paper's test, which names 4 of 100 clients on average."
        " An attacker who knows the method names 94 of 100 (a blind guess 1 of 100). Of the"
        " settings that keep nine tenths of the accuracy of FedAwS, which hides nothing, FedGN"
        " leaks least: 30 of 100 clients on average at worst."
    )
    poor = question(judged("leaks", "FedAwS", 0.58, reference=True), judged("held", "noise", 0.15))
    keeps = "keeps nine tenths of the accuracy of FedAwS, which hides nothing."
    assert text_of(lede(poor)) == f"No defense setting {keeps}"
    poor = question(*poor.judged, judged("none", "FedCS", 0.57))
    assert text_of(lede(poor)) == f"No defense setting that was judged {keeps}"
    assert text_of(lede(question(judged("held", "noise", 0.15)))) == ""


@pytest.mark.parametrize(
    ("others", "looks"),
    [
        ((), "a was tested by its own paper's attack, which names 4"),
        ((("leaks", 0.2),), "a looks safest by its own paper's test, which names 4"),
        ((("leaks", 0.04),), "a is one of 2 that look safest by their own paper's test, which"),
        ((("leaks", 0.2), ("none", None)), "a looks safest of those judged by its own paper's"),
    ],
)
def test_who_looks_safest_is_said_of_whom(others, looks):
    """Not of one that nobody is beside; and where some are left open, of the others alone."""
    more = [judged(word, f"b{i}", paper=paper) for i, (word, paper) in enumerate(others)]
    assert text_of(lede(question(judged("leaks", "a", paper=0.04), *more))).startswith(looks)


def test_what_held_on_one_question_is_said_to_leak_on_another():
    one = judged("held", "a")
    q = question(one)
    bad = judged("leaks", "a")
    found = [change(bad, setting=one.setting)]
    other = asked(topics.IMAGES, images.IDENTIFICATION.meaning, found, probe=True)
    assert other_questions(q, [q, other], one) == ["On images, on probes: leaks."]
    sends = known("a", kinds=("prototype", "update", "model"))
    read = change(one.evidence, reads=("prototype",))
    both = question(change(one, setting=sends, evidence=read))
    assert other_questions(both, [both], both.judged[0]) == ["Its updates were not attacked."]


def test_but_by_probes_is_said_of_what_probes_read_and_of_nothing_else():
    sends = known("a", kinds=("update", "mean_data", "model"))
    one = judged("held", "a")
    mine = question(change(one, setting=sends, evidence=change(one.evidence, reads=())))
    seen = change(one, setting=sends, evidence=change(one.evidence, reads=("update",)))
    probes = asked(topics.IMAGES, images.IDENTIFICATION.meaning, [seen], probe=True)
    assert other_questions(mine, [mine, probes], mine.judged[0]) == [
        "Its updates were not attacked but by probes.",
        "Its mean data were not attacked.",
    ]


def test_every_metric_of_a_topic_has_words():
    ours = [getattr(metrics, name) for name in metrics.__all__]
    several = [m for found in ours if isinstance(found, tuple) for m in found]
    found = [m.meaning for m in (*ours, *several) if isinstance(m, Metric)]
    assert len(found) > 20
    assert all(m.topic and m.title and m.verb and m.about.endswith(".") for m in found)
    assert all(m.meaning.verb and m.meaning.about.endswith(".") for m in UTILITIES.values())
    assert plural(0, "seed") == "0 seeds"
    assert plural(1, "seed") == "1 seed"


def test_a_kind_that_nobody_read_is_a_gap_in_the_evidence():
    """The prototype is in the update, too: reading proxies alone acquits nobody."""
    sent = [
        {"kind": "prototype", "sender": "client", "receiver": "server"},
        {"kind": "update", "sender": "client", "receiver": "server"},
    ]
    base = known("a")
    base = change(base, runs=runs_of(r.meta | {"sent": sent} for r in base.runs))
    by = judged("held", "a").evidence.attacks
    proxies = [change(n, attacker=change(n.attacker, reads=("prototype",))) for n in by]
    updates = [change(n, attacker=change(n.attacker, reads=("update",))) for n in by]
    assert words_of(unread(topics.PROTOTYPES, base, proxies)) == [
        "its updates were not attacked for this"
    ]
    assert unread(topics.PROTOTYPES, base, [*proxies, *updates]) == ()
    summed = [{**sent[1], "receiver": "aggregator"}, sent[0]]
    hidden = change(base, runs=runs_of(r.meta | {"sent": summed} for r in base.runs))
    assert unread(topics.PROTOTYPES, hidden, proxies) == ()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"control": 0.02}, "attacked by none that works where nothing is defended"),
        ({"control": 0.3}, "attacked by none that works where nothing is defended"),
        ({"flags": ("control_failed",)}, "attacked by none that works where nothing is defended"),
        ({"rung": "paper"}, "attacked by the paper's own attack alone"),
        ({"observer": "client/9"}, "attacked by clients alone, who see less than the server"),
    ],
)
def test_a_kind_that_was_read_by_who_acquits_nobody_is_a_gap_as_well(more, why):
    """An attack that works on the proxies says nothing of the updates."""
    kinds = ("prototype", "update")
    sent = [{"kind": kind, "sender": "client", "receiver": "server"} for kind in kinds]
    base = known("a")
    base = change(base, runs=runs_of(r.meta | {"sent": sent} for r in base.runs))
    who = (more.pop("observer", "server"),)
    able, poor = number(0.01, width=0.01), number(0.01, width=0.01, attack="poor", **more)
    able = change(able, attacker=change(able.attacker, reads=("prototype",)))
    poor = change(poor, attacker=change(poor.attacker, reads=("update",), observer=who))
    assert words_of(unread(topics.PROTOTYPES, base, [able, poor])) == [f"its updates were {why}"]
    # Alone, the verdict itself says that it does not acquit; but for a client's.
    alone = [change(poor, attacker=change(poor.attacker, reads=kinds))]
    assert bool(unread(topics.PROTOTYPES, base, alone)) == ("client" in who[0])


def test_a_method_that_sends_prototypes_is_asked_of_them_whatever_it_calls_its_secrets():
    def sends(*kinds, secrets):
        base = known("a", kinds=kinds)
        return change(base, runs=runs_of(r.meta | {"secrets": secrets} for r in base.runs))

    assert _sends_kind(topics.PROTOTYPES, sends("prototype", "update", secrets=[]))
    assert not _sends_kind(topics.PROTOTYPES, sends("update", secrets=["other"]))
    assert _sends_kind(topics.PROTOTYPES, sends("update", secrets=["codeword"]))


def test_the_first_sentences_say_that_a_client_attacks():
    one = judged("leaks", "a", paper=0.1)
    got = one.verdict.reached
    got = change(got, attacker=change(got.attacker, observer=("client/9",)))
    one = change(one, verdict=change(one.verdict, reached=got))
    assert "An attacker who is client/9 (one of those who take part) names" in text_of(
        lede(question(one))
    )


def test_a_sentence_says_that_a_client_attacks():
    seen = number(0.94)
    curious = change(seen, attacker=change(seen.attacker, observer=("client/9",)))
    told = said(case(curious, worst=curious))
    assert told.startswith("Leaks: an attacker who is client/9 (one of those who take part) names")
    both = change(seen, attacker=change(seen.attacker, observer=("server", "client/9")))
    assert said(case(both, worst=both)).startswith("Leaks: an attacker names")


def fewer(judged_, clusters, seeds=3):
    """Whose worst case rests on so many clients, over so many seeds."""
    worst = judged_.verdict.worst
    power = Power(shown=True, beyond=True, clusters=clusters, needed=5, unsettled=0, as_good=0)
    worst = change(worst, power=power, seeds=tuple(range(seeds)))
    return judged_.model_copy(update={"verdict": change(judged_.verdict, worst=worst)})


@pytest.mark.parametrize(
    ("clusters", "seeds", "said_"),
    [
        (20, 2, ""),
        (19, 2, "The verdict rests on 19 clients and 2 seeds."),
        (100, 1, "The verdict rests on 100 clients and one seed."),
    ],
)
def test_how_little_a_verdict_rests_on_is_said_where_it_is_little(clusters, seeds, said_):
    assert text_of(lede(question(fewer(judged("leaks", "a"), clusters, seeds)))) == said_


def test_the_least_that_any_verdict_rests_on_is_said():
    q = question(fewer(judged("leaks", "a"), 40), fewer(judged("leaks", "b"), 7))
    assert text_of(lede(q)) == "The verdicts rest on as few as 7 clients and 3 seeds."


@pytest.mark.parametrize(("paper", "told_"), [(0.01, True), (0.0, True), (0.04, False)])
def test_a_papers_attack_that_guesses_blindly_is_said_to(paper, told_):
    one = judged("leaks", "a", paper=paper)
    blind = "names no more than a blind guess"
    assert (blind in text_of(lede(question(one)))) == told_
    assert (f"Its paper's own attack {blind}." in sentence(*one.basis)) == told_


def test_guesses_that_were_handed_in_are_said_to_be_the_strongest():
    handed = "The strongest guesses were made elsewhere and handed in, as of unmix."
    for flags in ([], ["submitted"]):
        c = case(number(0.94, flags=flags), cascade=number(0.5, attack="cascade"))
        verdict = judge_evidence(c)
        assert verdict.reached.attacker.name == "unmix"
        assert (handed in sentence(c, verdict)) == bool(flags)


ALL_OF_IT = "most of what there is to leak, on"


@pytest.mark.parametrize(
    ("now", "elsewhere", "said"),
    [
        (["held"], ["leaks"], f" It leaks {ALL_OF_IT} prototypes (early in training)."),
        (["held", "held"], ["leaks", "held"], f" 1 of those leaks {ALL_OF_IT} prototypes (early"),
        (["held", "held"], ["leaks", "leaks"], f" 2 of those leak {ALL_OF_IT} prototypes (early"),
        (["part", "part"], ["leaks", "leaks"], f" 2 of those leak {ALL_OF_IT} prototypes (early"),
        (["none", "none"], ["leaks", "held"], f" 1 of those leaks {ALL_OF_IT} prototypes (early"),
        (["held", "held"], ["part", "leaks"], " 1 of those leaks in part, on prototypes (early"),
    ],
)
def test_what_leaks_more_elsewhere_is_said_where_the_report_begins(now, elsewhere, said):
    end, early = (question(*_named(words)) for words in (now, elsewhere))
    early = early.model_copy(update={"stage": "early"})
    first, _ = with_words((end, early))
    assert said in text_of(first.headline)
    for part in ({"task": "another"}, {"probe": True}):
        alone, _ = with_words((end, early.model_copy(update=part)))
        assert said not in text_of(alone.headline)


def test_what_leaks_on_another_question_is_said_and_what_leaks_less_is_not():
    held, leaks = question(*_named(["held"])), _named(["leaks"])
    images = asked(topics.IMAGES, P_LEAK.meaning, leaks)
    first, second = with_words((held, images))
    assert text_of(first.headline).endswith(f" It leaks {ALL_OF_IT} images.")
    assert "It leaks" not in text_of(second.headline)


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (["final"], "prototypes."),
        (["early"], "prototypes (early in training)."),
        (["untrained", "early"], "prototypes (before training and early in training)."),
        (["final", "untrained", "early"], "prototypes (also before training and early in train"),
    ],
)
def test_a_question_that_was_asked_at_several_stages_is_named_once(stages, said):
    leak, images = _named(["leaks"]), asked(topics.IMAGES, P_LEAK.meaning, _named(["held"]))
    others = [question(*leak).model_copy(update={"stage": stage}) for stage in stages]
    first, *_ = with_words((images, *others))
    assert f" It leaks {ALL_OF_IT} {said}" in text_of(first.headline)
    assert text_of(first.headline).count("prototypes") == 1


def _named(words):
    return [judged(w, f"s{i}") for i, w in enumerate(words)]
