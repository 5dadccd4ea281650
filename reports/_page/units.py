"""What the worst case makes of each unit, with an address each: who was named, what came back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leakbench.base import addresses
from leakbench.judging import Judged, Question
from leakbench.results import Measured, Unit
from leakbench.words import plural
from reports._page.clients import VERBS
from reports._words import attack

MOST = 200  # units of a list; a page of many lists has this many of each at least:
LEAST = 20
ALL = 20_000  # units of a page


@dataclass(frozen=True)
class UnitMark:
    """One unit: behind # in a link to it stands ``address``."""

    address: str
    name: str
    value: str  # its score; empty where the list says it


@dataclass(frozen=True)
class UnitList:
    """Units alike, or all of them, the most leaking first."""

    head: str
    marks: tuple[UnitMark, ...]
    more: int  # how many it leaves out


Units = tuple[UnitList, ...]
Score = tuple[Measured, Unit]


def units_of(questions: Sequence[Question]) -> dict[tuple[int, int], Units]:
    """By the place of the question among ``questions``, and the setting's.

    Of questions at the end of training, to anyone.
    """
    asked = {}
    for i, q in enumerate(questions):
        for j in q.judged if q.stage == "final" else ():
            if j.verdict.worst and j.verdict.worst.parts:
                asked[i, j.setting.index] = q, j, list(_scores(j))
    each = max(LEAST, min(MOST, ALL // max(len(asked), 1)))
    names = []
    for q, j, scores in asked.values():
        about = ("unit", q.task, j.setting.name, q.label)
        names += [(*about, str(m.run.seed), u.name) for m, u in scores]
    at = iter(addresses(names))
    out = {}
    for key, (_, j, scores) in asked.items():
        out[key] = tuple(_lists(j, [(m, u, next(at)) for m, u in scores], each))
    return out


def _scores(judged: Judged) -> Iterator[Score]:
    """The most leaking first; a failed attack leaks nothing."""
    worst = judged.verdict.worst
    assert worst  # noqa: S101 (only such are asked)
    up = worst.meaning.direction == "up"
    found = [(m, u) for m in worst.parts for u in m.units["attack"]]
    yield from sorted(found, key=lambda s: (s[1].failed, -s[1].score if up else s[1].score))


def _lists(
    judged: Judged, scores: Sequence[tuple[Measured, Unit, str]], most: int
) -> Iterator[UnitList]:
    worst = judged.verdict.worst
    assert worst  # noqa: S101 (only such are asked)
    meaning, several = worst.meaning, len({m.run.seed for m, _, _ in scores}) > 1
    found: dict[str, list[UnitMark]] = {}
    for m, u, address in scores:
        name = u.name.replace("/", " ") + f", seed {m.run.seed}" * several
        value = "failed" if u.failed else meaning.text(u.score)
        kind = ""
        if meaning.share and u.failed:
            kind = "failed"
        elif meaning.share and u.score in (0, 1):
            kind = "not " * (not u.score) + VERBS.get(meaning.noun, "hit")
        found.setdefault(kind, []).append(UnitMark(address, name, "" if kind else value))
    for kind, marks in found.items():
        units = plural(len(marks), meaning.unit)
        head = f"{units} {kind}" if kind else f"{units}: {attack(worst.attacker.name)}, worst first"
        yield UnitList(head, tuple(marks[:most]), max(len(marks) - most, 0))
