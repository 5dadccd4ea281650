"""Numbers read aloud: counts of a whole, no percentages."""

from __future__ import annotations

import math

from leakbench.base.reason_words import reason_clause, reason_text
from leakbench.judging.evidence import Evidence
from leakbench.results.number import Number


def plural(count: int, one: str, many: str = "") -> str:
    """As in "1 client", "2 clients"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def count(value: float, whole: int) -> str:
    """A share as a count of a whole; none and all only if that is exact.

    A half goes up, as everybody rounds: to the even number would tell 0.65 as 6 of 10, and 0.75 as
    8 of 10. Half of one is fewer than one.
    """
    exact = value * whole
    slack = 1e-9  # what a product of floats lacks of a half, or has too much
    hits = 0 if exact <= 0.5 + slack else math.floor(exact + 0.5 + slack)
    if hits == 0 and value > 1e-9:
        return f"fewer than 1 of {whole}"
    if hits == whole and value < 1 - 1e-9:
        return f"more than {whole - 1} of {whole}" if whole > 1 else f"fewer than 1 of {whole}"
    return f"{hits} of {whole}"


def value_text(evidence: Evidence, row: Number, value: float, *, full: bool = False) -> str:
    """A value as the sentence says it.

    As in "94 of 100", in full "94 of 100 clients on average", or "46.2 dB".
    """
    noun = evidence.meaning.noun
    if not noun:
        return evidence.meaning.text(value)
    seeds = max(len(row.seeds), 1)
    whole = max(round(row.value.n / seeds), 1)
    text = count(value, whole)
    if not full:
        return text
    name = noun.removesuffix("s") if whole == 1 else noun
    return f"{text} {name}{' on average' if seeds > 1 else ''}"


def beyond_blind(evidence: Evidence, row: Number, *, full: bool = False) -> str:
    """A number as the sentence says it, or "no more than a blind guess" where that is as good."""
    told = value_text(evidence, row, row.value.value, full=full)
    same = told == value_text(evidence, row, row.floor.value, full=full)
    return "no more than a blind guess" if same or row.leak <= row.blind else told


def between(evidence: Evidence, row: Number, joint: str) -> str:
    """As in "90 of 100 to 97 of 100 with 95 % confidence"."""
    low, high = (value_text(evidence, row, end) for end in (row.value.low, row.value.high))
    return f"{low} {joint} {high} with 95 % confidence"


def of_clusters(row: Number) -> str:
    """What is independent in a number: "clients", where images of one client are not."""
    owners = {u.cluster for m in row.parts for u in m.units["attack"]}
    clients = all(o.startswith("client/") for o in owners)
    return "clients" if clients and owners else f"{row.meaning.unit}s"


def lacking(evidence: Evidence) -> str:
    """Why there is no number, after the verdict's word, which says the beginning."""
    one = reason_clause if evidence.state else reason_text
    return " ".join(map(one, evidence.reasons)).rstrip(".")


def by(number: Number) -> str:
    """Who attacked, as a sentence begins or goes on with it.

    "an attacker" at the server, or "an attacker who is client/9 (one of those who take part)".
    """
    clients = [o for o in number.attacker.observer if o.startswith(("client/", "clients/"))]
    if not clients or len(clients) < len(number.attacker.observer):
        return "an attacker"
    alone = all(o.startswith("client/") for o in clients)
    return f"an attacker who is {' or '.join(clients)} ({'one ' * alone}of those who take part)"
