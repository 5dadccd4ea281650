"""`report --redact`: a report without anything that shows what a client holds. What is not known to
be harmless is left out.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.record.columns import TABLES
from leakbench.reporting.data import ReportData

# Scores, intervals, counts, names, commands, hashes of files of guesses. Clients are numbers in
# them.
KEPT = frozenset(
    (
        *(
            "title",
            "version",
            "commit",
            "dirty",
            "made",
            "redacted",
            "results",
            "tradeoff",
            "utility",
            "missing",
            "diagnostics",
            "runs",
        ),
        *("curves", "clients", "check", "against", "commands", "guesses", "about"),
    )
)
# Originals, and what attacks made of them: a good reconstruction is the private image. Maps show
# true prototypes, and who holds what.
LEFT_OUT = frozenset(("pictures", "maps"))
OURS = ("index.html", "report.json", "report.md", "report.tex", *(f"{t}.csv" for t in TABLES))


def redact(data: ReportData) -> ReportData:
    """The same without what may show private data; a field that is not listed as harmless is
    emptied, too.
    """
    emptied: dict[str, Any] = {}
    for f in fields(data):
        if f.name not in KEPT:
            emptied[f.name] = f.default_factory() if f.default_factory is not MISSING else f.default
    return replace(data, **emptied, redacted=True)


def clear(out: Path) -> None:
    """Delete what an earlier report left in ``out``: it may hold pictures, and a redacted report
    must not lie among them.

    Raises:
        UsageError: something else is there.
    """
    if not out.is_dir():
        return
    files = sorted(p for p in out.rglob("*") if not p.is_dir() or p.is_symlink())
    names = {p: p.relative_to(out).as_posix() for p in files}
    foreign = [
        n
        for p, n in names.items()
        if not (n in OURS or (p.parent == out / "figures" and p.suffix in (".svg", ".png", ".txt")))
    ]
    if foreign:
        raise UsageError(
            f"--redact: {out / foreign[0]} is no file of a report, and might hold what is to be"
            " left out. Choose another folder."
        )
    for path in files:
        path.unlink()
