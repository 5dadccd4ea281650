"""Guesses that another process or another person wrote: nothing in the file is believed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from torch import Tensor

from leakbench.attacking.guess import Guess
from leakbench.attacking.guessing import Guessed
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import read_tree
from leakbench.base.printable_text import one_line
from leakbench.base.spec import Spec

LARGEST = 2 * 1024**3  # bytes of a file of guesses, as of a run's record
MOST = 1_000_000  # guesses in a file
_TENSOR = re.compile(r"[A-Za-z_][\w.-]{0,99}")
Said = Literal["loss_did_not_fall", "gradient_vanished", "below_class_mean", "restarts_disagree"]


class _Line(Spec):
    """What a file says of one guess."""

    role: Literal["attack", "floor", "control"]
    stage: Annotated[str, StringConstraints(pattern="^[a-z]{0,20}$")]
    unit: Annotated[str, StringConstraints(max_length=100)]
    round: int = Field(ge=0, le=10**9)
    probe: int | None = Field(ge=0, le=10**9)
    accepted: bool
    failed: Annotated[str, StringConstraints(max_length=1000)]
    flags: tuple[Said, ...] = Field(max_length=4)


def read_guesses(path: Path) -> tuple[list[Guessed], Any]:
    """The guesses of ``path``, each as it should be, and what else the header says.

    Raises:
        UsageError: naming what of the file is not as ``leakbench attack`` writes it.
    """
    if path.is_symlink() or not path.is_file():
        raise UsageError(f"{path} is not a file: expected guesses as leakbench attack writes them.")
    if path.stat().st_size > LARGEST:
        raise UsageError(f"{path} is larger than {LARGEST // 1024**3} GiB: no file of guesses is.")
    try:
        tree, meta = read_tree(path)
    except (AttributeError, TypeError) as error:  # names that contradict each other
        raise BrokenFile(f"{path} is damaged ({error}). Make it again.") from None
    table = meta.get("guesses") if isinstance(meta, dict) else None
    if not isinstance(table, list) or len(table) > MOST:
        raise UsageError(f"{path}: expected a list of at most {MOST} guesses in its header.")
    if not isinstance(tree, dict) or not set(tree) <= {str(i) for i in range(len(table))}:
        raise UsageError(f"{path} holds tensors of no guess that its header lists.")
    return [_one(path, i, line, tree) for i, line in enumerate(table)], meta


def _one(path: Path, i: int, line: Any, tree: dict[str, Any]) -> Guessed:
    what = f"{path}: guess {i}"
    if not isinstance(line, dict):
        raise UsageError(f"{what}: expected an object in the header.")
    said = _Line.build(line, what)
    tensors = tree.get(str(i), {})
    if not isinstance(tensors, dict) or not all(map(_TENSOR.fullmatch, tensors)):
        raise UsageError(f"{what} has tensors of other names than a guess may have.")
    if not all(isinstance(t, Tensor) for t in tensors.values()):
        raise UsageError(f"{what} has tensors within tensors.")
    if not said.failed and not tensors:
        raise UsageError(f"{what} guesses nothing and does not say that it failed.")
    if not said.failed and not all(bool(t.isfinite().all()) for t in tensors.values()):
        raise UsageError(f"{what} is not finite, and does not say that it failed.")
    failed, flags = one_line(said.failed), tuple(said.flags)
    guess = Guess(said.unit, said.round, tensors, said.accepted, said.probe, failed, flags)
    return Guessed(said.role, said.stage, guess)
