"""What the page's template is given: tables of words, one entry per thing shown, nothing computed in the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from leakbench.headline import Span, counts, headline, lede, others
from leakbench.questions import words
from leakbench.report import ReportData, Row, row_key, setting_key
from leakbench.settings import Judged, Question, Setting
from leakbench.verdict import Number
from leakbench.verdict_words import plain
from reports._chart import NARROW, WIDE, chart
from reports._points import glyph
from reports._svg import shape, tag
from reports._words import STAGES, attack, notes

GROUPS = (
    ("leak", "Leaks", "an attacker gets at least half"),
    ("part", "Leaks in part", "more than a blind guess"),
    ("held", "Held", "against every attack tried here"),
    ("none", "Cannot be judged", "never a sign of privacy"),
)


@dataclass(frozen=True)
class Line:
    """A setting in the list by verdict and in the summary table."""

    name: str
    link: str
    icon: Markup
    reference: bool
    utility: str
    paper: str
    real: str
    worst: str
    word: str
    tone: str
    also: str


@dataclass(frozen=True)
class Group:
    """Settings of one verdict; ``folded`` families have more than three: (icon, name, utility, worst, lines)."""

    tone: str
    word: str
    meaning: str
    count: int
    lines: tuple[Line, ...]
    folded: tuple[tuple[Markup, str, str, str, tuple[Line, ...]], ...]


@dataclass(frozen=True)
class View:
    """A question as the page shows it."""

    ident: str
    question: Question
    kicker: str
    headline: tuple[Span, ...]
    lede: tuple[Span, ...]
    bar: list[tuple[str, int, str, str]]
    wide: Markup
    narrow: Markup
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    utility: str
    meaning: str
    legend: tuple[tuple[Markup, str], ...]


def view(index: int, question: Question, every: Sequence[Question], marks: Mapping[str, str]) -> View:
    """One question's chart, list and sentences."""
    named = [(j, _line(j, question, every, marks)) for j in question.judged]
    groups = tuple(_group(t, w, m, [(j, n) for j, n in named if j.verdict.tone == t]) for t, w, m in GROUPS)
    metric = next((j.setting.utility.metric for j in question.judged if j.setting.utility), "utility")
    families = dict.fromkeys(j.setting.family for j in question.judged if j.verdict.worst)
    legend = tuple(
        (_icon(None, marks[f]), next(j.setting.name.split(" ")[0] for j in question.judged if j.setting.family == f)) for f in families
    )
    return View(
        ident=f"q{index}",
        question=question,
        kicker=_kicker(question),
        headline=headline(question),
        lede=lede(question),
        bar=counts(question),
        wide=chart(question, marks, WIDE),
        narrow=chart(question, marks, NARROW),
        groups=tuple(g for g in groups if g.count),
        lines=tuple(line for _, line in named),
        utility=words(metric).title,
        meaning=words(question.metric).meaning,
        legend=legend,
    )


def number_text(metric: str, row: Number | None) -> str:
    """A value with its interval, or why there is none."""
    return "not run" if row is None else f"{plain(metric, row.value)} ({plain(metric, row.low)} to {plain(metric, row.high)})"


def number_row(row: Row, setting: Setting, commands: Mapping[str, str]) -> dict[str, Any]:
    """A row of tradeoff.csv in words, for the table of every number."""
    metric = row["metric"]
    span: dict[str, Any] = {
        k: plain(metric, float(row[k])) for k in ("value", "low", "high", "floor", "floor_low", "floor_high", "control")
    }
    span |= {k: plain(metric, float(row[k])) for k in ("control_low", "control_high")}
    made = row["attack"] in ("cascade", "any_attack")
    command = commands.get(row_key(row)) or ("made from the attacks' units: leakbench report" if made else "command not recorded")
    return span | {
        "setting": setting,
        "attack": attack(row),
        "rung": row["rung"],
        "metric": words(metric).title,
        "when": str(STAGES.get(row["stage"], row["stage"])) + (", probe" if row["probe"] else ""),
        "n": row["n"],
        "unit": row["unit"],
        "notes": notes(str(row["flags"])),
        "claim": claim_text(metric, row),
        "command": command,
    }


