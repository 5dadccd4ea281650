"""VoxCeleb1 in its official layout (Nagrani et al. 2017): who speaks in which file, which pairs.

VoxCeleb1/ with vox1_meta.csv, wav/{speaker}/{video}/{utterance}.wav of both parts, and the list of
pairs veri_test2.txt (cleaned, 37,611 pairs), or else veri_test.txt (as first released, 37,720).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakbench.base.data_folder import data_folder
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.lazy import torch
from leakbench.base.plain_text import plain_text
from leakbench.data.log_mel import LogMel
from leakbench.data.wav_files import broken, waves

if TYPE_CHECKING:
    from torch import Tensor

VOXCELEB = "voxceleb1"  # its name in ``sets``
FOLDERS = ("VoxCeleb1", "voxceleb1")
META, LISTS = "vox1_meta.csv", ("veri_test2.txt", "veri_test.txt")
PAGE = 'the page "VoxCeleb"'
ID, PART = "VoxCeleb1 ID", "Set"  # columns of the table
# Speakers and utterances of each part, and pairs of each list, by the set's own description.
OFFICIAL = {"dev": (1211, 148_642), "test": (40, 4874)}
PAIRS = {"veri_test2.txt": 37_611, "veri_test.txt": 37_720}


@dataclass(frozen=True)
class Pair:
    """Two utterances that are compared."""

    one: Path
    other: Path
    same: bool  # does one person speak in both?


@dataclass(frozen=True)
class Voices:
    """What the set lists: speakers in the order of their names, their files in that of theirs."""

    dev: dict[str, list[Path]]
    test: dict[str, list[Path]]
    pairs: list[Pair]
    listed: str  # the list that they stand in


def place() -> Path | None:
    """The folder of the set, whole or not, or None."""
    folders = (data_folder() / name for name in FOLDERS)
    return next((f for f in folders if f.is_dir()), None)


def found(name: str = VOXCELEB) -> Path | None:
    """The folder that holds the table, a list of pairs and the waves, or None."""
    folder = place()
    whole = folder and (folder / META).is_file() and (folder / "wav").is_dir()
    return folder if folder and whole and _list(folder) else None


def layouts(name: str = VOXCELEB) -> str:
    """The official folder, in words."""
    return f"{FOLDERS[0]}/"


def absent(name: str = VOXCELEB) -> str:
    """That the set is nowhere, and what to do."""
    return (
        f"{VOXCELEB} is not in {data_folder()} (looked for {layouts()} with {META}, {LISTS[0]} and"
        f" wav/) and is not fetched for you: get it from {PAGE} and put the folder there, or set"
        " LEAKBENCH_DATA to the folder that has it."
    )


def unofficial(name: str = VOXCELEB) -> str:
    """Which count is not that of the official set, a clause; empty where all are.

    No digest is known.
    """
    voices = people()
    for part, wanted in OFFICIAL.items():
        files: dict[str, list[Path]] = getattr(voices, part)
        came = len(files), sum(map(len, files.values()))
        if came != wanted:
            return f"{place()} has {came} speakers and utterances of part {part}, not {wanted}"
    if len(voices.pairs) != PAIRS[voices.listed]:
        return f"{voices.listed} has {len(voices.pairs)} pairs, not {PAIRS[voices.listed]}"
    return ""


def people(name: str = VOXCELEB) -> Voices:
    """What the official layout lists; no WAV is opened.

    Raises:
        UsageError: the folder is missing.
        BrokenFile: it holds other things than it should, or a file is missing.
    """
    folder = place()
    if folder is None:
        raise UsageError(absent())
    part = _parts(folder / META)
    known = {path.name for path in (folder / "wav").glob("[!.]*")}
    if missing := sorted(set(part) - known):
        raise BrokenFile(
            f"{folder / 'wav' / missing[0]} is missing, though {META} names it ({len(missing)} are"
            " missing). Put it there too."
        )
    if foreign := sorted(known - set(part)):
        raise BrokenFile(
            f"{folder / 'wav' / foreign[0]} is no speaker of {META}. Take it away, or get the set"
            " anew."
        )
    files = {who: _utterances(folder / "wav" / who) for who in sorted(part)}
    dev = {who: own for who, own in files.items() if part[who] == "dev"}
    test = {who: own for who, own in files.items() if part[who] == "test"}
    listed = _list(folder)
    if not listed:
        raise BrokenFile(f"{folder / LISTS[0]} is missing beside {META}. Put it there too.")
    return Voices(dev, test, _pairs(folder, listed, test), listed)


def crops(paths: Sequence[Path], scale: LogMel, at: Tensor) -> Tensor:
    """Cut-outs of each file as spectrograms, (n, k, 1, mels, frames) float32.

    Args:
        paths: n WAV files.
        scale: whose ``samples`` a cut-out has; a shorter file is filled up by silence.
        at: (n, k), where each begins, from 0 (the file's begin) to 1 (as late as it can).

    Raises:
        BrokenFile: as ``waves``.
    """

    def one(path: Path, begins: list[float]) -> list[np.ndarray]:
        wave = waves(path, scale.rate, 1)
        spare = max(wave.shape[1] - scale.samples, 0)
        starts = [int(b * spare) for b in begins]
        return [scale.of(wave[:, s : s + scale.samples]) for s in starts]

    out = np.empty((*at.shape, 1, scale.mels, scale.frames), np.float32)
    with ThreadPoolExecutor() as pool:
        for i, cut in enumerate(pool.map(one, paths, at.tolist())):
            out[i] = cut
    return torch.from_numpy(out)


def _list(folder: Path) -> str:
    return next((name for name in LISTS if (folder / name).is_file()), "")


def _parts(table: Path) -> dict[str, str]:
    """{speaker: "dev" or "test"}."""
    if not table.is_file():
        raise BrokenFile(f"{table} is missing beside wav/. Put it there too.")
    try:
        file = io.StringIO(plain_text(table), newline="")
        rows = list(csv.DictReader(file, delimiter="\t", strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise broken(table, str(error)) from None
    out: dict[str, str] = {}
    for number, row in enumerate(rows, 2):
        who, part = row.get(ID), row.get(PART)
        if not who or not re.fullmatch(r"id\d{5}", who) or part not in OFFICIAL or who in out:
            why = f"line {number} has speaker {who!r} in part {part!r}; expected each idNNNNN once,"
            raise broken(table, f"{why} in dev or test, tabs between")
        out[who] = part
    if set(out.values()) != set(OFFICIAL):
        raise broken(table, "it does not have speakers of both parts, dev and test")
    return out


def _utterances(folder: Path) -> list[Path]:
    files = sorted(p for p in folder.glob("*/*") if not p.name.startswith("."))
    for path in files:
        if not re.fullmatch(r"\d{5}\.wav", path.name):
            raise BrokenFile(
                f"{path} is no {{video}}/NNNNN.wav, as all files there are. Take it away, or get"
                " the set anew."
            )
    if not files:
        raise BrokenFile(f"{folder} has no utterance. Put the speaker's files there too.")
    return files


def _pairs(folder: Path, listed: str, test: dict[str, list[Path]]) -> list[Pair]:
    table = folder / listed
    known = {p for files in test.values() for p in files}
    out = []
    try:
        lines = plain_text(table).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise broken(table, str(error)) from None
    for number, line in enumerate(lines, 1):
        words = line.split()
        if len(words) != 3 or words[0] not in ("0", "1"):
            raise broken(table, f"line {number} is no 0 or 1 and two files: {line[:80]!r}")
        same, *names = words
        one, other = (folder / "wav" / name for name in names)
        for path in (one, other):
            if path not in known:
                raise BrokenFile(
                    f"{path} is no file of a test speaker, though line {number} of {table} names"
                    " it. Get the set anew."
                )
        if (names[0].split("/")[0] == names[1].split("/")[0]) != (same == "1"):
            raise broken(table, f"line {number} says {same} of {names[0]} and {names[1]}")
        out.append(Pair(one, other, same == "1"))
    if not out:
        raise broken(table, "it has no pairs")
    return out
