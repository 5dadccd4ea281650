"""The data sets that are read from files: where they are, and what to do where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakbench.base.data_folder import data_folder
from leakbench.data import (
    caption_files,
    face_files,
    har_files,
    image_sets,
    sound_files,
    voxceleb_files,
)

HAR = "uci-har"
SOUNDS = (sound_files.URBAN, sound_files.DIGITS)
# What is listed before it is opened, and what lists it.
LISTED: dict[str, Any] = {
    **dict.fromkeys(SOUNDS, sound_files),
    voxceleb_files.VOXCELEB: voxceleb_files,
    **dict.fromkeys(face_files.FOLDERS, face_files),
    **dict.fromkeys(caption_files.FOLDERS, caption_files),
}
# Where the user gets what is not fetched.
PAGES = {
    **sound_files.PAGES,
    **face_files.PAGES,
    **caption_files.PAGES,
    voxceleb_files.VOXCELEB: voxceleb_files.PAGE,
    HAR: f'UCI\'s page "{har_files.PAGE}"',
}
NAMES = (*image_sets.LAYOUTS, HAR, *LISTED)


def found(name: str) -> Path | None:
    """The folder that holds all files of the set, or None. Nothing is fetched."""
    if name in LISTED:
        return LISTED[name].found(name)
    return har_files.found() if name == HAR else image_sets.found(name)


def unofficial(name: str) -> str:
    """Which file of a set that is there is not the official one, a clause; empty where all are."""
    if name in LISTED:
        return LISTED[name].unofficial(name)
    return har_files.unofficial() if name == HAR else image_sets.unofficial(name)


def layouts(name: str) -> str:
    """The official folders that may hold the set, in words."""
    if name in LISTED:
        return LISTED[name].layouts(name)
    return f"{har_files.FOLDER}/" if name == HAR else image_sets.layouts(name)


def fetch(name: str) -> None:
    """See to it that the set is there, by torchvision where that has it.

    Raises:
        BrokenFile: a file is missing beside others, cut, or not what its name says.
        UsageError: the set is nowhere and cannot be fetched.
    """
    if name in SOUNDS:
        sound_files.clips(name)
    elif name in caption_files.FOLDERS:
        caption_files.listed(name)
    elif name in LISTED:
        LISTED[name].people(name)
    elif name == HAR:
        har_files.load_sensor("body")
    else:
        image_sets.load_images(name)


def absent(name: str) -> str:
    """That the set is nowhere, and what to do."""
    if name in LISTED:
        return LISTED[name].absent(name)
    how = f'take it from UCI\'s page "{har_files.PAGE}"'
    if name != HAR:
        how = f"leakbench train -t {name} -d fedavg --rounds 1 lets torchvision fetch them"
    return (
        f"{name} is not in {data_folder()} (looked for {layouts(name)}): put the files there, or"
        f" set LEAKBENCH_DATA to the folder that has them; {how}."
    )
