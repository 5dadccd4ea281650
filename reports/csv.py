"""The five tables as CSV, the form people script against; always written, whatever other formats
are asked for.
"""

from __future__ import annotations

from pathlib import Path

from leakbench.record import TABLES
from leakbench.reporting import Report, ReportData
from leakbench.results import tables as results


class Csv(Report):
    """results.csv, tradeoff.csv, utility.csv, missing.csv and diagnostics.csv, full precision."""

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """One file per table."""
        tables = {name: [dict(row) for row in getattr(data, name)] for name in TABLES}
        return results.write(results.Tables(**tables), out)
