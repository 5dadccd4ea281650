"""What a module's source says of it: docstrings and class attributes, read without running it.

Methods import torch, which takes seconds; their names and first sentences need none of it. What
cannot be read off the source is ``Unsaid``: then the module is to be imported.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, find_spec, resolve_name
from pathlib import Path
from typing import Any


class Unsaid(Exception):
    """The source alone does not say it."""


@dataclass(frozen=True)
class ModuleText:
    """The syntax tree of a module.

    ``name`` is the module's.
    """

    name: str
    package: str
    tree: ast.Module

    @property
    def doc(self) -> str:
        """Its docstring, "" where there is none."""
        return ast.get_docstring(self.tree) or ""

    @property
    def classes(self) -> list[ast.ClassDef]:
        """Its public classes, but those that are no method whatever is imported.

        That is, they have no base, or only Python's own: a helper's record, a protocol.
        """
        found = [n for n in self.tree.body if isinstance(n, ast.ClassDef)]
        public = [n for n in found if not n.name.startswith("_")]
        return [n for n in public if not all(map(self._pythons, n.bases))]

    def _pythons(self, base: ast.expr) -> bool:
        try:
            found = self.imported(base.id) if isinstance(base, ast.Name) else None
        except Unsaid:
            return False
        return found is not None and found[0].split(".")[0] in sys.stdlib_module_names

    def origin(self, name: str) -> ast.stmt:
        """The one statement of the module that binds ``name``.

        Raises:
            Unsaid: there is none, or more than one.
        """
        found = _binders(self.tree).get(name, [])
        if len(found) != 1:
            raise Unsaid(name)
        return found[0]

    def imported(self, name: str) -> tuple[str, str] | None:
        """Where ``name`` is imported from: module, its name there; None where it is made here.

        Raises:
            Unsaid: as for ``origin``.
        """
        node = self.origin(name)
        if not isinstance(node, ast.ImportFrom):
            return None
        below = resolve_name("." * node.level + (node.module or ""), self.package)
        return below, next(a.name for a in node.names if name == (a.asname or a.name))


def read_module(module: str) -> ModuleText:
    """The source of ``module``; only the packages that it lies in are imported.

    Raises:
        Unsaid: it has no source that can be read.
    """
    try:
        spec = find_spec(module)
        text = _source(spec) if spec else None
        tree = _parsed(text) if text is not None else None
    except (ImportError, ValueError, SyntaxError, OSError) as error:
        raise Unsaid(module) from error
    if spec is None or tree is None:
        raise Unsaid(module)
    return ModuleText(module, spec.parent or "", tree)


def _source(spec: ModuleSpec) -> str | None:
    """Its loader's, or where the loader gives none (pytest's rewrites modules) the file's."""
    loader = spec.loader
    if isinstance(loader, InspectLoader):
        return loader.get_source(spec.name)
    if not spec.has_location or spec.origin is None:
        return None
    return decode_source(Path(spec.origin).read_bytes())


@lru_cache(maxsize=256)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def defined(module: str, name: str) -> tuple[ModuleText, ast.stmt]:
    """Where ``name`` of ``module`` is defined, through whatever modules it was imported.

    Raises:
        Unsaid: the sources do not say it.
    """
    source = read_module(module)
    found = source.imported(name)
    return defined(*found) if found else (source, source.origin(name))


def doc_of(module: str, name: str) -> str:
    """The docstring of a class or function, "" where there is none.

    Raises:
        Unsaid: ``name`` is something else, or the sources do not say it.
    """
    _, node = defined(module, name)
    if not isinstance(node, ast.ClassDef | ast.FunctionDef):
        raise Unsaid(name)
    return ast.get_docstring(node) or ""


def entries(module: str, name: str) -> dict[str, str]:
    """{key: name of the value} of a dictionary that is written out in ``module``.

    Raises:
        Unsaid: it is no such dictionary.
    """
    node = read_module(module).origin(name)
    table = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if not isinstance(table, ast.Dict):
        raise Unsaid(name)
    out = {}
    for key, value in zip(table.keys, table.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(value, ast.Name)):
            raise Unsaid(name)
        out[str(key.value)] = value.id
    return out


def attribute_in_text(module: str, cls: str, name: str) -> Any:
    """The value of a class attribute that is imported, or a tuple of such; a base may have it.

    Raises:
        Unsaid: the sources do not say it, or what they import cannot be had.
    """
    source, node = defined(module, cls)
    if not isinstance(node, ast.ClassDef):
        raise Unsaid(cls)
    for line in reversed(node.body):
        if isinstance(line, ast.Assign | ast.AnnAssign) and name in _bound(line):
            return _value(source, line.value)
    if len(node.bases) != 1 or not isinstance(node.bases[0], ast.Name):  # no order to follow
        raise Unsaid(name)
    return attribute_in_text(source.name, node.bases[0].id, name)


def _value(source: ModuleText, node: ast.expr | None) -> Any:
    if isinstance(node, ast.Starred):
        return _value(source, node.value)
    if isinstance(node, ast.Tuple):
        parts = [(one, _value(source, one)) for one in node.elts]
        several = [v if isinstance(one, ast.Starred) else (v,) for one, v in parts]
        return tuple(itertools.chain(*several))
    found = source.imported(node.id) if isinstance(node, ast.Name) else None
    if found is None:
        raise Unsaid(source.name)
    try:
        return getattr(importlib.import_module(found[0]), found[1])
    except (ImportError, AttributeError) as error:
        raise Unsaid(found[1]) from error


@lru_cache(maxsize=256)
def _binders(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """{name: the statements of a module that bind it}."""
    out: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in _bound(node):
            out.setdefault(name, []).append(node)
    return out


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement binds, wherever in it."""
    out = set()
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    for part in ast.walk(node):
        if isinstance(part, ast.alias):
            out.add((part.asname or part.name).split(".")[0])
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            out.add(part.id)
    return out
