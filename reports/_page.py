"""What the page's template is given: tables of words, one entry per thing shown, nothing computed in the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.headline import Span, counts, headline, lede, others
from leakbench.questions import words
from leakbench.settings import Judged, Question
from leakbench.verdict import Number
from leakbench.verdict_words import plain
from reports._chart import NARROW, WIDE, chart
from reports._icon import icon

GROUPS = (
    ("leak", "Leaks", "an attacker gets at least half"),
    ("part", "Leaks in part", "more than a blind guess"),
    ("held", "Held", "against every attack tried here"),
    ("none", "Cannot be judged", "never a sign of privacy"),
)


@dataclass(frozen=True)
class Line:
    """A setting in the list by verdict and in the summary table."""

    name: str
    link: str
    icon: Markup
    reference: bool
    utility: str
    paper: str
    real: str
    worst: str
    word: str
    tone: str
    also: str


@dataclass(frozen=True)
class Group:
    """Settings of one verdict; ``folded`` families have more than three: (icon, name, utility, worst, lines)."""

    tone: str
    word: str
    meaning: str
    count: int
    lines: tuple[Line, ...]
    folded: tuple[tuple[Markup, str, str, str, tuple[Line, ...]], ...]


@dataclass(frozen=True)
class View:
    """A question as the page shows it."""

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
    legend: tuple[tuple[Markup, str], ...]


def view(index: int, question: Question, every: Sequence[Question], marks: Mapping[str, str]) -> View:
    """One question's chart, list and sentences."""
    named = [(j, _line(j, question, every, marks)) for j in question.judged]
    groups = tuple(_group(t, w, m, [(j, n) for j, n in named if j.verdict.tone == t]) for t, w, m in GROUPS)
    metric = next((j.setting.utility.metric for j in question.judged if j.setting.utility), "utility")
    families = dict.fromkeys(j.setting.family for j in question.judged if j.verdict.worst)
    legend = tuple(
        (icon(None, marks[f]), next(j.setting.name.split(" ")[0] for j in question.judged if j.setting.family == f)) for f in families
    )
    return View(
        ident=f"q{index}",
        question=question,
        kicker=_kicker(question),
        headline=headline(question),
        lede=lede(question),
        bar=counts(question),
        wide=chart(question, marks, WIDE),
        narrow=chart(question, marks, NARROW),
        groups=tuple(g for g in groups if g.count),
        lines=tuple(line for _, line in named),
        utility=words(metric).title,
        meaning=words(question.metric).meaning,
        legend=legend,
    )


def number_text(metric: str, row: Number | None) -> str:
    """A value with its interval, or that there is none."""
    if row is None:
        return "none"
    unit = words(metric).suffix
    value, low, high = (plain(metric, v).removesuffix(unit) for v in (row.value, row.low, row.high))
    return f"{value} ({low} to {high}){unit}"


def _kicker(question: Question) -> str:
    counts = {r.get("facts", {}).get("clients") for j in question.judged for r in j.setting.runs} - {None}
    return f"{f'{counts.pop()} clients' if len(counts) == 1 else 'Clients'} {question.topic.ask}"


def _line(judged: Judged, question: Question, every: Sequence[Question], marks: Mapping[str, str]) -> Line:
    setting, verdict, metric = judged.setting, judged.verdict, question.metric
    u = setting.utility
    none = {1: f"sends no {judged.case.kind}", 2: "not attacked"}.get(verdict.rule)
    return Line(
        name=setting.name,
        link=f"#r{setting.index}",
        icon=icon(judged, marks[setting.family]),
        reference=setting.reference,
        utility=plain(u.metric, u.value) if u else "not measured",
        paper=none or number_text(metric, verdict.paper),
        real=none or number_text(metric, _real(judged)),
        worst=none or number_text(metric, verdict.worst),
        word=verdict.word,
        tone=verdict.tone,
        also=" ".join(others(question, every, judged)),
    )


def _real(judged: Judged) -> Number | None:
    """The best real attacker as the table has it: the verdict reads a wider interval where several attacks were compared."""
    best = judged.verdict.reached
    if best is None or best.rung == "paper":
        return None
    rows = (*judged.case.attacks, *(r for r in (judged.case.cascade,) if r))
    return next((r for r in rows if (r.attack, r.attack_params, r.value) == (best.attack, best.attack_params, best.value)), best)


def _group(tone: str, word: str, meaning: str, members: list[tuple[Judged, Line]]) -> Group:
    families = dict.fromkeys(j.setting.family for j, _ in members)
    lines: list[Line] = []
    folded = []
    for family in families:
        mine = [(j, n) for j, n in members if j.setting.family == family]
        if len(mine) <= 3 or tone == "none":
            lines += [n for _, n in mine]
            continue
        gains = [(u.metric, u.value) for j, _ in mine if (u := j.setting.utility)]
        worst = [(j.case.metric, w.value) for j, _ in mine if (w := j.verdict.worst)]
        head = mine[0][0].setting.name.split(" ")[0]
        folded.append((mine[0][1].icon, head, _range(gains), _range(worst), tuple(n for _, n in mine)))
    return Group(tone, word, meaning, len(members), tuple(lines), tuple(folded))


def _range(found: Sequence[tuple[str, float]]) -> str:
    """As in "0.88 to 0.93"."""
    if not found:
        return "not measured"
    metric = found[0][0]
    low, high = plain(metric, min(v for _, v in found)), plain(metric, max(v for _, v in found))
    return low if low == high else f"{low.removesuffix(words(metric).suffix)} to {high}"
