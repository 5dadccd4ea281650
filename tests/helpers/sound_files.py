"""Tiny UrbanSound8K and spoken digits in their official layouts, for LEAKBENCH_DATA."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

SPEAKERS = ("ada", "bob")
# What official files have: rate, channels, kind of sample.
FORMATS = (
    (44_100, 2, "PCM_16"),
    (48_000, 1, "PCM_24"),
    (22_050, 2, "PCM_16"),
    (96_000, 2, "FLOAT"),
)


def tone(hertz: float, seconds: float, rate: int, seed: int = 0) -> np.ndarray:
    """(n,) a tone in a little noise, within [-1, 1]."""
    time = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(seed).normal(size=len(time))
    return 0.5 * np.sin(2 * np.pi * hertz * time) + 0.01 * noise


def write_digits(folder: Path, *, takes: int = 9) -> Path:
    """Takes 0, 1 and from 5 on of ten digits of two speakers, each digit a tone of its own."""
    place = folder / "fsdd" / "recordings"
    place.mkdir(parents=True)
    for digit in range(10):
        for s, speaker in enumerate(SPEAKERS):
            for take in (0, 1, *range(5, takes)):
                seed = 1000 * digit + 100 * s + take
                sound = tone(200 + 300 * digit + 20 * s, 0.2 + 0.02 * take, 8000, seed)
                soundfile.write(place / f"{digit}_{speaker}_{take}.wav", sound, 8000, "PCM_16")
    return place.parent


def write_urban(folder: Path, *, train: int = 1, held_out: int = 2, seconds: float = 0.1) -> Path:
    """Recordings of each class, two clips of each: ``train`` in folds 1 and 8, others in 9, 10."""
    place = folder / "UrbanSound8K"
    (place / "metadata").mkdir(parents=True)
    lines = ["slice_file_name,fsID,start,end,salience,fold,classID,class"]
    number = 0
    for fold, recordings in ((1, train), (8, train), (9, held_out), (10, held_out)):
        (place / "audio" / f"fold{fold}").mkdir(parents=True)
        for y in range(10):
            for r in range(recordings):
                source = 100_000 + 1000 * fold + 10 * y + r
                for piece in range(2):
                    name = f"{source}-{y}-0-{piece}.wav"
                    rate, channels, kind = FORMATS[number % len(FORMATS)]
                    sound = tone(300 + 700 * y, seconds, rate, number)
                    path = place / "audio" / f"fold{fold}" / name
                    soundfile.write(path, np.stack([sound] * channels, 1), rate, kind)
                    lines.append(f"{name},{source},0.0,{seconds},1,{fold},{y},kind{y}")
                    number += 1
    (place / "metadata" / "UrbanSound8K.csv").write_text("\n".join(lines) + "\n")
    return place
