"""The leaderboard says what the tables say, acquits nobody, and has an address for each line."""

from __future__ import annotations

import csv
import itertools
import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.browser import needs_browser, opened, started

from leakbench.base import registry
from leakbench.base.errors import BrokenFile
from leakbench.cli import run
from leakbench.reproduce.leaderboard.entry import standing
from leakbench.reproduce.leaderboard.page import leaderboard_files, write_leaderboard
from leakbench.reproduce.row import Measurement, Row
from leakbench.reproduce.strongest import Rivals

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"


@pytest.fixture(scope="module")
def made():
    return leaderboard_files(RESULTS, "https://example.org/board/")


@pytest.fixture(scope="module")
def lines(made):
    return json.loads(made["leaderboard.json"])["entries"]


def attacked(value, low, high, **more):
    """A row of a table: an attack on prototypes, blind .1, undefended .9."""
    told = {"floor": 0.1, "control": 0.9, "attack": "prototype_leakage", "metric": "p_leak", **more}
    ours = Measurement(value=value, low=low, high=high, n=10, unit="client")
    case = {"recipe": "r", "scale": "smoke", "dataset": "digits", "task": "digits", "label": "M"}
    return Row(**case, method="fedgn", measure="p_leak", attack_params={}, ours=ours, **told)


@pytest.mark.parametrize(
    ("found", "flags", "control", "word"),
    [
        ((0.9, 0.6, 1.0), (), 0.9, "leaks"),
        ((0.6, 0.49, 0.7), (), 0.9, "leaks_in_part"),  # half of the way is .5
        ((0.2, 0.11, 0.3), (), 0.9, "leaks_in_part"),
        ((0.2, 0.05, 0.3), (), 0.9, "cannot_tell"),
        ((0.0, 0.0, 0.05), (), 0.9, "cannot_tell"),  # far below a blind guess acquits nobody
        ((0.1, 0.05, 0.2), ("control_failed",), 0.9, "too_weak"),
        ((0.3, 0.2, 0.4), ("control_failed",), 0.9, "leaks_in_part"),
        ((0.1, 0.05, 0.2), (), 0.1, "too_weak"),
        ((0.1, 0.05, 0.2), (), 0.05, "too_weak"),  # nothing defended leaks less than a blind guess
        ((0.1, 0.05, 0.2), (), None, "cannot_tell"),  # nobody attacked it
        ((0.9, 0.6, 1.0), ("dead_run",), 0.9, "dead_run"),
    ],
)
def test_a_standing_by_hand(found, flags, control, word):
    row = attacked(*found, flags=frozenset(flags), control=control)
    assert standing(Rivals((row,), (row,))) == word


def test_the_attack_that_leaks_for_sure_counts_beside_a_higher_and_wider_one():
    sure, wide = attacked(0.7, 0.6, 0.8), attacked(0.8, 0.2, 1.0, attack="prototype_averaging")
    assert standing(Rivals((sure, wide), (sure, wide))) == "leaks"


def read(recipe, scale):
    with (RESULTS / recipe / f"{scale}.csv").open(encoding="utf-8", newline="") as file:
        return [r for r in csv.DictReader(file) if r["attack"] and r["value"]]


def test_every_line_is_a_row_of_its_table_and_the_strongest_there(lines):
    """Read with nothing but csv; of proportions, where a larger number is more of a leak."""
    compared = 0
    for e in lines:
        rows = [
            r
            for r in read(e["recipe"], e["scale"])
            if (r["dataset"], r["label"], r["metric"]) == (e["dataset"], e["label"], e["metric"])
        ]
        same = [r for r in rows if float(r["value"]) == e["value"]]
        assert any(r["attack"] == e["attack"].split("(")[0] for r in same), e["address"]
        if e["metric"] in ("p_leak", "recovered", "identification"):
            assert e["value"] == max(float(r["value"]) for r in rows), e["address"]
            compared += 1
    assert compared > 90


def test_what_was_gained_is_the_utility_of_the_same_case(lines):
    """And both ends of the way are those of the row: read with nothing but csv."""
    gained = 0
    for e in lines:
        path = RESULTS / e["recipe"] / f"{e['scale']}.csv"
        with path.open(encoding="utf-8", newline="") as file:
            case = [
                r
                for r in csv.DictReader(file)
                if (r["dataset"], r["label"]) == (e["dataset"], e["label"])
            ]
        ends = {(r["value"], r["floor"], r["control"]) for r in case if r["attack"] and r["value"]}
        told = {tuple(float(c) if c else None for c in cells) for cells in ends}
        assert (e["value"], e["floor"], e["control"]) in told, e["address"]
        useful = {float(r["value"]) for r in case if r["measure"] == "utility" and r["value"]}
        assert (e["gained"]["value"] if e["gained"] else None) in (useful or {None}), e["address"]
        gained += bool(useful)
    assert gained > 100


