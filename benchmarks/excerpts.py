"""The committed CIFAR-100 records, attacked by who knows the method: results/excerpts.csv.

An excerpt holds each client's last messages and the banks they were mixed with, and no update: what
needs more refuses, and says so.

python benchmarks/excerpts.py [RUNS [FILE]]      reads results/runs, writes results/excerpts.csv
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import leakbench
from leakbench import api
from leakbench.base.errors import UsageError
from leakbench.base.files import write_csv
from leakbench.record.columns import TABLES, Row

ROOT = Path(__file__).parents[1]
ATTACKS = (
    "prototype_leakage",
    "prototype_averaging",
    "prototype_centring",
    "prototype_unmixing",
    "prototype_from_update",
)
METRICS = ("p_leak", "recovered", "recovery_precision", "prototype_cosine")


def attacked(runs: Path) -> list[Row]:
    """The rows of tradeoff.csv of every excerpt in ``runs``; what lies there stays as it is."""
    with tempfile.TemporaryDirectory() as name:
        copies = Path(name) / "runs"
        shutil.copytree(runs, copies, ignore=shutil.ignore_patterns("attacks"))
        folders = sorted(p for p in copies.iterdir() if (p / "run.json").is_file())
        for folder in folders:
            for attack in ATTACKS:
                try:
                    leakbench.attack(folder, attack)
                except UsageError as error:
                    print(error, file=sys.stderr)
        rows = api.tables([leakbench.load(f) for f in folders]).rows("tradeoff")
    return [r for r in rows if r["metric"] in METRICS and r["attack"] in ATTACKS]


def main(words: Sequence[str]) -> int:
    """Write the table."""
    runs = Path(words[0]) if words else ROOT / "results" / "runs"
    target = Path(words[1]) if len(words) > 1 else ROOT / "results" / "excerpts.csv"
    write_csv(target, TABLES["tradeoff"], attacked(runs))
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
