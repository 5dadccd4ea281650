"""Method cards, one per family: what it says of itself, what leaves a client, its paper's number
beside ours, who is worst off.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from leakbench.judging import METHODS, Judged, Question, Setting, Side, plain, plural, words
from leakbench.reporting import About, Clients, ReportData
from leakbench.results import Row, setting_key
from leakbench.judging import real
from reports._page.clients import bars, worst_off
from reports._page.list import icon
from reports._page.records import Record
from reports._words import megabytes

MOST_CLAIMS = 12


@dataclass(frozen=True)
class Sent:
    """A kind of message that leaves a client."""

    kind: str
    path: str
    often: str
    size: str
    covered: str


@dataclass(frozen=True)
class Claimed:
    """A paper's number beside ours, by the same measure; ``best``: what the best real attacker
    reaches there.
    """

    name: str
    link: str
    measure: str
    paper: str
    ours: str
    best: str
    tone: str
    source: str


@dataclass(frozen=True)
class Worst:
    """One question's worst-off clients over the family's settings."""

    question: str
    drawing: Markup
    text: str


@dataclass(frozen=True)
class Card:
    """``about``: the method's own words; ``read``: (attack, its own words) of what
    reads it best.
    """

    family: str
    name: str
    icon: Markup
    about: About
    read: tuple[str, About] | None
    sent: tuple[Sent, ...]
    claims: tuple[Claimed, ...]
    more_claims: int
    worst: tuple[Worst, ...]
    records: tuple[Record, ...]


def cards(
    data: ReportData,
    questions: Sequence[Question],
    records: Sequence[Record],
    marks: Mapping[str, str],
) -> list[Card]:
    """In the order of the settings; ``records``: one per setting."""
    out = []
    for family in dict.fromkeys(r.setting.family for r in records):
        mine = tuple(r for r in records if r.setting.family == family)
        judged = [
            j
            for q in questions
            for j in q.judged
            if j.setting.family == family and q.stage == "final"
        ]
        claims = _claims(data, [r.setting for r in mine], judged)
        out.append(
            Card(
                family=family,
                name=METHODS.get(family, family),
                icon=icon(None, marks[family]),
                about=data.about.get(f"defenses/{family}", About("")),
                read=_read(data.about, judged),
                sent=tuple(_sent([r.setting for r in mine])),
                claims=tuple(claims[:MOST_CLAIMS]),
                more_claims=max(len(claims) - MOST_CLAIMS, 0),
                worst=tuple(_worst(data.clients, questions, [r.setting for r in mine])),
                records=mine,
            )
        )
    return out


def _read(about: Mapping[str, About], judged: Sequence[Judged]) -> tuple[str, About] | None:
    """The attack that most often reaches most among those that count, and what it says of itself;
    none where nothing leaked.
    """
    best = Counter[str]()
    for j in judged:
        if j.verdict.beyond_floor and j.verdict.counting and not j.setting.dead:
            best[max(j.verdict.counting, key=Side(j.case).value).attack] += 1
    found = next(iter(best.most_common(1)), None)
    if found is None or f"attacks/{found[0]}" not in about:
        return None
    return found[0].replace("_", " "), about[f"attacks/{found[0]}"]


def _sent(settings: Sequence[Setting]) -> list[Sent]:
    """What the clients of the family's settings send, one line per kind and path."""
    found: dict[tuple[str, str], list[tuple[Row, Row, Setting]]] = defaultdict(list)
    for s in settings:
        for run in s.runs:
            back = {
                str(m["kind"]): str(m["receiver"])
                for m in run.get("sent", ())
                if m["sender"] == "server"
            }
            for m in run.get("sent", ()):
                if m["sender"] == "client":
                    found[str(m["kind"]), _path(m, back)].append((m, run, s))
    return [_line(kind, path, seen, len(settings)) for (kind, path), seen in found.items()]


def _path(message: Row, back: Mapping[str, str]) -> str:
    first = (
        "client → server"
        if message["receiver"] == "server"
        else f"client → {message['receiver']} → server"
    )
    further = {"client/*": " → every client", "client": " → clients, each its own"}.get(
        back.get(str(message["kind"]), ""), ""
    )
    return first + further


