"""A setting on one question in one line of text, for the formats that are tables."""

from __future__ import annotations

from dataclasses import dataclass

from leakbench.judging import Judged, Utility
from leakbench.judging import real
from reports._words import interval_text, number_text


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
        name=setting.name
        + (" (reference)" if setting.reference else "")
        + (" (dead)" if setting.dead else ""),
        utility=utility_text(setting.utility),
        paper=none or number_text(metric, verdict.paper),
        real=none or number_text(metric, real(judged)),
        worst=none or number_text(metric, verdict.worst),
        verdict=verdict.word,
    )


def utility_text(u: Utility | None) -> str:
    """As in "0.905 (0.885 to 0.925)"."""
    return "not measured" if u is None else interval_text(u.metric, u.value, u.low, u.high)
