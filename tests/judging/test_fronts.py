"""The staircase of the best trade-offs and what a stronger attacker takes away, worked by hand."""

from __future__ import annotations

import pytest
from helpers.report_data import gained, setting
from helpers.verdicts import case, change, known, number, question

from leakbench.judging.fronts import Axes, front, lost, steps, trades
from leakbench.judging.question import Judged
from leakbench.judging.verdict import judge_evidence
from leakbench.metrics.images import LPIPS
from leakbench.words.verdicts import sentence


def made(name, own, real, utility, **more):
    """A setting of which its paper's attack finds ``own`` and the best real one ``real``."""
    base = setting(name, {}, task="t")
    its = {"configuration": base, "utility": gained(base, utility)}
    paper, best = number(own, "paper", "nearest", width=0.01), number(real)
    evidence = case(change(paper, **its), change(best, **its), **more)
    verdict = judge_evidence(evidence)
    told = sentence(evidence, verdict)
    return Judged(setting=known(name, utility), evidence=evidence, verdict=verdict, sentence=told)


@pytest.fixture
def asked():
    return question(made("a", 0.04, 0.94, 0.57), made("b", 0.2, 0.3, 0.56))


@pytest.fixture
def axes(asked):
    return Axes.of(asked, (0.0, 1.0), (0.1, 0.7))


def test_the_axes_end_where_it_is_worst(asked, axes):
    assert (axes.leaks_up, axes.gains_up, axes.most, axes.least) == (True, True, 1.0, 0.1)
    assert axes.turned(0.3, 0.5) == (0.3, 0.5)
    falling = Axes.of(change(asked, meaning=LPIPS.meaning), (0.2, 0.9), (0.1, 0.7))
    assert (falling.leaks_up, falling.most, falling.least) == (False, 0.2, 0.1)
    assert falling.turned(0.3, 0.5) == (-0.3, 0.5)
    one = asked.judged[0]
    error = gained(one.setting.configuration, 0.1, "eer")
    errors = question(change(one, setting=change(one.setting, utility=(error,))))
    assert Axes.of(errors, (0.0, 1.0), (0.1, 0.7)) == Axes(True, False, 1.0, 0.7)
    assert Axes(True, False, 1.0, 0.7).turned(0.3, 0.5) == (0.3, -0.5)
    assert Axes.of(question(), (0.0, 1.0), (0.1, 0.7)).gains_up  # nothing says otherwise


def places(found):
    return [(t.leak, t.gain) for t in found]


def test_the_front_is_sorted_and_its_stairs_go_from_the_bottom_to_the_edge(asked, axes):
    assert places(trades(asked, "paper")) == [(0.04, 0.57), (0.2, 0.56)]
    best = front(asked, "any_attack", axes)
    assert places(best) == [(0.3, 0.56), (0.94, 0.57)]
    assert steps(best, axes) == [(0.3, 0.1), (0.3, 0.56), (0.94, 0.56), (0.94, 0.57), (1.0, 0.57)]
    assert steps([], axes) == []


def test_what_the_papers_attacks_promised_and_a_stronger_one_takes_away(asked, axes):
    # By the papers' attacks 0.57 from 0.04 on; truly nothing up to 0.3, and 0.56 up to 0.94.
    assert lost(asked, "any_attack", axes) == [(0.04, 0.3, 0.1, 0.57), (0.3, 0.94, 0.56, 0.57)]
    assert lost(asked, "paper", axes) == []
    kept = question(made("a", 0.3, 0.31, 0.57), made("b", 0.5, 0.6, 0.6))
    assert lost(kept, "any_attack", axes) == [(0.3, 0.31, 0.1, 0.57), (0.5, 0.6, 0.57, 0.6)]


def test_who_was_not_attacked_or_is_dead_has_no_place(asked, axes):
    assert trades(asked, "public") == []
    assert lost(asked, "public", axes) == []
    one = asked.judged[0]
    died = [change(n, flags=frozenset({"dead_run"})) for n in one.verdict.counting]
    dead = change(one, verdict=change(one.verdict, worst=died[1], counting=tuple(died)))
    assert places(trades(question(dead, asked.judged[1]), "any_attack")) == [(0.3, 0.56)]
    unknown = change(one, setting=change(one.setting, utility=()))
    assert places(trades(question(unknown), "any_attack")) == []


def test_who_cannot_be_judged_is_on_no_front_but_the_papers(asked, axes):
    """Few units gave a low number: it stood as the best trade-off, and was named."""
    one, other = asked.judged
    few = change(one.verdict, rule=9, tone="none", word="cannot tell")
    some = question(change(one, verdict=few), other)
    assert not some.judged[0].verdict.judged
    assert places(trades(some, "any_attack")) == [(0.3, 0.56)]
    assert places(front(some, "any_attack", axes)) == [(0.3, 0.56)]
    assert places(trades(some, "paper")) == places(trades(asked, "paper"))
    assert lost(some, "any_attack", axes) == [(0.2, 0.3, 0.1, 0.56)]
