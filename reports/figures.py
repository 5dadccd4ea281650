"""Figures for papers: the trade-off of every question and the reconstructions.

Each as SVG and PNG.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakbench.base import canonical, one_line, plots, write_bytes
from leakbench.judging import WORST, Judged, Question
from leakbench.reporting import Picture, Report, ReportData, ShownSetting
from leakbench.results import Number, Utility
from reports._chart.labels import column
from reports._chart.points import shapes
from reports._chart.svg import cut
from reports._page.pictures import MOST_UNITS
from reports._words import attack, under

MARKS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "plus": "P",
    "star": "*",
    "hexagon": "h",
    "wedge": "v",
    "pentagon": "p",
}
MANY = 24  # points; beyond, the emptiest corner for the legend is not looked for
MOST_SHEETS = 40  # a second or so each
GREY = "#5c5a55"
COLOURS = {"leak": "#b3390a", "part": "#8a5f00", "held": "#0b5cab", "none": "#67645e"}
FILLS = {"leak": "full", "part": "left", "held": "none", "none": "full"}
# The same input gives the same bytes: no date, no random ids; text stays text.
ROLES = {
    "original": "original",
    "floor": "blind guess",
    "control": "nothing defended",
    "attack": "attack",
}
Shown = tuple[Judged, Number, Utility]
Sheet = tuple[ShownSetting, list[Picture]]


class Figures(Report):
    """`figures/*.svg` and `.png`.

    One trade-off per question, one sheet of reconstructions per setting and attack.
    """

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """Write the figures below ``out``/figures.

        Raises:
            UsageError: the folder cannot be written.
        """
        written: list[Path] = []
        with plots.style():
            for name, figure in self.tradeoffs(data).items():
                written += _save(figure, out, f"tradeoff-{name}", written)
            sheets = _sheets(data)
            drawn = _first(sheets, data)
            for setting, found in drawn:
                who = found[0].attack
                figure = _sheet(data, found, _cut(f"{setting.name}, {attack(who)}", 80))
                name = f"pictures-{setting.task}-{who}-{setting.name}"
                written += _save(figure, out, name, written)
        if len(drawn) < len(sheets):
            written.append(out / "figures" / "left-out.txt")
            text = (
                f"{len(sheets) - len(drawn)} of {len(sheets)} sheets of pictures were not drawn."
                " For them make a report of fewer runs.\n"
            )
            write_bytes(written[-1], text.encode())
        return written

    def tradeoffs(self, data: ReportData) -> dict[str, Any]:
        """{"task-question": matplotlib figure}, the headline's first; of those with a number."""
        marks = shapes([s.family for s in data.settings])
        with plots.style():
            drawn = {f"{q.task}-{q.label}": _tradeoff(q, marks) for q in data.questions}
        return {name: figure for name, figure in drawn.items() if figure is not None}


def _sheets(data: ReportData) -> list[Sheet]:
    """The pictures of each setting and attack."""
    out = []
    for setting in data.settings:
        mine: dict[tuple[str, str], list[Picture]] = {}
        for p in setting.pictures:
            mine.setdefault((p.attack, canonical(p.params)), []).append(p)
        out += [(setting, found) for found in mine.values()]
    return out


def _first(sheets: Sequence[Sheet], data: ReportData) -> list[Sheet]:
    """As many as a report has time for.

    First those of settings on a front, whatever their pictures look like.
    """
    front = {s.index for s in data.settings for n in s.numbers if n.on_front}
    order = sorted(range(len(sheets)), key=lambda i: (sheets[i][0].index not in front, i))
    return [sheets[i] for i in sorted(order[:MOST_SHEETS])]


def _tradeoff(question: Question, marks: dict[str, str]) -> Any:
    """Leakage across, utility up, error bars both ways.

    Dead runs are crosses and never on the front.
    """
    from leakbench.base import NotebookFigure

    found = [(j, j.verdict.worst, j.setting.final) for j in question.judged]
    shown = [(j, row, utility) for j, row, utility in found if row and utility]
    if not shown:
        return None
    figure = NotebookFigure(figsize=(5.2, 3.4), layout="constrained")
    axes: Any = figure.add_subplot()
    for one in shown:
        _point(axes, one, marks)
    meaning, gained = question.meaning, shown[0][2].meaning
    floor = sum(row.floor.value for _, row, _ in shown) / len(shown)
    control = sum(row.control.value for _, row, _ in shown) / len(shown)
    axes.axvline(floor, ls=":", lw=1, color=GREY, label="blind guess")
    axes.axvline(control, ls="-", lw=0.8, color=GREY, label="nothing defended")
    chance = {"lw": 4, "alpha": 0.2, "color": COLOURS["none"], "label": "chance"}
    axes.axhline(shown[0][2].chance, ls="-", **chance)
    on = question.fronts.get(WORST, [])
    front = sorted((r.value.value, u.value.value) for j, r, u in shown if j.setting.id in on)
    if len(front) > 1:
        where = "pre" if meaning.direction == "down" else "post"
        axes.step(*zip(*front, strict=True), where=where, lw=1.2, color="#1c1b19")
    if meaning.drawn == "log":
        axes.set_xscale("log")
    if meaning.direction == "down":
        axes.invert_xaxis()
    if gained.direction == "down":
        axes.invert_yaxis()
    title = f"{question.task}, {question.label}, worst case"
    axes.set_xlabel(_cut(f"leakage: {meaning.heading}", 80), parse_math=False)
    axes.set_ylabel(_cut(gained.heading, 50), parse_math=False)
    axes.set_title(_cut(title, 80), fontsize=9, parse_math=False)
    _name(axes, shown)
    axes.legend(fontsize=6.5, frameon=False, loc="lower right" if len(shown) > MANY else "best")
    return figure


