"""results/fitting.csv: which attacks fit each method in a committed table, by training two rounds.

python benchmarks/fitting.py [RESULTS]   minutes; then benchmarks/cards.py names what was not tried
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from leakbench.reproduce import cards, fitting

ROOT = Path(__file__).parents[1]


def main(words: Sequence[str]) -> int:
    """Write the table."""
    results = Path(words[0]) if words else ROOT / "results"
    rows = cards.committed_rows(results)
    known = {way: fitting.fitting_attacks(*way) for way in fitting.ways(rows)}
    fitting.write_fits(results / cards.FITTING, known)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
