"""Small multiples over the rounds, a row of panels per task.

Utility, leakage, what runs say of themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from leakbench.base import Meaning
from leakbench.judging import WORST, Question
from leakbench.reporting import Curve, ReportData, ShownSetting
from leakbench.results import COLLAPSED_COSINE, COLLAPSED_RATIO, DIAGNOSTIC, Utility, setting_names
from reports._chart.lines import ROOM, Across, Axis, CurveLine, Trace, lines
from reports._chart.scale import top_of
from reports._chart.svg import width
from reports._words import several

MOST = 8  # lines in a panel
NAMED = 4
# Of a diagnostic: (how it is read, what it says, where a run is dead).
DIAGNOSTICS = (
    (
        Meaning(
            name=DIAGNOSTIC["cosine"],
            direction="up",
            low=-1.0,
            high=1.0,
            unit="run",
            title="Mean cosine of prototypes",
        ),
        "near 1: collapsed",
        (COLLAPSED_COSINE, f"dead above {COLLAPSED_COSINE}"),
    ),
    (
        Meaning(
            name=DIAGNOSTIC["euclidean"],
            direction="down",
            low=0.0,
            high=None,
            margin=COLLAPSED_RATIO,
            unit="run",
            title="Distance of prototypes",
        ),
        "relative to the embeddings' own; near 0: collapsed",
        (COLLAPSED_RATIO, f"dead below {COLLAPSED_RATIO}"),
    ),
)
UNSAID = ("nothing to attack", "not attacked", "not finished", "failed", "attack too weak")


@dataclass(frozen=True)
class Panel:
    """One drawing with its words."""

    title: str
    sub: str  # what the drawing is of
    drawing: Markup
    gone: str  # which of the shown settings have no curve here


@dataclass(frozen=True)
class Rounds:
    """A task's panels."""

    task: str
    panels: tuple[Panel, ...]
    chosen: str  # which settings they show
    once: tuple[str, ...] = ()  # what was scored in one round only: a sentence, not a chart


def rounds(data: ReportData) -> list[Rounds]:
    """One per task that has any curve."""
    out = []
    for task in dict.fromkeys(s.task for s in data.settings):
        mine = [s for s in data.settings if s.task == task]
        asked = [q for q in data.questions if q.task == task and q.stage == "final"]
        shown = _worth_it(mine, asked)
        drawn = _Panels(shown, asked)
        panels = tuple(drawn.all())
        told = (
            f"Of {len(mine)} settings: the best trade-offs, references, a dead run, the"
            " most useful of each family."
        )
        if panels or drawn.once:
            chosen = told if len(mine) > len(shown) else ""
            out.append(Rounds(task, panels, chosen, tuple(drawn.once)))
    return out


