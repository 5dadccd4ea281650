"""leakbench with every sentence of its code replaced by where it stands: nobody can read one back.

    python -m helpers.rewording COMMAND ...     as `leakbench COMMAND ...`

Two places that say the same become two texts, so that whoever decides by a text decides otherwise.
What stays: names with a space in them, which a ``Literal`` lists, columns in one text, and
documentation.
"""

from __future__ import annotations

import ast
import importlib.machinery
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("leakbench", "attacks", "defenses")
# Two words of English, or one that stands at an end of a piece of a sentence.
WORDS = re.compile(r"[a-z]{2,},? [a-z]{2,}|^ [a-z]{3,}|[a-z]{3,}:? $")
PLACES = re.compile(r"\{[^{}]*\}|%\([a-z_]+\)[a-z]|%[a-z]")
FORMAT = re.compile(r"\{\{|\}\}")


class Reworded(ast.NodeTransformer):
    """Every sentence becomes "[place]", with what is put into it."""

    def __init__(self, module: str) -> None:
        self.module, self.count = module, 0

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        text = node.value
        if not isinstance(text, str) or not WORDS.search(text) or text in names():
            return node
        self.count += 1
        put = "" if FORMAT.search(text) else "".join(PLACES.findall(text))
        here = f"[{self.module} {node.lineno} {self.count}]{put}"
        return ast.copy_location(ast.Constant(here), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func
        if getattr(called, "id", "") == "_names":
            return node
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Constant):
            return node if called.attr == "split" else self.generic_visit(node)
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_documentation = isinstance(node.value, ast.Constant)
        return node if is_documentation else self.generic_visit(node)


@cache
def names() -> frozenset[str]:
    """All that a ``Literal`` of the code lists."""
    found = set()
    for path in every_source():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
                found |= {n.value for n in ast.walk(node.slice) if isinstance(n, ast.Constant)}
    return frozenset(n for n in found if isinstance(n, str))


def every_source() -> list[Path]:
    """Of the packages whose sentences are replaced."""
    return [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module anew, reworded; what was compiled before is not asked."""

    def get_code(self, fullname: str):
        tree = ast.parse(self.get_data(self.path))
        changed = ast.fix_missing_locations(Reworded(fullname).visit(tree))
        return compile(changed, self.path, "exec", dont_inherit=True)


class Finder(importlib.machinery.PathFinder):
    """Finds the modules of the product first."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        found = super().find_spec(fullname, path, target)
        ours = fullname.partition(".")[0] in PACKAGES
        if ours and found and isinstance(found.loader, importlib.machinery.SourceFileLoader):
            found.loader = Loader(fullname, found.loader.path)
        return found


def install() -> None:
    """From now on what is imported is reworded."""
    wrong = [m for m in sys.modules if m.partition(".")[0] in PACKAGES]
    assert not wrong, f"imported already: {wrong[:3]}"
    sys.meta_path.insert(0, Finder)


if __name__ == "__main__":
    install()
    from leakbench.cli import main

    sys.argv[0] = "leakbench"
    main()
