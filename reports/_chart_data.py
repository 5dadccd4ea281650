"""What the page's script is given: numbers, words and corners per attacker in data units, so that
it only has to move things.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.base import printable_json
from leakbench.judging import Judged, Number, Question, plain, plural, words
from reports._attackers import ATTACKERS, PAPER, absent, row_of
from reports._callouts import short_names
from reports._labels import Label
from reports._plot import Plot, Point
from reports._scale import Scale
from reports._scene import Scene
from reports._words import attack_words, notes, number_text

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
    return {
        "attackers": {a.key: [a.name, a.says] for a in ATTACKERS},
        "charts": charts,
        "texts": list(texts.found),
    }


def block(data: Json) -> str:
    """JSON that can stand in a script element: plain ASCII, no `<`, hence neither an end tag nor a
    line separator.

    Its texts hide nothing either, for the script shows them as they are.
    """
    return json.dumps(printable_json(data), allow_nan=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )


def _question(by: Mapping[str, Sequence[Scene]], texts: Texts) -> Json:
    first = next(iter(by.values()))
    plot, points = first[0].plot, first[0].points
    names = short_names(points)
    return {
        **{s.plot.size.name: {"x": _scale(s.plot.xs), "y": _scale(s.plot.ys)} for s in first},
        "names": [
            texts(words(points[0].utility.metric).title),
            texts(words(plot.question.metric).title),
        ],
        "settings": {
            str(p.judged.setting.index): _setting(p, names[p.judged.setting.name], plot, by, texts)
            for p in points
        },
        "by": {key: _attacker(key, scenes, texts) for key, scenes in by.items()},
    }


def _scale(scale: Scale) -> list[Any]:
    return [
        number(scale.low),
        number(scale.high),
        number(scale.start),
        number(scale.stop),
        int(scale.log),
    ]


def _setting(
    point: Point, short: str, plot: Plot, by: Mapping[str, Sequence[Scene]], texts: Texts
) -> Json:
    judged, utility = point.judged, point.utility
    value, low, high = (
        plain(utility.metric, x) for x in (utility.value, utility.low, utility.high)
    )
    told: Json = {
        "name": judged.setting.name,
        "short": short,
        "family": judged.setting.family,
        # A dead run stands in its strip, wherever its utility is; the strips of the two drawings
        # differ by a pixel.
        "dead": (
            {s.plot.size.name: number(_height(s, point)) for s in next(iter(by.values()))}
            if judged.setting.dead
            else None
        ),
        "verdict": texts(judged.verdict.word),
        "y": [number(utility.value), number(utility.low), number(utility.high)],
        "utility": texts(f"{value} ({low} to {high})"),
        "at": {
            key: _row(judged, row, plot.question, texts)
            for key in by
            if (row := row_of(judged, key))
        },
    }
    if point.paper is not None:
        told["paper"] = number(paper.value) if (paper := row_of(judged, PAPER)) else None
    return told


def _height(found: Scene, point: Point) -> float:
    """The utility at which a point is drawn."""
    return found.plot.ys.value(next(p.y for p in found.points if p.judged is point.judged))


def _row(judged: Judged, row: Number, question: Question, texts: Texts) -> list[Any]:
    """Value, low, high, then what the tooltip says: number, blind guess, nothing defended, n,
    attack, notes.
    """
    metric, noun = question.metric, words(question.metric).noun or "units"
    said = (
        number_text(metric, row),
        plain(metric, row.floor),
        plain(metric, row.control),
        (
            f"{row.n} {noun.removesuffix('s') if row.n == 1 else noun},"
            f" {plural(max(judged.setting.seeds, 1), 'seed')}"
        ),
        attack_words(row.attack),
        notes("|".join(sorted(row.flags))),
    )
    return [number(row.value), number(row.low), number(row.high), *(texts(s) for s in said)]


def _attacker(key: str, scenes: Sequence[Scene], texts: Texts) -> Json:
    one = scenes[0]
    return {
        "front": [[number(x), number(y)] for x, y in one.front],
        "claimed": [[number(x), number(y)] for x, y in one.claimed],
        "lost": [[number(v) for v in slab] for slab in one.lost],
        "on": list(one.on),
        "start": one.start,
        "crowd": [number(v) for v in one.crowd] if one.crowd else None,
        "absent": texts(absent((p.judged for p in one.points), key)),
        "words": {
            s.plot.size.name: [round(v, 1) for v in s.lost_at] if s.lost_at else None
            for s in scenes
        },
        "labels": {
            s.plot.size.name: {str(i): _label(t, s, i) for i, t in s.labels.items()} for s in scenes
        },
    }


def _label(label: Label, found: Scene, index: int) -> list[Any]:
    """From the point in pixels: right, down, whether it ends there, the text, the corners of its
    hair line.
    """
    p = next(p for p in found.points if p.judged.setting.index == index)
    hair = [[round(x - p.x, 1), round(y - p.y, 1)] for x, y in label.hair]
    return [
        round(label.x - p.x, 1),
        round(label.y - p.y, 1),
        int(label.anchor == "end"),
        label.text,
        hair,
    ]


def number(value: float) -> float:
    """Six digits: a thousandth of a pixel."""
    return float(f"{value:.6g}")
