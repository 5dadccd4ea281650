"""Figures of the code as a house: how it is laid out, how wide it is, what is called twice.

    python benchmarks/house.py [FOLDER ...]      a checkout each; this one unless given

Product code is leakbench, attacks, defenses and reports. Every import counts, inside functions and
for types, too. A circle is a group of modules that lead to each other. Characters are counted per
line of code: no blank line, no comment, no docstring.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

PACKAGES = ("leakbench", "attacks", "defenses", "reports")
WIDTH = 100


def modules(root: Path) -> dict[str, Path]:
    """{dotted name: file} of the product."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(p for p in parts if p != "__init__")] = path
    return found


def edges(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Module -> modules that it takes a name from, wherever in it."""
    out: dict[str, set[str]] = {}
    for name, tree in trees.items():
        to: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                to |= {a.name for a in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                deep = {f"{node.module}.{a.name}": node.module for a in node.names}
                to |= {d if d in trees else m for d, m in deep.items()}
        out[name] = (to & trees.keys()) - {name}
    return out


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """All modules to which imports lead from ``start``."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        new = graph[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that lead to each other."""
    reach = {n: reachable(graph, n) for n in graph}
    groups = set()
    for n in graph:
        if n in reach[n]:
            groups.add(frozenset(m for m in reach[n] if n in reach[m]))
    return sorted(sorted(g) for g in groups)


def plain(text: str, tree: ast.Module) -> list[str]:
    """Lines of code."""
    lines = text.split("\n")
    skip = set()
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            skip |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            skip.add(token.start[0])
    return [line for i, line in enumerate(lines, 1) if line.strip() and i not in skip]


def shared(trees: dict[str, ast.Module]) -> int:
    """How many public names functions of two modules have: search finds the wrong one.

    Methods aside, and what a plugin must define (attacks, defenses and reports are such).
    """
    where: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for node in tree.body if name.startswith("leakbench.") else ():
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                where[node.name].add(name)
    return sum(len(found) > 1 for found in where.values())


def measured(root: Path) -> dict[str, object]:
    """The figures of one checkout."""
    files = modules(root)
    texts = {n: p.read_text(encoding="utf-8") for n, p in files.items()}
    trees = {n: ast.parse(t) for n, t in texts.items()}
    every = [line for t in texts.values() for line in t.split("\n")]
    code = [line for n, t in texts.items() for line in plain(t, trees[n])]
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes = Counter(
        n.name for n in nodes if isinstance(n, ast.ClassDef) and not n.name.startswith("_")
    )
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef)]
    sizes = sorted((f.end_lineno or f.lineno) - f.lineno + 1 for f in functions)
    middle, most = sizes[len(sizes) // 2], sizes[len(sizes) * 9 // 10]
    lengths = [t.count("\n") for t in texts.values()]
    found = circles(edges(trees))
    return {
        "files flat in leakbench/": len(list((root / "leakbench").glob("*.py"))),
        "files": len(files),
        "files over 200 lines": sum(n > 200 for n in lengths),
        "lines of product code": sum(lengths),
        "  of these code, no comment, no docstring": len(code),
        "characters a line of code (mean)": round(statistics.mean(map(len, code)), 1),
        f"lines over {WIDTH}": sum(len(line) > WIDTH for line in every),
        "circles (modules in them)": f"{len(found)} ({sum(map(len, found))})",
        "class names used twice": sum(n > 1 for n in classes.values()),
        "names that two modules give to functions": shared(trees),
        "functions, lines: median, 9 of 10, longest": (
            f"{len(functions)}: {middle}, {most}, {sizes[-1]}"
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="*", type=Path, default=[Path(__file__).parents[1]])
    folders = parser.parse_args().folder
    columns = [measured(folder) for folder in folders]
    for name in columns[0]:
        print(f"{name:46}", *(f"{c[name]!s:>20}" for c in columns))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
