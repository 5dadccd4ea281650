"""Finds defenses, attacks, wrappers, tasks and reports by name.

An entry point names a package; each public module in it is one of them, named after its file.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from leakbench.base import module_text, plugins, terminal
from leakbench.base.errors import UnknownName, UsageError, among
from leakbench.base.interrupts import heed
from leakbench.base.raised import raised_text

API = 1
KINDS = plugins.KINDS
_ONE = {kind: kind.removesuffix("s") for kind in KINDS} | {"utilities": "utility metric"}


# The packages that come with leakbench: where one is broken or shadowed, nothing can go on.
OURS = frozenset(
    {
        *("defenses", "defenses.wrappers", "attacks", "reports"),
        *("leakbench.tasks", "leakbench.utilities"),
    }
)
_given: dict[str, dict[str, type[Any]]] = {kind: {} for kind in KINDS}
# What a plugin's class is, by the name of the class that it derives from.
_ROOTS = {
    "Defense": "defenses",
    "Attack": "attacks",
    "Wrapper": "wrappers",
    "Task": "tasks",
    "UtilityMetric": "utilities",
    "Report": "reports",
}


def _packages(kind: str) -> Iterator[ModuleType]:
    """The method packages of ``kind``: ours and installed ones, then the folders of plugins.

    Raises:
        UsageError: one of ours is shadowed by another folder of that name.
    """
    for point in _points(entry_points, f"leakbench.{kind}", tuple(sys.path)):
        plugins.packages.add(point.value)
        try:
            yield _of_leakbench(point.value)
        except UsageError as error:
            if point.value in OURS:
                raise
            leave_out(error)
    folders = plugins.package(kind)
    if folders is not None:
        yield folders


def _of_leakbench(name: str) -> ModuleType:
    package = _imported(name)
    if getattr(package, "LEAKBENCH_API", None) != API:
        folders = ", ".join(getattr(package, "__path__", []))
        where = folders or getattr(package, "__file__", name)
        why = "another folder of that name shadows ours; rename it or run leakbench from elsewhere."
        if name not in OURS:
            why = "mend or uninstall it; CONTRIBUTING.md says what a package of methods holds."
        raise UsageError(
            f"the package {name!r} at {where} is not a leakbench method package"
            f" (LEAKBENCH_API = {API} is missing): {why}"
        )
    return package


def plug(path: str | Path) -> None:
    """Find the methods of a file or folder, too, here and in processes started later.

    Of a folder what cannot be imported is left out; a file was named for the methods in it.

    Raises:
        UsageError: there is none such, the file holds no method that can be imported, or several
            of one kind.
    """
    before = os.environ.get(plugins.VARIABLE)
    place = plugins.use(path)
    if place.is_dir():
        return
    try:
        _methods(f"{plugins.ONE}{place.stem}")
    except UsageError:
        if before is None:
            del os.environ[plugins.VARIABLE]
        else:
            os.environ[plugins.VARIABLE] = before
        raise


def give(kind: str, name: str, method: type[Any]) -> None:
    """Find ``method`` by ``name``, too, in this process; one given before is replaced.

    Raises:
        UsageError: something that is installed, or a plugin, has that name.
    """
    taken = names(kind).get(name)
    if taken is not None and name not in _given[kind]:
        raise UsageError(
            f"{_ONE[kind]} {name!r} is there already, by {_place(taken)}: give yours another name."
        )
    _given[kind][name] = method


def given(kind: str, name: str) -> type[Any] | None:
    """What was given under this name in this process; None where nothing was."""
    return _given[kind].get(name)


def options(methods: Iterable[tuple[str, str]]) -> list[str] | None:
    """The ``--plugin`` of a command line that names these methods, (kind, name).

    None where one of them was made in Python, by nobody's file: no command finds it.

    Raises:
        UsageError: as for ``names``.
    """
    files: dict[str, None] = {}
    places = plugins.plugin_files()
    for kind, name in methods:
        module = names(kind).get(name, "")
        if name in _given[kind] and module not in places:
            return None
        if module in places:
            files[str(places[module])] = None
    return [word for file in files for word in ("--plugin", file)]


def leave_out(why: UsageError) -> None:
    """Say once that something of somebody's own is left out; the others go on."""
    text = f"left out: {why}"
    if text not in _said:
        _said.add(text)
        terminal.say(f"leakbench: {text}")


_said: set[str] = set()


@lru_cache(maxsize=16)
def _points(
    look: Callable[..., Iterable[EntryPoint]], group: str, path: tuple[str, ...]
) -> tuple[EntryPoint, ...]:
    """The entry points of a group, sorted; read from all that is installed, once a ``path``."""
    return tuple(sorted(look(group=group), key=lambda p: (p.value, p.name)))


@lru_cache(maxsize=64)
def _files(folders: tuple[str, ...], _when: tuple[int, ...]) -> tuple[str, ...]:
    """The public modules in a package's folders."""
    found = [
        module.name
        for folder in folders
        for module in pkgutil.iter_modules([folder])
        if not module.ispkg and not Path(folder, f"{module.name}.py").is_fifo()
    ]  # to import a pipe might never end
    return tuple(name for name in dict.fromkeys(found) if not name.startswith("_"))


