"""The report as one JSON file: the report's own model, dumped. Its schema is in docs/formats.md."""

from __future__ import annotations

from pathlib import Path

from leakbench.base import write_json
from leakbench.reporting import Report, ReportData


class Json(Report):
    """report.json.

    Questions with their verdicts, settings with their numbers, pictures, what is missing, check.
    """

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """One file.

        Raises:
            UsageError: the folder cannot be written.
        """
        write_json(out / "report.json", data.model_dump(mode="json", by_alias=True))
        return [out / "report.json"]
