"""The trade-off chart and the data of its switch: the table's numbers, honest staircases, nobody
dead or untried on a front.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.report_data import again, built, report_data, row, setting

from leakbench.judging.attackers import row_of
from leakbench.judging.fronts import Axes, front, lost, steps, trades
from leakbench.metrics.prototypes import P_LEAK
from leakbench.reporting.check_data import Check, CheckLimit, CheckRow
from leakbench.reporting.check_lines import heading
from leakbench.results.cells import table_lines
from leakbench.words.attackers import ATTACKERS, absent, present
from reports._chart import chart as chart_module
from reports._chart import svg
from reports._chart.callouts import obstacles, short_names, worth_a_label
from reports._chart.chart import chart
from reports._chart.data import block, chart_data
from reports._chart.labels import box_of, overlap, side_by_side, within
from reports._chart.plot import NARROW, WIDE, plot
from reports._chart.points import shapes
from reports._chart.scale import AxisScale
from reports._chart.scene import scene
from reports._chart.small_track import track, track_scale
from reports._page.strip import strip
from reports.html import render

SIGMA = [{"sigma": s} for s in (0.1, 0.2, 0.3, 0.4)]


def attacked(params, utility, paper, real, worst, **more):
    """The rows of one setting: the paper's own attack, one that knows the method, both joined.
    None: it did not run.
    """
    base = setting("fedgn", params)
    found = [
        ("own", "paper", paper),
        ("unmix", "method", real),
        ("cascade", "method", real),
        ("any_attack", "paper" if real is None else "method", worst),
    ]
    return [
        row(base, utility, name, rung, "p_leak", value, **more)
        for name, rung, value in found
        if value is not None
    ]


def ask(rows):
    return built(rows).questions[0]


def axes(question):
    return plot(question, WIDE).axes


@pytest.fixture(scope="module")
def text():
    return render(report_data())


@pytest.fixture(scope="module")
def data(text):
    return json.loads(
        re.search(
            r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL
        ).group(1)
    )


# the data block


def test_its_numbers_are_those_of_the_table(data):
    settings = report_data().settings
    seen = 0
    for chart_ in data["charts"].values():
        for index, told in chart_["settings"].items():
            for key, at in told["at"].items():
                near = []
                for n in settings[int(index)].numbers:
                    own = (n.value.value, n.value.low, n.value.high)
                    if all(f"{o:.6g}" == f"{v:.6g}" for o, v in zip(own, at[:3], strict=True)):
                        near.append(n)
                assert any(
                    n.attacker.name == key or key not in ("cascade", "any_attack") for n in near
                ), (told["name"], key)
                value, floor, control, n, attack, notes = (data["texts"][i] for i in at[3:])
                first = near[0]
                assert value.startswith(f"{first.value.value:.2f} ({first.value.low:.2f} to ")
                assert floor == f"{first.floor.value:.2f}"
                assert control == f"{first.control.value:.2f}"
                assert n.endswith(", 3 seeds")
                assert attack
                assert notes
                seen += 1
    assert seen > 40


def test_each_rung_is_its_own_row_and_the_strongest_up_to_there(data):
    [told] = [
        s for s in data["charts"]["q0"]["settings"].values() if s["name"] == "FedHide α 0.01, K 3"
    ]
    assert {k: round(v[0], 3) for k, v in told["at"].items()} == {
        "paper": 0.1,
        "transcript": 0.29,
        "method": 0.48,
        "cascade": 0.48,
        "any_attack": 0.5,
    }
    base = setting("fedgn", SIGMA[0])
    rows = attacked(SIGMA[0], 0.9, 0.1, 0.3, 0.8)
    [judged] = ask([*rows, row(base, 0.9, "average", "transcript", "p_leak", 0.7)]).judged
    assert row_of(judged, "transcript").value.value == 0.7
    # Who knows more can still do what is possible with less.
    assert row_of(judged, "method").value.value == 0.7
    assert row_of(judged, "public") is None  # nobody with public data attacked it


def test_what_was_not_attacked_is_faint_at_its_worst_case_and_said_to_be():
    base = setting("fedgn", SIGMA[1])
    question = ask(
        [*attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6), *attacked(SIGMA[1], 0.8, 0.2, None, 0.4)]
    )
    assert [a.key for a in present(question)] == ["paper", "method", "cascade", "any_attack"]
    judged = next(j for j in question.judged if j.setting.key == base.key)
    assert row_of(judged, "method") is None
    told = "1 setting of 2 has no such attack that counts and stands faint at its worst case."
    assert absent(question.judged, "method") == told
    assert absent(question.judged, "any_attack") == ""
    found = plot(question, WIDE)
    [faint] = [p for p in found.points("method") if p.faint]
    assert faint.x == found.xs(0.4)
    drawn = chart(scene(found, "method"), shapes(["fedgn"]), "q0")
    assert drawn.count('class="pt faint"') == drawn.count('class="go faint"') == 1
    data_ = chart_data(
        {"q0": {"method": [scene(found, "method")], "any_attack": [scene(found, "any_attack")]}}
    )
    assert data_["texts"][data_["charts"]["q0"]["by"]["method"]["absent"]] == told
    assert "method" not in data_["charts"]["q0"]["settings"][str(judged.setting.index)]["at"]


def test_an_attack_whose_control_failed_stands_for_nobody():
    weak = {"flags": "control_failed", "control": 0.06}
    base = setting("fedgn", SIGMA[0])
    rows = [
        row(base, 0.9, "own", "paper", "p_leak", 0.05, **weak),
        *attacked(SIGMA[0], 0.9, None, 0.9, 0.95),
    ]
    question = ask([*rows, *attacked(SIGMA[1], 0.8, 0.3, 0.4, 0.5)])
    assert [t.leak for t in front(question, "paper", axes(question))] == [0.3]
    # No arrow from it either.
    assert [p.paper is None for p in plot(question, WIDE).points("any_attack")] == [True, False]


@pytest.mark.parametrize("size", [WIDE, NARROW])
# Nobody with public data attacked.
@pytest.mark.parametrize("key", [a.key for a in ATTACKERS if a.key != "public"])
def test_the_drawing_and_the_data_are_one(size, key):
    """What the script would draw from the data is what Python drew, to a tenth of a pixel."""
    question = report_data().questions[0]
    assert key in [a.key for a in present(question)]
    found = scene(plot(question, size), key)
    told = chart_data({"q0": {k: [scene(plot(question, size), k)] for k in (key, "any_attack")}})[
        "charts"
    ]["q0"]
    xs, ys = (AxisScale(*told[size.name][a][:4], log=bool(told[size.name][a][4])) for a in "xy")
    drawn = chart(found, shapes([j.setting.family for j in question.judged]), "q0")
    places = {
        i: (float(x), float(y))
        for i, x, y in re.findall(
            r'data-id="(\d+)"[^>]*transform="translate\(([\d.]+) ([\d.]+)\)"', drawn
        )
    }
    assert set(places) == set(told["settings"])
    for index, given in told["settings"].items():
        at = given["at"].get(key) or given["at"]["any_attack"]
        assert places[index] == pytest.approx(
            (xs(at[0]), ys(given["dead"][size.name] if given["dead"] else given["y"][0])), abs=0.11
        )
    for index, (right, down, *_) in told["by"][key]["labels"][size.name].items():
        label = found.labels[int(index)]
        assert (places[index][0] + right, places[index][1] + down) == pytest.approx(
            (label.x, label.y), abs=0.16
        )
    now = re.search(r'd="M([^"]*)" class="front now"', drawn).group(1)
    corners = [tuple(map(float, c.split())) for c in now.split("L")]
    assert corners == [pytest.approx((xs(x), ys(y)), abs=0.11) for x, y in told["by"][key]["front"]]


def test_the_block_holds_no_tag_and_no_line_separator():
    text = block({"a": "</script><script>alert(1)</script>\u2028\u2029<!--", "\u2028": 1})
    assert "<" not in text
    assert text.isascii()
    assert json.loads(text) == {
        "a": "</script><script>alert(1)</script>\ufffd\ufffd<!--",
        "\ufffd": 1,
    }
    with pytest.raises(ValueError, match="not JSON compliant"):
        block({"a": float("nan")})


def test_every_attacker_of_the_switch_has_data_and_no_other(data, text):
    for ident, chart_ in data["charts"].items():
        keys = set(chart_["by"])
        assert keys == {k for s in chart_["settings"].values() for k in s["at"]}, ident
        assert all(
            str(i) in chart_["settings"]
            for by in chart_["by"].values()
            for i in (*by["on"], by["start"])
        )
    offered = set(re.findall(r'name="attacker" value="(\w+)"', text))
    assert offered == {k for c in data["charts"].values() for k in c["by"]}


# staircases


def test_corners_of_the_staircases_and_what_lies_between():
    rows = [
        *attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6),
        *attacked(SIGMA[1], 0.7, 0.05, 0.2, 0.3),
        *attacked(SIGMA[2], 0.6, 0.2, 0.7, 0.8),
    ]
    question = ask(rows)
    at = axes(question)
    assert (at.most, at.least) == (1.0, 0.0)
    own, worst = (steps(front(question, k, at), at) for k in ("paper", "any_attack"))
    assert own == [(0.05, 0.0), (0.05, 0.7), (0.1, 0.7), (0.1, 0.9), (1.0, 0.9)]
    assert worst == [(0.3, 0.0), (0.3, 0.7), (0.6, 0.7), (0.6, 0.9), (1.0, 0.9)]
    assert lost(question, "any_attack", at) == [
        (0.05, 0.1, 0.0, 0.7),
        (0.1, 0.3, 0.0, 0.9),
        (0.3, 0.6, 0.7, 0.9),
    ]
    assert lost(question, "paper", at) == []


def test_only_what_both_attacked_was_lost():
    rows = [*attacked(SIGMA[0], 0.9, 0.1, None, None), *attacked(SIGMA[1], 0.7, 0.05, 0.2, 0.3)]
    question = ask(rows)
    assert lost(question, "method", axes(question)) == [(0.05, 0.2, 0.0, 0.7)]


def test_nothing_was_lost_where_the_stronger_attackers_front_is_the_better_one():
    # The second has no attack of its own.
    rows = [*attacked(SIGMA[0], 0.7, 0.1, 0.3, 0.3), *attacked(SIGMA[1], 0.9, None, 0.05, 0.05)]
    question = ask(rows)
    assert lost(question, "any_attack", axes(question)) == []


def test_fronts_turn_with_their_axes():
    base = [setting("fedgn", s) for s in SIGMA[:2]]
    common = {
        "leaks": "down",
        "floor": 0.6,
        "control": 0.02,
        "utility_metric": "eer",
        "chance": 0.5,
        "probe": False,
    }
    # Distance by the stronger attacker, by the paper's own.
    found = ((base[0], 0.05, 0.1, 0.4), (base[1], 0.2, 0.5, 0.5))
    rows = [
        row(b, eer, attack, rung, "lpips", own if rung == "paper" else worst, width=0.01, **common)
        for b, eer, worst, own in found
        for attack, rung in (
            ("own", "paper"),
            ("inversion", "method"),
            ("cascade", "method"),
            ("any_attack", "method"),
        )
    ]
    question = ask(rows)
    at = axes(question)
    # No distance at all is the worst leakage.
    assert (at.leaks_up, at.gains_up, at.most) == (False, False, 0.0)
    assert at.least > 0.5
    assert steps(front(question, "any_attack", at), at) == [
        (0.5, at.least),
        (0.5, 0.2),
        (0.1, 0.2),
        (0.1, 0.05),
        (0.0, 0.05),
    ]
    assert lost(question, "any_attack", at) == [(0.4, 0.1, 0.2, 0.05)]


def test_the_dead_the_weak_and_the_hardly_tried_are_on_no_front():
    rows = [
        *attacked(SIGMA[0], 0.9, 0.5, 0.6, 0.6),
        *attacked(SIGMA[1], 0.95, 0.02, 0.02, 0.02, flags="dead_run"),
        *attacked(SIGMA[2], 0.95, 0.03, 0.03, 0.03, flags="control_failed", control=0.06),
        *attacked(SIGMA[3], 0.95, 0.04, None, 0.04),  # only the paper's own attack: no worst case
    ]
    question = ask(rows)
    at = axes(question)
    names = {
        k: [t.judged.setting.configuration.params["sigma"] for t in front(question, k, at)]
        for k in ("paper", "method", "cascade", "any_attack")
    }
    assert names == {"paper": [0.4], "method": [0.1], "cascade": [0.1], "any_attack": [0.1]}
    for a in ATTACKERS:
        for t in trades(question, a.key):
            assert not t.judged.setting.dead
            assert t.judged.verdict.rule != 4
    found = scene(plot(question, WIDE), "any_attack")
    dead = next(p for p in found.points if p.judged.setting.dead)
    assert dead.y > found.plot.strip
    assert dead.judged.setting.index not in found.on
    assert found.start == found.on[0]


def fronts_told(data):
    """For every question the settings that each place names on the worst case's front: the table,
    report.json, the page.
    """
    dumped = data.model_dump(mode="json", by_alias=True)
    block_ = r'<script type="application/json" id="charts">(.*?)</script>'
    charts = json.loads(re.search(block_, render(data), re.DOTALL).group(1))["charts"]
    keys = {s.key: s.id for s in data.settings}
    for i, question in enumerate(data.questions):
        marked = [n for s in data.settings for n in s.numbers if n.on_front]
        asked = (question.metric, question.probe, question.stage)
        worst = [n for n in marked if n.attacker.name == "any_attack" and n.asked == asked]
        table = {keys[n.configuration.key] for n in worst if n.configuration.task == question.task}
        rows = {(r["defense"], r["defense_params"], r["wrappers"]) for r in table_lines(worst)}
        assert len(rows) == len(table)
        assert all(r["on_front"] for r in table_lines(worst))
        on = charts[f"q{i}"]["by"].get("any_attack", {"on": []})["on"]
        yield (
            table,
            set(dumped["questions"][i]["fronts"].get("any_attack", [])),
            {f"r{index}" for index in on},
        )


def test_the_front_of_the_worst_case_is_the_tables():
    told = list(fronts_told(report_data()))
    assert len(told[0][0]) == 4
    for table, file, page in told:
        assert table == file == page


def test_where_only_the_papers_own_attack_ran_no_place_names_a_front():
    late = [*attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6), *attacked(SIGMA[1], 0.7, 0.05, 0.2, 0.3)]
    early = [*attacked(SIGMA[0], 0.9, 0.4, None, 0.4), *attacked(SIGMA[1], 0.7, 0.3, None, 0.3)]
    data = built([*late, *(n.model_copy(update={"stage": "early"}) for n in early)])
    told = {q.stage: found for q, found in zip(data.questions, fronts_told(data), strict=True)}
    assert told["early"] == (set(), set(), set())
    assert told["final"][0] == told["final"][1] == told["final"][2] == {"r0", "r1"}
    # By the papers' own attacks there is a front.
    question = next(q for q in data.questions if q.stage == "early")
    assert question.fronts["paper"] == ["r1", "r0"]


def test_scales_hold_for_every_attacker():
    question = ask(attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6))
    found = plot(question, WIDE)
    for a in present(question):
        for p in found.points(a.key):
            assert WIDE.left <= p.x <= WIDE.wide - WIDE.right
            assert found.xs.value(p.x) == pytest.approx(p.row.value.value)


def test_a_metric_that_begins_at_a_half_leaves_its_strip_little_room():
    base = setting("fedaws", {})
    question = ask(
        [
            row(base, 0.8, a, "method", "p_leak", 0.9, utility_metric="auroc", chance=0.5)
            for a in ("unmix", "cascade", "any_attack")
        ]
    )
    found = plot(question, WIDE)
    assert found.ys.low == pytest.approx(0.4)
    assert Axes.of(question, (0, 1), (found.ys.low, found.ys.high)).least == pytest.approx(0.4)


# words


def test_labels_drop_what_does_not_tell_settings_apart():
    rows = [
        r
        for k in (1, 2)
        for r in attacked({"sigma": 0.1, "k": k, "stored": "as_drawn"}, 0.9, 0.1, 0.5, 0.6)
    ]
    rows += attacked({"sigma": 0.1, "k": 2, "stored": "unit"}, 0.9, 0.1, 0.5, 0.6, flags="dead_run")
    points = plot(ask(rows), WIDE).points("any_attack")
    assert {n: s for n, s in short_names(points).items() if "unit" not in n} == {
        "FedGN k 1, σ 0.1, stored as_drawn": "FedGN k 1",
        "FedGN k 2, σ 0.1, stored as_drawn": "FedGN k 2",
    }


def test_labels_keep_clear_of_points_bars_arrows_and_steps():
    found = plot(ask(attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6)), WIDE)
    [p] = found.points("any_attack")
    taken = obstacles(found, [p], [(100.0, 300.0), (100.0, 200.0)])

    def covered(x, y):
        return any(a <= x <= c and b <= y <= d for a, b, c, d in taken)

    assert covered(p.x + 7, p.y + 7)
    assert covered(found.xs(p.row.value.high) - 1, p.y)
    assert covered((p.paper + p.x) / 2, p.y)
    assert covered(100.0, 250.0)
    assert not covered(p.x, p.y + 20)


def test_words_lie_wholly_inside_and_clear_of_all():
    inside = [(0.0, 0.0, 100.0, 60.0), (100.0, 30.0, 200.0, 60.0)]
    x, y = within(inside, 90.0, 20.0, [(0.0, 0.0, 60.0, 60.0)])
    assert x > 60
    assert y >= 30 or x + 90 <= 100
    assert within(inside, 90.0, 20.0, [(0.0, 0.0, 200.0, 60.0)]) is None
    assert within([], 1.0, 1.0, []) is None


def checks(verdict, row_, **more):
    given = {"ref": row_, "meaning": P_LEAK.meaning, "margin": 0.05, "why": ""}
    numbers = dict.fromkeys(("old", "new", "difference", "low", "high"))
    return CheckRow(verdict=verdict, row=row_, **given | numbers | more)


MORE = checks(
    "leaks more",
    "digit-pairs: FedGN σ 0.3, best real attacker",
    old=0.32,
    new=0.6,
    difference=0.28,
    low=0.2,
    high=0.35,
    why="3 paired seeds",
)
GONE = checks(
    "cannot tell",
    "digit-pairs: FedHide, unmix, on probes",
    old=0.5,
    why="no such row now",
    command="leakbench attack runs",
)
NEW = checks("new", "digit-pairs: FedAwS, utility", new=0.9, why="not in the baseline")
CLOSE = checks(
    "fine",
    "digit-pairs: FedCS, worst case",
    old=0.9,
    new=0.92,
    difference=0.02,
    low=-0.02,
    high=0.04,
)


def check_of(code, *rows, **more):
    return Check(exit=code, lines=(), heading=heading(code, rows), rows=rows, **more)


def test_strip_says_which_row_moved_and_by_how_much():
    found = strip(check_of(1, MORE, GONE, NEW, CLOSE, against="leakage.json"))
    assert found.head == "Check failed (exit 1): 1 row leaks more, 1 cannot tell, 1 new, 1 fine."
    assert found.against == "leakage.json"
    # What is fine keeps nothing from passing: it is counted alone.
    assert [(line.word, line.where) for line in found.lines] == [
        ("leaks more", "digit-pairs: FedGN σ 0.3, best real attacker"),
        ("cannot tell", "digit-pairs: FedHide, unmix, on probes"),
        ("new", "digit-pairs: FedAwS, utility"),
    ]
    assert (found.lines[0].moved, found.lines[0].why) == (
        "P_leak 0.32 → 0.60",
        "+0.28 (+0.20 to +0.35), allowed 0.05. 3 paired seeds.",
    )
    assert found.lines[1].moved == "P_leak 0.50 then"
    assert found.lines[1].why == "no such row now. To settle it: leakbench attack runs."
    assert found.more == 0
    assert strip(None) is None


def test_strip_shows_limits_and_counts_rows_that_moved_together():
    held = {"limit": "p_leak<=0.2", "setting": "release", "meaning": P_LEAK.meaning}
    over = CheckLimit(verdict="breached", value=0.53, low=0.41, high=0.6, attack="unmix", **held)
    kept = CheckLimit(verdict="kept", value=0.1, low=0.05, high=0.15, **held)
    rows = [checks("cannot tell", f"release: {a}", setting="release", why="gone") for a in "abc"]
    found = strip(check_of(1, *rows, limits=(over, kept)))
    assert [(line.tone, line.word, line.where, line.moved) for line in found.lines] == [
        ("leak", "breached", "release: p_leak<=0.2: unmix", "0.53 (at least 0.41)"),
        ("part", "cannot tell", "release: a", "P_leak"),
    ]
    assert [line.why for line in found.lines] == ["", "gone. and 2 more rows."]


@pytest.mark.parametrize(
    ("check", "head", "tone"),
    [
        (check_of(0, CLOSE), "Check passed: the one gated row is fine. Closest: ", "held"),
        (check_of(3), "Nothing is gated yet: `leakbench check", "part"),
        (check_of(3, GONE), "Check undecided (exit 3): 1 cannot tell.", "part"),
    ],
)
def test_strip_at_every_exit_code(check, head, tone):
    found = strip(check)
    assert found.head.startswith(head)
    assert found.tone == tone
    if check.exit == 0:
        assert found.lines == ()
        assert "+0.02 (-0.02 to +0.04), allowed 0.05." in found.head


def test_strip_counts_in_words():
    lost = checks("loses utility", "task: x, utility")
    assert (
        strip(check_of(1, MORE, MORE, lost, lost, lost, CLOSE)).head
        == "Check failed (exit 1): 2 rows leak more, 3 rows lose utility, 1 fine."
    )


def test_strip_leaves_out_no_line_of_a_check_without_rows():
    told = strip(Check(exit=1, lines=("<b>something else</b>",)))
    assert [line.where for line in told.lines] == ["<b>something else</b>"]
    assert told.head == "Check ended with exit 1."


def test_a_track_stands_in_percent_of_the_charts_own_axis():
    question = ask(attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6))
    drawn = track(question.judged, track_scale(question))
    dots = re.findall(r'<circle cx="([\d.]+%)" cy="50%" r="[\d.]+" class="d (\w+)"', drawn)
    assert dots == [("60.0%", "part")]
    # An empty dot says that a setting held: the paper's own attack is a bar, wherever it is drawn.
    bars = re.findall(r'<line x1="([\d.]+%)" x2="([\d.]+%)"[^>]* class="d paper"', drawn)
    assert bars == [("10.0%", "10.0%")]
    common = {"leaks": "down", "floor": 0.6, "control": 0.02, "probe": False, "width": 0.01}
    turned = ask(
        [
            row(setting("fedgn", {}), 0.9, a, "method", "lpips", 0.1, **common)
            for a in ("inversion", "cascade", "any_attack")
        ]
    )
    # Less distance is more leakage: to the right.
    assert 'cx="90.0%"' in track(turned.judged, track_scale(turned))


# the names of both lines


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("ends", [(0.78, 0.9), (0.01, 0.04), (0.97, 1.0), (0.5, 0.5), (0.0, 1.0)])
def test_the_names_of_blind_guess_and_control_never_touch(size, ends):
    rows = attacked(SIGMA[0], 0.8, 0.9, 0.9, 0.9)
    rows = [again(r, floor=ends[0], control=ends[1]) for r in rows]
    drawn = str(chart_module._line_names(plot(ask(rows), size)))
    spans = [
        (float(x), float(y), svg.width(text, 12.0))
        for x, y, text in re.findall(r'x="([-\d.]+)" y="([-\d.]+)"[^>]*>([^<]+)<', drawn)
    ]
    (a, at, wide), (b, level, _) = sorted(spans)
    assert a + wide < b or at != level
    assert all(x >= 0 and x + w <= size.wide for x, _, w in spans)
    if ends == (0.0, 1.0):  # as they were: from their lines inwards
        assert a == pytest.approx(plot(ask(rows), size).xs(0.0), abs=0.1)


def test_texts_of_a_line_give_way_to_each_other():
    assert side_by_side((10, 50), (100, 50), 0, 400) == (10, 100)
    assert side_by_side((80, 50), (100, 50), 0, 400) == (40, 100)
    assert side_by_side((10, 50), (20, 50), 0, 400) == (0, 60)
    assert side_by_side((20, 50), (10, 50), 0, 400) == (60, 0)
    assert side_by_side((360, 50), (390, 50), 0, 400) == (290, 350)
    assert side_by_side((0, 60), (0, 60), 0, 120) is None


@pytest.mark.parametrize(("low", "drawn"), [(0.63, "0.63 to 1.00"), (0.8, "1.00")])
def test_nothing_defended_is_no_point_where_few_units_tell_it(low, drawn):
    """Eight images of eight are 63 to 100 % of all."""
    rows = [n for s in SIGMA for n in attacked(s, 0.8, 0.1, 0.3, 0.3)]
    wide = [n.model_copy(update={"control": replace(n.control, low=low, high=1.0)}) for n in rows]
    page = render(built(wide))
    assert f">nothing defended {drawn}</text>" in page
    assert ('class="ctl band"' in page) == (low == 0.63)


def test_where_all_leak_the_ladder_comes_first_and_the_chart_is_closed():
    every = [n for s in SIGMA for n in attacked(s, 0.8, 0.1, 0.9, 0.9)]
    first, _, rest = render(built(every)).partition('<section id="sweeps">')
    assert first.index('class="ladder"') < first.index("<summary>The same as a chart")
    assert first.index("<summary>The same as a chart") < first.index("<figure>")
    assert 'class="ladder"' not in rest  # and stands once
    assert 'id="ladder"' not in first
    some = every + attacked({"sigma": 9.0}, 0.5, 0.1, 0.3, 0.3)
    first = render(built(some))
    assert first.index("<figure>") < first.index('<section id="ladder">')
    assert "The same as a chart" not in first


def test_who_cannot_be_judged_does_not_bring_the_chart_back():
    """Three leak, and of one only its paper's own attack was tried."""
    every = [n for s in SIGMA[:3] for n in attacked(s, 0.8, 0.1, 0.9, 0.9)]
    page = render(built(every + attacked(SIGMA[3], 0.8, 0.1, None, 0.1)))
    assert "3 of 4 settings of FedGN leak" in page
    assert "The same as a chart" in page


