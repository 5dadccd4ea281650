"""The list of settings by verdict.

A line each; more than three of a family are folded into one with ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from markupsafe import Markup

from leakbench.judging import Judged, Question
from leakbench.words import short, tally
from reports._chart.points import icon
from reports._chart.scale import AxisScale
from reports._chart.small_track import track, track_scale
from reports._words import lacking, reach

GROUPS = (
    ("leak", "Leaks", "surely half of it or more"),
    ("part", "Leaks in part", "surely above a blind guess, not half"),
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

    @property
    def key(self) -> str:
        """What the switch of attackers knows it by."""
        return str(self.index)


@dataclass(frozen=True)
class Folded:
    """A family of more than three settings, in one line."""

    key: str
    family: str
    name: str
    icon: Markup
    utility: str
    found: str
    track: Markup
    why: str  # why none of them can be judged
    tone: str
    lines: tuple[ListLine, ...]


@dataclass(frozen=True)
class Group:
    """Settings of one verdict."""

    tone: str
    word: str
    meaning: str
    count: str  # as in "5 and the reference"
    same: str  # what would stand in every line
    lines: tuple[ListLine, ...]
    folded: tuple[Folded, ...]
    left_out: int = 0  # settings that stand in no line


def cut(group: Group, most: int) -> Group:
    """Its first lines, and how many settings the others are."""
    folded, lines = group.folded[:most], group.lines[: max(0, most - len(group.folded))]
    inside = sum(len(f.lines) for f in group.folded[most:])
    left_out = len(group.lines) - len(lines) + inside
    return replace(group, folded=folded, lines=lines, left_out=left_out)


def groups(question: Question, marks: Mapping[str, str]) -> tuple[Group, ...]:
    """The groups that have members, in each who leaks most at worst first."""
    scale = track_scale(question)
    found = []
    for tone, word, meaning in GROUPS:
        mine = [j for j in question.judged if j.verdict.tone == tone]
        members = sorted(mine, key=_safety)
        if not members:
            continue
        same, lines = _once(tone, [_line(j, marks, scale) for j in members])
        # Folded together where a family has the same reason: a range says nothing of what is open.
        families: dict[tuple[str, str], list[tuple[Judged, ListLine]]] = {}
        for j, line in zip(members, lines, strict=True):
            why = line.why if tone == "none" else ""
            families.setdefault((line.family, why), []).append((j, line))
        many = [own for own in families.values() if len(own) > MOST_OF_A_FAMILY]
        inside = {line.index for own in many for _, line in own}
        alone = tuple(line for line in lines if line.index not in inside)
        count, more = tally(members, question.judged)
        known = (tone, word, meaning, f"{count} {more}".strip(), same)
        found.append(Group(*known, alone, tuple(_folded(own, scale) for own in many)))
    return tuple(found)


def _safety(judged: Judged) -> float:
    worst = judged.verdict.worst
    return -worst.leak if worst else float("inf")


def _once(tone: str, lines: list[ListLine]) -> tuple[str, list[ListLine]]:
    """What all lines say besides their numbers, said once: (that, the lines without it)."""
    if tone not in ("none", "held") or len(lines) < 2:
        return "", lines
    held = tone == "held"
    said = {n.also if held else n.why for n in lines}
    if len(said) > 1 or said == {""}:
        return "", lines
    bare = [replace(n, also="") if held else replace(n, why="") for n in lines]
    return (f"For this question only. {said.pop()}" if held else said.pop()), bare


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
        why=short(judged.evidence, judged.verdict),
        tone=judged.verdict.tone,
        also=" ".join(judged.also),
    )


def _folded(own: list[tuple[Judged, ListLine]], scale: AxisScale | None) -> Folded:
    members, lines = [j for j, _ in own], tuple(line for _, line in own)
    setting = members[0].setting
    gains = [j.setting.final for j in members if j.setting.final]
    worst = [j.verdict.worst for j in members if j.verdict.worst]
    gained = [u.value.value for u in gains]
    found = [n.value.value for n in worst]
    return Folded(
        key=f"{lines[0].tone}-{setting.index}",
        family=setting.family,
        name=setting.title,
        icon=lines[0].icon,
        utility=reach(gains[0].meaning, gained) if gains else "not measured",
        found=reach(members[0].evidence.meaning, found) if found else "none",
        track=track(members, scale),
        why=lines[0].why,
        tone=lines[0].tone,
        lines=lines,
    )
