"""Which code and data a number came from: the digest of modules and of all that they rest on.

docs/formats.md ("What is in a digest") has the rule.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

from leakbench.base import code_folders, hashed_source, opened, plugins
from leakbench.base.errors import UsageError
from leakbench.base.files import file_digest as digest_of_file

OURS = code_folders.OURS
METHODS = OURS - {"leakbench"}
_QUOTED = re.compile(r"""["']([^"'\n]{2,200})["']""")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_FILE = re.compile(r"[^/*?\[\]]*\.[A-Za-z0-9_]{1,15}")  # the last part of a path to a file
MANY = 1_000  # files that one text may stand for
DEEP = 2  # folders in one another that a source names one by one
CHANGED = "0" * 64  # the digest of no file
SMALL = 2**18  # bytes of a file of text that may name others


@dataclass(frozen=True)
class ModuleFile:
    """A module that a digest reaches: its name, where it lies, and whom it may rest on."""

    name: str
    path: Path

    @property
    def top(self) -> str:
        """The package that it is in, or itself."""
        return self.name.split(".")[0]

    @property
    def package(self) -> str:
        """What a relative import begins at."""
        inside = self.path.name == "__init__.py"
        return self.name if inside else self.name.rpartition(".")[0]

    @property
    def ours(self) -> bool:
        """Does it come with leakbench?"""
        return self.top in OURS


def sources_digest(modules: Iterable[str], but: Iterable[str] = ()) -> str:
    """SHA-256 over the sources of ``modules`` and of all that they rest on, by the rule.

    Args:
        modules: dotted names; a package stands for every module in it.
        but: what these rest on has a digest of its own, and is left out.

    Raises:
        UsageError: a module has no source file, or was changed since it was imported.
    """
    found = _reached(tuple(sorted(set(modules))))
    left_out = _reached(tuple(sorted(set(but)))) if but else {}
    sha = hashlib.sha256()
    for name, said in sorted(found.items()):
        if name in left_out:
            continue
        data = said.encode() if isinstance(said, str) else _bytes(said)
        sha.update(f"{name}\0{len(data)}\0".encode() + data)
    return sha.hexdigest()


def _bytes(path: Path) -> bytes:
    if path.suffix not in (".py", ".pyi"):
        return path.read_bytes()
    hashed_source.sources_unchanged([path])
    # Line ends are those of the checkout, not of the code.
    return path.read_bytes().replace(b"\r\n", b"\n")


def opened_by(modules: Iterable[str]) -> dict[str, str]:
    """{file: SHA-256} of what code below ``modules`` opened in this process, and is still there.

    But for what is in their digests anyway, and for installed packages. A file is named by the
    module and by its place beside it. One that was changed since it was opened has the digest of no
    file, so that the number is one of other code from now on.
    """
    out: dict[str, str] = {}
    if not any(opened.by.values()):
        return out  # at once: what a module reaches takes long to find
    for module in modules:
        try:
            known = _reached((module,))
        except UsageError:  # as in a notebook: there is no place beside it
            continue
        counted = {os.path.realpath(p) for p in known.values() if isinstance(p, Path)}
        heard: dict[str, opened.Stamp] = {}
        for name in known:
            heard |= opened.by.get(name, {})
        for path in sorted(p for p in heard if os.path.realpath(p) not in counted and _counts(p)):
            place = os.path.relpath(path, _folder(module))
            name = path if place.startswith("..") else Path(place).as_posix()
            same = opened.stamp(path) == heard[path]
            out[f"{module}:{name}"] = _content(path) if same else CHANGED
    return {name: sha for name, sha in out.items() if sha}


def opened_now(made: Iterable[str]) -> dict[str, str]:
    """{file: SHA-256} as they are today, of those among ``made`` that ``opened_by`` named.

    "" where one is not there, or its module is not.
    """
    named = ((name, *name.partition(":")[::2]) for name in made if ":" in name)
    return {name: _content(str(Path(_folder(module), place))) for name, module, place in named}


def _folder(module: str) -> Path:
    path = _file(module)
    return Path() if path is None else path.absolute().parent


def _counts(path: str) -> bool:
    if path.startswith(("/proc/", "/sys/", "/dev/")):
        return False
    return not code_folders.installed(path) and not code_folders.comes_with_leakbench(path)


def _content(path: str) -> str:
    try:
        about = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(about.st_mode):
            return ""
        return _once(path, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    except OSError:
        return ""


@lru_cache(maxsize=1024)
def _once(path: str, *_stamp: int) -> str:
    return digest_of_file(Path(path))


def _reached(modules: tuple[str, ...]) -> dict[str, Path | str]:
    """{what: its file, or what is known of it} of ``modules`` and of what they rest on."""
    found: dict[str, Path | str] = {}
    file = cache(_file)  # most is imported by many
    todo: list[tuple[str, Path | None]] = [(name, file(name)) for name in modules]
    for name, path in todo:
        if path is None:
            raise UsageError(f"the module {name!r} has no source file that could be compared.")
    whole = set(modules)
    while todo:
        name, path = todo.pop()
        if name in found or path is None:
            continue
        found[name], module = path, ModuleFile(name, path)
        if path.name == "__init__.py" and name in whole:
            beside = sorted(p for p in path.parent.glob("*.py") if p != path)
            todo += [(f"{name}.{p.stem}", p) for p in beside]
            inner = [p.parent.name for p in sorted(path.parent.glob("*/__init__.py"))]
            todo += [(f"{name}.{p}", file(f"{name}.{p}")) for p in inner]
            whole |= {f"{name}.{p}" for p in inner}
        if path.suffix != ".py":
            continue
        changed = path.stat().st_ctime_ns
        opens = _opened(module, _Text.of(path, changed))
        found |= {f"{name}: {_place(p, path)}": p for p in opens}
        for needed, names in _imported(module, changed):
            top = needed.split(".")[0]
            if top in METHODS and not module.ours and top not in whole:
                whole.add(top)
                found.pop(top, None)
                todo.append((top, file(top)))
            there = file(needed) if module.ours else _beside(module, needed) or file(needed)
            if there is not None:
                todo += [(needed, there), *_shown(needed, there, names, found)]
            elif not module.ours:
                found |= _installed(needed)
    return found


@dataclass(frozen=True)
class _Text:
    """What stands in a source: names with dots in them, imports, and what it quotes.

    Of the quotes ``files`` are those that may name some, and ``folders`` those that may name one.
    """

    dotted: frozenset[str]
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    quoted: tuple[str, ...]
    files: tuple[str, ...]
    folders: tuple[str, ...]

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, path: Path, _changed: int) -> _Text:
        source = path.read_bytes()
        text = source.decode(errors="replace")
        dotted = frozenset(_DOTTED.findall(text))
        quoted = tuple(dict.fromkeys(_QUOTED.findall(text)))
        folders = tuple(said for said in quoted if said.replace("/", "").isidentifier())
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):  # its bytes count; nobody can run it
            tree = ast.Module([], [])
        imports = (n for n in _statements(tree) if isinstance(n, ast.Import | ast.ImportFrom))
        return cls(dotted, tuple(imports), quoted, _patterns(quoted), folders)

    def asked(self, name: str) -> frozenset[str]:
        """What of something called ``name`` is asked for, as in `name.what`."""
        inside = f"{name}."
        found = (d.removeprefix(inside) for d in self.dotted if d.startswith(inside))
        return frozenset(rest.split(".")[0] for rest in found)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement below ``node``: an import is one, so expressions need not be searched."""
    for below in ast.iter_child_nodes(node):
        if isinstance(below, ast.stmt | ast.excepthandler | ast.match_case):
            yield below
            yield from _statements(below)


