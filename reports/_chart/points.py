"""What stands in the trade-off chart for one setting: its mark, its intervals and its arrow."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from leakbench.judging import Judged
from reports._chart.plot import Plot, PlotPoint
from reports._chart.svg import SHAPES, path, shape, tag


def shapes(families: Sequence[str]) -> dict[str, str]:
    """Family -> mark, the same in every chart of a page; beyond eighteen families they repeat."""
    return {f: SHAPES[i % len(SHAPES)] for i, f in enumerate(dict.fromkeys(families))}


def glyph(judged: Judged, mark: str, x: float, y: float, r: float = 6.0) -> Markup:
    """A mark filled by its verdict.

    Full leaks, half in part, empty held, a cross dead, grey cannot be judged.
    """
    if judged.verdict.rule == 3 or judged.setting.dead:
        return shape("cross", x, y, r, class_="mk dead")
    kind = look(judged)
    drawn = shape(mark, x, y, r, class_=f"mk {kind}", fill="url(#half)" if kind == "part" else None)
    if kind == "open":
        drawn += tag("text", "?", x=x, y=y + 3.6, class_="ask", text_anchor="middle")
    return drawn


def icon(judged: Judged | None, mark: str) -> Markup:
    """A mark beside text; settings without a number are a grey hexagon."""
    if judged is None:
        inside = shape(mark, 8, 8, 5.5, class_="mk plain")
    elif judged.verdict.rule in (1, 2):
        inside = shape("hexagon", 8, 8, 5.0, class_="mk none")
    else:
        inside = glyph(judged, mark, 8, 8, 5.5)
    return tag("svg", inside, viewBox="0 0 16 16", class_="gl", aria_hidden="true")


def look(judged: Judged) -> str:
    """The class of a mark: open where it cannot be told, else its colour."""
    return "open" if judged.verdict.rule in (6, 9) else tone(judged)


def tone(judged: Judged) -> str:
    """The verdict's colour; grey for a setting with a dead seed."""
    return "none" if judged.setting.dead else judged.verdict.tone


def way(p: PlotPoint, plot: Plot, *, stressed: bool = False) -> Markup:
    """The 95 % intervals, and the way from the paper's own attack to the chosen one.

    Both are on the same run: the way is the attacker's doing alone.

    ``stressed``: not faint where there are many.
    """
    css, value, gain = f"bar {tone(p.judged)}", p.row.value, p.utility.value
    across = [(plot.xs(value.low), p.y), (plot.xs(value.high), p.y)]
    lines = [path(across, class_=f"{css} across")]
    if not p.dead:  # a cross in the strip does not stand at its utility
        lines.append(
            path([(p.x, plot.ys(gain.low)), (p.x, plot.ys(gain.high))], class_=f"{css} up")
        )
    if p.paper is not None:
        lines.append(path(arrow(p), class_="arrow"))
        lines.append(tag("path", d=f"M{p.paper:.1f} {p.y - 5:.1f}v10", class_="ghost"))
    classes = "go" + " front-one" * stressed + " faint" * p.faint
    return tag("g", *lines, class_=classes, data_id=p.index, data_family=p.family)


def arrow(p: PlotPoint) -> list[tuple[float, float]]:
    """The corners of an arrow.

    None where it would be too short to see, or where it would end in another attacker's number.
    """
    if p.paper is None or p.faint or abs(p.x - p.paper) < 14:
        return []
    to = 1 if p.x > p.paper else -1
    tip, back = p.x - to * 9, p.x - to * 13
    return [(p.paper, p.y), (tip, p.y), (back, p.y - 3), (tip, p.y), (back, p.y + 3)]


def mark(p: PlotPoint, kind: str) -> Markup:
    """A link to the setting's record; its title is the full sentence."""
    setting, meaning = p.judged.setting, p.utility.meaning
    gain = f"{meaning.heading} {meaning.text(p.utility.value.value)}"
    inside = [
        tag("title", f"{setting.name}: {gain}. {p.judged.sentence}"),
        tag("circle", r=16, class_="hit"),
        glyph(p.judged, kind, 0.0, 0.0),
    ]
    return tag(
        "a",
        *inside,
        class_="pt" + " faint" * p.faint,
        href=f"#{setting.id}",
        data_id=p.index,
        data_family=p.family,
        transform=f"translate({p.x:.1f} {p.y:.1f})",
    )


def half_fill() -> Markup:
    """The definition of the fill `half`, once a page, for every drawing."""
    stops = tag("stop", offset="50%", class_="hp") + tag("stop", offset="50%", class_="ht")
    return tag("defs", tag("linearGradient", stops, id="half"))
