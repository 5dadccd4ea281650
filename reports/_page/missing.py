"""What a reader would look for and does not find, in words: first what would fit, then the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leakbench.base import GONE, Reason, parameters_text, reason_text
from leakbench.reporting import ReportData
from leakbench.results import ANY, CASCADE, Missing
from reports._words import STAGES, several

FEW = 4  # methods in a line
NAMES = {CASCADE: "best real attacker", ANY: "worst case"}


@dataclass(frozen=True)
class Gap:
    """What is missing for one reason, of one task: "Gradient inversion of FedCS"."""

    what: str
    why: str
    task: str


@dataclass(frozen=True)
class NotHere:
    """What would fit and is missing, and attacks for which nothing is sent."""

    gaps: tuple[Gap, ...]
    unfit: tuple[Gap, ...]


def not_here(data: ReportData) -> NotHere:
    """Each reason once for all methods of a task that it concerns."""
    return NotHere(
        tuple(_gaps(data, (m for m in data.missing if m.fits))),
        tuple(_gaps(data, (m for m in data.missing if not m.fits))),
    )


def _gaps(data: ReportData, missing: Iterable[Missing]) -> list[Gap]:
    titles = {s.family: s.title for s in data.settings}
    found: dict[tuple[str, Reason, str], dict[str, None]] = {}
    for m in missing:
        base = m.configuration
        over = [str(w["name"]).replace("_", " ") for w in base.wrappers]
        whom = titles.get(base.defense, base.defense) + "".join(f" with {name}" for name in over)
        what, why = _what(data, m), m.reason
        if not what:  # what is said of a seed is not true of the others
            what, why = _seeds(why), why.model_copy(update={"seeds": ()})
        key = (base.task, why, what)
        found.setdefault(key, {})[whom] = None
    out = []
    for (task, why, what), methods in sorted(found.items(), key=lambda gap: _urgency(gap[0][1])):
        of = several(list(methods), FEW)
        out.append(Gap(f"{what[0].upper()}{what[1:]} of {of}", _said(why), task))
    return out


def _urgency(why: Reason) -> int:
    """What broke comes before what nobody ran, and that before what cannot be told."""
    if why.code in GONE - {"no_end"}:
        return 0
    return 1 if why.code == "not_run" else 2


def _what(data: ReportData, m: Missing) -> str:
    """The attack and, where it is one metric alone that lacks, that; "" of all of some seeds."""
    attack = NAMES.get(m.attack, m.attack.replace("_", " "))
    if not m.metric or m.metric == "all":
        return attack or ("" if m.reason.seeds else "every number")
    meaning = m.meaning or data.metrics.get(m.metric)
    metric = meaning.heading if meaning else m.metric.replace("_", " ")
    return f"{attack} ({metric})" if attack else metric


def _seeds(why: Reason) -> str:
    seeds = sorted(why.seeds)
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _said(why: Reason) -> str:
    """For a page, which has the command that runs an attack beside it, and no marks of code."""
    if why.code == "not_run":
        given = parameters_text(why.facts["params"])
        return f"not run with {given}" if given else "not run"
    return reason_text(why, STAGES).replace("`", "").replace("_", " ").rstrip(".")
