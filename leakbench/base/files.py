"""Files: safetensors, JSON and CSV, written in one step and read with one sentence when damaged."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import BrokenFile, NewerFile, UsageError
from leakbench.base.interrupts import heed, undisturbed
from leakbench.base.plain_text import plain_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leakbench.base.tree import Tree

ADVICE = "Make it writable, make room there, or choose another folder."
SCHEMA = 1
SEALED_SCHEMA = 2  # of run.json and attack.json, which hold their own digest
SEAL = "digest"
LARGEST_JSON = 256 * 2**20  # bytes
DEEPEST = 60  # objects and lists in each other
# Text that a spreadsheet would take for a formula gets a quote mark before it; so does what would
# else read back as such a cell.
_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_QUOTED = re.compile("'+[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NESTED = (dict, list)
# Half of a surrogate pair, as JSON may spell it: no text, and no file could hold it.
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def write_bytes(path: Path, data: bytes, *, sync: bool = True, advice: str = ADVICE) -> None:
    """Replace ``path`` in one step: a reader sees the old file or the new one, never half of one.

    ``advice``: what its user is told to do where the place cannot be written.

    ``sync``: wait until it is on the disk. Thousands of round files do not: a killed process loses
    nothing, and what a power cut damages is found by its SHA-256.

    Nothing is written once the user wants the command to end: what an interruption broke off is no
    result.

    Raises:
        UsageError: the place cannot be written.
        KeyboardInterrupt: a signal was heard.
    """
    heed()
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror or error}. {advice}") from None
    except KeyboardInterrupt:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def pack_json(value: Any) -> bytes:
    """Sorted JSON without NaN, a line for every value."""
    try:
        text = _indented(value, "\n")
    except (_Unusual, RecursionError):
        text = json.dumps(value, sort_keys=True, indent=1, allow_nan=False)
    return (text + "\n").encode()


class _Unusual(Exception):
    """A value that ``json`` alone knows how to write, or refuses."""


def _indented(value: Any, line: str) -> str:
    """What ``json.dumps`` gives with an indent of 1, which Python's encoder takes long for.

    ``line``: a line end with the spaces before ``value``.

    Raises:
        _Unusual: there is a value, or a key, that is not plainly JSON's.
    """
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if kind is int or (kind is float and math.isfinite(value)):
        return repr(value)
    inner = f"{line} "
    if kind is dict:
        if not all(type(k) is str for k in value):
            raise _Unusual
        held = [
            f"{encode_basestring_ascii(k)}: {_indented(value[k], inner)}" for k in sorted(value)
        ]
        ends = "{}"
    elif kind is list or kind is tuple:
        held, ends = [_indented(v, inner) for v in value], "[]"
    else:
        raise _Unusual
    return f"{ends[0]}{inner}{f',{inner}'.join(held)}{line}{ends[1]}" if held else ends


def write_json(path: Path, value: Any) -> None:
    """Write ``pack_json``."""
    write_bytes(path, pack_json(value))


def read_json(path: Path, schema: int = SCHEMA) -> Any:
    """A JSON file of ours; ``schema``: the newest that this version reads.

    Raises:
        BrokenFile: it is missing or is not JSON.
        NewerFile: its schema is newer than this version's.
    """
    plain(path, "Give a folder that leakbench wrote.", LARGEST_JSON)
    try:
        value = _parsed(plain_text(path))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BrokenFile(f"{path} is damaged ({error}). Make it again.") from None
    found = value.get("schema", schema) if isinstance(value, dict) else schema
    if not isinstance(found, int) or isinstance(found, bool):
        raise BrokenFile(f"{path} is damaged (its schema is {found!r}). Make it again.")
    if found > schema:
        raise NewerFile(
            f"{path} has schema {found}, this leakbench reads schema {schema} and older. Update"
            " leakbench."
        )
    return value


def plain(path: Path, mend: str = "Make it again.", largest: int | None = None) -> None:
    """It is a plain file of at most ``largest`` bytes: opening a pipe would wait for ever.

    Raises:
        BrokenFile: it is missing, something else, or larger.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise BrokenFile(f"{path} is missing. {mend}") from None
    except (OSError, ValueError) as error:
        raise BrokenFile(f"{path} cannot be read ({error}). {mend}") from None
    if not stat.S_ISREG(found.st_mode):
        raise BrokenFile(f"{path} is damaged (it is no plain file). {mend}")
    if largest is not None and found.st_size > largest:
        size = f"{found.st_size / 2**20:.0f} MiB, expected at most {largest / 2**20:.0f}"
        raise BrokenFile(f"{path} is damaged (it has {size}). {mend}")


