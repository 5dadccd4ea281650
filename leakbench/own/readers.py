"""Reads folders, files and data sets of other libraries: what ``Clients`` is to be made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from leakbench.base.errors import UsageError, suggestion
from leakbench.base.lazy import torch

Size = int | tuple[int, int]
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation")
MEDMNIST = ("train_images", "train_labels", "test_images", "test_labels")


def folder(place: Path, size: Size, *, grey: bool) -> dict[str, Any]:
    """Pictures in a folder for each class; in "train" and "test", where there are such."""
    if not place.is_dir():
        raise UsageError(f"{place} is no folder: expected one with a folder for each class.")
    inside = {p.name.lower(): p for p in sorted(place.iterdir()) if p.is_dir()}
    train = next((inside[n] for n in TRAIN if n in inside), place)
    x, y = _pictures(train, size, grey=grey)
    found: dict[str, Any] = {"x": x, "y": y}
    test = next((inside[n] for n in TEST if n in inside), None)
    if train != place and test is not None:
        found["test"] = _pictures(test, size, grey=grey)
    return found


def _pictures(place: Path, size: Size, *, grey: bool) -> tuple[Any, list[str]]:
    import numpy as np

    x, y = [], []
    for kind in sorted(p for p in place.iterdir() if p.is_dir() and not p.name.startswith(".")):
        for path in sorted(kind.rglob("*")):
            if path.suffix.lower() in PICTURES:
                x.append(_picture(path, size, "L" if grey else "RGB"))
                y.append(kind.name)
    if not x:
        raise UsageError(
            f"{place} holds no pictures in folders: expected a folder for each class, with files"
            f" {', '.join(PICTURES)}."
        )
    return np.stack(x), y


def _picture(path: Path, size: Size, mode: str) -> Any:
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    height, width = _sides(size)
    try:
        with Image.open(path) as image:
            plain = np.asarray(image.convert(mode).resize((width, height)))
    except (OSError, UnidentifiedImageError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"{path} cannot be read as a picture: {error}.") from None
    return plain if plain.ndim == 3 else plain[..., None]


def _sides(size: Size) -> tuple[int, int]:
    sides = (size, size) if isinstance(size, int) else tuple(size)
    if len(sides) != 2 or not all(isinstance(s, int) and s > 0 for s in sides):
        raise UsageError(f"size = {size!r}: expected a number of pixels, or (height, width).")
    return sides


def npz(file: Path) -> dict[str, Any]:
    """Arrays ``x`` and ``y``, or as MedMNIST has them."""
    import numpy as np

    try:
        with np.load(file, allow_pickle=False) as held:
            found = {name: held[name] for name in held.files}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise UsageError(f"{file} cannot be read as .npz: {error}.") from None
    except Exception as error:  # zipfile's own
        raise UsageError(f"{file} cannot be read as .npz: {error}.") from None
    if {"x", "y"} <= set(found):
        return {"x": found["x"], "y": found["y"]}
    lacking = [name for name in MEDMNIST if name not in found]
    if lacking:
        raise UsageError(
            f"{file} holds {', '.join(sorted(found)) or 'nothing'}: expected arrays x and y, or"
            f" {', '.join(MEDMNIST)}."
        )
    out = {"x": found["train_images"], "y": found["train_labels"]}
    out["test"] = (found["test_images"], found["test_labels"])
    if {"val_images", "val_labels"} <= set(found):
        out["aux"] = (found["val_images"], found["val_labels"])
    return out


def csv(file: Path, label: str, client: str) -> dict[str, Any]:
    """Rows of a table, standardised; who holds which, where a column says it."""
    import pandas as pd

    try:
        table = pd.read_csv(file)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read as CSV: {error}.") from None
    for name in (label, *([client] if client else [])):
        if name not in table.columns:
            raise UsageError(
                f"{file} has no column {name!r}: it has {', '.join(map(str, table.columns))}."
                f"{suggestion(name, [str(c) for c in table.columns])}"
            )
    empty = table.isna()
    if bool(empty.to_numpy().any()):
        row, column = next(zip(*empty.to_numpy().nonzero(), strict=True))
        raise UsageError(
            f"{file} has an empty cell in row {row}, column {table.columns[column]!r}: fill it, or"
            " leave the row out."
        )
    found: dict[str, Any] = {"y": table[label].tolist()}
    if client:
        known = {name: i for i, name in enumerate(sorted(table[client].unique().tolist()))}
        found |= _owned([known[name] for name in table[client].tolist()], len(known))
    kept = table.drop(columns=[label, *([client] if client else [])])
    wide = pd.get_dummies(kept, dtype=float).astype(float)
    if not wide.shape[1]:
        raise UsageError(f"{file} has no column beside {label!r}: expected some to learn from.")
    spread = wide.std(ddof=0).replace(0.0, 1.0)
    found["x"] = ((wide - wide.mean()) / spread).to_numpy("float32")
    return found


def _owned(owner: Sequence[int], clients: int) -> dict[str, Any]:
    """The rows of each client; of each every fifth is nobody's, to be tested or granted."""
    every: list[list[int]] = [[] for _ in range(clients)]
    for row, c in enumerate(owner):
        every[c].append(row)
    held = [[row for i, row in enumerate(rows) if i % 5 != 4] for rows in every]
    share = (len(owner) - sum(map(len, held))) // 2 / len(owner)
    return {"rows": held, "test": share, "aux": share} if share else {"rows": every}


