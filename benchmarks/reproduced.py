"""What was run of the papers' tables and figures, from the committed results.

    python benchmarks/reproduced.py

writes the flags that are known today into the tables of results/, the pages beside them as their
recipes word them today, the table of docs/reproduce.md between its two marks, and the file that
ships with leakbench, which `leakbench reproduce --list` reads where there are no results.
"""

from __future__ import annotations

import sys
from pathlib import Path

from leakbench.base.files import write_bytes
from leakbench.reproduce import history, marks, overview, row
from leakbench.reproduce.catalogue import RECIPES

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "leakbench" / "data_files" / history.SHIPPED
PAGE = ROOT / "docs" / "reproduce.md"


def main() -> int:
    """All of these files."""
    for recipe, path in overview.tables_below(ROOT / "results"):
        row.write_rows(path, marks.marked_rows(recipe, path))
    for path, text in overview.overview_pages(ROOT / "results"):
        write_bytes(path, text.encode())
    write_bytes(SHIPPED, history.packed(history.below(RECIPES.values(), ROOT / "results")).encode())
    before = PAGE.read_text(encoding="utf-8")
    write_bytes(PAGE, overview.inserted(before, ROOT / "results").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
