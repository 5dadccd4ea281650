"""The chart's text form: a table per question, a row per setting.

It holds every attacker's number with its interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from leakbench.base import Meaning
from leakbench.judging import PAPER, WORST, Judged, Question, row_of
from leakbench.results import CASCADE, Number
from leakbench.statistics import Estimate
from leakbench.words import plural, present
from reports._chart.points import icon
from reports._page.question import utility_name
from reports._words import about, claimed, lacking, notes, span

# What a phone shows, beside the setting's name.
KEPT = ("utility", PAPER, WORST)
# What is said above the table where it is the same in every row; never an attacker's number.
ONCE = ("claim", "floor", "control", "n", "notes")
NAMES = {PAPER: "paper's own attack", CASCADE: "best real attacker", WORST: "worst case"}


@dataclass(frozen=True)
class TableCell:
    """A cell of the table."""

    text: str
    small: str = ""  # print below
    value: str = ""  # what it is sorted by, empty for words
    css: str = ""  # its classes


@dataclass(frozen=True)
class TableRow:
    """A setting's row."""

    family: str
    name: str
    link: str
    icon: Markup
    reference: bool
    cells: tuple[TableCell, ...]  # stand under the table's ``heads``


@dataclass(frozen=True)
class Table:
    """A question's table."""

    ident: str
    task: str
    label: str
    caption: str
    same: str  # what would stand in every row
    heads: tuple[tuple[str, str], ...]  # (text, classes) of all columns but the first
    lines: tuple[TableRow, ...]


def table(ident: str, question: Question, marks: Mapping[str, str]) -> Table:
    """Every setting's row."""
    attackers = present(question)
    columns = {
        "verdict": "verdict",
        "utility": utility_name(question),
        "claim": "its paper's number",
        **{a.key: NAMES.get(a.key, a.name) for a in attackers},
        "floor": "blind guess",
        "control": "nothing defended",
        "n": "n",
        "notes": "notes",
    }
    words = ("verdict", "notes")
    more = {key: "" if key in KEPT else "more" for key in columns}
    common = _flags_of_all(question)
    keys = [a.key for a in attackers]
    rows = [_cells(j, question, keys, common) for j in question.judged]
    same = {key: cell for key, cell in zip(columns, rows[0], strict=True) if key in ONCE}
    for row in rows:
        for key, cell in zip(columns, row, strict=True):
            if same.get(key) != cell:
                same.pop(key, None)
    if len(rows) < 2:
        same = {}
    heads = [(n, more[k] + " num" * (k not in words)) for k, n in columns.items() if k not in same]
    lines = []
    for j, row in zip(question.judged, rows, strict=True):
        both = zip(columns, row, strict=True)
        cells = [replace(c, css=f"{c.css} {more[k]}".strip()) for k, c in both if k not in same]
        lines.append(_line(j, marks, tuple(cells)))
    said = {k: c for k, c in same.items() if k != "notes" or not common}
    told = [f"{columns[k]} {c.text}" + f" ({c.small})" * bool(c.small) for k, c in said.items()]
    told += [notes(common)] if common else []
    return Table(
        ident=ident,
        task=question.task,
        label=question.label,
        caption=about(question.meaning),
        same=f"In every row: {'; '.join(told)}." if told else "",
        heads=tuple(heads),
        lines=tuple(lines),
    )


def _flags_of_all(question: Question) -> frozenset[str]:
    """What is noted of every setting."""
    worst = [j.verdict.worst for j in question.judged]
    if len(worst) < 2 or not all(worst):
        return frozenset()
    return frozenset.intersection(*(frozenset(n.flags) for n in worst if n))


def _line(judged: Judged, marks: Mapping[str, str], cells: tuple[TableCell, ...]) -> TableRow:
    setting = judged.setting
    return TableRow(
        family=setting.family,
        name=setting.name,
        link=f"#{setting.id}",
        icon=icon(judged, marks[setting.family]),
        reference=setting.reference,
        cells=cells,
    )


def _cells(
    judged: Judged, question: Question, attackers: Sequence[str], common: frozenset[str]
) -> list[TableCell]:
    setting, worst, final = judged.setting, judged.verdict.worst, judged.setting.final
    why = lacking(judged) or "no such attack counts"
    out = [
        TableCell(judged.verdict.word, css=f"verdict t-{judged.verdict.tone}"),
        _cell(final.meaning, final.value) if final else TableCell("not measured"),
        _claim(claimed(setting, question.metric, question.stage)),
    ]
    for key in attackers:
        row = row_of(judged, key)
        cell = _cell(row.meaning, row.value) if row else TableCell(why)
        out.append(replace(cell, css="strong") if row and key == WORST else cell)
    if worst is None:
        return [*out, TableCell(why), TableCell(why), TableCell(why), TableCell(judged.sentence)]
    units = worst.meaning.noun or "unit scores"
    count = TableCell(
        str(worst.value.n), f"{units}, {plural(len(setting.seeds), 'seed')}", str(worst.value.n)
    )
    floor, control = _cell(worst.meaning, worst.floor), _cell(worst.meaning, worst.control)
    return [*out, floor, control, count, TableCell(notes(worst.flags - common))]


def _cell(meaning: Meaning, e: Estimate) -> TableCell:
    return TableCell(meaning.text(e.value), span(meaning, e), repr(e.value))


def _claim(found: Number | None) -> TableCell:
    if found is None or found.claim is None:
        return TableCell("not in its paper")
    value, place = found.claim.value, found.claim.place
    return TableCell(found.meaning.text(value), place.split(":")[0], repr(value))
