"""What a linter has no rule for: expressions one level deep, a sentence first in docstrings."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("leakbench", "attacks", "defenses", "reports")
FILES = []
for package in (*PRODUCT, "examples", "benchmarks"):
    FILES += sorted((ROOT / package).rglob("*.py"))
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def inside(tree, kind):
    """Lines on which an expression of this kind stands in another."""
    found = []
    for node in (n for n in ast.walk(tree) if isinstance(n, kind)):
        found += [n.lineno for n in ast.walk(node) if n is not node and isinstance(n, kind)]
    return found


@pytest.mark.parametrize("kind", [COMPREHENSIONS, ast.IfExp], ids=["comprehension", "condition"])
def test_no_expression_stands_in_another_of_its_kind(kind):
    assert len(FILES) > 200
    found = {str(p): inside(ast.parse(p.read_text(encoding="utf-8")), kind) for p in FILES}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "[x for x in [y for y in z]]",
        "{k: [v for v in g] for k, g in d}",
        "a if b else c if d else e",
    ],
)
def test_one_in_another_is_found(line):
    tree = ast.parse(line)
    assert inside(tree, COMPREHENSIONS) or inside(tree, ast.IfExp)


def test_docstrings_begin_with_a_sentence_on_one_line():
    cut = []
    for path in (p for p in FILES if p.relative_to(ROOT).parts[0] in PRODUCT):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            first = text.split("\n")[0].rstrip() if text else "."
            if not first.endswith((".", "?", "!", ":", ")", '"')):
                cut.append(f"{path.relative_to(ROOT)}: {first}")
    assert cut == []
