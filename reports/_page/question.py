"""What the page's template is given for one question.

It is tables of words; nothing is computed in the template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from leakbench.base import addresses
from leakbench.judging import TO, WORST, Question
from leakbench.reporting import ReportData
from leakbench.words import AttackerKind, counts, of_clusters, present
from reports._chart.chart import chart
from reports._chart.plot import NARROW, WIDE, plot
from reports._chart.points import icon
from reports._chart.scene import Scene, scene
from reports._page.attackers import list_moves
from reports._page.list import Group, groups
from reports._words import about

APART = "-"  # between a question's place and the listener's


@dataclass(frozen=True)
class QuestionView:
    """A question as the page shows it."""

    ident: str
    address: str  # what stands behind # in a link to it
    question: Question
    kicker: str
    bar: list[tuple[str, str, str, str]]
    wide: Markup
    narrow: Markup
    groups: tuple[Group, ...]
    utility: str
    over: str  # what is independent in the intervals of leakage
    meaning: str
    legend: tuple[tuple[Markup, str, str], ...]  # (icon, family, name)
    attackers: tuple[AttackerKind, ...]
    scenes: Mapping[str, tuple[Scene, Scene]]  # attacker -> its charts, wide and narrow
    moves: Mapping[str, Any]  # attacker -> what the list then shows

    @property
    def asked(self) -> str:
        """The place of the same question to anyone."""
        return asked_of(self.ident)

    @property
    def listeners(self) -> list[tuple[str, str]]:
        """(place, who it is), beginning with anyone; none where one alone attacked."""
        heard = []
        for i, h in _heard(self.question):
            heard += [(_at(self.ident, i), TO[h.listener])] if h.listener else []
        return [(self.ident, "anyone"), *heard] if heard else []

    @property
    def early(self) -> bool:
        """Whether it asks about a time before the end of training."""
        return self.question.stage != "final"

    @property
    def one_heap(self) -> bool:
        """Whether every setting with a number leaks: as a chart they are marks on one heap."""
        found = [j.verdict.tone for j in self.question.judged if j.verdict.judged]
        return bool(self.scenes) and set(found) == {"leak"}

    @property
    def crowded(self) -> bool:
        """Whether some attacker leaves a corner that is worth a closer look."""
        return any(s.crowd for s, _ in self.scenes.values())


def by_listener(questions: Sequence[Question]) -> Iterator[tuple[str, Question]]:
    """Each question with its place in the page, to anyone and then by who listened."""
    for i, question in enumerate(questions):
        yield f"q{i}", question
        yield from ((_at(f"q{i}", n), heard) for n, heard in _heard(question))


def asked_of(ident: str) -> str:
    """The place of the question to anyone."""
    return ident.partition(APART)[0]


def _at(ident: str, number: int) -> str:
    return f"{ident}{APART}{number}"


def _heard(question: Question) -> list[tuple[int, Question]]:
    return list(enumerate(question.heard, 1))


def views(data: ReportData, marks: Mapping[str, str]) -> list[QuestionView]:
    """Every question, to anyone and by who listened."""
    asked = list(by_listener(data.questions))
    at = addresses([("question", q.task, q.label) for _, q in asked])
    return [_view(i, where, q, data, marks) for (i, q), where in zip(asked, at, strict=True)]


def _view(
    ident: str, address: str, question: Question, data: ReportData, marks: Mapping[str, str]
) -> QuestionView:
    """One question's charts, list and sentences."""
    attackers, scenes = tuple(present(question)), dict[str, tuple[Scene, Scene]]()
    wide, narrow = plot(question, WIDE), plot(question, NARROW)
    if wide and narrow:
        scenes = {a.key: (scene(wide, a.key), scene(narrow, a.key)) for a in attackers}
    drawn = [chart(s, marks, ident) for s in scenes.get(WORST, ())] or [Markup(""), Markup("")]
    families = {j.setting.family: j.setting.title for j in question.judged if j.verdict.worst}
    listed = groups(question, marks)
    return QuestionView(
        ident=ident,
        address=address,
        question=question,
        kicker=_kicker(question, data),
        bar=counts(question),
        wide=drawn[0],
        narrow=drawn[1],
        groups=listed,
        utility=utility_name(question),
        over=_over(question),
        meaning=about(question.meaning),
        legend=tuple((icon(None, marks[f]), f, name) for f, name in families.items()),
        attackers=attackers,
        scenes=scenes,
        moves=list_moves(question, listed) if scenes else {},
    )


def utility_name(question: Question) -> str:
    """What its settings are good for, as a heading."""
    measured = [j.setting.final for j in question.judged if j.setting.final]
    return measured[0].meaning.heading if measured else "utility"


def _over(question: Question) -> str:
    found = [of_clusters(j.verdict.worst) for j in question.judged if j.verdict.worst]
    return " or ".join(dict.fromkeys(found))


def tasks_of(views: Sequence[QuestionView]) -> list[tuple[str, list[QuestionView]]]:
    """The page's tasks, each with what can be asked of it at the end of training."""
    found: dict[str, list[QuestionView]] = {}
    for v in views:
        if not v.early and v.question.listener is None:
            found.setdefault(v.question.task, []).append(v)
    return list(found.items())


def _kicker(question: Question, data: ReportData) -> str:
    clients = next((t.clients for t in data.tasks if t.id == question.task), None)
    return f"{f'{clients} clients' if clients else 'Clients'} {question.topic.ask}"
