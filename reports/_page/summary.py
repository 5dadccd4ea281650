"""The chart's text form: a table per question, a row per setting, every attacker's number with its
interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import Judged, Number, Question, plain, plural, words
from leakbench.results import Row
from leakbench.judging import CASCADE, PAPER, WORST, present, row_of
from reports._page.list import icon
from reports._words import notes

# What a phone shows, beside the setting's name.
KEPT = ("utility", PAPER, WORST)


@dataclass(frozen=True)
class Cell:
    """``text`` with small print below; ``value``: what it is sorted by, empty for words; ``css``:
    its classes.
    """

    text: str
    small: str = ""
    value: str = ""
    css: str = ""


@dataclass(frozen=True)
class Line:
    """A setting's row; ``cells`` stand under the table's ``heads``."""

    family: str
    name: str
    link: str
    icon: Markup
    reference: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A question's table; ``heads``: (text, classes) of all columns but the first."""

    ident: str
    task: str
    label: str
    caption: str
    heads: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]


def table(
    ident: str, question: Question, claims: Mapping[str, Row], marks: Mapping[str, str]
) -> Table:
    """``claims``: ``setting_key`` -> a row of tradeoff.csv in the question's metric that has its
    paper's number.
    """
    attackers = present(question)
    utility = next(
        (j.setting.utility.metric for j in question.judged if j.setting.utility), "utility"
    )
    names = {PAPER: "paper's own attack", CASCADE: "best real attacker", WORST: "worst case"}
    heads = [
        ("verdict", _css("verdict")),
        (words(utility).title, _css("utility") + " num"),
        ("its paper's number", _css("claim") + " num"),
    ]
    heads += [
        (names.get(a.key, a.name.removeprefix("+ ")), _css(a.key) + " num") for a in attackers
    ]
    heads += [(t, _css(t) + " num") for t in ("blind guess", "nothing defended", "n")] + [
        ("notes", _css("notes"))
    ]
    keys = [a.key for a in attackers]
    return Table(
        ident=ident,
        task=question.task,
        label=question.label,
        caption=words(question.metric).meaning,
        heads=tuple(heads),
        lines=tuple(
            _line(j, keys, claims.get(j.setting.key), marks[j.setting.family])
            for j in question.judged
        ),
    )


def _line(judged: Judged, attackers: Sequence[str], claim: Row | None, mark: str) -> Line:
    setting, metric, worst = judged.setting, judged.case.metric, judged.verdict.worst
    u = setting.utility
    cells = [Cell(judged.verdict.word, css=f"verdict t-{judged.verdict.tone}")]
    if u is None:
        cells.append(Cell("not measured"))
    else:
        cells.append(Cell(plain(u.metric, u.value), _to(u.metric, u.low, u.high), repr(u.value)))
    cells.append(_claim(metric, claim))
    why = {1: f"sends no {judged.case.kind}", 2: "not attacked"}.get(
        judged.verdict.rule, "no such attack counts"
    )
    cells += [_number(metric, row_of(judged, key), why, strong=key == WORST) for key in attackers]
    if worst is None:
        cells += [Cell(why), Cell(why), Cell(why), Cell(judged.sentence)]
    else:
        seeds = plural(setting.seeds, "seed")
        unit = words(metric).noun or "unit scores"
        cells += [
            _ref(metric, worst.floor, worst.floor_low, worst.floor_high),
            _ref(metric, worst.control, worst.control_low, worst.control_high),
        ]
        cells += [
            Cell(str(worst.n), f"{unit}, {seeds}", str(worst.n)),
            Cell(notes("|".join(sorted(worst.flags)))),
        ]
    css = (_css("verdict"), _css("utility"), _css("claim"), *map(_css, attackers), *[_css("")] * 4)
    cells = [
        Cell(c.text, c.small, c.value, f"{c.css} {more}".strip())
        for c, more in zip(cells, css, strict=True)
    ]
    return Line(
        setting.family,
        setting.name,
        f"#r{setting.index}",
        icon(judged, mark),
        setting.reference,
        tuple(cells),
    )


def _css(column: str) -> str:
    """The class of what a phone leaves out."""
    return "" if column in KEPT else "more"


def _number(metric: str, row: Number | None, why: str, *, strong: bool) -> Cell:
    if row is None:
        return Cell(why)
    return Cell(
        plain(metric, row.value),
        _to(metric, row.low, row.high),
        repr(row.value),
        "strong" if strong else "",
    )


def _ref(metric: str, value: float, low: float, high: float) -> Cell:
    return Cell(plain(metric, value), _to(metric, low, high), repr(value))


def _claim(metric: str, row: Row | None) -> Cell:
    if row is None:
        return Cell("not in its paper")
    return Cell(
        plain(metric, float(row["claimed"])),
        str(row["claimed_source"]).split(":")[0].split(";")[0],
        repr(float(row["claimed"])),
    )


def _to(metric: str, low: float, high: float) -> str:
    """An interval; one without width was not sampled."""
    if low == high:
        return "exact"
    return f"{plain(metric, low).removesuffix(words(metric).suffix)} to {plain(metric, high)}"
