"""verify: what was derived again of each run, a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

from leakbench.base.errors import UsageError
from leakbench.cli.console import Console, emit, emit_json, show_table
from leakbench.record.folders import find
from leakbench.verifying import Finding, Outcome

COLUMNS = {"outcome": "", "part": "part", "what": "derived again", "detail": ""}


def run_verify(names: Sequence[str], *, replay: int, console: Console, as_json: bool) -> int:
    """Check every run; 2 where anything differs, else 0: what could not be checked is listed."""
    found: dict[str, tuple[Finding, ...]] = {}
    runs = find(names)
    from leakbench.verifying import verify as _verify  # with torch

    with console.progress(len(runs)) as tell:
        for one in runs:

            def progress(done: int, total: int, what: str, name: str = one.id) -> None:
                tell(name, done, total, what)

            progress(0, 1, "verifying")
            found[str(one.path)] = _verify(one, replay=replay, progress=progress)
    outcomes = {f.outcome for items in found.values() for f in items}
    if as_json:
        emit_json({path: _rows(items) for path, items in found.items()})
    else:
        for path, items in found.items():
            _told(path, items)
    return UsageError.exit_code if "differs" in outcomes else 0


def _rows(items: Sequence[Finding]) -> list[dict[str, Any]]:
    return [f.model_dump() for f in items]


def _told(path: str, items: Sequence[Finding]) -> None:
    emit(path)
    show_table(_rows(items), COLUMNS)
    count = Counter(f.outcome for f in items)
    said = [f"{count[o]} {o}" for o in get_args(Outcome) if count[o]]
    emit(f"{', '.join(said)}.\n")
