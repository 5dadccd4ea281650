"""Seeds that are none: a run folder copied under another seed narrows an interval for nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from leakbench.base.errors import UsageError
from leakbench.record.folders import Run

# Files that differ between any two seeds of one setting, from round 1 on, if they hold numbers that
# are not whole: something in them was drawn. Round 0 and what the task alone decides may be the
# same, as may counts and labels.
OWN = ("transcript/round-", "truth/round-")
MODEL = "checkpoint/model.safetensors"


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
            if other is not run and _drawn(run, name):
                _new(other, run, name)
        model = _model(run)
        if model:
            _new(first.setdefault((MODEL, model), run), run, MODEL)


def _drawn(run: Run, name: str) -> bool:
    """Does a file hold any numbers that are not whole, beside the inputs behind messages?

    Of a round that is not audited those may be all that is kept, and the task alone decides them.
    """
    arrays = run.arrays(name).items()
    return any(a.size and a.dtype.kind == "f" and "/inputs/" not in key for key, a in arrays)


def _new(other: Run, run: Run, name: str) -> None:
    """Raise UsageError where two runs have the same file."""
    if other is not run:
        raise UsageError(
            f"{other.path} and {run.path} are called seeds {other.seed} and {run.seed} of one"
            f" configuration, but {name} is the same in both: one is a copy of the other. Give one"
            " of them, and train the other seed."
        )


def _model(run: Run) -> str:
    """SHA-256 of the final model's tensors, however they are packed.

    Empty where the run keeps no model, or its method shares none.
    """
    if MODEL not in run.meta["files"]:
        return ""
    arrays = run.arrays(MODEL)
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode() + array.tobytes())
    return sha.hexdigest() if arrays else ""