def test_of_many_nobody_is_named_who_cannot_be_judged():
    rows = []
    for i in range(40):
        base, open_ = setting("fedgn", {"sigma": 0.1 * (i + 1)}), i >= 20
        found, width = (0.08, 0.06) if open_ else (0.3, 0.04)
        for name, rung in (("own", "paper"), ("unmix", "method"), ("any_attack", "method")):
            utility = 0.5 + 0.01 * i
            rows.append(row(base, utility, name, rung, "p_leak", found, width=width))
    asked = ask(rows)
    drawn = scene(plot(asked, WIDE), "any_attack")
    words = {j.setting.index: j.verdict.word for j in asked.judged}
    assert "cannot tell" in words.values()
    named = {p.index for p in worth_a_label(plot(asked, WIDE).points("any_attack"), drawn.on)}
    assert named
    assert "cannot tell" not in {words[index] for index in named}


def test_no_label_of_many_touches_another():
    rows, families = [], ("fedgn", "fedcs", "fedhide", "fedmetric", "fedaws", "flea")
    for i in range(150):
        base, utility = setting(families[i % 6], {"sigma": 0.01 * (i + 1)}), 0.3 + i * 53 % 97 / 160
        found = 0.35 + (i * 37 % 100) / 160
        real = [(name, "method", found) for name in ("unmix", "any_attack")]
        for name, rung, value in (("own", "paper", 0.1), *real):
            rows.append(row(base, utility, name, rung, "p_leak", value))
    for size in (WIDE, NARROW):
        found = list(scene(plot(ask(rows), size), "any_attack").labels.values())
        boxes = [box_of(label) for label in found]
        assert len(boxes) > 3
        for i, box in enumerate(boxes):
            others = boxes[:i] + boxes[i + 1 :]
            assert not overlap(np.array([box]), others).any()
