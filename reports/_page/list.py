"""The list of settings by verdict.

A line each; more than three of a family are folded into one with ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import Judged, Question
from reports._chart.points import icon
from reports._chart.scale import AxisScale
from reports._chart.small_track import track, track_scale
from reports._words import lacking, reach

GROUPS = (
    ("leak", "Leaks", "an attacker gets at least half"),
    ("part", "Leaks in part", "more than a blind guess"),
    ("held", "Held", "against every attack tried here"),
    ("none", "Cannot be judged", "never a sign of privacy"),
)
MOST_OF_A_FAMILY = 3


@dataclass(frozen=True)
class ListLine:
    """A setting in the list."""

    index: int
    family: str
    name: str
    link: str
    icon: Markup
    reference: bool
    utility: str
    found: str  # the worst case
    track: Markup
    why: str  # why it cannot be judged
    tone: str
    also: str


@dataclass(frozen=True)
class Folded:
    """A family of more than three settings, in one line."""

    family: str
    name: str
    icon: Markup
    utility: str
    found: str
    track: Markup
    lines: tuple[ListLine, ...]


@dataclass(frozen=True)
class Group:
    """Settings of one verdict."""

    tone: str
    word: str
    meaning: str
    count: int
    lines: tuple[ListLine, ...]
    folded: tuple[Folded, ...]


def groups(question: Question, marks: Mapping[str, str]) -> tuple[Group, ...]:
    """The groups that have members."""
    scale = track_scale(question)
    found = []
    for tone, word, meaning in GROUPS:
        members = [j for j in question.judged if j.verdict.tone == tone]
        families: dict[str, list[Judged]] = {}
        for j in members:
            families.setdefault(j.setting.family, []).append(j)
        lines: list[ListLine] = []
        folded: list[Folded] = []
        for mine in families.values():
            own = [_line(j, marks, scale) for j in mine]
            if len(mine) <= MOST_OF_A_FAMILY or tone == "none":
                lines += own
            else:
                folded.append(_folded(mine, own, scale))
        if members:
            found.append(Group(tone, word, meaning, len(members), tuple(lines), tuple(folded)))
    return tuple(found)


def _line(judged: Judged, marks: Mapping[str, str], scale: AxisScale | None) -> ListLine:
    setting, worst, gain = judged.setting, judged.verdict.worst, judged.setting.final
    found = worst.meaning.text(worst.value.value) if worst else "none"
    return ListLine(
        index=setting.index,
        family=setting.family,
        name=setting.name,
        link=f"#{setting.id}",
        icon=icon(judged, marks[setting.family]),
        reference=setting.reference,
        utility=gain.meaning.text(gain.value.value) if gain else "not measured",
        found=lacking(judged) or found,
        track=track([judged], scale),
        why=judged.short,
        tone=judged.verdict.tone,
        also=" ".join(judged.also),
    )


def _folded(members: list[Judged], lines: list[ListLine], scale: AxisScale | None) -> Folded:
    setting = members[0].setting
    gains = [j.setting.final for j in members if j.setting.final]
    worst = [j.verdict.worst for j in members if j.verdict.worst]
    gained = [u.value.value for u in gains]
    return Folded(
        family=setting.family,
        name=setting.title,
        icon=lines[0].icon,
        utility=reach(gains[0].meaning, gained) if gains else "not measured",
        found=reach(members[0].evidence.meaning, [n.value.value for n in worst]),
        track=track(members, scale),
        lines=tuple(lines),
    )
