"""Who was trained on: how many members each attack names, at how many false alarms."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from leakbench.reporting import ReportData
from leakbench.results import LISTENERS, Roc
from reports._chart.roc import CERTAIN, RocLine, at, roc_chart
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
    """A panel for each setting in which members were asked for.

    An attack has one colour in all of them, and who listens one way of drawing it.
    """
    every = sorted((r for s in data.settings for r in s.roc), key=_who)
    colours = {name: i for i, name in enumerate(dict.fromkeys(map(_name, every)))}
    dashes = {who: i for i, who in enumerate(dict.fromkeys(map(_away, every)))}
    out = []
    for s in data.settings:
        ranked = sorted(s.roc, key=lambda r: at(r, CERTAIN), reverse=True)
        if not ranked:
            continue
        shown = []
        for r in ranked[:MOST]:
            look = colours[_name(r)], dashes[_away(r)]
            shown.append(RocLine(r, _full(r), *look))
        left = [_full(r) for r in ranked[MOST:]]
        gone = f"Not drawn, since weaker: {several(left, NAMED)}." if left else ""
        most = max(r.others for r in ranked)
        sub = f"{s.task}; {most:,} examples that nobody trained on"
        out.append(MembersPanel(s.name, sub, roc_chart(s.name, shown), gone))
    return out


def _who(r: Roc) -> tuple[int, str, str]:
    return LISTENERS.index(r.attacker.listener), _away(r), _name(r)


def _full(r: Roc) -> str:
    return ", ".join(part for part in (_name(r), _away(r)) if part)


def _name(r: Roc) -> str:
    """By what tells it from others: its parameters that are words."""
    given = r.attacker.params.items()
    words = [str(v) for k, v in given if isinstance(v, str) and k != "observer"]
    kind = r.attacker.name.replace("membership", "").strip("_")
    return " ".join([kind, *words]).strip() or r.attacker.name


def _away(r: Roc) -> str:
    """Who listened, where that is not the server."""
    who = r.attacker.observer
    return "" if who in ((), ("server",), ("server+",)) else ", ".join(who)
