"""Folders on their way to another machine: their files in pieces of bounded size, each summed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from leakbench.base import locks
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import digest, inside, read_sealed, verify
from leakbench.base.folder_job import FolderJob, Needs

PIECE = 16 * 2**20  # bytes
RUN = "run.json"
Piece = list[tuple[str, bytes]]  # parts of files, in order: a file goes on where it ended


@dataclass(frozen=True)
class Brought:
    """What a job made, told after its pieces.

    ``name``: of its folder, which a record that had to be lowered changes. ``sums``: {name below
    the folder: SHA-256}. ``whole``: these are all files of what it wrote. ``base``: the digest of
    the run.json that was sent, "" where none was.
    """

    name: str
    sums: dict[str, str] = field(default_factory=dict)
    whole: bool = False
    base: str = ""


def names(job: FolderJob) -> list[str]:
    """What is sent, named below the folder around it: nothing beside what the job writes there."""
    found, needs = _visible(job.folder), job.needs() if job.needs else Needs()
    if needs.only is not None:
        found = [n for n in found if n in needs.only]
    if job.back:
        beside, mine = f"{job.back.rpartition('/')[0]}/", f"{job.back}/"
        found = [n for n in found if not n.startswith(beside) or n.startswith(mine)]
    others = [f"{name}/{RUN}" for name in needs.others]
    return [f"{job.folder.name}/{n}" for n in found] + [
        n for n in others if (job.around / n).is_file()
    ]


def _visible(folder: Path) -> list[str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    found = ["/" + p.relative_to(folder).as_posix() for p in files]
    return [name[1:] for name in found if "/." not in name]


def pieces(folder: Path, of: Iterable[str]) -> Iterator[Piece]:
    """The files named ``of``; a piece holds many small ones, or a part of a large one."""
    piece, size = Piece(), 0
    for name in of:
        with (folder / name).open("rb") as file:
            first = True
            while (data := file.read(PIECE - size)) or first:
                first = False
                piece.append((name, data))
                size += len(data)
                if size >= PIECE:
                    yield piece
                    piece, size = [], 0
    if piece:
        yield piece


def unpack(piece: Piece, folder: Path) -> None:
    """Write a piece; they come in order."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in piece:
        path = inside(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)


def sums(folder: Path) -> dict[str, str]:
    """{name: SHA-256} of all files that are not hidden."""
    return {n: digest(folder / n) for n in _visible(folder)}


@dataclass(frozen=True)
class Before:
    """What was sent to a job: the sums of the files around its folder, and what each run lists."""

    sums: dict[str, str]
    listed: dict[str, object]


def before(around: Path) -> Before:
    """Look, before the job begins.

    Raises:
        BrokenFile: a run.json is damaged.
    """
    found = [p for p in sorted(around.iterdir()) if p.is_dir()] if around.is_dir() else []
    return Before(sums(around), {p.name: of_run(p) for p in found})


def changed(job: FolderJob, then: Before) -> Brought:
    """What goes back, now that the job is done."""
    now = sums(job.around)
    fresh = [n for n in now if then.sums.get(n) != now[n]]
    gone = [n for n in then.sums if n not in now]
    touched = {n.partition("/")[0] for n in (*fresh, *gone)}
    name = next(iter(touched - {job.folder.name}), job.folder.name)
    top = f"{name}/{job.back}/" if job.back else f"{name}/"
    base = then.sums.get(f"{name}/{RUN}", "")
    if not any(n.startswith(top) for n in (*fresh, *gone)):
        return Brought(name, base=base)
    whole = bool(gone) or job.back != "" or set(now) != set(then.sums)
    whole = whole or of_run(job.around / name) != then.listed.get(name)
    back = now if whole else fresh  # else it is what stands beside the run: its name, say
    mine = {n.removeprefix(f"{name}/"): now[n] for n in back if n.startswith(top)}
    return Brought(name, mine, whole, base)


def of_run(folder: Path) -> object:
    """The files that run.json lists, None where there is none."""
    return read_sealed(folder / RUN).get("files") if (folder / RUN).is_file() else None


def place(job: FolderJob, fresh: Path, brought: Brought) -> str:
    """Put what came back in its place; in words why not, where something stands in its way.

    ``fresh``: the folder in which the pieces were unpacked.

    Raises:
        BrokenFile: it is not what was sent, or not what its own run.json lists.
        UsageError: somebody else writes there.
    """
    job = replace(job, folder=job.around / brought.name)
    if sums(fresh) != brought.sums:
        raise BrokenFile(f"what came back for {job.folder} is damaged. Give the command again.")
    if job.back:
        with locks.attacking(job.folder, job.back.rpartition("/")[2]):
            if _digest(job.folder) != brought.base:
                return f"{job.folder} was changed meanwhile, so what was made of it is not kept."
            job.put(fresh / job.back, job.folder / job.back)
        return ""
    listed = of_run(fresh)
    if isinstance(listed, dict) and brought.whole:
        verify(fresh, listed)
    with locks.training(job.folder):
        if _digest(job.folder) != brought.base and _complete(job.folder):
            if of_run(job.folder) == listed:
                return ""
            return (
                f"somebody else completed {job.folder} meanwhile, with other results; theirs are"
                " kept."
            )
        if brought.whole:
            if job.needs is None and of_run(job.folder) == listed:
                _carry(job.folder / "attacks", fresh / "attacks")
            _sync(fresh, brought.sums)
            job.put(fresh, job.folder)
        else:
            for name in brought.sums:
                (fresh / name).replace(job.folder / name)
    return ""


def _carry(old: Path, fresh: Path) -> None:
    """Attacks that somebody else made meanwhile on the same run go along."""
    for path in sorted(old.glob("[!.]*")):
        if not (fresh / path.name).exists():
            fresh.mkdir(exist_ok=True)
            path.rename(fresh / path.name)


def _digest(folder: Path) -> str:
    return digest(folder / RUN) if (folder / RUN).is_file() else ""


def _complete(folder: Path) -> bool:
    try:
        return read_sealed(folder / RUN).get("status") == "done"
    except BrokenFile:
        return False


def _sync(folder: Path, of: Iterable[str]) -> None:
    """What counts is on the disk before it takes the place of something."""
    try:
        for name in of:
            if "/" not in name:
                with (folder / name).open("rb") as file:
                    os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}.") from None
