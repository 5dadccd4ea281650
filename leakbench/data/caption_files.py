"""Images with captions in their official layouts: MS COCO 2014 and Flickr8k.

COCO: coco/annotations/captions_{part}2014.json and instances_{part}2014.json beside the folders
{part}2014 of JPEG files (Lin et al. 2014). Flickr8k (Hodosh et al. 2013) as it is mostly passed on:
flickr8k/captions.txt, lines of file name and caption, beside flickr8k/Images.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.data_folder import data_folder
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.lazy import torch
from leakbench.base.plain_text import plain_text
from leakbench.base.raised import first_line
from leakbench.data.vocabulary import words

if TYPE_CHECKING:
    from torch import Tensor

COCO, FLICKR8K = "coco-captions", "flickr8k"
FOLDERS = {COCO: "coco", FLICKR8K: "flickr8k"}
PARTS = ("train2014", "val2014")
# Where a person gets them: what the pages are called.
PAGES = {COCO: "COCO 2014 train/val images and annotations", FLICKR8K: "Flickr 8k Dataset"}
OFFICIAL = {COCO: 123_287, FLICKR8K: 8_091}  # images


@dataclass(frozen=True)
class Captioned:
    """An image file with what people wrote about it."""

    path: Path
    captions: tuple[str, ...]  # one at least
    objects: tuple[str, ...] = ()  # names of the categories of the objects in it (COCO), sorted


def found(name: str) -> Path | None:
    """The folder that holds the set's annotations and image folders, or None."""
    folder = data_folder() / FOLDERS[name]
    return folder if not _missing(name) else None


def layouts(name: str) -> str:
    """The folders and files that make up the set, in words."""
    if name == COCO:
        return "coco/annotations, coco/train2014 and coco/val2014"
    return "flickr8k/captions.txt and flickr8k/Images"


def weights(name: str) -> Path:
    """Where a file of weights called ``name`` is looked for."""
    return data_folder() / name


def absent(name: str) -> str:
    """That the set is nowhere, and what to do."""
    return (
        f"{name} is not in {data_folder()} ({layouts(name)}) and is not fetched for you: get"
        f' "{PAGES[name]}" and put it there, or set LEAKBENCH_DATA to the folder that has it.'
    )


def listed(name: str) -> list[Captioned]:
    """All images of the set.

    Raises:
        UsageError: the set is nowhere.
        BrokenFile: a file is missing, cut, or not what its name says.
    """
    return flickr8k() if name == FLICKR8K else [image for part in PARTS for image in coco(part)]


def unofficial(name: str) -> str:
    """Why these are not known to be the official set's data, a clause: digests are not kept.

    Raises:
        UsageError: the set is nowhere.
        BrokenFile: a file is missing, cut, or not what its name says.
    """
    images = len(listed(name))
    if images != OFFICIAL[name]:
        return f"{name} has {images} images here, the official set {OFFICIAL[name]}"
    return f"no digest of the official files of {name} is known"


def coco(part: str) -> list[Captioned]:
    """The images of one official part ("train2014", "val2014"), in the order of their numbers.

    Raises:
        UsageError: the set is nowhere.
        BrokenFile: a file is missing, cut, or not what its name says.
    """
    folder = _present(COCO)
    about, boxes = (folder / "annotations" / f"{k}_{part}.json" for k in ("captions", "instances"))
    said, seen = _json(about, "caption"), _json(boxes, "category_id")
    listed = {i: _plain(about, name) for i, name in _named(about, said, "images", "file_name")}
    names = dict(_named(boxes, seen, "categories", "name"))
    captions: dict[int, list[str]] = {i: [] for i in listed}
    objects: dict[int, set[str]] = {i: set() for i in listed}
    for a in said["annotations"]:
        if a["image_id"] not in captions or not isinstance(a["caption"], str):
            raise _broken(about, f"it lists no image {a['image_id']}, or it has no text")
        captions[a["image_id"]].append(a["caption"])
    for a in seen["annotations"]:
        if a["image_id"] not in objects or a["category_id"] not in names:
            raise _broken(boxes, f"there is no image {a['image_id']}, or its category has no name")
        objects[a["image_id"]].add(str(names[a["category_id"]]))
    empty = [i for i, c in captions.items() if not c]
    if empty:
        raise _broken(about, f"image {empty[0]} has no caption")
    return [
        Captioned(folder / part / listed[i], tuple(captions[i]), tuple(sorted(objects[i])))
        for i in sorted(listed)
    ]


