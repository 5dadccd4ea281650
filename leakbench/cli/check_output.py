"""Where a check's outcome goes: the terminal, JSON, files of reports, GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from leakbench.base import terminal
from leakbench.base.errors import UsageError
from leakbench.base.files import write_bytes
from leakbench.cli import check_github as github
from leakbench.cli.check_cases import Undecided, cases_of
from leakbench.cli.check_fields import check_fields
from leakbench.cli.check_junit import junit
from leakbench.cli.check_sarif import sarif
from leakbench.cli.console import Console
from leakbench.gate.outcome import CANNOT_TELL
from leakbench.reporting.check_data import Check
from leakbench.reporting.check_lines import heading, text_lines
from leakbench.reporting.check_markdown import add_check
from leakbench.reporting.markdown_text import Sheet

SUMMARY = 60_000  # bytes; GitHub takes a megabyte of all steps of a job together
LINES = 20  # of a summary, before the table of all rows


@dataclass(frozen=True)
class CheckOutputs:
    """What was asked for.

    ``as_json``: fields on stdout in place of lines; ``quiet``: only what is not fine, and the
    heading; ``verbose``: every row. ``junit``, ``summary``, ``sarif``: files. ``undecided``: what
    cannot be told fails, or is a warning and the exit code is 0.
    """

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    junit: Path | None = None
    summary: Path | None = None
    sarif: Path | None = None
    undecided: Undecided = "fail"


def show_check(check: Check, outputs: CheckOutputs, console: Console) -> None:
    """Print what a check said, and write the files that were asked for.

    In a GitHub workflow also annotations (on stderr where stdout is JSON), and the job's summary,
    unless `--summary` names another file. Everything is tried before an error is raised.

    Raises:
        UsageError: a file cannot be written.
    """
    warn, code = outputs.undecided == "warn", check.exit
    if warn and code == CANNOT_TELL:
        told = (check.rows, len(check.unfinished), check.limits)
        head = heading(code, *told, warn=True, softer=check.softer)
        check, code = check.model_copy(update={"heading": head}), 0
    _print(check, outputs, code, console)
    cases = cases_of(check, outputs.undecided)
    made: list[tuple[str, Path | None, Callable[[], bytes]]] = [
        ("--junit", outputs.junit, lambda: junit(cases)),
        ("--summary", outputs.summary, lambda: summary_bytes(check)),
        ("--sarif", outputs.sarif, lambda: sarif(cases, check.baseline, code)),
    ]
    wrong = [_write(option, path, make()) for option, path, make in made if path]
    collected = github.summary_file()
    if collected and not outputs.summary:
        _append(collected, summary_bytes(check), console)
    for sentence in filter(None, wrong):
        raise UsageError(sentence)


def summary_bytes(check: Check) -> bytes:
    """The Markdown of a job's summary."""
    sheet = Sheet(SUMMARY)
    add_check(sheet, check, LINES)
    return ("\n".join(sheet.lines) + "\n").encode()


def _print(check: Check, outputs: CheckOutputs, code: int, console: Console) -> None:
    marks = github.github_commands(check, outputs.undecided) if github.here() else []
    if outputs.as_json:
        value = check_fields(check, code)
        text = json.dumps(value, sort_keys=True, indent=1, allow_nan=False)
        terminal.emit_lines(github.harmless_json(text) if github.here() else text)
        for mark in marks:
            terminal.say(mark)
        return
    quiet = outputs.quiet or console.quiet
    verbose = (outputs.verbose or console.verbose) and not quiet
    for line in text_lines(check, quiet=quiet, verbose=verbose):
        terminal.emit(github.harmless(line) if github.here() else line)
    for mark in marks:
        terminal.emit(mark)
    terminal.emit(github.harmless(check.heading) if github.here() else check.heading)


def _write(option: str, path: Path, data: bytes) -> str:
    """Why it could not be written, or nothing."""
    try:
        write_bytes(path, data, advice=f"Give {option} another place, or make room there.")
    except UsageError as error:
        return str(error)
    return ""


def _append(path: Path, data: bytes, console: Console) -> None:
    """To what other steps wrote there; the check's outcome does not hang on it."""
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        console.warn(f"GITHUB_STEP_SUMMARY: cannot write {path}: {error.strerror or error}.")
