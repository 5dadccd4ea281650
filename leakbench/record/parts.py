"""A part of a run: which of its files are kept, and what of each.

It is read like a run, and its run.json says what is not in it. There are two: an excerpt
(``excerpts``: small, with what scoring needs) and an export (``exporting``: for others, without
any answer).
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.base.files import (
    inside,
    pack_json,
    pack_tree,
    read_meta,
    sealed,
    write_bytes,
    write_sealed,
)
from leakbench.record.columns import Row
from leakbench.record.folders import Run, load
from leakbench.record.knowledge import FILES, chosen
from leakbench.record.messages import read_payloads, table_of

AUX_DATA = FILES["aux_data"]


@dataclass(frozen=True)
class File:
    """A file of a part."""

    # Its bytes, made anew to be written: transcripts may be large.
    make: Callable[[], bytes] = field(compare=False)
    size: int
    sha256: str


@dataclass(frozen=True)
class RunPart:
    """What is kept of a run.

    A file that the run has not is passed over; one that is missing, changed or damaged, or leads
    out of its folder, raises BrokenFile.
    """

    run: Run
    files: dict[str, File] = field(default_factory=dict)  # by name

    @property
    def size(self) -> int:
        """Bytes of all files but run.json."""
        return sum(f.size for f in self.files.values())

    def put(self, name: str, make: Callable[[], bytes]) -> None:
        """A file with the bytes that ``make`` makes, the same whenever it is called."""
        data = make()
        self.files[name] = File(make, len(data), hashlib.sha256(data).hexdigest())

    def same(self, name: str) -> None:
        """A file as it is."""

        def make() -> bytes:
            self.run.check(name)
            return inside(self.run.path, name).read_bytes()

        if name in self.run.meta["files"]:
            self.put(name, make)

    def tensors(self, name: str, keep: Callable[[str], bool]) -> None:
        """The tensors of a file whose names ``keep`` says yes to; no file where there are none."""
        from leakbench.base.tree import flat

        def kept() -> tuple[dict[str, Any], Any]:
            tree, meta = self.run.tree(name)
            return {k: t for k, t in flat(tree).items() if keep(k)}, meta

        if name in self.run.meta["files"] and kept()[0]:
            self.put(name, lambda: pack_tree(*kept()))

    def messages(self, name: str, keep: Callable[[Row], bool]) -> list[Row]:
        """The messages of a file whose lines in its table ``keep`` says yes to.

        Returns their lines; where there are none, no file is kept.
        """
        if name not in self.run.meta["files"]:
            return []
        self.run.check(name)
        kept = {i: line for i, line in enumerate(_table(self.run, name)) if keep(line)}

        def make() -> bytes:
            self.run.check(*_files_behind(self.run, name))
            _, held = read_payloads(inside(self.run.path, name))
            payloads = {str(j): {"payload": held[i]} for j, i in enumerate(kept)}
            return pack_tree(payloads, {"messages": list(kept.values())})

        self.files.pop(name, None)
        if kept:
            self.put(name, make)
        return list(kept.values())

    def described(self, meta: Mapping[str, Any], kind: str, about: Any, gone: str) -> Row:
        """What run.json says: ``meta``, the files, ``about`` under ``kind``, and what is gone."""
        missing = [*meta.get("missing", ()), {"attack": "", "metric": "", "reason": gone}]
        listed = {n: f.sha256 for n, f in self.files.items()}
        return {**meta, kind: about, "missing": missing, "files": listed}

    def folder(self, out: Path, meta: Row, more: Callable[[Run], Row]) -> Run:
        """Write the folder ``out``, in place of what is there.

        ``more``: what its run.json says beside ``meta``, by the files as they then lie there.

        Raises:
            UsageError: the place cannot be written.
        """
        fresh = out.with_name(f".{out.name}.part")
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            for name, file in self.files.items():
                write_bytes(fresh / name, file.make(), sync=False)
            write_sealed(fresh / "run.json", {**meta, **more(Run(fresh, meta))})
            shutil.rmtree(out, ignore_errors=True)
            fresh.rename(out)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return load(out)

    def archive(self, out: Path, meta: Row) -> None:
        """Write the tar ``out``, the same bytes for the same part.

        Raises:
            UsageError: the place cannot be written.
        """
        fresh = out.with_name(f".{out.name}.part")
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(fresh, "w", format=tarfile.GNU_FORMAT) as tar:
                _add(tar, f"{meta['id']}/run.json", pack_json(sealed(meta)))
                for name, file in sorted(self.files.items()):
                    _add(tar, f"{meta['id']}/{name}", file.make())
            fresh.replace(out)
        except OSError as error:
            if fresh.parent.is_dir():
                fresh.unlink(missing_ok=True)
            raise UsageError(
                f"cannot write {out}: {error.strerror or error}. Choose another file with -o, or"
                " make room there."
            ) from None


def must_be_whole(run: Run) -> None:
    """Only complete runs have parts, and parts have none.

    Raises:
        UsageError: the run is not complete, or is itself a part.
    """
    if not run.done:
        raise UsageError(f"{run.path} is not complete (status: {run.status}). Train it first.")
    for kind in ("excerpt", "export"):
        if kind in run.meta:
            raise UsageError(f"{run.path} is an {kind} of a run already; take the run itself.")


def lost_parts(run: Run, kinds: Sequence[str], knows: Sequence[str]) -> str:
    """What an attack reads and the part ``run`` no longer has, as a reason.

    Empty where all of it is there, as in a whole run.

    Args:
        run: a part, or a whole run.
        kinds: the kinds of message that the attack reads; those that nobody sent are not missed.
        knows: the knowledge that it, or its blind guess, is granted.

    Raises:
        BrokenFile: a file of messages is missing or damaged.
    """
    counted = _holds(run.meta["files"], FILES["counts"])
    lost = ("updates",) if counted else ("updates", "counts")
    batches = [row.name for row in chosen(knows) if row.held in lost]
    if "export" in run.meta and batches:
        return (
            f"this run was exported without the {batches[-1]} of private batches, or recorded so,"
            " and the attack is granted them"
        )
    if "excerpt" not in run.meta:
        return ""
    names = run.meta["files"]
    files = [n for n in names if n.startswith("transcript/round-")]
    kept = {m["kind"] for n in files for m in _table(run, n)}
    sent = {s["kind"] for s in run.meta["sent"]}
    gone = [f"messages of kind {k}" for k in dict.fromkeys(kinds) if k in sent and k not in kept]
    lacking = {row.name for row in chosen(knows) if not _holds(names, FILES.get(row.held, ""))}
    gone += [k for k in dict.fromkeys(knows) if k in lacking]
    if not gone:
        return ""
    begin, end = run.meta["excerpt"]["rounds"]
    there = f"messages of kind {', '.join(sorted(kept))} of rounds {begin} to {end}"
    there += " and aux_data" * (AUX_DATA in names)
    return f"this run is an excerpt that kept only {there}; the attack also reads {', '.join(gone)}"


def _holds(names: Collection[str], begin: str) -> bool:
    return not begin or any(n.startswith(begin) for n in names)


def _table(run: Run, name: str) -> list[Row]:
    """What a file of messages says of each, without reading its tensors."""
    path = inside(run.path, name)
    return list(table_of(path, read_meta(path)))


def _files_behind(run: Run, name: str) -> set[str]:
    """The file of messages ``name``, and those that hold what it does not store again."""
    same = read_meta(inside(run.path, name)).get("same", {})
    return {name, *(f"{name.partition('/')[0]}/{at['file']}" for at in same.values())}


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """A plain file without owner and time."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o644, 0
    tar.addfile(info, io.BytesIO(data))
