"""Seeds that are none: a run folder copied under another seed narrows an interval for nothing."""

from __future__ import annotations

from collections.abc import Sequence

from leakbench.base.errors import UsageError
from leakbench.base.tree import flat
from leakbench.record.folders import Run

# Files that differ between any two seeds of one setting, from round 1 on: something in them was
# drawn. Round 0 and what the task alone decides may be the same.
OWN = ("transcript/round-", "truth/round-", "checkpoint/model")


def no_copies(runs: Sequence[Run]) -> None:
    """No two seeds of one setting share what every seed draws for itself.

    Raises:
        UsageError: naming both runs and the file.
    """
    first: dict[tuple[str, str], Run] = {}
    for run in runs:
        for name, sha in sorted(run.meta["files"].items()):
            if not name.startswith(OWN) or "-000000." in name:
                continue
            other = first.setdefault((name, sha), run)
            if other is not run and not _empty(run, name):
                raise UsageError(
                    f"{other.path} and {run.path} are called seeds {other.seed} and {run.seed} of"
                    f" one configuration, but {name} is the same in both: one is a copy of the"
                    " other. Give one of them, and train the other seed."
                )


def _empty(run: Run, name: str) -> bool:
    """Is it the final model of a method that shares none?"""
    return name.startswith("checkpoint/") and not flat(run.tree(name)[0])