def _worth_it(
    settings: Sequence[ShownSetting], questions: Sequence[Question]
) -> list[ShownSetting]:
    """At most ``MOST`` settings.

    The front of the first question, references, one dead run, each family's most useful, then the
    rest.
    """
    on = questions[0].fronts.get(WORST, []) if questions else []
    top: dict[str, ShownSetting] = {}
    for s in settings:
        best = top.get(s.family)
        if not s.dead and s.final and (best is None or _gain(s) > _gain(best)):
            top[s.family] = s
    ranked = [
        *[s for s in settings if s.id in on][: MOST // 2],
        *[s for s in settings if s.reference][:1],
        *[s for s in settings if s.dead][:1],
        *top.values(),
        *settings,
    ]
    chosen = {s.index: s for s in ranked}  # in the order in which they came first
    return sorted(list(chosen.values())[:MOST], key=lambda s: s.index)


def _gain(setting: ShownSetting) -> float:
    return setting.final.gain if setting.final else 0.0


class _Panels:
    """A task's panels, over the settings that are shown."""

    def __init__(self, shown: Sequence[ShownSetting], questions: Sequence[Question]) -> None:
        self.shown, self.questions = shown, questions
        self.curves = [(s.index, c) for s in shown for c in s.curves if c.rounds]
        self.last = max((c.rounds[-1] for _, c in self.curves), default=1)
        self.names = _short_names(shown)
        self.once: list[str] = []
        families = list(dict.fromkeys(s.family for s in shown))
        self.looks: dict[int, tuple[int, int]] = {}  # setting -> its colour and its dash
        for i, family in enumerate(families):
            mine = [s.index for s in shown if s.family == family]
            self.looks |= {index: (i, dash) for dash, index in enumerate(mine)}

    def all(self) -> list[Panel]:
        """Utility, leakage by question, diagnostics; those that have a line."""
        gained = [s.final for s in self.shown if s.final][:1]
        out = [self._utility(u) for u in gained]
        for q in self.questions:
            for own in (True, False):
                out.append(self._leakage(q, own=own))
        for meaning, sub, level in DIAGNOSTICS:
            curves = {i: c for i, c in self.curves if c.name == meaning.name}
            out.append(self._panel(meaning.heading, sub, curves, _axis(meaning, level)))
        return [panel for panel in out if panel]

    def _utility(self, utility: Utility) -> Panel | None:
        meaning, chance = utility.meaning, utility.chance
        axis = _axis(meaning, (chance, f"chance {meaning.text(chance)}"))
        curves = {i: c for i, c in self.curves if c.name == meaning.name and not c.by}
        return self._panel(_capital(meaning.heading), "", curves, axis)

    def _leakage(self, question: Question, *, own: bool) -> Panel | None:
        """By the papers' own attacks, or by the best real ones."""
        asked = (question.metric, question.probe)
        here = [(i, c) for i, c in self.curves if c.by and (c.name, c.probe) == asked]
        curves = {i: c for i, c in here if (c.rung == "paper") is own}
        who = "the paper's own attack" if own else "best real attack"
        sub = f"{question.meaning.heading}; {_by(list(curves.values()))}"
        title = f"{_capital(question.label)}, {who}"
        return self._panel(title, sub, curves, _axis(question.meaning), question)

    def _panel(
        self,
        title: str,
        sub: str,
        curves: Mapping[int, Curve],
        axis: Axis,
        question: Question | None = None,
    ) -> Panel | None:
        """``question``: whose verdicts colour the lines, else the first that has one."""
        if not curves:
            return None
        asked = [question] if question else list(reversed(self.questions))
        verdicts = {j.setting.index: j.verdict for q in asked for j in q.judged}
        if all(len(c.rounds) < 2 for c in curves.values()):
            self.once.append(self._told(title, curves, axis))
            return None
        drawn, gone = [], []
        for s in self.shown:
            verdict = verdicts.get(s.index)
            if s.index in curves:
                word = _word(verdict.word, verdict.tone) if verdict else ""
                name = CurveLine(
                    trace_of(curves[s.index]), self.names[s.index], "dead" if s.dead else word
                )
                family, dash = self.looks[s.index]
                drawn.append(replace(name, family=family, dash=dash))
            elif question and verdict and verdict.word in UNSAID:
                gone.append(f"{s.name} ({verdict.word})")
            else:
                gone.append(s.name)
        left = f"No curve: {several(gone, NAMED)}." if gone else ""
        if question is None and len(asked) > 1:
            sub = (
                f"{sub}; verdicts on {asked[-1].label}" if sub else f"verdicts on {asked[-1].label}"
            )
        across = Across.rounds([line.trace for line in drawn], self.last)
        return Panel(title, sub, lines(title, drawn, across, axis), left)

    def _told(self, title: str, curves: Mapping[int, Curve], axis: Axis) -> str:
        """What a chart of dots at one round would show."""
        found = [f"{self.names[i]} {axis.text(c.value[0])}" for i, c in curves.items()]
        return f"{title}, scored once, so there is no line: {', '.join(found)}."


def trace_of(c: Curve) -> Trace:
    """What its line goes through."""
    return Trace(c.rounds, c.value, c.low, c.high, c.floor)


def _word(word: str, tone: str) -> str:
    return "in part" if tone == "part" else word


def _axis(meaning: Meaning, level: tuple[float, str] | None = None) -> Axis:
    return Axis(top_of(meaning), meaning.text, level)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _by(curves: Sequence[Curve]) -> str:
    """Which attacks, and that a dot is one that reads all rounds at once."""
    text = several(list(dict.fromkeys(c.by for c in curves)), 2)
    dot = any(len(c.rounds) == 1 for c in curves)
    return text + "; a dot: scored once, with all rounds" * dot


def _short_names(shown: Sequence[ShownSetting]) -> dict[int, str]:
    """Only what sets these few apart: a margin has room for little more."""
    out = {}
    for dead in (False, True):
        mine = [s for s in shown if s.dead is dead]
        methods = {s.family: s.method for s in mine}
        names = setting_names([s.configuration for s in mine], methods)
        for s in mine:
            name = names[s.key]
            out[s.index] = str(name) if width(str(name)) <= ROOM else name.values
    return out
