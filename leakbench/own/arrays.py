"""Arrays of somebody's own as inputs and labels: what they are is measured, and what is wrong said.

Torch takes much of what is wrong without a word, and says it, if it does, far from where it came
in.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeGuard

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.federation.input_range import InputRange

if TYPE_CHECKING:
    from torch import Tensor

COLOURS = (1, 3, 4)  # channels of a picture
MOST = 2.0**53  # up to here a float is told from its neighbours
LEAST_SIDE = 4  # pixels of a picture's side; what is smaller is a table
KINDS_OF_RANGE = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
FROM_0 = "counted from 0"  # so are rows in every sentence, as x[row] is
LARGE = 100.0  # of a column: training by usual rates diverges on it
NAMED = 3  # columns


class WrongRowError(UsageError):
    """An input is wrong: ``row`` of ``count``."""

    def __init__(self, what: str, row: int, count: int) -> None:
        super().__init__(what)
        self.row, self.count = row, count


def inputs(given: Any, whose: str) -> Tensor:
    """(n, ...): bytes as they are, whole numbers as int64, else floats of 32 bits.

    Pictures have their channels first: (n, H, W) of bytes become (n, 1, H, W), and
    (n, H, W, 1 | 3 | 4) of any kind (n, channels, H, W).

    Raises:
        UsageError: these are no numbers, or there are none; ``whose`` names them.
        WrongRowError: one is not finite, or no token.
    """
    x = _tensor(given, whose, "numbers, (n, ...), a tensor, an array or a list of rows alike")
    if x.ndim < 2 or not len(x) or not x[0].numel():
        raise UsageError(
            f"{whose} are {tuple(x.shape)}: expected (n, ...), the inputs one after the other, each"
            " of one number or more."
        )
    if x.is_floating_point():
        told, x = x, x.float()
        wrong = ~x.flatten(1).isfinite().all(1)
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            value = float(told[row][~x[row].isfinite()][0])
            what = (
                f"{whose} hold {value} in row {row} ({FROM_0}): expected finite numbers of 32 bits;"
                " fill it, or leave the row out."
            )
            raise WrongRowError(what, row, len(x))
    elif x.dtype != torch.uint8:
        x = _tokens(x.long(), whose)
    if x.ndim == 3 and x.dtype == torch.uint8:
        x = x[:, None]
    if x.ndim == 4 and x.shape[3] in COLOURS and x.shape[1] not in COLOURS:
        x = x.movedim(3, 1)
    return x.contiguous()


def _tokens(x: Tensor, whose: str) -> Tensor:
    """Whole numbers, by which a network looks something up."""
    if x.ndim > 2:
        raise UsageError(
            f"{whose} are whole numbers {tuple(x.shape)}: expected tokens, (n, T); of pictures give"
            " bytes, as x.astype('uint8'), and of signals floats."
        )
    wrong = (x < 0).any(1)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        what = (
            f"{whose} hold {int(x[row].min())} in row {row} ({FROM_0}): whole numbers are tokens,"
            " from 0 on; of a table or a signal give floats, as x.astype('float32')."
        )
        raise WrongRowError(what, row, len(x))
    return x


def labels(given: Any, count: int, whose: str) -> tuple[Tensor, tuple[str, ...]]:
    """(n,) int64 from 0 on, and what the classes are called where labels are texts.

    Raises:
        UsageError: there are more or fewer than ``count``, or one is no class.
    """
    texts = _texts(given, whose)
    if texts is not None:
        names = tuple(sorted(set(texts)))
        place = {name: i for i, name in enumerate(names)}
        y = torch.tensor([place[text] for text in texts], dtype=torch.int64)
        return _as_many(y, count, whose), names
    y = _tensor(given, whose, "a class for each input, (n,), whole numbers or texts")
    if y.ndim == 2 and y.shape[1] == 1:  # as MedMNIST has them
        y = y[:, 0]
    if y.ndim == 2 and y.shape[1] > 1:
        raise UsageError(
            f"{whose} are {tuple(y.shape)}: expected one class for each input, (n,); of one-hot"
            " rows take y.argmax(1)."
        )
    y = _as_many(y, count, whose)
    if y.is_floating_point():
        wrong = ~(y.abs() < MOST) | (y != y.round())
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            raise UsageError(
                f"{whose} hold {float(y[row]):g} in row {row} ({FROM_0}): expected the whole number"
                " of a class; what is measured and not counted is no class."
            )
    y = y.long()
    if bool((y < 0).any()):
        row = int((y < 0).nonzero()[0])
        raise UsageError(
            f"{whose} hold {int(y[row])} in row {row} ({FROM_0}): expected the number of a class,"
            " from 0 on."
        )
    return y, ()


def _as_many(y: Tensor, count: int, whose: str) -> Tensor:
    if tuple(y.shape) != (count,):
        raise UsageError(
            f"{whose} are {tuple(y.shape)}, and there are {count} inputs: expected a class for"
            " each."
        )
    return y


def _texts(given: Any, whose: str) -> list[str] | None:
    """The labels, if they are texts."""
    plain = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(plain, list | tuple) or not any(isinstance(v, str) for v in plain):
        return None
    for row, v in enumerate(plain):
        if not isinstance(v, str):
            raise UsageError(
                f"{whose} hold texts, and {short(v)} in row {row} ({FROM_0}): expected texts alone,"
                " or whole numbers alone."
            )
    return list(plain)


def is_whole(value: Any) -> TypeGuard[int]:
    """Is it a whole number, of Python or of numpy? A truth value is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def short(value: Any) -> str:
    """One line of it."""
    return " ".join(repr(value).split())[:40]


