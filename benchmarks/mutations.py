"""Mutation testing of the numeric core: bugs are planted one at a time; which do tests notice?

Each of `mutations.toml` is planted into a copy of the project, and the fast tests run there: those
named beside it first, all of them where these pass.

    python benchmarks/mutations.py [--only WORD] [--jobs N] [--quick]

Prints a line for each, then the share that was noticed; exits 1 where one was not. ``--quick``
leaves out the run of all fast tests, so a bug that it calls missed may still be noticed by them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUGS = Path(__file__).with_suffix(".toml")
LONGEST = 1800  # seconds of tests; a bug that makes them hang is noticed, too
KEPT = ("leakbench", "attacks", "defenses", "reports", "tests", "docs", "examples", "results")
KEPT += ("pyproject.toml", "README.md", "CHANGELOG.md", "benchmarks")


@dataclass(frozen=True)
class Bug:
    """What is planted where."""

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def plant(self, root: Path) -> None:
        """Write it into the copy at ``root``.

        Raises:
            SystemExit: the place is not there exactly once: the project moved on.
        """
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise SystemExit(f"{self.what}: {self.file} has {self.old!r} {text.count(self.old)}x")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def bugs(word: str = "") -> list[Bug]:
    """All of the list whose words hold ``word``."""
    listed = tomllib.loads(BUGS.read_text(encoding="utf-8"))["bug"]
    every = [Bug(**{**b, "tests": tuple(b["tests"])}) for b in listed]
    return [b for b in every if word in b.what]


def noticed(bug: Bug, *, quick: bool) -> str:
    """The test that fails with ``bug`` planted, or "" where none does."""
    with tempfile.TemporaryDirectory(prefix="leakbench-bug-") as name:
        root = Path(name)
        for kept in KEPT:
            if (ROOT / kept).is_dir():
                shutil.copytree(ROOT / kept, root / kept, ignore=shutil.ignore_patterns("__pyc*"))
            elif (ROOT / kept).is_file():
                shutil.copy(ROOT / kept, root / kept)
        bug.plant(root)
        return _failing(root, bug.tests) or ("" if quick else _failing(root, ()))


def _failing(root: Path, tests: tuple[str, ...]) -> str:
    """The first test that fails in ``root``, or "": of ``tests``, of all fast ones without."""
    # `-m` puts the copy before the installed project on the path.
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*words, *tests],
            cwd=root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {LONGEST} s"
    if done.returncode == 0:
        return ""
    lines = [x for x in done.stdout.splitlines() if x.startswith(("FAILED", "ERROR"))]
    return (
        lines[0] if lines else f"exit {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"
    )


def main() -> int:
    """Plant them all."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", default="", help="those whose words hold this")
    asked.add_argument("--jobs", type=int, default=1)
    asked.add_argument("--quick", action="store_true", help="only the tests named beside each")
    given = asked.parse_args()
    found, missed = bugs(given.only), 0
    with ThreadPoolExecutor(given.jobs) as pool:
        by_test = pool.map(lambda b: noticed(b, quick=given.quick), found)
        for bug, by in zip(found, by_test, strict=True):
            missed += not by
            print(f"{'noticed' if by else 'MISSED '}  {bug.what}  [{by or bug.file}]", flush=True)
    print(f"{len(found) - missed} of {len(found)} noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
