"""Figures for papers: the trade-off of every question and the reconstructions, each as SVG and
PNG.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakbench.base import one_line, write_bytes
from leakbench.judging import Judged, Number, Question, Setting, Utility, all_judged, better, words
from leakbench.reporting import Picture, Report, ReportData
from leakbench.results import setting_key
from reports._chart.labels import column
from reports._page.pictures import MOST_UNITS, attack_name
from reports._chart.points import shapes

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
Sheet = tuple[str, str, str, str]  # task, attack, its parameters, setting
MANY = 24  # points; beyond, the emptiest corner for the legend is not looked for
MOST_SHEETS = 40  # a second or so each
COLOURS = {"leak": "#b3390a", "part": "#8a5f00", "held": "#0b5cab", "none": "#67645e"}
FILLS = {"leak": "full", "part": "left", "held": "none", "none": "full"}
# The same input gives the same bytes: no date, no random ids; text stays text.
STYLE = {
    "svg.hashsalt": "leakbench",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
ROLES = {
    "original": "original",
    "floor": "blind guess",
    "control": "nothing defended",
    "attack": "attack",
}


class Figures(Report):
    """`figures/*.svg` and `.png`: one trade-off per question, one sheet of reconstructions per
    setting and attack.
    """

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """Write the figures below ``out``/figures.

        Raises:
            UsageError: the folder cannot be written.
        """
        import matplotlib

        settings, questions = all_judged(data)
        marks = shapes([s.family for s in settings])
        written: list[Path] = []
        with matplotlib.rc_context(STYLE):
            for question in questions:
                figure = _tradeoff(question, marks)
                if figure is not None:
                    written += _save(
                        figure, out, f"tradeoff-{question.task}-{question.label}", written
                    )
            sheets: dict[Sheet, list[Picture]] = {}
            for picture in data.pictures:
                sheets.setdefault(
                    (picture.task, picture.attack, picture.attack_params, picture.setting), []
                ).append(picture)
            names = {s.key: s.name for s in settings}
            drawn = _drawn(sheets, data, settings)
            for (task, attack, _, key), found in drawn.items():
                name = names.get(key, "unknown setting")
                sheet = _sheet(found, _cut(f"{name}, {attack_name(attack)}", 80))
                written += _save(sheet, out, f"pictures-{task}-{attack}-{name}", written)
        if len(drawn) < len(sheets):
            written.append(out / "figures" / "left-out.txt")
            text = (
                f"{len(sheets) - len(drawn)} of {len(sheets)} sheets of pictures were not drawn."
                " For them make a report of fewer runs.\n"
            )
            write_bytes(written[-1], text.encode())
        return written


def _drawn(
    sheets: dict[Sheet, list[Picture]], data: ReportData, settings: Sequence[Setting]
) -> dict[Sheet, list[Picture]]:
    """As many sheets as a report has time for: first those of settings on a front, whatever their
    pictures look like.
    """
    front = {setting_key(r) for r in data.tradeoff if r["on_front"]}
    place = {s.key: s.index for s in settings}
    order = sorted(sheets, key=lambda k: (k[3] not in front, place.get(k[3], 0), k))
    return {k: sheets[k] for k in sorted(order[:MOST_SHEETS], key=list(sheets).index)}


def _tradeoff(question: Question, marks: dict[str, str]) -> Any:
    """Leakage across, utility up, error bars both ways; dead runs are crosses and never on the
    front.
    """
    from matplotlib.figure import Figure

    shown = [j for j in question.judged if j.verdict.worst and j.setting.utility]
    if not shown:
        return None
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for judged in shown:
        if judged.verdict.worst and judged.setting.utility:
            _point(
                axes,
                judged,
                judged.verdict.worst,
                judged.setting.utility,
                marks[judged.setting.family],
            )
    rows = [j.verdict.worst for j in shown if j.verdict.worst]
    utility = next(j.setting.utility for j in shown if j.setting.utility)
    axes.axvline(
        sum(r.floor for r in rows) / len(rows), ls=":", lw=1, color="#5c5a55", label="blind guess"
    )
    axes.axvline(
        sum(r.control for r in rows) / len(rows),
        ls="-",
        lw=0.8,
        color="#5c5a55",
        label="nothing defended",
    )
    axes.axhline(utility.chance, ls="-", lw=4, alpha=0.2, color="#67645e", label="chance")
    front = sorted(
        (j.verdict.worst.value, j.setting.utility.value)
        for j in shown
        if j.on_front and j.verdict.worst and j.setting.utility
    )
    turned = question.leaks == "down"
    if len(front) > 1:
        axes.step(
            *zip(*front, strict=True), where="pre" if turned else "post", lw=1.2, color="#1c1b19"
        )
    if words(question.metric).log:
        axes.set_xscale("log")
    if turned:
        axes.invert_xaxis()
    if better(utility.metric) == "down":
        axes.invert_yaxis()
    axes.set_xlabel(_cut(f"leakage: {words(question.metric).title}", 80), parse_math=False)
    axes.set_ylabel(_cut(words(utility.metric).title, 50), parse_math=False)
    axes.set_title(
        _cut(f"{question.task}, {question.label}, worst case", 80), fontsize=9, parse_math=False
    )
    _name(axes, shown)
    axes.legend(fontsize=6.5, frameon=False, loc="lower right" if len(shown) > MANY else "best")
    return figure


def _point(axes: Any, judged: Judged, row: Number, utility: Utility, mark: str) -> None:
    tone = judged.verdict.tone
    colour = COLOURS[tone]
    across = [[row.value - row.low], [row.high - row.value]]
    up = [[utility.value - utility.low], [utility.high - utility.value]]
    look: dict[str, Any] = (
        {"marker": "x"}
        if judged.setting.dead
        else {"marker": MARKS[mark], "fillstyle": FILLS[tone]}
    )
    axes.errorbar(
        [row.value],
        [utility.value],
        yerr=up,
        xerr=across,
        color=colour,
        elinewidth=2,
        alpha=0.35,
        ls="none",
    )
    axes.plot(
        [row.value],
        [utility.value],
        ls="none",
        ms=6,
        color=colour,
        markerfacecoloralt="white",
        **look,
    )


def _name(axes: Any, shown: list[Judged]) -> None:
    """Names beside their points; those in the crowded last fifth stand in a column in the margin,
    with hair lines.
    """
    high = 260.0  # the axes' height in the pixels that `column` counts in
    told: dict[str, tuple[float, float]] = {}
    crowded = []
    for judged in shown:
        row, utility = judged.verdict.worst, judged.setting.utility
        if row is None or utility is None:
            continue
        text = _cut(judged.setting.name, 40) + (" (dead)" if judged.setting.dead else "")
        told[text] = (row.value, utility.value)
        across, up = (axes.transScale + axes.transLimits).transform(told[text])
        if across > 0.8:
            crowded.append((text, float(across), (1 - float(up)) * high))
        else:
            axes.annotate(
                text,
                told[text],
                xytext=(6, 5),
                textcoords="offset points",
                fontsize=6.5,
                parse_math=False,
            )
    for label in column(crowded, 0.0, 0.0, high):
        line = {"arrowstyle": "-", "lw": 0.4, "color": "#5c5a55", "relpos": (0, 0.5)}
        at = {
            "xytext": (1.04, 1 - (label.y - 4) / high),
            "textcoords": "axes fraction",
            "va": "center",
            "fontsize": 6.5,
        }
        axes.annotate(label.text, told[label.text], arrowprops=line, parse_math=False, **at)


def _sheet(pictures: list[Picture], title: str) -> Any:
    """Rows: original, blind guess, control, attack; columns: units; PSNR under each."""
    import numpy as np
    from matplotlib.figure import Figure

    units = list(dict.fromkeys(p.place for p in pictures))[:MOST_UNITS]
    roles = [r for r in ROLES if any(p.role == r for p in pictures)]
    at: dict[Any, Picture] = {(p.role, *p.place): p for p in pictures}
    # One set of axes for all of them: a grid of axes takes many times as long.
    wide, high = 0.75 * len(units) + 1.1, 0.92 * len(roles) + 0.4
    figure = Figure(figsize=(wide, high))
    figure.suptitle(title, fontsize=8, y=1 - 0.08 / high, va="top", parse_math=False)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    for i, role in enumerate(roles):
        top = 0.35 + 0.92 * i
        axes.text(0.95, top + 0.33, ROLES[role], fontsize=6.5, ha="right", va="center")
        for j, unit in enumerate(units):
            left, picture = 1.05 + 0.75 * j, at.get((role, *unit))
            if picture is not None and np.isfinite(picture.image).all():
                place = (left, left + 0.66, top + 0.66, top)
                axes.imshow(
                    np.clip(picture.image, 0, 1),
                    cmap="gray",
                    vmin=0,
                    vmax=1,
                    interpolation="nearest",
                    extent=place,
                )
            else:
                axes.text(left + 0.33, top + 0.33, "no image", fontsize=6, ha="center", va="center")
            axes.text(
                left + 0.33,
                top + 0.78,
                _under(picture, role),
                fontsize=6,
                ha="center",
                va="center",
                parse_math=False,
            )
    axes.set(xlim=(0, wide), ylim=(high, 0))
    return figure


def _under(picture: Picture | None, role: str) -> str:
    """What stands under a picture."""
    if picture is None:
        return "not kept"
    if not math.isfinite(float(picture.image.sum())):
        return "attack failed"
    if role == "original":
        return _cut(" ".join(picture.unit.split("/")[:2]), 16)
    return f"{picture.psnr:.0f} dB" if picture.psnr is not None else "PSNR not measured"


def _cut(text: str, most: int) -> str:
    """On one line, short enough to leave room for the drawing."""
    shown = one_line(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _save(figure: Any, out: Path, name: str, taken: list[Path]) -> list[Path]:
    """``name``.svg and .png; the name is made of letters, digits and hyphens only, and told apart
    from those ``taken``.
    """
    stem = (
        re.sub(
            r"[^a-z0-9]*[^a-z0-9.][^a-z0-9]*|\.\.+",
            "-",
            name.lower().replace("α", "alpha").replace("σ", "sigma").replace("λ", "lam"),
        )
        .strip("-.")[:100]
        .strip("-.")
        or "figure"
    )
    used = {p.stem for p in taken}
    count = 2
    first = stem
    while stem in used:
        stem, count = f"{first}-{count}", count + 1
    paths = []
    for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        data = io.BytesIO()
        with warnings.catch_warnings():
            # A name in a script that the font lacks: a box is drawn.
            warnings.filterwarnings("ignore", r"Glyph .* missing from font")
            figure.savefig(data, format=kind, dpi=200, metadata=metadata)
        path = out / "figures" / f"{stem}.{kind}"
        write_bytes(path, data.getvalue())
        paths.append(path)
    return paths
