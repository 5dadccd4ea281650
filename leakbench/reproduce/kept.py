"""Rows of the table that lay here before, where their runs are gone and were not asked for now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leakbench.reproduce import row
from leakbench.reproduce.plan import Planned
from leakbench.reproduce.recipe import Recipe
from leakbench.reproduce.row import Row
from leakbench.reproduce.rows import LEFT_OUT

KEPT = "from an earlier table"
_SAME = (
    *("dataset", "task", "label", "method", "params", "rounds"),
    *("measure", "metric", "attack", "attack_params"),
)


def joined(rows: Sequence[Row], path: Path, planned: Sequence[Planned]) -> list[Row]:
    """``rows``, with the earlier ones in the place of those that ``--only`` left out.

    An earlier row stays where it is of the same runs, but for their seeds: their names say every
    parameter. What no run was needed for is not kept, because it is soon made again.

    Args:
        rows: those of now.
        path: the table of before; nothing is kept where there is none.
        planned: every case, with the runs that it needs.

    Raises:
        BrokenFile: the table of before is damaged.
    """
    if not path.is_file() or not any(r.note == LEFT_OUT for r in rows):
        return list(rows)
    before = {_key(r): r for r in row.read(path) if r.runs}
    runs = {p.key: _settings(p.folders) for p in planned}
    return [_either(r, before.get(_key(r)), runs[r.label, r.dataset]) for r in rows]


def told(rows: Sequence[Row], recipe: Recipe) -> str:
    """Of kept ``rows``: how many there are, and that no figure has their curves."""
    named = "; ".join(dict.fromkeys(r.dataset for r in rows))
    text = f"leakbench: {len(rows)} rows ({named}) stand as in the table that was here."
    return text + " The figure shows no curves of theirs." * bool(recipe.figure)


def _either(now: Row, before: Row | None, runs: set[str]) -> Row:
    if now.note != LEFT_OUT or before is None or not _settings(before.runs) <= runs:
        return now
    notes = dict.fromkeys(part for part in (*before.note.split("; "), KEPT) if part)
    return before.model_copy(update={"note": "; ".join(notes)})


def _key(r: Row) -> str:
    return r.model_dump_json(include={*_SAME})


def _settings(runs: Sequence[str]) -> set[str]:
    """Names of runs without their seeds."""
    return {run.rpartition("-s")[0] for run in runs}
