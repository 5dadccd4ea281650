"""Methods of somebody's own that are not installed: files and folders named to leakbench.

They are named by `--plugin`, by the environment variable ``LEAKBENCH_PLUGINS`` (paths joined as in
PATH), or lie in the folder `plugins` of the user's configuration. A file holds one method, or one
of each kind, all named after it. A folder holds such files, or `defenses`, `attacks`, `wrappers`,
`tasks`, `utilities` and `reports` with files of one method in them.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from leakbench.base import hashed_source
from leakbench.base.errors import UsageError

KINDS = ("defenses", "attacks", "wrappers", "tasks", "utilities", "reports")
VARIABLE = "LEAKBENCH_PLUGINS"
# The packages that hold methods: ours, and (see ``registry``) those that are installed.
packages = {"defenses", "attacks", "reports", "leakbench.tasks", "leakbench.utilities"}
ONE, SEVERAL = "leakbench_plugin_", "leakbench_plugins_"  # the modules are called so


def folder() -> Path:
    """Where plugins lie that need not be named."""
    return _configured(os.environ.get("XDG_CONFIG_HOME"), os.environ.get("HOME"))


@lru_cache(maxsize=16)
def _configured(*_asked: str | None) -> Path:
    """What the variables say that it depends on; every name that is looked up asks for it."""
    from platformdirs import user_config_path

    return user_config_path("leakbench") / "plugins"


def use(path: str | Path) -> Path:
    """Look for methods in the file or folder ``path``, too, here and in processes started later.

    Returns where it is.

    Raises:
        UsageError: there is no such file or folder, or it is no Python file.
    """
    place = str(_there(Path(path).expanduser().absolute(), "--plugin"))
    given = Path(place)
    inside = [*given.glob("[!_]*.py"), *(given / kind for kind in KINDS if (given / kind).is_dir())]
    if given.name.startswith("_") or (given.is_dir() and not inside):
        raise UsageError(
            f"--plugin names {place}, where there is no method: files that begin with _ are none,"
            f" and folders are called {', '.join(KINDS)}."
        )
    if os.pathsep in place:
        raise UsageError(f"{place} has {os.pathsep!r} in its name, which separates plugins.")
    known = [p for p in os.environ.get(VARIABLE, "").split(os.pathsep) if p]
    if place not in known:
        os.environ[VARIABLE] = os.pathsep.join([*known, place])
    return given


def plugin_files() -> dict[str, Path]:
    """{module: the file} of the files that hold methods of whichever kind.

    Raises:
        UsageError: a path that was named is not there, or two files have one name.
    """
    found: dict[str, Path] = {}
    for place in _places():
        for path in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            if path.name.startswith("_") or not path.is_file():  # a pipe might never begin
                continue
            module = f"{ONE}{path.stem}"
            if found.setdefault(module, path) != path:
                raise UsageError(
                    f"the plugins {found[module]} and {path} have one name; rename one of them."
                )
    return found


def package(kind: str) -> ModuleType | None:
    """The package of all that lies in folders called ``kind``; None where there are none.

    Raises:
        UsageError: as for ``plugin_files``.
    """
    name = f"{SEVERAL}{kind}"
    if not _folders(kind):
        return None
    made = importlib.import_module(name)
    made.__path__ = _folders(kind)  # there may be more of them than when it was imported
    return made


def plugin_unchanged(module: ModuleType) -> None:
    """The file of a plugin, and those beside it, still say what was imported.

    Raises:
        UsageError: one was changed since this process imported it.
    """
    path = getattr(module, "__file__", None)
    if path is not None:
        beside = f"{Path(path).absolute().parent}{os.sep}"
        hashed_source.sources_unchanged(
            [Path(p) for p in hashed_source.ran if p.startswith(beside)]
        )


def _places() -> list[Path]:
    named = [p for p in os.environ.get(VARIABLE, "").split(os.pathsep) if p]
    places = [_there(Path(p).absolute(), VARIABLE) for p in named]
    own = folder()
    found = list(dict.fromkeys([*places, *([own] if own.is_dir() else [])]))
    _beside.update(dict.fromkeys(str(p if p.is_dir() else p.parent) for p in found))
    return found


def _there(path: Path, by: str) -> Path:
    if path.is_dir() or (path.is_file() and path.suffix == ".py"):
        return path
    what = "is no Python file" if path.is_file() else "is not there"
    raise UsageError(
        f"{by} names {path}, which {what}. Name a .py file with a method, or a folder of them."
    )


def _folders(kind: str) -> list[str]:
    return [str(p / kind) for p in _places() if (p / kind).is_dir()]


class _Finder(MetaPathFinder):
    """Finds the modules of methods, and what lies beside plugins, for Python's own imports."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith(ONE):
            file = plugin_files().get(name)
            loader = hashed_source.HashedSource(name, str(file))
            return spec_from_file_location(name, file, loader=loader) if file else None
        if name.startswith(SEVERAL) and "." not in name:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = _folders(name.removeprefix(SEVERAL))
            return spec
        if not packages.isdisjoint(_upwards(name)):
            return hashed_source.find_source(name, path)
        return hashed_source.find_source(name, path, _beside) if _beside else None


_beside: dict[str, None] = {}  # the folders in which plugins lay so far, all that is in them


def _upwards(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


def sources() -> Iterator[str]:
    """Where plugins are looked for, each in words."""
    yield from (str(p) for p in _places() if p != folder())
    yield f"{folder()}{'' if folder().is_dir() else ' (not there)'}"


if not any(type(f).__name__ == _Finder.__name__ for f in sys.meta_path):
    # Before Python's own, which takes what is cached.
    own = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
    sys.meta_path.insert(own, _Finder())
