"""Numbers of a report that another one is compared with: from run folders with their units, or from
a report's tables without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.gate.baseline import UTILITY, GateRow
from leakbench.gate.comparing import margin_of
from leakbench.gate.rows import gate_rows
from leakbench.judging.questions import better
from leakbench.judging.verdict import margin
from leakbench.record import columns
from leakbench.record.folders import Run, find, read_table
from leakbench.results.keys import Row, row_key, setting_key


@dataclass(frozen=True)
class Side:
    """One number of one report.

    ``row``: the columns that name it. ``worse``: the direction that counts against the method.
    ``about``: what has to agree for two numbers to be like with like. ``gate``: the same with its
    unit scores, where the runs are there.
    """

    row: Row
    rung: str
    worse: str
    value: float
    low: float
    high: float
    n: int | None
    unit: str
    seeds: tuple[int, ...]
    flags: frozenset[str]
    margin: float | None
    made: str
    about: dict[str, Any] = field(default_factory=dict)
    gate: GateRow | None = None

    @property
    def key(self) -> str:
        """Its ``row_key``."""
        return row_key(self.row)


def of_runs(runs: Sequence[Run]) -> list[Side]:
    """Every number of run folders."""
    return [_of_gate(r) for r in gate_rows(list(runs))]


def of_folder(folder: Path) -> list[Side]:
    """Every number of a report folder, or of a folder of runs.

    Raises:
        UsageError: it is neither.
        BrokenFile: a table is damaged.
    """
    if (folder / "tradeoff.csv").is_file() and not (folder / "run.json").is_file():
        return _of_tables(folder)
    try:
        return of_runs(find([folder]))
    except UsageError as error:
        if type(error) is not UsageError:  # a damaged file says so itself
            raise
        raise UsageError(
            f"--against {folder}: expected a report folder (with tradeoff.csv) or run folders."
            f" {error}"
        ) from None


def _of_gate(row: GateRow) -> Side:
    named = {
        c: getattr(row, c)
        for c in (
            "task",
            "defense",
            "defense_params",
            "wrappers",
            "attack",
            "attack_params",
            "metric",
            "stage",
        )
    }
    return Side(
        row={**named, "probe": row.probe},
        rung=row.rung,
        worse=row.worse,
        value=row.value,
        low=row.low,
        high=row.high,
        n=sum(map(len, row.scores.values())),
        unit=row.unit,
        seeds=tuple(row.scores),
        flags=frozenset(row.flags),
        margin=margin_of(row),
        made=_made(row.provenance.get("commit", [])),
        about={
            "engine": row.engine,
            "dtype": row.dtype,
            "number of rounds": row.setting.get("rounds"),
        },
        gate=row,
    )


def _of_tables(folder: Path) -> list[Side]:
    """Of tradeoff.csv and the final lines of utility.csv; what they were run on stands in
    results.csv.
    """
    trade, results, utility = (
        read_table(folder / f"{t}.csv", columns.TABLES[t])
        for t in ("tradeoff", "results", "utility")
    )
    ran: dict[str, list[Row]] = {}
    for r in results:
        ran.setdefault(row_key(r), []).append(r)
    of_setting: dict[str, list[Row]] = {}
    for r in results:
        of_setting.setdefault(setting_key(r), []).append(r)
    rounds = {setting_key(u): int(u["rounds"]) for u in utility}
    out = [
        _of_row(
            r,
            r["attack"],
            r["rung"],
            r["leaks"],
            r["unit"],
            ran.get(row_key(r), []),
            rounds.get(setting_key(r)),
        )
        for r in trade
    ]
    for u in utility:
        if u["statistic"] == "final":
            named = {
                **u,
                "attack": UTILITY,
                "attack_params": "{}",
                "stage": "final",
                "probe": False,
            }
            worse = "down" if better(u["metric"]) == "up" else "up"
            out.append(
                _of_row(
                    named,
                    UTILITY,
                    "",
                    worse,
                    "test unit",
                    of_setting.get(setting_key(u), []),
                    int(u["rounds"]),
                )
            )
    return out


def _of_row(
    row: Row, attack: str, rung: str, worse: str, unit: str, ran: Sequence[Row], rounds: int | None
) -> Side:
    about: dict[str, Any] = {"number of rounds": rounds} if rounds is not None else {}
    about |= {c: "|".join(sorted({str(r[c]) for r in ran})) for c in ("engine", "dtype") if ran}
    return Side(
        row={
            c: row[c]
            for c in (
                "task",
                "defense",
                "defense_params",
                "wrappers",
                "attack_params",
                "metric",
                "stage",
                "probe",
            )
        }
        | {"attack": attack},
        rung=rung,
        worse=worse,
        value=float(row["value"]),
        low=float(row["low"]),
        high=float(row["high"]),
        n=int(row["n"]),
        unit=unit,
        seeds=tuple(int(s) for s in str(row["seeds"]).split("|") if s),
        flags=frozenset(f for f in str(row["flags"]).split("|") if f),
        margin=margin(row["metric"]),
        made=_made([str(r["commit"]) for r in ran]),
        about=about,
    )


def _made(commits: Sequence[str]) -> str:
    known = sorted({c[:12] for c in commits if c})
    return ", ".join(known) if known else "an unrecorded commit"
