"""A job that writes into one folder, told in such a way that another machine can do it.

A machine that sees the folder works in it. One that does not gets what it needs of it, works in a
folder of its own, and sends back what came of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from leakbench.base.jobs import Job


def swap(fresh: Path, folder: Path) -> None:
    """Put the folder ``fresh`` in the place of ``folder``, which may be there, in two renames."""
    import shutil

    old = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


@dataclass(frozen=True)
class Needs:
    """What of folders is sent to a job.

    ``only``: names below its own folder, None: all. ``others``: names of folders beside it whose
    run.json goes along, for the run may be one of them.
    """

    only: tuple[str, ...] | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class FolderJob(Job):
    """A job that reads and writes ``folder``.

    Args:
        where: the one of ``args`` that leads there: ``folder`` itself, or the folder around it.
        folder: what it writes, whether it is there already or not.
        needs: says what a machine needs that cannot see it, asked where the job is given out; None:
            all of it.
        back: the one folder below it that the job writes, or "" for all of it.
        put: puts what came back, a folder, in the place of another.
    """

    where: str = ""
    folder: Path = Path()
    needs: Callable[[], Needs] | None = None
    back: str = ""
    put: Callable[[Path, Path], Any] = swap

    @property
    def around(self) -> Path:
        """The folder that ``folder`` lies in."""
        return self.folder.parent

    def at(self, around: Path) -> FolderJob:
        """The same job where its folder lies in ``around``."""
        inside = os.path.relpath(self.where, self.around)
        there = str(around if inside == os.curdir else around / inside)
        args = tuple(there if a == self.where and isinstance(a, str) else a for a in self.args)
        return replace(self, args=args, where=there, folder=around / self.folder.name)


def told(value: Any, there: Path, here: Path) -> Any:
    """What a job returned or said, with every path below ``there`` as one below ``here``."""
    if isinstance(value, str):
        return value.replace(str(there), str(here))
    if isinstance(value, Path):
        return here / value.relative_to(there) if value.is_relative_to(there) else value
    if isinstance(value, tuple | list):
        return type(value)(told(v, there, here) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{f.name: told(getattr(value, f.name), there, here) for f in fields(value)}
        )
    return value
