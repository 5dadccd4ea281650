"""The six tables as CSV, the form people script against.

Always written, whatever other formats are asked for.
"""

from __future__ import annotations

from pathlib import Path

from leakbench import results
from leakbench.reporting import Report, ReportData


class Csv(Report):
    """results, tradeoff, utility, missing, diagnostics and privacy .csv, full precision."""

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """One file per table."""
        return results.write(data.tables, out)