def test_no_live_table_says_worse_of_a_setting(lines):
    listed = {(e["task"], e["label"], e["metric"]): e for e in lines}
    assert len(listed) == len(lines)
    for path in RESULTS.glob("*/*.csv"):
        if path.stem not in ("smoke", "small"):
            continue
        for r in read(path.parent.name, path.stem):
            e = listed.get((r["task"], r["label"], r["metric"]))
            if r["metric"] == "p_leak" and "dead_run" not in r["flags"]:
                assert e is not None
                if "control_failed" not in r["flags"]:
                    assert float(r["value"]) <= e["value"] + 1e-9, (path, r["label"])


def test_no_line_is_acquitted_and_the_unjudged_come_last(lines, made):
    words = {e["standing"] for e in lines}
    assert words == {"leaks", "leaks_in_part", "cannot_tell", "too_weak", "dead_run"}
    said = re.findall(r'<span class="word \w+">([^<]*)<', made["index.html"].decode())
    assert [word.removesuffix(" or too few").replace(" ", "_") for word in said] == [
        e["standing"] for e in lines
    ]
    for one, after in itertools.pairwise(lines):
        if (one["task"], one["metric"]) == (after["task"], after["metric"]):
            unjudged = [
                e["share"] is None or e["standing"] not in ("leaks", "leaks_in_part")
                for e in (one, after)
            ]
            assert unjudged == sorted(unjudged)


def test_every_line_has_an_address_and_a_badge(lines, made):
    page = made["index.html"].decode()
    found = re.findall(r'<tbody id="([^"]+)"', page)
    assert found == [e["address"] for e in lines]
    assert len(set(found)) == len(found)
    assert all(re.fullmatch(r"[a-z0-9.-]+", address) for address in found)
    assert {n for n in made if n.startswith("badges/")} == {f"badges/{a}.svg" for a in found}
    assert all(f"https://example.org/board/badges/{a}.svg" in page for a in found)


def test_a_badge_says_number_and_blind_guess(lines, made):
    (e,) = [e for e in lines if e["address"] == "cifar100-fedhide-0.1-10-p-leak"]
    root = ElementTree.fromstring(made[f"badges/{e['address']}.svg"])
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [
        "leakbench: FedHide(0.1, 10), cifar100, P_leak",
        "leaks: 1.00 (blind guess 0.01)",
    ]
    for e in lines:  # a number near a blind guess never stands alone
        word = e["standing"].replace("too_weak", "too weak or too few").replace("_", " ")
        assert f">{word}: ".encode() in made[f"badges/{e['address']}.svg"]


def test_a_badge_calls_no_attack_weak_that_got_everything_of_too_few(lines, made):
    weak = [e for e in lines if "control_failed" in e["flags"] and e["standing"] == "too_weak"]
    e = next(e for e in weak if e["value"] == e["control"])
    svg = made[f"badges/{e['address']}.svg"].decode()
    assert ">too weak or too few: not judged<" in svg
    assert "attack too weak" not in svg


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("", ""),
        ("https://example.org", "https://example.org/"),
        ("https://example.org/a/b", "https://example.org/a/b/"),
        ("http://localhost:8000/a//", "http://localhost:8000/a/"),
        ("https://example.org/a/index.html", "https://example.org/a/"),
        ("https://example.org/~me/my-index.html", "https://example.org/~me/my-index.html/"),
    ],
)
def test_an_address_leads_to_badge_and_line(tmp_path, url, place):
    (tmp_path / "fedhide-table4").mkdir()
    shutil.copy(RESULTS / "fedhide-table4" / "smoke.csv", tmp_path / "fedhide-table4")
    files = leaderboard_files(tmp_path, url)
    texts = re.findall(r"\[!\[[^<]*\]\(([^)]*)\)\]\(([^)]*)\)<", files["index.html"].decode())
    for picture, line in texts:
        assert picture.removeprefix(place) in files
        address = picture.removeprefix(f"{place}badges/").removesuffix(".svg")
        assert line == f"{place}index.html#{address}"
    assert len(texts) == len(files) - 2
    assert (b"<code>--url</code> writes whole" in files["index.html"]) == (not url)


