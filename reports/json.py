"""The report as one JSON file: the tables, the runs behind them, the commands. Its schema is in docs/formats.md."""

from __future__ import annotations

from pathlib import Path

from leakbench.columns import TABLES
from leakbench.report_data import Report, ReportData
from leakbench.store import SCHEMA, write_json


class Json(Report):
    """report.json: what the CSV files hold, with every run.json and the commands that made each number."""

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """One file."""
        made = {"version": data.version, "commit": data.commit, "dirty": data.dirty, "at": data.made}
        check = None if data.check is None else {"exit": data.check.exit, "lines": list(data.check.lines)}
        tables = {name: [dict(row) for row in getattr(data, name)] for name in TABLES}
        # The hashes of a run's files stand in its own run.json.
        runs = [{k: v for k, v in run.items() if k != "files"} for run in data.runs]
        value = {"schema": SCHEMA, "title": data.title, "made": made, "redacted": False, "check": check, "commands": dict(data.commands)}
        write_json(out / "report.json", {**value, **tables, "runs": runs})
        return [out / "report.json"]