def flickr8k() -> list[Captioned]:
    """The images in the order of ``captions.txt``, with their captions in its order.

    Raises:
        UsageError: the set is nowhere.
        BrokenFile: a file is missing, cut, or not what its name says.
    """
    folder = _present(FLICKR8K)
    path = folder / "captions.txt"
    try:
        file = io.StringIO(plain_text(path), newline="")
        head, *lines = csv.reader(file, strict=True)
    except (OSError, ValueError, csv.Error) as error:
        raise _broken(path, first_line(error)) from None
    if head != ["image", "caption"]:
        raise _broken(path, "its first line is not image,caption")
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 2):
        if len(line) != 2 or not words(line[1]):
            raise _broken(path, f"line {number} is no name of a file with a caption")
        captions.setdefault(_plain(path, line[0]), []).append(line[1])
    if not captions:
        raise _broken(path, "it has no captions")
    return [Captioned(folder / "Images" / name, tuple(said)) for name, said in captions.items()]


def images(paths: Sequence[Path], side: int) -> Tensor:
    """(n, 3, side, side) uint8: the middle square of each picture, in colour, made so small.

    Raises:
        BrokenFile: a file is missing, or no whole picture.
    """
    import numpy as np
    from PIL import Image, ImageOps

    out = np.empty((len(paths), side, side, 3), np.uint8)
    for i, path in enumerate(paths):
        if not path.is_file():
            raise BrokenFile(f"{path} is missing beside the other images. Put it there too.")
        try:
            with Image.open(path) as picture:
                coloured = picture.convert("RGB")
            square = ImageOps.fit(coloured, (side, side), Image.Resampling.BILINEAR)
            out[i] = np.asarray(square)
        except Exception as error:  # a cut or foreign file raises nearly anything
            why = first_line(error)
            raise _broken(path, why) from None
    return torch.from_numpy(out).permute(0, 3, 1, 2).contiguous()


# files --------------------------------------------------------------------------------------------
def _missing(name: str) -> list[Path]:
    folder = data_folder() / FOLDERS[name]
    if name == FLICKR8K:
        needed = [folder / "captions.txt", folder / "Images"]
    else:
        kinds = [f"annotations/{k}_{p}.json" for k in ("captions", "instances") for p in PARTS]
        needed = [folder / n for n in (*kinds, *PARTS)]
    return [p for p in needed if not p.exists()]


def _present(name: str) -> Path:
    """The set's folder.

    Raises:
        UsageError: it is nowhere.
        BrokenFile: a part of it is missing.
    """
    folder, lacking = data_folder() / FOLDERS[name], _missing(name)
    if not folder.is_dir():
        raise UsageError(absent(name))
    if lacking:
        raise BrokenFile(
            f"{lacking[0]} is missing beside the other files of {name}. Put it there too."
        )
    return folder


def _json(path: Path, field: str) -> dict[str, Any]:
    """An annotation file of COCO: a dict with a list of annotations that have ``field``."""
    try:
        held = json.loads(plain_text(path))
    except (OSError, ValueError) as error:
        raise _broken(path, first_line(error)) from None
    listed = held.get("annotations") if isinstance(held, dict) else None
    if not isinstance(listed, list) or not listed:
        raise _broken(path, "it has no annotations")
    for a in listed:
        if not isinstance(a, dict) or not {"image_id", field} <= a.keys():
            raise _broken(path, f"an annotation has no image_id and {field}")
    return held


def _named(path: Path, held: dict[str, Any], what: str, field: str) -> list[tuple[int, Any]]:
    """(id, ``field``) of everything that the file lists as ``what``."""
    try:
        return [(int(x["id"]), x[field]) for x in held[what]]
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(path, f"its {what} lack {error}") from None


def _plain(path: Path, name: Any) -> str:
    """The name of a file in a folder beside: no way out of it."""
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise _broken(path, f"{name!r} is no name of an image")
    return name


def _broken(path: Path, why: str) -> BrokenFile:
    return BrokenFile(f"{path} is damaged or not what its name says ({why}). Get the set anew.")


def beside(name: str) -> Path:
    """Where a file ``name`` of weights lies, beside the data sets."""
    return data_folder() / name