@pytest.mark.parametrize(
    "url",
    [
        *("nonsense", "example.org/board", "//example.org", "/", " ", "https://", "file:///tmp"),
        *("javascript:alert(1)", "https://example.org/?a=b", "https://example.org/#line"),
        *("https://example.org/a b", "https://example.org/a)", "https://me:word@example.org"),
        *('https://example.org/"><script>', "https://example.org/`", "https://example.org/[a]"),
    ],
)
def test_what_is_no_address_of_a_folder_is_refused(url, tmp_path, capsys):
    assert run(["leaderboard", str(RESULTS), "-o", str(tmp_path / "out"), "--url", url]) == 2
    assert "expected the address of the folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_name_ends_no_link_and_hides_nothing(tmp_path):
    table = (RESULTS / "fedhide-table4" / "smoke.csv").read_text(encoding="utf-8")
    folder = tmp_path / "fedhide-table4"
    folder.mkdir()
    named = table.replace("FedCS(0.5)", "a](https://evil.example)\u202e`\x01")
    (folder / "smoke.csv").write_text(named, encoding="utf-8")
    files = leaderboard_files(tmp_path)
    badges = [content for name, content in files.items() if name.startswith("badges/")]
    texts = [ElementTree.fromstring(svg).findtext("{*}title") for svg in badges]
    (mine,) = {t for t in texts if "evil" in t}
    assert "\u202e" not in mine
    assert r"[![a\](https://evil.example)" in files["index.html"].decode()


def test_who_was_trained_and_not_attacked_is_named(made, lines):
    page = made["index.html"].decode()
    (said,) = re.findall(r"attacked in none of them: (.*?)</p>", page)
    names = set(re.findall(r"<code>(\w+)</code>", said))
    assert {"fedprox", "moon", "fedbn"} <= names
    assert names.isdisjoint({e["method"] for e in lines})


def tampered(folder, place="smoke", **cells):
    """One table, in which the rows of FedHide(0.1, 10) have these cells."""
    (folder / "fedhide-table4").mkdir()
    with (RESULTS / "fedhide-table4" / "smoke.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    mine = [r for r in rows if r["label"] == "FedHide(0.1, 10)" and r["metric"] == "p_leak"]
    for r in rows:
        r["scale"] = place
    for r in mine:
        r.update(cells)
    assert mine
    with (folder / "fedhide-table4" / f"{place}.csv").open("w", encoding="utf-8", newline="") as f:
        table = csv.DictWriter(f, rows[0])
        table.writeheader()
        table.writerows(rows)
    return leaderboard_files(folder)


@pytest.mark.parametrize(
    "cells",
    [
        {"low": "0", "high": "0"},
        {"low": "-5"},
        {"control": "1e9"},  # of which all there is would be a small share
        {"floor": "-1"},
        {"n": "0"},  # of no unit there is no line at all
        {"metric": "nosuch"},
    ],
)
def test_a_table_that_contradicts_itself_is_refused(cells, tmp_path):
    with pytest.raises(BrokenFile, match=r"smoke\.csv is damaged \(FedHide\(0\.1, 10\)"):
        tampered(tmp_path, **cells)


def test_a_table_at_the_papers_scale_is_read(tmp_path):
    made = tampered(tmp_path, "full")
    told = json.loads(made["leaderboard.json"])["entries"]
    assert "full" in {e["scale"] for e in told}
    assert b"None is at its paper" not in made["index.html"]


def test_without_a_table_of_what_fits_nobody_says_that_nothing_does(tmp_path, lines):
    page = tampered(tmp_path)["index.html"].decode()
    assert "none that declares this metric" not in page
    assert "not known: no table says what fits it" in page
    assert all(e["untried"] is not None for e in lines)


def test_what_was_gained_stands_beside_what_chance_gives(made, lines):
    page = made["index.html"].decode()
    told = [f"{e['gained']['chance']:.3g}" for e in lines if e["gained"]]
    assert re.findall(r", chance ([\d.]+)</small>", page) == told


def test_two_settings_whose_names_differ_by_a_sign_have_two_addresses(tmp_path):
    table = (RESULTS / "fedhide-table4" / "smoke.csv").read_text(encoding="utf-8")
    folder = tmp_path / "fedhide-table4"
    folder.mkdir()
    (folder / "smoke.csv").write_text(table.replace('"FedHide(0.1, 5)"', '"FedHide(0.1; 10)"'))
    told = json.loads(leaderboard_files(tmp_path)["leaderboard.json"])["entries"]
    mine = {e["label"]: e["address"] for e in told if e["label"].startswith("FedHide(0.1")}
    assert len({*mine.values()}) == len(mine) >= 2


def test_what_a_table_names_is_text_and_nothing_else(tmp_path):
    folder = tmp_path / "fedhide-table4"
    shutil.copytree(RESULTS / "fedhide-table4", folder)
    path = folder / "smoke.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("FedCS(0.5)", "<script>alert(1)</script>"), encoding="utf-8")
    files = leaderboard_files(tmp_path)
    assert b"<script>alert" not in b"".join(files.values()).replace(files["leaderboard.json"], b"")
    assert b"&lt;script&gt;alert(1)" in files["index.html"]


def test_a_folder_without_tables_is_said(tmp_path, capsys):
    assert run(["leaderboard", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert "leakbench reproduce" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_runs_is_told_whose_it_is(tmp_path, capsys):
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "run.json").write_text("{}", encoding="utf-8")
    assert run(["leaderboard", str(tmp_path / "runs"), "-o", str(tmp_path / "out")]) == 2
    assert f"`leakbench report {tmp_path / 'runs'}`" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "what"), [("none", "does not exist"), ("file", "is no folder")])
