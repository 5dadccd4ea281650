"""docs/cards, written from the tables in results/. Nothing is run.

python benchmarks/cards.py [RESULTS [FOLDER]]      writes FOLDER, docs/cards unless given
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from leakbench.reproduce import cards

ROOT = Path(__file__).parents[1]


def main(words: Sequence[str]) -> int:
    """Write the pages."""
    results = Path(words[0]) if words else ROOT / "results"
    folder = Path(words[1]) if len(words) > 1 else ROOT / "docs" / "cards"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in cards.pages(results).items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
