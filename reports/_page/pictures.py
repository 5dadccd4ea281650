"""Originals beside what was made of the messages.

Rows of small pictures over the same units, weakest to strongest defense.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leakbench.base import canonical
from leakbench.reporting import Picture, Place, ReportData, Role, ShownSetting
from leakbench.words import ATTACKERS, plural
from reports._words import attack, under

Units = tuple[Place, ...]
Row = Sequence[Picture | None]

MOST_UNITS = 8
SETTINGS = 3  # the least and the most defended that are open
BUDGET = 5_000_000  # characters of all pictures together, a third of a page's 15 MB
ROLES: dict[Role, tuple[str, str]] = {
    "original": ("Original", "what the client holds"),
    "floor": ("Blind guess", "made without what is attacked: what anybody could draw"),
    "control": ("Nothing defended", "control: can this attack work at all?"),
}
STRENGTH = {a.key: (i, a.name) for i, a in enumerate(ATTACKERS)}
PNG_HEAD = 32  # characters of base64 that hold a PNG's size


@dataclass(frozen=True)
class Stored:
    """A picture as the page holds it: used by ``ident`` wherever it stands."""

    ident: str
    uri: str
    wide: int
    high: int


class Store:
    """Those of a report's ``images`` and ``sounds`` that the page shows, each once."""

    def __init__(self, images: Mapping[str, str], sounds: Mapping[str, str]) -> None:
        self.images, self.found = images, dict[str, Stored]()
        self.sounds, self.heard = sounds, dict[str, str]()  # heard: the names of their files
        self.played = 0

    def add(self, sha256: str) -> Stored:
        """One of them."""
        if sha256 not in self.found:
            coded = self.images[sha256]
            wide, high = struct.unpack(">II", base64.b64decode(coded[:PNG_HEAD])[16:24])
            uri = f"data:image/png;base64,{coded}"
            self.found[sha256] = Stored(f"p{len(self.found)}", uri, wide, high)
        return self.found[sha256]

    def sound(self, picture: Picture) -> str:
        """The sound of a picture as a data URI, "" where it has none.

        A player for each place: a sound stands in the page as often as it is shown.
        """
        if picture.sound is None:
            return ""
        uri = f"data:audio/wav;base64,{self.sounds[picture.sound]}"
        name = "-".join(_word(w) for w in (picture.attack, picture.unit, picture.role))
        self.heard.setdefault(picture.sound, f"{name}-{picture.sound[:8]}.wav")
        self.played += len(uri)
        return uri

    @property
    def size(self) -> int:
        """Characters that they take in the page."""
        return self.played + sum(len(s.uri) for s in self.found.values())


@dataclass(frozen=True)
class PictureCell:
    """One picture, and what is said of it."""

    picture: Stored | None  # None: there is none
    under: str  # what stands below
    alt: str  # for those who do not see it
    sound: str = ""  # a data URI


@dataclass(frozen=True)
class PictureRow:
    """One row of pictures."""

    title: str
    about: str
    cells: tuple[PictureCell, ...]
    found: str
    tone: str  # colours ``found``
    family: str = ""  # empty for rows that are nobody's


@dataclass(frozen=True)
class Album:
    """All rows over the same units of a task."""

    task: str
    attacks: str
    probe: bool
    drawn: bool  # are the pictures of all that a client holds, and of no single example?
    strips: tuple[PictureRow, ...]
    folded: tuple[PictureRow, ...]  # settings between those that are open
    columns: int
    left_out: int  # units that are not shown


@dataclass(frozen=True)
class Gallery:
    """All albums of a page."""

    albums: tuple[Album, ...]
    store: tuple[Stored, ...]
    sounds: dict[str, str]  # those that can be heard: SHA-256 -> name of the file
    # Shown of each album; fewer than ``MOST_UNITS`` because the page would be too large.
    units: int

    @property
    def drawn(self) -> bool:
        """Are there pictures of all that a client holds?"""
        return any(a.drawn for a in self.albums)

    @property
    def unheard(self) -> bool:
        """Are there pictures that are not of sound?"""
        strips = [s for a in self.albums for s in (*a.strips, *a.folded)]
        return not self.sounds or any(c.picture and not c.sound for s in strips for c in s.cells)

    @property
    def short(self) -> bool:
        """Were units left out for their size?"""
        return self.units < MOST_UNITS


