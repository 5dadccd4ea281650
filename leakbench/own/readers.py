"""Reads folders, files and data sets of other libraries: what ``ClientData`` is to be made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from leakbench.base.errors import UsageError, suggestion
from leakbench.base.raised import raised_text
from leakbench.own.arrays import FROM_0, is_whole
from leakbench.own.notes import note

Size = int | tuple[int, int]
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation")
MOST_TEXTS = 1000  # of a column of a table: each becomes a column
MEDMNIST = ("train_images", "train_labels", "test_images", "test_labels")


def _path(given: Any) -> Path:
    if not isinstance(given, str | Path):
        raise UsageError(f"the place to read from is {type(given).__name__}: expected a path.")
    return Path(given)


def _said(error: Exception) -> str:
    """What another library says is wrong, as the end of a sentence."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def folder(given: str | Path, size: Size, *, grey: bool) -> dict[str, Any]:
    """Pictures in a folder for each class; in "train" and "test", where there are such."""
    place = _path(given)
    if not place.is_dir():
        raise UsageError(f"{place} is no folder: expected one with a folder for each class.")
    inside = {p.name.lower(): p for p in sorted(place.iterdir()) if p.is_dir()}
    train = next((inside[n] for n in TRAIN if n in inside), place)
    x, y = _pictures(train, size, grey=grey)
    if x.shape[1] == 3 and (x == x[:, :1]).all():
        note("all pictures are grey, and are read as three equal channels: say grey=True for one.")
    found: dict[str, Any] = {"x": x, "y": y}
    found["done"] = f"pictures are brought to {x.shape[2]} x {x.shape[3]} pixels; "
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
    from PIL import Image

    height, width = _sides(size)
    try:
        with Image.open(path) as image:
            plain = np.asarray(image.convert(mode).resize((width, height)))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(
            f"{path} cannot be read as a picture ({_said(error)}): mend it, or take it out."
        ) from None
    return _channels_first(plain)


def _channels_first(plain: Any) -> Any:
    """(channels, H, W): of small ones nobody could tell afterwards which is which."""
    return plain[None] if plain.ndim == 2 else plain.transpose(2, 0, 1)


def _sides(size: Size) -> tuple[int, int]:
    sides: Any = tuple(size) if isinstance(size, list | tuple) else (size, size)
    whole = all(is_whole(s) and s > 0 for s in sides)
    if len(sides) != 2 or not whole:
        raise UsageError(f"size = {size!r}: expected a number of pixels, or (height, width).")
    return int(sides[0]), int(sides[1])


def npz(given: str | Path) -> dict[str, Any]:
    """Arrays ``x`` and ``y``, or as MedMNIST has them."""
    import zipfile
    import zlib

    import numpy as np

    file = _path(given)
    try:
        with file.open("rb") as opened:  # numpy leaves a broken one open
            if not zipfile.is_zipfile(opened):
                raise UsageError(f"{file} is no .npz: expected what numpy.savez writes.")
            with np.load(opened, allow_pickle=False) as held:
                found = {name: held[name] for name in held.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise UsageError(
            f"{file} cannot be read as .npz ({_said(error)}): expected arrays of numbers, as"
            " numpy.savez writes them."
        ) from None
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


def csv(given: str | Path, label: str, client: str) -> dict[str, Any]:
    """Rows of a table, standardised; who holds which, where a column says it."""
    import pandas as pd

    file = _path(given)
    try:
        table = pd.read_csv(file)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} cannot be read as CSV ({_said(error)}): expected a line of names, and a line"
            " for each example."
        ) from None
    for name in (label, *([client] if client else [])):
        if name not in table.columns:
            raise UsageError(
                f"{file} has no column {name!r}: name one that it has."
                f"{suggestion(str(name), [str(c) for c in table.columns])}"
            )
    if label == client:
        raise UsageError(f"label and client are both {label!r}: expected two columns.")
    if not len(table):
        raise UsageError(f"{file} holds names and no row: expected a line for each example.")
    wrong = table.isna() | table.isin([math.inf, -math.inf])
    if bool(wrong.to_numpy().any()):
        row, column = next(zip(*wrong.to_numpy().nonzero(), strict=True))
        what = "an empty cell" if bool(table.isna().iloc[row, column]) else "no finite number"
        raise UsageError(
            f"{file} has {what} in row {row} ({FROM_0}, below the names), column"
            f" {table.columns[column]!r}: fill it, or leave the row out."
        )
    truths = pd.api.types.is_bool_dtype(table[label])
    found: dict[str, Any] = {"y": (table[label].astype(str) if truths else table[label]).tolist()}
    if client:
        known = {name: i for i, name in enumerate(sorted(table[client].unique().tolist()))}
        found |= _owned([known[name] for name in table[client].tolist()], len(known))
    kept = table.drop(columns=[label, *([client] if client else [])])
    if not kept.shape[1]:
        raise UsageError(f"{file} has no column beside {label!r}: expected some to learn from.")
    texts = kept.select_dtypes(exclude=["number", "bool"]).columns
    for name in texts:
        if kept[name].nunique() > MOST_TEXTS:
            raise UsageError(
                f"{file} has {kept[name].nunique()} texts in column {name!r}, and each would be a"
                f" column: expected {MOST_TEXTS} at most; leave it out."
            )
    wide = pd.get_dummies(kept, dtype=float).astype(float)
    spread = wide.std(ddof=0).replace(0.0, 1.0)
    found["x"] = ((wide - wide.mean()) / spread).to_numpy("float32")
    several = f" (of {', '.join(map(str, texts))} one for each text)" if len(texts) else ""
    found["done"] = f"{wide.shape[1]} columns{several} are standardised over all rows; "
    return found


