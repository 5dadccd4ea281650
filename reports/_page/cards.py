"""Method cards, one per family.

What it says of itself, what leaves a client, its paper's number beside ours, who is worst off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from leakbench.judging import Judged, Question, most_often, real
from leakbench.reporting import About, ReportData, ShownSetting
from leakbench.results import END, Number, Utility
from leakbench.words import plural
from reports._chart.points import icon
from reports._page.clients import bars, differ, worst_off
from reports._page.recipes import recipe
from reports._page.records import Record
from reports._words import attack, interval, megabytes, several

MOST_CLAIMS = 12
MOST_READ = 3  # attacks that read a method alike
Sending = tuple[Mapping[str, Any], Mapping[str, Any], ShownSetting]  # message, its run.json
FURTHER = {"client/*": " → every client", "client": " → clients, each its own"}


@dataclass(frozen=True)
class SentLine:
    """A kind of message that leaves a client."""

    kind: str
    path: str
    often: str
    size: str
    covered: str


@dataclass(frozen=True)
class Claimed:
    """A paper's number beside ours, by the same measure."""

    name: str
    link: str
    measure: str
    paper: str
    ours: str
    best: str  # what the best real attacker reaches there
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
    """All that is said of one family."""

    family: str
    name: str
    icon: Markup
    about: About  # the method's own words
    read: str  # the attack that reads it best, or those that do so alike; "" where nothing leaked
    own: About | None  # its own words, where it is one
    sent: tuple[SentLine, ...]
    claims: tuple[Claimed, ...]
    more_claims: int
    again: str  # the command that makes its paper's numbers again, "" where no recipe does
    worst: tuple[Worst, ...]
    records: tuple[Record, ...]


def cards(data: ReportData, records: Sequence[Record], marks: Mapping[str, str]) -> list[Card]:
    """In the order of the settings; ``records``: one per setting."""
    families: dict[str, list[Record]] = defaultdict(list)
    for r in records:
        families[r.setting.family].append(r)
    final = [q for q in data.questions if q.stage == "final"]
    out = []
    for family, mine in families.items():
        settings = [r.setting for r in mine]
        judged = [j for q in final for j in q.judged if j.setting.family == family]
        claims = _claims(settings, judged)
        best = _read(final, family)
        card = Card(
            family=family,
            name=settings[0].title,
            icon=icon(None, marks[family]),
            about=data.about.get(f"defenses/{family}", About(text="")),
            read=several([name.replace("_", " ") for name in best], MOST_READ),
            own=data.about.get(f"attacks/{best[0]}") if len(best) == 1 else None,
            sent=tuple(_sent(settings)),
            claims=tuple(claims[:MOST_CLAIMS]),
            more_claims=max(len(claims) - MOST_CLAIMS, 0),
            again=recipe(family),
            worst=tuple(_worst(final, settings)),
            records=tuple(mine),
        )
        out.append(card)
    return out


def _read(questions: Sequence[Question], family: str) -> list[str]:
    """The attacks that most often reach most, equals together; none where nothing leaked.

    Of the first question on which something did: attacks on several are no rivals. Only attacks
    that count, each once with whatever parameters.
    """
    for q in questions:
        found = []
        for j in q.judged:
            counting, mine = j.verdict.counting, j.setting.family == family and not j.setting.dead
            if mine and counting and j.verdict.beyond_floor:
                most = max(n.leak for n in counting)
                found.append([n.attacker.name for n in counting if n.leak == most])
        if found:
            return most_often(found)
    return []


def _sent(settings: Sequence[ShownSetting]) -> list[SentLine]:
    """What the clients of the family's settings send, one line per kind and path."""
    found: dict[tuple[str, str], list[Sending]] = defaultdict(list)
    for setting, run in [(s, r.meta) for s in settings for r in s.every]:
        sent = run.get("sent", ())
        back = {str(m["kind"]): str(m["receiver"]) for m in sent if m["sender"] == "server"}
        for m in sent:
            if m["sender"] == "client":
                kind, to = str(m["kind"]), m["receiver"]
                first = "client → server" if to == "server" else f"client → {to} → server"
                found[kind, first + FURTHER.get(back.get(kind, ""), "")].append((m, run, setting))
    return [_line(kind, path, seen, len(settings)) for (kind, path), seen in found.items()]


