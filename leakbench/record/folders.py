"""Run folders: finding them, and reading what they hold with every hash checked first."""

from __future__ import annotations

import csv
import glob
import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from leakbench.base import notebook
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import (
    inside,
    nothing_else,
    pack_csv,
    read_arrays,
    read_csv,
    read_meta,
    read_sealed,
    read_tree,
    verify_files,
)
from leakbench.base.shapes import Shape, check_shape
from leakbench.base.spec import canonical, command_words, fingerprint
from leakbench.record.columns import Row, typed
from leakbench.record.placing import GUESS, REPLACING
from leakbench.record.setting_name import BESIDE
from leakbench.record.shapes import AttackJson, RunJson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leakbench.base.tree import Tree

PASSING = "leakbench-"  # how folders of records begin that live as long as their process

# What run.json and attack.json must say, and what besides when they are complete.
_SPEC = ("task.name", "task.params", "defense.name", "defense.params", "wrappers", "rounds", "seed")
_ALWAYS = ("status", "id", *(f"spec.{name}" for name in _SPEC))
_DONE = (
    *("hides", "distance", "engine", "dtype", "phases", "fallbacks", "stages", "sent", "missing"),
    *("utility.metric", "utility.better", "utility.chance", "files"),
    *("facts.clients", "facts.classes", "facts.dim", "facts.shape", "spec.record"),
)
_ATTACK = ("status", "attack", "params", "of.run", "of.content", "sources")
_ATTACK_DONE = ("threat.rung", "order", "metrics", "files")


@dataclass(frozen=True)
class Folder:
    """A folder whose JSON file says what is in it."""

    path: Path
    meta: dict[str, Any] = field(repr=False)  # that JSON

    @property
    def status(self) -> str:
        """Done | running | "failed: why"."""
        return str(self.meta["status"])

    @property
    def done(self) -> bool:
        """Is it complete?"""
        return self.status == "done"

    @property
    def failure(self) -> str | None:
        """What it failed with; None where it did not fail."""
        state, _, why = self.status.partition(": ")
        return why if state == "failed" else None

    @property
    def plugin_files(self) -> list[str]:
        """The files of methods that the command names which made it; they may be gone."""
        words = command_words(self.meta.get("command", ""))
        return [file for word, file in pairwise(words) if word == "--plugin"]

    def check(self, *names: str) -> None:
        """The named files (all, if none is named) are listed, there, and unchanged.

        Raises:
            BrokenFile: naming the first that is not.
        """
        listed: Mapping[str, str] = self.meta.get("files", {})
        for name in names:
            if name not in listed:
                raise BrokenFile(
                    f"{self.path / name} is not among the files that {self.path.name} lists, so it"
                    " cannot be trusted. Make it again."
                )
        verify_files(self.path, {n: listed[n] for n in names} if names else listed)

    def within(self, room: str) -> list[str]:
        """The names of the files that are listed below ``room``, in order; no other lies there.

        Raises:
            BrokenFile: naming the first that does.
        """
        names = sorted(n for n in self.meta.get("files", {}) if n.startswith(f"{room}/"))
        nothing_else(self.path / room, {n.removeprefix(f"{room}/") for n in names})
        return names

    def table(self, name: str, columns: Sequence[str]) -> list[Row]:
        """The rows of a CSV of this folder: floats, whole numbers and booleans as such.

        Raises:
            BrokenFile: it is missing, changed, or a cell is not what its column says.
        """
        self.check(name)
        return read_table(self.path / name, columns)

    def tree(self, name: str) -> tuple[Tree, Any]:
        """A safetensors file of this folder and its header.

        Raises:
            BrokenFile: it is missing, changed or damaged.
        """
        self.check(name)
        return read_tree(self.path / name)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The tensors of a safetensors file of this folder as numpy's, by their names.

        Raises:
            BrokenFile: it is missing, changed or damaged.
        """
        self.check(name)
        return read_arrays(self.path / name)


@dataclass(frozen=True)
class AttackFolder(Folder):
    """attacks/<attack>-<fingerprint>/ of a run."""

    def alone(self) -> None:
        """No file lies there that attack.json does not list.

        Raises:
            BrokenFile: naming the first that does.
        """
        nothing_else(self.path, {"attack.json", *self.meta["files"]})

    @property
    def name(self) -> str:
        """The attack's name."""
        return str(self.meta["attack"])

    @property
    def params(self) -> str:
        """Its parameters, as canonical JSON."""
        return canonical(self.meta["params"])


