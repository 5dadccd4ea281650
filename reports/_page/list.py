"""The list of settings by verdict: a line each, more than three of a family folded into one with
ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import Judged, Question, others, plain, words
from leakbench.judging import real
from reports._chart.points import glyph
from reports._chart.scale import Scale
from reports._chart.svg import shape, tag
from reports._chart.small_track import track, track_scale
from reports._words import number_text

GROUPS = (
    ("leak", "Leaks", "an attacker gets at least half"),
    ("part", "Leaks in part", "more than a blind guess"),
    ("held", "Held", "against every attack tried here"),
    ("none", "Cannot be judged", "never a sign of privacy"),
)
MOST_OF_A_FAMILY = 3


@dataclass(frozen=True)
class Line:
    """A setting in the list by verdict and in the summary table. ``worst``: with its interval;
    ``found``: without.
    """

    index: int
    family: str
    name: str
    link: str
    icon: Markup
    reference: bool
    utility: str
    paper: str
    real: str
    worst: str
    found: str
    track: Markup
    word: str
    why: str
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
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Group:
    """Settings of one verdict."""

    tone: str
    word: str
    meaning: str
    count: int
    lines: tuple[Line, ...]
    folded: tuple[Folded, ...]


def groups(
    question: Question, every: Sequence[Question], marks: Mapping[str, str]
) -> tuple[tuple[Group, ...], tuple[Line, ...]]:
    """The groups that have members, and all lines in the question's order."""
    scale = track_scale(question)
    named = [(j, _line(j, question, every, marks, scale)) for j in question.judged]
    found = [
        _group(t, w, m, [(j, n) for j, n in named if j.verdict.tone == t], scale)
        for t, w, m in GROUPS
    ]
    return tuple(g for g in found if g.count), tuple(n for _, n in named)


def icon(judged: Judged | None, mark: str) -> Markup:
    """A mark beside text; settings without a number are a grey hexagon."""
    if judged is None:
        inside = shape(mark, 8, 8, 5.5, class_="mk plain")
    elif judged.verdict.rule in (1, 2):
        inside = shape("hexagon", 8, 8, 5.0, class_="mk none")
    else:
        inside = glyph(judged, mark, 8, 8, 5.5)
    return tag("svg", inside, viewBox="0 0 16 16", class_="gl", aria_hidden="true")


def _line(
    judged: Judged,
    question: Question,
    every: Sequence[Question],
    marks: Mapping[str, str],
    scale: Scale | None,
) -> Line:
    setting, verdict, metric = judged.setting, judged.verdict, question.metric
    u = setting.utility
    none = {1: f"sends no {judged.case.kind}", 2: "not attacked"}.get(verdict.rule)
    return Line(
        index=setting.index,
        family=setting.family,
        name=setting.name,
        link=f"#r{setting.index}",
        icon=icon(judged, marks[setting.family]),
        reference=setting.reference,
        utility=plain(u.metric, u.value) if u else "not measured",
        paper=none or number_text(metric, verdict.paper),
        real=none or number_text(metric, real(judged)),
        worst=none or number_text(metric, verdict.worst),
        found=none or (plain(metric, verdict.worst.value) if verdict.worst else "none"),
        track=track([judged], scale) if scale else Markup(""),
        word=verdict.word,
        why=_why(judged),
        tone=verdict.tone,
        also=" ".join(others(question, every, judged)),
    )


def _why(judged: Judged) -> str:
    """Why a setting cannot be judged, in a few words."""
    case, rule = judged.case, judged.verdict.rule
    return {
        1: f"sends no {case.kind} to attack",
        2: f"not attacked: {case.reason.rstrip('.')}",
        3: f"dead run: {case.dead_because}",
        4: "attack too weak, even with nothing defended",
        6: "cannot tell: only the paper's own attack counts",
        9: "cannot tell: too few units for a verdict",
    }.get(rule, judged.verdict.word)


def _group(
    tone: str, word: str, meaning: str, members: list[tuple[Judged, Line]], scale: Scale | None
) -> Group:
    lines: list[Line] = []
    folded = []
    for family in dict.fromkeys(j.setting.family for j, _ in members):
        mine = [(j, n) for j, n in members if j.setting.family == family]
        if len(mine) <= MOST_OF_A_FAMILY or tone == "none":
            lines += [n for _, n in mine]
            continue
        gains = [(u.metric, u.value) for j, _ in mine if (u := j.setting.utility)]
        worst = [(j.case.metric, w.value) for j, _ in mine if (w := j.verdict.worst)]
        folded.append(
            Folded(
                family=family,
                name=mine[0][0].setting.name.split(" ")[0],
                icon=mine[0][1].icon,
                utility=_range(gains),
                found=_range(worst),
                track=track([j for j, _ in mine], scale) if scale else Markup(""),
                lines=tuple(n for _, n in mine),
            )
        )
    return Group(tone, word, meaning, len(members), tuple(lines), tuple(folded))


def _range(found: Sequence[tuple[str, float]]) -> str:
    """As in "0.88 to 0.93"."""
    if not found:
        return "not measured"
    metric = found[0][0]
    low, high = plain(metric, min(v for _, v in found)), plain(metric, max(v for _, v in found))
    return low if low == high else f"{low.removesuffix(words(metric).suffix)} to {high}"
