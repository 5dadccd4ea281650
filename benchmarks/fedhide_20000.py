"""results/fedhide-20000/small.csv and .md, of the five runs whose records are committed there.

Nothing is trained. Each record is attacked as `leakbench reproduce fedhide-20000` attacks a run. A
record is an excerpt: where it lacks what an attack reads, or holds fewer messages than the run had,
so that the attack finds less, the number is the whole run's, of README.md beside it.

python benchmarks/fedhide_20000.py [RESULTS [OUT]]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakbench.record import folders
from leakbench.reproduce import catalogue, marks, overview, plan, rows, write
from leakbench.reproduce.plan import Planned
from leakbench.reproduce.row import Measurement, Row
from leakbench.statistics.intervals import estimate
from leakbench.work import whole_run

ROOT = Path(__file__).parents[1]
NAME, SCALE = "fedhide-20000", "small"
CLIENTS, BLIND = 100, 0.01
# Of the whole runs: how many of the clients each attack named, by measure, in README.md.
NAMED = {
    "p_leak": (100, 100, 100, 55, 8),
    "p_leak_mean": (100, 100, 100, 63, 12),
    "p_leak_centred": (100, 100, 100, 56, 10),
    "p_leak_unmixed": (None, None, None, 100, 100),
    "p_leak_update": (100, 100, 100, 100, 100),
}
LABELS = ("FedAwS", "FedGN(0.1)", "FedCS(0.5)", "FedHide(0.1, 10)", "FedHide(0.01, 10)")
NOTE = "the whole run's number, from README.md beside this table: its record here is an excerpt"


def table(results: Path) -> list[Row]:
    """The rows of the recipe, without a training."""
    recipe = catalogue.find_recipe(NAME)
    planned = plan.plan(recipe, SCALE, data=False)
    with tempfile.TemporaryDirectory() as name:
        found = {p.key: attacked(p, results / NAME, Path(name)) for p in planned}
        made = rows.table_rows(recipe, SCALE, planned, found)
    ran = {r.label: r for r in made if r.measure == "utility"}
    return marks.marked(recipe, [whole(r, ran[r.label]) for r in made])


def attacked(p: Planned, records: Path, place: Path) -> rows.CaseRuns:
    """A copy of the case's record below ``place``, attacked; what lies there stays as it is."""
    (folder,) = p.folders
    shutil.copytree(records / folder, place / folder, ignore=shutil.ignore_patterns("attacks"))
    unfit, failed = whole_run.attacked(place / folder, p.attacks, "cpu", progress=lambda *_: None)
    return rows.CaseRuns((folders.load(place / folder),), (*unfit, *failed))


def whole(r: Row, ran: Row) -> Row:
    """``r`` with the whole run's number where its record gives none, or less; ``ran``: utility."""
    known = NAMED.get(r.measure)
    named = None if known is None else known[LABELS.index(r.label)]
    if named is None or (r.ours and r.ours.value >= named / CLIENTS):
        return r
    hits = [1.0] * named + [0.0] * (CLIENTS - named)
    units = [str(i) for i in range(CLIENTS)]
    ours = estimate(hits, units, share=True, low=0.0, high=1.0, unit="client")
    told: dict[str, Any] = {"ours": Measurement.of(ours), "floor": BLIND, "control": 1.0}
    # Nobody can tell any more by which code it was attacked but that it was not today's.
    told["note"] = f"{r.attack}: {NOTE}"
    return r.model_copy(update={**told, "flags": ran.flags | {"stale_attack"}})


def main(words: Sequence[str]) -> int:
    """Write the table and its page."""
    results = Path(words[0]) if words else ROOT / "results"
    out = Path(words[1]) if len(words) > 1 else results
    recipe, lines = catalogue.find_recipe(NAME), table(results)
    columns = dict.fromkeys(r.dataset for r in lines)
    said = [s for c in columns for s in overview.judged(recipe, SCALE, lines, c)]
    for path in write.write_paper_table(recipe, SCALE, lines, said, [], out):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
