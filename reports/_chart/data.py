"""What the page's script is given: numbers, words and corners per attacker.

Corners are in data units, so that it only has to move things.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.base import printable_json
from leakbench.judging import PAPER, row_of
from leakbench.results import Number
from leakbench.words import ATTACKERS, absent, plural
from reports._chart.callouts import short_names
from reports._chart.labels import Label
from reports._chart.plot import PlotPoint
from reports._chart.scale import AxisScale
from reports._chart.scene import Scene
from reports._words import attack, interval, notes, utility

Json = dict[str, Any]


class Texts:
    """Every sentence once; elsewhere its number stands for it."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The number of a text."""
        return self.found.setdefault(text, len(self.found))


def chart_data(scenes: Mapping[str, Mapping[str, Sequence[Scene]]]) -> Json:
    """The data of every chart: question's place -> attacker -> its scenes, wide and narrow."""
    texts = Texts()
    charts = {ident: _question(of, texts) for ident, of in scenes.items()}
    attackers = {a.key: [a.label, a.says] for a in ATTACKERS}
    return {"attackers": attackers, "charts": charts, "texts": list(texts.found)}


def block(data: Json) -> str:
    """JSON that can stand in a script element.

    It is plain ASCII without `<`, so it holds neither an end tag nor a line separator.

    Its texts hide nothing either, for the script shows them as they are.
    """
    text = json.dumps(printable_json(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _question(by: Mapping[str, Sequence[Scene]], texts: Texts) -> Json:
    first = next(iter(by.values()))
    points = first[0].points
    names = short_names(points)
    titles = [points[0].utility.meaning.heading, first[0].plot.question.meaning.heading]
    axes = {s.plot.size.name: {"x": _scale(s.plot.xs), "y": _scale(s.plot.ys)} for s in first}
    settings = {}
    for p in points:
        settings[str(p.index)] = _setting(p, names[p.judged.setting.name], by, texts)
    return {
        **axes,
        "names": [texts(title) for title in titles],
        "settings": settings,
        "by": {key: _attacker(key, scenes, texts) for key, scenes in by.items()},
    }


def _scale(scale: AxisScale) -> list[Any]:
    ends = (scale.low, scale.high, scale.start, scale.stop)
    return [*map(number, ends), int(scale.log)]


def _setting(point: PlotPoint, short: str, by: Mapping[str, Sequence[Scene]], texts: Texts) -> Json:
    judged, gain = point.judged, point.utility.value
    dead = None
    if point.dead:
        # A dead run stands in its strip, wherever its utility is; the strips of the two drawings
        # differ by a pixel.
        scenes = next(iter(by.values()))
        dead = {s.plot.size.name: number(_height(s, point)) for s in scenes}
    rows = {key: row_of(judged, key) for key in by}
    told: Json = {
        "name": judged.setting.name,
        "short": short,
        "family": judged.setting.family,
        "dead": dead,
        "verdict": texts(judged.verdict.word),
        "y": [number(v) for v in (gain.value, gain.low, gain.high)],
        "utility": texts(utility(point.utility)),
        "at": {key: _row(point, row, texts) for key, row in rows.items() if row},
    }
    if point.paper is not None:
        paper = row_of(judged, PAPER)
        told["paper"] = number(paper.value.value) if paper else None
    return told


def _height(found: Scene, point: PlotPoint) -> float:
    """The utility at which a point is drawn."""
    return found.plot.ys.value(next(p.y for p in found.points if p.index == point.index))


def _row(point: PlotPoint, row: Number, texts: Texts) -> list[Any]:
    """Value, low, high, then what the tooltip says.

    That is number, blind guess, nothing defended, n, attack, notes.
    """
    meaning, value = row.meaning, row.value
    noun, seeds = meaning.noun or "units", max(len(point.judged.setting.seeds), 1)
    units = f"{value.n} {noun.removesuffix('s') if value.n == 1 else noun}"
    said = (
        interval(meaning, value),
        meaning.text(row.floor.value),
        meaning.text(row.control.value),
        f"{units}, {plural(seeds, 'seed')}",
        attack(row.attacker.name),
        notes(row.flags),
    )
    numbers = [number(v) for v in (value.value, value.low, value.high)]
    return [*numbers, *(texts(s) for s in said)]


def _attacker(key: str, scenes: Sequence[Scene], texts: Texts) -> Json:
    one = scenes[0]
    words, labels = {}, {}
    for s in scenes:
        size = s.plot.size.name
        words[size] = [round(v, 1) for v in s.lost_at] if s.lost_at else None
        labels[size] = {str(i): _label(t, s, i) for i, t in s.labels.items()}
    return {
        "front": [list(map(number, corner)) for corner in one.front],
        "claimed": [list(map(number, corner)) for corner in one.claimed],
        "lost": [list(map(number, slab)) for slab in one.lost],
        "on": list(one.on),
        "start": one.start,
        "crowd": list(map(number, one.crowd)) if one.crowd else None,
        "absent": texts(absent((p.judged for p in one.points), key)),
        "words": words,
        "labels": labels,
    }


def _label(label: Label, found: Scene, index: int) -> list[Any]:
    """From the point in pixels: right, down, whether it ends there, the text, the hair line.

    Of the hair line its corners.
    """
    p = next(p for p in found.points if p.index == index)
    hair = [[round(x - p.x, 1), round(y - p.y, 1)] for x, y in label.hair]
    right, down = round(label.x - p.x, 1), round(label.y - p.y, 1)
    return [right, down, int(label.anchor == "end"), label.text, hair]


def number(value: float) -> float:
    """Six digits: a thousandth of a pixel."""
    return float(f"{value:.6g}")
