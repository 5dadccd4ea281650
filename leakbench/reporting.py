"""report: run folders become tables, then whatever the report formats make of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import leakbench
from leakbench import pictures, provenance, registry, report_about, report_clients, report_curves, report_maps, results, work
from leakbench.baseline import GateRow
from leakbench.errors import UsageError
from leakbench.gate_rows import gate_rows
from leakbench.report_data import Check, Clients, Curve, Report, ReportData, row_key, run_setting_key
from leakbench.runs import Run


def tables(runs: Sequence[Run], look: Callable[[results.Found], None] = lambda _: None) -> results.Tables:
    """The five tables, with a line in `missing` for every attack that does not fit what a configuration shared."""
    return results.collect(runs, work.fitting, work.unfit, look)


def write(runs: Sequence[Run], out: Path, *, title: str, formats: Sequence[str], check: Any = None) -> Path:
    """Write the CSV files and every format of ``formats`` below ``out``; returns it.

    Raises:
        UsageError: there is no run, a format does not exist, or the folder cannot be written.
    """
    if not runs:
        raise UsageError("there is no run to report. Make one with leakbench train.")
    wanted = dict.fromkeys(("csv", *formats))  # the tables are always written, and first
    makers: list[Report] = [registry.load("reports", name).build({}, f"report {name}") for name in wanted]
    curves: list[Curve] = []
    clients: list[Clients] = []

    def look(config: results.Found) -> None:
        curves.extend(report_curves.of(config))
        clients.extend(report_clients.of(config))

    found = tables(runs, look)
    commit, dirty = provenance.source()
    data = ReportData(
        title=title,
        version=leakbench.__version__,
        commit=commit,
        dirty=dirty,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        results=found.results,
        tradeoff=found.tradeoff,
        utility=found.utility,
        missing=found.missing,
        diagnostics=found.diagnostics,
        runs=results.metas(runs),
        pictures=list(pictures.of_runs(runs)),
        curves=curves,
        clients=clients,
        maps=report_maps.of(runs, found.tradeoff),
        about=report_about.of(runs),
        guesses=report_about.guesses(runs),
        check=None if check is None else Check(check.exit_code, tuple(check.lines)),
        commands=_commands(runs, found.tradeoff),
    )
    for maker in makers:
        maker.write(data, out)
    return out


def gated(runs: Iterable[Run]) -> list[GateRow]:
    """The rows that `leakbench check` compares."""
    return gate_rows(list(runs))


def _commands(runs: Sequence[Run], tradeoff: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The shell command behind every setting and every number."""
    from leakbench.report_data import setting_key

    out: dict[str, str] = {}
    of: dict[str, list[Run]] = {}
    for run in runs:
        of.setdefault(run_setting_key(run.meta), []).append(run)
    for key, several in of.items():
        seeds = ",".join(str(s) for s in sorted({r.seed for r in several}))
        words = shlex.split(str(several[0].meta.get("command", "")))
        if "--seeds" in words:
            words[words.index("--seeds") + 1] = seeds
        out[key] = shlex.join(words)
    for row in tradeoff:
        several = of.get(setting_key(row), [])
        if not several or row["attack"] in ("cascade", "any_attack"):
            continue
        attacks = [a for r in several for a in r.attacks if a.name == row["attack"] and a.params == row["attack_params"]]
        if attacks:
            words = shlex.split(str(attacks[0].meta.get("command", "")))
            options = words[words.index("-a") :] if "-a" in words else ["-a", row["attack"]]
            out[row_key(row)] = shlex.join(["leakbench", "attack", *(str(r.path) for r in several), *options])
    return out
