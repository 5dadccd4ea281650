"""A setting on one question in one line of text, for the formats that are tables."""

from __future__ import annotations

from dataclasses import dataclass

from leakbench.questions import words
from leakbench.settings import Judged, Utility
from leakbench.verdict import Number
from leakbench.verdict_words import plain


@dataclass(frozen=True)
class Summary:
    """Cells in words: never empty, a dash or a bare zero."""

    name: str
    utility: str
    paper: str
    real: str
    worst: str
    verdict: str


def summary(judged: Judged) -> Summary:
    """The numbers of a verdict with their intervals, or the reason why there are none."""
    setting, verdict, metric = judged.setting, judged.verdict, judged.case.metric
    none = {1: f"sends no {judged.case.kind}", 2: "not attacked"}.get(verdict.rule, "")
    return Summary(
        name=setting.name + (" (reference)" if setting.reference else "") + (" (dead)" if setting.dead else ""),
        utility=utility_text(setting.utility),
        paper=none or number_text(metric, verdict.paper),
        real=none or number_text(metric, as_measured(judged)),
        worst=none or number_text(metric, verdict.worst),
        verdict=verdict.word,
    )


def utility_text(u: Utility | None) -> str:
    """As in "0.905 (0.885 to 0.925)"."""
    return "not measured" if u is None else _interval(u.metric, u.value, u.low, u.high)


def number_text(metric: str, row: Number | None) -> str:
    """As in "0.94 (0.90 to 0.97)"."""
    return "not run" if row is None else _interval(metric, row.value, row.low, row.high)


def _interval(metric: str, value: float, low: float, high: float) -> str:
    unit = words(metric).suffix
    first, a, b = (plain(metric, v).removesuffix(unit) for v in (value, low, high))
    return f"{first} ({a} to {b}){unit}"


def as_measured(judged: Judged) -> Number | None:
    """The best attacker above the paper's own, with the table's interval: the verdict reads a wider one where several were compared."""
    best = judged.verdict.reached
    if best is None or best.rung == "paper":
        return None
    rows = (*judged.case.attacks, *(r for r in (judged.case.cascade,) if r))
    return next((r for r in rows if (r.attack, r.attack_params, r.value) == (best.attack, best.attack_params, best.value)), best)
