"""A setting's name: its user's word for it, which outlives a change of its parameters."""

from __future__ import annotations

import re

from leakbench.base.errors import UsageError

# What a user writes beside a run, in its spec: it changes nothing of what is trained.
BESIDE = ("name", "attacks")
LONGEST = 60  # characters
# A part of the names of rows, which are read as patterns: no `/`, `*`, `?`, `[` and no blank; and
# after --as no dash at the beginning.
_NAME = rf"[A-Za-z0-9._][A-Za-z0-9._-]{{0,{LONGEST - 1}}}"
PATTERN = rf"^({_NAME})?$"  # of run.json: "" where nobody gave it one


def well_formed(name: str, what: str) -> str:
    """``name``, if a setting may be called so.

    Args:
        name: what the user wrote.
        what: where, as in "--as".

    Raises:
        UsageError: it may not.
    """
    if re.fullmatch(_NAME, name):
        return name
    near = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip("-")[:LONGEST].rstrip("-")
    raise UsageError(
        f"{what} {name!r}: expected a name of at most {LONGEST} letters (a to z), digits, '.', '_'"
        f" and '-' that does not begin with '-', for example {near or 'release'}."
    )