def claim_text(metric: str, row: Row) -> str:
    """The paper's number with its source."""
    if row.get("claimed") in ("", None):
        return "its paper gives no number for this"
    return f"{plain(metric, float(row['claimed']))} ({row['claimed_source']})"


def records(data: ReportData, settings: Sequence[Setting], views: Sequence[View]) -> list[dict[str, Any]]:
    """One per setting: its sentence on every question, what leaves its clients, the command that made it."""
    out = []
    claims = {
        setting_key(r): claim_text(r["metric"], r) for r in data.utility if r["statistic"] == "final" and r["claimed"] not in ("", None)
    }
    again: dict[str, dict[str, None]] = {}
    for row in data.tradeoff:
        again.setdefault(setting_key(row), {})[data.commands.get(row_key(row), "")] = None
    for s in settings:
        said = []
        for v in views:
            judged = next((j for j in v.question.judged if j.setting is s), None)
            if judged:
                said.append((v.question.label, judged.verdict.tone, judged.sentence))
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


def utility_text(setting: Setting) -> str:
    """As in "accuracy 0.905 (0.885 to 0.925), chance 0.100"."""
    u = setting.utility
    if u is None:
        return "utility not measured"
    value, low, high, chance = (plain(u.metric, x) for x in (u.value, u.low, u.high, u.chance))
    return f"{words(u.metric).title} {value} ({low} to {high}), chance {chance}"


def _kicker(question: Question) -> str:
    counts = {r.get("facts", {}).get("clients") for j in question.judged for r in j.setting.runs} - {None}
    return f"{f'{counts.pop()} clients' if len(counts) == 1 else 'Clients'} {question.topic.ask}"


def _line(judged: Judged, question: Question, every: Sequence[Question], marks: Mapping[str, str]) -> Line:
    setting, verdict, metric = judged.setting, judged.verdict, question.metric
    u = setting.utility
    none = {1: f"sends no {judged.case.kind}", 2: "not attacked"}.get(verdict.rule)
    return Line(
        name=setting.name,
        link=f"#r{setting.index}",
        icon=_icon(judged, marks[setting.family]),
        reference=setting.reference,
        utility=plain(u.metric, u.value) if u else "not measured",
        paper=none or number_text(metric, verdict.paper),
        real=none or number_text(metric, verdict.reached if verdict.reached and verdict.reached.rung != "paper" else None),
        worst=none or number_text(metric, verdict.worst),
        word=verdict.word,
        tone=verdict.tone,
        also=" ".join(others(question, every, judged)),
    )


def _group(tone: str, word: str, meaning: str, members: list[tuple[Judged, Line]]) -> Group:
    families = dict.fromkeys(j.setting.family for j, _ in members)
    lines: list[Line] = []
    folded = []
    for family in families:
        mine = [(j, n) for j, n in members if j.setting.family == family]
        if len(mine) <= 3 or tone == "none":
            lines += [n for _, n in mine]
            continue
        gains = [n.utility for _, n in mine if n.utility != "not measured"]
        worst = [n.worst.split(" (")[0] for _, n in mine]
        head = f"{mine[0][0].setting.name.split(' ')[0]}: {len(mine)} settings"
        folded.append((mine[0][1].icon, head, _range(gains), _range(worst), tuple(n for _, n in mine)))
    return Group(tone, word, meaning, len(members), tuple(lines), tuple(folded))


def _range(texts: Sequence[str]) -> str:
    low, high = min(texts, default="not measured"), max(texts, default="not measured")
    return low if low == high else f"{low} to {high}"


def _icon(judged: Judged | None, mark: str) -> Markup:
    """A mark beside text; settings without a number are a grey hexagon."""
    if judged is None:
        inside = shape(mark, 8, 8, 5.5, class_="mk plain")
    elif judged.verdict.rule in (1, 2):
        inside = shape("hexagon", 8, 8, 5.0, class_="mk none")
    else:
        inside = glyph(judged, mark, 8, 8, 5.5)
    return tag("svg", inside, viewBox="0 0 16 16", class_="gl", aria_hidden="true")
