"""Every command that a document shows would be taken as it stands there: the command line parses
it, and what it names exists. Those of the tutorials are run, in ``test_tutorials.py``.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main
from typer._click.exceptions import MissingParameter

from leakbench.base import plugins, registry
from leakbench.base.errors import UsageError
from leakbench.cli import attack, keys, options, show
from leakbench.cli.app import app
from leakbench.record.runspec import make_spec
from leakbench.reproduce import catalogue

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("*.md", "docs/**/*.md", "examples/**/*", "results/**/*.md", ".github/**/*.yml")
SUFFIXES = {".md", ".yml", ".yaml", ".toml", ".sh"}
PAST = {"CHANGELOG.md"}  # what was called otherwise then is no mistake
EVERY = {p for g in PLACES for p in ROOT.glob(g) if p.suffix in SUFFIXES and p.name not in PAST}
PAGES = sorted(EVERY)
COMMANDS = typer.main.get_command(app).commands
NAMED = {"-d": "defenses", "-w": "wrappers", "-t": "tasks"}
# Stands for what the reader has: RUN, SPEC.toml, $RUNS.
ANYBODYS = re.compile(r"[A-Z]+(\.toml|\.py)?(\.\.\.)?|.*\$.*")
# A task of one's own, as `train --data` and `leakbench new` write them.
WRITTEN = """\
import torch
import leakbench as lb

def task():
    data = lb.clients(torch.randn(40, 6), torch.arange(40) % 2, clients=4)
    return lb.task("mine", data, model=lambda outputs: torch.nn.Linear(6, outputs))
"""
FILE = re.compile(
    r"[Ss]ave this as `(\w+\.py)`[^\n]*\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE
)


class Shown(NamedTuple):
    """A command on a page, and whether it is whole or only spoken of."""

    page: str
    text: str
    whole: bool

    @property
    def words(self) -> list[str]:
        """What follows `leakbench`."""
        first = re.split(r" (?:&&|\|\||\|) ", self.text)[0]
        return [w for w in shlex.split(first, comments=True) if w != "..."]


def in_code(text: str, suffix: str) -> Iterator[tuple[str, bool]]:
    """The lines of a page's commands, each whole; and what it says between backticks."""
    fence = "sh" if suffix != ".md" else None
    prose = []
    for line in text.replace("\\\n", " ").splitlines():
        if suffix == ".md" and line.lstrip().startswith("```"):
            fence = None if fence is not None else line.strip("` ")
        elif fence in ("sh", "bash", "yaml") or (fence is None and line.startswith("    ")):
            yield line, True
        elif fence is None:
            prose.append(line)
    for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", "\n".join(prose)):
        yield " ".join(code.split()), False


def shown() -> list[Shown]:
    found = []
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        for code, whole in in_code(page.read_text("utf-8"), page.suffix):
            for text in re.findall(r"(?:^|[\s;(]|&& )leakbench ([a-z]+\b.*)$", code):
                if whole or re.match(r"(?:[\w.=-]+ )*leakbench ", code):
                    found.append(Shown(name, text, whole and not code.lstrip().startswith("#")))
    return list(dict.fromkeys(found))


SHOWN = shown()


def test_many_are_found():
    pages = {s.page for s in SHOWN}
    assert pages >= {"README.md", "docs/start.md", "docs/ci.md", "docs/many-machines.md"}
    assert pages >= {"docs/tutorials/gate.md", "examples/ci/README.md", "examples/ci/action.yml"}
    assert len(SHOWN) > 150
    assert {s.words[0] for s in SHOWN if s.whole} >= {"demo", "train", "attack", "report", "check"}


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """Where somebody has saved what the pages say."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(plugins.VARIABLE, "")
    for page in PAGES:
        for name, code in FILE.findall(page.read_text("utf-8")):
            (tmp_path / name).write_text(code, encoding="utf-8")
    for written in {w for one in SHOWN for w in one.words if w.endswith("task.py")}:
        (tmp_path / written).parent.mkdir(exist_ok=True)
        (tmp_path / written).write_text(WRITTEN, encoding="utf-8")
    yield
    for name in [m for m in sys.modules if m.startswith(plugins.ONE)]:
        del sys.modules[name]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("page", sorted({s.page for s in SHOWN}))
def test_a_command_is_one_of_the_command_line(page):
    """Parsed as it stands: the command, its options, and what they take."""
    for one in (s for s in SHOWN if s.page == page):
        name, *rest = one.words
        assert name in COMMANDS, one
        if rest and "--list" not in rest:
            rest = [re.sub(r"\$\w+|\$\{\w+\}", "1", w) for w in rest if w not in ("$ARGS",)]
            with contextlib.suppress(*[] if one.whole else [MissingParameter]):
                COMMANDS[name].make_context(name, list(rest))
        named(one, name, rest)


def named(one: Shown, name: str, rest: list[str]) -> None:
    """What it names is there: methods, attacks, their parameters, recipes with their scale."""
    if "# exit 2" in one.text:
        return
    values = {flag: [] for flag in ("-d", "-w", "-t", "-a", "-s", "--scale", "--seeds")}
    for flag, value in itertools.pairwise(rest):
        if flag in values and not ANYBODYS.fullmatch(value):
            values[flag].append(value)
    for flag, kind in NAMED.items():
        for value in keys.split_names(values[flag]):
            own = kind == "tasks" and value.endswith(".py")
            assert (registry.task_in(value) if own else value) in registry.names(kind), one
    chosen = keys.split_names(values["-a"])
    if name == "attack":
        others = [name for name in chosen if name != attack.STANDARD]
        attack._choices(others, values["-s"])
    if name == "train" and values["-d"]:
        plan, single = options.TrainPlan(), dict.fromkeys(("rounds", "engine", "dtype", "record"))
        task = values["-t"][0] if values["-t"] else None
        single["task"] = task
        options.amend(plan, values["-d"], values["-w"], values["-s"], single, None)
        assert all(make_spec(**given) for given in plan.specs()), one
    plain = [w for w in rest[:1] if not w.startswith("-") and not ANYBODYS.fullmatch(w)]
    if name == "reproduce":
        for recipe in map(catalogue.find_recipe, plain):
            assert set(values["--scale"]) <= set(recipe.scales), one
    if name == "list":
        assert set(plain) <= {*show.KINDS}, one
    if name == "show":
        assert set(plain) <= {n for k in show.KINDS for n in show._lines(k)}, one


def test_a_command_that_does_not_exist_would_be_noticed():
    for text, error in (
        ("train -d fedgn -s sgima=0.1", UsageError),
        ("attack runs -a prototype_leakage -s candidatse=true", UsageError),
        ("reproduce fedhide-table5", UsageError),
        ("list defences", AssertionError),
        ("train -d fedgm", AssertionError),
    ):
        one = Shown("here", text, whole=True)
        with pytest.raises(error):
            named(one, one.words[0], one.words[1:])
