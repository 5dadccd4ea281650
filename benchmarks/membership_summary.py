"""Of docs/findings.md the part on members: each method's strongest attack, from results/membership.

The tables are made by benchmarks/membership.py. The strongest attack is the one of the largest AUC;
as it is the largest of several, it is somewhat too large where all say little.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

Cells = Mapping[str, str]
AUC, FOUND = "membership_auc", "membership_tpr"
# By columns of benchmarks/membership.py: what is read.
READ = {
    **dict.fromkeys(("cosine", "loss", "span", "likelihood"), "updates of all rounds"),
    **dict.fromkeys(("lira", "rmia"), "the final model"),
    "own rmia": "each client's own model",
    **dict.fromkeys(("nearest", "tracing"), "what it shares of examples"),
}
HEAD = """\
## Was this example trained on?

Of each client's own examples some were held out, and every attack ranks its members among them: by
the updates of all rounds, by the final model beside shadow federations, and by what a method shares
of examples (the server sees all of it, and nothing is hidden). *AUC* is one half where nothing is
told; *found* is the share of members that are named with one false alarm in a hundred, of which a
blind guess names 0.01. Intervals of 95 %, over clients and seeds. A method whose interval reaches
one half has not been shown to hide anything: it was asked with a few hundred examples.
"""


def summary(folder: Path) -> list[str]:
    """Lines of Markdown; none where there is no table."""
    out = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        seeds = max((int(r["seeds"]) for r in rows), default=0)
        out += [f"### `{path.stem}`, {seeds} {'seed' if seeds == 1 else 'seeds'}", ""]
        out += [*table(rows), "", *sentences(rows), ""]
        out += [f"All attacks: [{path.stem}.md](../results/membership/{path.stem}.md).", ""]
    return [HEAD, *out] if out else []


def table(rows: Sequence[Cells]) -> list[str]:
    """A line for each method and split."""
    out = ["| method | clients hold | utility | AUC | by | reads | found |", "|" + "---|" * 7]
    for place, one in strongest(rows).items():
        mine = [r for r in rows if (r["method"], r["clients_hold"]) == place]
        end = next(float(r["value"]) for r in mine if not r["attack"])
        found = [r for r in mine if r["metric"] == FOUND]
        most = max(found, key=lambda r: float(r["value"]))
        by = f"{cell(most)} (`{most['attack']}`)"
        told = [*place, f"{end:.2f}", cell(one), f"`{one['attack']}`", READ[one["attack"]], by]
        out.append(f"| {' | '.join(told)} |")
    return out


def strongest(rows: Sequence[Cells]) -> dict[tuple[str, str], Cells]:
    """Of each method and split the attack of the largest AUC."""
    out: dict[tuple[str, str], Cells] = {}
    for r in (r for r in rows if r["metric"] == AUC):
        place = r["method"], r["clients_hold"]
        if place not in out or float(r["value"]) > float(out[place]["value"]):
            out[place] = r
    return out


def sentences(rows: Sequence[Cells]) -> list[str]:
    """How many methods tell members, and by what: the first below is the strongest that does."""
    best = strongest(rows)
    told = {place: mine[0] for place in best if (mine := telling(rows, place))}
    by = Counter(READ[r["attack"]] for r in told.values())
    how = ", ".join(f"{n} by {read}" for read, n in by.most_common())
    out = [f"Of {len(best)} cases {len(told)} tell members beyond a blind guess: {how or 'none'}."]
    silent = [f"{m} ({s})" for m, s in best if (m, s) not in told]
    return [*out, f"Not shown to: {', '.join(silent)}."] if silent else out


def telling(rows: Sequence[Cells], place: tuple[str, str]) -> list[Cells]:
    """The numbers of a method and split that leave the blind guess behind, the largest AUC first.

    As many were tried, each is asked for a margin that pays for all: its interval is widened to
    what 95 % for all of them together would be.
    """
    mine = [r for r in rows if (r["method"], r["clients_hold"]) == place and r["attack"]]
    normal = NormalDist()
    wider = normal.inv_cdf(1 - 0.025 / max(len(mine), 1)) / normal.inv_cdf(0.975)
    sure = [r for r in mine if _end(r, wider) > float(r["floor"])]
    return sorted(sure, key=lambda r: (r["metric"] == AUC, float(r["value"])), reverse=True)


def _end(r: Cells, wider: float) -> float:
    """The lower end of an interval ``wider`` times as wide."""
    return float(r["value"]) - wider * (float(r["value"]) - float(r["low"]))


def cell(row: Cells) -> str:
    """A number and its interval."""
    value, low, high = (float(row[k]) for k in ("value", "low", "high"))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"
