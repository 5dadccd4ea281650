"""No metric and no method is known by its name where plugins are to be treated like ours."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import leakbench
from leakbench.base import registry

ROOT = Path(leakbench.__path__[0])
# Where names belong: a metric states its own, a task has values for methods, and the papers' tables
# name what they show.
ROOMS = ("metrics", "tasks", "reproduce")
# Module -> the names that may stand there, each for a reason.
EXCEPTED = {
    # Names of packages, whose versions run.json records.
    "base.provenance": {"dcor", "lpips"},
    # Its three estimators; the metrics are called after them.
    "statistics.distance_correlation": {"dcor", "dcor2_corrected", "flea_correlation"},
    # The runs that the demonstration shows.
    "cli.demo": {"fedaws", "fedcs", "fedgn", "fedhide"},
    # The list of attacks that is cited, of which one is called as its metric.
    "attacking.standard": {"exposure"},
    # A command that a message tells to type.
    "cli.options": {"fedgn"},
    "data.sets": {"fedavg"},
    # Of an aggregator's sum of a loop of somebody's own.
    # By these such a loop is replayed.
    "own.declared_training": {"fedavg", "fedavg_momentum", "fedavg_optim"},
}
# Words of any English sentence: they count only where a text is nothing else.
WORDS = {"exposure"}


def known():
    """Every method, and every metric of an attack."""
    metrics = (registry.load_plugin("attacks", a).metrics for a in registry.names("attacks"))
    return {*registry.names("defenses"), *(m.name for several in metrics for m in several)}


def texts(tree):
    """Every text of a module but what documents it."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = [n.body[0] for n in ast.walk(tree) if isinstance(n, documented) and n.body]
    docs = {id(line.value) for line in first if isinstance(line, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def named(source, names):
    """The names that stand in a module's texts."""
    found = set()
    for text in texts(ast.parse(source)):
        found |= {n for n in names if n == text}
        found |= names & set(re.findall(r"\w+", text)) - WORDS
    return found


def test_nothing_but_plugins_and_papers_knows_a_method_or_a_metric_by_its_name():
    names, found = known(), {}
    assert {"fedhide", "p_leak", "exposure"} <= names
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in ROOMS:
            found[".".join(parts)] = named(path.read_text(encoding="utf-8"), names)
    # Equal, so that an exception that is no longer needed goes, too.
    assert {module: those for module, those in found.items() if those} == EXCEPTED


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('FIRST = ("p_leak", "n")', {"p_leak"}),
        ('if metric == "exposure": pass', {"exposure"}),
        ('NAMES = "p_leak psnr".split()', {"p_leak", "psnr"}),
        ('said = f"fedhide with {x}"', {"fedhide"}),
        ('said = "how much exposure"', set()),
        ('"""Of p_leak."""\ndef f():\n    """As fedhide does."""', set()),
        ("x = p_leak", set()),
    ],
)
def test_a_name_is_found_where_a_text_holds_it(source, found):
    assert named(source, {"p_leak", "psnr", "exposure", "fedhide"}) == found