@dataclass(frozen=True)
class Run(Folder):
    """One trained (or failed, or unfinished) run."""

    @property
    def id(self) -> str:
        """The name under which the run was made; the folder may have been renamed since."""
        return str(self.meta["id"])

    def _repr_html_(self) -> str:
        """What a notebook shows: what was run, how it went, and what was sent."""
        spec, sent = self.spec, self.meta.get("sent", ())
        method = f"{spec['defense']['name']}({canonical(spec['defense']['params'])})"
        lines = [f"{s['sender']} to {s['receiver']}: {s['kind']}" for s in sent]
        told = {"folder": self.path, "method": method, "rounds": spec["rounds"]}
        told |= {"seed": self.seed, "status": self.status, "sent": ", ".join(lines)}
        return notebook.facts(self.id, told)

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.meta["spec"]["seed"])

    @property
    def spec(self) -> dict[str, Any]:
        """What was run, every default filled in."""
        return dict(self.meta["spec"])

    @property
    def passing(self) -> bool:
        """Is it gone when the process ends that recorded it?"""
        place = self.path.parent
        return place.name.startswith(PASSING) and place.parent == Path(gettempdir())

    @property
    def content(self) -> str:
        """SHA-256 of the canonical JSON of the files that run.json lists, by their hashes."""
        return hashlib.sha256(canonical(self.meta.get("files", {})).encode()).hexdigest()

    @property
    def named(self) -> dict[str, str]:
        """What an attack's `of` says: this run, and what it holds."""
        return {"run": self.id, "content": self.content}

    @property
    def transcript(self) -> str:
        """SHA-256 of the canonical JSON of the messages' files, by their hashes."""
        files = self.meta.get("files", {})
        listed = {name: sha for name, sha in files.items() if name.startswith("transcript/")}
        return hashlib.sha256(canonical(listed).encode()).hexdigest()

    @property
    def attacks(self) -> tuple[AttackFolder, ...]:
        """Its attack folders as they are on the disk now, whatever their status.

        Raises:
            BrokenFile: an attack.json is missing or damaged, or an attack was made from other
                messages than this run's.
        """
        return tuple(self.attack(folder.name) for folder in _folders(self.path / "attacks"))

    def attack(self, name: str) -> AttackFolder:
        """The attack in the folder ``name`` below attacks/, as it is on the disk now.

        Raises:
            BrokenFile: as for ``attacks``.
        """
        folder = self.path / "attacks" / name
        found = AttackFolder(folder, _settled(self.path, name))
        expected = f"{found.name}-{fingerprint(found.meta['params'])}"
        if name != expected:
            raise BrokenFile(
                f"{folder} holds the attack {expected}, by its attack.json. Give the folder"
                " that name, or delete it."
            )
        self.owns(found)
        return found

    def owns(self, attack: AttackFolder) -> None:
        """The guesses of ``attack`` were made from what this run holds.

        Raises:
            BrokenFile: they were made from another run, or from this one before it was trained
                again.
        """
        of = attack.meta["of"]
        if of != self.named:
            was = f"{of['run']} (content {str(of['content'])[:8]})"
            raise BrokenFile(
                f"{attack.path} was made from {was}, and this run is {self.id} (content"
                f" {self.content[:8]}), so its numbers are not this run's: leakbench attack makes"
                " it again, or delete the folder."
            )

    def owns_guesses(self, attack: AttackFolder) -> dict[str, Any]:
        """The same, by what the file of guesses says of itself; returns that.

        Raises:
            BrokenFile: it cannot be read, or was made from other messages.
        """
        made = read_meta(attack.path / GUESS)
        if not isinstance(made, dict) or made.get("transcript") != self.transcript:
            raise BrokenFile(
                f"{attack.path / GUESS} was made from other messages than {self.id} holds:"
                " leakbench attack --force makes it again, or delete the folder."
            )
        return made


