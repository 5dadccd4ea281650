"""Originals beside what was made of the messages: rows of small PNGs, embedded once each."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbench.report_data import Picture, Place
from leakbench.settings import Setting
from reports._words import ATTACKS

Units = tuple[Place, ...]

MOST_UNITS = 8
ORDER = ("original", "floor", "control", "attack")
ROLES = {
    "original": ("Original", "what the client holds"),
    "floor": ("Blind guess", "reads no message: what anybody could draw"),
    "control": ("Nothing defended", "control: can this attack work at all?"),
}


@dataclass(frozen=True)
class Cell:
    """One picture: a data URI (empty where there is none), what stands under it, its text for those who do not see it, its pixels."""

    uri: str
    under: str
    alt: str
    wide: int = 1
    high: int = 1


@dataclass(frozen=True)
class Strip:
    """One row of pictures; ``tone`` colours ``found``."""

    title: str
    about: str
    cells: tuple[Cell, ...]
    found: str
    tone: str


@dataclass(frozen=True)
class Album:
    """All rows of one attack on one task over the same units; ``left_out`` units are not shown.

    ``how``: the parameters in which the task's attacks of this name differ.
    """

    task: str
    attack: str
    how: str
    probe: bool
    strips: tuple[Strip, ...]
    columns: int
    left_out: int


def albums(pictures: Sequence[Picture], settings: Sequence[Setting]) -> list[Album]:
    """Pictures by task, attack and the set of units; a row that is the same for several settings stands once."""
    names = {s.key: s.name for s in settings}
    by_setting: dict[tuple[str, str, str, str], list[Picture]] = defaultdict(list)
    for p in pictures:
        by_setting[p.task, p.attack, p.attack_params, p.setting].append(p)
    grouped: dict[tuple[str, str, str, Units], list[tuple[str, list[Picture]]]] = defaultdict(list)
    for (task, attack, params, key), found in by_setting.items():
        units = tuple(dict.fromkeys(p.place for p in found))
        grouped[task, attack, params, units].append((names.get(key, "unknown setting"), found))
    out = []
    for (task, attack, how, units), members in grouped.items():
        rivals = {p for t, a, p, _ in grouped if (t, a) == (task, attack)}
        shown = units[:MOST_UNITS]
        probe = any(p.probe is not None for _, found in members for p in found)
        out.append(Album(task, attack, _differing(how, rivals), probe, _strips(members, shown), len(shown), len(units) - len(shown)))
    return sorted(out, key=lambda a: (a.task, a.attack))


def _strips(members: list[tuple[str, list[Picture]]], units: Units) -> tuple[Strip, ...]:
    merged: dict[tuple[str, ...], tuple[str, list[str], list[Picture | None]]] = {}
    for name, found in members:
        at: dict[Any, Picture] = {(p.role, p.place): p for p in found}
        for role in ORDER:
            row = [at.get((role, u)) for u in units]
            if not any(row):
                continue
            same = tuple("" if p is None else hashlib.sha256(np.ascontiguousarray(p.image).tobytes()).hexdigest() for p in row)
            key = (role, *same) if role != "attack" else (role, name)
            merged.setdefault(key, (role, [], row))[1].append(name)
    order = {r: i for i, r in enumerate(ORDER)}
    several = {r: sum(m[0] == r for m in merged.values()) > 1 for r in ORDER}
    rows = sorted(merged.values(), key=lambda m: order[m[0]] if m[0] in ("original", "floor") else 2)
    return tuple(_strip(role, names, row, named=several[role]) for role, names, row in rows)


def _strip(role: str, names: list[str], row: Sequence[Picture | None], *, named: bool) -> Strip:
    who = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    title, about = ROLES.get(role, (who, "what the attacker makes of its messages"))
    if named and role in ROLES:
        about = f"{about}; {who}"
    cells = tuple(_cell(p, title) for p in row)
    hits = [p.found for p in row if p is not None and p.found is not None]
    found = f"{sum(h >= 0.5 for h in hits)} of {len(hits)} found among look-alikes" if hits else "whether they are found was not measured"
    if role == "original":
        return Strip(title, about, cells, f"{len(row)} drawn without looking at what came out", "none")
    tone = "none" if role != "attack" else "leak" if hits and max(hits) >= 0.5 else "none"
    return Strip(title, about, cells, found, tone)


def _differing(params: str, rivals: Iterable[str]) -> str:
    """The parameters, as in "attacker naive", whose values are not the same in all ``rivals``."""
    mine, others = json.loads(params), [json.loads(r) for r in rivals]
    return ", ".join(f"{k} {v}" for k, v in mine.items() if any(o.get(k) != v for o in others))


def _cell(picture: Picture | None, title: str) -> Cell:
    if picture is None:
        return Cell("", "no image", f"{title}: the attack gave no image, or it was not kept")
    name = picture.unit.replace("/", " ")
    short = " ".join(picture.unit.split("/")[:2])  # the example's row in the task's data stays in the text
    if not np.isfinite(picture.image).all():
        return Cell("", "attack failed", f"{title}, {name}: the attack gave no image")
    under = short if picture.role == "original" else f"{picture.psnr:.0f} dB" if picture.psnr is not None else "PSNR not measured"
    alt = f"{title}, {name}" + ("" if picture.role == "original" else f", {under}")
    return Cell(data_uri(picture.image), under, alt, picture.image.shape[1], picture.image.shape[0])


def data_uri(image: NDArray[np.generic]) -> str:
    """(H, W) or (H, W, 3) in [0, 1] as an embedded PNG."""
    pixels = np.clip(np.rint(np.asarray(image, dtype=np.float64) * 255), 0, 255).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def png(pixels: NDArray[np.uint8]) -> bytes:
    """8-bit grey or RGB pixels as a PNG file, the same bytes on every machine."""
    high, wide = pixels.shape[:2]
    lines = b"".join(b"\0" + pixels[y].tobytes() for y in range(high))
    head = struct.pack(">IIBBBBB", wide, high, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts)


def attack_name(name: str) -> str:
    """An attack in words."""
    return ATTACKS.get(name, name.replace("_", " "))
