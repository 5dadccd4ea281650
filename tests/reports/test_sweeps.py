"""The page's drawings over a parameter: every value that has a number, and none that has none."""

from __future__ import annotations

import itertools
import re

import pytest
from helpers.report_data import built, row, setting

from reports._page.sweeps import sweeps, swept
from reports.html import render

SIGMAS = (0.05, 0.1, 0.3, 1.0, 2.0)


def numbers(base, utility, found, own, **more):
    """What four attackers reach on one setting: its paper's reaches ``own``, the others more."""
    real = (("average", "transcript"), ("cascade", "transcript"), ("any_attack", "transcript"))
    told = [row(base, utility, "own", "paper", "p_leak", own, **more)]
    return told + [row(base, utility, a, rung, "p_leak", found, **more) for a, rung in real]


def noise(sigmas=SIGMAS, **more):
    """FedGN whose noise hides from its paper's attack alone."""
    out = []
    for s in sigmas:
        base = setting("fedgn", {"sigma": s})
        out += numbers(base, 0.9 - 0.1 * s, 1 - 0.3 * s, max(0.01, 1 - s), **more)
    return out


def labels(data):
    """What a screen reader says of each drawing of the section."""
    found = re.search(r'<section id="sweeps">.*?</section>', render(data), flags=re.DOTALL)
    return re.findall(r'aria-label="([^"]*)"', found[0]) if found else []


def test_one_parameter_by_hand():
    (of,) = sweeps(built(noise()))
    (one,) = of.shown
    assert (of.task, one.title, one.gone) == ("digit-pairs", "FedGN over σ", "")
    leak, gain = labels(built(noise()))
    assert "worst case: 0.98 at σ 0.05, 0.40 at σ 2" in leak  # 1 - .015 rounds to even
    assert "own attack: 0.95 at σ 0.05, 0.01 at σ 2" in leak.replace("&#39;", "'")
    assert "nothing defended: 1.00 at σ 0.05, 1.00 at σ 2" in leak
    assert "accuracy: 0.895 at σ 0.05, 0.700 at σ 2" in gain


def test_each_value_is_a_dot_where_it_belongs():
    """Noise from .05 to 2 on logarithms: .05, .1, .3, 1, 2 of a line, of both drawings."""
    page = render(built(noise()))
    drawn = re.findall(r'<circle cx="([0-9.]+)" cy="[0-9.]+" r="3.5" class="dot f0', page)
    places = [float(x) for x in drawn]
    assert len(places) == len(SIGMAS)
    steps = [b - a for a, b in itertools.pairwise(places)]
    assert steps[0] == pytest.approx(steps[3], abs=0.3)  # twice as much each time
    assert steps[1] > steps[0]


def test_two_values_are_no_sweep_and_the_page_has_no_such_section():
    data = built(noise(SIGMAS[:2]))
    assert sweeps(data) == []
    assert labels(data) == []
    assert 'href="#sweeps"' not in render(data)


def test_settings_that_differ_in_more_are_no_sweep():
    bases = [setting("fedhide", {"alpha": a, "k": k}) for a, k in ((0.1, 3), (0.2, 5), (0.3, 10))]
    data = built([n for b in bases for n in numbers(b, 0.8, 0.9, 0.1)])
    assert sweeps(data) == []


def test_a_grid_is_a_sweep_of_each_parameter_at_each_value_of_the_other():
    grid = [setting("fedhide", {"alpha": a, "k": k}) for a in (0.1, 0.2) for k in (3, 5, 10)]
    (of,) = sweeps(built([n for b in grid for n in numbers(b, 0.8, 0.9, 0.1)]))
    assert [s.title for s in of.shown] == ["FedHide over K", "FedHide over K"]
    assert len({s.of for s in of.shown}) == 2


def test_the_longest_come_first_and_none_is_left_out():
    grid = [setting("fedhide", {"alpha": a / 10, "k": k}) for a in range(1, 6) for k in (3, 5, 10)]
    data = built([n for b in grid for n in numbers(b, 0.8, 0.9, 0.1)])
    (of,) = sweeps(data)
    assert [s.title for s in of.shown] == ["FedHide over α"] * 3 + ["FedHide over K"] * 3
    assert [s.title for s in of.folded] == ["FedHide over K"] * 2
    assert "<summary>2 more</summary>" in render(data)


def test_a_wrappers_parameter_is_one():
    bases = []
    for sigma in (0.1, 0.5, 1.0):
        base = setting("fedgn", {"sigma": 0.1}, ["clip_noise"])
        wrapper = {"name": "clip_noise", "params": {"clip": 1.0, "sigma": sigma}}
        bases.append(base.model_copy(update={"wrappers": [wrapper]}))
    data = built([n for b in bases for n in numbers(b, 0.8, 0.9, 0.1)])
    (found,) = swept(data.settings)
    assert found.letter == "clip_noise sigma"
    assert sorted(found.settings) == [0.1, 0.5, 1.0]


def test_a_dead_run_is_in_no_line_of_leakage_and_is_named():
    """Its utility is drawn: that is what the parameter cost."""
    dead = numbers(setting("fedgn", {"sigma": 5.0}), 0.1, 0.05, 0.05, flags="dead_run")
    data = built([*noise(), *dead])
    (one,) = sweeps(data)[0].shown
    assert one.gone == "Without a number that counts: 5 (dead run)."
    leak, gain = labels(data)
    assert "at σ 5" not in leak
    assert "at σ 5" in gain


def test_the_papers_own_attack_alone_is_no_worst_case():
    """More noise looked like more hiding where only nobody else had attacked."""
    base = setting("fedgn", {"sigma": 5.0})
    alone = [row(base, 0.8, a, "paper", "p_leak", 0.01) for a in ("own", "any_attack")]
    data = built([*noise(), *alone])
    (one,) = sweeps(data)[0].shown
    assert one.gone == "Without a number that counts: 5 (cannot tell)."
    assert "at σ 5" not in labels(data)[0]


def test_a_value_that_was_attacked_less_is_no_safer_for_it():
    some = noise()
    assert "attacked" not in sweeps(built(some))[0].shown[0].gone
    first = some[0].configuration
    more = row(first, 0.9, "unmix", "method", "p_leak", 0.9)
    (one,) = sweeps(built([*some, more]))[0].shown
    assert one.gone == "Not attacked alike: who was attacked less may only look lower."


def test_an_attack_too_weak_to_judge_draws_nothing():
    """With nothing defended it names one of twenty as well; a blind guess does."""
    bases = [setting("fedgn", {"sigma": s}) for s in SIGMAS]
    weak = {"control": 0.06, "flags": "control_failed"}
    data = built([n for b in bases for n in numbers(b, 0.8, 0.05, 0.05, **weak)])
    assert data.questions
    assert sweeps(data) == []


def test_names_in_a_folder_are_text():
    base = [setting("<i>x</i>", {"<b>": v}) for v in (1.0, 2.0, 3.0)]
    page = render(built([n for b in base for n in numbers(b, 0.8, 0.9, 0.1)]))
    (section,) = re.findall(r'<section id="sweeps">.*?</section>', page, flags=re.DOTALL)
    assert "<b>&lt;i&gt;x&lt;/i&gt; over &lt;b&gt;</b>" in section
    assert "<i>" not in section