def test_what_is_no_folder_is_said(tmp_path, capsys, name, what):
    (tmp_path / "file").touch()
    assert run(["leaderboard", str(tmp_path / name), "-o", str(tmp_path / "out")]) == 2
    assert f"{name} {what}: expected the folder" in capsys.readouterr().err


def test_the_command_writes_it(tmp_path, capsys, lines):
    assert run(["leaderboard", str(RESULTS), "-o", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"page": str(tmp_path / "index.html"), "lines": len(lines)}
    assert len(list((tmp_path / "badges").iterdir())) == len(lines)


def test_every_attack_named_is_one_of_ours(lines):
    assert {e["attack"].split("(")[0] for e in lines} <= set(registry.names("attacks"))


@pytest.fixture(scope="module")
def browser():
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    out = tmp_path_factory.mktemp("board")
    write_leaderboard(RESULTS, out)
    return out / "index.html"


@needs_browser
@pytest.mark.slow
class TestInABrowser:
    def test_search_and_filters_hide_what_does_not_fit(self, browser, page_file, lines):
        with opened(browser, page_file) as page:
            page.fill("#find", "fedhide unmixing")
            page.select_option("#task", "cifar100")
            mine = [
                e
                for e in lines
                if e["task"] == "cifar100"
                and "unmixing" in f"{e['attack']} {e['tried']}{e['untried']}"
            ]
            shown = page.locator("tbody:visible").evaluate_all("found => found.map((b) => b.id)")
            assert set(shown) == {e["address"] for e in mine if "FedHide" in e["label"]}
            assert page.locator("#count").inner_text() == f"{len(shown)} of {len(lines)}"
            assert page.locator("section:visible").count() == 1
            page.select_option("#standing", "too_weak")
            assert page.locator("tbody:visible").count() == 0

    def test_paper_shows_all_lines_whatever_is_sought(self, browser, page_file, lines):
        with opened(browser, page_file) as page:
            page.fill("#find", "fedhide unmixing")
            page.emulate_media(media="print")
            assert page.locator("tbody:visible").count() == len(lines)

    def test_an_address_opens_its_line_whatever_is_filtered(self, browser, page_file):
        with opened(browser, page_file) as page:
            page.fill("#find", "no such thing")
            page.evaluate("location.hash = '#cifar100-fedhide-0.1-10-p-leak'")
            line = page.locator("[id='cifar100-fedhide-0.1-10-p-leak']")
            line.locator(".more").wait_for(state="visible")
            assert line.locator("button.opens").get_attribute("aria-expanded") == "true"
            assert page.locator(".more:visible").count() == 1
            line.locator("button.opens").press("Enter")
            assert page.locator(".more:visible").count() == 0

    def test_a_sorted_table_keeps_each_line_with_what_belongs_to_it(self, browser, page_file):
        with opened(browser, page_file) as page:
            table = page.locator("section[data-task='digits'] table").first
            before = table.locator("tbody").evaluate_all("found => found.map((b) => b.id)")
            table.get_by_role("button", name="How far").click()
            table.get_by_role("button", name="How far").click()
            after = table.locator("tbody").evaluate_all("found => found.map((b) => b.id)")
            assert sorted(after) == sorted(before)
            assert after != before
            shares = table.locator("tbody > tr:first-child > td:nth-child(2)").evaluate_all(
                "found => found.map((c) => c.dataset.v === undefined ? null : Number(c.dataset.v))"
            )
            judged = [s for s in shares if s is not None]
            assert judged == sorted(judged, reverse=True)
            assert table.locator("tbody > tr:nth-child(2).more").count() == len(before)

    def test_a_phone_needs_no_scrolling_sideways(self, browser, page_file):
        with opened(browser, page_file, 390, 844) as page:
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            wide = page.evaluate(
                "[...document.querySelectorAll('tbody *')].filter((e) =>"
                " e.getClientRects().length && e.getBoundingClientRect().right > 390).length"
            )
            assert wide == 0
            told = "found => found.map((e) => e.getBoundingClientRect().width)"
            assert min(page.locator("caption:visible").evaluate_all(told)) > 300

    def test_without_script_every_line_stands_open(self, browser, page_file, lines):
        with opened(browser, page_file, java_script_enabled=False) as page:
            assert page.locator(".more:visible").count() == len(lines)
            assert page.locator(".filter:visible").count() == 0
