"""Who may be praised, and in which words."""

from __future__ import annotations

import pytest
from helpers.verdicts import at, case, change, judged, known, number, question, text_of

from leakbench.judging.leaders import leaks_least, may_be, most_often
from leakbench.judging.question import Judged
from leakbench.judging.verdict import judge_evidence
from leakbench.reporting import maps
from leakbench.words.headlines import lede
from leakbench.words.verdicts import sentence

FREE = judged("leaks", "FedAwS", 0.58, reference=True, paper=1.0)


def open_(name, value=0.0, utility=0.5):
    """Cannot tell: the lowest number here, with an interval that shows nothing."""
    row = at(number(0.03), value, 0.0, 0.3)
    c = case(row, seeds=3)
    made = judge_evidence(c)
    assert made.word == "cannot tell"
    return Judged(
        setting=known(name, utility), evidence=c, verdict=made, sentence=sentence(c, made)
    )


def names(found):
    return [j.setting.name for j in found]


def test_the_lowest_number_is_not_praised_where_it_cannot_be_told():
    part = judged("part", "FedGN")
    assert names(leaks_least([open_("FedCS"), part, judged("leaks", "x")])) == ["FedGN"]
    assert leaks_least([open_("FedCS"), part]) == ()  # the best of one is no praise
    assert not may_be(open_("FedCS"))
    assert leaks_least([open_("FedCS")]) == ()


def test_neither_references_nor_the_dead_are_praised():
    assert leaks_least([judged("held", "a", reference=True), judged("held", "b", dead=1)]) == ()


def test_the_best_of_settings_that_all_leak_is_not_praised():
    assert leaks_least([judged("leaks", "a"), judged("leaks", "b")]) == ()
    said = text_of(lede(question(FREE, judged("leaks", "a", 0.57), judged("leaks", "b", 0.56))))
    assert said.endswith(
        "Both settings that keep nine tenths of the accuracy of FedAwS, which hides nothing, leak"
        " most of what there is to leak."
    )
    alone = text_of(lede(question(FREE, judged("leaks", "a", 0.57))))
    assert alone.endswith(
        "The only setting that keeps nine tenths of the accuracy of FedAwS, which hides nothing,"
        " leaks most of what there is to leak."
    )
    assert "least" not in said + alone


def test_equals_are_named_as_equals_in_any_order():
    a, b, c = judged("part", "a", 0.57), judged("part", "b", 0.56), judged("leaks", "c", 0.57)
    for order in ([a, b, c], [c, b, a]):
        assert sorted(names(leaks_least(order))) == ["a", "b"]
        said = text_of(lede(question(FREE, *order)))
        assert " leak least and alike: 30 of 100 clients on average at worst." in said
        assert "leaks least" not in said
    both = text_of(lede(question(FREE, a, b)))
    assert both.endswith("all 2 leak alike: 30 of 100 clients on average at worst.")


def test_a_leak_with_a_lower_number_does_not_pass_the_praise_on():
    """Its own control is low, so that less is most of what there is."""
    low = case(number(0.25, control=0.3))
    leak = Judged(
        setting=known("low", 0.57), evidence=low, verdict=judge_evidence(low), sentence="x"
    )
    assert leak.verdict.word == "leaks"
    part = judged("part", "b", 0.56)
    assert leaks_least([leak, part]) == ()
    assert text_of(lede(question(FREE, leak, part))).endswith(
        "None of the settings that keep nine tenths of the accuracy of FedAwS, which hides nothing,"
        " may be called the best: the lowest worst case is 25 of 100 clients on average."
    )


def test_what_order_decided_is_a_tie():
    assert most_often([["newest", "averaging"], ["averaging", "newest"]]) == ["newest", "averaging"]
    assert most_often([["newest", "averaging"], ["averaging"]]) == ["averaging"]
    assert most_often([]) == []


def test_one_of_several_that_look_safest_is_said_to_be_one_of_them():
    a, b = judged("leaks", "a", 0.57, paper=0.04), judged("leaks", "b", 0.57, paper=0.04)
    said = text_of(lede(question(FREE, a, b)))
    assert said.startswith(
        "a is one of 2 that look safest by their own paper's test, which names 4"
    )


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ([judged("held", "a"), judged("part", "b")], "the live defense setting that leaks least"),
        ([judged("held", "a"), judged("held", "b")], "one of 2 that leak least, alike"),
        ([open_("a")], "the lowest worst case of the live defense settings; verdict: cannot tell"),
        (
            [judged("leaks", "a")],
            "the lowest worst case of the live defense settings; verdict: leaks",
        ),
    ],
)
def test_a_map_praises_by_the_same_rule(settings, why):
    numbered = []
    for j in settings:
        attacks = tuple(change(n, stage="all") for n in (*j.evidence.attacks, *j.evidence.joined))
        setting = change(j.setting, numbers=attacks)
        numbered.append(change(j, setting=setting))
    q = question(*numbered)
    found = list(maps._worth_it([j.setting for j in numbered], [q]))
    assert [w for w, _, _ in found] == [why]
    assert found[0][1].name == "a"


def test_four_of_four_is_no_praise_though_so_few_make_it_a_leak_in_part():
    c = case(number(1.0, low=0.4, n=4, control=1.0), seeds=1)
    every = Judged(
        setting=known("FedGN", 0.57), evidence=c, verdict=judge_evidence(c), sentence="x"
    )
    assert every.verdict.word == "leaks in part"
    assert not may_be(every)
    assert text_of(lede(question(FREE, every))).endswith(
        "may be called the best: the lowest worst case is 4 of 4 clients. The verdict rests on 4"
        " clients and one seed."
    )
