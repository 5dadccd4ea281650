"""The record of a setting.

What was found on every question, by whom, on which clients, and the commands that make it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from leakbench.attacking import TITLE
from leakbench.base import addresses
from leakbench.judging import WORST, Judged, Question, row_of
from leakbench.reporting import ReportData, ShownSetting
from leakbench.results import CASCADE, Number
from leakbench.words import ATTACKERS, ORACLES, plural
from reports._chart.scale import AxisScale
from reports._chart.track import Dot, scale, track
from reports._page.clients import differ, strip, worst_off
from reports._page.units import Units, units_of
from reports._words import NOT_RECORDED, claim, claimed, interval, several, span

# How what is made of other attacks stands in the list of rungs.
MADE_HOW = {CASCADE: "as above, picked by its own check", WORST: "the truth picks the attack"}
PROOF = (("engine", "engine"), ("device", "device"), ("number format", "dtype"), ("commit",) * 2)


# With more settings than this a record says its numbers and does not draw them, too, and leaves its
# commands to the list of all: both stand elsewhere in the page, and would be a tenth of it.
DRAWN = 100
FEW = 4  # attacks in a line
# A question, the scale of its drawings, and each setting's units.
Asked = tuple[Question, AxisScale | None, Mapping[int, Units]]


@dataclass(frozen=True)
class Rung:
    """An attacker's line in a record; ``track``: its drawing, empty where there are many."""

    name: str
    about: str
    track: Markup
    value: str
    span: str


@dataclass(frozen=True)
class Said:
    """What was found on one question."""

    label: str
    tone: str
    sentence: str
    measure: str = ""
    rungs: tuple[Rung, ...] = ()
    ends: str = ""
    claim: str = ""  # the paper's number beside ours, empty where it has none
    strip: str = ""
    clients: str = ""
    units: Units = ()


@dataclass(frozen=True)
class Record:
    """Everything about one setting."""

    setting: ShownSetting
    address: str  # what stands behind # in a link to it
    word: str
    tone: str
    utility: str
    claim: str
    said: tuple[Said, ...]
    params: str
    command: str
    attacks: tuple[str, ...]
    proof: tuple[tuple[str, str], ...]  # (what, value) of its provenance
    whole: bool  # one of few: with drawings and commands
    standard: str  # how much of the standard ensemble was made; "" where that cannot be told


def records(data: ReportData) -> list[Record]:
    """One per setting, in their order."""
    asked: list[Asked] = []
    units = units_of(data.questions)
    for i, question in enumerate(data.questions):
        own = {setting: found for (place, setting), found in units.items() if place == i}
        for q in (question, *question.heard):
            attacked = any(j.verdict.worst for j in q.judged)
            asked.append((q, scale(q) if attacked else None, {} if q.listener else own))
    at = addresses([("setting", s.task, s.name) for s in data.settings])
    draw = len(data.settings) <= DRAWN
    return [_record(s, asked, where, draw=draw) for s, where in zip(data.settings, at, strict=True)]


def _record(setting: ShownSetting, asked: Sequence[Asked], address: str, *, draw: bool) -> Record:
    found = []
    for q, to, units in asked:
        mine = [j for j in q.judged if j.setting.index == setting.index]
        found += [(q, to, j, units.get(setting.index, ())) for j in mine]
    verdict = found[0][2].verdict if found else None
    final = setting.final
    shown = dict(setting.configuration.params)
    for w in setting.configuration.wrappers:
        shown |= {f"{w['name']}.{k}": v for k, v in w.get("params", {}).items()}
    return Record(
        setting=setting,
        address=address,
        word=verdict.word if verdict else "not attacked",
        tone=verdict.tone if verdict else "none",
        utility=utility_text(setting),
        claim=claim(final.meaning, final.claim) if final and final.claim else "",
        said=tuple(_said(setting, found, draw=draw)),
        params=", ".join(f"{k} = {v}" for k, v in shown.items()) or "no parameters",
        command=setting.command or NOT_RECORDED,
        attacks=tuple(dict.fromkeys(n.command for n in setting.numbers if n.command)),
        proof=tuple(_proof(setting)),
        whole=draw,
        standard=_standard(setting),
    )


def _standard(setting: ShownSetting) -> str:
    """How much of the standard ensemble was made."""
    if setting.lacks is None:
        return ""
    if not setting.lacks:
        return f"{TITLE} was made in full on all that the record holds."
    lacking = dict.fromkeys(one.attack.replace("_", " ") for one in setting.lacks)
    return f"Of {TITLE} lack settings of {several(list(lacking), FEW)}."


