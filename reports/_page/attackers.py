"""What the switch of attackers does to the list: who stands where, and with which number.

A setting keeps its verdict's group whatever the attacker: one that only looks harmless is not to
move to those that held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.judging import WORST, Judged, Question, row_of
from leakbench.words import present
from reports._chart.scale import AxisScale
from reports._chart.small_track import place, track_scale
from reports._page.list import Folded, Group, ListLine
from reports._words import reach

NO_NUMBER = "no number"  # no such attack that counts
Json = dict[str, Any]


def list_moves(question: Question, groups: Sequence[Group]) -> Json:
    """Attacker -> what the list's last column is called, the order in each group, and each line.

    A line is its text, where its dots stand, and whether it is faint, having no such number.
    """
    scale = track_scale(question)
    judged = {j.setting.index: j for j in question.judged}
    out = {}
    for a in present(question):
        rows: dict[str, list[Any]] = {}
        orders = []
        for group in groups:
            members: dict[str, list[Judged]] = {}
            for f in group.folded:
                members[f.key] = [judged[n.index] for n in f.lines]
                members |= {n.key: [judged[n.index]] for n in f.lines}
            members |= {n.key: [judged[n.index]] for n in group.lines}
            rows |= {key: _line(mine, a.key, scale) for key, mine in members.items()}
            orders.append([f.key for f in _ordered(group.folded, members, a.key)])
            orders[-1] += [n.key for n in _ordered(group.lines, members, a.key)]
            for f in group.folded:
                orders.append([n.key for n in _ordered(f.lines, members, a.key)])
        out[a.key] = {"head": a.name, "orders": orders, "rows": rows}
    return out


def _ordered(
    lines: Sequence[ListLine] | Sequence[Folded], members: Mapping[str, list[Judged]], key: str
) -> list[ListLine | Folded]:
    """Who leaks most to this attacker first; equals in the page's order."""
    return sorted(lines, key=lambda n: -max(leak(j, key) for j in members[n.key]))


def leak(judged: Judged, key: str) -> float:
    """To this attacker, or at worst where it has no number: nobody gains by not being attacked."""
    row = row_of(judged, key) or judged.verdict.worst
    return row.leak if row else float("-inf")


def _line(members: Sequence[Judged], key: str, scale: AxisScale | None) -> list[Any]:
    found = [row for j in members if (row := row_of(j, key))]
    text = reach(found[0].meaning, [n.value.value for n in found]) if found else NO_NUMBER
    drawn = [(j, row_of(j, key) or w) for j in members if (w := j.verdict.worst)]
    dots = [place(row, scale) for _, row in drawn] if scale else []
    faint = key != WORST and not found and bool(drawn)
    return [text if drawn else "", dots, int(faint)]
