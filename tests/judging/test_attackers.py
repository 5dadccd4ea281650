"""Which row each attacker has, who is absent, and how settings are counted and named."""

from __future__ import annotations

import math

import pytest
from helpers.report_data import runs_of
from helpers.verdicts import asked, case, change, judged, known, number, question

from leakbench.base.reason import in_words, reason
from leakbench.base.reason_words import kinds_of, reason_text
from leakbench.judging.attackers import real, row_of
from leakbench.judging.gaps import gaps, picked
from leakbench.judging.leaders import most_often
from leakbench.judging.question import Judged
from leakbench.judging.verdict import judge_evidence
from leakbench.metrics import context, topics
from leakbench.words.amounts import count
from leakbench.words.attackers import absent, present
from leakbench.words.headlines import names_of
from leakbench.words.verdict_counts import counts, tally, unjudged
from leakbench.words.verdicts import sentence, short


def words_of(reasons):
    return list(map(reason_text, reasons))


def attacked(*attacks, **more):
    evidence = case(*attacks, **more)
    verdict = judge_evidence(evidence)
    told = sentence(evidence, verdict)
    return Judged(setting=known("a"), evidence=evidence, verdict=verdict, sentence=told)


@pytest.fixture
def ladder():
    """Who only reads the record finds more than who knows the method; public data find least."""
    return attacked(
        number(0.1, "paper", "own"),
        number(0.5, "transcript", "reads"),
        number(0.4, "method", "knows"),
        number(0.2, "public", "has"),
        cascade=number(0.45, attack="cascade"),
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("paper", 0.1),
        ("transcript", 0.5),
        ("method", 0.5),  # who knows more can do what needs less
        ("public", 0.5),
        ("cascade", 0.5),  # or the best of them alone
        ("any_attack", 0.5),
    ],
)
def test_the_row_of_an_attacker(ladder, key, value):
    assert row_of(ladder, key).value.value == value


def test_who_knows_less_does_not_get_what_needs_more():
    one = attacked(number(0.3, "transcript", "reads"), number(0.6, "public", "has"))
    assert row_of(one, "transcript").value.value == 0.3
    assert row_of(one, "method") is None  # none of that very rung
    assert row_of(one, "public").value.value == 0.6
    assert row_of(one, "paper") is None
    assert [a.key for a in present(question(one))] == [
        *("transcript", "public", "cascade", "any_attack")
    ]


def test_the_best_real_attacker_has_the_interval_of_the_table():
    one = attacked(*(number(0.5, attack=name) for name in "abc"), cascade=number(0.2))
    assert one.verdict.reached.low < real(one).low == pytest.approx(0.47)
    assert real(attacked(number(0.9, "paper"), cascade=None)) is None
    assert real(attacked()) is None


def test_the_absent_are_counted():
    with_paper, without = judged("leaks", "a", paper=0.1), judged("leaks", "b")
    assert absent([with_paper], "paper") == ""
    assert absent([with_paper, without], "paper").startswith("1 setting of 2 has no such attack")
    two = absent([with_paper, without, without], "paper")
    assert two.startswith("2 settings of 3 have no such attack")
    unknown = change(without, setting=change(without.setting, utility=()))
    assert absent([with_paper, unknown, judged("none", "c")], "paper") == ""


def test_settings_are_counted_as_the_headline_counts_them():
    dead = judged("leaks", "c", dead=1)
    free = [judged("leaks", name, reference=True) for name in "xy"]
    every = [judged("leaks", "a"), judged("held", "b")]
    assert tally(every, every) == ("2", "")
    assert tally([every[0], dead, dead], every) == ("1", "and 2 with a dead seed")
    assert tally([*free, dead], every) == ("", "2 references and 1 with a dead seed")
    assert tally([free[0], judged("none", "n")], every) == ("1", "and the reference")
    assert tally(free, free) == ("2", "")  # no defense is there
    none = [judged("none", "n"), judged("none", "m"), judged("held", "b")]
    assert unjudged(none) == "2 not attacked"
    assert unjudged([judged("held", "b")]) == ""
    told = counts(question(*none))
    assert [(tone, n) for tone, n, _, _ in told] == [
        *(("leak", "0"), ("part", "0"), ("held", "1"), ("none", "2"))
    ]
    assert told[3][3] == "2 not attacked"
    assert "0.05" in told[2][3]


def test_a_margin_on_logarithms_is_a_factor():
    meaning = context.SAMPLES_TO_90.meaning
    told = counts(asked(topics.PROTOTYPES, meaning, ()))[2][3]
    assert f"factor of {math.exp(meaning.matters):g} " in told