@lru_cache(maxsize=4096)
def _imported(module: ModuleFile, changed: int) -> list[tuple[str, frozenset[str]]]:
    """The modules that a source may mean, each with the names that it wants of it.

    In its imports, wherever they stand, and in quotes. Of ours those of its own package and of
    leakbench count; versions say what others are. ``changed``: when the source was.
    """
    text, out = _Text.of(module.path, changed), []
    for name, names in [*_in_imports(module, text), *_in_quotes(module, text)]:
        top = name.split(".")[0]
        if not module.ours or top in (module.top, "leakbench"):
            out.append((name, names))
    return out


def _in_imports(module: ModuleFile, text: _Text) -> Iterator[tuple[str, frozenset[str]]]:
    for node in text.imports:
        if isinstance(node, ast.ImportFrom):
            base = _base(node, module.package)
            yield base, frozenset(alias.name for alias in node.names)
        for alias in node.names:
            # A name that is imported from a package may be a module.
            name = f"{base}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            called = alias.asname or alias.name
            yield name, text.asked(called)
            if isinstance(node, ast.Import):
                top = called.split(".")[0]
                yield name.split(".")[0] if top != called else name, text.asked(top)
                yield from (
                    (f"{name}.{a}", text.asked(f"{called}.{a}")) for a in text.asked(called)
                )


def _in_quotes(module: ModuleFile, text: _Text) -> Iterator[tuple[str, frozenset[str]]]:
    """As in import_module("helper"), import_module(".helper", __package__)."""
    for said in text.quoted:
        if all(part.isidentifier() for part in said.removeprefix(".").split(".")):
            inside = f"{module.package}{said}" if said.startswith(".") else said
            if "." in said or not module.ours:
                yield inside, frozenset()


