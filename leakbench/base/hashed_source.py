"""Modules of methods are compiled from the bytes that are hashed, never taken from a cache.

Python knows a cached one by the time and the size of its source. A source of the same size, written
in the same second, would run as the old one under the digest of the new.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType

from leakbench.base import opened
from leakbench.base.code_folders import comes_with_leakbench, installed, within
from leakbench.base.errors import UsageError

ran: dict[str, str] = {}  # file -> SHA-256 of what of it was compiled in this process


class HashedSource(SourceFileLoader):
    """Compiles a module from its source, and remembers which bytes these were."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module, from its file's bytes."""
        path = self.get_filename(fullname)
        source = self.get_data(path)
        ran[os.path.abspath(path)] = hashlib.sha256(source).hexdigest()  # noqa: PTH100
        if not comes_with_leakbench(path):
            opened.listen_to(fullname)
        return self.source_to_code(source, path)


def find_source(
    name: str, path: Sequence[str] | None, below: Collection[str] | None = None
) -> ModuleSpec | None:
    """Python's own finding of a method's module: any, or one that lies in a folder of ``below``.

    Raises:
        ImportError: it is compiled code without its source.
    """
    if below is not None and path is not None and not any(within(p, below) for p in path):
        return None
    spec = PathFinder.find_spec(name, path)
    if spec is None or not spec.origin:
        return spec
    if below is not None and (not within(spec.origin, below) or installed(spec.origin)):
        return spec
    if isinstance(spec.loader, SourcelessFileLoader):
        raise ImportError(
            f"{spec.origin} is compiled code without its source, which nobody can compare: put the"
            f" source {name.rpartition('.')[2]}.py in its place"
        )
    if type(spec.loader) is SourceFileLoader:
        spec.loader = HashedSource(name, spec.origin)
        spec.cached = None
    return spec


def sources_unchanged(paths: Collection[Path]) -> None:
    """The files still say what was compiled.

    Else a number would be made by the one and marked by the digest of the other.

    Raises:
        UsageError: one was changed since this process imported it.
    """
    for path in paths:
        then = ran.get(os.path.abspath(path))  # noqa: PTH100
        if then and path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != then:
            raise UsageError(
                f"the plugin {path} was changed since it was imported: start Python (in a notebook"
                " the kernel) anew, so that what runs is what the file says."
            )
