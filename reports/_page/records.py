"""The record of a setting: what was found on every question, by whom, on which clients, and the
commands that make it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.judging import Judged, Number, Question, Setting, plain, plural, words
from leakbench.reporting import Clients, ReportData
from leakbench.results import Row, row_key, setting_key
from leakbench.judging import ATTACKERS, row_of
from reports._page.clients import strip, worst_off
from reports._chart.scale import Scale
from reports._page.numbers import claim_text
from reports._chart.track import Dot, scale, track


@dataclass(frozen=True)
class Rung:
    """An attacker's line in a record."""

    name: str
    about: str
    track: Markup
    value: str
    span: str


@dataclass(frozen=True)
class Said:
    """What was found on one question. ``claim``: the paper's number beside ours, empty where it has
    none.
    """

    label: str
    tone: str
    sentence: str
    measure: str
    rungs: tuple[Rung, ...]
    ends: str
    claim: str
    strip: Markup
    clients: str


@dataclass(frozen=True)
class Record:
    """Everything about one setting. ``proof``: (what, value) of its provenance."""

    setting: Setting
    word: str
    tone: str
    utility: str
    claim: str
    said: tuple[Said, ...]
    params: str
    command: str
    attacks: tuple[str, ...]
    proof: tuple[tuple[str, str], ...]


def records(
    data: ReportData, settings: Sequence[Setting], questions: Sequence[Question]
) -> list[Record]:
    """One per setting, in their order."""
    claims = {
        setting_key(r): r
        for r in data.utility
        if r["statistic"] == "final" and r["claimed"] not in ("", None)
    }
    again: dict[str, dict[str, None]] = defaultdict(dict)
    claimed: dict[tuple[str, str], Row] = {}
    for row in data.tradeoff:
        again[setting_key(row)][data.commands.get(row_key(row), "")] = None
        if row["claimed"] not in ("", None) and row["stage"] in ("final", "all"):
            claimed[setting_key(row), row["metric"]] = row
    clients = {(c.setting, c.metric, c.probe): c for c in data.clients}
    scales = {id(q): scale(q) for q in questions if any(j.verdict.worst for j in q.judged)}
    out = []
    for s in settings:
        run = s.runs[0] if s.runs else {}
        said = tuple(_said(s, questions, scales, claimed, clients))
        shown = {
            **s.params,
            **{f"{w['name']}.{k}": v for w in s.wrappers for k, v in w.get("params", {}).items()},
        }
        first = next((j for q in questions for j in q.judged if j.setting is s), None)
        out.append(
            Record(
                setting=s,
                word=first.verdict.word if first else "not attacked",
                tone=first.verdict.tone if first else "none",
                utility=utility_text(s),
                claim=claim_text(claims[s.key]["metric"], claims[s.key]) if s.key in claims else "",
                said=said,
                params=", ".join(f"{k} = {v}" for k, v in shown.items()) or "no parameters",
                command=data.commands.get(s.key)
                or str(run.get("command") or "command not recorded"),
                attacks=tuple(c for c in again[s.key] if c),
                proof=tuple(_proof(s, data.guesses.get(s.key, {}))),
            )
        )
    return out


def _said(
    setting: Setting,
    questions: Sequence[Question],
    scales: Mapping[int, Scale],
    claimed: Mapping[tuple[str, str], Row],
    clients: Mapping[tuple[str, str, bool], Clients],
) -> list[Said]:
    """One per question; of the time before training ended only what differs from its end."""
    out: list[Said] = []
    end: dict[tuple[str, bool], str] = {}
    for q in questions:
        judged = next((j for j in q.judged if j.setting is setting), None)
        if judged is None:
            continue
        if q.stage == "final":
            end[q.topic.name, q.probe] = judged.verdict.word
        elif end.get((q.topic.name, q.probe)) == judged.verdict.word:
            continue
        to = scales.get(id(q))
        rungs = tuple(_rungs(judged, q, to)) if to is not None and q.stage == "final" else ()
        hit = clients.get((setting.key, q.metric, q.probe)) if q.stage == "final" else None
        out.append(
            Said(
                label=q.label,
                tone=judged.verdict.tone,
                sentence=judged.sentence,
                measure=words(q.metric).title,
                rungs=rungs,
                ends=_ends(judged) if rungs else "",
                claim=(
                    _claim(judged, claimed.get((setting.key, q.metric)))
                    if q.stage == "final" and rungs
                    else ""
                ),
                strip=strip(hit.shares) if hit else Markup(""),
                clients=worst_off(hit.shares, 1, words(q.metric).noun) if hit else "",
            )
        )
    return out


def _rungs(judged: Judged, question: Question, to: Scale) -> list[Rung]:
    """Each attacker, weakest first."""
    metric = question.metric
    out = []
    for attacker in ATTACKERS:
        row = row_of(judged, attacker.key)
        if row is None:
            continue
        drawn = track(metric, to, [Dot(attacker.key, attacker.name, row)], bars=True)
        about = {
            "cascade": "as above, picked by its own check",
            "any_attack": "the truth picks the attack",
        }
        told = about.get(attacker.key, row.attack.replace("_", " ") + _given(row))
        unit = words(metric).suffix
        low, high = plain(metric, row.low).removesuffix(unit), plain(metric, row.high)
        out.append(
            Rung(
                attacker.name,
                told,
                drawn,
                plain(metric, row.value),
                "exact" if row.low == row.high else f"{low} to {high}",
            )
        )
    return out


def _given(row: Number) -> str:
    oracle = {"oracle_prototypes": "true prototypes given", "oracle_labels": "true labels given"}
    told = [text for flag, text in oracle.items() if flag in row.flags]
    return f"; {', '.join(told)}" if told else ""


def _ends(judged: Judged) -> str:
    worst, metric = judged.verdict.worst, judged.case.metric
    assert worst  # noqa: S101 (it has rungs)
    noun = words(metric).noun or "unit scores"
    return (
        f"Dotted mark: blind guess {plain(metric, worst.floor)}. Solid mark: nothing defended"
        f" {plain(metric, worst.control)}. n = {worst.n} {noun} over"
        f" {plural(judged.setting.seeds, 'seed')}."
    )


def _claim(judged: Judged, row: Row | None) -> str:
    if row is None:
        return "Its paper gives no number for this."
    metric = judged.case.metric
    return (
        f"Its paper: {claim_text(metric, row)}. Ours, by the same measure:"
        f" {plain(metric, float(row['value']))}."
    )


def _proof(setting: Setting, guesses: Mapping[str, str]) -> list[tuple[str, str]]:
    """Runs, how they were made, and what the numbers were scored from."""

    def seen(key: str) -> str:
        return (
            ", ".join(
                dict.fromkeys(str(r.get(key)) for r in setting.runs if r.get(key) not in (None, ""))
            )
            or "not recorded"
        )

    out = [("runs", ", ".join(str(r.get("id")) for r in setting.runs) or "not recorded")]
    out += [
        (name, seen(key))
        for name, key in (
            ("engine", "engine"),
            ("device", "device"),
            ("number format", "dtype"),
            ("commit", "commit"),
        )
    ]
    return out + [
        (f"guesses of {name}", f"SHA-256 {sha}" if sha else "not recorded")
        for name, sha in guesses.items()
    ]


def utility_text(setting: Setting) -> str:
    """As in "accuracy 0.905 (0.885 to 0.925), chance 0.100"."""
    u = setting.utility
    if u is None:
        return "utility not measured"
    value, low, high, chance = (plain(u.metric, x) for x in (u.value, u.low, u.high, u.chance))
    return f"{words(u.metric).title} {value} ({low} to {high}), chance {chance}"
