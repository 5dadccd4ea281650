"""How much each stronger attacker gains: a track per setting, from its paper's own attack to the
worst case, largest gain first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import Judged, Question, Side, plain, plural, unjudged, words
from leakbench.judging import ATTACKERS, CASCADE, PAPER, row_of
from reports._page.list import icon
from reports._chart.scale import Scale
from reports._chart.svg import tag
from reports._chart.track import Dot, percent, scale, track

SHOWN = 12
# Drawn in this order; the best real attacker is one of them.
DOTS = tuple(a for a in ATTACKERS if a.key != CASCADE)


@dataclass(frozen=True)
class Step:
    """A setting's line; ``before`` (empty without its paper's own attack) and ``after``: what that
    and the worst case reach.
    """

    family: str
    name: str
    link: str
    icon: Markup
    reference: bool
    track: Markup
    before: str
    after: str
    gain: str
    tone: str


@dataclass(frozen=True)
class Ladder:
    """A question's lines: ``rows`` are shown, ``folded`` wait behind ``more``. ``gone``: who is not
    here, and why.
    """

    ident: str
    task: str
    label: str
    title: str
    ends: Markup
    rows: tuple[Step, ...]
    folded: tuple[Step, ...]
    more: str
    gone: str
    keys: tuple[tuple[str, str], ...]


def ladder(ident: str, question: Question, marks: Mapping[str, str]) -> Ladder | None:
    """None where no setting has a number that counts."""
    here = [
        j for j in question.judged if j.verdict.worst and not j.setting.dead and j.verdict.rule != 4
    ]
    if not here:
        return None
    to = scale(question)
    ranked = sorted(
        here, key=lambda j: (_gain(j) is None, -(_gain(j) or 0.0), -_worst(j), j.setting.index)
    )
    steps = tuple(_step(j, to, marks[j.setting.family]) for j in ranked)
    left = [j for j in question.judged if j not in here]
    present = [a for a in DOTS if any(row_of(j, a.key) for j in here)]
    rows = [j.verdict.worst for j in here if j.verdict.worst]
    return Ladder(
        ident=ident,
        task=question.task,
        label=question.label,
        title=words(question.metric).title,
        ends=_ends(question.metric, to, [r.floor for r in rows], [r.control for r in rows]),
        rows=steps[:SHOWN],
        folded=steps[SHOWN:],
        more=_more(question.metric, ranked[SHOWN:]),
        gone=(
            f"Not here: {plural(len(left), 'setting')} without a number that counts"
            f" ({unjudged(left)})."
            if left
            else ""
        ),
        keys=tuple((a.key, a.name) for a in present),
    )


def _step(judged: Judged, to: Scale, mark: str) -> Step:
    metric, setting, worst = judged.case.metric, judged.setting, judged.verdict.worst
    assert worst  # noqa: S101 (only such are here)
    dots = [Dot(a.key, a.name, row) for a in DOTS if (row := row_of(judged, a.key))]
    paper = row_of(judged, PAPER)
    return Step(
        family=setting.family,
        name=setting.name,
        link=f"#r{setting.index}",
        icon=icon(judged, mark),
        reference=setting.reference,
        track=track(metric, to, dots),
        before=plain(metric, paper.value) if paper else "",
        after=plain(metric, worst.value),
        gain=_gained(judged),
        tone=judged.verdict.tone,
    )


def _worst(judged: Judged) -> float:
    return Side(judged.case).value(judged.verdict.worst) if judged.verdict.worst else float("-inf")


def _gain(judged: Judged) -> float | None:
    """On the scale turned so that more is more leakage; None without an attack of its paper."""
    paper = row_of(judged, PAPER)
    return None if paper is None else _worst(judged) - Side(judged.case).value(paper)


def _gained(judged: Judged) -> str:
    metric, gain, paper, worst = (
        judged.case.metric,
        _gain(judged),
        row_of(judged, PAPER),
        judged.verdict.worst,
    )
    if gain is None or paper is None or worst is None:
        return "its paper's own did not run"
    if words(metric).log:
        low, high = sorted((max(paper.value, 1e-12), max(worst.value, 1e-12)))
        return "no gain" if gain <= 0 or high / low < 1.05 else f"by a factor of {high / low:.1f}"
    return f"+{plain(metric, gain)}" if gain >= 0.5 * 10 ** -words(metric).decimals else "no gain"


def _more(metric: str, rest: Sequence[Judged]) -> str:
    if not rest:
        return ""
    gains = [g for j in rest if (g := _gain(j)) is not None]
    text = f"{len(rest)} more"
    if not gains or words(metric).log:
        return text
    most = max(gains)
    return (
        f"{text}, each gains at most {plain(metric, most)}"
        if most >= 0.5 * 10 ** -words(metric).decimals
        else f"{text}, without gain"
    )


def _ends(metric: str, to: Scale, floors: Sequence[float], controls: Sequence[float]) -> Markup:
    """The scale's two marks with their names, above the tracks."""
    out = []
    for values, name in ((floors, "blind guess"), (controls, "nothing defended")):
        x = to(values[0])
        anchor = "start" if x < 50 else "end"
        out.append(
            tag("text", _range(name, metric, values), x=percent(x), y=11, text_anchor=anchor)
        )
    return tag("svg", *out, class_="ends", width="100%", height=15, aria_hidden="true")


def _range(name: str, metric: str, values: Sequence[float]) -> str:
    low, high = plain(metric, min(values)), plain(metric, max(values))
    return (
        f"{name} {low}"
        if low == high
        else f"{name} {low.removesuffix(words(metric).suffix)} to {high}"
    )
