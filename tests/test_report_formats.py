"""The forms that machines read: CSV always, JSON with the same numbers."""

import csv
import json
from dataclasses import replace

import pytest
from report_data import report_data as report

from leakbench import registry
from leakbench.columns import TABLES
from leakbench.errors import UsageError


def whole():
    """The made-up report with every column of every table."""
    data = report()
    return replace(
        data, **{name: [{c: row.get(c, "") for c in columns} for row in getattr(data, name)] for name, columns in TABLES.items()}
    )


@pytest.fixture
def written(tmp_path):
    data = whole()
    for name in ("csv", "json"):
        for path in registry.load("reports", name).build({}, name).write(data, tmp_path):
            assert path.is_file()
    return data, tmp_path


def test_csv_and_json_hold_the_same_tables(written):
    data, out = written
    found = json.loads((out / "report.json").read_text(), parse_constant=lambda c: pytest.fail(f"{c} in report.json"))
    for name, columns in TABLES.items():
        with (out / f"{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(found[name]) == len(getattr(data, name))
        for row, same in zip(rows, found[name], strict=True):
            assert list(row) == list(columns)
            assert {c: row[c] for c in columns} == {c: text(same[c]) for c in columns}
    assert len(found["tradeoff"]) > 5


def text(value):
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)


def test_report_json_says_what_it_is_and_hides_no_hash_lists(written):
    data, out = written
    found = json.loads((out / "report.json").read_text())
    assert (found["schema"], found["title"], found["redacted"]) == (1, data.title, False)
    assert found["made"]["version"] == data.version
    assert not any("files" in run for run in found["runs"])


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UsageError, match="cannot write"):
        registry.load("reports", "json").build({}, "json").write(report(), tmp_path / "taken")
