"""`report --redact`: a report without anything that shows what a client holds.

What is not known to be harmless is left out.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

from leakbench.base.errors import UsageError
from leakbench.base.part import Part
from leakbench.record.columns import TABLES
from leakbench.reporting.data import ReportData
from leakbench.results.settings import Setting

P = TypeVar("P", bound=Part)

# Scores, intervals, counts, names, commands, hashes of files of guesses. Clients are numbers in
# them.
KEPT = frozenset(
    (
        *("format", "title", "made", "redacted", "headline", "metrics", "tasks", "questions"),
        *("settings", "missing", "inquiries", "check", "against", "about", "tables", "command"),
    )
)
# Originals, and what attacks made of them: a good reconstruction is the private image or sound.
# Maps show true prototypes, and who holds what.
LEFT_OUT = frozenset(("images", "sounds", "maps"))
# Of a setting everything but its pictures.
OF_A_SETTING = frozenset((*Setting.model_fields, "clients", "curves", "command"))
OURS = ("index.html", "report.json", "report.md", "report.tex", *(f"{t}.csv" for t in TABLES))


def redact(data: ReportData) -> ReportData:
    """The same without what may show private data.

    A field that is not listed as harmless is emptied, too.

    Questions hold the settings as they were judged, before pictures were added.
    """
    settings = tuple(_emptied(s, OF_A_SETTING) for s in data.settings)
    kept = _emptied(data, KEPT)
    return kept.model_copy(update={"settings": settings, "redacted": True})


def _emptied(part: P, kept: Collection[str]) -> P:
    """With the defaults of all fields that are not ``kept``."""
    fields = type(part).model_fields
    gone = {k: f.get_default(call_default_factory=True) for k, f in fields.items() if k not in kept}
    return part.model_copy(update=gone)


def clear(out: Path) -> None:
    """Delete what an earlier report left in ``out``.

    It may hold pictures and sounds, and a redacted report must not lie among them.

    Raises:
        UsageError: something else is there.
    """
    if not out.is_dir():
        return
    files = sorted(p for p in out.rglob("*") if not p.is_dir() or p.is_symlink())
    for path in files:
        figure = path.parent == out / "figures" and path.suffix in (".svg", ".png", ".txt")
        sound = path.parent == out / "sounds" and path.suffix == ".wav"
        if not (figure or sound) and path.relative_to(out).as_posix() not in OURS:
            raise UsageError(
                f"--redact: {path} is no file of a report, and might hold what is to be left out."
                " Choose another folder."
            )
    for path in files:
        path.unlink()
