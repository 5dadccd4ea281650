"""How the pages of results/speed begin, and where they are written."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from processor_time import processor

from leakbench.base import provenance


def head(title: str, script: str, argv: Sequence[str], how: str) -> str:
    """The title, and what was run of which commit, on which day and processor."""
    commit, dirty = provenance.source()
    ran = " ".join([f"python benchmarks/{script}", *argv])
    state = f"commit {commit}{' with changes' if dirty else ''}, {datetime.date.today()}"
    return f"# {title}\n\n`{ran}`, {state}; {processor()}, {how}.\n"


def written(text: str, to: Path | None) -> None:
    """Printed, and written where that was asked for."""
    print(text)
    if to:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, "utf-8")
