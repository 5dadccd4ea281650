"""What a reader of the first screen misread: each case told as it is now."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.report_data import again, built, gained, row, setting

from leakbench.judging.question import Span
from reports import html, markdown
from reports._page.ladder import ladder
from reports._page.sure import how_sure


def text(spans: tuple[Span, ...]) -> str:
    return "".join(s.text for s in spans)


def noise(*found, own=0.1, flags=frozenset(), defense="fedgn"):
    """Settings that differ in their noise, of which the best attack reaches ``found``."""
    rows = []
    for i, value in enumerate(found):
        base = setting(defense, {"sigma": 0.1 * (i + 1)})
        gain = gained(base, 0.8, flags=flags)
        real = [(name, "method", value) for name in ("unmix", "any_attack")]
        for name, rung, reached in (("own", "paper", own), *real):
            rows.append(again(row(base, 0.8, name, rung, "p_leak", reached), utility=gain))
    return rows


def test_what_leaks_in_part_is_in_the_headline():
    """90 of 300 leak was read as: 210 do not."""
    (question,) = built(noise(0.9, 0.9, 0.3)).questions
    assert text(question.headline).startswith(
        "2 of 3 settings of FedGN leak most of what there is to leak, 1 in part. None held"
    )


def test_settings_of_one_method_are_not_so_many_defenses():
    (question,) = built(noise(0.9, 0.9)).questions
    assert text(question.headline).startswith("Both settings of FedGN leak most")
    (question,) = built([*noise(0.9, 0.9), *noise(0.9, defense="fedcs")]).questions
    assert text(question.headline).startswith("All 3 defense settings leak most")


def test_undertrained_is_said_on_the_first_screen_and_below():
    """All settings of a sweep were, and only the small print of a table said so."""
    young = built([*noise(0.9, 0.8, flags=frozenset({"undertrained"})), *_trained()])
    assert "2 of 3 settings are undertrained: what is gained" in text(young.questions[0].lede)
    (line,) = [one for one in how_sure(young) if one.head == "Undertrained."]
    assert line.wrong
    assert line.text.startswith("2 of 3 settings still learned fast when training ended (FedGN σ")
    assert "undertrained" not in text(built(noise(0.9, 0.8)).questions[0].lede)
    assert not [one for one in how_sure(built(noise(0.9))) if one.head == "Undertrained."]


def _trained():
    return noise(0.7, defense="fedcs")


def test_a_papers_attack_that_does_not_work_does_not_make_a_setting_look_safe():
    """It ran, its control failed, and one place said that it had not run, another praised by it."""
    strong, weak = noise(0.9, own=0.05), {"flags": "control_failed", "control": 0.06}
    rows = [again(n, **weak) if n.attacker.paper else n for n in strong]
    (question,) = built(rows).questions
    assert question.judged[0].verdict.paper
    assert "its own paper" not in text(question.lede)
    made = ladder("q0", question, {"fedgn": "circle"})
    assert made.rows[0].gain == "its paper's own does not count"
    (question,) = built(strong).questions
    assert "which names no more than a blind guess" in text(question.lede)


def test_a_report_on_two_tasks_begins_with_both():
    """The second task's settings leaked, and the first sentences were those of the first alone."""
    data = built([*noise(0.9, 0.9), *map(_held_on_digits, noise(0.05, 0.05, 0.05))])
    pairs = "digit-pairs, prototypes: Both settings of FedGN leak most of what there is to leak."
    digits = "digits, prototypes: None of 3 settings of FedGN leaked"
    assert text(data.headline).startswith(f"{pairs} {digits}")
    for page in (html.render(data), html.brief(data)):
        heads = re.findall("<h1>(.*?)</h1>", page)
        assert [re.sub("<.*?>", "", head) for head in heads] == [text(data.headline)]
    assert text(data.headline) in markdown.render(data, Path("index.html"))


def _held_on_digits(number):
    base = number.configuration.model_copy(update={"task": "digits"})
    return again(number, configuration=base, low=0.04, high=0.06)
