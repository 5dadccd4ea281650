"""Tiny trees in the official layouts of MS COCO 2014 and Flickr8k."""

from __future__ import annotations

import csv
import json

import numpy as np
from PIL import Image

NOUNS = ("dog", "cat", "boat", "cake")
PLACES = ("grass", "water", "snow", "street", "table")


def sentences(noun, i):
    """Five captions of the i-th image that shows a ``noun``."""
    place = PLACES[i % len(PLACES)]
    return [
        f"A {noun} on the {place}.",
        f"The {noun} sits near some {place} .",
        f"A small {noun} in front of {place}",
        f"One {noun}, and a lot of {place}!",
        f"Picture of a {noun} with number {i}",
    ]


def picture(path, i, size=(40, 30)):
    """A JPEG of one colour with a bar in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((size[1], size[0], 3), (37 * i % 256, 90, 255 - 11 * i % 256), np.uint8)
    pixels[:, i % size[0]] = 255
    Image.fromarray(pixels).save(path)


def write_coco(root, *, train=16, val=12, nouns=NOUNS):
    """coco/ with images that show one noun each, every fifth of train2014 one more."""
    place = root / "coco"
    (place / "annotations").mkdir(parents=True)
    categories = [{"id": 10 + k, "name": noun} for k, noun in enumerate(nouns)]
    for part, n, first in (("train2014", train, 100), ("val2014", val, 500)):
        images, captions, boxes = [], [], []
        for i in range(n):
            image, noun = first + i, i % len(nouns)
            name = f"COCO_{part}_{image:012d}.jpg"
            picture(place / part / name, i)
            images.append({"id": image, "file_name": name})
            for j, text in enumerate(sentences(nouns[noun], i)):
                captions.append({"id": 10 * image + j, "image_id": image, "caption": text})
            shown = [noun, noun] + ([(noun + 1) % len(nouns)] if i % 5 == 4 else [])
            for j, k in enumerate(shown):
                boxes.append({"id": 10 * image + j, "image_id": image, "category_id": 10 + k})
        for kind, listed in (("captions", captions), ("instances", boxes)):
            held = {"images": images, "annotations": listed}
            held |= {"categories": categories} if kind == "instances" else {}
            (place / "annotations" / f"{kind}_{part}.json").write_text(json.dumps(held))
    return place


def write_flickr8k(root, *, images=24, nouns=("dog", "girl", "man", "boat")):
    """flickr8k/ with images whose captions name one noun each."""
    place = root / "flickr8k"
    (place / "Images").mkdir(parents=True)
    with (place / "captions.txt").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["image", "caption"])
        for i in range(images):
            picture(place / "Images" / f"{i}.jpg", i)
            out.writerows([f"{i}.jpg", text] for text in sentences(nouns[i % len(nouns)], i))
    return place
