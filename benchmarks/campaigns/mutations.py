"""What can befall a file: bytes flipped, cut and doubled; values of another type and size; files
swapped, copied, lost, and put where another kind of thing was expected.

A mutation changes one copy of a folder and says in a few words what it did. Those ``RESEALED``
recompute every digest after it, as somebody would who means it: what is then read must still be
refused in a sentence, or be a possible folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Mutation = Callable[[Path, Path, random.Random], str]
HUGE = 10**9
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, HUGE, -HUGE, 1e308, 10**30, 0.5, "", "x", "../../x", "\x1b[2J"),
    *([], [[]], {}, {"a": 1}, [1, 2], "a" * 10_000, "1" * 400, "nan", "client/0", "done", "true"),
)
CELLS = ("", "nan", "inf", "-1", "1e999", str(HUGE), "x", "true", "'", "0.5", "client/99", "=1+1")


def flip(file: Path, _: Path, dice: random.Random) -> str:
    data = bytearray(file.read_bytes())
    if data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return written(file, bytes(data), "a bit flipped")


def cut(file: Path, _: Path, dice: random.Random) -> str:
    data = file.read_bytes()
    return written(file, data[: dice.randrange(max(1, len(data)))], "cut")


def empty(file: Path, _: Path, dice: random.Random) -> str:
    return written(file, b"", "emptied")


def doubled(file: Path, _: Path, dice: random.Random) -> str:
    return written(file, file.read_bytes() * 2, "doubled")


def noise(file: Path, _: Path, dice: random.Random) -> str:
    return written(file, dice.randbytes(dice.choice((1, 8, 100, 5000))), "made noise")


def inserted(file: Path, _: Path, dice: random.Random) -> str:
    data, at = file.read_bytes(), 0
    at = dice.randrange(len(data) + 1)
    more = dice.choice((b"\0", b"\n", b'"', b"9", b"\xff", b"NaN", b"{", b"," * 50))
    return written(file, data[:at] + more + data[at:], f"{more!r} inserted")


def lost(file: Path, _: Path, dice: random.Random) -> str:
    file.unlink()
    return "deleted"


def swapped(file: Path, where: Path, dice: random.Random) -> str:
    others = [p for p in where.rglob(f"*{file.suffix}") if p.is_file() and p != file]
    if not others:
        return lost(file, where, dice)
    other = dice.choice(sorted(others))
    one, two = file.read_bytes(), other.read_bytes()
    written(file, two, "")
    return written(other, one, f"swapped with {other.relative_to(where)}")


def copied(file: Path, where: Path, dice: random.Random) -> str:
    name = dice.choice(("x", "round-000002", "round-999999", "run", "0", "\x1b[2J", "a" * 200))
    shutil.copy(file, file.with_name(name + file.suffix))
    return f"copied to {name!r}"


def replaced(file: Path, where: Path, dice: random.Random) -> str:
    kind = dice.choice(("folder", "link", "loop", "out", "fifo", "null"))
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "link":
        others = [p for p in where.rglob("*") if p.is_file()]
        file.symlink_to(dice.choice(sorted(others)))
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to({"loop": file, "out": "/etc/hostname", "null": "/dev/zero"}[kind])
    return f"replaced by: {kind}"


def written(file: Path, data: bytes, what: str) -> str:
    """Other bytes under a name; the file may be shared with the folder that was copied."""
    file.unlink()
    file.write_bytes(data)
    return what


BYTES: tuple[Mutation, ...] = (flip, flip, cut, empty, doubled, noise, inserted)
FILES: tuple[Mutation, ...] = (lost, swapped, copied, replaced)


def value(file: Path, _: Path, dice: random.Random) -> str:
    """One value of a JSON file, or its key."""
    try:
        whole = json.loads(file.read_bytes())
    except ValueError:
        return flip(file, _, dice)
    text = mutate(whole, dice)
    return written(file, json.dumps(whole, sort_keys=True, indent=1).encode(), text)


def mutate(whole: Any, dice: random.Random) -> str:
    """Change one place of a JSON value; returns which and how."""
    at = dice.choice(places(whole)) if places(whole) else None
    if at is None:
        return "nothing to change"
    holder, key, path = at
    how = dice.choice(("odd", "odd", "odd", "gone", "twice", "more"))
    if how == "gone":
        del holder[key]
    elif how == "twice" and isinstance(holder, list):
        holder.append(holder[key])
    elif how == "more" and isinstance(holder[key], int | float):
        holder[key] = holder[key] * 2 + 1
    else:
        holder[key] = dice.choice(ODD)
        how = f"{str(holder[key])[:20]!r}"
    return f"{path}: {how}"


def places(whole: Any, path: str = "") -> list[tuple[Any, Any, str]]:
    """(what holds it, its key, its path) of every value in a JSON value."""
    keys: list[Any] = []
    if isinstance(whole, dict):
        keys = list(whole)
    elif isinstance(whole, list):
        keys = list(range(len(whole)))[:20]
    out = []
    for key in keys:
        out.append((whole, key, f"{path}.{key}"))
        out += places(whole[key], f"{path}.{key}")
    return out


def cell(file: Path, _: Path, dice: random.Random) -> str:
    """One cell, line or column of a CSV."""
    rows = [line.split(",") for line in file.read_text(encoding="utf-8").splitlines()]
    if len(rows) < 2:
        return flip(file, _, dice)
    row = dice.randrange(len(rows))
    how = dice.choice(("cell", "cell", "cell", "gone", "twice", "head"))
    if how == "gone":
        del rows[row]
    elif how == "twice":
        rows.append(rows[row])
    else:
        place = 0 if how == "head" else row
        rows[place][dice.randrange(len(rows[place]))] = dice.choice(CELLS)
    return written(file, ("\n".join(map(",".join, rows)) + "\n").encode(), f"line {row}: {how}")


def header(file: Path, _: Path, dice: random.Random) -> str:
    """One value of a safetensors header: a type, a shape, an offset, or what we wrote in it."""
    data = file.read_bytes()
    if len(data) < 8:
        return flip(file, _, dice)
    (size,) = struct.unpack("<Q", data[:8])
    try:
        head = json.loads(data[8 : 8 + size])
    except ValueError:
        return flip(file, _, dice)
    ours = json.loads(head.get("__metadata__", {}).get("leakbench", "{}"))
    if ours and dice.random() < 0.5:
        text = f"leakbench{mutate(ours, dice)}"
        head["__metadata__"]["leakbench"] = json.dumps(ours)
    else:
        text = mutate(head, dice)
    new = json.dumps(head).encode()
    return written(file, struct.pack("<Q", len(new)) + new + data[8 + size :], text)


def reseal(where: Path) -> None:
    """Every digest below a folder of runs made to fit what lies there."""
    from leakbench.base.files import SEAL, seal

    def sealed(path: Path) -> None:
        try:
            about = json.loads(path.read_bytes())
            if isinstance(about, dict):
                listed = about.get("files")
                if isinstance(listed, dict):
                    for name in listed:
                        there = path.parent / str(name)
                        if there.is_file() and there.resolve().is_relative_to(where.resolve()):
                            listed[name] = hashlib.sha256(there.read_bytes()).hexdigest()
                about[SEAL] = seal(about)
                written(path, json.dumps(about, sort_keys=True, indent=1).encode(), "")
        except (ValueError, OSError):
            return

    for name in ("attack.json", "run.json"):
        for path in sorted(where.rglob(name)):
            if path.is_file() and not path.is_symlink():
                sealed(path)


BY_SUFFIX: dict[str, tuple[Mutation, ...]] = {
    ".json": (*BYTES, *FILES, *(value,) * 10),
    ".csv": (*BYTES, *FILES, *(cell,) * 8),
    ".safetensors": (*BYTES, *FILES, *(header,) * 8),
}


def mutation(file: Path, dice: random.Random) -> Mutation:
    """One that fits the file."""
    return dice.choice(BY_SUFFIX.get(file.suffix, (*BYTES, *FILES)))
