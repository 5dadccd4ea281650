"""Which clients are worst off: how often the worst case of a metric hits each of them."""

from __future__ import annotations

import math
from collections import defaultdict

from leakbench.reporting.data import Clients
from leakbench.results.cascade import ANY
from leakbench.results.keys import setting_key
from leakbench.results.tables import Found


def of(found: Found) -> list[Clients]:
    """One per metric that counts hits on units of clients (shares), at the end of training."""
    count = int(found.config.one.meta.get("facts", {}).get("clients", 0))
    out = []
    for p in found.pooled:
        scores: dict[int, list[float]] = defaultdict(list)
        counted = (
            p.row["attack"] == ANY
            and p.row["stage"] in ("final", "all")
            and all(m.scale.share for m in p.seeds)
        )
        for unit in (u for m in p.seeds for u in m.units["attack"]) if counted else ():
            owner = unit.name.split("/")
            if owner[0] == "client" and len(owner) > 1 and owner[1].isdecimal():
                # No guess is no hit.
                scores[int(owner[1])].append(0.0 if unit.failed else unit.score)
        if scores and max(scores) < count:
            shares = tuple(
                math.fsum(scores[c]) / len(scores[c]) if c in scores else None for c in range(count)
            )
            out.append(
                Clients(
                    setting_key(found.config.columns), p.row["metric"], bool(p.row["probe"]), shares
                )
            )
    return out
