"""Figures of the recipes: every name can be read, and a figure is the same bytes twice."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from leakbench.reproduce import figures, labels
from leakbench.reproduce.recipe import Case, Recipe
from leakbench.reproduce.row import Measurement, Row
from leakbench.results.number import Claim

AT = {  # defense, leakage, utility, half an interval
    "FedAwS": ("fedaws", 1.0, 0.905, 0.03),
    "FedGN(0.1)": ("fedgn", 1.0, 0.9, 0.03),
    "FedGN(0.2)": ("fedgn", 1.0, 0.902, 0.03),
    "FedGN(0.5)": ("fedgn", 0.31, 0.904, 0.1),
    "FedCS(0.1)": ("fedcs", 0.33, 0.899, 0.1),
    "FedCS(0.2)": ("fedcs", 1.0, 0.9, 0.03),
    "FedHide(0.1, 10)": ("fedhide", 0.34, 0.91, 0.1),
    "FedHide(0.01, 10)": ("fedhide", 0.04, 0.855, 0.05),
    "FedHide(0.01, 20)": ("fedhide", 0.02, 0.83, 0.05),
    "collapse: FedHide(0.1, 10) at norm 1": ("fedhide", 0.0, 0.01, 0.02),
}
CASES = tuple(Case(label, defense) for label, (defense, *_) in AT.items())
RECIPE = Recipe("figure", "fedhide", "About.", CASES, (), {})


def rows():
    about = {"recipe": "figure", "scale": "smoke", "dataset": "d", "task": "t"}
    out = []
    for label, (_, across, up, half) in AT.items():
        for measure, v, claimed in (
            ("utility", up, 0.5),
            ("p_leak", across, min(1.0, across + 0.05)),
        ):
            row = Row(
                **about,
                label=label,
                measure=measure,
                metric=measure,
                claim=Claim(value=claimed, low=None, high=None, source="Table 4"),
                ours=Measurement(value=v, low=v - half, high=v + half, n=10, unit="client"),
                flags="dead_run" * ("collapse" in label),
            )
            out.append(row)
    return out


@pytest.fixture(scope="module")
def drawn():
    """The panel as it stands when it is saved: the axes, their names, and each name's box in
    pixels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    figure = Figure(figsize=(4.2, 3.1), layout="constrained")
    axes = figure.add_subplot()
    figures._against(axes, RECIPE, rows())
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [t for t in axes.texts if t.get_text()]
    return axes, texts, [Text.get_window_extent(t, canvas.get_renderer()) for t in texts]


def test_every_point_has_its_name(drawn):
    _, texts, _ = drawn
    assert sorted(t.get_text() for t in texts) == sorted(
        label + " (dead)" * ("collapse" in label) for label in AT
    )
    assert {t.get_text(): t.xy for t in texts}["FedGN(0.5)"] == (0.31, 0.904)


def test_no_name_lies_over_another_or_out_of_the_axes(drawn):
    axes, texts, boxes = drawn
    over = [
        (a.get_text(), b.get_text())
        for (a, x), (b, y) in itertools.combinations(zip(texts, boxes, strict=True), 2)
        if x.overlaps(y)
    ]
    assert over == []
    frame = axes.bbox
    assert all(
        frame.x0 <= b.x0 and b.x1 <= frame.x1 and frame.y0 <= b.y0 and b.y1 <= frame.y1
        for b in boxes
    )


def test_no_name_covers_a_point(drawn):
    axes, texts, boxes = drawn
    points = [
        axes.transData.transform(p)
        for p in [(v[1], v[2]) for v in AT.values()]
        + [(min(1.0, v[1] + 0.05), 0.5) for v in AT.values()]
    ]
    assert [
        t.get_text()
        for t, b in zip(texts, boxes, strict=True)
        if any(b.contains(*p) for p in points)
    ] == []


def test_a_name_that_stands_away_has_a_line_and_each_name_is_nearest_to_its_own_group(drawn):
    axes, texts, boxes = drawn
    away = 0
    for t, b in zip(texts, boxes, strict=True):
        x, y = axes.transData.transform(t.xy)
        away += max(b.x0 - x, x - b.x1, b.y0 - y, y - b.y1, 0) > 45
    assert len([t for t in axes.texts if not t.get_text()]) >= 1
    assert away <= 2  # but for long columns


def test_free_points_keep_their_names_close():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3))
    axes = figure.add_subplot()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    texts = labels.write_labels(
        axes,
        [labels.Named(x, y, f"at {x}", "black") for x, y in ((0.2, 0.2), (0.5, 0.8), (0.8, 0.4))],
    )
    assert all(abs(a) < 30 and abs(b) < 30 for a, b in (t.get_position() for t in texts))
    assert [t.get_text() for t in axes.texts] == ["at 0.2", "at 0.5", "at 0.8"]  # and no lines
    assert labels.write_labels(axes, []) == []


def test_the_same_bytes_twice(tmp_path):
    live = {("FedAwS", "d"): SimpleNamespace(evaluated=())}
    recipe = Recipe("figure", "fedhide", "About.", CASES, (), {}, figure="accuracy")
    for out in ("a", "b"):
        figures.draw(recipe, "smoke", rows(), live, tmp_path / out)
    for name in ("smoke.svg", "smoke.png"):
        assert (tmp_path / "a" / "figure" / name).read_bytes() == (
            tmp_path / "b" / "figure" / name
        ).read_bytes()
