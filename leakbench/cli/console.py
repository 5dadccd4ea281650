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
from leakbench.cli.pace import Pace

EVERY = 60.0  # seconds between two lines where there is no terminal


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
    def progress(self, total: int, seconds: Mapping[str, float] | None = None) -> Iterator[Tell]:
        """Bars for jobs, and when all of them will have ended.

        On a terminal one bar each while it runs, else a line when a job begins and one a minute.
        ``seconds``: how long each was predicted to take, by its name.
        """
        pace = Pace(total, seconds or {})
        if self.quiet:
            yield lambda *_: None
        elif not sys.stderr.isatty():
            yield _lines(pace)
        else:
            with _bars(pace) as tell:
                yield tell


def _lines(pace: Pace) -> Tell:
    """For a log: what begins, and every minute how far the one is that spoke last."""
    told = pace.clock()

    def tell(name: str, done: int, of: int, what: str) -> None:
        nonlocal told
        before = pace.begun
        pace.heard(name, done, of)
        now = pace.clock()
        if pace.begun > before:
            # Of the first nothing is known yet but how long its imports took.
            left = pace.left if before else ""
            terminal.say(f"[{pace.begun}/{pace.total}] {name}{left}")
        elif now - told >= EVERY and done < of:
            terminal.say(f"{name}: {what}, {done} of {of}{pace.left}")
        else:
            return
        told = now

    return tell


@contextmanager
def _bars(pace: Pace) -> Iterator[Tell]:
    from rich.console import Console as Rich
    from rich.progress import BarColumn, Progress, TextColumn

    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        console=Rich(file=terminal.screen()),
    )
    rows: dict[str, Any] = {}
    with bars:
        whole = bars.add_task("all", total=1.0, count="", visible=pace.total > 1)

        def tell(name: str, done: int, of: int, what: str) -> None:
            pace.heard(name, done, of)
            if name not in rows:
                rows[name] = bars.add_task("", total=of, count="")
            left = pace.left.removeprefix(", ")
            count = f"{done}/{of}" if pace.total > 1 else f"{done}/{of}  {left}"
            told = one_line(f"{name}  {what}")
            row, visible = rows[name], done < of
            bars.update(
                row, completed=done, total=of, description=told, visible=visible, count=count
            )
            bars.update(whole, completed=pace.share, count=f"{pace.begun}/{pace.total}  {left}")

        yield tell


def emit_json(value: Any) -> None:
    """A result for machines, on stdout."""
    emit_lines(json.dumps(value, sort_keys=True, indent=1, allow_nan=False))


def show_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
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
