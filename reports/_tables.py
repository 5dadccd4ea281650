"""The table of every number and the record of every setting, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.judging import MADE
from leakbench.questions import words
from leakbench.report_data import ReportData, Row, params, row_key, setting_key
from leakbench.settings import Question, Setting
from leakbench.spec import canonical
from leakbench.verdict_words import plain
from reports._words import STAGES, attack, notes


def number_rows(data: ReportData, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Every row of tradeoff.csv in words, by setting; attacks that ran with several parameters show those that differ."""
    by_key = {s.key: s for s in settings}
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in data.tradeoff:
        for name, value in params(row["attack_params"]).items():
            seen[row["attack"], name].add(canonical(value))
    rows = []
    for row in data.tradeoff:
        given = {k: v for k, v in params(row["attack_params"]).items() if len(seen[row["attack"], k]) > 1}
        told = ", ".join(f"{k} = {v}" for k, v in given.items())
        rows.append(_number_row(row, by_key[setting_key(row)], data.commands) | {"given": told})
    return sorted(rows, key=lambda r: int(r["setting"].index))


def _number_row(row: Row, setting: Setting, commands: Mapping[str, str]) -> dict[str, Any]:
    metric = row["metric"]
    command = commands.get(row_key(row))
    if command is None:
        command = "made from the attacks' units: leakbench report" if row["attack"] in MADE else "command not recorded"
    return {
        "setting": setting,
        "attack": attack(row),
        "rung": row["rung"],
        "metric": words(metric).title,
        "when": str(STAGES.get(row["stage"], row["stage"])) + (", probe" if row["probe"] else ""),
        "value": plain(metric, float(row["value"])),
        "span": _span(metric, row["low"], row["high"]),
        "floor": plain(metric, float(row["floor"])),
        "floor_span": _span(metric, row["floor_low"], row["floor_high"]),
        "control": plain(metric, float(row["control"])),
        "control_span": _span(metric, row["control_low"], row["control_high"]),
        "n": row["n"],
        "unit": row["unit"],
        "notes": notes(str(row["flags"])),
        "claim": claim_text(metric, row),
        "command": command,
    }


def _span(metric: str, low: Any, high: Any) -> str:
    """An interval; one without width was not sampled."""
    if float(low) == float(high):
        return "exact"
    return f"{plain(metric, float(low)).removesuffix(words(metric).suffix)} to {plain(metric, float(high))}"


def claim_text(metric: str, row: Row) -> str:
    """The paper's number with its source."""
    if row.get("claimed") in ("", None):
        return "its paper gives no number for this"
    return f"{plain(metric, float(row['claimed']))} ({row['claimed_source']})"


def records(data: ReportData, settings: Sequence[Setting], questions: Sequence[Question]) -> list[dict[str, Any]]:
    """One per setting: its sentence on every question, what leaves its clients, the command that made it."""
    out = []
    claims = {
        setting_key(r): claim_text(r["metric"], r) for r in data.utility if r["statistic"] == "final" and r["claimed"] not in ("", None)
    }
    again: dict[str, dict[str, None]] = {}
    for row in data.tradeoff:
        again.setdefault(setting_key(row), {})[data.commands.get(row_key(row), "")] = None
    for s in settings:
        said = _said(s, questions)
        run = s.runs[0] if s.runs else {}
        train = data.commands.get(
            setting_key({"task": s.task, "defense": s.family, "defense_params": s.params, "wrappers": list(s.wrappers)})
        )
        shown = {**s.params, **{f"{w['name']}.{k}": v for w in s.wrappers for k, v in w.get("params", {}).items()}}
        out.append(
            {
                "setting": s,
                "utility": utility_text(s),
                "claim": claims.get(s.key, ""),
                "said": said,
                "sent": run.get("sent", ()),
                "params": ", ".join(f"{k} = {v}" for k, v in shown.items()) or "no parameters",
                "command": train or run.get("command") or "command not recorded",
                "attacks": [c for c in again.get(s.key, {}) if c],
            }
        )
    return out


def _said(setting: Setting, questions: Sequence[Question]) -> list[tuple[str, str, str]]:
    """(question, tone, sentence); of the time before training ended only what differs from its end."""
    out: list[tuple[str, str, str]] = []
    end: dict[tuple[str, bool], str] = {}
    for q in questions:
        judged = next((j for j in q.judged if j.setting is setting), None)
        if judged is None:
            continue
        if q.stage == "final":
            end[q.topic.name, q.probe] = judged.verdict.word
        elif end.get((q.topic.name, q.probe)) == judged.verdict.word:
            continue
        out.append((q.label, judged.verdict.tone, judged.sentence))
    return out


def utility_text(setting: Setting) -> str:
    """As in "accuracy 0.905 (0.885 to 0.925), chance 0.100"."""
    u = setting.utility
    if u is None:
        return "utility not measured"
    value, low, high, chance = (plain(u.metric, x) for x in (u.value, u.low, u.high, u.chance))
    return f"{words(u.metric).title} {value} ({low} to {high}), chance {chance}"
