"""Maps: prototypes in the plane, who was named for whom, who holds what.

And what that gives away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from markupsafe import Markup

from leakbench.reporting import Embedding, Naming, Position, ReportData, ShownSetting, Split
from leakbench.words import count, plural
from reports._chart.svg import path, tag

SIDE, EDGE = 480, 14
# Squares of a split that a page can hold; of more clients the first ones are drawn.
CELLS, ACROSS = 2500, 100
SHADES = 4
# A client whose largest class is more than this share of its data stands for that class.
ALONE = 0.9


@dataclass(frozen=True)
class Drawn:
    """One map."""

    family: str
    title: str
    sub: str  # beside its title
    drawing: Markup
    text: str  # below it


@dataclass(frozen=True)
class Maps:
    """What a page has of maps, by kind."""

    planes: tuple[Drawn, ...]
    names: tuple[Drawn, ...]
    splits: tuple[Drawn, ...]

    def __bool__(self) -> bool:
        return bool(self.planes or self.names or self.splits)


def maps(data: ReportData) -> Maps:
    """All of them drawn, in their order."""
    known = {s.id: s for s in data.settings}
    planes, names, splits = [], [], []
    for m in data.maps:
        if isinstance(m, Split):
            splits.append(_split(m))
        elif isinstance(m, Naming):
            names.append(_naming(m, known[m.setting]))
        else:
            planes.append(_plane(m, known[m.setting]))
    return Maps(tuple(planes), tuple(names), tuple(splits))


def _plane(m: Embedding, setting: ShownSetting) -> Drawn:
    recovered = [p for p in m.recovered if p]
    to = _fit([*m.true, *m.shared, *recovered])
    pairs = [path([to(a), to(b)], class_="pair") for a, b in zip(m.true, m.shared, strict=True)]
    circles = [tag("circle", cx=x, cy=y, r=7.0, class_="true") for x, y in map(to, m.true)]
    squares = "".join(f"M{x - 4:.1f} {y - 4:.1f}h8v8h-8z" for x, y in map(to, m.shared))
    crosses = ""
    for x, y in map(to, recovered):
        crosses += f"M{x - 4:.1f} {y - 4:.1f}l8 8M{x + 4:.1f} {y - 4:.1f}l-8 8"
    inside = [*pairs, tag("path", d=squares, class_="shared"), *circles]
    inside += [tag("path", d=crosses, class_="recovered")] if crosses else []
    label = (
        f"{setting.name}: {plural(len(m.clients), 'client')}' true prototypes, what they shared,"
        f" and what {m.by} recovered"
    )
    size = {"viewBox": f"0 0 {SIDE} {to.high:.0f}"}
    drawing = tag("svg", *inside, class_="plane", **size, role="img", aria_label=label)
    text = f"Seed {m.seed}. A cross is what {m.by} made of a client's messages, right or wrong"
    text += f" ({len(recovered)} of {len(m.clients)} drawn)."
    if m.tried:
        text += f" Nearest to their own true prototype are {count(m.right / m.tried, m.tried)}."
    text += f" {plural(m.left_out, 'client')} not drawn." if m.left_out else ""
    return Drawn(setting.family, setting.name, f"{setting.task}: {m.why}", drawing, text)


def _fit(points: Iterable[Position]) -> _Fit:
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

    def __call__(self, place: Position) -> Position:
        x, y = place
        return self.margin + (x - self.left) * self.factor, EDGE + (y - self.top) * self.factor


def _naming(m: Naming, setting: ShownSetting) -> Drawn:
    own, total = 0.0, defaultdict[int, float](float)
    shades: dict[tuple[bool, int], list[str]] = defaultdict(list)
    for owner, _, times in m.named:
        total[owner] += times
    for owner, who, times in m.named:
        own += times if owner == who else 0.0
        shade = max(1, -int(-SHADES * times // max(total[owner], 1e-12)))
        shades[owner == who, min(shade, SHADES)].append(f"M{owner} {who}h1v1h-1z")
    inside = []
    for (mine, shade), d in sorted(shades.items()):
        css = f"{'own' if mine else 'other'} o{shade}"
        inside.append(tag("path", d="".join(d), class_=css))
    tried = sum(total.values()) + m.failed
    attacker = "the paper's own attack" if m.rung == "paper" else "best real attack"
    right = count(own / tried, round(tried)) if tried else "none"
    label = (
        f"{setting.name}, {attacker}: across, the true owner; down, who was named; on the diagonal:"
        f" {right}"
    )
    drawing = _heat(inside, "heat", (m.clients, m.clients), label)
    text = f"{right} named right."
    if m.failed:
        text += f" {plural(m.failed, 'unit')} without a guess, counted as not named."
    return Drawn(setting.family, setting.name, f"{setting.task}: {attacker}, {m.by}", drawing, text)


def _heat(inside: Iterable[Markup], css: str, size: tuple[int, int], label: str) -> Markup:
    """Squares of side 1, stretched to any shape."""
    return tag(
        "svg",
        *inside,
        class_=css,
        viewBox=f"0 0 {size[0]} {size[1]}",
        role="img",
        aria_label=label,
        preserveAspectRatio="none",
    )


def _split(m: Split) -> Drawn:
    classes = len(m.counts[0]) if m.counts else 0
    filled = accumulate(map(_filled, m.counts[:ACROSS]))
    shown = m.counts[: max(sum(total <= CELLS for total in filled), 1)]
    most = max((n for row in shown for n in row), default=1) or 1
    shades: dict[int, list[str]] = defaultdict(list)
    for c, row in enumerate(shown):
        for k, n in enumerate(row):
            if n:
                shades[max(1, -(-SHADES * n // most))].append(f"M{c} {k}h1v1h-1z")
    ordered = sorted(shades.items())
    inside = [tag("path", d="".join(d), class_=f"has o{shade}") for shade, d in ordered]
    said = gives_away(m.counts)
    label = f"{m.task}: clients across, classes down; the darker, the more examples. {said}"
    drawing = _heat(inside, "heat split", (len(shown), classes), label)
    sub = "clients across, classes down"
    if len(shown) < len(m.counts):
        sub += f"; the first {len(shown)} of {len(m.counts)} clients"
    return Drawn("", m.task, sub, drawing, said)


def gives_away(counts: Sequence[Sequence[int]]) -> str:
    """What the split alone says, before any message.

    It is how far a client's number names its classes.
    """
    held = [sum(row) for row in counts]
    kinds = list(map(_filled, counts))
    clients = plural(len(counts), "client")
    text = (
        f"{clients}, {_span(held)} training examples and {_span(kinds)} of"
        f" {len(counts[0])} classes each."
    )
    if max(kinds) == 1:
        owners = map(_filled, zip(*counts, strict=True))
        alone = " and no class belongs to two clients" if max(owners) == 1 else ""
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
    return text + (f"; {sure} of {clients} hold almost nothing but one class." if sure else ".")


def _filled(row: Sequence[int]) -> int:
    """How many are not 0."""
    return sum(n > 0 for n in row)


def _span(values: Sequence[int]) -> str:
    return str(min(values)) if min(values) == max(values) else f"{min(values)} to {max(values)}"
