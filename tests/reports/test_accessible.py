"""What axe-core, the checker that browsers' own tools use, says of the page: no violation."""

from __future__ import annotations

import pytest
from helpers.browser import needs_browser, opened, started
from helpers.report_data import built, report_data, row, setting

from reports.html import Html

pytestmark = [needs_browser, pytest.mark.slow]
OPEN = "document.querySelectorAll('details').forEach((fold) => { fold.open = true; })"


def all_leak():
    """A page that begins with the ladder."""
    base = setting("fedgn", {"sigma": 0.1})
    attacks = (("own", "paper", 0.2), ("unmix", "method", 0.9), ("any_attack", "method", 0.9))
    return built([row(base, 0.8, a, rung, "p_leak", value) for a, rung, value in attacks])


def over_a_parameter():
    rows = []
    for i in range(14):
        base, found = setting("fedgn", {"sigma": 0.1 * (i + 1)}), 0.9 - 0.05 * i
        for attack, rung in (("own", "paper"), ("unmix", "method"), ("any_attack", "method")):
            value = found / 2 if rung == "paper" else found
            rows.append(row(base, 0.9 - 0.04 * i, attack, rung, "p_leak", value))
    return built(rows)


PAGES = {
    "full": report_data,
    "all leak": all_leak,
    "sweep": over_a_parameter,
    "nothing attacked": lambda: report_data(numbers=(), check=None),
    "redacted": lambda: report_data(redacted=True),
}


@pytest.fixture(scope="module")
def browser():
    with started() as found:
        yield found


def violations(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response
    assert found["passes"]  # it looked
    return [(v["id"], v["nodes"][0]["html"]) for v in found["violations"]]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_violation(browser, tmp_path, name):
    path = Html().write(PAGES[name](), tmp_path)[0]
    for colour in ("light", "dark"):
        # The page's own policy lets no script in that is not its own, not even the checker.
        given = {"color_scheme": colour, "bypass_csp": True, "reduced_motion": "reduce"}
        with opened(browser, path, **given) as page:
            assert violations(page) == []
            page.evaluate(OPEN)
            assert violations(page) == []
        with opened(browser, path, 390, 844, **given) as page:
            assert violations(page) == []


def test_the_checker_sees_what_is_wrong(browser, tmp_path):
    path = Html().write(all_leak(), tmp_path)[0]
    with opened(browser, path, bypass_csp=True) as page:
        page.evaluate("document.querySelector('h1').style.color = '#eee'")
        assert [name for name, _ in violations(page)] == ["color-contrast"]


def test_the_drawer_is_read_by_key_and_has_no_violation(browser, tmp_path):
    path = Html().write(report_data(), tmp_path)[0]
    with opened(browser, path, bypass_csp=True) as page:
        row_ = page.locator("#q0 .list a.row").first
        row_.focus()
        page.keyboard.press("Enter")
        assert page.locator("#drawer").is_visible()
        assert violations(page) == []
        page.keyboard.press("Escape")
        assert row_.evaluate("(row) => row === document.activeElement")
