"""Who was trained on: how many members each attack names, at how many false alarms."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from leakbench.reporting import ReportData
from leakbench.results import Roc
from reports._chart.roc import CERTAIN, at, roc_chart
from reports._words import several

MOST = 6  # curves in a panel
NAMED = 3


@dataclass(frozen=True)
class MembersPanel:
    """One setting's curves."""

    title: str
    sub: str
    drawing: Markup
    gone: str  # the weaker attacks, which are not drawn


def members(data: ReportData) -> list[MembersPanel]:
    """A panel for each setting in which members were asked for."""
    out = []
    for s in data.settings:
        ranked = sorted(s.roc, key=lambda r: at(r, CERTAIN), reverse=True)
        if not ranked:
            continue
        shown = [(_name(r), r) for r in ranked[:MOST]]
        left = [_name(r) for r in ranked[MOST:]]
        gone = f"Not drawn, since weaker: {several(left, NAMED)}." if left else ""
        most = max(r.others for r in ranked)
        sub = f"{s.task}; {most:,} examples that nobody trained on"
        out.append(MembersPanel(s.name, sub, roc_chart(s.name, shown), gone))
    return out


def _name(r: Roc) -> str:
    """By what tells it from others: its parameters that are words."""
    words = [str(v) for v in r.attacker.params.values() if isinstance(v, str)]
    who = r.attacker.observer
    away = [] if who in ((), ("server",)) else [", ".join(who)]
    return " ".join([r.attacker.name.replace("_membership", ""), *words, *away])
