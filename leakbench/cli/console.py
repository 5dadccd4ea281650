"""What a person sees: progress and warnings on stderr, the result on stdout.

It is plain text where there is no terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from leakbench.base import terminal
from leakbench.base.jobs import Tell
from leakbench.base.printable_text import one_line
from leakbench.base.terminal import emit as emit
from leakbench.base.terminal import emit_lines


@dataclass(frozen=True)
class Console:
    """How much is said."""

    quiet: bool = False  # silences progress
    verbose: bool = False  # adds detail

    def say(self, text: str) -> None:
        """A line that is neither a result nor an error."""
        if not self.quiet:
            terminal.say(text)

    def detail(self, text: str) -> None:
        """A line for ``-v``."""
        if self.verbose:
            terminal.say(text)

    def warn(self, text: str) -> None:
        """A line that is always shown."""
        terminal.say(text)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """A spinner for work of which nobody knows how long it takes, on a terminal."""
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console as Rich

        with Rich(file=terminal.screen()).status(what):
            yield

    @contextmanager
    def progress(self, total: int) -> Iterator[Tell]:
        """Bars for jobs.

        On a terminal one line each while it runs, else a line when a job begins.
        """
        if self.quiet:
            yield lambda *_: None
            return
        if not sys.stderr.isatty():
            begun: set[str] = set()

            def line(name: str, done: int, of: int, what: str) -> None:
                if name not in begun:
                    begun.add(name)
                    terminal.say(f"[{len(begun)}/{total}] {name}")

            yield line
            return
        from rich.console import Console as Rich
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(),
            console=Rich(file=terminal.screen()),
        )
        rows: dict[str, Any] = {}
        with bars:

            def tell(name: str, done: int, of: int, what: str) -> None:
                if name not in rows:
                    rows[name] = bars.add_task("", total=of)
                bars.update(
                    rows[name],
                    completed=done,
                    total=of,
                    description=one_line(f"{name}  {what}"),
                    visible=done < of,
                )

            yield tell


def emit_json(value: Any) -> None:
    """A result for machines, on stdout."""
    emit_lines(json.dumps(value, sort_keys=True, indent=1, allow_nan=False))


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Rows on stdout; ``columns``: key -> heading.

    Numbers are rounded to three places here, never in a file.
    """
    lines = [list(columns.values())]
    for row in rows:
        lines.append([_cell(row[key]) for key in columns])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        emit("  ".join(padded).rstrip())


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else one_line(str(value))
