"""Originals beside what was made of the messages: rows of small pictures over the same units,
weakest to strongest defense.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leakbench.judging import Question, Setting, plural
from leakbench.reporting import Picture, Place, ReportData
from leakbench.judging import ATTACKERS
from reports._png import Store, Stored
from reports._words import ATTACKS

Units = tuple[Place, ...]
Source = tuple[str, str, str]  # setting_key, attack, its parameters

MOST_UNITS = 8
SETTINGS = 3  # the least and the most defended that are open
BUDGET = 8_000_000  # characters of all pictures together
ROLES = {
    "original": ("Original", "what the client holds"),
    "floor": ("Blind guess", "made without what is attacked: what anybody could draw"),
    "control": ("Nothing defended", "control: can this attack work at all?"),
}
STRENGTH = {a.key: (i, a.name) for i, a in enumerate(ATTACKERS)}


@dataclass(frozen=True)
class Cell:
    """One picture (None: there is none), what stands under it, its text for those who do not see
    it.
    """

    picture: Stored | None
    under: str
    alt: str


@dataclass(frozen=True)
class Strip:
    """One row of pictures; ``tone`` colours ``found``. ``family`` is empty for rows that are
    nobody's.
    """

    title: str
    about: str
    cells: tuple[Cell, ...]
    found: str
    tone: str
    family: str = ""


@dataclass(frozen=True)
class Album:
    """All rows over the same units of a task. ``folded``: settings between those that are open;
    ``left_out`` units are not shown.
    """

    task: str
    attacks: str
    probe: bool
    strips: tuple[Strip, ...]
    folded: tuple[Strip, ...]
    columns: int
    left_out: int


@dataclass(frozen=True)
class Gallery:
    """``units`` of each album are shown; fewer than ``MOST_UNITS`` because the page would be too
    large.
    """

    albums: tuple[Album, ...]
    store: tuple[Stored, ...]
    units: int

    @property
    def short(self) -> bool:
        """Were units left out for their size?"""
        return self.units < MOST_UNITS


def gallery(
    data: ReportData,
    settings: Sequence[Setting],
    questions: Sequence[Question],
    budget: int = BUDGET,
) -> Gallery:
    """As many units as fit into ``budget`` characters, the same number everywhere."""
    rungs = {(r["attack"], r["attack_params"]): str(r["rung"]) for r in data.tradeoff}
    verdicts = {
        (j.setting.key, q.probe): j.verdict.tone
        for q in questions
        if q.topic.name == "images"
        for j in q.judged
    }
    for units in range(MOST_UNITS, 0, -1):
        store = Store()
        found = _albums(data.pictures, {s.key: s for s in settings}, rungs, verdicts, store, units)
        if store.size <= budget or units == 1:
            break
    return Gallery(tuple(found), tuple(store.found.values()), units)


def _albums(
    pictures: Sequence[Picture],
    settings: Mapping[str, Setting],
    rungs: Mapping[tuple[str, str], str],
    verdicts: Mapping[tuple[str, bool], str],
    store: Store,
    most: int,
) -> list[Album]:
    by_source: dict[tuple[str, Source], list[Picture]] = defaultdict(list)
    for p in pictures:
        by_source[p.task, (p.setting, p.attack, p.attack_params)].append(p)
    grouped: dict[tuple[str, Units], dict[Source, list[Picture]]] = defaultdict(dict)
    for (task, source), found in by_source.items():
        grouped[task, tuple(dict.fromkeys(p.place for p in found))][source] = found
    out = []
    for (task, units), members in grouped.items():
        shown = units[:most]
        probe = any(u[1] is not None for u in units)
        rows = _Rows(members, shown, settings, rungs, verdicts, probe, store)
        opened, folded = rows.attacks()
        attacks = " and ".join(dict.fromkeys(attack_name(a) for _, a, _ in members))
        out.append(
            Album(
                task,
                attacks,
                probe,
                (*rows.shared(), *opened),
                folded,
                len(shown),
                len(units) - len(shown),
            )
        )
    return sorted(out, key=lambda a: (a.task, a.probe, a.attacks))


@dataclass(frozen=True)
class _Rows:
    """The rows of one album."""

    members: Mapping[Source, list[Picture]]
    units: Units
    settings: Mapping[str, Setting]
    rungs: Mapping[tuple[str, str], str]
    verdicts: Mapping[tuple[str, bool], str]
    probe: bool
    store: Store

    def row(self, source: Source, role: str) -> list[Picture | None]:
        at = {p.place: p for p in self.members[source] if p.role == role}
        return [at.get(u) for u in self.units]

    def shared(self) -> list[Strip]:
        """Original, blind guess and control once: for each attack of a name those of the first
        setting that it was made on.
        """
        every = self.sources()
        # Its strongest.
        chosen = {
            s[1]: s
            for s in every
            if self.place(s[0]) == min(self.place(o[0]) for o in every if o[1] == s[1])
        }
        out = []
        for role in ROLES:
            for source in list(chosen.values())[: 1 if role == "original" else None]:
                row = self.row(source, role)
                if any(row):
                    out.append(self.reference(role, source, row, several=len(chosen) > 1))
        return out

    def reference(
        self, role: str, source: Source, row: Sequence[Picture | None], *, several: bool
    ) -> Strip:
        title, about = ROLES[role]
        if role == "original":
            return self.strip(
                title,
                about,
                row,
                f"{plural(len(row), 'unit')}, drawn before anything was known of what came out",
                "none",
            )
        about += f"; {attack_name(source[1])}" if several else ""
        about += f"; with {self.name(source)}" if role == "control" else ""
        return self.strip(
            title,
            about,
            row,
            _found(row),
            "leak" if role == "control" and _share(row) >= 0.5 else "none",
        )

    def attacks(self) -> tuple[tuple[Strip, ...], tuple[Strip, ...]]:
        """Open and folded: the settings of which most was rebuilt first, the strongest defense
        last.
        """
        got: dict[str, list[float]] = defaultdict(list)
        for source in self.members:
            got[source[0]].append(_psnr(self.row(source, "attack")))
        ranked = sorted(got, key=lambda key: (-max(got[key]), self.place(key)))
        ends = {*ranked[:SETTINGS], *ranked[-SETTINGS:]}
        opened: list[Strip] = []
        folded: list[Strip] = []
        for key in ranked:
            for source in (s for s in self.sources() if s[0] == key):
                (opened if key in ends else folded).append(
                    self.attack(source, self.row(source, "attack"))
                )
        return tuple(opened), tuple(folded)

    def attack(self, source: Source, row: Sequence[Picture | None]) -> Strip:
        key, attack, params = source
        rung = self.rungs.get((attack, params), "")
        several = sum(s[0] == key for s in self.members) > 1
        rivals = {p for _, a, p in self.members if a == attack}
        title = self.name(source) + (
            f", {STRENGTH[rung][1].removeprefix('+ ')}" if several and rung in STRENGTH else ""
        )
        about = ", ".join(x for x in (attack_name(attack), _differing(params, rivals)) if x)
        tone = (
            "leak"
            if _share(row) > 0
            else "held"
            if self.verdicts.get((key, self.probe)) == "held"
            else "none"
        )
        family = self.settings[key].family if key in self.settings else ""
        return self.strip(title, about, row, _found(row), tone, family)

    def strip(
        self,
        title: str,
        about: str,
        row: Sequence[Picture | None],
        found: str,
        tone: str,
        family: str = "",
    ) -> Strip:
        return Strip(
            title, about, tuple(_cell(p, title, self.store) for p in row), found, tone, family
        )

    def sources(self) -> list[Source]:
        """Settings in the page's order, a setting's attacks weakest first."""
        strongest = (len(STRENGTH), "")
        return sorted(
            self.members,
            key=lambda s: (
                self.place(s[0]),
                STRENGTH.get(self.rungs.get((s[1], s[2]), ""), strongest)[0],
                s[1],
                s[2],
            ),
        )

    def place(self, key: str) -> int:
        return self.settings[key].index if key in self.settings else len(self.settings)

    def name(self, source: Source) -> str:
        return self.settings[source[0]].name if source[0] in self.settings else "unknown setting"


def _psnr(row: Sequence[Picture | None]) -> float:
    known = [p.psnr for p in row if p is not None and p.psnr is not None]
    return sum(known) / len(known) if known else -math.inf


def _share(row: Sequence[Picture | None]) -> float:
    """Of those where it was measured, how many were found."""
    hits = [p.found >= 0.5 for p in row if p is not None and p.found is not None]
    return sum(hits) / len(hits) if hits else 0.0


def _found(row: Sequence[Picture | None]) -> str:
    hits = [p.found for p in row if p is not None and p.found is not None]
    return (
        f"{sum(h >= 0.5 for h in hits)} of {len(hits)} found among look-alikes"
        if hits
        else "whether they are found was not measured"
    )


def _differing(params: str, rivals: Iterable[str]) -> str:
    """The parameters, as in "attacker naive", whose values are not the same in all ``rivals``."""
    mine, others = json.loads(params), [json.loads(r) for r in rivals]
    return ", ".join(f"{k} {v}" for k, v in mine.items() if any(o.get(k) != v for o in others))


def _cell(picture: Picture | None, title: str, store: Store) -> Cell:
    if picture is None:
        return Cell(None, "no image", f"{title}: the attack gave no image, or it was not kept")
    name = picture.unit.replace("/", " ")
    # The example's row in the task's data stays in the text.
    short = " ".join(picture.unit.split("/")[:2])
    if not np.isfinite(picture.image).all():
        return Cell(None, "attack failed", f"{title}, {name}: the attack gave no image")
    under = (
        short
        if picture.role == "original"
        else f"{picture.psnr:.0f} dB"
        if picture.psnr is not None
        else "PSNR not measured"
    )
    alt = f"{title}, {name}" + ("" if picture.role == "original" else f", {under}")
    return Cell(store.add(picture.image), under, alt)


def attack_name(name: str) -> str:
    """An attack in words."""
    return ATTACKS.get(name, name.replace("_", " "))
