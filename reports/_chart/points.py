"""What stands in the trade-off chart for one setting: its mark, its intervals and its arrow."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from leakbench.judging import Judged, plain, words
from reports._chart.plot import Plot, Point
from reports._chart.svg import SHAPES, path, shape, tag


def shapes(families: Sequence[str]) -> dict[str, str]:
    """Family -> mark, the same in every chart of a page."""
    return {f: SHAPES[i % len(SHAPES)] for i, f in enumerate(dict.fromkeys(families))}


def glyph(judged: Judged, mark: str, x: float, y: float, r: float = 6.0) -> Markup:
    """A mark filled by its verdict: full leaks, half in part, empty held, a cross dead, grey cannot
    be judged.
    """
    if judged.verdict.rule == 3 or judged.setting.dead:
        return shape("cross", x, y, r, class_="mk dead")
    kind = "open" if judged.verdict.rule in (6, 9) else judged.verdict.tone
    drawn = shape(mark, x, y, r, class_=f"mk {kind}", fill="url(#half)" if kind == "part" else None)
    return (
        drawn + tag("text", "?", x=x, y=y + 3.6, class_="ask", text_anchor="middle")
        if kind == "open"
        else drawn
    )


def tone(judged: Judged) -> str:
    """The verdict's colour; grey for a setting with a dead seed."""
    return "none" if judged.setting.dead else judged.verdict.tone


def way(p: Point, plot: Plot, *, stressed: bool = False) -> Markup:
    """The 95 % intervals, and the way from the paper's own attack on the same run to the chosen
    one: the attacker's doing alone.

    ``stressed``: not faint where there are many.
    """
    css = f"bar {tone(p.judged)}"
    lines = [path([(plot.xs(p.row.low), p.y), (plot.xs(p.row.high), p.y)], class_=f"{css} across")]
    if not p.judged.setting.dead:  # a cross in the strip does not stand at its utility
        lines.append(
            path(
                [(p.x, plot.ys(p.utility.low)), (p.x, plot.ys(p.utility.high))], class_=f"{css} up"
            )
        )
    if p.paper is not None:
        lines += [
            path(arrow(p), class_="arrow"),
            tag("circle", cx=p.paper, cy=p.y, r=3.2, class_="ghost"),
        ]
    return tag(
        "g",
        *lines,
        class_=_classes("go" + (" front-one" if stressed else ""), p),
        data_id=p.judged.setting.index,
        data_family=p.judged.setting.family,
    )


def arrow(p: Point) -> list[tuple[float, float]]:
    """The corners of an arrow; none where it would be too short to see, or where it would end in
    another attacker's number.
    """
    if p.paper is None or p.faint or abs(p.x - p.paper) < 14:
        return []
    to = 1 if p.x > p.paper else -1
    tip = p.x - to * 9
    return [
        (p.paper + to * 4, p.y),
        (tip, p.y),
        (tip - to * 4, p.y - 3),
        (tip, p.y),
        (tip - to * 4, p.y + 3),
    ]


def mark(p: Point, kind: str) -> Markup:
    """A link to the setting's record; its title is the full sentence."""
    setting = p.judged.setting
    gain = f"{words(p.utility.metric).title} {plain(p.utility.metric, p.utility.value)}"
    inside = [
        tag("title", f"{setting.name}: {gain}. {p.judged.sentence}"),
        tag("circle", r=16, class_="hit"),
        glyph(p.judged, kind, 0.0, 0.0),
    ]
    place = f"translate({p.x:.1f} {p.y:.1f})"
    at = {
        "href": f"#r{setting.index}",
        "data_id": setting.index,
        "data_family": setting.family,
        "transform": place,
    }
    return tag("a", *inside, class_=_classes("pt", p), **at)


def _classes(name: str, p: Point) -> str:
    return name + (" faint" if p.faint else "")


def half_fill() -> Markup:
    """The definition of the fill `half`, once a page, for every drawing."""
    stops = tag("stop", offset="50%", class_="hp") + tag("stop", offset="50%", class_="ht")
    return tag("defs", tag("linearGradient", stops, id="half"))
