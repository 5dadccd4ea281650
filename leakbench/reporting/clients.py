"""Which clients are worst off: how often the worst case of a metric hits each of them."""

from __future__ import annotations

import math
from collections import defaultdict

from leakbench.reporting.data import Clients
from leakbench.results.number import ANY, END, Number
from leakbench.results.settings import Setting


def clients_of(setting: Setting) -> list[Clients]:
    """One per metric that counts hits on units of clients (shares), at the end of training."""
    if not setting.runs:
        return []
    count = int(setting.one.meta.get("facts", {}).get("clients", 0))
    out = []
    for n in setting.numbers:
        if n.attacker.name == ANY and n.stage in END and n.meaning.share:
            scores = _by_client(n)
            if scores and max(scores) < count:
                means = {c: math.fsum(s) / len(s) for c, s in scores.items()}
                shares = tuple(means.get(c) for c in range(count))
                out.append(Clients(metric=n.metric, probe=n.probe, shares=shares))
    return out


def _by_client(number: Number) -> dict[int, list[float]]:
    scores: dict[int, list[float]] = defaultdict(list)
    for unit in (u for m in number.parts for u in m.units["attack"]):
        owner = unit.name.split("/")
        if owner[0] == "client" and len(owner) > 1 and owner[1].isdecimal():
            # No guess is no hit.
            scores[int(owner[1])].append(0.0 if unit.failed else unit.score)
    return scores