@dataclass(frozen=True)
class _Source:
    """What one attack made of one setting."""

    setting: ShownSetting
    attack: str
    params: dict[str, Any]
    pictures: list[Picture]
    # Of the verdict on the first question that the attack answers with the same kind of message.
    tone: str

    @property
    def units(self) -> Units:
        """Its pictures' places."""
        return tuple(dict.fromkeys(p.place for p in self.pictures))

    @cached_property
    def rung(self) -> str:
        """The attack's strength, "" where it gave no number."""
        key = (self.attack, canonical(self.params))
        known = {n.attacker.key: n.attacker.rung for n in self.setting.numbers}
        return known.get(key, "")

    @property
    def place(self) -> tuple[int, int, str, str]:
        """Settings in the page's order, a setting's attacks weakest first."""
        strength, _ = STRENGTH.get(self.rung, (len(STRENGTH), ""))
        return self.setting.index, strength, self.attack, canonical(self.params)

    def row(self, role: Role, units: Units) -> Row:
        """Its pictures of one role."""
        at = {p.place: p for p in self.pictures if p.role == role}
        return [at.get(u) for u in units]


def gallery(data: ReportData, budget: int = BUDGET) -> Gallery:
    """As many units as fit into ``budget`` characters, the same number everywhere."""
    sources = _sources(data)
    for units in range(MOST_UNITS, 0, -1):
        store = Store(data.images, data.sounds)
        found = _albums(sources, store, units)
        if store.size <= budget:
            break
    return Gallery(tuple(found), tuple(store.found.values()), store.heard, units)


def _sources(data: ReportData) -> list[_Source]:
    tones: dict[tuple[int, bool, str], str] = {}
    for j in [j for q in data.questions for j in q.judged]:
        for n in j.evidence.attacks:
            tones.setdefault((j.setting.index, n.probe, n.attacker.name), j.verdict.tone)
    out = []
    for s in data.settings:
        by_attack: dict[tuple[str, str], list[Picture]] = defaultdict(list)
        for p in s.pictures:
            by_attack[p.attack, canonical(p.params)].append(p)
        for (name, _), found in by_attack.items():
            probe = any(p.probe is not None for p in found)
            tone = tones.get((s.index, probe, name), "none")
            out.append(_Source(s, name, found[0].params, found, tone))
    return sorted(out, key=lambda source: source.place)


def _albums(sources: Sequence[_Source], store: Store, most: int) -> list[Album]:
    grouped: dict[tuple[str, Units], list[_Source]] = defaultdict(list)
    for s in sources:
        grouped[s.setting.task, s.units].append(s)
    out = []
    for (task, units), members in grouped.items():
        rows = _Rows(members, units[:most], store)
        opened, folded = rows.attacks()
        names = dict.fromkeys(attack(s.attack) for s in members)
        album = Album(
            task=task,
            attacks=" and ".join(names),
            probe=any(probe is not None for _, probe, _, _ in units),
            drawn=any(p.of == "client" for s in members for p in s.pictures),
            strips=(*rows.shared(), *opened),
            folded=tuple(folded),
            columns=len(rows.units),
            left_out=len(units) - len(rows.units),
        )
        out.append(album)
    return sorted(out, key=lambda a: (a.task, a.probe, a.attacks))


