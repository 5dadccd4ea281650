"""The page: opens offline, says everything, escapes everything, and never shows a dead run on the
front.
"""

from __future__ import annotations

import base64
import hashlib
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers.page import EMPTY, EVIL, Page
from helpers.report_data import SETTINGS, again, built, gained, report_data, row, setting

from leakbench.base.errors import UsageError
from leakbench.base.reason import reason
from leakbench.judging.judging import find_questions
from leakbench.metrics.prototypes import P_LEAK
from leakbench.reporting.check_data import Check, CheckRow
from leakbench.reporting.check_lines import heading
from leakbench.reporting.data import Origin, Picture
from leakbench.reporting.png import Images
from leakbench.results.number import Missing
from leakbench.words.headlines import with_words
from reports._chart.labels import beside, column
from reports._chart.scale import AxisScale, domain
from reports.figures import Figures
from reports.html import Html, render


@pytest.fixture(scope="module")
def page():
    return Page(render(report_data()))


@pytest.fixture(scope="module")
def text():
    return render(report_data())


def test_loads_nothing_and_runs_nothing(text, page):
    pattern = (
        r"""(?:\s(?:src|data|poster|xlink:href)|<(?:link|use|image|base)[^>]*\shref)\s*=\s*["']?\s*(?:https?:)?//"""
        r"""|@import|url\(\s*["']?(?:https?:)?//"""
    )
    assert not re.search(pattern, text)
    assert not page.all("link", "iframe", "object", "base")
    # Data, and the page's own script.
    assert [at for at, _ in page.all("script")] == [
        {"type": "application/json", "id": "charts"},
        {},
    ]
    for tag, at, _ in page.elements:
        assert "style" not in at, tag
        assert not [a for a in at if a.startswith("on")], tag
        assert at.get("src", "data:image/png;base64,").startswith("data:image/png;base64,")
        inside = r"data:image/png;base64,[A-Za-z0-9+/=]+" if tag == "image" else r"#[a-z0-9.-]+"
        assert re.fullmatch(inside, at.get("href", "#a" if tag != "image" else "")), (tag, at)


def test_policy_allows_exactly_the_style_and_the_script_that_are_there(text):
    style, script = (
        base64.b64encode(
            hashlib.sha256(
                re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL).group(1).encode()
            ).digest()
        ).decode()
        for tag in ("style", "script")
    )
    found = (
        re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
        .group(1)
        .replace("&#39;", "'")
    )
    allowed = f"style-src 'sha256-{style}'; script-src 'sha256-{script}'"
    start = "default-src 'none'; img-src data:; media-src data:"
    assert found == f"{start}; {allowed}; base-uri 'none'; form-action 'none'"


def test_links_lead_somewhere_and_names_are_unique(page):
    ids = [at["id"] for _, at, _ in page.elements if "id" in at]
    assert len(ids) == len(set(ids))
    for at, _ in page.all("a"):
        assert at["href"][1:] in ids


def test_no_cell_is_empty_a_dash_or_nan(page):
    cells = page.all("td", "th", "dd", "caption")
    assert len(cells) > 200
    for _, text in cells:
        assert text not in ("", "-", "–", "—", "0", "nan", "None"), cells
        assert not re.search(r"\b(nan|None|inf)\b", text)


def test_first_screen_says_it_all(page):
    assert page.all("h1")[0][1].startswith(
        "4 of 8 defense settings leak most of what there is to leak, 1 in part; left open: 1 dead,"
        " 1 not attacked. The only one that held has accuracy 0.710"
    )
    assert "5 leak" in page.text
    assert "2 cannot be judged : 1 dead, 1 not attacked" in page.text
    assert "Check failed (exit 1)" in page.text
    assert "FedAwS (reference)" in page.text


def test_never_says_private_of_a_method(page):
    assert not re.search(
        r"(?<!not )\b(private|safe|secure)\b",
        page.text.replace("It is not private either", ""),
        re.IGNORECASE,
    )