def test_no_more_than_three_are_named():
    many = [judged("held", name) for name in "abcd"]
    assert names_of(many[:1]) == "a"
    assert names_of(many[:2]) == "a and b"
    assert names_of(many[:3]) == "a, b and c"
    assert names_of(many) == "a, b, c and 1 more"


def test_what_is_best_most_often():
    assert most_often([]) == []
    assert most_often([["a", "b"], ["b", "b"], ["c"]]) == ["b"]
    assert most_often([["a"], ["b"], ["b", "a"], ["c"]]) == ["a", "b"]


def test_seeds_that_were_not_looked_at_are_gaps():
    base = known("a")  # three complete runs
    every, two = number(0.1), change(number(0.1, attack="two"), seeds=(0, 1))
    assert gaps(base, []) == ()
    assert gaps(base, [every]) == ()
    assert words_of(gaps(base, [two])) == ["attacked in 2 of 3 seeds"]
    assert words_of(gaps(base, [every, two])) == ["two has no number in seed 2"]
    one = change(number(0.1, attack="two"), seeds=(1,))
    assert words_of(gaps(base, [every, one])) == ["two has no number in seed 0, 2"]
    # The same attack with the same parameters, in several metrics or stages, is one attack.
    assert gaps(base, [two, change(every, attacker=two.attacker)]) == ()
    half = change(base, runs=base.runs[:2], others=base.runs[2:], utility=())
    assert words_of(gaps(half, [two])) == ["2 of 3 runs are complete"]


def test_chosen_clients_are_a_gap_of_what_their_updates_tell():
    base = known("a")
    facts = {"facts": {"clients": 4}}

    def chosen(*clients):
        told = {"spec": {"record": {"clients": list(clients)}}, **facts}
        return change(base, runs=runs_of(r.meta | told for r in base.runs))

    assert topics.IMAGES.kind == "update"
    assert words_of(picked(topics.IMAGES, chosen(1, 3))) == [
        "2 of the clients were chosen (record.clients), not drawn"
    ]
    assert picked(topics.IMAGES, chosen(0, 1, 2, 3)) == ()
    assert picked(topics.IMAGES, chosen()) == ()
    assert picked(topics.PROTOTYPES, chosen(1, 3)) == ()


def test_numbers_and_kinds_read_aloud():
    assert [count(v, 2) for v in (0.2, 0.25, 0.5, 0.9)] == [
        *("fewer than 1 of 2", "fewer than 1 of 2", "1 of 2", "more than 1 of 2")
    ]
    assert [kinds_of(k) for k in ("update", "mean_data", "features")] == [
        *("updates", "mean data", "features")
    ]
    early = change(question(), stage="middle", probe=True)
    assert early.label == "prototypes, on probes, half way through training"
    assert question().label == "prototypes"


@pytest.mark.parametrize(
    ("evidence", "rule", "told"),
    [
        (case(kind="label", sends_kind=False), 1, "nothing to attack: sends no label"),
        (case(reasons=(in_words("it takes too long."),)), 2, "not attacked: it takes too long"),
        (
            case(state="failed", reasons=(reason("failed", text="lr is too large."),)),
            2,
            "failed: lr is too large",
        ),
        (case(number(0.9), dead_seeds=3, dead_because="it did not learn"), 3, "dead run: it did"),
        (case(number(0.02, flags=["control_failed"])), 4, "attack too weak"),
        (case(number(0.9)), 5, "leaks"),
        (case(number(0.2, "paper"), cascade=None), 6, "cannot tell: only the paper's own attack"),
        (case(number(0.01, low=0.0, high=0.05)), 7, "held"),
        (case(number(0.3)), 8, "leaks in part"),
        (case(number(0.01, low=0.0, high=0.05), seeds=1), 9, "cannot tell: attack too weak to"),
        (case(number(0.03, low=0.005, high=0.09)), 9, "cannot tell: too few units"),
    ],
)
def test_a_verdict_in_a_few_words(evidence, rule, told):
    verdict = judge_evidence(evidence)
    assert verdict.rule == rule
    assert short(evidence, verdict).startswith(told)


def test_the_numbers_behind_a_verdict_are_not_written_with_it():
    told = judge_evidence(case(number(0.9))).model_dump()
    behind = {"reached", "worst", "paper", "binding", "counting", "doubts", "copied"}
    assert not told.keys() & behind
    assert (told["rule"], told["word"], told["tone"]) == (5, "leaks", "leak")