def _point(axes: Any, one: Shown, marks: dict[str, str]) -> None:
    judged, leak, gain = one[0], one[1].value, one[2].value
    tone, at = judged.verdict.tone, ([leak.value], [gain.value])
    across = [[leak.value - leak.low], [leak.high - leak.value]]
    up = [[gain.value - gain.low], [gain.high - gain.value]]
    look: dict[str, Any] = {"marker": MARKS[marks[judged.setting.family]], "fillstyle": FILLS[tone]}
    if judged.setting.dead:
        look = {"marker": "x"}
    colour: dict[str, Any] = {"color": COLOURS[tone], "ls": "none"}
    axes.errorbar(*at, yerr=up, xerr=across, elinewidth=2, alpha=0.35, **colour)
    axes.plot(*at, ms=6, markerfacecoloralt="white", **colour, **look)


def _name(axes: Any, shown: Sequence[Shown]) -> None:
    """Names beside their points.

    Those in the crowded last fifth stand in a column in the margin, with hair lines.
    """
    high = 260.0  # the axes' height in the pixels that `column` counts in
    told: dict[str, tuple[float, float]] = {}
    crowded = []
    small: dict[str, Any] = {"fontsize": 6.5, "parse_math": False}
    for judged, row, utility in shown:
        text = _cut(judged.setting.name, 40) + " (dead)" * judged.setting.dead
        told[text] = (row.value.value, utility.value.value)
        across, up = (axes.transScale + axes.transLimits).transform(told[text])
        if across > 0.8:
            crowded.append((text, float(across), (1 - float(up)) * high))
        else:
            axes.annotate(text, told[text], xytext=(6, 5), textcoords="offset points", **small)
    line = {"arrowstyle": "-", "lw": 0.4, "color": GREY, "relpos": (0, 0.5)}
    for label in column(crowded, 0.0, 0.0, high):
        at = {"xytext": (1.04, 1 - (label.y - 4) / high), "textcoords": "axes fraction"}
        axes.annotate(label.text, told[label.text], arrowprops=line, va="center", **at, **small)


def _sheet(data: ReportData, pictures: Sequence[Picture], title: str) -> Any:
    """Rows: original, blind guess, control, attack; columns: units; PSNR under each."""
    from matplotlib.figure import Figure
    from matplotlib.image import imread

    units = list(dict.fromkeys(p.place for p in pictures))[:MOST_UNITS]
    there = {p.role for p in pictures}
    roles = [role for role in ROLES if role in there]
    at: dict[Any, Picture] = {(p.role, *p.place): p for p in pictures}
    # One set of axes for all of them: a grid of axes takes many times as long.
    wide, high = 0.75 * len(units) + 1.1, 0.92 * len(roles) + 0.4
    figure = Figure(figsize=(wide, high))
    figure.suptitle(title, fontsize=8, y=1 - 0.08 / high, va="top", parse_math=False)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
    small: dict[str, Any] = {"fontsize": 6, "ha": "center", "va": "center", "parse_math": False}
    for i, role in enumerate(roles):
        top = 0.35 + 0.92 * i
        axes.text(0.95, top + 0.33, ROLES[role], fontsize=6.5, ha="right", va="center")
        for j, unit in enumerate(units):
            left, picture = 1.05 + 0.75 * j, at.get((role, *unit))
            png = data.image(picture) if picture else None
            if png is None:
                axes.text(left + 0.33, top + 0.33, "no image", **small)
            else:
                place = (left, left + 0.66, top + 0.66, top)
                axes.imshow(imread(io.BytesIO(png), format="png"), extent=place, **grey)
            axes.text(left + 0.33, top + 0.78, _cut(under(picture), 16), **small)
    axes.set(xlim=(0, wide), ylim=(high, 0))
    return figure


def _cut(text: str, most: int) -> str:
    """On one line, short enough to leave room for the drawing."""
    return cut(one_line(text), most)


def _save(figure: Any, out: Path, name: str, taken: list[Path]) -> list[Path]:
    """``name``.svg and .png, as paths.

    The name is made of letters, digits and hyphens only, and told apart from those ``taken``.
    """
    plain = name.lower().replace("α", "alpha").replace("σ", "sigma").replace("λ", "lam")
    plain = re.sub(r"[^a-z0-9]*[^a-z0-9.][^a-z0-9]*|\.\.+", "-", plain)
    first = plain.strip("-.")[:100].strip("-.") or "figure"
    used, stem, count = {p.stem for p in taken}, first, 2
    while stem in used:
        stem, count = f"{first}-{count}", count + 1
    return plots.save(figure, out / "figures", stem)
