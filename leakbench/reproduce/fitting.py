"""Which of our attacks fit what a method sends, told from two rounds of it on the smallest task.

As a committed table: to train them takes minutes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from leakbench.attacking import choices
from leakbench.base.files import read_csv, write_csv
from leakbench.base.spec import canonical
from leakbench.record import folders, runspec
from leakbench.record.recording import Recording
from leakbench.record.training import train_run
from leakbench.reproduce.row import Row

ROUNDS = 2  # in the first there may be nothing yet for the server to send back
COLUMNS = ("method", "params", "attack", "metrics")

Way = tuple[str, str]  # a method, and how it goes about it
Fits = Mapping[Way, Mapping[str, frozenset[str]]]  # of each its attacks, with their metrics


def way(r: Row) -> Way:
    """What decides which attacks fit: the method and its parameters that are no numbers."""
    words = {k: v for k, v in r.params.items() if isinstance(v, str | bool)}
    return r.method, canonical(words)


def ways(rows: Sequence[Row]) -> list[Way]:
    """Those that some row attacked."""
    return sorted({way(r) for r in rows if r.attack and r.ours})


def fitting_attacks(method: str, words: str) -> dict[str, frozenset[str]]:
    """The attacks that fit it in one of the settings that are run where none is named."""
    spec = runspec.make_spec(method, params=json.loads(words), rounds=ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        recording = Recording(folders.load(train_run(spec, Path(folder), device="cpu").path))
        found = [c for c in choices.variants() if not c.obstacle(recording)]
    return {c.name: _metrics(c) for c in found}


def _metrics(choice: choices.ReadyAttack) -> frozenset[str]:
    return frozenset(m.name for m in choice.attack.metrics)


def write_fits(path: Path, known: Fits) -> None:
    """Write the table.

    Raises:
        UsageError: the place cannot be written.
    """
    lines = [
        {"method": m, "params": p, "attack": name, "metrics": "|".join(sorted(metrics))}
        for (m, p), fit in known.items()
        for name, metrics in sorted(fit.items())
    ]
    write_csv(path, COLUMNS, lines)


def read_fits(path: Path) -> Fits:
    """The table; nothing where there is none.

    Raises:
        BrokenFile: a column lacks.
    """
    out: dict[Way, dict[str, frozenset[str]]] = {}
    for line in read_csv(path, COLUMNS) if path.is_file() else ():
        fit = out.setdefault((line["method"], line["params"]), {})
        fit[line["attack"]] = frozenset(line["metrics"].split("|"))
    return out
