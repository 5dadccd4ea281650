"""Unit by unit: who was named and who was not, each with an address."""

from __future__ import annotations

import re

import pytest
from helpers.browser import needs_browser, opened, started
from helpers.page import EVIL
from helpers.run_folders import add_attack, make_run, measure

from leakbench.record.folders import load
from leakbench.reporting import write
from leakbench.results import Unit
from leakbench.results.tables import collect
from reports._page import units
from reports.html import render

NAMED = [1, 0, 1, 0, 1, 1, 0, 1, 1, 1]


@pytest.fixture
def data(tmp_path_factory):
    """Two seeds of one setting, in which seven of ten clients are named."""
    out = tmp_path_factory.mktemp("units")
    runs = []
    for seed in (0, 1):
        path = make_run(out, seed=seed, sent=[])
        add_attack(path, "averaging", [measure("p_leak", NAMED, 0.1, [1] * 10)])
        runs.append(load(path))
    return write.report(collect(runs), "units")


@pytest.fixture
def page(data):
    return render(data)


def listed(page):
    """{head: [(address, name)]} of the first setting."""
    found = {}
    for head, marks in re.findall(r"<h4>([^<]*)</h4><ul class=\"units\">(.*?)</ul>", page):
        found[head] = re.findall(r'<li id="([^"]+)">([^<]*)</li>', marks)
    return found


def test_who_was_named_and_who_was_not_stand_by_name(page):
    found = listed(page)
    assert {head: len(marks) for head, marks in found.items()} == {
        "14 clients named": 14,
        "6 clients not named": 6,
    }
    not_named = {name for _, name in found["6 clients not named"]}
    assert not_named == {f"client {c}, seed {s}" for c in (1, 3, 6) for s in (0, 1)}


def test_every_unit_has_an_address_of_its_own(page):
    found = [address for marks in listed(page).values() for address, _ in marks]
    assert len({*found}) == len(found) == 20
    ids = re.findall(r' id="([^"]+)"', page)
    assert len({*ids}) == len(ids)


def test_a_failed_attack_stands_apart_and_last(data):
    (judged,) = data.questions[0].judged
    worst = judged.verdict.worst
    failed = Unit("client/1", "client/1", 0.0, True, False)
    for m in worst.parts:
        rest = [u for u in m.units["attack"] if u.name != failed.name]
        m.units["attack"] = (failed, *rest)
    (found,) = units.units_of(data.questions).values()
    assert [one.head for one in found][-1] == "2 clients failed"


def test_what_a_list_leaves_out_is_counted(data, monkeypatch):
    monkeypatch.setattr(units, "MOST", 3)
    monkeypatch.setattr(units, "LEAST", 3)
    (found,) = units.units_of(data.questions).values()
    assert (len(found[0].marks), found[0].more) == (3, 11)


def test_a_name_of_a_unit_ends_neither_attribute_nor_text(data):
    (judged,) = data.questions[0].judged
    for m in judged.verdict.worst.parts:
        m.units["attack"] = (Unit(EVIL, EVIL, 1.0, False, False),)
    text = render(data)
    assert EVIL not in text
    assert all(re.fullmatch(r"[\w.-]+", i) for i in re.findall(r' id="(unit[^"]*)"', text))


@needs_browser
@pytest.mark.slow
def test_an_address_opens_the_unit(page, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(page, encoding="utf-8")
    address = listed(page)["6 clients not named"][0][0]
    with started() as browser, opened(browser, path) as seen:
        unit = seen.locator(f"[id='{address}']")
        assert not unit.is_visible()
        seen.evaluate(f"location.hash = '#{address}'")
        unit.wait_for(state="visible")
        # And is there to be copied.
        assert unit.locator("a").get_attribute("href") == f"#{address}"