def hugging_face(dataset: Any, x: str, y: str, size: Size | None) -> dict[str, Any]:
    """A data set of the library `datasets`, two of them by name, or a partitioner."""
    if hasattr(dataset, "load_partition"):
        return _partitioned(dataset, x, y, size)
    if hasattr(dataset, "keys"):
        names = {str(k).lower(): k for k in dataset}
        train = next((dataset[names[n]] for n in TRAIN if n in names), None)
        if train is None:
            raise UsageError(f"the data set has {', '.join(names)}: expected one called train.")
        test = next((dataset[names[n]] for n in TEST if n in names), None)
    else:
        train, test = dataset, None
    inputs, classes = _columns(train, x, y, size)
    found: dict[str, Any] = {"x": inputs, "y": classes}
    if test is not None:
        found["test"] = _columns(test, x, y, size)
    return found


def _partitioned(partitioner: Any, x: str, y: str, size: Size | None) -> dict[str, Any]:
    """Every partition is a client; of each every fifth row is tested or granted."""
    import numpy as np

    count = int(partitioner.num_partitions)
    parts = [_columns(partitioner.load_partition(i), x, y, size) for i in range(count)]
    owner = [c for c, (_, classes) in enumerate(parts) for _ in range(len(classes))]
    inputs = np.concatenate([np.asarray(part) for part, _ in parts])
    classes = [k for _, some in parts for k in some]
    return {"x": inputs, "y": classes, **_owned(owner, count)}


def _columns(dataset: Any, x: str, y: str, size: Size | None) -> tuple[Any, list[Any]]:
    import numpy as np

    names = [str(n) for n in getattr(dataset, "column_names", [])]
    if not names:
        raise UsageError(
            f"{type(dataset).__name__} has no columns: expected a data set of the library datasets."
        )
    x = x or next((n for n in ("img", "image", "x", "features") if n in names), "")
    for name in (x or "img", y):
        if name not in names:
            raise UsageError(
                f"the data set has no column {name!r}: it has {', '.join(names)}; name yours as x"
                f" and y.{suggestion(name, names)}"
            )
    rows = [_plain(v, size) for v in dataset[x]]
    shapes = {np.shape(v) for v in rows}
    if len(shapes) > 1:
        raise UsageError(
            f"the column {x!r} holds inputs of {len(shapes)} shapes, as {sorted(shapes)[0]} and"
            f" {sorted(shapes)[1]}: give size=, to which pictures are brought."
        )
    return np.stack([np.asarray(v) for v in rows]), list(dataset[y])


def _plain(value: Any, size: Size | None) -> Any:
    """A picture as bytes; anything else as it is."""
    import numpy as np

    if not hasattr(value, "convert"):
        return np.asarray(value)
    image = value if value.mode in ("L", "RGB") else value.convert("RGB")
    if size is not None:
        height, width = _sides(size)
        image = image.resize((width, height))
    plain = np.asarray(image)
    return plain if plain.ndim == 3 else plain[..., None]


def torchvision(train: Any, test: Any) -> dict[str, Any]:
    """Map-style data sets of (input, class)."""
    found: dict[str, Any] = dict(zip(("x", "y"), _pairs(train, "training"), strict=True))
    if test is not None:
        found["test"] = _pairs(test, "test")
    return found


def _pairs(dataset: Any, what: str) -> tuple[Any, list[Any]]:
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise UsageError(
            f"the {what} data are {type(dataset).__name__}: expected a data set of (input, class)"
            " with a length, as torchvision's are."
        )
    x, y = [], []
    for value, label in _each(dataset, what):
        x.append(torch.as_tensor(_plain(value, None)))
        y.append(label.item() if hasattr(label, "item") else label)
    shapes = sorted({tuple(v.shape) for v in x})
    if len(shapes) != 1:
        some = " and ".join(map(str, shapes[:2])) or "no inputs"
        raise UsageError(
            f"the {what} inputs are of {len(shapes)} shapes ({some}): give the data set a transform"
            " that brings all to one."
        )
    return torch.stack(x), y


def _each(dataset: Any, what: str) -> Iterable[tuple[Any, Any]]:
    for row in range(len(dataset)):
        item = dataset[row]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise UsageError(
                f"row {row} of the {what} data is {type(item).__name__}: expected (input, class)."
            )
        yield item[0], item[1]
