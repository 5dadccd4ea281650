"""The list of settings by verdict: who is folded together, and what is said once."""

from __future__ import annotations

from helpers.report_data import built, row, setting

from reports._chart.points import shapes
from reports._page.list import groups


def listed(cases):
    """Groups by tone; ``cases``: (defense, parameters, what the strongest reaches, more)."""
    rows = []
    for defense, params, found, more in cases:
        base = setting(defense, params)
        for attack, rung in (("own", "paper"), ("unmix", "method"), ("any_attack", "method")):
            rows.append(row(base, 0.8, attack, rung, "p_leak", found, **more))
    (question,) = built(rows).questions
    marks = shapes([j.setting.family for j in question.judged])
    return {g.tone: g for g in groups(question, marks)}


def noise(count, found, **more):
    return [("fedgn", {"sigma": 0.1 * (i + 1)}, found, more) for i in range(count)]


def test_what_cannot_be_judged_is_folded_by_its_reason_and_shows_no_number():
    """300 settings, 99 of them open, made a page of twice the height."""
    (group,) = listed(noise(5, 0.08, width=0.06)).values()
    assert group.tone == "none"
    assert not group.lines
    (fold,) = group.folded
    assert [len(fold.lines), fold.tone, fold.why] == [5, "none", ""]
    assert group.same.startswith("cannot tell")


def test_reasons_that_differ_are_not_folded_into_one():
    weak = {"control": 0.06, "flags": "control_failed"}
    cases = [*noise(4, 0.08, width=0.06), ("fedgn", {"sigma": 9.0}, 0.05, weak)]
    group = listed(cases)["none"]
    assert not group.same
    (fold,), (line,) = group.folded, group.lines
    assert fold.why.startswith("cannot tell")
    assert line.why
    assert line.why != fold.why


def test_three_of_a_family_stand_alone_four_in_one_line():
    three, four = listed(noise(3, 0.9))["leak"], listed(noise(4, 0.9))["leak"]
    assert [len(three.lines), len(three.folded)] == [3, 0]
    assert [len(four.lines), len(four.folded)] == [0, 1]
    assert four.folded[0].found == "0.90"