def _owned(owner: Sequence[int], clients: int) -> dict[str, Any]:
    """The rows of each client; of each every fifth is nobody's, to be tested or granted."""
    every: list[list[int]] = [[] for _ in range(clients)]
    for row, c in enumerate(owner):
        every[c].append(row)
    held = []
    for rows in every:
        held.append([row for i, row in enumerate(rows) if i % 5 != 4])
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
            raise UsageError(
                f"the data set has {', '.join(names) or 'nothing'}: expected one called train."
            )
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
    if count < 2:
        raise UsageError(f"the partitioner has {count} partitions: expected two or more.")
    parts = [
        _columns(partitioner.load_partition(i), x, y, size, f"partition {i}") for i in range(count)
    ]
    shapes = [np.shape(part)[1:] for part, _ in parts]
    odd = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
    if odd is not None:
        raise UsageError(
            f"inputs of partition {odd} are {shapes[odd]} each, and of partition 0 {shapes[0]}:"
            " give size=, to which pictures are brought."
        )
    owner = [c for c, (_, classes) in enumerate(parts) for _ in range(len(classes))]
    inputs = np.concatenate([np.asarray(part) for part, _ in parts])
    classes = [k for _, some in parts for k in some]
    return {"x": inputs, "y": classes, **_owned(owner, count)}


def _columns(
    dataset: Any, x: str, y: str, size: Size | None, whose: str = "the data set"
) -> tuple[Any, list[Any]]:
    import numpy as np

    listed = getattr(dataset, "column_names", None)
    names = [str(n) for n in listed] if isinstance(listed, list | tuple) else []
    if not names:
        raise UsageError(
            f"{type(dataset).__name__} has no columns: expected a data set of the library datasets,"
            " downloaded and not streamed."
        )
    x = x or next((n for n in ("img", "image", "x", "features") if n in names), "")
    for name in (x or "img", y):
        if name not in names:
            raise UsageError(
                f"{whose} has no column {name!r}: it has {', '.join(names)}; name yours as x"
                f" and y.{suggestion(name, names)}"
            )
    given = list(dataset[x])
    if not given:
        raise UsageError(f"{whose} has no rows: expected one at least.")
    gone = next((row for row, v in enumerate(given) if v is None), None)
    if gone is not None:
        raise UsageError(
            f"{whose} has no {x!r} in row {gone} ({FROM_0}): fill it, or leave the row out."
        )
    rows = _plains(given, size, f"the column {x!r} of {whose}")
    shapes = {np.shape(v) for v in rows}
    if len(shapes) > 1:
        raise UsageError(
            f"the column {x!r} of {whose} holds inputs of {len(shapes)} shapes, as"
            f" {sorted(shapes)[0]} and {sorted(shapes)[1]}: give size=, to which pictures are"
            " brought."
        )
    return np.stack(rows), list(dataset[y])


def _plains(values: Sequence[Any], size: Size | None, whose: str) -> list[Any]:
    """Arrays: pictures as bytes, grey if all of them are, and anything else as it is."""
    grey = all(getattr(v, "mode", "") in ("1", "L") for v in values)
    return [
        _plain(v, size, "L" if grey else "RGB", f"{whose}, row {i} ({FROM_0}),")
        for i, v in enumerate(values)
    ]


def _plain(value: Any, size: Size | None, mode: str, whose: str) -> Any:
    import numpy as np

    if hasattr(value, "convert"):
        image = value.convert(mode)
        if size is not None:
            height, width = _sides(size)
            image = image.resize((width, height))
        return _channels_first(np.asarray(image))
    try:
        found = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        found = np.asarray(None)
    if found.dtype.kind not in "biuf":
        raise UsageError(
            f"{whose} holds {type(value).__name__}: expected a picture, or numbers equally many."
        )
    return found


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
    import numpy as np

    given, y = [], []
    for row, (value, label) in enumerate(_each(dataset, what)):
        if np.ndim(label):
            raise UsageError(
                f"row {row} ({FROM_0}) of the {what} data has {type(label).__name__} for a class:"
                " expected (input, class), a whole number or a text."
            )
        given.append(value)
        y.append(label.item() if hasattr(label, "item") else label)
    if not given:
        raise UsageError(f"the {what} data are empty: expected one (input, class) at least.")
    x = _plains(given, None, f"the {what} data")
    shapes = sorted({v.shape for v in x})
    if len(shapes) != 1:
        raise UsageError(
            f"the {what} inputs are of {len(shapes)} shapes, as {shapes[0]} and {shapes[1]}: give"
            " the data set a transform that brings all to one."
        )
    return np.stack(x), y


def _each(dataset: Any, what: str) -> Iterable[tuple[Any, Any]]:
    for row in range(len(dataset)):
        try:
            item = dataset[row]
        except Exception as error:  # somebody's code may raise anything
            raise UsageError(
                f"row {row} ({FROM_0}) of the {what} data cannot be read"
                f" ({raised_text(error)}): expected a data set of (input, class)."
            ) from error
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise UsageError(
                f"row {row} ({FROM_0}) of the {what} data is {type(item).__name__}:"
                " expected (input, class)."
            )
        yield item[0], item[1]
