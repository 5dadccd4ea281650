"""No code reads an English sentence: what it decides by is a code, a fact or a name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import leakbench

ROOT = Path(leakbench.__path__[0]).parent
ASKS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "index", "find"}
ASKS |= {"rpartition", "split", "rsplit", "replace", "count", "rindex", "rfind"}
# Words of a sentence: two, or one that stands at an end of it; or a sign with a space, as a name
# is put together with. Names, paths and flags have none.
WORDS = re.compile(r"[a-z]{2,},? [a-z]{2,}|^ [a-z]{3,}|^[a-z]{3,}:? $|^ [-+#(>]|^[-+>]+ $")
# The verdict of the gate, the relation of two values: names of a Literal, which a type checker
# holds. ``torch`` and pydantic say these, nobody of ours.
NAMES = {
    *("cannot tell", "leaks more", "loses utility", "out of order", "in order", "not attacked"),
    *("not judged", "by default", "an attacker", "Value error, ", "not scored"),
    "best ",  # a column's adjective
}


def asked(tree):
    """(line, text) of every text that something is compared with or looked for by."""
    for node in ast.walk(tree):
        found = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module = node.func.value
            regular = isinstance(module, ast.Name) and module.id == "re"
            if node.func.attr in ASKS or regular:
                found = node.args[:1]
        elif isinstance(node, ast.Compare):
            found = [node.left, *node.comparators]
        for one in found:
            parts = one.elts if isinstance(one, ast.Tuple | ast.Set | ast.List) else [one]
            for part in parts:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield node.lineno, part.value


def reads(source):
    """The lines of a source that read a sentence, with what they look for."""
    return [(n, t) for n, t in asked(ast.parse(source)) if WORDS.search(t) and t not in NAMES]


# An excerpt of an excerpt reads in run.json what the larger one lacked: there it is words alone.
LEFT = {"leakbench/record/excerpts.py"}


@pytest.mark.parametrize("package", ["leakbench", "attacks", "defenses", "reports"])
def test_no_module_reads_a_sentence(package):
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if lines := reads(path.read_text(encoding="utf-8")):
            found[name] = lines
    assert {k: v for k, v in found.items() if k not in LEFT} == {}


# A reason becomes a text at the edge: in a file, on a page, in a terminal.
EDGES = (
    "leakbench/words/",
    "leakbench/work/",
    "leakbench/reporting/",
    "leakbench/reproduce/",
    "leakbench/cli/",
)
EDGES += ("reports/", "leakbench/results/cells.py", "leakbench/verifying/checks.py")


def test_only_the_edges_turn_a_reason_into_a_text():
    found = []
    for package in ("leakbench", "attacks", "defenses", "reports"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text(encoding="utf-8")
            if ("reason_text" in text or "reason_words" in text) and not name.startswith(EDGES):
                found.append(name)
    assert found == ["leakbench/base/reason.py", "leakbench/base/reason_words.py"]


@pytest.mark.parametrize(
    "source",
    [
        "reason.startswith('not finished')",
        "' has no number in seed ' in clause",
        "text.removesuffix(': run again')",
        "re.compile('it would fit but was not run')",
        "why in ('no such row', 'gone')",
        "name.partition(' + ')",
        "task.split(' (')",
        "change.split(' -> ')",
        "text.replace('run again', '')",
    ],
)
def test_it_finds_one(source):
    assert reads(f"import re\nx = {source}")


@pytest.mark.parametrize("source", ["name.startswith('client/')", "'mean_data' in kinds"])
def test_names_are_no_sentences(source):
    assert not reads(f"x = {source}")


def _made_in(tree):
    """The names of the functions and classes that a module makes or imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {a.asname or a.name for a in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def test_what_is_said_to_be_as_elsewhere_is_there():
    """A docstring that says "as for ``f``" names a function of its module, under today's name."""
    gone = {}
    for path in sorted(Path(leakbench.__path__[0]).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        said = set(re.findall(r"[Aa]s for ``([A-Za-z_]\w*)``", text))
        if said - _made_in(tree):
            gone[path.name] = said - _made_in(tree)
    assert gone == {}