def _line(kind: str, path: str, seen: Sequence[Sending], total: int) -> SentLine:
    sizes = [float(m["bytes"]) / max(int(m["messages"]), 1) for m, _, _ in seen]
    low, high = megabytes(min(sizes)), megabytes(max(sizes))
    often = dict.fromkeys(_often(m, run) for m, run, _ in seen)
    covers: dict[str, set[int]] = defaultdict(set)
    for m, _, s in seen:
        if m.get("covered"):
            covers[_covering(kind, s)].add(s.index)
    told = []
    for names, which in covers.items():
        some = f" (in {len(which)} of {plural(total, 'setting')})"
        told.append(names + some * (len(which) != total))
    return SentLine(
        kind=kind,
        path=path,
        often="; ".join(list(often)[:3]),
        size=low if low == high else f"{low} to {high}",
        covered=", ".join(told) or "no wrapper",
    )


def _covering(kind: str, setting: ShownSetting) -> str:
    """The wrappers that cover messages of a kind."""
    wrappers = setting.configuration.wrappers
    names = [str(w["name"]) for w in wrappers if kind in w.get("params", {}).get("kinds", (kind,))]
    return " and ".join(names) or "a wrapper"


def _often(message: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    rounds, total = int(message["rounds"]), int(run["spec"].get("rounds", 0))
    if rounds <= 1 < total:
        return "once"
    if rounds < total:
        return f"in {rounds} of {total} rounds"
    share = run["spec"]["defense"].get("params", {}).get("fraction", 1.0)
    if isinstance(share, float) and share < 1:
        return f"each round it is chosen ({share:g} of the clients)"
    return "each round"


def _claims(settings: Sequence[ShownSetting], judged: Sequence[Judged]) -> list[Claimed]:
    """Where its paper gives a number: leakage first, then utility."""
    verdicts = {(j.setting.index, j.evidence.meaning.name): j for j in judged}
    out = []
    for s in settings:
        for n in s.numbers:
            if n.claim and n.stage in END:
                best, tone = _best(verdicts.get((s.index, n.metric)))
                out.append(_claimed(s, n, best, tone))
    for s in settings:
        if s.final and s.final.claim:
            out.append(_claimed(s, s.final, "no attack: utility", "none"))
    return out


def _best(judged: Judged | None) -> tuple[str, str]:
    """What the best real attacker reaches, and the verdict's colour."""
    reached = real(judged) if judged else None
    if judged is None or reached is None:
        return "none above its paper's own", "none"
    who = "" if reached.attacker.made else f" by {attack(reached.attacker.name)}"
    handed = ", handed in" * ("submitted" in reached.flags)
    return f"{reached.meaning.text(reached.value.value)}{who}{handed}", judged.verdict.tone


def _claimed(setting: ShownSetting, found: Number | Utility, best: str, tone: str) -> Claimed:
    meaning, claim = found.meaning, found.claim
    assert claim  # noqa: S101 (only such are asked for)
    return Claimed(
        name=f"{setting.name}, {setting.task}",
        link=f"#{setting.id}",
        measure=meaning.heading,
        paper=meaning.text(claim.value),
        ours=interval(meaning, found.value),
        best=best,
        tone=tone,
        source=claim.source,
    )


def _worst(questions: Sequence[Question], settings: Sequence[ShownSetting]) -> list[Worst]:
    """One of every question whose metric counts hits.

    Over the live settings of the task that were judged. None where all clients are hit alike: then
    nobody is worse off.
    """
    out = []
    for q in questions:
        sure = {j.setting.index for j in q.judged if j.verdict.judged and not j.setting.dead}
        clients = [c for s in settings if s.index in sure for c in s.clients]
        found = [c for c in clients if (c.metric, c.probe) == (q.metric, q.probe)]
        if found and len({len(c.shares) for c in found}) == 1:
            by_client = zip(*[c.shares for c in found], strict=True)
            share = list(map(_mean, by_client))
            if not differ(share):
                continue
            text = worst_off(share, len(found), q.meaning.noun)
            out.append(Worst(f"{q.task}, {q.label}", bars(share), text))
    return out


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
