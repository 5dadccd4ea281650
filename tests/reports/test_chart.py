"""The trade-off chart and the data of its switch: the table's numbers, honest staircases, nobody
dead or untried on a front.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from helpers.report_data import report_data, row, setting
from leakbench.judging.settings import find_settings
from leakbench.results.keys import setting_key
from leakbench.results.tradeoff import mark_front

from leakbench.judging import ATTACKERS, Axes, absent, front, lost, present, row_of, steps, trades
from leakbench.judging.judging import find_questions
from leakbench.reporting.data import Check, ReportData
from reports._chart.callouts import obstacles, short_names
from reports._chart.chart import chart
from reports._chart.data import block, chart_data
from reports._chart.labels import within
from reports._chart.plot import NARROW, WIDE, plot
from reports._chart.points import shapes
from reports._chart.scale import Scale
from reports._chart.scene import scene
from reports._chart.small_track import track, track_scale
from reports._page.strip import strip
from reports.html import render

EMPTY = ReportData(
    "leakbench report", "0.1.0", "abc", dirty=False, made="2026-11-21T00:00:00+00:00"
)
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
        ("any_attack", "method", worst),
    ]
    return [
        row(base, utility, name, rung, "p_leak", value, **more)
        for name, rung, value in found
        if value is not None
    ]


def ask(rows, **changes):
    data = replace(EMPTY, tradeoff=rows, **changes)
    settings = find_settings(data)
    return find_questions(data, settings)[0]


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
    settings = {s.index: s.key for s in find_settings(report_data())}
    seen = 0
    for chart_ in data["charts"].values():
        for index, told in chart_["settings"].items():
            rows = [r for r in report_data().tradeoff if setting_key(r) == settings[int(index)]]
            for key, at in told["at"].items():
                near = [
                    r
                    for r in rows
                    if all(
                        f"{r[c]:.6g}" == f"{v:.6g}"
                        for c, v in zip(("value", "low", "high"), at[:3], strict=True)
                    )
                ]
                assert any(
                    r["attack"] == key or key not in ("cascade", "any_attack") for r in near
                ), (told["name"], key)
                value, floor, control, n, attack, notes = (data["texts"][i] for i in at[3:])
                assert value.startswith(f"{near[0]['value']:.2f} ({near[0]['low']:.2f} to ")
                assert floor == f"{near[0]['floor']:.2f}"
                assert control == f"{near[0]['control']:.2f}"
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
    assert row_of(judged, "transcript").value == 0.7
    # Who knows more can still do what is possible with less.
    assert row_of(judged, "method").value == 0.7
    assert row_of(judged, "public") is None  # nobody with public data attacked it


def test_what_was_not_attacked_is_faint_at_its_worst_case_and_said_to_be():
    base = setting("fedgn", SIGMA[1])
    question = ask(
        [*attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6), *attacked(SIGMA[1], 0.8, 0.2, None, 0.4)]
    )
    assert [a.key for a in present(question)] == ["paper", "method", "cascade", "any_attack"]
    judged = next(j for j in question.judged if j.setting.key == setting_key(base))
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
    data_ = report_data()
    question = find_questions(data_, find_settings(data_))[0]
    assert key in [a.key for a in present(question)]
    found = scene(plot(question, size), key)
    told = chart_data({"q0": {k: [scene(plot(question, size), k)] for k in (key, "any_attack")}})[
        "charts"
    ]["q0"]
    xs, ys = (Scale(*told[size.name][a][:4], log=bool(told[size.name][a][4])) for a in "xy")
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
        k: [t.judged.setting.params["sigma"] for t in front(question, k, at)]
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


def test_the_front_of_the_worst_case_is_the_tables():
    data_ = report_data()
    rows = [dict(r) for r in data_.tradeoff]
    mark_front(rows, {"accuracy": "up"}, dict.fromkeys(map(id, rows), "one split"))
    marked = {
        setting_key(r)
        for r in rows
        if r["on_front"] and (r["attack"], r["metric"]) == ("any_attack", "p_leak")
    }
    question = find_questions(data_, find_settings(data_))[0]
    assert len(marked) == 4
    assert {t.judged.setting.key for t in front(question, "any_attack", axes(question))} == marked


def test_scales_hold_for_every_attacker():
    question = ask(attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6))
    found = plot(question, WIDE)
    for a in present(question):
        for p in found.points(a.key):
            assert WIDE.left <= p.x <= WIDE.wide - WIDE.right
            assert found.xs.value(p.x) == pytest.approx(p.row.value)


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
        "FedGN K 1, σ 0.1, stored as_drawn": "FedGN K 1",
        "FedGN K 2, σ 0.1, stored as_drawn": "FedGN K 2",
    }


def test_labels_keep_clear_of_points_bars_arrows_and_steps():
    found = plot(ask(attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6)), WIDE)
    [p] = found.points("any_attack")
    taken = obstacles(found, [p], [(100.0, 300.0), (100.0, 200.0)])

    def covered(x, y):
        return any(a <= x <= c and b <= y <= d for a, b, c, d in taken)

    assert covered(p.x + 7, p.y + 7)
    assert covered(found.xs(p.row.high) - 1, p.y)
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


REAL = (
    (
        "leaks more    digit-pairs/fedgn-{}/cascade/method/p_leak/all: 0.32 -> 0.6, worse by +0.28"
        " [+0.2, +0.35], margin 0.05, 3 paired seeds"
    ),
    (
        "cannot tell   digit-pairs/fedhide-1234abcd/unmix-1234abcd/method/p_leak/final/probe: no"
        " such row now: run the same attacks"
    ),
    (
        "new           digit-pairs/fedaws-12345678/utility/accuracy: 0.9; not in the baseline, so"
        " it is not gated: --update adds it"
    ),
    (
        "fine          digit-pairs/fedcs-12345678/any_attack/method/p_leak/all: 0.9 -> 0.92, worse"
        " by +0.02 [-0.02, +0.04], margin 0.05, x"
    ),
    "4 rows gated: 1 leaks more, 1 cannot tell, 1 new, 1 fine",
)


def test_strip_says_which_row_moved_and_by_how_much():
    from leakbench.base.spec import fingerprint

    settings = find_settings(report_data())
    one = next(s for s in settings if s.name == "FedGN σ 0.3")
    print_ = fingerprint([one.family, one.params, list(one.wrappers)])
    lines = tuple(line.format(print_) for line in REAL)
    found = strip(Check(1, lines, "leakage.json"), settings)
    assert found.head == "Check failed (exit 1): 1 row leaks more, 1 cannot tell, 1 new, 1 fine."
    assert [(line.word, line.where) for line in found.lines] == [
        ("leaks more", "digit-pairs: FedGN σ 0.3, best real attacker (cascade), P_leak"),
        ("cannot tell", "digit-pairs: FedHide, unmix, P_leak, probe"),
        ("new", "digit-pairs: FedAwS, utility, accuracy"),
    ]
    assert (found.lines[0].moved, found.lines[0].why) == (
        "0.32 → 0.6",
        "+0.28 (+0.2 to +0.35), allowed 0.05. 3 paired seeds.",
    )
    assert found.lines[1].why == "No such row now: run the same attacks."
    assert found.more == 0


@pytest.mark.parametrize(
    ("check", "head", "tone"),
    [
        (
            Check(0, (REAL[3], "1 rows gated: 1 fine")),
            "Check passed: all 1 row fine. Closest: ",
            "held",
        ),
        (
            Check(3, ("cannot tell: the baseline has no rows. Write them with --update.",)),
            "Nothing is gated yet: leakbench check",
            "part",
        ),
        (Check(3, (REAL[1],)), "Check undecided (exit 3): 1 row cannot tell.", "part"),
    ],
)
def test_strip_at_every_exit_code(check, head, tone):
    found = strip(check, [])
    assert found.head.startswith(head)
    assert found.tone == tone
    if check.exit == 0:
        assert found.lines == ()
        assert "+0.02 of 0.05 allowed." in found.head


def test_strip_counts_in_words():
    lines = (REAL[0], REAL[0], *["loses utility task/x"] * 3, REAL[3])
    assert (
        strip(Check(1, lines), []).head
        == "Check failed (exit 1): 2 rows leak more, 3 lose utility, 1 fine."
    )


def test_strip_leaves_out_no_line_that_it_cannot_read():
    assert [line.where for line in strip(Check(1, ("<b>something else</b>",)), []).lines] == [
        "<b>something else</b>"
    ]


def test_a_track_stands_in_percent_of_the_charts_own_axis():
    question = ask(attacked(SIGMA[0], 0.9, 0.1, 0.5, 0.6))
    drawn = track(question.judged, track_scale(question))
    assert re.findall(r'<circle cx="([\d.]+%)" cy="50%" r="[\d.]+" class="d (\w+)"', drawn) == [
        ("10.0%", "paper"),
        ("60.0%", "part"),
    ]
    common = {"leaks": "down", "floor": 0.6, "control": 0.02, "probe": False, "width": 0.01}
    turned = ask(
        [
            row(setting("fedgn", {}), 0.9, a, "method", "lpips", 0.1, **common)
            for a in ("inversion", "cascade", "any_attack")
        ]
    )
    # Less distance is more leakage: to the right.
    assert 'cx="90.0%"' in track(turned.judged, track_scale(turned))