@dataclass(frozen=True)
class _Rows:
    """The rows of one album."""

    members: Sequence[_Source]  # in the page's order
    units: Units
    store: Store

    def shared(self) -> list[PictureRow]:
        """Original, blind guess and control once.

        For each attack of a name those of the first setting that it was made on, at its strongest.
        """
        chosen: dict[str, _Source] = {}
        for s in self.members:
            first = chosen.get(s.attack)
            if first is None or first.setting.index == s.setting.index:
                chosen[s.attack] = s
        out = []
        for role in ROLES:
            for source in list(chosen.values())[: 1 if role == "original" else None]:
                row = source.row(role, self.units)
                if any(row):
                    out.append(self._reference(role, source, row, several=len(chosen) > 1))
        return out

    def _reference(self, role: Role, source: _Source, row: Row, *, several: bool) -> PictureRow:
        title, about = ROLES[role]
        if role == "original":
            units = plural(len(row), "unit")
            if any(p is not None and p.of == "client" for p in row):
                about = "the mean of the images that the client holds"
            drawn = f"{units}, drawn before anything was known of what came out"
            return self._strip(title, about, row, drawn, "none")
        about += f"; {attack(source.attack)}" if several else ""
        about += f"; with {source.setting.name}" if role == "control" else ""
        tone = "leak" if role == "control" and _share(row) >= 0.5 else "none"
        return self._strip(title, about, row, _found(row), tone)

    def attacks(self) -> tuple[list[PictureRow], list[PictureRow]]:
        """Open and folded: the settings of which most was rebuilt first.

        The strongest defense is last.
        """
        by_setting: dict[int, list[_Source]] = defaultdict(list)
        for s in self.members:
            by_setting[s.setting.index].append(s)
        got: dict[int, float] = {}
        for index, own in by_setting.items():
            got[index] = max(_nearness(s.row("attack", self.units)) for s in own)
        ranked = sorted(got, key=lambda index: (-got[index], index))
        ends = {*ranked[:SETTINGS], *ranked[-SETTINGS:]}
        opened, folded = list[PictureRow](), list[PictureRow]()
        for index in ranked:
            several = len(by_setting[index]) > 1
            strips = [self._attack(s, several=several) for s in by_setting[index]]
            (opened if index in ends else folded).extend(strips)
        return opened, folded

    def _attack(self, source: _Source, *, several: bool) -> PictureRow:
        row, title = source.row("attack", self.units), source.setting.name
        if several and source.rung in STRENGTH:
            title += f", {STRENGTH[source.rung][1]}"
        rivals = [s.params for s in self.members if s.attack == source.attack]
        about = [attack(source.attack)]
        # As in "attacker naive": what is not the same in all of them.
        for k, v in source.params.items():
            if any(params.get(k) != v for params in rivals):
                about.append(f"{k} {v}")
        tone = "held" if source.tone == "held" else "none"
        if _share(row) > 0:
            tone = "leak"
        told = ", ".join(about)
        return self._strip(title, told, row, _found(row), tone, source.setting.family)

    def _strip(
        self, title: str, about: str, row: Row, found: str, tone: str, family: str = ""
    ) -> PictureRow:
        cells = tuple(_cell(p, title, self.store) for p in row)
        return PictureRow(title, about, cells, found, tone, family)


def _nearness(row: Row) -> float:
    """In dB, of images up to their peak, of sounds down from the original."""
    known = [p.psnr for p in row if p is not None and p.psnr is not None]
    known += [-p.off for p in row if p is not None and p.off is not None]
    return sum(known) / len(known) if known else -math.inf


def _hits(row: Row) -> list[bool]:
    """Of those where it was measured: was it found?"""
    return [p.found >= 0.5 for p in row if p is not None and p.found is not None]


def _share(row: Row) -> float:
    hits = _hits(row)
    return sum(hits) / len(hits) if hits else 0.0


def _found(row: Row) -> str:
    hits = _hits(row)
    if not hits:
        return "whether they are found was not measured"
    drawn = any(p is not None and p.of == "client" for p in row)
    how = "recognised among all clients" if drawn else "found among look-alikes"
    return f"{sum(hits)} of {len(hits)} {how}"


def _cell(picture: Picture | None, title: str, store: Store) -> PictureCell:
    if picture is None:
        why = f"{title}: the attack gave no image, or it was not kept"
        return PictureCell(None, "no image", why)
    told, alt = under(picture), f"{title}, {picture.unit.replace('/', ' ')}"
    if picture.sha256 is None:
        return PictureCell(None, told, f"{alt}: the attack gave no image")
    if picture.role != "original":
        alt += f", {told}"
    return PictureCell(store.add(picture.sha256), told, alt, store.sound(picture))


def _word(text: str) -> str:
    """Of letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
