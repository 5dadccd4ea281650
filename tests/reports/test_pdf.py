"""`report.pdf`: printed by a browser where there is one, and a sentence where there is none."""

from __future__ import annotations

import html
import re
import shutil
from contextlib import contextmanager

import pytest
from helpers.browser import needs_browser, opened, started
from helpers.report_data import built, report_data, row, setting

from leakbench.base import UsageError
from leakbench.reporting import Against
from reports._page.moved import section
from reports.html import brief
from reports.pdf import Pdf

SHEET = 703  # pixels between the margins of A4


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("check", [True, False])
def test_two_pages(tmp_path, check):
    data = report_data() if check else report_data(check=None)
    (path,) = Pdf().write(data, tmp_path)
    content = path.read_bytes()
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) == 2


def test_the_verdict_the_other_questions_and_who_is_left_out_are_there():
    data = report_data()
    page = re.sub(r"<[^>]+>", "", brief(data))
    first, *others = [q for q in data.questions if q.stage == "final"]
    for q in (first, *others):
        said = "".join(span.text for span in q.headline)
        assert said.split(".")[0] in page.replace("&#39;", "'"), q.label
    assert "<script" not in brief(data)


def test_names_in_a_folder_are_text():
    base = setting("<i>x</i>", {})
    page = brief(built([row(base, 0.8, "any_attack", "method", "p_leak", 0.9)]))
    assert "<i>x" not in page
    assert "&lt;i&gt;x" in page


def test_without_a_browser_it_says_what_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match=r"needs a browser that prints .* print index\.html"):
        Pdf().write(report_data(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_browser_that_prints_nothing_is_said(tmp_path, monkeypatch):
    true = shutil.which("true")
    monkeypatch.setattr(shutil, "which", lambda name: true)
    with pytest.raises(UsageError, match="printed nothing"):
        Pdf().write(report_data(), tmp_path)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedgn", "a_method_whose_name_goes_on_" * 9])
def test_two_pages_however_many_settings_and_however_long_their_names(tmp_path, name):
    (path,) = Pdf().write(many(name=name), tmp_path)
    assert len(re.findall(rb"/Type\s*/Page\b", path.read_bytes())) == 2


def many(count=60, name="fedgn"):
    """Settings of one method, or each of its own: a third held, a third leak, a third in part."""
    rows = []
    for i in range(count):
        base = setting("fedgn", {"sigma": i + 1}) if name == "fedgn" else setting(f"{name}{i}", {})
        value = (0.05, 0.3, 0.9)[i % 3]
        for attack, rung in (("nearest_prototype", "paper"), ("unmix", "method")):
            rows.append(row(base, 0.8, attack, rung, "p_leak", value, width=0.02))
        rows.append(row(base, 0.8, "any_attack", "method", "p_leak", value, width=0.02))
    return built(rows)


def text_of(page):
    bare = re.sub(r"(?s)<style>.*?</style>|<[^>]+>", "", page)
    return html.unescape(re.sub(r"\s+", " ", bare))


@pytest.mark.parametrize("most", [1, 3, 12])
def test_what_a_list_leaves_out_is_counted(most):
    data = many(name="own")
    page = brief(data, most)
    shown = page.count('<a class="row')
    left = [int(n) for n in re.findall(r"and (\d+) more: in index.html", page)]
    (question,) = data.questions
    assert shown == 3 * most
    assert shown + sum(left) == len(question.judged)
    assert text_of(page).count(f"{60 - most} more") == 2  # the ladder's lines, the legend
    assert "more: in index.html" not in brief(data)


def test_a_family_that_is_folded_says_how_many_it_is():
    page = brief(many(), 3)
    assert page.count('<a class="row') == 0
    assert text_of(page).count("20 settings") == 3


def test_of_many_questions_those_that_leak_stand_first_and_the_others_are_counted():
    rows = []
    for i in range(9):
        base, value = setting("fedgn", {}, task=f"task-{i}"), 0.9 if i > 5 else 0.05
        for attack, rung in (("unmix", "method"), ("any_attack", "method")):
            rows.append(row(base, 0.8, attack, rung, "p_leak", value, width=0.02))
    said = text_of(brief(built(rows), 3))
    assert all(f"task-{i}, prototypes" in said for i in (6, 7, 8))
    assert "and 5 more questions: in index.html" in said


def test_what_was_worse_before_the_end_is_said():
    base, attacks = setting("fedcs", {}), ("unmix", "any_attack")
    late = [row(base, 0.9, a, "method", "p_leak", 0.05, width=0.02) for a in attacks]
    early = [row(base, 0.9, a, "method", "p_leak", 0.9, stage="early") for a in attacks]
    said = text_of(brief(built(late + early)))
    assert "Worse before the end than at it: FedCS (prototypes, early in training: leaks)." in said
    assert "Worse before" not in brief(built(late))
    alone = text_of(brief(built(early)))
    assert "digit-pairs, prototypes, early in training: " in alone


def test_what_moved_is_said_in_a_sentence():
    found = Against(name="last week", only_now=("FedGN",))
    said = text_of(brief(report_data(against=found)))
    assert f"Against last week. {section(found).said} Which: in index.html." in said
    assert "Against" not in text_of(brief(report_data()))


def test_nothing_is_promised_that_is_not_on_the_sheets():
    said = text_of(brief(report_data()))
    assert "below" not in said
    assert "in the table" not in said


@needs_browser
@pytest.mark.slow
class TestOnPaper:
    def test_the_last_word_stands_whole(self, tmp_path):
        cut = """found => found.filter((e) => e.scrollHeight > e.clientHeight + 1)
            .map((e) => e.textContent)"""
        for most in (None, 1):
            with printed(tmp_path, report_data(), most) as page:
                lines = page.locator(".sure li.bad > span:last-child")
                assert lines.count() > 0
                assert lines.evaluate_all(cut) == []

    def test_the_two_ends_of_a_ladder_can_be_told_apart(self, tmp_path):
        rows = []
        for attack, rung in (("gradient_inversion", "method"), ("any_attack", "method")):
            rows.append(row(setting("fedgn", {}), 0.8, attack, rung, "psnr", 60.0, width=2.0))
        with printed(tmp_path, built(rows)) as page:
            ends = page.locator(".trade svg.ends text").evaluate_all(
                "found => found.map((e) => [e.getBoundingClientRect().x,"
                " e.getBoundingClientRect().right])"
            )
            (_, left), (right, _) = sorted(ends)
            assert left < right

    def test_no_name_runs_off_the_sheet(self, tmp_path):
        data = many(3, "a_method_whose_name_goes_on_" * 9).model_copy(
            update={"title": "a long title " * 40}
        )
        with printed(tmp_path, data) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= SHEET


@contextmanager
def printed(folder, data, most=None):
    """The sheets as the browser lays them out for a printer."""
    path = folder / "brief.html"
    path.write_text(brief(data, most), encoding="utf-8")
    with started() as browser, opened(browser, path, SHEET, 1000) as page:
        page.emulate_media(media="print")
        yield page
