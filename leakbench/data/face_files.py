"""Faces by person: VGGFace2 (Cao et al. 2018) and the ORL faces in their official layouts.

VGGFace2/ (or VGGFace2/data/) with train/nNNNNNN/*.jpg, test/nNNNNNN/*.jpg, and beside them or in
meta/ identity_meta.csv; its boxes loose_bb_train.csv and loose_bb_test.csv stand there or in
bb_landmark/. Of the ORL faces a folder orl-faces/ with s1 to s40, each 1.pgm to 10.pgm.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from leakbench.base.data_folder import data_folder
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.lazy import torch
from leakbench.base.plain_text import plain_text
from leakbench.data.wav_files import broken

if TYPE_CHECKING:
    from torch import Tensor

VGGFACE2, ORL = "vggface2", "orl-faces"  # names in ``sets``
PAGES = {VGGFACE2: 'the page "VGGFace2"', ORL: 'the page "The Database of Faces" of AT&T'}
FOLDERS = {
    VGGFACE2: ("VGGFace2/data", "VGGFace2", "vggface2"),
    ORL: ("orl-faces", "orl_faces", "att_faces"),
}
META, PARTS = "identity_meta.csv", ("train", "test")
COLUMNS = ("Class_ID", "Flag")  # of the table; 1: a person of the training part
ORL_PEOPLE, ORL_IMAGES, ORL_SIZE = 40, 10, (92, 112)  # width, height
OFFICIAL = {"train": 8631, "test": 500}  # VGGFace2's people, by its own description
# SHA-256 of all pixels of the ORL faces, person after person, as two public copies have them.
ORL_PIXELS = "2e4844a9f4fa4397058f69d6208047170f2e9d399cda18b55c1e8d28f0a83431"
Box = tuple[int, int, int, int]  # left, top, width, height, pixels


@dataclass(frozen=True)
class Faces:
    """What a set lists: people in the order of their names, their images in that of theirs."""

    train: dict[str, list[Path]]
    test: dict[str, list[Path]]


def place(name: str) -> Path | None:
    """The folder of a set, whole or not, or None."""
    sign = "train" if name == VGGFACE2 else "s1"
    folders = (data_folder() / f for f in FOLDERS[name])
    return next((f for f in folders if (f / sign).is_dir()), None)


def found(name: str) -> Path | None:
    """The folder that holds a set, or None; images are not counted."""
    folder = place(name)
    if folder is None or name == ORL:
        return folder if folder and (folder / f"s{ORL_PEOPLE}").is_dir() else None
    return folder if (folder / "test").is_dir() and _beside(folder, META) else None


def layouts(name: str) -> str:
    """The official folder that may hold the set, in words."""
    return f"{FOLDERS[name][1 if name == VGGFACE2 else 0]}/"


def absent(name: str) -> str:
    """That the set is nowhere, and what to do."""
    return (
        f"{name} is not in {data_folder()} (looked for {layouts(name)}) and is not fetched for you:"
        f" get it from {PAGES[name]} and put the folder there, or set LEAKBENCH_DATA to the folder"
        " that has it."
    )


def unofficial(name: str) -> str:
    """Why a set that is there is not the official one, a clause; empty where it is.

    Of VGGFace2 the number of people in each part is known, and no digest.
    """
    faces = people(name)
    if name == VGGFACE2:
        came = {part: len(getattr(faces, part)) for part in PARTS}
        return "" if came == OFFICIAL else f"{place(name)} has {came} people, not {OFFICIAL}"
    digest = hashlib.sha256()
    for files in faces.train.values():
        for path in files:
            digest.update(_orl(path).tobytes())
    same = digest.hexdigest() == ORL_PIXELS
    return "" if same else f"the images in {place(name)} are not those of the official {name}"


def people(name: str) -> Faces:
    """What the official layout lists; no image is opened. ORL's people are all in ``train``.

    Raises:
        UsageError: the folder is missing.
        BrokenFile: it holds other things than it should, or a file is missing.
    """
    folder = place(name)
    if folder is None:
        raise UsageError(absent(name))
    return _vggface2(folder) if name == VGGFACE2 else Faces(_orl_people(folder), {})


def boxes(part: str) -> dict[str, Box]:
    """{"nNNNNNN/NNNN_NN": box} of the faces in VGGFace2's images, as the set says them.

    Raises:
        BrokenFile: the table is missing, or damaged.
    """
    folder, name = place(VGGFACE2), f"loose_bb_{part}.csv"
    table = folder and _beside(folder, name)
    if not table:
        raise BrokenFile(
            f"{name} is missing beside VGGFace2's train/ and test/. Put it there too, or take whole"
            " images by task.boxes=false."
        )
    out = {}
    for number, row in enumerate(_rows(table), 2):
        try:
            numbers = [int(row[k]) for k in ("X", "Y", "W", "H")]
            left, top, width, height = numbers
            out[row["NAME_ID"]] = (left, top, width, height)
        except (KeyError, TypeError, ValueError):
            raise broken(table, f"line {number} is no NAME_ID, X, Y, W, H") from None
        if width < 1 or height < 1:
            raise broken(table, f"line {number} has a box of {width} x {height} pixels")
    return out


def images(
    paths: Sequence[Path], side: int, *, grey: bool, boxes: Mapping[str, Box] | None = None
) -> Tensor:
    """Square images of ``side`` pixels, (n, 3, side, side) uint8, or (n, 1, side, side) if grey.

    The square about each one's box, as long as the longer of its sides (black beyond the image);
    where there is none the largest one in the middle. Averaged down, by Pillow's bilinear filter.

    Raises:
        BrokenFile: a file is no image, or cut, or has no box though others have.
    """

    def one(path: Path) -> NDArray[np.uint8]:
        key = f"{path.parent.name}/{path.stem}"
        if boxes is not None and key not in boxes:
            raise BrokenFile(f"{path} has no box in the set's table. Get the set anew.")
        return _square(path, side, "L" if grey else "RGB", boxes[key] if boxes else None)

    out = np.empty((len(paths), 1 if grey else 3, side, side), np.uint8)
    with ThreadPoolExecutor() as pool:
        for i, image in enumerate(pool.map(one, paths)):
            out[i] = image
    return torch.from_numpy(out)


def _square(path: Path, side: int, mode: str, box: Box | None) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(path) as held:
            image = held.convert(mode)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise broken(path, str(error)) from None
    if box is None:
        half = min(image.size) / 2
        middle = image.width / 2, image.height / 2
    else:
        half = max(box[2:]) / 2
        middle = box[0] + box[2] / 2, box[1] + box[3] / 2
    left, top = (round(m - half) for m in middle)
    long = round(2 * half)
    image = image.crop((left, top, left + long, top + long))
    pixels = np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def _beside(folder: Path, name: str) -> Path | None:
    """A table of VGGFace2, beside its parts or where the official archives have it."""
    above = folder.parent if folder.name == "data" else folder
    homes = (folder, above, above / "meta", above / "bb_landmark", folder / "meta")
    return next((h / name for h in homes if (h / name).is_file()), None)


def _vggface2(folder: Path) -> Faces:
    table = _beside(folder, META)
    if table is None:
        raise BrokenFile(f"{META} is missing beside {folder / 'train'}. Put it there too.")
    part: dict[str, str] = {}
    for number, row in enumerate(_rows(table), 2):
        who, flag = (str(row.get(k)).strip() for k in COLUMNS)
        if not re.fullmatch(r"n\d{6}", who) or flag not in ("0", "1") or who in part:
            why = f"line {number} has person {who!r} with flag {flag!r}; expected each nNNNNNN once"
            raise broken(table, f"{why}, and 1 (train) or 0 (test)")
        part[who] = PARTS[0] if flag == "1" else PARTS[1]
    out: dict[str, dict[str, list[Path]]] = {}
    for of in PARTS:
        known = {p.name for p in (folder / of).glob("[!.]*")}
        listed = {who for who in part if part[who] == of}
        if missing := sorted(listed - known):
            raise BrokenFile(
                f"{folder / of / missing[0]} is missing, though {META} names it ({len(missing)} are"
                " missing). Put it there too."
            )
        if foreign := sorted(known - listed):
            raise BrokenFile(
                f"{folder / of / foreign[0]} is no person whom {META} has in {of}. Take it away, or"
                " get the set anew."
            )
        out[of] = {who: _portraits(folder / of / who) for who in sorted(listed)}
    return Faces(out["train"], out["test"])


def _portraits(folder: Path) -> list[Path]:
    files = sorted(p for p in folder.glob("[!.]*"))
    foreign = [p for p in files if p.suffix != ".jpg"]
    if foreign:
        raise BrokenFile(f"{foreign[0]} is no .jpg, as all files there are. Get the set anew.")
    if not files:
        raise BrokenFile(f"{folder} has no image. Put the person's files there too.")
    return files


def _rows(table: Path) -> list[dict[str, Any]]:
    try:
        file = io.StringIO(plain_text(table), newline="")
        return list(csv.DictReader(file, skipinitialspace=True, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise broken(table, str(error)) from None


def _orl_people(folder: Path) -> dict[str, list[Path]]:
    out = {}
    for person in range(1, ORL_PEOPLE + 1):
        files = [folder / f"s{person}" / f"{i}.pgm" for i in range(1, ORL_IMAGES + 1)]
        for path in files:
            if not path.is_file():
                raise BrokenFile(
                    f"{path} is missing beside the other files of its set. Put it there too."
                )
        out[f"s{person}"] = files
    return out


def _orl(path: Path) -> NDArray[np.uint8]:
    """(112, 92)."""
    from PIL import Image

    try:
        with Image.open(path) as held:
            pixels = np.asarray(held)
    except (OSError, ValueError, SyntaxError) as error:
        raise broken(path, str(error)) from None
    if pixels.dtype != np.uint8 or pixels.shape != ORL_SIZE[::-1]:
        why = f"expected {ORL_SIZE[0]} x {ORL_SIZE[1]} grey pixels, came shape {pixels.shape}"
        raise broken(path, why)
    return pixels
