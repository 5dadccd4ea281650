"""The strip of `leakbench check`: one sentence, then the rows that keep it from passing, the most
urgent first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakbench.base import fingerprint
from leakbench.judging import METHODS, SHORT, Setting, plural, words
from leakbench.reporting import (
    URGENT,
    Check,
    CheckRow,
    first_said,
    how_to_settle,
    moved_text,
    value_text,
)
from reports._words import attack_words

MOST = 5
# In the order of their urgency; of what is fine only the count is told.
TONES = {
    "leaks more": "leak",
    "loses utility": "leak",
    "utility lost": "leak",
    "cannot tell": "part",
    "refused": "leak",
    "new": "none",
}
STATES = (*TONES, "fine", "kept")
_LINE = re.compile(rf"^({'|'.join(STATES)})\s*(?::|\s)\s*(.*)$", re.DOTALL)
_COUNT = re.compile(r"^\d+ rows gated: (.*)$")
_MOVED = re.compile(
    r"^(\S+) -> (\S+), worse by (\S+) \[(\S+), (\S+)\], margin ([^,\s]+)(?:, )?(.*)$", re.DOTALL
)


@dataclass(frozen=True)
class StripLine:
    """A row: what is said of it, which it is, from what to what it moved, and by how much or why
    that cannot be told.
    """

    tone: str
    word: str
    where: str
    moved: str
    why: str


@dataclass(frozen=True)
class Strip:
    """The whole strip; ``more``: how many rows it leaves out."""

    tone: str
    head: str
    against: str
    lines: tuple[StripLine, ...]
    more: int


def strip(check: Check | None, settings: Sequence[Setting]) -> Strip | None:
    """What the check said, in the page's words; None if it did not run."""
    if check is None:
        return None
    tone = {0: "held", 1: "leak"}.get(check.exit, "part")
    if check.rows:
        urgent = first_said([r for r in check.rows if r.verdict in URGENT])
        lines = [_of_row(r, said) for r, said in urgent]
        return Strip(
            tone, check.heading, check.against, tuple(lines[:MOST]), max(0, len(lines) - MOST)
        )
    names = {
        f"{s.task}/{s.family}-{fingerprint([s.family, s.params, list(s.wrappers)])}": s.name
        for s in settings
    }
    found = [m.groups() for m in map(_LINE.match, check.lines) if m]
    rest = [line for line in check.lines if not _LINE.match(line) and not _COUNT.match(line)]
    told = sorted((f for f in found if f[0] in TONES), key=lambda f: list(TONES).index(f[0]))
    lines = [_line(word, text, names) for word, text in told] + [
        StripLine("none", "", line, "", "") for line in rest
    ]
    head = check.heading or _head(check, found, names)
    return Strip(tone, head, check.against, tuple(lines[:MOST]), max(0, len(lines) - MOST))


def _of_row(row: CheckRow, said: bool) -> StripLine:
    """``said``: a row before it carries the same command."""
    why = (
        moved_text(row),
        row.why.removesuffix("."),
        ": ".join(how_to_settle(row, said)).removesuffix("."),
    )
    return StripLine(
        TONES[row.verdict],
        row.verdict,
        row.row,
        value_text(row),
        ". ".join(w for w in why if w) + ".",
    )


def _head(check: Check, found: Sequence[tuple[str, ...]], names: Mapping[str, str]) -> str:
    if any("the baseline has no rows" in line for line in check.lines):
        return "Nothing is gated yet: leakbench check --update"
    states = Counter(word for word, _ in found)
    said = _counts(states)
    if check.exit == 0:
        closest = _closest([text for word, text in found if word == "fine"], names)
        return f"Check passed: all {plural(states['fine'], 'row')} fine." + (
            f" Closest: {closest}" if closest else ""
        )
    head = "Check failed (exit 1)" if check.exit == 1 else f"Check undecided (exit {check.exit})"
    return f"{head}: {said}." if said else f"{head}."


def _counts(states: Mapping[str, int]) -> str:
    """As in "2 rows leak more, 1 loses utility, 17 fine"."""
    several = {"leaks more": "leak more", "loses utility": "lose utility"}
    told = [(n, s if n == 1 else several.get(s, s)) for s in STATES if (n := states.get(s, 0))]
    return ", ".join(
        f"{n} {'' if i else 'row ' if n == 1 else 'rows '}{s}" for i, (n, s) in enumerate(told)
    )


def _closest(texts: Sequence[str], names: Mapping[str, str]) -> str:
    """The fine row that came nearest to what is allowed."""
    best: tuple[float, str] | None = None
    for text in texts:
        name, _, reason = text.partition(": ")
        if (m := _MOVED.match(reason)) and (share := float(m[3]) / (float(m[6]) or 1.0)) > (
            best[0] if best else 0.0
        ):
            best = share, f"{_where(name, names)}, {m[3]} of {m[6]} allowed."
    return best[1] if best else ""


def _line(word: str, text: str, names: Mapping[str, str]) -> StripLine:
    name, colon, reason = text.partition(": ")
    if not colon:
        return StripLine(TONES[word], word, text, "", "")
    m = _MOVED.match(reason)
    if m is None:
        return StripLine(TONES[word], word, _where(name, names), "", _sentence(reason))
    why = f"{m[3]} ({m[4]} to {m[5]}), allowed {m[6]}. {_sentence(m[7])}".strip()
    return StripLine(TONES[word], word, _where(name, names), f"{m[1]} → {m[2]}", why)


def _sentence(text: str) -> str:
    text = text.strip()
    return (
        text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")
        if text
        else ""
    )


def _where(name: str, names: Mapping[str, str]) -> str:
    """A row's name in words: "digit-pairs: FedGN σ 0.3, worst case (any attack), P_leak"; a name of
    another form as it is.
    """
    parts = name.split("/")
    if len(parts) == 4 and parts[2] == "utility":
        attack, metric = "utility", parts[3]
    elif len(parts) in (6, 7):
        attack, metric = attack_words(re.sub(r"-[0-9a-f]{8}$", "", parts[2])), parts[4]
    else:
        return name
    family = parts[1].rpartition("-")[0]
    known = names.get("/".join(parts[:2]), METHODS.get(family, parts[1]))
    probe = ", probe" if parts[-1] == "probe" else ""
    return f"{parts[0]}: {known}, {attack}, {SHORT.get(metric, words(metric).title)}{probe}"
