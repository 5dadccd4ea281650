"""The tutorials do what they say: their files are written, their commands run in their order, and
what they show of the output is in it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
NAMES = sorted(p.stem for p in PAGES.glob("*.md"))
FILE = re.compile(
    r"[Ss]ave this as `([\w.]+)`[^\n]*\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE
)
TEXT = re.compile(r"^```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^    ((?:leakbench|sed|tar|RUN=|EXPORT=)\S* ?.*)$", re.MULTILINE)
# Commands that stand for anybody's: the run and the guesses are the reader's own.
TEMPLATE = re.compile(r"\b(?:runs/RUN|GUESSES)\b")
BEFORE = {"reviewing-a-claim": ["own-attack"]}  # files of another page that this one uses


def text(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def files(name: str) -> dict[str, str]:
    return dict(FILE.findall(text(name)))


def script(name: str) -> str:
    """The page's commands; one that is to fail says with which code."""
    lines = ["set -eu"]
    for line in COMMAND.findall(text(name)):
        if TEMPLATE.search(line):
            continue
        code = re.search(r"# exit (\d+)$", line)
        fails = f"rc=0; {line.split(' #')[0]} || rc=$?; test $rc = {code[1]}" if code else ""
        lines.append(fails or line)
    return "\n".join(lines)


def test_all_four_are_here():
    assert NAMES == ["gate", "own-attack", "own-defense", "reviewing-a-claim"]
    for name in NAMES:
        assert len(COMMAND.findall(text(name))) >= 3, name
    assert {n for n in NAMES if files(n)} == {"gate", "own-attack", "own-defense"}


@pytest.mark.parametrize("name", NAMES)
def test_no_command_of_a_tutorial_is_left_out(name):
    """Whatever stands indented is run, or is a template."""
    prose = re.sub(r"^```.*?^```", "", text(name), flags=re.DOTALL | re.MULTILINE)
    shown = re.findall(r"^ {4,}(\S.*)$", prose, re.MULTILINE)
    assert shown
    ran = script(name)
    for line in shown:
        assert TEMPLATE.search(line) or line.split(" #")[0] in ran, line


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_does_what_it_says(name, tmp_path):
    for page in [*BEFORE.get(name, []), name]:
        for path, code in files(page).items():
            (tmp_path / path).write_text(code, encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "200",
    }
    done = subprocess.run(
        ["bash", "-c", script(name)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, f"{script(name)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    said = " ".join(f"{done.stdout}\n{done.stderr}".split())
    for shown in TEXT.findall(text(name)):
        for line in shown.splitlines():
            assert " ".join(line.split()) in said, line
    for report in re.findall(r"-o (report)\b", script(name)):
        assert (tmp_path / report / "index.html").is_file()


def test_files_of_the_tutorials_are_whole():
    """What is saved is Python, or TOML, and is not so long that nobody would read it."""
    import tomllib

    for name in NAMES:
        for path, code in files(name).items():
            assert len(code.splitlines()) <= 30, path
            if path.endswith(".toml"):
                tomllib.loads(code)
            else:
                compile(code, path, "exec")
    assert shlex.split(script("gate"), comments=True)
