"""Which code a number came from: the digest of a module and of what it imports of its package."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from leakbench.base import plugins
from leakbench.base.errors import UsageError

METHODS = frozenset({"attacks", "defenses", "reports"})
OURS = METHODS | {"leakbench"}
PLUGINS = (plugins.ONE, plugins.SEVERAL)


def digest(modules: Iterable[str]) -> str:
    """SHA-256 over the sources of ``modules`` and of all that they import of their own packages.

    ``modules``: dotted names; a package stands for every module in it. What they import of other
    top-level packages is not followed: versions say what those are. But where somebody else's
    module rests on methods of ours (a base class), our whole package of them counts, and so do
    plugins beside it: in a checkout these change while versions stand.

    Raises:
        UsageError: a module has no source file.
    """
    sha = hashlib.sha256()
    for name, path in sorted(_reached(tuple(sorted(set(modules)))).items()):
        # Line ends are those of the checkout, not of the code.
        source = path.read_bytes().replace(b"\r\n", b"\n")
        sha.update(f"{name}\0{len(source)}\0".encode() + source)
    return sha.hexdigest()


def _reached(modules: tuple[str, ...]) -> dict[str, Path]:
    """{module: its file} of ``modules`` and of what they import of their own packages."""
    found: dict[str, Path] = {}
    todo, whole = list(modules), set(modules)
    while todo:
        name = todo.pop()
        path = _file(name)
        if name in found or path is None:
            if path is None and name in modules:
                raise UsageError(f"the module {name!r} has no source file that could be compared.")
            continue
        found[name] = path
        if path.name == "__init__.py" and name in whole:
            beside = sorted(p for p in path.parent.glob("*.py") if p != path)
            todo += [f"{name}.{p.stem}" for p in beside]
            todo += [f"{name}.{p.parent.name}" for p in sorted(path.parent.glob("*/__init__.py"))]
        further = _imports(name, path, path.stat().st_mtime_ns)
        if name.split(".")[0] not in OURS:
            whole |= {n for n in further if n in METHODS}
        todo += further
    return found


@lru_cache(maxsize=4096)
def _imports(name: str, path: Path, _changed: int) -> tuple[str, ...]:
    """What the module imports of its own top-level package, at the top or in a function."""
    top = name.split(".")[0]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    out = []
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # its bytes count; nobody can run it
        return ()
    for node in _statements(tree):
        for found in _named(node, package):
            of = found.split(".")[0]
            if of == top:
                out.append(found)
            elif top not in OURS and (of in METHODS or of.startswith(PLUGINS)):
                out.append(of)
    return tuple(dict.fromkeys(out))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement below ``node``: an import is one, so expressions need not be searched."""
    for below in ast.iter_child_nodes(node):
        if isinstance(below, ast.stmt | ast.excepthandler | ast.match_case):
            yield below
            yield from _statements(below)


def _named(node: ast.AST, package: str) -> Iterator[str]:
    """The modules that an import may mean; a name imported from a package may be one of them."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = package.split(".")
            above = ".".join(parts[: len(parts) - node.level + 1])
            base = f"{above}.{base}" if base else above
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _file(name: str) -> Path | None:
    """The source of a module; None where there is no such module. Nothing is imported."""
    first, *inner = name.split(".")
    try:
        spec = find_spec(first)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not inner:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    # A package that is loaded may look into further folders, as for a method of one's own.
    folders = getattr(sys.modules.get(first), "__path__", spec.submodule_search_locations)
    for folder in folders or []:
        path = Path(folder, *inner)
        for found in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if found.is_file():
                return found
    return None