def seal(value: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of ``value`` without its `digest`."""
    plain = {k: v for k, v in value.items() if k != SEAL}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same with its `digest`."""
    return {**value, SEAL: seal(value)}


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """Sorted JSON with its own `digest`, by which a change is noticed."""
    write_json(path, sealed(value))


def read_sealed(path: Path, schema: int = SEALED_SCHEMA) -> dict[str, Any]:
    """A file of ``write_sealed``.

    Raises:
        BrokenFile: it is missing, damaged, of another schema, or not what was written.
    """
    value = read_json(path, schema)
    if not isinstance(value, dict):
        raise BrokenFile(f"{path} is damaged (not a JSON object). Make it again.")
    if SEAL not in value:
        raise BrokenFile(
            f"{path} has no digest of itself, so nobody can tell whether it was changed: it was"
            " edited, or an earlier leakbench wrote it. Make it again."
        )
    if value[SEAL] != seal(value):
        raise BrokenFile(
            f"{path} was changed or damaged: it does not fit its own digest. Make it again."
        )
    return value


def pack_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """One line per row, every column, full precision, `true` and `false` for booleans.

    Text that a spreadsheet would run as a formula (it begins with = + - @, tab or a line end, and
    is no number) has a `'` before it, which ``read_csv`` takes away again.
    """

    def line(cells: Iterable[str]) -> str:
        return ",".join(map(_quoted, cells)) + "\n"

    def values(row: Mapping[str, Any]) -> list[str]:
        return [_cell(row[c]) for c in columns]

    return "".join([line(columns), *(line(values(row)) for row in rows)]).encode()


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write ``pack_csv``."""
    write_bytes(path, pack_csv(columns, rows))


def read_csv(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV that has at least ``columns``, each cell as it was before ``write_csv``.

    Raises:
        BrokenFile: it is missing, cannot be read or lacks a column.
    """
    plain(path)
    try:
        text = plain_text(path)
        header, *lines = csv.reader(io.StringIO(text, newline="")) if text else [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BrokenFile(f"{path} is damaged ({error}). Make it again.") from None
    rows = [line for line in lines if line]
    lacking = [c for c in columns if c not in header]
    if lacking or any(len(row) != len(header) for row in rows):
        why = f"no column {lacking[0]}" if lacking else "a line is cut"
        raise BrokenFile(f"{path} is damaged ({why}). Make it again.")
    if "'" in text:
        rows = [_unquoted(row) for row in rows]
    return [dict(zip(header, row, strict=True)) for row in rows]


def _unquoted(row: Sequence[str]) -> list[str]:
    return [v[1:] if _QUOTED.match(v) else v for v in row]


def pack_tree(tree: Tree, meta: Mapping[str, Any]) -> bytes:
    """A tree as safetensors: names joined by '/', ``meta`` as JSON in the header."""
    from leakbench.base.tensor_bytes import pack
    from leakbench.base.tree import flat

    leaves = {k: v.detach().cpu().contiguous() for k, v in flat(tree).items()}
    return pack(leaves, {"leakbench": json.dumps(meta, sort_keys=True, allow_nan=False)})


def write_tree(path: Path, tree: Tree, meta: Mapping[str, Any], *, sync: bool = True) -> None:
    """Write ``pack_tree``."""
    write_bytes(path, pack_tree(tree, meta), sync=sync)


def read_meta(path: Path) -> Any:
    """The `leakbench` entry of a safetensors header, without reading its tensors."""
    return _open(path, "np", names=())[1]


def read_tree(path: Path, mend: str = "Make it again.") -> tuple[Tree, Any]:
    """A file of ``write_tree``; ``mend``: what to do about one that is damaged.

    Raises:
        BrokenFile: it is missing, cut, or not ours.
    """
    from leakbench.base.tree import unflat

    leaves, meta = _open(path, "pt", mend=mend)
    try:
        return unflat(leaves), meta
    except (AttributeError, IndexError, TypeError):
        raise BrokenFile(f"{path} is damaged (a tensor is named like a group). {mend}") from None


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a file of ``write_tree``, by their names, as numpy's: torch is not loaded.

    Raises:
        BrokenFile: it is missing, cut, or not ours.
    """
    return _open(path, "np")[0]


def _open(
    path: Path, framework: str, names: tuple[str, ...] | None = None, mend: str = "Make it again."
) -> tuple[dict[str, Any], Any]:
    """Its tensors, all or those of ``names``, and the `leakbench` entry of its header."""
    from safetensors import SafetensorError, safe_open

    plain(path)
    try:
        with undisturbed(), safe_open(path, framework) as file:
            wanted = file.keys() if names is None else names
            leaves = {name: file.get_tensor(name) for name in wanted}
            meta = _parsed((file.metadata() or {})["leakbench"])
    except (SafetensorError, OSError, KeyError, ValueError, RecursionError, TypeError) as error:
        raise BrokenFile(f"{path} is damaged ({error}). {mend}") from None
    return leaves, meta


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    plain(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """{name below ``folder``: SHA-256}, without hidden files and names that begin so."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
    names = {p.relative_to(folder).as_posix(): p for p in files}
    return {n: file_digest(p) for n, p in names.items() if not n.startswith(without or ("\0",))}


def verify_files(folder: Path, listed: Mapping[str, str]) -> None:
    """Every listed file is there, unchanged.

    Raises:
        BrokenFile: naming the first that is not.
    """
    for name, sha in sorted(listed.items()):
        path = inside(folder, name)
        if not path.is_file():
            raise BrokenFile(f"{path} is missing, though {folder.name} lists it. Make it again.")
        if file_digest(path) != sha:
            raise BrokenFile(
                f"{path} was changed or damaged: its SHA-256 is not the recorded one. Make it"
                " again."
            )


def nothing_else(folder: Path, listed: Collection[str]) -> None:
    """Every file below ``folder`` is listed, but for hidden ones (work in progress).

    What no list names could have come from anywhere, and whoever put it there wants it read.

    Raises:
        BrokenFile: naming the first that is not.
    """
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in listed and not path.is_dir() and not path.name.startswith("."):
            raise BrokenFile(
                f"{path} is not among the files that were written there. Take it away, or make the"
                " folder again."
            )


def inside(folder: Path, name: str) -> Path:
    """The file ``name`` below ``folder``; neither `..` nor a link leads out of it.

    A run folder may come from a stranger and must not make us read other files.

    Raises:
        BrokenFile: it lies elsewhere.
    """
    path = folder / name
    try:
        outside = not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError) as error:  # Python's own for links in a circle
        raise BrokenFile(
            f"{path} cannot be followed ({error}). Put the file itself there."
        ) from None
    if outside:
        raise BrokenFile(
            f"{path} leads out of {folder.name}, so it is not read. Put the file itself there."
        )
    return path


def all_inside(folder: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """``inside`` for many names; a folder that several lie in is followed once.

    Raises:
        BrokenFile: as for ``inside``.
    """
    root, followed = folder.resolve(), dict[Path, bool]()
    out = []
    for name in names:
        path = folder / name
        try:
            if path.parent not in followed:
                followed[path.parent] = path.parent.resolve().is_relative_to(root)
            # In a folder that lies inside only a link, and `..`, lead out.
            name_is_plain = path.name != ".." and "\0" not in name
            simple = followed[path.parent] and name_is_plain and not path.is_symlink()
        except (OSError, RuntimeError):  # said by ``inside``
            simple = False
        out.append(path if simple else inside(folder, name))
    return tuple(out)


def _parsed(text: str) -> Any:
    """JSON without NaN and without half characters, which no other file could hold."""
    value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    if _deep(value):
        raise ValueError(f"more than {DEEPEST} objects and lists in each other")
    if "\\u" in text and _HALF_PAIR.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("a text holds half of a surrogate pair")
    return value


def _deep(value: Any) -> bool:
    """Is it nested deeper than anything that is ever written?"""
    level = [value] if isinstance(value, _NESTED) else []
    for _ in range(DEEPEST + 1):
        if not level:
            return False
        held = (v.values() if isinstance(v, dict) else v for v in level)
        level = [v for inner in held for v in inner if isinstance(v, _NESTED)]
    return True


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large for a number")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not allowed")


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return str(value)


def _quoted(text: str) -> str:
    """A cell as CSV spells it."""
    if any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
