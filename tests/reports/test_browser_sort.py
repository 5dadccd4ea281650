"""The sections below the first screen in a real browser: sorting, widths, pictures and print.
Skipped where there is none.
"""

from __future__ import annotations

import pytest
from helpers.browser import needs_browser, opened, started
from helpers.report_data import report_data

from reports.html import Html

pytestmark = [needs_browser, pytest.mark.slow]
TABLE = "#table .sheet table"


@pytest.fixture(scope="module")
def browser():
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return Html().write(report_data(), tmp_path_factory.mktemp("report"))[0]


@pytest.fixture
def page(browser, path):
    with opened(browser, path) as found:
        unfold(found)
        yield found


def unfold(page):
    """Opens the page's closed sections, as a reader would."""
    for summary in page.locator("details.fold > summary").all():
        summary.click()


def names(page):
    return page.locator(f"{TABLE} >> nth=0").locator("tbody th a").all_inner_texts()


def numbers(page, column):
    """The column's numbers from the top, None for words."""
    cells = page.locator(f"{TABLE} >> nth=0").locator(f"tbody tr > *:nth-child({column + 1})")
    return [
        None if v is None else float(v)
        for v in cells.evaluate_all("cells => cells.map(c => c.dataset.v ?? null)")
    ]


def head(page, name):
    """The button of a column and its place."""
    heads = page.locator(f"{TABLE} >> nth=0").locator("thead th")
    at = [t.strip() for t in heads.all_inner_texts()].index(name)
    return heads.nth(at), at


def test_a_click_sorts_by_numbers_and_a_second_turns_it_round(page):
    before = names(page)
    th, at = head(page, "worst case")
    assert th.get_attribute("aria-sort") == "none"
    th.locator("button").click()
    assert th.get_attribute("aria-sort") == "ascending"
    up = numbers(page, at)
    assert up[-1] is None  # FedUV sends no prototype: words stay at the end
    assert up[:-1] == sorted(up[:-1])
    th.locator("button").click()
    assert th.get_attribute("aria-sort") == "descending"
    down = numbers(page, at)
    assert down[-1] is None
    assert down[:-1] == sorted(up[:-1], reverse=True)
    assert sorted(names(page)) == sorted(before)


def test_words_are_sorted_too_and_only_one_column_says_so(page):
    th, _ = head(page, "worst case")
    th.locator("button").click()
    setting, _ = head(page, "setting")
    setting.locator("button").click()
    assert names(page) == sorted(names(page), key=str.casefold)
    assert [t.get_attribute("aria-sort") for t in (th, setting)] == ["none", "ascending"]


def test_a_head_is_reached_and_worked_by_key(page):
    th, at = head(page, "accuracy")
    th.locator("button").focus()
    page.keyboard.press("Enter")
    values = numbers(page, at)
    assert values == sorted(values)


def test_equal_rows_keep_the_page_s_order(page):
    before = names(page)
    th, at = head(page, "blind guess")
    for _ in range(2):
        th.locator("button").click()
        same = [n for n, v in zip(names(page), numbers(page, at), strict=True) if v is not None]
        assert same == [n for n in before if n in same]


def test_every_column_of_every_number_is_sortable(page):
    page.locator("details.all summary").click()
    table = page.locator("details.all table")
    values = table.locator("thead th").nth(3)
    values.locator("button").click()
    shown = [
        float(v)
        for v in table.locator("tbody tr > *:nth-child(4)").evaluate_all(
            "cells => cells.map(c => c.dataset.v)"
        )
    ]
    assert len(shown) == sum(len(s.numbers) for s in report_data().settings)
    assert shown == sorted(shown)


def test_without_script_there_is_no_dead_button(browser, path):
    with opened(browser, path, java_script_enabled=False) as page:
        unfold(page)
        assert page.locator("button.sort").count() == 0
        assert page.locator(f"{TABLE} >> nth=0").locator("thead th").first.inner_text() == "setting"


@pytest.mark.parametrize("width", [320, 390, 760, 1280, 1600])
def test_no_section_makes_the_page_scroll_sideways(browser, path, width):
    with opened(browser, path, width=width) as page:
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_phone_keeps_four_columns(browser, path):
    with opened(browser, path, width=390) as page:
        unfold(page)
        shown = page.locator(f"{TABLE} >> nth=0").locator("thead th:visible").all_inner_texts()
        assert [t.strip() for t in shown] == [
            "setting",
            "accuracy",
            "paper's own attack",
            "worst case",
        ]


def test_stored_pictures_are_drawn_wherever_they_are_used(page):
    """Each `use` has its symbol's size on the screen, and the policy lets the image in (a refusal
    would be said on the console).
    """
    sizes = page.locator("svg.pic use").evaluate_all(
        "us => us.map(u => u.getBoundingClientRect().width)"
    )
    assert len(sizes) > 20
    assert min(sizes) > 20


def test_a_link_to_a_record_opens_what_it_lies_in(page):
    page.locator("#ladder a.name").first.click()
    target = page.evaluate("location.hash")
    assert page.locator(f"article{target}").is_visible()


def test_tracks_and_labels_keep_to_their_column(browser, path):
    for width in (390, 1280):
        with opened(browser, path, width=width) as page:
            for circle in page.locator("#ladder > .ladder > .steps .track circle").all():
                box = circle.bounding_box()
                assert box
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