def _tensor(given: Any, whose: str, expected: str) -> Tensor:
    """What numpy, pandas, lists and torch have."""
    import numpy as np

    kind = getattr(given, "dtype", type(given).__name__)
    try:
        if isinstance(given, torch.Tensor):
            found = given.detach().cpu()
            found = found if found.layout == torch.strided else found.to_dense()
        else:
            plain = np.require(_known(np.asarray(given)), requirements=("C", "W"))
            found = torch.from_numpy(plain)
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"{whose} are {kind}: expected {expected}.") from None
    if found.is_complex() or (found.dtype == torch.bool and found.ndim < 2):
        raise UsageError(f"{whose} are {kind}: expected {expected}.")
    return found.to(torch.uint8) * 255 if found.dtype == torch.bool else found


def _known(plain: Any) -> Any:
    """As a type that torch has, too."""
    if plain.dtype.kind == "u" and plain.dtype.itemsize > 1:
        return plain.astype("int64")
    if plain.dtype.kind in "iufb" and not plain.dtype.isnative:
        return plain.astype(plain.dtype.newbyteorder("="))
    return plain


def measured_range(x: Tensor, mean: Any, std: Any) -> InputRange:
    """Where inputs lie, from ``x`` (n, ...); ``mean`` and ``std`` of pictures that were normalised.

    Pictures have bounds: those that are usual, or of each channel what there is. All else, tables,
    signals and tokens, has none.
    """
    shape = tuple(x.shape[1:])
    if mean is not None or std is not None:
        return InputRange.of(InputRange.normalised(_listed(mean), _listed(std)), shape)
    if x.dtype == torch.uint8:
        return InputRange()
    if not is_picture(x):
        return InputRange.unbounded()
    least, most = (float(v) for v in x.aminmax())
    for low, high in KINDS_OF_RANGE:
        if low <= least and most <= high:
            return InputRange.of((low, high), shape)
    flat = x.movedim(1, 0).flatten(1)
    ends = zip(flat.amin(1).tolist(), flat.amax(1).tolist(), strict=True)
    apart = [(low, high if high > low else low + 1.0) for low, high in ends]
    lows, highs = zip(*apart, strict=True)
    return InputRange.of(InputRange(lows, highs), shape)


def far_from_one(x: Tensor) -> str:
    """What to do with inputs (n, K, ...) of which some number is large; empty where none is."""
    if not x.is_floating_point():
        return ""
    size = x.movedim(1, 0).flatten(1).square().mean(1).sqrt()
    large = (size > LARGE).nonzero().flatten().tolist()
    if not large:
        return ""
    kind, how = "channel", "bring pictures to 0 to 1 (bytes are taken so), standardise signals"
    if x.ndim == 2:
        kind = "column"
        how = (
            "standardise each, (x - mean) / std, as clients.from_csv does; a guess of a number"
            " counts as right to within 0.1 of it"
        )
    several = len(large) > 1
    more = f" and {len(large) - NAMED} more" if len(large) > NAMED else ""
    return (
        f"{kind}{'s' * several} {', '.join(map(str, large[:NAMED]))}{more} of the inputs"
        f" {'are' if several else 'is'} large, and sizes go from {float(size.min()):.2g} to"
        f" {float(size.max()):.2g} (root of the mean square):"
        f" training easily diverges on such; {how}."
    )


def is_picture(x: Tensor) -> bool:
    """Are (n, ...) pictures: few channels first, and then two sides?"""
    if x.ndim != 4 or x.dtype == torch.int64:
        return False
    return x.shape[1] in COLOURS and min(x.shape[2:]) >= LEAST_SIDE


def _listed(given: Any) -> Any:
    """Numbers of any array, as a list."""
    plain = given.tolist() if hasattr(given, "tolist") else given
    return list(plain) if isinstance(plain, Sequence) and not isinstance(plain, str) else plain
