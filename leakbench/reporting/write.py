"""report: run folders become tables, then whatever the report formats make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from leakbench.attacking import choices
from leakbench.base import provenance, registry
from leakbench.base.errors import UsageError
from leakbench.base.version import __version__
from leakbench.gate.baseline import GateRow
from leakbench.gate.gate import Verdict
from leakbench.gate.rows import gate_rows
from leakbench.record.folders import Run
from leakbench.reporting import about, maps, pictures, redaction
from leakbench.reporting import clients as report_clients
from leakbench.reporting import curves as report_curves
from leakbench.reporting.check import check_of
from leakbench.reporting.commands import commands
from leakbench.reporting.data import Clients, Curve, Report, ReportData
from leakbench.reporting.moved import against as moved_against
from leakbench.reporting.other import of_folder, of_runs
from leakbench.results import tables as results


def tables(
    runs: Sequence[Run], look: Callable[[results.Found], None] = lambda _: None
) -> results.Tables:
    """The five tables, with a line in `missing` for every attack that does not fit what a
    configuration shared.
    """
    known = choices.variants()  # once, not for every run
    return results.collect(
        runs, partial(choices.fitting, known=known), partial(choices.unfit, known=known), look
    )


def write(
    runs: Sequence[Run],
    out: Path,
    *,
    title: str,
    formats: Sequence[str],
    check: Verdict | None = None,
    baseline: Path | None = None,
    redact: bool = False,
    against: Path | None = None,
) -> Path:
    """Write the CSV files and every format of ``formats`` below ``out``; returns it.

    Args:
        runs: complete or not; what failed stands among what is missing.
        out: the folder. With ``redact`` what an earlier report left there is deleted.
        title: of the page.
        formats: names of `leakbench list reports`.
        check: what `check` said of these runs.
        baseline: the file that it compared with.
        redact: leave out everything that shows what a client holds.
        against: another report's folder, or a folder of runs, to say what moved.

    Raises:
        UsageError: there is no run, a format does not exist, or the folder cannot be written.
        BrokenFile: an artifact is damaged.
    """
    if not runs:
        raise UsageError("there is no run to report. Make one with leakbench train.")
    wanted = dict.fromkeys(("csv", *formats))  # the tables are always written, and first
    makers: list[Report] = [
        registry.load("reports", name).build({}, f"report {name}") for name in wanted
    ]
    # Before `out` is written: it may be the same folder.
    other = None if against is None else of_folder(against)
    curves: list[Curve] = []
    clients: list[Clients] = []

    def look(config: results.Found) -> None:
        curves.extend(report_curves.of(config))
        clients.extend(report_clients.of(config))

    found = tables(runs, look)
    commit, dirty = provenance.source()
    known = commands(runs, found.tradeoff)
    data = ReportData(
        title=title,
        version=__version__,
        commit=commit,
        dirty=dirty,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        results=found.results,
        tradeoff=found.tradeoff,
        utility=found.utility,
        missing=found.missing,
        diagnostics=found.diagnostics,
        runs=results.metas(runs),
        pictures=[] if redact else list(pictures.of_runs(runs)),
        curves=curves,
        clients=clients,
        maps=[] if redact else maps.of(runs, found.tradeoff),
        about=about.of(runs),
        guesses=about.guesses(runs),
        check=None if check is None else check_of(check, runs, known, baseline),
        against=None if other is None else moved_against(str(against), of_runs(runs), other),
        commands=known,
    )
    if redact:
        data = redaction.redact(data)
        redaction.clear(out)
    for maker in makers:
        maker.write(data, out)
    return out


def gated(runs: Iterable[Run]) -> list[GateRow]:
    """The rows that `leakbench check` compares."""
    return gate_rows(list(runs))
