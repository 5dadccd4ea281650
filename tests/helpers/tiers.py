"""Two tiers of tests, by what was measured: those of every run, and the slow ones.

`tests/slow.txt` names what is slow: a test with all its parameters, or a whole file, whose shared
fixtures take long. It is written anew from a log of `pytest --durations=0 --durations-min=0.01`:

    python -m pytest -m "slow or not slow" --durations=0 --durations-min=0.01 > log
    PYTHONPATH=tests python -m helpers.tiers log

What nobody has measured yet runs every time. Of the slow ones `.ci/run` runs a quarter, drawn by
the commit, so that four commits in a row see about all.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

LIST = Path(__file__).parents[1] / "slow.txt"
# Seconds, as measured beside other work, which doubles them. Of a test: all its parameters
# together. Of a file: what its fixtures take, which whoever runs one of its tests pays.
TEST, FIXTURES = 1.5, 4.0
# How the code is laid out is asked every time.
ALWAYS = ("tests/test_layers.py", "tests/test_prose.py", "tests/test_style.py")
PARTS = 4
_LINE = re.compile(r"^([0-9.]+)s (call|setup|teardown) +(tests/[^\s\[]+)")


def named(path: Path = LIST) -> frozenset[str]:
    """What is slow."""
    return frozenset(path.read_text(encoding="utf-8").split())


def name_of(node: str) -> str:
    """``tests/a.py::Class::test[parameters]`` -> ``tests/a.py::Class::test``."""
    return node.partition("[")[0]


def slow(node: str, names: frozenset[str]) -> bool:
    """Is the test, or its whole file, among ``names``?"""
    return not names.isdisjoint((name_of(node), node.partition("::")[0]))


def part_of(name: str) -> int:
    """Which quarter of the slow tests one is in, by its name alone: 0 to 3."""
    return zlib.crc32(name.encode()) % PARTS


def drawn_as(node: str, names: frozenset[str], *, whole: bool) -> str:
    """The name that draws a slow test's quarter: the test's own, with its parameters.

    Its file's where that is slow as a ``whole`` or stands among ``names``: what its fixtures make
    is then made in one quarter, and not in all four.
    """
    file = node.partition("::")[0]
    return file if whole or file in names else node


def measured(log: Iterable[str]) -> dict[str, dict[str, float]]:
    """{test: {phase: seconds, of all its parameters}}."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line in log:
        if told := _LINE.match(line):
            seconds, phase, test = told.groups()
            found[test][phase] += float(seconds)
    return found


def chosen(times: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Names for ``LIST``."""
    files: dict[str, list[str]] = defaultdict(list)
    for test in times:
        if not test.startswith(ALWAYS):
            files[test.partition("::")[0]].append(test)
    out = []
    for file, tests in files.items():
        if sum(times[t].get("setup", 0.0) for t in tests) > FIXTURES:
            out.append(file)
            continue
        out += [t for t in tests if times[t].get("call", 0.0) > TEST]
    return sorted(out)


def main(path: str) -> int:
    """Write the list."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    LIST.write_text("\n".join(chosen(measured(lines))) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
