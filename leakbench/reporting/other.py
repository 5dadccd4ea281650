"""The numbers of another report: from run folders with their units, or from its tables without."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import read_json
from leakbench.base.meaning import Meaning
from leakbench.federation.utility import meanings
from leakbench.gate.row import GateRow, SeedUnits, TrainingRecord
from leakbench.gate.rows import gate_rows, leakage_row, utility_row
from leakbench.record import columns
from leakbench.record.columns import Row
from leakbench.record.folders import find, read_table
from leakbench.reporting.data import SCHEMA
from leakbench.results.cells import configuration, read_number, read_utility
from leakbench.results.number import Utility
from leakbench.results.tables import collect


def numbers_of_folder(folder: Path, metrics: Mapping[str, Meaning]) -> list[GateRow]:
    """Every number of a report folder, or of a folder of runs.

    Args:
        folder: of one or the other.
        metrics: what is known of metrics by name: a report's tables do not say all of it.

    Raises:
        UsageError: it is neither.
        BrokenFile: a table is damaged.
    """
    if (folder / "tradeoff.csv").is_file() and not (folder / "run.json").is_file():
        return _of_tables(folder, metrics)
    try:
        return gate_rows(collect(find([folder])).settings)
    except UsageError as error:
        if type(error) is not UsageError:  # a damaged file says so itself
            raise
        what = "expected a report folder (with tradeoff.csv) or run folders"
        raise UsageError(f"--against {folder}: {what}. {error}") from None


def _of_tables(folder: Path, metrics: Mapping[str, Meaning]) -> list[GateRow]:
    """Of tradeoff.csv and the final lines of utility.csv.

    What they were run on stands in results.csv.
    """
    names = ("tradeoff", "results", "utility")
    tables = {t: read_table(folder / f"{t}.csv", columns.TABLES[t]) for t in names}
    # Of our utilities a report without report.json must not be read as if more were better.
    installed = {k: m.parameters() for k, m in {**meanings(), **metrics}.items()}
    known = {**_meanings(folder), **installed}
    final: dict[str, Utility] = {}
    for line in tables["utility"]:
        if line["statistic"] == "final":
            utility = read_utility(line, _meaning(known, line["metric"], {"leaks": "up"}))
            final[utility.configuration.key] = utility
    ran: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for line in tables["results"]:
        ran[_setting(line)].append(line)
    rows = []
    for line in tables["tradeoff"]:
        key = configuration(line).key
        if key not in final:
            where = folder / "utility.csv"
            raise BrokenFile(f"{where} is damaged (a setting has no final line). Make it again.")
        n = read_number(line, _meaning(known, line["metric"], line), final[key])
        mine = [r for r in ran[_setting(line)] if r["attack"] == line["attack"]]
        rows.append(leakage_row(n, _training(n.utility, mine), _unscored(n.seeds)))
    setting_of = {configuration(line).key: _setting(line) for line in tables["utility"]}
    for key, u in final.items():
        rows.append(utility_row(u, _training(u, ran[setting_of[key]]), _unscored(u.seeds)))
    return rows


def _setting(line: Row) -> tuple[object, ...]:
    return tuple(line[c] for c in ("task", "defense", "defense_params", "wrappers"))


def _meanings(folder: Path) -> Mapping[str, object]:
    """What the report's own report.json says of its metrics; nothing where it has none."""
    path = folder / "report.json"
    content = read_json(path, SCHEMA) if path.is_file() else {}
    found = content.get("metrics", {}) if isinstance(content, dict) else None
    if not isinstance(found, dict):
        raise BrokenFile(f"{path} is damaged (it is no report). Make it again.")
    for metric in found:
        _meaning(found, metric, {"leaks": "up"})
    return found


def _meaning(known: Mapping[str, object], metric: str, line: Mapping[str, object]) -> Meaning:
    """Of a metric that the tables name; its range is not in them."""
    plain = {"low": 0.0, "high": 1.0, "unit": "unit", "share": False, "version": 1}
    try:
        return Meaning.recorded(metric, known.get(metric, {**plain, "leaks": line["leaks"]}))
    except ValueError as error:
        raise BrokenFile(f"report.json is damaged (metric {metric}: {error}).") from None


def _training(u: Utility, ran: Sequence[Row]) -> TrainingRecord:
    """As far as the tables tell."""
    return TrainingRecord(
        setting={"rounds": u.rounds},
        engine=_distinct(ran, "engine"),
        dtype=_distinct(ran, "dtype"),
        provenance={"commit": sorted({str(r["commit"]) for r in ran if r["commit"]})},
    )


def _unscored(seeds: Iterable[int]) -> SeedUnits:
    return SeedUnits(scores={seed: {} for seed in seeds})


def _distinct(ran: Sequence[Row], column: str) -> str:
    return "|".join(sorted({str(r[column]) for r in ran}))
