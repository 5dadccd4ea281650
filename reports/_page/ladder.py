"""How much each stronger attacker gains: a track per setting, largest gain first.

A track goes from its paper's own attack to the worst case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.base import Meaning
from leakbench.judging import PAPER, Judged, Question, row_of
from leakbench.results import CASCADE, Number
from leakbench.words import ATTACKERS, plural, unjudged
from reports._chart.points import icon
from reports._chart.scale import AxisScale, blind_guess, nothing_defended
from reports._chart.svg import tag
from reports._chart.track import Dot, percent, scale, track
from reports._page.question import asked_of
from reports._words import reach

SHOWN = 12
NEAR = 60.0  # percent of the scale, between whose ends both names have room
# Drawn in this order; the best real attacker is one of them.
DOTS = tuple(a for a in ATTACKERS if a.key != CASCADE)


@dataclass(frozen=True)
class Step:
    """A setting's line."""

    family: str
    name: str
    link: str
    icon: Markup
    reference: bool
    track: Markup
    before: str  # what its paper's own attack reaches; empty without one
    after: str  # what the worst case reaches
    gain: str


@dataclass(frozen=True)
class Ladder:
    """A question's lines."""

    ident: str
    task: str
    label: str
    title: str
    ends: Markup
    rows: tuple[Step, ...]  # those that are shown
    folded: tuple[Step, ...]  # wait behind ``more``
    more: str
    gone: str  # who is not here, and why
    keys: tuple[tuple[str, str], ...]

    @property
    def asked(self) -> str:
        """The place of the same question to anyone."""
        return asked_of(self.ident)


@dataclass(frozen=True)
class _Climb:
    """From its paper's own attack to the worst case."""

    judged: Judged
    paper: Number | None
    worst: Number

    @property
    def gain(self) -> float | None:
        """How much more leaks, whichever way is up; None where there is nothing to compare."""
        if self.paper is None or not self.stronger:
            return None
        return self.worst.leak - self.paper.leak

    @property
    def stronger(self) -> bool:
        """Did any attack count beside its paper's own?"""
        return any(not a.attacker.paper for a in self.judged.verdict.counting)

    @property
    def place(self) -> tuple[bool, float, float, int]:
        """The largest gain first."""
        index = self.judged.setting.index
        return self.gain is None, -(self.gain or 0.0), -self.worst.leak, index


def ladder(
    ident: str, question: Question, marks: Mapping[str, str], shown: int = SHOWN
) -> Ladder | None:
    """None where no setting has a number that counts; ``shown``: lines that are not folded."""
    here, left = [], []
    for j in question.judged:
        worst = j.verdict.worst
        if worst is None or j.setting.dead or j.verdict.rule == 4:
            left.append(j)
        else:
            here.append(_Climb(j, row_of(j, PAPER), worst))
    if not here:
        return None
    to, meaning = scale(question), question.meaning
    here.sort(key=lambda c: c.place)
    steps = tuple(_step(c, to, marks[c.judged.setting.family]) for c in here)
    settings = plural(len(left), "setting")
    gone = f"Not here: {settings} without a number that counts ({unjudged(left)})."
    drawn = {a.key for a in DOTS for c in here if row_of(c.judged, a.key)}
    return Ladder(
        ident=ident,
        task=question.task,
        label=question.label,
        title=meaning.heading,
        ends=_ends(meaning, to, [c.worst for c in here]),
        rows=steps[:shown],
        folded=steps[shown:],
        more=_more(meaning, here[shown:]),
        gone=gone if left else "",
        keys=tuple((a.key, a.label) for a in DOTS if a.key in drawn),
    )


def _step(climb: _Climb, to: AxisScale, mark: str) -> Step:
    judged, setting = climb.judged, climb.judged.setting
    text, paper = judged.evidence.meaning.text, climb.paper
    dots = [Dot(a.key, a.label, row) for a in DOTS if (row := row_of(judged, a.key))]
    return Step(
        family=setting.family,
        name=setting.name,
        link=f"#{setting.id}",
        icon=icon(judged, mark),
        reference=setting.reference,
        track=track(to, dots),
        before=text(paper.value.value) if paper else "",
        after=text(climb.worst.value.value),
        gain=_gained(climb),
    )


def _gained(climb: _Climb) -> str:
    meaning, gain = climb.judged.evidence.meaning, climb.gain
    if climb.paper is None or gain is None:
        if not climb.stronger:
            return "no stronger one counts"
        ran = climb.judged.verdict.paper is not None
        return f"its paper's own {'does not count' if ran else 'did not run'}"
    if meaning.scale == "log":
        ends = (climb.paper.value.value, climb.worst.value.value)
        low, high = sorted(max(v, 1e-12) for v in ends)
        return "no gain" if gain <= 0 or high / low < 1.05 else f"by a factor of {high / low:.1f}"
    return f"+{meaning.text(gain)}" if _shows(meaning, gain) else "no gain"


def _shows(meaning: Meaning, gain: float) -> bool:
    return gain >= 0.5 * 10**-meaning.decimals


def _more(meaning: Meaning, rest: Sequence[_Climb]) -> str:
    if not rest:
        return ""
    gains, text = [c.gain for c in rest if c.gain is not None], f"{len(rest)} more"
    if len(gains) < len(rest) or meaning.scale == "log":
        return text
    most = max(gains)
    if not _shows(meaning, most):
        return f"{text}, without gain"
    return f"{text}, each gains at most {meaning.text(most)}"


def _ends(meaning: Meaning, to: AxisScale, rows: Sequence[Number]) -> Markup:
    """The scale's two marks with their names, above the tracks."""
    out: list[Markup] = []
    ends = [("blind guess", blind_guess(rows)), ("nothing defended", nothing_defended(rows))]
    (first, left), (last, right) = sorted(ends, key=lambda end: to(end[1][0]))
    a, b = min(map(to, left)), max(map(to, right))
    near = b - a < NEAR
    placed = (
        (first, left, 0.0 if near else a, "start"),
        (last, right, 100.0 if near else b, "end"),
    )
    for name, values, x, anchor in placed:
        text = f"{name} {reach(meaning, values)}"
        out.append(tag("text", text, x=percent(x), y=11, text_anchor=anchor))
    return tag("svg", *out, class_="ends", width="100%", height=15, aria_hidden="true")
