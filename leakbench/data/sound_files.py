"""UrbanSound8K and the Free Spoken Digit Dataset in their official layouts: WAV files.

Of UrbanSound8K the folder UrbanSound8K/ with metadata/UrbanSound8K.csv and audio/fold1 to fold10;
of the digits a folder with recordings/{digit}_{speaker}_{take}.wav.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.base.data_folder import data_folder
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.plain_text import plain_text
from leakbench.data import official
from leakbench.data.wav_files import broken

URBAN, DIGITS = "urbansound8k", "fsdd"  # names in ``sets``
PAGES = {URBAN: 'the page "UrbanSound8K"', DIGITS: 'the page "Free Spoken Digit Dataset"'}
# Folders that may hold the recordings of digits, as they are unpacked.
DIGIT_FOLDERS = ("free-spoken-digit-dataset", "fsdd")
URBAN_FOLDER = "UrbanSound8K"
CLASSES, FOLDS = 10, 10
COLUMNS = ("slice_file_name", "fsID", "fold", "classID")
# Clips in each of UrbanSound8K's folds, by its own description.
URBAN_FOLDS = [873, 888, 925, 990, 936, 823, 838, 806, 816, 837]


@dataclass(frozen=True)
class Clip:
    """One file, and what is said of it."""

    path: Path
    y: int  # 0 to 9
    source: str  # the recording that it is cut from (fsID), or who speaks
    part: int  # the fold, 1 to 10, or the take, from 0 on


def place(name: str) -> Path | None:
    """The folder of a set, whole or not, or None."""
    if name == URBAN:
        folder = data_folder() / URBAN_FOLDER
        return folder if folder.is_dir() else None
    folders = [data_folder() / f for f in DIGIT_FOLDERS]
    return next((f for f in folders if (f / "recordings").is_dir()), None)


def found(name: str) -> Path | None:
    """The folder that holds all files of a set, or None."""
    try:
        return place(name) if clips(name) else None
    except (BrokenFile, UsageError):
        return None


def layouts(name: str) -> str:
    """The official folders that may hold the set, in words."""
    if name == URBAN:
        return f"{URBAN_FOLDER}/"
    return " or ".join(f"{f}/recordings/" for f in DIGIT_FOLDERS)


def absent(name: str) -> str:
    """That the set is nowhere, and what to do."""
    return (
        f"{name} is not in {data_folder()} (looked for {layouts(name)}) and is not fetched for you:"
        f" get it from {PAGES[name]} and put the folder there, or set LEAKBENCH_DATA to the folder"
        " that has it."
    )


def clips(name: str) -> list[Clip]:
    """What a set's official layout lists, in the order of file names; no WAV is opened.

    Raises:
        UsageError: the folder is missing.
        BrokenFile: it holds other things than it should, or a file is missing.
    """
    folder = place(name)
    if folder is None:
        raise UsageError(absent(name))
    listed = _urban(folder) if name == URBAN else _digits(folder)
    if not listed:
        raise BrokenFile(f"{folder} lists no recording at all. Get the set anew.")
    return sorted(listed, key=lambda c: c.path.name)


def unofficial(name: str) -> str:
    """Which file of a set that is there is not the official one, a clause; empty where all are.

    Of UrbanSound8K the number of clips in each fold is known, and no digest.
    """
    listed = clips(name)
    if name == DIGITS:
        return official.unlike_together(name, [c.path for c in listed])
    in_fold = Counter(c.part for c in listed)
    counts = [in_fold[fold] for fold in range(1, FOLDS + 1)]
    if counts != URBAN_FOLDS:
        return f"{place(name)} has {counts} clips in its folds, not {URBAN_FOLDS}"
    return ""


def _urban(folder: Path) -> list[Clip]:
    table = folder / "metadata" / "UrbanSound8K.csv"
    if not table.is_file():
        raise BrokenFile(f"{table} is missing beside the folders of audio. Put it there too.")
    try:
        file = io.StringIO(plain_text(table), newline="")
        rows = list(csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise broken(table, str(error)) from None
    out, seen = [], set[str]()
    for number, row in enumerate(rows, 2):
        name, source, fold, y = _cells(table, number, row)
        path = folder / "audio" / f"fold{fold}" / name
        if not 1 <= fold <= FOLDS or not 0 <= y < CLASSES:
            why = f"line {number} has fold {fold} and class {y}; they go to {FOLDS}, and from 0 to"
            raise broken(table, f"{why} {CLASSES - 1}")
        if name in seen or path.name != name:
            raise broken(table, f"line {number}: {name!r} is named twice, or is no file's name")
        seen.add(name)
        out.append(Clip(path, y, source, fold))
    _there(c.path for c in out)
    _apart(table, out)
    return out


def _cells(table: Path, number: int, row: dict[str, Any]) -> tuple[str, str, int, int]:
    values = [row.get(column) for column in COLUMNS]
    if None in values:
        raise broken(table, f"line {number} has not all of {', '.join(COLUMNS)}")
    name, source, fold, y = map(str, values)
    if not (fold.isdecimal() and y.isdecimal()):
        raise broken(table, f"line {number} has fold {fold!r} and class {y!r}, no whole numbers")
    return name, source, int(fold), int(y)


def _apart(table: Path, listed: list[Clip]) -> None:
    """Raise BrokenFile where clips of one recording are in two folds, which the set rules out."""
    fold: dict[str, int] = {}
    for c in listed:
        if fold.setdefault(c.source, c.part) != c.part:
            why = f"recording {c.source} is in folds {fold[c.source]} and {c.part}"
            raise broken(table, why)


def _digits(folder: Path) -> list[Clip]:
    out = []
    for path in (folder / "recordings").glob("[!.]*"):
        named = re.fullmatch(r"([0-9])_([a-z]+)_([0-9]{1,3})\.wav", path.name)
        if named is None:
            raise BrokenFile(
                f"{path} is no {{digit}}_{{speaker}}_{{take}}.wav, as all files there are. Take it"
                " away, or get the set anew."
            )
        out.append(Clip(path, int(named[1]), named[2], int(named[3])))
    return out


def _there(paths: Iterable[Path]) -> None:
    missing = [p for p in paths if not p.is_file()]
    if missing:
        raise BrokenFile(
            f"{missing[0]} is missing beside the other files of its set ({len(missing)} are). Put"
            " it there too."
        )
