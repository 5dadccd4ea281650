"""Small multiples over the rounds, a row of panels per task: utility, leakage, prototypes,
correlation, exposure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import Judged, Question, Setting, better, plain, plural, setting_names, words
from leakbench.reporting import Curve, ReportData
from reports._chart.lines import ROOM, Line, lines, value_end
from reports._chart.svg import width

MOST = 8  # lines in a panel
NAMED = 4
DIAGNOSTICS = {
    "prototype_mean_cosine": (
        "Mean cosine of prototypes",
        "near 1: collapsed",
        (0.99, "dead above 0.99"),
    ),
    "prototype_distance_ratio": (
        "Distance of prototypes",
        "relative to the embeddings' own; near 0: collapsed",
        (0.01, "dead below 0.01"),
    ),
}


@dataclass(frozen=True)
class Panel:
    """``sub`` says what the drawing is of; ``gone``: which of the shown settings have no curve
    here.
    """

    title: str
    sub: str
    drawing: Markup
    gone: str


@dataclass(frozen=True)
class Rounds:
    """A task's panels; ``chosen``: which settings they show; ``none``: why there are none."""

    task: str
    panels: tuple[Panel, ...]
    chosen: str


def rounds(
    data: ReportData, settings: Sequence[Setting], questions: Sequence[Question]
) -> list[Rounds]:
    """One per task that has any curve."""
    out = []
    for task in dict.fromkeys(s.task for s in settings):
        mine = [s for s in settings if s.task == task]
        asked = [q for q in questions if q.task == task and q.stage == "final"]
        shown = _worth_it(mine, asked)
        curves = [c for c in data.curves if c.setting in {s.key for s in shown} and c.rounds]
        panels = tuple(_panels(shown, asked, curves))
        if panels:
            left = len(mine) - len(shown)
            told = (
                ""
                if left <= 0
                else (
                    f"Of {len(mine)} settings: the best trade-offs, references, a dead run, the"
                    " most useful of each family."
                )
            )
            out.append(Rounds(task, panels, told))
    return out


def _worth_it(settings: Sequence[Setting], questions: Sequence[Question]) -> list[Setting]:
    """At most ``MOST``: the front of the first question, references, one dead run, each family's
    most useful, then the rest.
    """
    judged = questions[0].judged if questions else ()
    front = [j.setting for j in judged if j.on_front]
    dead = [s for s in settings if s.dead][:1]
    top = []
    for family in dict.fromkeys(s.family for s in settings):
        live = [s for s in settings if s.family == family and not s.dead and s.utility]
        top += sorted(live, key=_useful)[:1]
    ranked = list(
        dict.fromkeys(
            [*front[: MOST // 2], *[s for s in settings if s.reference][:1], *dead, *top, *settings]
        )
    )
    return sorted(ranked[:MOST], key=lambda s: s.index)


def _useful(setting: Setting) -> float:
    u = setting.utility
    return 0.0 if u is None else -u.value if better(u.metric) == "up" else u.value


def _panels(
    shown: Sequence[Setting], questions: Sequence[Question], curves: Sequence[Curve]
) -> list[Panel]:
    # The first question's verdict wins.
    tones = {j.setting.key: j.verdict.tone for q in reversed(questions) for j in q.judged}
    out = []
    last = max((c.rounds[-1] for c in curves), default=1)
    utility = next((s.utility for s in shown if s.utility), None)
    if utility is not None:
        mine = [c for c in curves if c.name == utility.metric and not c.by]
        title = words(utility.metric).title
        level = (utility.chance, f"chance {plain(utility.metric, utility.chance)}")
        out += _panel(title[0].upper() + title[1:], "", mine, shown, tones, last, level)
    for q in questions:
        here = [c for c in curves if (c.name, c.probe) == (q.metric, q.probe) and c.by]
        tones_q = {j.setting.key: j.verdict.tone for j in q.judged}
        what = q.label[0].upper() + q.label[1:]
        for own, title in (
            (True, f"{what}, the paper's own attack"),
            (False, f"{what}, best real attack"),
        ):
            mine = [c for c in here if (c.rung == "paper") is own]
            out += (
                _panel(
                    title,
                    f"{words(q.metric).title}; {_by(mine)}",
                    mine,
                    shown,
                    tones_q,
                    last,
                    None,
                    q.judged,
                )
                if mine
                else []
            )
    for name, (title, sub, level) in DIAGNOSTICS.items():
        mine = [c for c in curves if c.name == name]
        out += _panel(title, sub, mine, shown, tones, last, level) if mine else []
    return out


def _by(curves: Sequence[Curve]) -> str:
    """Which attacks, and that a dot is one that reads all rounds at once."""
    told = list(dict.fromkeys(c.by for c in curves))
    text = ", ".join(told[:2]) + (f" and {len(told) - 2} more" if len(told) > 2 else "")
    return text + (
        "; a dot: scored once, with all rounds" if any(len(c.rounds) == 1 for c in curves) else ""
    )


def _panel(
    title: str,
    sub: str,
    curves: Sequence[Curve],
    shown: Sequence[Setting],
    tones: Mapping[str, str],
    last: int,
    level: tuple[float, str] | None,
    judged: Sequence[Judged] = (),
) -> list[Panel]:
    by_key = {c.setting: c for c in curves}
    names = _short_names(shown)
    drawn = [
        Line(by_key[s.key], names[s.key], "none" if s.dead else tones.get(s.key, "none"))
        for s in shown
        if s.key in by_key
    ]
    if not drawn:
        return []
    gone = [s for s in shown if s.key not in by_key]
    name = drawn[0].curve.name
    return [
        Panel(
            title,
            sub,
            lines(title, drawn, last, end=value_end(name), level=level),
            _gone(gone, judged),
        )
    ]


def _short_names(shown: Sequence[Setting]) -> dict[str, str]:
    """Only what sets these few apart: a margin has room for little more."""
    names: dict[str, str] = {}
    for dead in (False, True):
        rows = {
            s.key: {
                "task": s.task,
                "defense": s.family,
                "defense_params": s.params,
                "wrappers": list(s.wrappers),
            }
            for s in shown
            if s.dead is dead
        }
        names |= {
            key: f"{name} (dead)" if dead else name for key, name in setting_names(rows).items()
        }
    return {key: name if width(name) <= ROOM else _values_only(name) for key, name in names.items()}


def _values_only(name: str) -> str:
    """As in "FedMetric 1.5, proxy" for "FedMetric scale 1.5, variant proxy"."""
    family, _, told = name.partition(" ")
    return " ".join([family, ", ".join(part.split(" ", 1)[-1] for part in told.split(", "))])


def _gone(settings: Sequence[Setting], judged: Sequence[Judged]) -> str:
    if not settings:
        return ""
    words_of = {j.setting.key: j.verdict.word for j in judged}
    told = [
        (
            f"{s.name} ({words_of[s.key]})"
            if words_of.get(s.key) in ("nothing to attack", "not attacked", "attack too weak")
            else s.name
        )
        for s in settings
    ]
    rest = f" and {plural(len(told) - NAMED, 'more', 'more')}" if len(told) > NAMED else ""
    return f"No curve: {', '.join(told[:NAMED])}{rest}."
