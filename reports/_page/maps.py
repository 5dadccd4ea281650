"""Maps: prototypes in the plane, who was named for whom, who holds what and what that
gives away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from markupsafe import Markup

from leakbench.judging import Setting, count, plural
from leakbench.reporting import Embedding, Map, Naming, Place2, Split
from reports._chart.svg import path, tag

SIDE, EDGE = 480, 14
# Squares of a split that a page can hold; of more clients the first ones are drawn.
CELLS, ACROSS = 2500, 100
SHADES = 4
ALONE = (
    0.9  # a client whose largest class is more than this share of its data stands for that class
)


@dataclass(frozen=True)
class Drawn:
    """One map: ``sub`` beside its title, ``text`` below it."""

    family: str
    title: str
    sub: str
    drawing: Markup
    text: str


@dataclass(frozen=True)
class Maps:
    """What a page has of maps, by kind."""

    planes: tuple[Drawn, ...]
    names: tuple[Drawn, ...]
    splits: tuple[Drawn, ...]

    def __bool__(self) -> bool:
        return bool(self.planes or self.names or self.splits)


def maps(found: Sequence[Map], settings: Sequence[Setting]) -> Maps:
    """``found`` drawn, in its order."""
    by_key = {s.key: s for s in settings}
    return Maps(
        tuple(
            _plane(m, by_key[m.setting])
            for m in found
            if isinstance(m, Embedding) and m.setting in by_key
        ),
        tuple(
            _naming(m, by_key[m.setting])
            for m in found
            if isinstance(m, Naming) and m.setting in by_key
        ),
        tuple(_split(m) for m in found if isinstance(m, Split)),
    )


def _plane(m: Embedding, setting: Setting) -> Drawn:
    to = _fit([*m.true, *m.shared, *(p for p in m.recovered if p)])
    pairs = [path([to(a), to(b)], class_="pair") for a, b in zip(m.true, m.shared, strict=True)]
    circles = [tag("circle", cx=x, cy=y, r=7.0, class_="true") for x, y in map(to, m.true)]
    squares = "".join(f"M{x - 4:.1f} {y - 4:.1f}h8v8h-8z" for x, y in map(to, m.shared))
    crosses = "".join(
        f"M{x - 4:.1f} {y - 4:.1f}l8 8M{x + 4:.1f} {y - 4:.1f}l-8 8"
        for x, y in (to(p) for p in m.recovered if p)
    )
    inside = [
        *pairs,
        tag("path", d=squares, class_="shared"),
        *circles,
        tag("path", d=crosses, class_="recovered") if crosses else "",
    ]
    label = (
        f"{setting.name}: {plural(len(m.clients), 'client')}' true prototypes, what they shared,"
        f" and what {m.by} recovered"
    )
    drawing = tag(
        "svg",
        *inside,
        class_="plane",
        viewBox=f"0 0 {SIDE} {to.high:.0f}",
        role="img",
        aria_label=label,
    )
    made = sum(p is not None for p in m.recovered)
    text = f"Seed {m.seed}. Recovered by {m.by}: {made} of {len(m.clients)}."
    text += f" {plural(m.left_out, 'client')} not drawn." if m.left_out else ""
    return Drawn(setting.family, setting.name, f"{setting.task}: {m.why}", drawing, text)


def _fit(points: Iterable[Place2]) -> _Fit:
    xs, ys = zip(*points, strict=True)
    across, down = max(xs) - min(xs), max(ys) - min(ys)
    factor = (SIDE - 2 * EDGE) / (max(across, down) or 1.0)
    return _Fit(min(xs), min(ys), factor, (SIDE - across * factor) / 2, down * factor + 2 * EDGE)


@dataclass(frozen=True)
class _Fit:
    left: float
    top: float
    factor: float
    margin: float
    high: float

    def __call__(self, place: Place2) -> Place2:
        return (
            self.margin + (place[0] - self.left) * self.factor,
            EDGE + (place[1] - self.top) * self.factor,
        )


def _naming(m: Naming, setting: Setting) -> Drawn:
    own: dict[int, float] = defaultdict(float)
    total: dict[int, float] = defaultdict(float)
    shades: dict[tuple[bool, int], list[str]] = defaultdict(list)
    for owner, _, times in m.named:
        total[owner] += times
    for owner, who, times in m.named:
        own[owner] += times if owner == who else 0.0
        shade = max(1, -int(-SHADES * times // max(total[owner], 1e-12)))
        shades[owner == who, min(shade, SHADES)].append(f"M{owner} {who}h1v1h-1z")
    inside = [
        tag("path", d="".join(d), class_=f"{'own' if mine else 'other'} o{shade}")
        for (mine, shade), d in sorted(shades.items())
    ]
    n, tried = m.clients, sum(total.values())
    attacker = "the paper's own attack" if m.rung == "paper" else "best real attack"
    right = (
        count(sum(own.values()) / (tried + m.failed), round(tried + m.failed))
        if tried + m.failed
        else "none"
    )
    label = (
        f"{setting.name}, {attacker}: across, the true owner; down, who was named; on the diagonal:"
        f" {right}"
    )
    drawing = tag(
        "svg",
        *inside,
        class_="heat",
        viewBox=f"0 0 {n} {n}",
        role="img",
        aria_label=label,
        preserveAspectRatio="none",
    )
    text = f"{right} named right."
    text += (
        f" {plural(m.failed, 'unit')} without a guess, counted as not named." if m.failed else ""
    )
    return Drawn(setting.family, setting.name, f"{setting.task}: {attacker}, {m.by}", drawing, text)


def _split(m: Split) -> Drawn:
    classes = len(m.counts[0]) if m.counts else 0
    filled = accumulate(sum(n > 0 for n in row) for row in m.counts[:ACROSS])
    shown = m.counts[: max(sum(total <= CELLS for total in filled), 1)]
    most = max((n for row in shown for n in row), default=1) or 1
    shades: dict[int, list[str]] = defaultdict(list)
    for c, row in enumerate(shown):
        for k, n in enumerate(row):
            if n:
                shades[max(1, -(-SHADES * n // most))].append(f"M{c} {k}h1v1h-1z")
    inside = [
        tag("path", d="".join(d), class_=f"has o{shade}") for shade, d in sorted(shades.items())
    ]
    label = (
        f"{m.task}: clients across, classes down; the darker, the more examples."
        f" {gives_away(m.counts)}"
    )
    drawing = tag(
        "svg",
        *inside,
        class_="heat split",
        viewBox=f"0 0 {len(shown)} {classes}",
        role="img",
        aria_label=label,
        preserveAspectRatio="none",
    )
    sub = "clients across, classes down" + (
        f"; the first {len(shown)} of {len(m.counts)} clients" if len(shown) < len(m.counts) else ""
    )
    return Drawn("", m.task, sub, drawing, gives_away(m.counts))


def gives_away(counts: Sequence[Sequence[int]]) -> str:
    """What the split alone says, before any message: how far a client's number names
    its classes.
    """
    held = [sum(row) for row in counts]
    kinds = [sum(n > 0 for n in row) for row in counts]
    text = (
        f"{plural(len(counts), 'client')}, {_span(held)} training examples and {_span(kinds)} of"
        f" {len(counts[0])} classes each."
    )
    if max(kinds) == 1:
        owners: Mapping[int, int] = {
            k: sum(row[k] > 0 for row in counts) for k in range(len(counts[0]))
        }
        alone = " and no class belongs to two clients" if max(owners.values()) == 1 else ""
        return (
            f"{text} So every message names its class by where it comes from{alone}: labels are no"
            " secret on this task."
        )
    largest = [max(row) / n for row, n in zip(counts, held, strict=True) if n]
    sure = sum(share > ALONE for share in largest)
    mean = sum(max(row) for row in counts) / max(sum(held), 1)
    text += (
        f" Who knows each client's most frequent class and nothing else guesses {mean:.2f} of all"
        " labels right"
    )
    return text + (
        f"; {sure} of {plural(len(counts), 'client')} hold almost nothing but one class."
        if sure
        else "."
    )


def _span(values: Sequence[int]) -> str:
    return str(min(values)) if min(values) == max(values) else f"{min(values)} to {max(values)}"
