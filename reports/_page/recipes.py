"""The command that puts a paper's number beside ours, for methods that a recipe makes again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from leakbench.reporting import ReportData
from reports._words import several

FEW = 8  # methods in a line
# Recipe -> the methods of the paper's table that it runs. Reports may not import the recipes; a
# test compares the two.
TABLES = {
    "fedhide-table4": ("fedaws", "fedcs", "fedgn", "fedhide"),
    "fedmetric-table2": ("deepsvdd", "fedaws", "fedmetric", "feduv"),
    "flea-table1": (
        *("ccvr", "fedavg", "fedbr", "feddata", "feddecorr", "fedgen", "fedlc", "fedmix"),
        *("fedntd", "fedprox", "flea"),
    ),
    "fedaa-table1": ("fedaa", "fedavg", "fedbn", "fedprox", "moon"),
}


@dataclass(frozen=True)
class Again:
    """A recipe that fits methods of the page."""

    command: str
    methods: str


def recipe(family: str) -> str:
    """The command for one method, or ""."""
    found = (name for name, methods in TABLES.items() if family in methods)
    return next((_command(name) for name in found), "")


def recipes(data: ReportData) -> list[Again]:
    """One command for all methods of the page that it fits, in the page's order."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for s in data.settings:
        if command := recipe(s.family):
            found[command][s.title] = None
    return [Again(command, several(list(titles), FEW)) for command, titles in found.items()]


def _command(name: str) -> str:
    return f"leakbench reproduce {name} --scale smoke"