def _changed(folders: Iterable[str]) -> tuple[int, ...]:
    """When a file was last added to or taken from each of them, as Python's own imports ask."""
    return tuple(map(_when, folders))


def _when(folder: str) -> int:
    try:
        about = os.stat(folder)  # noqa: PTH116 (asked thousands of times)
    except OSError:
        return 0
    return about.st_mtime_ns if stat.S_ISDIR(about.st_mode) else 0


def _imported(name: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # somebody's code may raise anything, or leave
        heed()
        raise UsageError(
            f"the module {_place(name)} cannot be imported ({raised_text(error)}): mend"
            " or uninstall it, or run leakbench from elsewhere."
        ) from error
    if name.startswith((plugins.ONE, plugins.SEVERAL)):
        plugins.plugin_unchanged(module)
    return module


def _place(module: str) -> str:
    """A module as people know it: a plugin by its file."""
    if not module.startswith((plugins.ONE, plugins.SEVERAL)):
        return repr(module)
    return next((str(p) for n, p in plugins.plugin_files().items() if n == module), repr(module))


def names(kind: str) -> dict[str, str]:
    """{method name: module}, sorted; of methods only plugins of a single file are imported.

    What is not ours and cannot be imported is said on stderr and left out.

    Raises:
        UsageError: one name is provided twice, or a package of ours is shadowed.
    """
    found: dict[str, str] = {}
    for name, module in _provided(kind):
        if name in found:
            one, other = (_place(m) for m in (found[name], module))
            raise UsageError(
                f"{_ONE[kind]} {name!r} is provided twice, by {one} and {other}; rename one of"
                " the files."
            )
        found[name] = module
    found |= {n: _of_given(cls) for n, cls in _given[kind].items() if n not in found}
    return dict(sorted(found.items()))


def _of_given(method: type[Any]) -> str:
    """The module of what was given: the file whose function made it, or that of its class."""
    return next((m for m, made in _made.items() if made is method), method.__module__)


def _provided(kind: str) -> Iterator[tuple[str, str]]:
    """Names with their modules, one perhaps twice."""
    for package in _packages(kind):
        for folder in dict.fromkeys(
            package.__path__
        ):  # one by one: of two files of a name both are told
            for module in _files((folder,), _changed((folder,))):
                yield _called(kind, module), f"{package.__name__}.{module}"
    for module in plugins.plugin_files():
        try:
            there = _methods(module)
        except UsageError as error:
            leave_out(error)
            continue
        if kind in there:
            yield _called(kind, module.removeprefix(plugins.ONE)), module


def _called(kind: str, module: str) -> str:
    return module.replace("_", "-") if kind == "tasks" else module


def _kind(cls: type[Any]) -> str | None:
    """What a class is by what it derives from; None: no method at all."""
    ours = [c.__name__ for c in cls.__mro__ if c.__module__.startswith("leakbench.")]
    return next((_ROOTS[name] for name in ours if name in _ROOTS), None)


def docs(kind: str) -> dict[str, str]:
    """{method name: its module's docstring}, sorted.

    Read off the sources; a method is imported only where its source does not say which class it is.
    What is not ours and cannot be imported is said on stderr and left out.

    Raises:
        UsageError: as for ``names``; and as for ``load_plugin`` of what is imported.
    """
    return dict(_usable(kind, lambda name, module: _doc(kind, name, module)))


def every(kind: str) -> dict[str, type[Any]]:
    """{method name: its class}, sorted.

    What is not ours and cannot be imported is said on stderr and left out.

    Raises:
        UsageError: as for ``names``; and as for ``load_plugin`` of what is ours.
    """
    return dict(_usable(kind, lambda name, _: load_plugin(kind, name)))


def _usable(kind: str, read: Callable[[str, str], Any]) -> Iterator[tuple[str, Any]]:
    for name, module in names(kind).items():
        try:
            yield name, read(name, module)
        except UsageError as error:
            if module.rpartition(".")[0] in OURS:
                raise
            leave_out(error)


def _doc(kind: str, name: str, module: str) -> str:
    try:
        source = module_text.read_module(module)
    except module_text.Unsaid:
        source = None
    if source is not None and len(source.classes) == 1:
        return source.doc
    return inspect.getdoc(inspect.getmodule(load_plugin(kind, name))) or ""


def attributes(kind: str, which: str) -> dict[str, Any]:
    """{method name: a class attribute of it}, sorted; imported only where no source says it.

    What is not ours and cannot be imported is said on stderr and left out.

    Raises:
        UsageError: as for ``names``; and as for ``load_plugin`` of what is ours.
    """
    return dict(_usable(kind, lambda name, _: attribute(kind, name, which)))


def attribute(kind: str, name: str, which: str) -> Any:
    """A class attribute of a method, without importing it where its source says it.

    Raises:
        UnknownName, UsageError: as for ``load_plugin``.
    """
    try:
        source = module_text.read_module(names(kind)[name])
        (cls,) = source.classes
        return module_text.attribute_in_text(source.name, cls.name, which)
    except (KeyError, ValueError, module_text.Unsaid):
        return getattr(load_plugin(kind, name), which)


def plugged(kind: str) -> list[str]:
    """The names of plugins: what is neither ours nor installed."""
    marks = (plugins.ONE, plugins.SEVERAL)
    return [name for name, module in names(kind).items() if module.startswith(marks)]


def meant(kind: str, name: str) -> str:
    """The method's own name; hyphens and underscores are alike.

    Raises:
        UnknownName: there is no such method.
    """
    return _meant(kind, name, names(kind))


def _meant(kind: str, name: str, known: Mapping[str, str]) -> str:
    found = among(name, known)
    if found not in known:
        more = " A file of your own is named with --plugin."
        if kind == "tasks":
            more += " What leakbench.task or observe made in Python is to be made again first."
        raise UnknownName(_ONE[kind], name, known, more)
    return found


def load_plugin(kind: str, name: str) -> type[Any]:
    """The public class that the method's module defines, of a plugin's file the one of its kind.

    Raises:
        UnknownName: there is no such method.
        UsageError: the module does not define exactly one.
    """
    known = names(kind)
    found = _meant(kind, name, known)
    module = known[found]
    if found in _given[kind]:
        return _given[kind][found]
    if module.startswith(plugins.ONE):
        return _methods(module)[kind]
    own = _classes(module)
    if len(own) != 1:
        raise UsageError(
            f"{_imported(module).__file__} must define exactly one public class, the {_ONE[kind]};"
            f" it defines {[c.__name__ for c in own]}."
        )
    return own[0]


def _task_made(module: str) -> type[Any] | None:
    """The task that a plugin's function ``task`` makes, once in a process; None without one.

    Raises:
        UsageError: it fails, or makes something else than ``leakbench.task`` does.
    """
    maker = vars(_imported(module)).get("task")
    if not inspect.isfunction(maker) or maker.__module__ != module or module in _making:
        return None
    if module not in _made:
        _making.add(module)
        try:
            _made[module] = maker()
        except UsageError:
            raise
        except (Exception, SystemExit) as error:  # somebody's code may raise anything
            heed()
            raise UsageError(
                f"the function task of {_place(module)} failed ({raised_text(error)}): expected it"
                " to return leakbench.task(name, data, model=...)."
            ) from error
        finally:
            _making.discard(module)
    made: Any = _made[module]
    if made not in _given["tasks"].values():
        raise UsageError(
            f"the function task of {_place(module)} returns {type(made).__name__}: expected what"
            " leakbench.task(name, data, model=...) gives."
        )
    return made


_made: dict[str, Any] = {}  # {module of a plugin: what its function ``task`` returned}
_making: set[str] = set()  # those whose function is at work


def task_in(path: str | Path) -> str:
    """The name of the task that the file ``path`` defines, which is found from here on.

    Raises:
        UsageError: there is no such file, or it defines no task.
    """
    plug(path)
    module = f"{plugins.ONE}{Path(path).stem}"
    made = _task_made(module)
    if made is not None:
        return next(name for name, cls in _given["tasks"].items() if cls is made)
    if "tasks" not in _methods(module):
        raise UsageError(
            f"{path} defines no task: expected a function task() that returns"
            " leakbench.task(name, data, model=...), or a class derived from Task."
        )
    return _called("tasks", Path(path).stem)


def _methods(module: str) -> dict[str, type[Any]]:
    """{kind: class} of a plugin's file: one or more methods, at most one of each kind.

    Raises:
        UsageError: it cannot be imported, holds no method, or several of one kind.
    """
    own, found = _classes(module), dict[str, type[Any]]()
    for cls in own:
        kind = _kind(cls)
        if kind in found:
            raise UsageError(
                f"{_place(module)} must define one public {_ONE[kind]} at most, which is named"
                f" after the file; it defines {found[kind].__name__} and {cls.__name__}. Let the"
                " name of one begin with _, or give it a file of its own."
            )
        if kind is not None:
            found[kind] = cls
    if _task_made(module) is not None or module in _making:
        return found
    if not found:
        raise UsageError(
            f"{_place(module)} defines no public method"
            f"{f' (but {[c.__name__ for c in own]})' if own else ''}: derive a class from one of"
            f" {', '.join(_ROOTS)}, or let a function task() return leakbench.task(...)."
        )
    return found


def _classes(module_name: str) -> list[type[Any]]:
    """The public classes that a module defines, of those that may be methods.

    Raises:
        UsageError: it cannot be imported.
    """
    from leakbench.base.spec import Spec

    module = _imported(module_name)
    # By type(), not isinstance: that would load a module which waits for its first use.
    public = [
        v for n, v in vars(module).items() if issubclass(type(v), type) and not n.startswith("_")
    ]
    own = [v for v in public if issubclass(v, Spec) and v.__module__ == module.__name__]
    return list(dict.fromkeys(own))  # one may have two names
