"""results/fits.csv: which attacks fit each method in a committed table, by training two rounds.

python benchmarks/fits.py [RESULTS]      minutes; benchmarks/cards.py then names what was not tried
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from leakbench.reproduce import cards, fits, row

ROOT = Path(__file__).parents[1]


def main(words: Sequence[str]) -> int:
    """Write the table."""
    results = Path(words[0]) if words else ROOT / "results"
    rows = [r for path in cards.tables(results) for r in row.read(path)]
    known = {way: fits.fitting(*way) for way in fits.ways(rows)}
    fits.write(results / cards.FITS, known)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
