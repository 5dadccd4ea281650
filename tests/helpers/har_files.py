"""A tiny UCI-HAR in its official text layout, written to a folder for LEAKBENCH_DATA."""

from __future__ import annotations

from pathlib import Path

import numpy as np

NAMES = ("body_acc", "total_acc", "body_gyro")
SUBJECTS = {"train": (1, 3, 5, 6), "test": (2, 4, 9, 10, 12)}


def signals(part: str, each: int) -> dict[str, np.ndarray]:
    """``each`` windows of every activity and subject, subject after subject: name_axis (n, 128),
    and y 1 to 6, subject (n,).

    Windows of an activity share a rhythm, so that there is something to learn; axes differ in mean
    and size, sensors in all.
    """
    rng = np.random.default_rng({"train": 1, "test": 2}[part])
    subject = np.repeat(SUBJECTS[part], 6 * each)
    y = np.tile(np.arange(1, 7).repeat(each), len(SUBJECTS[part]))
    time = np.arange(128) / 128
    out = {"y": y, "subject": subject}
    for s, name in enumerate(NAMES):
        for a, axis in enumerate("xyz"):
            rhythm = np.sin(2 * np.pi * (y[:, None] + s) * time + rng.random((len(y), 1)))
            out[f"{name}_{axis}"] = (
                (a + 1) * (rhythm + 0.3 * rng.normal(size=(len(y), 128))) + s - a
            )
    return out


def write(folder: Path, *, train: int = 4, test: int = 2) -> Path:
    """Write ``train`` and ``test`` windows of each activity and subject; returns the
    set's folder.
    """
    place = folder / "UCI HAR Dataset"
    for part, each in (("train", train), ("test", test)):
        (place / part / "Inertial Signals").mkdir(parents=True)
        for name, values in signals(part, each).items():
            if values.ndim == 1:
                text = "".join(f"{v}\n" for v in values)
                (place / part / f"{name}_{part}.txt").write_text(text)
            else:
                text = "".join("".join(_number(v) for v in row) + "\n" for row in values)
                (place / part / "Inertial Signals" / f"{name}_{part}.txt").write_text(text)
    return place


def _number(value: float) -> str:
    """As the official files have it: 16 wide, three digits in the exponent."""
    digits, exponent = f"{value:.7e}".split("e")
    return f" {digits:>10}e{exponent[0]}{int(exponent[1:]):03d}"
