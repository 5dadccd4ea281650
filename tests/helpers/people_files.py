"""Tiny VoxCeleb1 and VGGFace2 in their official layouts, written to a folder for LEAKBENCH_DATA."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import numpy as np

RATE = 16_000


def voxceleb(folder: Path, *, dev: int = 5, test: int = 4, files: int = 3, seconds=1.0) -> Path:
    """``dev`` and ``test`` speakers, whose voice is a tone of their own; returns the folder."""
    import soundfile

    place = folder / "VoxCeleb1"
    rng = np.random.default_rng(0)
    lines = ["VoxCeleb1 ID\tVGGFace1 ID\tGender\tNationality\tSet"]
    names: dict[str, list[str]] = {}
    for i in range(dev + test):
        who, part = f"id1{i:04d}", "dev" if i < dev else "test"
        lines.append(f"{who}\tSome_Body{i}\tm\tUSA\t{part}")
        for n in range(files):
            path = place / "wav" / who / f"video{n // 2}" / f"{n + 1:05d}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            time = np.arange(int(RATE * seconds)) / RATE
            wave = 0.3 * np.sin(2 * np.pi * 200 * (i + 2) * time) + 0.05 * rng.normal(
                size=len(time)
            )
            soundfile.write(path, wave, RATE, subtype="PCM_16")
            if part == "test":
                names.setdefault(who, []).append(f"{who}/video{n // 2}/{n + 1:05d}.wav")
    (place / "vox1_meta.csv").write_text("\n".join(lines) + "\n")
    pairs = [f"1 {a} {b}" for own in names.values() for a, b in combinations(own, 2)]
    for one, other in combinations(names.values(), 2):
        pairs += [f"0 {a} {b}" for a, b in product(one, other)]
    (place / "veri_test2.txt").write_text("\n".join(pairs) + "\n")
    return place


def vggface2(folder: Path, *, train: int = 5, test: int = 4, files: int = 4) -> Path:
    """People whose face is a colour of their own in a box on noise; returns the folder."""
    from PIL import Image

    place = folder / "VGGFace2"
    rng = np.random.default_rng(0)
    lines = ["Class_ID, Name, Sample_Num, Flag, Gender"]
    for i in range(train + test):
        who, flag = f"n{i:06d}", int(i < train)
        lines.append(f'{who}, "Some, Body", {files}, {flag}, f')
        part = "train" if flag else "test"
        boxes = []
        for n in range(files):
            path = place / part / who / f"{n + 1:04d}_01.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 256, (90, 120, 3), dtype=np.uint8)
            pixels[20:70, 30:90] = (37 * i % 256, 255 - 23 * i % 256, 11 * i % 256)
            Image.fromarray(pixels).save(path, quality=95)
            boxes.append(f'"{who}/{n + 1:04d}_01",30,20,60,50')
        with (place / f"loose_bb_{part}.csv").open("a") as table:
            head = [] if table.tell() else ["NAME_ID,X,Y,W,H"]
            table.write("\n".join([*head, *boxes]) + "\n")
    (place / "identity_meta.csv").write_text("\n".join(lines) + "\n")
    return place


def orl(folder: Path) -> Path:
    """40 people with ten grey images each, not the official ones; returns the folder."""
    from PIL import Image

    place = folder / "orl-faces"
    rng = np.random.default_rng(0)
    for person in range(1, 41):
        face = rng.integers(60, 200, (14, 12)).repeat(8, 0).repeat(8, 1)[:112, :92]
        for i in range(1, 11):
            path = place / f"s{person}" / f"{i}.pgm"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = rng.integers(0, 40, (112, 92))
            Image.fromarray((face + noise).astype(np.uint8)).save(path)
    return place
