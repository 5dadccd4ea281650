"""Is another machine fit for our jobs? The same code, the same plugins, and perhaps our disk."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

from leakbench.base import plugins, provenance, sources
from leakbench.base.errors import UsageError

DATA = "LEAKBENCH_DATA"
OWN = "the user's own folder of plugins"


@dataclass(frozen=True)
class NodeCode:
    """What decides a run's bytes on a node: {what: digest or version}, and {plugin: digest}."""

    node: str
    versions: dict[str, str]
    plugins: dict[str, str]


@cache
def name() -> str:
    """This machine's name."""
    return platform.node() or "without a name"


def code() -> NodeCode:
    """Of this machine; the sources are read once in a process."""
    return NodeCode(name(), {"source": _ours(), **provenance.versions()}, dict(_plugins()))


@cache
def _ours() -> str:
    """SHA-256 of all our sources, as they are imported here."""
    sha = hashlib.sha256()
    for package in sorted(sources.OURS):
        spec = find_spec(package)
        for folder in sorted(spec.submodule_search_locations or []) if spec else []:
            _add(sha, package, Path(folder))
    return sha.hexdigest()


def _add(sha: hashlib._Hash, name: str, place: Path) -> None:
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        source = path.read_bytes().replace(b"\r\n", b"\n")
        inside = path.relative_to(place).as_posix() if place.is_dir() else path.name
        sha.update(f"{name}/{inside}\0{len(source)}\0".encode() + source)


def _plugins() -> Iterator[tuple[str, str]]:
    """(its path, its digest): "" where it is not there."""
    for path in named():
        yield path, _digest(Path(path))
    yield OWN, _digest(plugins.folder())
    for point in _packages():
        spec = find_spec(point)
        for folder in (spec.submodule_search_locations if spec else None) or []:
            yield f"{point} (a package)", _digest(Path(folder))


def _packages() -> list[str]:
    """The installed packages that bring plugins of their own."""
    return sorted(
        {p.module for kind in plugins.KINDS for p in entry_points(group=f"leakbench.{kind}")}
    )


def named() -> list[str]:
    """The plugins that were named, by their whole paths."""
    given = os.environ.get(plugins.VARIABLE, "").split(os.pathsep)
    return [str(Path(p).absolute()) for p in given if p]


def _digest(place: Path) -> str:
    if not place.exists():
        return ""
    sha = hashlib.sha256()
    _add(sha, "", place)
    return sha.hexdigest()


def environment() -> dict[str, str]:
    """What workers must be told of our environment: where plugins and data are."""
    out = {plugins.VARIABLE: os.pathsep.join(named())}
    if os.environ.get(DATA):
        out[DATA] = str(Path(os.environ[DATA]).absolute())
    return out


def unlike(ours: NodeCode, theirs: NodeCode) -> str:
    """Why a node must not do our jobs, in a sentence; "" where it may."""
    for what, version in ours.versions.items():
        found = theirs.versions.get(what, "none")
        if found != version and what == "source":
            return (
                f"node {theirs.node} has other sources of leakbench ({found[:8]}) than"
                f" {ours.node} ({version[:8]}): install the same there, and begin Ray anew."
            )
        if found != version:
            return (
                f"node {theirs.node} has {what} {found}, and {ours.node} has {version}: install the"
                " same there, and begin Ray anew."
            )
    for plugin in sorted({*ours.plugins, *theirs.plugins}):
        digest, found = ours.plugins.get(plugin, ""), theirs.plugins.get(plugin, "")
        if found != digest:
            how = f"has the plugin {plugin} in another version"
            if not found:
                how = f"lacks the plugin {plugin}"
            elif not digest:
                how = f"has the plugin {plugin}, which is not here"
            return (
                f"node {theirs.node} {how}: put it where every node sees the same file, or install"
                f" the same package (this is {ours.node})."
            )
    return ""


def sees(folder: str, marks: dict[str, str]) -> bool:
    """Is ``folder`` here the one in which the machine that asks left a mark?"""
    try:
        return folder in marks and Path(folder, marks[folder]).is_file()
    except OSError:
        return False


def new_mark() -> str:
    """The name of a file by which a worker knows that it sees our disk; it says whose it is."""
    return f"{_marks()}{os.getpid()}-{uuid4().hex}"


def _marks() -> str:
    return f".leakbench-ray-{hashlib.sha256(name().encode()).hexdigest()[:12]}-"


def mark(folder: Path, name: str) -> None:
    """Leave a mark in it; what killed processes of this machine left goes, folders too.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
        for path in folder.glob(f"{_marks()}*"):
            if _lives(path.name.removeprefix(_marks()).partition("-")[0]):
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
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
