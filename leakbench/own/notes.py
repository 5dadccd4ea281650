"""What is said of data while they are read: one line each, by one process."""

from __future__ import annotations

import multiprocessing

from leakbench.base import terminal


def note(text: str) -> None:
    """A line on stderr; none of a process that works for another, which has said it already."""
    if multiprocessing.parent_process() is None:
        terminal.say(f"leakbench: {text}")