def test_every_number_has_interval_floor_control_n_and_command(page, text):
    data = report_data()
    numbers = [n for s in data.settings for n in s.numbers]
    assert sum(n.metric == "p_leak" for n in numbers) == 40
    for n in numbers:
        if n.metric == "p_leak":
            assert f"({n.value.low:.2f} to {n.value.high:.2f})" in page.text
        assert n.command in page.text
    for s in data.settings:
        assert s.command
        assert s.command in page.text
    assert "60 clients" in page.text
    assert "test units) is not beyond chance (0.100)." in page.text
    assert "the attack was given the true prototypes" in page.text
    assert (
        "0.04 (FedHide, Table 4; ± is a standard deviation; clients 100 there, 20 here)"
        in page.text
    )
    assert "A probe is an update from a single example" in page.text
    assert "images are under 32 px: LPIPS does not apply." in page.text


def test_a_dead_run_is_a_cross_and_never_on_the_front(text):
    data, dead = report_data(), SETTINGS[6][0].key
    settings = []
    for s in data.settings:
        on = [n.model_copy(update={"on_front": True}) for n in s.numbers]
        settings.append(s.model_copy(update={"numbers": tuple(on)}) if s.key == dead else s)
    questions = with_words(find_questions(settings, data.missing))
    for question in questions:
        judged = next(j for j in question.judged if j.setting.key == dead)
        assert judged.verdict.word == "dead run"
        assert not any(judged.setting.id in on for on in question.fronts.values())
    forced = data.model_copy(update={"settings": tuple(settings), "questions": questions})
    assert render(forced) == text
    assert 'class="mk dead"' in text


def test_the_same_data_give_the_same_bytes(tmp_path):
    first, second = (Html().write(report_data(), tmp_path / n)[0].read_bytes() for n in "ab")
    assert first == second


def test_strings_from_run_folders_are_escaped_everywhere():
    base = setting(EVIL, {"alpha": EVIL, EVIL: 1.0}, (EVIL,), task=EVIL)
    said = {"flags": EVIL, "unit": EVIL, "claimed": 0.1, "claimed_source": EVIL, "stage": "final"}
    rows = [
        row(base, 0.9, a, "method", m, 0.5, failed=1, **said)
        for a in (EVIL, "cascade", "any_attack")
        for m in ("p_leak", EVIL)
    ]
    other = setting(EVIL, {"alpha": 2}, (EVIL,), task=EVIL)
    rows += [row(other, 0.8, EVIL, "method", "p_leak", 0.1, utility_metric=EVIL)]
    images = Images()
    drawn = {"attack": EVIL, "params": {}, "unit": EVIL, "probe": 0, "round": 1, "psnr": 3.0}
    image = Picture(role="attack", sha256=images.add(np.zeros((2, 2))), **drawn)
    bad = {"verdict": "cannot tell", "row": EVIL, "ref": EVIL, "why": EVIL, "command": EVIL}
    none = dict.fromkeys(("old", "new", "difference", "low", "high", "margin"))
    check = CheckRow(meaning=P_LEAK.meaning, **bad, **none)
    data = built(
        rows,
        more={base.key: {"pictures": [image], "command": EVIL}},
        title=EVIL,
        made=Origin(version=EVIL, commit=EVIL, dirty=False, at=EVIL),
        missing=[Missing(configuration=base, attack=EVIL, metric=EVIL, reason=EVIL)],
        images=images.found,
        check=Check(exit=3, lines=(EVIL,), against=EVIL, heading=EVIL, rows=(check,)),
    )
    text = render(data)
    page = Page(text)
    assert [at for at, _ in page.all("script")] == [
        {"type": "application/json", "id": "charts"},
        {},
    ]
    assert all(at["src"].startswith("data:") for at, _ in page.all("img"))
    assert not [a for _, at, _ in page.elements for a in at if a.startswith("on")]
    assert "{{7*7}}" in page.text
    assert text.count("</style>") == 1
    assert text.count("<script") == text.count("</script>") == 2
    # The name is there, but nothing in it can end the block.
    assert "alert(1)" in page.all("script")[0][1]


@pytest.mark.parametrize(
    "data", [EMPTY, report_data(numbers=(), check=None), report_data(runs=None)]
)
def test_pages_with_little_to_say_say_so(data):
    page = Page(render(data))
    if not any(s.numbers for s in data.settings):
        assert (
            page.all("h1")[0][1]
            == "No attack has been run: this report says nothing about privacy."
        )
        assert "No attack has been run: nothing here speaks of leakage." in page.text
    assert not [t for _, t in page.all("td", "dd") if not t]


