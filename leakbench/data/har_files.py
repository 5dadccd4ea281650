"""UCI HAR in its official text layout.

Nine files of inertial signals, one of activities and one of subjects in each part.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leakbench.base.data_folder import data_folder
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.lazy import torch
from leakbench.base.raised import first_line
from leakbench.data import official

if TYPE_CHECKING:
    from torch import Tensor

FOLDER = "UCI HAR Dataset"
PAGE = "Human Activity Recognition Using Smartphones"  # what UCI's page is called
SENSORS = {"body": "body_acc", "total": "total_acc", "gyro": "body_gyro"}
PARTS = ("train", "test")
LENGTH, CLASSES = 128, 6


@dataclass(frozen=True)
class Windows:
    """Windows of one sensor, with what was done in them and by whom."""

    x: Tensor  # (n, 128, 3) float64 in the files' units (g, or rad/s), axes x, y, z
    y: Tensor  # (n,) int64, 0 to 5
    subject: Tensor  # (n,) int64


def found() -> Path | None:
    """The folder that holds all files of the set, or None."""
    folder = data_folder() / FOLDER
    files = [path for part in PARTS for path in _files(folder, part)]
    return folder if all(path.is_file() for path in files) else None


def load_sensor(sensor: str) -> tuple[Windows, Windows]:
    """The official training and test part of one sensor ("body", "total", "gyro").

    Raises:
        UsageError: the folder is missing.
        BrokenFile: a file is missing, cut, or not what its name says.
    """
    folder = data_folder() / FOLDER
    if not folder.is_dir():
        raise UsageError(
            f"uci-har is not in {data_folder()} ({FOLDER}/ with the official files) and is not"
            f' fetched for you: get it from UCI\'s page "{PAGE}" and put the folder there, or set'
            " LEAKBENCH_DATA to the folder that has it."
        )
    train, test = (_part(folder, part, sensor) for part in PARTS)
    return train, test


def last_of_each(windows: Windows, share: float) -> tuple[Tensor, Tensor]:
    """The last windows of each subject and activity, and those that share no sample with them.

    Windows overlap by half: one that begins or ends as one of the last ones does is in neither.

    Args:
        windows: in the order of the files, which is that of time.
        share: of each subject's windows of an activity, rounded up; a single one is not taken.

    Returns:
        (n,) bool the others, (n,) bool the last ones.
    """
    last = torch.zeros(len(windows.y), dtype=torch.bool)
    of = windows.subject * CLASSES + windows.y
    for value in sorted({*of.tolist()}):
        rows = (of == value).nonzero().flatten()
        count = min(-int(-len(rows) * share // 1), len(rows) - 1)
        last[rows[len(rows) - count :]] = True
    halves = windows.x.reshape(len(last), 2, -1)
    same = torch.unique(halves.flatten(0, 1), dim=0, return_inverse=True)[1].reshape(-1, 2)
    return ~torch.isin(same, same[last]).any(1), last


def unofficial(*sensors: str) -> str:
    """Which file of these sensors (of all, if none is named) is not the official one, a clause.

    Empty where all are.
    """
    paths = [path for part in PARTS for path in _files(data_folder() / FOLDER, part, *sensors)]
    return official.unlike("uci-har", paths)


def _files(folder: Path, part: str, *sensors: str) -> list[Path]:
    names = [SENSORS[sensor] for sensor in sensors or SENSORS]
    signals = [f"Inertial Signals/{name}_{axis}" for name in names for axis in "xyz"]
    return [folder / part / f"{name}_{part}.txt" for name in (*signals, "y", "subject")]


def _part(folder: Path, part: str, sensor: str) -> Windows:
    place = folder / part
    signals = place / "Inertial Signals"
    names = [f"{SENSORS[sensor]}_{axis}_{part}.txt" for axis in "xyz"]
    axes = [_numbers(signals / name, LENGTH) for name in names]
    y, subject = (_whole(place / f"{what}_{part}.txt") for what in ("y", "subject"))
    lengths = [len(a) for a in (*axes, y, subject)]
    if len(set(lengths)) > 1:
        raise BrokenFile(
            f"{place}: the files of {sensor} have {lengths[:3]} windows, {lengths[3]} activities"
            f" and {lengths[4]} subjects, which should be as many. Get the set anew."
        )
    if y.min() < 1 or y.max() > CLASSES:
        why = f"activities go from 1 to {CLASSES}, it has {y.min()} to {y.max()}"
        raise _broken(place / f"y_{part}.txt", why)
    x = torch.from_numpy(np.stack(axes, -1))
    return Windows(x, torch.from_numpy(y - 1), torch.from_numpy(subject))


def _whole(path: Path) -> NDArray[np.int64]:
    values = _numbers(path, 1)[:, 0]
    if (values != values.round()).any():
        raise _broken(path, "it has numbers that are not whole")
    return values.astype(np.int64)


def _numbers(path: Path, columns: int) -> NDArray[np.float64]:
    """(n, columns) finite numbers, n at least 1."""
    if not path.is_file():
        raise BrokenFile(f"{path} is missing beside the other files of {FOLDER}. Put it there too.")
    try:
        if not path.stat().st_size:
            raise ValueError("it is empty")
        values = np.loadtxt(path, ndmin=2, comments=None, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise _broken(path, first_line(error)) from None
    if not len(values) or values.shape[1] != columns:
        came = f"{len(values)} of {values.shape[1]}"
        raise _broken(path, f"expected lines of {columns} numbers, came {came}")
    if not np.isfinite(values).all():
        raise _broken(path, "it has numbers that are not finite")
    return values


def _broken(path: Path, why: str) -> BrokenFile:
    return BrokenFile(f"{path} is damaged or not what its name says ({why}). Get the set anew.")
