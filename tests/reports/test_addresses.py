"""Each setting and question of a page has an address, the same in every report."""

from __future__ import annotations

import re

import pytest
from helpers.browser import needs_browser, opened, started
from helpers.report_data import built, report_data, row, setting

from leakbench.base import addresses
from reports.html import Html, render


def ids(page):
    return re.findall(r'id="((?:setting|question)-[^"]+)"', page)


def test_an_address_is_made_of_the_name_alone():
    names = [
        ("setting", "digits", "FedGN σ 0.1"),
        ("setting", "digits", "FedHide α 0.1, K 5 + clip_noise"),
    ]
    found = ["setting-digits-fedgn-sigma-0.1", "setting-digits-fedhide-alpha-0.1-k-5-clip-noise"]
    assert addresses(names) == found
    assert addresses(names[1:]) == found[1:]


def test_names_that_differ_by_signs_have_two_addresses_and_both_are_said_so():
    one, two = addresses([("digits", "A (1, 2)"), ("digits", "A (1; 2)")])
    assert one != two
    assert one.startswith("digits-a-1-2-")


def test_no_name_is_the_address_of_another():
    """A badge with another's number would lie under its name."""
    first, second = addresses([("a b",), ("a-b",)])
    for names in ([("a b",), ("a-b",), (first,)], [("a\nb", "c"), ("a", "b\nc"), (second,)]):
        assert len({*addresses(names)}) == 3


def test_every_setting_and_question_has_one_and_no_two_are_alike():
    data = report_data()
    found = ids(render(data))
    assert len({*found}) == len(found)
    assert sum(a.startswith("setting-") for a in found) == len(data.settings)
    assert sum(a.startswith("question-") for a in found) >= len(data.questions)


def test_it_stays_when_other_settings_come_and_go():
    bases = [setting("fedgn", {"sigma": s}) for s in (0.1, 0.2, 0.3)]
    rows = [row(b, 0.8, "any_attack", "method", "p_leak", 0.9) for b in bases]
    assert ids(render(built(rows[1:2])))[-1] in ids(render(built(rows)))


def test_a_name_cannot_end_the_attribute_that_holds_it():
    page = render(
        built([row(setting('x"><script>', {}), 0.8, "any_attack", "method", "p_leak", 0.9)])
    )
    assert all(re.fullmatch(r"[a-z0-9.-]+", a) for a in ids(page))


@pytest.fixture(scope="module")
def browser():
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return Html().write(report_data(), tmp_path_factory.mktemp("page"))[0]


@needs_browser
@pytest.mark.slow
class TestInABrowser:
    def test_the_address_of_a_setting_opens_its_record(self, browser, path):
        address = next(a for a in ids(path.read_text()) if a.startswith("setting-"))
        with opened(browser, path) as page:
            assert not page.locator(f"[id='{address}']").is_visible()
            page.evaluate(f"location.hash = '#{address}'")
            page.locator(f"[id='{address}']").wait_for(state="visible")

    def test_the_address_of_a_question_chooses_it(self, browser, path):
        data = report_data()
        final = [q for q in data.questions if q.stage == "final"]
        assert len(final) > 1
        for q in (final[-1], final[0]):
            (address,) = addresses([("question", q.task, q.label)])
            with opened(browser, path) as page:
                page.evaluate(f"location.hash = '#{address}'")
                kicker = page.locator(f"[id='{address}']")
                kicker.wait_for(state="visible")
                chosen = page.locator(".asked:visible input:checked")
                if chosen.count():
                    assert q.label in chosen.locator("xpath=..").inner_text()
                assert page.locator(".intro:visible").count() == 1
