"""Is another machine fit for our jobs? It has the same code and plugins, and sees our folders."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

from leakbench.base import plugins, provenance, sources
from leakbench.base.errors import UsageError

DATA = "LEAKBENCH_DATA"
NONE = "none"


@dataclass(frozen=True)
class Wanted:
    """What the machine ``node`` has that gives jobs out, and wants of those that take them.

    ``code``: as ``code`` says. ``marks``: {folder: the name of a file that lies in it}.
    """

    node: str
    code: Mapping[str, str]
    marks: Mapping[str, str]

    def refused(self) -> str:
        """Why this machine must not do its jobs, in a sentence; "" where it may."""
        return self.unlike(name(), node_code()) or self.unseen()

    def unlike(self, node: str, found: Mapping[str, str]) -> str:
        """What ``node`` has in another version: it might give other numbers, unseen."""
        for what in {**self.code, **found}:
            here, there = self.code.get(what, NONE), found.get(what, NONE)
            if here != there:
                return (
                    f"node {node} has {what}: {there}, and {self.node} has {what}: {here}. Put the"
                    " same on every node, and begin Ray anew."
                )
        return ""

    def unseen(self) -> str:
        """Which folder is not here what it is there."""
        for folder, mark in self.marks.items():
            if not os.path.lexists(Path(folder, mark)):
                return (
                    f"Ray's nodes write into one folder, and node {name()} does not see what"
                    f" {self.node} has at {folder}: choose a folder on a disk that every node has"
                    " at the same path."
                )
        return ""


@cache
def name() -> str:
    """This machine's name."""
    return platform.node() or "without a name"


def node_code() -> dict[str, str]:
    """What decides a run's bytes on this machine: {what: its version, or the start of a digest}."""
    found = {"sources of leakbench": _ours(), **provenance.versions()}
    for path in (*named_nodes(), str(plugins.folder())):
        found[f"plugin {path}"] = _digest([Path(path)])
    groups = [entry_points(group=f"leakbench.{kind}") for kind in plugins.KINDS]
    for package in sorted({point.module for group in groups for point in group}):
        found[f"plugins of the package {package}"] = _digest(_folders(package))
    return found


@cache
def _ours() -> str:
    """Of all our sources as they are imported here, read once in a process."""
    return _digest(folder for package in sorted(sources.OURS) for folder in _folders(package))


def _folders(package: str) -> list[Path]:
    spec = find_spec(package)
    return [Path(p) for p in sorted(spec.submodule_search_locations or [])] if spec else []


def _digest(places: Iterable[Path]) -> str:
    sha, found = hashlib.sha256(), False
    for place in places:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            if path.is_file():
                source, found = path.read_bytes().replace(b"\r\n", b"\n"), True
                inside = path.relative_to(place.parent).as_posix()
                sha.update(f"{inside}\0{len(source)}\0".encode() + source)
    return sha.hexdigest()[:12] if found else NONE


def named_nodes() -> list[str]:
    """The plugins that were named, by their whole paths."""
    given = os.environ.get(plugins.VARIABLE, "").split(os.pathsep)
    return [str(Path(p).absolute()) for p in given if p]


def environment() -> dict[str, str]:
    """What workers must be told of our environment: where plugins and data are."""
    out = {plugins.VARIABLE: os.pathsep.join(named_nodes())}
    if os.environ.get(DATA):
        out[DATA] = str(Path(os.environ[DATA]).absolute())
    return out


@contextmanager
def marked_nodes(folders: Iterable[Path]) -> Iterator[dict[str, str]]:
    """{folder: a hidden file in it}, by which a worker knows that it sees our disk.

    The files go at the end, and before it those that killed commands of this machine left.

    Raises:
        UsageError: a folder cannot be written.
    """
    marks = {str(f): f"{_marks()}{os.getpid()}-{uuid4().hex}" for f in sorted(set(folders))}
    try:
        for folder, mark in marks.items():
            _leave(Path(folder), mark)
        yield marks
    finally:
        for folder, mark in marks.items():
            with suppress(OSError):  # it could not be left
                Path(folder, mark).unlink()


def _marks() -> str:
    return f".leakbench-ray-{hashlib.sha256(name().encode()).hexdigest()[:12]}-"


def _leave(folder: Path, mark: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / mark).touch()
        for path in folder.glob(f"{_marks()}*"):
            if not _lives(path.name.removeprefix(_marks()).partition("-")[0]):
                path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror or error}. Choose another folder."
        ) from None


def _lives(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
