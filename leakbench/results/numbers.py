"""All numbers of some runs: the five tables and the runs that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakbench.results.keys import Row


@dataclass(frozen=True, eq=False, kw_only=True)
class Numbers:
    """The tables hold the columns of the CSV files of the same names, python-typed.

    Floats, bools, ``flags`` and ``seeds`` joined by `|`. ``runs`` are the contents of every
    run.json.
    """

    results: Sequence[Row] = ()
    tradeoff: Sequence[Row] = ()
    utility: Sequence[Row] = ()
    missing: Sequence[Row] = ()
    diagnostics: Sequence[Row] = ()
    runs: Sequence[Row] = ()
