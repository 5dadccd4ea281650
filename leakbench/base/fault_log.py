"""What is said of a fault of leakbench itself, and the file that its traceback is written to."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path


def fault_reported(what: str, trace: str, own: Sequence[str] = ()) -> str:
    """A sentence: ``what`` was raised, and where its traceback lies.

    The traceback itself where there is no room for a file. ``own``: the files of somebody's own
    that were imported, of which one may have given leakbench what it did not ask for.
    """
    unless = f", unless {' and '.join(own)} gave it something that was not asked for" if own else ""
    said = f"a fault of leakbench itself{unless}: {what}; please report it with"
    try:
        log = Path(tempfile.mkstemp(prefix="leakbench-", suffix=".log")[1])
        log.write_text(trace, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return f"{said} this: {trace}"
    return f"{said} the log {log}."
