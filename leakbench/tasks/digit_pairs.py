"""`digit-pairs`: two real digits side by side, 100 classes, one per client; nothing to download."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from leakbench.base import shared, torch
from leakbench.data import sklearn_digits, split
from leakbench.federation import Examples, Task, TaskData, one_class_each

if TYPE_CHECKING:
    from torch import Tensor

PER_CLIENT = 40  # pairs; drawn with replacement from about 110 x 110 possible ones


class DigitPairs(Task):
    """100 clients; client 10 a + b has images (8x16) of an a on the left and a b on the right.

    The source digits are split into train, test and auxiliary *before* pairing, so no stroke of a
    test or auxiliary pair occurs in a client's data. Clients share source digits. Every test digit
    is used once: the 200 test pairs (two of each class) are independent. 400 auxiliary pairs, four
    of each class.
    """

    about: ClassVar[str] = "two real digits side by side (8x16), 100 clients with one class each"
    shape: ClassVar[tuple[int, ...]] = (1, 8, 16)
    classes: ClassVar[int] = 100
    rounds: ClassVar[int] = 1000
    # One own_lr for all of the family: it turns their prototypes equally fast, FedAwS's too.
    _alone: ClassVar[dict[str, Any]] = {"own_lr": 3.0, "lr": 0.3, "fraction": 0.1}
    _prototypes: ClassVar[dict[str, Any]] = {**_alone, "lam": 1.0}
    _mixed: ClassVar[dict[str, Any]] = {**_prototypes, "k": 5}
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        **dict.fromkeys(("fedhide", "fedhide_random", "fedhide_own_layer"), _mixed),
        **dict.fromkeys(("fedgn", "fedgn_once", "fedcs", "fedcs_once", "fedaws"), _prototypes),
        **dict.fromkeys(("own_prototypes", "fixed_prototypes"), _alone),
        "fedmetric": {"normalised": True, "lr": 0.03, "fraction": 0.1},
        "feduv": {"lr": 3.0, "fraction": 0.1},
        "deepsvdd": {"lr": 0.001, "fraction": 0.1},  # at 0.01 accuracy 0.73, not 0.80
        "fedavg": {"fraction": 0.1},
        "fedprox": {"fraction": 0.1},
    }

    clients: int = Field(100, ge=100, le=100, description="clients, one per class")
    model: str = Field("mlp", description="network, one of `leakbench list models`")
    width: int = Field(128, ge=1, le=4096, description="hidden units, or channels")
    dim: int = Field(128, ge=2, le=4096, description="width of the embedding")

    def load(self) -> TaskData:
        """Images in [0, 1], float64."""
        train, test, aux = _pairs("train", PER_CLIENT), _pairs("test", 2), _pairs("aux", 4)
        data = one_class_each(train, test, aux, self.clients)
        return replace(data, unofficial=sklearn_digits.unofficial())


def _pairs(part: str, each: int) -> Examples:
    """``each`` pairs of every class from the digits of ``part``, the test digits used once."""
    x, y = split()[part]
    rng = shared(0, f"task/digit-pairs/{part}")
    left, right = (_source_rows(part, y, each, side) for side in (0, 1))
    right = right.transpose(0, 1)  # both (a, b, each)
    label = (10 * torch.arange(10)[:, None] + torch.arange(10))[..., None].expand(10, 10, each)
    order = rng.permutation("order", label.numel())
    order = order[label.reshape(-1)[order].argsort(stable=True)]
    pair = torch.cat([x[left.reshape(-1)], x[right.reshape(-1)]], dim=-1)
    return Examples(pair[order], label.reshape(-1)[order].contiguous())


def _source_rows(part: str, y: Tensor, each: int, side: int) -> Tensor:
    """(10, 10, each): the rows of digit a on this side that are paired with each other digit."""
    rng = shared(0, f"task/digit-pairs/{part}/source")
    out = []
    for a in range(10):
        rows = (y == a).nonzero().flatten()
        if part == "test":  # this side's half of the digits, each used once
            mine = rows[rng.permutation(f"{a}", len(rows))].chunk(2)[side]
            out.append(mine[: 10 * each].view(10, each))
        else:
            out.append(rows[rng.integers(f"{a}/{side}", len(rows), 10, each)])
    return torch.stack(out)
