"""What the page's template is given for one question: tables of words, nothing computed in the
template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import Question, Span, counts, headline, lede, words
from leakbench.judging import WORST, Attacker, present
from reports._chart.chart import chart
from reports._page.list import Group, Line, groups, icon
from reports._chart.plot import NARROW, WIDE, plot
from reports._chart.scene import Scene, scene


@dataclass(frozen=True)
class View:
    """A question as the page shows it. ``legend``: (icon, family, name). ``scenes``: attacker ->
    its charts, wide and narrow.
    """

    ident: str
    question: Question
    kicker: str
    headline: tuple[Span, ...]
    lede: tuple[Span, ...]
    bar: list[tuple[str, int, str, str]]
    wide: Markup
    narrow: Markup
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    utility: str
    meaning: str
    legend: tuple[tuple[Markup, str, str], ...]
    attackers: tuple[Attacker, ...]
    scenes: Mapping[str, tuple[Scene, Scene]]

    @property
    def early(self) -> bool:
        """Whether it asks about a time before the end of training."""
        return self.question.stage != "final"

    @property
    def crowded(self) -> bool:
        """Whether some attacker leaves a corner that is worth a closer look."""
        return any(s.crowd for s, _ in self.scenes.values())


def view(
    index: int, question: Question, every: Sequence[Question], marks: Mapping[str, str]
) -> View:
    """One question's charts, list and sentences."""
    ident, attackers = f"q{index}", tuple(present(question))
    wide, narrow = plot(question, WIDE), plot(question, NARROW)
    scenes = (
        {a.key: (scene(wide, a.key), scene(narrow, a.key)) for a in attackers}
        if wide and narrow
        else {}
    )
    drawn = [chart(s, marks, ident) for s in scenes.get(WORST, ())] or [Markup(""), Markup("")]
    folded, lines = groups(question, every, marks)
    metric = next(
        (j.setting.utility.metric for j in question.judged if j.setting.utility), "utility"
    )
    families = dict.fromkeys(j.setting.family for j in question.judged if j.verdict.worst)
    names = {
        f: next(j.setting.name.split(" ")[0] for j in question.judged if j.setting.family == f)
        for f in families
    }
    return View(
        ident=ident,
        question=question,
        kicker=_kicker(question),
        headline=headline(question),
        lede=lede(question),
        bar=counts(question),
        wide=drawn[0],
        narrow=drawn[1],
        groups=folded,
        lines=lines,
        utility=words(metric).title,
        meaning=words(question.metric).meaning,
        legend=tuple((icon(None, marks[f]), f, name) for f, name in names.items()),
        attackers=attackers,
        scenes=scenes,
    )


def tasks_of(views: Sequence[View]) -> list[tuple[str, list[View]]]:
    """The page's tasks, each with what can be asked of it at the end of training."""
    found: dict[str, list[View]] = {}
    for v in views:
        if not v.early:
            found.setdefault(v.question.task, []).append(v)
    return list(found.items())


def _kicker(question: Question) -> str:
    clients = {
        r.get("facts", {}).get("clients") for j in question.judged for r in j.setting.runs
    } - {None}
    return f"{f'{clients.pop()} clients' if len(clients) == 1 else 'Clients'} {question.topic.ask}"
