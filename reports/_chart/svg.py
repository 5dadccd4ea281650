"""SVG by hand.

Escaped tags, label widths of an Arial-metric face, the marks that stand for families and verdicts.
"""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup, escape

_WIDTHS = (
    ("ijl'|", 222),
    ("ft.,:;/ !I[]", 278),
    ("r()-", 333),
    ("cksvxyzJ", 500),
    ("FTZ", 611),
    ("ABEKPSVXY", 667),
    ("CDHNRUw", 722),
    ("GOQ", 778),
    ("mM", 833),
    ("W", 944),
    ("+<>=~×", 584),
)
_WIDTH = {c: w for chars, w in _WIDTHS for c in chars}

SHAPES = (
    *("circle", "square", "triangle", "diamond", "plus", "star", "hexagon", "wedge", "pentagon"),
    *("left", "right", "upright", "level", "spark", "hourglass", "burst", "propeller", "bow"),
)
ARMS = {"star": 5, "spark": 4, "burst": 7, "propeller": 3}
TURNED = {"wedge": 1.0, "left": 1.5, "right": 0.5}  # triangles, by half turns

EMPTY = ("line", "circle", "path", "rect", "use")  # of a page's tens of thousands


def tag(name: str, *inside: Any, **attributes: Any) -> Markup:
    """One element; text and attribute values are escaped.

    `_` in attribute names stands for `-`, None leaves one out.
    """
    given = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items() if v is not None}
    spelt = "".join(f' {k}="{escape(_number(v))}"' for k, v in given.items())
    tag, told = Markup(name), Markup(spelt)  # noqa: S704 (escaped)
    if not inside and name in EMPTY:
        return Markup("<%s%s/>") % (tag, told)
    return Markup("<%s%s>%s</%s>") % (tag, told, Markup("").join(escape(i) for i in inside), tag)


def width(text: str, size: float = 11.5) -> float:
    """How wide ``text`` is set, in pixels."""
    return sum(_WIDTH.get(c, 556) for c in text) * size / 1000


def cut(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def path(points: list[tuple[float, float]], **attributes: Any) -> Markup:
    """A line through ``points``; of none an empty one."""
    return tag(
        "path",
        d=("M" if points else "") + "L".join(f"{_number(x)} {_number(y)}" for x, y in points),
        **attributes,
    )


def shape(name: str, x: float, y: float, r: float = 6.0, **attributes: Any) -> Markup:
    """A family's mark, centred; ``cross`` is kept for dead runs."""
    if name == "circle":
        return tag("circle", cx=x, cy=y, r=r, **attributes)
    if name == "cross":
        left, right, top, bottom = x - r * 0.8, x + r * 0.8, y - r * 0.8, y + r * 0.8
        falling = f"M{left:.1f} {top:.1f}L{right:.1f} {bottom:.1f}"
        return tag(
            "path", d=f"{falling}M{right:.1f} {top:.1f}L{left:.1f} {bottom:.1f}", **attributes
        )
    points = [(x + r * px, y + r * py) for px, py in _corners(name)]
    corners = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
    return tag("path", d=f"M{corners}Z", **attributes)


def _corners(name: str) -> list[tuple[float, float]]:
    if name == "square":
        return [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]
    if name == "plus":
        a, b = 0.38, 1.1
        upper = [(-a, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a)]
        return [*upper, *((-x, -y) for x, y in upper)]
    if name in ARMS:
        return _around([1.25, 0.4 if ARMS[name] < 5 else 0.55] * ARMS[name])
    if name in TURNED:
        return _around([1.2] * 3, TURNED[name] * math.pi)
    if name in ("upright", "level"):
        a, b = (0.5, 1.15) if name == "upright" else (1.15, 0.5)
        return [(-a, -b), (a, -b), (a, b), (-a, b)]
    if name in ("hourglass", "bow"):
        a, b = (0.8, 1.1) if name == "hourglass" else (1.1, 0.8)
        left, right = [(-a, -b), (-a, b)], [(a, b), (a, -b)]
        waist = [(-0.3, 0.0), (0.3, 0.0)] if name == "hourglass" else [(0.0, 0.3), (0.0, -0.3)]
        if name == "bow":
            return [left[0], left[1], waist[0], *right, waist[1]]
        return [left[0], waist[0], left[1], right[0], waist[1], right[1]]
    sides = {"triangle": 3, "diamond": 4, "pentagon": 5, "hexagon": 6}[name]
    return _around([1.2 if sides < 5 else 1.08] * sides)


def _around(radii: list[float], turn: float = 0.0) -> list[tuple[float, float]]:
    """Corners at even angles, from the top."""
    angles = [turn + 2 * math.pi * i / len(radii) for i in range(len(radii))]
    return [(r * math.sin(t), -r * math.cos(t)) for r, t in zip(radii, angles, strict=True)]


def _number(value: Any) -> Any:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
