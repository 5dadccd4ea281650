"""`report.pdf`: printed by a browser where there is one, and a sentence where there is none."""

from __future__ import annotations

import re
import shutil

import pytest
from helpers.browser import needs_browser
from helpers.report_data import built, report_data, row, setting

from leakbench.base import UsageError
from reports.html import brief
from reports.pdf import Pdf


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
