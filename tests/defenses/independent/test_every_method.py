"""Every method has a loop from its paper beside it."""

from __future__ import annotations

import runpy
from pathlib import Path

from leakbench.base import registry

COMPARED = ("name", "loop", "params")


def compared(file):
    """The methods whose cases pytest makes of a file's tests."""
    found = set()
    for test in runpy.run_path(str(file)).values():
        for mark in getattr(test, "pytestmark", []):
            if mark.name == "parametrize" and mark.args[0] == COMPARED:
                found |= {name for name, *_ in mark.args[1]}
    return found


def test_a_method_without_a_loop_is_noticed():
    files = [f for f in Path(__file__).parent.glob("test_*.py") if f != Path(__file__)]
    assert set().union(*map(compared, files)) == set(registry.names("defenses"))