def load(path: str | Path) -> Run:
    """The run in the folder ``path``, complete or not.

    Raises:
        BrokenFile: run.json is missing, damaged, or of a newer schema.
    """
    path = Path(path)
    meta = _read(path, "run.json", _ALWAYS, _DONE, RunJson)
    expected = _id_of(meta)
    if meta["id"] != expected:
        raise BrokenFile(
            f"{path / 'run.json'} says id is {meta['id']!r}, but its spec makes it {expected!r}."
            " Make it again."
        )
    return Run(path, meta)


def _id_of(meta: Mapping[str, Any]) -> str:
    """The name that a run folder has by its spec, or an export by its files."""
    spec = meta["spec"]
    names = f"{spec['task']['name']}-{spec['defense']['name']}"
    if "export" in meta:
        return f"{meta['id'].rpartition('-x')[0]}-x{fingerprint(meta['files'])}"
    identity = fingerprint({k: v for k, v in spec.items() if k not in ("seed", *BESIDE)})
    return f"{names}-{identity}-s{spec['seed']}"


def find(patterns: Iterable[str | Path]) -> list[Run]:
    """The runs, each once, of run folders, folders that hold some at any depth, or globs.

    Raises:
        UsageError: a pattern names no run.
        BrokenFile: a run.json is damaged or of a newer schema.
    """
    found: dict[Path, Path] = {}
    for pattern in map(str, patterns):
        # Path.glob refuses absolute patterns.
        matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
        named = [Path(pattern)] if Path(pattern).exists() else [Path(p) for p in matches]
        folders = [f for folder in named for f in _below(folder)]
        if not folders:
            what = "holds no run" if named else "does not exist"
            raise UsageError(
                f"{pattern} {what}: expected a run folder, a folder that holds some, or a glob."
                " Make one with leakbench train."
            )
        found.update({f.resolve(): f for f in folders if f.resolve() not in found})
    return [load(f) for f in found.values()]


def read_table(path: Path, columns: Sequence[str]) -> list[Row]:
    """The rows of a CSV of ours: floats, whole numbers and booleans as such.

    Raises:
        BrokenFile: it is missing, or a cell is not what its column says.
    """
    return [typed(row, path) for row in read_csv(path, columns)]


def typed_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> list[Row]:
    """Rows as ``read_table`` would read them from the CSV that they make."""
    read = csv.DictReader(pack_csv(columns, rows).decode().splitlines(keepends=True))
    return [typed(row, Path("table")) for row in read]


def _below(path: Path) -> Iterator[Path]:
    """Run folders at or below ``path``; nothing inside a run folder is searched."""
    if (path / "run.json").is_file():
        yield path
        return
    if any((path / part).exists() for part in ("transcript", "attacks", "checkpoint")):
        raise BrokenFile(
            f"{path} holds what a run wrote, but its run.json is missing or no file, so it cannot"
            " be counted. Bring it back, or move the folder away."
        )
    try:
        folders = _folders(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}. Give a folder that you may read."
        ) from None
    for inner in folders:
        yield from _below(inner)


def _folders(path: Path) -> list[Path]:
    """The folders in ``path``, sorted, but for hidden ones; none where it is no folder."""
    if not path.is_dir():
        return []
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))


def _settled(run: Path, attack: str) -> dict[str, Any]:
    """attack.json; where its folder is being replaced, as it is afterwards."""
    for _ in range(40):  # two seconds; it takes as long as renaming four files
        meta = _read(run, f"attacks/{attack}/attack.json", _ATTACK, _ATTACK_DONE, AttackJson)
        if meta["status"] != REPLACING:
            break
        time.sleep(0.05)
    return meta


def _read(
    folder: Path, name: str, always: Sequence[str], when_done: Sequence[str], shape: type[Shape]
) -> dict[str, Any]:
    path = inside(folder, name)
    meta = read_sealed(path)
    for dotted in (*always, *(when_done if meta.get("status") == "done" else ())):
        at: Any = meta
        for key in dotted.split("."):
            if not isinstance(at, dict) or key not in at:
                raise BrokenFile(f"{path} is damaged (no {dotted!r}). Make it again.")
            at = at[key]
    check_shape(shape, meta, path)
    return meta
