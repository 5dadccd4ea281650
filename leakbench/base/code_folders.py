"""Whose code lies where: Python's own and what was installed, leakbench's, or somebody's own."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Collection
from functools import cache
from importlib.util import find_spec
from pathlib import Path

OURS = frozenset({"attacks", "defenses", "reports", "leakbench"})


def installed(path: str | Path) -> bool:
    """Is it Python's own, or of a package that was installed? Versions say what those are."""
    return within(str(path), _libraries())


def comes_with_leakbench(path: str | Path) -> bool:
    """Does it come with leakbench?"""
    return within(os.path.abspath(path), _our_folders())  # noqa: PTH100


@cache
def _our_folders() -> tuple[str, ...]:
    found = (find_spec(package) for package in OURS)
    return tuple(str(Path(s.origin).absolute().parent) for s in found if s and s.origin)


def within(path: str, folders: Collection[str]) -> bool:
    """Does it lie in one of these folders, or is it one?"""
    return path.startswith(tuple(f"{f}{os.sep}" for f in folders)) or path in folders


@cache
def _libraries() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_paths()[n] for n in names]
    found += [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
    return tuple(dict.fromkeys([*found, *map(os.path.realpath, found)]))