def test_why_not_attacked_is_the_reason_of_an_attack_that_would_fit():
    base, other = setting("fedgn", {"sigma": 0.1}), setting("fedgn", {"sigma": 0.3})
    rows = [row(base, 0.9, a, "method", "p_leak", 0.9) for a in ("unmix", "cascade", "any_attack")]
    reasons = {"distance_correlation": "clients send no features", "unmix": "it was not run"}
    gone = [
        Missing(configuration=other, attack=a, metric="", reason=why) for a, why in reasons.items()
    ]
    data = built(rows, utility=[gained(other, 0.8)], runs=None, missing=gone)
    text = Page(render(data)).text
    assert "Not attacked: it was not run. Nothing is known about its leakage." in text


def test_what_has_no_number_at_the_end_is_not_explained_by_what_its_metrics_lack():
    base, other = setting("fedgn", {"sigma": 0.1}), setting("fedgn", {"sigma": 0.3})
    rows = [row(base, 0.9, a, "method", "p_leak", 0.9) for a in ("unmix", "cascade", "any_attack")]
    early = [row(other, 0.9, "unmix", "method", "p_leak", 0.9, stage="early")]
    ended = reason("no_end", params={}, stages=["early"], seeds=[])
    lacks = reason("no_weights", text="a weight is missing")
    gone = [
        Missing(configuration=other, attack="unmix", metric=m, reason=why, meaning=meaning)
        for m, why, meaning in (("p_leak", lacks, P_LEAK.meaning), ("", ended, None))
    ]
    text = Page(render(built(rows + early, runs=None, missing=gone))).text
    assert "Not attacked: no number of the end of training, only early: " in text
    assert "Not attacked: a weight is missing" not in text


def test_earlier_stages_are_folded_and_told_only_where_they_differ():
    base = setting("fedgn", {"sigma": 0.1})
    late = [
        row(base, 0.9, a, "method", "p_leak", 0.01, low=0.0, high=0.05, stage="final")
        for a in ("unmix", "cascade", "any_attack")
    ]
    early = [
        row(base, 0.9, a, "method", "p_leak", 0.9, stage="early")
        for a in ("unmix", "cascade", "any_attack")
    ]
    page = Page(render(built(late + early)))
    assert "held" in page.all("h1")[0][1]
    assert "For this question only. On prototypes, early in training: leaks." in page.text
    # Two drawings, one record.
    assert page.text.count("Leaks: an attacker names 18 of 20 clients on average") == 3
    same = Page(render(built(late + [again(n, stage="early") for n in late])))
    assert same.text.count("Held on this question against") == 5  # four drawings, one record


def test_check_strip_keeps_five_lines_and_counts_the_rest():
    none = dict.fromkeys(("old", "new", "difference", "low", "high", "margin"))
    known = {"verdict": "cannot tell", "ref": "", "meaning": P_LEAK.meaning, **none}
    rows = tuple(CheckRow(row=f"row {i}", why="no such row now", **known) for i in range(7))
    check = Check(exit=3, lines=(), heading=heading(3, rows), rows=rows)
    page = Page(render(report_data(check=check)))
    assert "Check undecided (exit 3): 7 cannot tell." in page.text
    assert "row 4" in page.text
    assert "row 5" not in page.text
    assert "and 2 more" in page.text


def test_a_hundred_settings_fit_and_fold():
    bases = [setting("fedhide", {"alpha": round(0.01 * i, 2), "k": 3}) for i in range(100)]
    rows = [
        row(b, 0.5 + i / 250, a, "method", "p_leak", 0.99 - i / 400)
        for i, b in enumerate(bases)
        for a in ("unmix", "cascade", "any_attack")
    ]
    text = render(built(rows))
    page = Page(text)
    assert len(text) < 2_000_000
    assert "FedHide 100 settings" in page.text
    assert "0.500 to 0.896" in page.text