def _line(kind: str, path: str, seen: Sequence[tuple[Row, Row, Setting]], total: int) -> Sent:
    sizes = [float(m["bytes"]) / max(int(m["messages"]), 1) for m, _, _ in seen]
    low, high = megabytes(min(sizes)), megabytes(max(sizes))
    often = list(dict.fromkeys(_often(m, run) for m, run, _ in seen))
    covers: dict[str, set[str]] = defaultdict(set)
    for m, _, s in seen:
        if m.get("covered"):
            names = [
                str(w["name"])
                for w in s.wrappers
                if kind in w.get("params", {}).get("kinds", (kind,))
            ] or ["a wrapper"]
            covers[" and ".join(names)].add(s.key)
    told = [
        n if len(keys) == total else f"{n} (in {len(keys)} of {plural(total, 'setting')})"
        for n, keys in covers.items()
    ]
    return Sent(
        kind,
        path,
        "; ".join(often[:3]),
        low if low == high else f"{low} to {high}",
        ", ".join(told) or "no wrapper",
    )


def _often(message: Row, run: Row) -> str:
    rounds, total = int(message["rounds"]), int(run["spec"].get("rounds", 0))
    if rounds <= 1 < total:
        return "once"
    if rounds < total:
        return f"in {rounds} of {total} rounds"
    share = run["spec"]["defense"].get("params", {}).get("fraction", 1.0)
    return (
        f"each round it is chosen ({share:g} of the clients)"
        if isinstance(share, float) and share < 1
        else "each round"
    )


def _claims(
    data: ReportData, settings: Sequence[Setting], judged: Sequence[Judged]
) -> list[Claimed]:
    """Where its paper gives a number: leakage first, then utility."""
    by_key = {s.key: s for s in settings}
    verdicts = {(j.setting.key, j.case.metric): j for j in judged}
    out = []
    for row in data.tradeoff:
        s = by_key.get(setting_key(row))
        if s is None or row["claimed"] in ("", None) or row["stage"] not in ("final", "all"):
            continue
        best = verdicts.get((s.key, row["metric"]))
        reached = real(best) if best else None
        out.append(
            _claimed(
                row, s, row["metric"], float(row["value"]), float(row["low"]), float(row["high"])
            )
            | {
                "best": (
                    plain(row["metric"], reached.value) if reached else "none above its paper's own"
                ),
                "tone": best.verdict.tone if best and reached else "none",
            }
        )
    for row in data.utility:
        s = by_key.get(setting_key(row))
        if s is not None and row["statistic"] == "final" and row["claimed"] not in ("", None):
            made = _claimed(
                row, s, row["metric"], float(row["value"]), float(row["low"]), float(row["high"])
            )
            out.append(made | {"best": "no attack: utility", "tone": "none"})
    return [Claimed(**c) for c in out]


def _claimed(
    row: Row, s: Setting, metric: str, value: float, low: float, high: float
) -> dict[str, Any]:
    ours = (
        f"{plain(metric, value)} ({plain(metric, low).removesuffix(words(metric).suffix)} to"
        f" {plain(metric, high)})"
    )
    return {
        "name": f"{s.name}, {s.task}",
        "link": f"#r{s.index}",
        "measure": words(metric).title,
        "paper": plain(metric, float(row["claimed"])),
        "ours": ours,
        "source": str(row["claimed_source"]),
    }


def _worst(
    clients: Sequence[Clients], questions: Sequence[Question], settings: Sequence[Setting]
) -> list[Worst]:
    """Of every question whose metric counts hits: over the live settings of the task that were
    judged.
    """
    out = []
    for q in questions:
        if q.stage != "final":
            continue
        keys = {
            j.setting.key
            for j in q.judged
            if j.setting in settings and not j.setting.dead and j.verdict.judged
        }
        found = [
            c for c in clients if c.setting in keys and (c.metric, c.probe) == (q.metric, q.probe)
        ]
        if found and len({len(c.shares) for c in found}) == 1:
            share = [_mean([c.shares[i] for c in found]) for i in range(len(found[0].shares))]
            out.append(
                Worst(
                    f"{q.task}, {q.label}",
                    bars(share),
                    worst_off(share, len(found), words(q.metric).noun),
                )
            )
    return out


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
