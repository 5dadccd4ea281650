"""`leakbench submit`: score guesses that somebody else made on an export."""

from __future__ import annotations

from pathlib import Path

from leakbench.base.errors import UsageError
from leakbench.base.jobs import Outcome
from leakbench.cli.attack import show_numbers
from leakbench.cli.console import Console


def submit(name: str, guesses: Path, *, force: bool, console: Console, as_json: bool) -> int:
    """Score them into the run's folder; the table has every number at an audited stage."""
    from leakbench import api
    from leakbench.record import folders
    from leakbench.scoring import flags

    found = folders.find([name])
    if len(found) != 1:
        raise UsageError(
            f"{name} holds {len(found)} runs, and guesses are of one. Name one run folder."
        )
    made = api.submit(found[0], guesses, force=force)
    if any("no_control" in flags.split_flags(r["flags"]) for r in made.rows):
        console.warn(
            f"{made.path}: the attack that made these guesses is not the one that is installed"
            " here, so nobody ran it on the control: they may accuse, and never acquit."
        )
    show_numbers([Outcome(name, str(made.path))], as_json)
    return 0