def _said(
    setting: ShownSetting,
    found: Sequence[tuple[Question, AxisScale | None, Judged, Units]],
    *,
    draw: bool,
) -> list[Said]:
    """One per question; of the time before training ended only what differs from its end."""
    out: list[Said] = []
    end: dict[tuple[str, bool], str] = {}
    for q, to, judged, units in found:
        at, verdict = (q.topic.name, q.probe), judged.verdict
        said = Said(q.label, verdict.tone, judged.sentence)
        if q.listener:  # its numbers stand by its own charts
            out.append(said)
        elif q.stage == "final":
            end[at] = verdict.word
            measured = _measured(setting, q, judged, to, draw=draw)
            out.append(replace(said, **measured, units=units))
        elif end.get(at) != verdict.word:
            out.append(said)
    return out


def _measured(
    setting: ShownSetting, question: Question, judged: Judged, to: AxisScale | None, *, draw: bool
) -> dict[str, Any]:
    """Who reached what, and on which clients."""
    out: dict[str, Any] = {"measure": question.meaning.heading}
    rungs = tuple(_rungs(judged, to, draw=draw)) if to is not None else ()
    if rungs:
        told = {"ends": _ends(judged, draw=draw), "claim": _claim(setting, judged)}
        out |= {"rungs": rungs, **told}
    for c in setting.clients:
        if (c.metric, c.probe) == (question.metric, question.probe):
            text = worst_off(c.shares, 1, question.meaning.noun)
            out |= {"strip": strip(c.shares) if differ(c.shares) else "", "clients": text}
    return out


def _rungs(judged: Judged, to: AxisScale, *, draw: bool) -> list[Rung]:
    """Each attacker, weakest first."""
    out = []
    for attacker in ATTACKERS:
        row = row_of(judged, attacker.key)
        if row is None:
            continue
        told = MADE_HOW.get(attacker.key, row.attacker.name.replace("_", " ") + _given(row))
        told += "".join(f"; as {who}" for who in row.attacker.observer if who != "server")
        drawn = Markup("<span></span>")
        if draw:
            drawn = track(to, [Dot(attacker.key, attacker.label, row)], bars=True)
        value = row.meaning.text(row.value.value)
        out.append(Rung(attacker.label, told, drawn, value, span(row.meaning, row.value)))
    return out


def _given(row: Number) -> str:
    given = [what for flag, what in ORACLES.items() if flag in row.flags]
    return "".join(f"; {what} given" for what in given)


def _ends(judged: Judged, *, draw: bool) -> str:
    worst = judged.verdict.worst
    assert worst  # noqa: S101 (it has rungs)
    text, noun = worst.meaning.text, worst.meaning.noun or "unit scores"
    floor, control = ("Dotted mark: b", "Solid mark: n") if draw else ("B", "N")
    return (
        f"{floor}lind guess {text(worst.floor.value)}. {control}othing defended"
        f" {text(worst.control.value)}. n = {worst.value.n} {noun} over"
        f" {plural(len(judged.setting.seeds), 'seed')}."
    )


def _claim(setting: ShownSetting, judged: Judged) -> str:
    meaning = judged.evidence.meaning
    row = claimed(setting, meaning.name)
    if row is None or row.claim is None:
        return "Its paper gives no number for this."
    ours = meaning.text(row.value.value)
    return f"Its paper: {claim(meaning, row.claim)}. Ours, by the same measure: {ours}."


def _proof(setting: ShownSetting) -> list[tuple[str, str]]:
    """Runs, how they were made, and what the numbers were scored from."""
    metas = [run.meta for run in setting.every]
    out = [("runs", ", ".join(str(m.get("id")) for m in metas) or "not recorded")]
    for name, key in PROOF:
        seen = dict.fromkeys(str(m[key]) for m in metas if m.get(key) not in (None, ""))
        out.append((name, ", ".join(seen) or "not recorded"))
    guesses: dict[str, dict[str, str]] = defaultdict(dict)
    for m in (m for n in setting.numbers for m in n.parts):
        guesses[m.run.id] |= m.guesses
    for run, found in sorted(guesses.items()):
        told = [f"{folder} {sha or 'not recorded'}" for folder, sha in sorted(found.items())]
        out.append((f"guesses of {run}, SHA-256", ", ".join(told)))
    return out


def utility_text(setting: ShownSetting) -> str:
    """As in "accuracy 0.905 (0.885 to 0.925), chance 0.100"."""
    u = setting.final
    if u is None:
        return "utility not measured"
    return f"{u.meaning.heading} {interval(u.meaning, u.value)}, chance {u.meaning.text(u.chance)}"
