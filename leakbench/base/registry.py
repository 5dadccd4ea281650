"""Finds defenses, attacks, wrappers, tasks and reports by name.

An entry point names a package; each public module in it is one of them, named after its file.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from leakbench.base import stated
from leakbench.base.errors import UnknownName, UsageError
from leakbench.base.interrupts import heed

API = 1
KINDS = ("defenses", "attacks", "wrappers", "tasks", "utilities", "reports")
_ONE = {kind: kind.removesuffix("s") for kind in KINDS} | {"utilities": "utility metric"}


def _packages(kind: str) -> Iterator[ModuleType]:
    """The method packages of ``kind``.

    Raises:
        UsageError: a package is not one of leakbench's: another folder of that name shadows it.
    """
    for point in _points(entry_points, f"leakbench.{kind}", tuple(sys.path)):
        package = _imported(point.value)
        if getattr(package, "LEAKBENCH_API", None) != API:
            folders = ", ".join(getattr(package, "__path__", []))
            where = folders or getattr(package, "__file__", point.value)
            raise UsageError(
                f"the package {point.value!r} at {where} is not a leakbench method package"
                f" (LEAKBENCH_API = {API} is missing): another folder of that name shadows ours;"
                " rename it or run leakbench from elsewhere."
            )
        yield package


@lru_cache(maxsize=16)
def _points(
    look: Callable[..., Iterable[EntryPoint]], group: str, path: tuple[str, ...]
) -> tuple[EntryPoint, ...]:
    """The entry points of a group, sorted; read from all that is installed, once a ``path``."""
    return tuple(sorted(look(group=group), key=lambda p: (p.value, p.name)))


@lru_cache(maxsize=64)
def _files(folders: tuple[str, ...], _when: tuple[int, ...]) -> tuple[str, ...]:
    """The public modules in a package's folders."""
    found = [module for module in pkgutil.iter_modules(folders) if not module.ispkg]
    return tuple(module.name for module in found if not module.name.startswith("_"))


def _changed(folders: Iterable[str]) -> tuple[int, ...]:
    """When a file was last added to or taken from each of them, as Python's own imports ask."""
    return tuple(Path(f).stat().st_mtime_ns if Path(f).is_dir() else 0 for f in folders)


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # it is somebody's code, and may raise anything
        heed()
        raise UsageError(
            f"the module {name!r} cannot be imported ({type(error).__name__}: {error}): mend or"
            " uninstall it, or run leakbench from elsewhere."
        ) from error


def names(kind: str) -> dict[str, str]:
    """{method name: module}, sorted; nothing is imported but the packages.

    Raises:
        UsageError: one name is provided twice, or a package is shadowed.
    """
    found: dict[str, str] = {}
    for package in _packages(kind):
        for module in _files(tuple(package.__path__), _changed(package.__path__)):
            name = module.replace("_", "-") if kind == "tasks" else module
            if name in found:
                raise UsageError(
                    f"{_ONE[kind]} {name!r} is provided twice, by {found[name]} and"
                    f" {package.__name__}; rename one of the files."
                )
            found[name] = f"{package.__name__}.{module}"
    return dict(sorted(found.items()))


def docs(kind: str) -> dict[str, str]:
    """{method name: its module's docstring}, sorted.

    Read off the sources; a method is imported only where its source does not say which class it is.

    Raises:
        UsageError: as for ``names``; and as for ``load`` of what is imported.
    """
    return {name: _doc(kind, name, module) for name, module in names(kind).items()}


def _doc(kind: str, name: str, module: str) -> str:
    try:
        source = stated.read(module)
    except stated.Unsaid:
        source = None
    if source is not None and len(source.classes) == 1:
        return source.doc
    return inspect.getdoc(inspect.getmodule(load(kind, name))) or ""


def attribute(kind: str, name: str, attribute: str) -> Any:
    """A class attribute of a method, without importing it where its source says it.

    Raises:
        UnknownName, UsageError: as for ``load``.
    """
    try:
        source = stated.read(names(kind)[name])
        (cls,) = source.classes
        return stated.attribute(source.name, cls.name, attribute)
    except (KeyError, ValueError, stated.Unsaid):
        return getattr(load(kind, name), attribute)


def load(kind: str, name: str) -> type[Any]:
    """The one public class that the method's module defines.

    Raises:
        UnknownName: there is no such method.
        UsageError: the module does not define exactly one public class.
    """
    from leakbench.base.spec import Spec

    known = names(kind)
    if name not in known:
        raise UnknownName(_ONE[kind], name, known)
    module = _imported(known[name])
    # By type(), not isinstance: that would load a module which waits for its first use.
    public = [
        v for n, v in vars(module).items() if issubclass(type(v), type) and not n.startswith("_")
    ]
    own = [v for v in public if issubclass(v, Spec) and v.__module__ == module.__name__]
    if len(own) != 1:
        raise UsageError(
            f"{module.__file__} must define exactly one public class, the {_ONE[kind]}; it defines"
            f" {[c.__name__ for c in own]}."
        )
    return own[0]