def _base(node: ast.ImportFrom, package: str) -> str:
    """The module that names are imported from."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    above = ".".join(parts[: len(parts) - node.level + 1])
    return f"{above}.{node.module}" if node.module else above


def _shown(
    face: str, path: Path, names: frozenset[str], found: dict[str, Path | str]
) -> list[tuple[str, Path | None]]:
    """The modules behind ``names`` of a face (a package with a stub), all of them for "*".

    A face loads them when they are first asked for. What it calls them is told, too, in ``found``.
    """
    stub = path.with_suffix(".pyi")
    if path.name != "__init__.py" or not stub.is_file():
        return []
    out = []
    for node in _Text.of(stub, stub.stat().st_ctime_ns).imports:
        for alias in node.names:
            called = alias.asname or alias.name
            if isinstance(node, ast.ImportFrom) and ({called, "*"} & names):
                base = _base(node, face)
                found[f"{face}: {called}"] = f"{base}.{alias.name}"
                shown = (f"{base}.{alias.name}", base)
                out += [(name, _file(name)) for name in shown if name != face]
    return out


def _opened(module: ModuleFile, text: _Text) -> list[Path]:
    """The files that a source names in quotes, beside it or beside its package, or in a folder.

    The folder is one that the source names, too. What a small file of text names beside itself
    counts as well, as a list of files does. ``{...}`` stands for anything, as in an f-string.
    """
    if not text.files:
        return []
    near = list(dict.fromkeys([module.path.parent, module.path.resolve().parent]))
    if "." in module.name:
        top = _file(module.top)
        near += [top.parent] if top and top.name == "__init__.py" else []
    folders = [str(folder) for folder in near]
    for _ in range(DEEP):
        inside = (f"{f}/{d}" for f in folders for d in text.folders)
        folders = [*folders, *(d for d in inside if os.path.isdir(d))]  # noqa: PTH112 (faster)
    found: dict[Path, None] = {}
    todo = _named_in(dict.fromkeys(folders), text.files)
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found[path] = None
        if path.suffix not in (".py", ".pyi") and path.stat().st_size <= SMALL:
            quoted = _QUOTED.findall(path.read_bytes().decode(errors="replace"))
            todo += _named_in([str(path.parent)], _patterns(quoted))
    return sorted(found)


def _place(path: Path, source: Path) -> str:
    return Path(os.path.relpath(path, source.parent)).as_posix()


def _patterns(quoted: Iterable[str]) -> tuple[str, ...]:
    """Those of the quotes that may name a file."""
    out = []
    for said in dict.fromkeys(quoted):
        pattern = re.sub(r"\{[^}]*\}", "*", said)
        last = pattern.rpartition("/")[2]
        if not _FILE.fullmatch(last.replace("*", "")) or pattern.startswith("/"):
            continue
        if last.endswith((".py", ".pyi", ".pyc")) and ("*" in last or last.startswith("__")):
            continue  # code is imported
        out.append(pattern)
    return tuple(out)


def _named_in(folders: Iterable[str], patterns: Iterable[str]) -> list[Path]:
    folders = list(folders)
    return [path for said in patterns for f in folders for path in _matching(f, said)]


def _matching(folder: str, pattern: str) -> list[Path]:
    try:
        if "*" not in pattern:
            there = os.path.isfile(f"{folder}/{pattern}")  # noqa: PTH113 (of thousands, faster)
            return [Path(folder, pattern)] if there else []
        found = sorted(p for p in Path(folder).glob(pattern) if p.is_file())
    except (OSError, ValueError, NotImplementedError):
        return []
    return found[:MANY]


def _beside(module: ModuleFile, name: str) -> Path | None:
    """What somebody's own module finds beside itself, once that folder is where Python looks."""
    return _in([module.path.parent], name.split("."))


def _installed(name: str) -> dict[str, Path | str]:
    """The version of a package that somebody's own module imports."""
    top = name.split(".")[0]
    if top in sys.stdlib_module_names or top in OURS:
        return {}
    return {f"{d}: version": version(d) for d in _distributions().get(top, ())}


@cache
def _distributions() -> dict[str, tuple[str, ...]]:
    return {top: tuple(sorted(set(d))) for top, d in packages_distributions().items()}


def _file(name: str) -> Path | None:
    """The source of a module that is no installed one's; None where there is none.

    Nothing is imported.
    """
    first, *inner = name.split(".")
    if first in sys.stdlib_module_names:
        return None
    try:
        spec = find_spec(first)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    methods = first in OURS or first in plugins.packages
    if not methods and spec.origin and code_folders.installed(spec.origin):
        return None
    if not inner:
        return Path(spec.origin) if spec.origin and _is_code(spec.origin) else None
    # A package that is loaded may look into further folders, as for a method of one's own.
    folders = getattr(sys.modules.get(first), "__path__", spec.submodule_search_locations)
    return _in([Path(f) for f in folders or []], inner)


def _in(folders: Iterable[Path], inner: list[str]) -> Path | None:
    for folder in folders:
        path = "/".join((str(folder), *inner))
        for end in ("/__init__.py", ".py", *EXTENSION_SUFFIXES):
            if os.path.isfile(path + end):  # noqa: PTH113 (of thousands, faster)
                return Path(path + end)
    return None


def _is_code(path: str) -> bool:
    return path.endswith((".py", *EXTENSION_SUFFIXES))