def test_an_error_rate_is_turned_and_its_chance_lies_at_the_bottom():
    base = setting("fedmetric", {"k": 1})
    rows = [
        row(
            base,
            0.05,
            a,
            "method",
            "lpips",
            0.1,
            leaks="down",
            floor=0.6,
            control=0.02,
            utility_metric="eer",
            chance=0.5,
            probe=False,
        )
        for a in ("inversion", "cascade", "any_attack")
    ]
    text = render(built(rows))
    strip = re.search(r'<rect x="52" y="([\d.]+)"[^>]*height="([\d.]+)" class="strip"', text)
    assert float(strip.group(1)) + float(strip.group(2)) == 378
    grid = {
        t: float(x)
        for x, t in re.findall(
            r'<text x="([\d.]+)" y="395" text-anchor="middle">([\d.]+)</text>', text
        )
    }
    assert grid["0.0"] > grid["1.0"]  # less distance is more leakage: to the right
    assert "Leaks: an attacker rebuilds images to LPIPS 0.10" in text


def test_figures_are_made_for_every_question_and_setting(tmp_path):
    data = report_data()
    paths = Figures().write(data, tmp_path)
    names = {p.name for p in paths}
    assert {
        "tradeoff-digit-pairs-prototypes.svg",
        "tradeoff-digit-pairs-images-on-probes.png",
    } <= names
    assert sum(n.startswith("pictures-") for n in names) == 8
    assert all(p.stat().st_size > 1000 for p in paths)
    few = []
    for s in data.settings:
        few.append(s.model_copy(update={"pictures": s.pictures[:4]}))
    less = data.model_copy(update={"settings": tuple(few)})
    made = Figures().write(less, tmp_path / "again")
    assert [p.read_bytes() for p in paths[:4]] == [p.read_bytes() for p in made[:4]]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot write"):
        Html().write(EMPTY, tmp_path / "file" / "report")


# drawing


def test_scales_run_either_way_and_ticks_are_round():
    up, down = AxisScale(0, 1, 100, 0), AxisScale(0, 1, 0, 100)
    assert (up(0), up(1), up(0.25)) == (100, 0, 75)
    assert down(2) == 100
    assert AxisScale(1, 0, 100, 0)(1) == 100  # an error rate: worst at the bottom
    assert len(AxisScale(1, 0, 100, 0).ticks()) == 6
    assert [t for _, t in up.ticks()] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert AxisScale(1, 1000, 0, 3, log=True)(10) == pytest.approx(1)
    assert [t for _, t in AxisScale(1, 1000, 0, 3, log=True).ticks()] == ["1", "10", "100", "1000"]


@pytest.mark.parametrize("values", [[0.5], [0.0, 1.0], [12.0, 78.0, 13.0], [1e-6, 0.3]])
@pytest.mark.parametrize("log", [False, True])
def test_a_domain_holds_all_its_values(values, log):
    low, high = domain(values, None, log=log)
    assert low < high
    assert all(low <= v <= high for v in values if v > 0 or not log)


def test_labels_keep_clear_of_each_other():
    taken = []
    frame = (0.0, 0.0, 400.0, 400.0)
    for _ in range(6):
        beside("FedHide 0.1", 200, 200, taken, frame)
    for i, a in enumerate(taken):
        for b in taken[:i]:
            assert min(a[2], b[2]) <= max(a[0], b[0]) or min(a[3], b[3]) <= max(a[1], b[1])
    ys = [label.y for label in column([(str(i), 300.0, 50.0) for i in range(10)], 320, 20, 380)]
    assert all(b - a >= 12.9 for a, b in pairwise(ys))


def luminance(colour):
    if len(colour) == 4:
        colour = "#" + "".join(c * 2 for c in colour[1:])
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_can_be_read_in_light_and_in_dark():
    style = (Path(__file__).parents[2] / "leakbench/reporting/page_parts/base.css").read_text()
    pairs = re.findall(r"--([a-z-]+):light-dark\((#[0-9a-f]+),(#[0-9a-f]+)\)", style)
    assert len(pairs) >= 15
    themes = [{name: both[i] for name, *both in pairs} for i in (0, 1)]
    for c in themes:
        for ink in ("ink", "mut", "leak", "part", "held", "none", "link"):
            assert contrast(c[ink], c["bg"]) >= 4.5, ink
        for tone in ("leak", "part", "held", "none"):
            assert contrast(c[tone], c[f"{tone}-t"]) >= 4.5, tone
            assert contrast(c["mut"], c[f"{tone}-t"]) >= 4.5, tone
