"""Is what a client sent what its declared training makes of its rows?

Attacks replay a local training as it was declared: with another rate, loss, network or other rows
they find less, and it would look like privacy.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbench.base.errors import LeakbenchError
from leakbench.base.lazy import torch
from leakbench.base.tree import Tree
from leakbench.federation.federation import Federation
from leakbench.federation.network import thrower
from leakbench.federation.party_runner import single

if TYPE_CHECKING:
    from torch import Tensor

# An update that is made again in the order told points the same way and is as long. In an unknown
# order of several steps it is about as far from it as one order is from another; where rounding
# alone leads elsewhere, by Adam or by many large steps, as one rounding is from another.
APART, LONGER = 0.005, 0.03
ROUGHLY, ROUGHLY_LONGER = 0.05, 0.02  # in an unknown order, beside how far orders are apart
TIMES, DEVIATIONS = 3.0, 4.0  # as far as others are apart, in direction and in length
TRIED = 6  # other orders, and roundings
FAULTS = (RuntimeError, ValueError, TypeError, IndexError, LeakbenchError)


def unlike(
    fed: Federation, model: Tree, client: int, steps: Sequence[Tensor], sent: Tree, *, ordered: bool
) -> tuple[float, float] | None:
    """Cosine and length, over that of what is made again, of what a client sent, where they differ.

    None where both are alike, or where it cannot be made again: layers throw dice.

    Args:
        fed: of the network and the declared method; nothing of it is changed.
        model: what the client began with.
        client: its number.
        steps: the rows of the task's data of each step, (B,).
        sent: its update, all of it or a part.
        ordered: are these the rows of each step, in their order?
    """
    if not steps or thrower(fed.module, fed.data.train.images(steps[0][:2])) is not None:
        return None
    made = _made(fed, model, client, steps)
    if made is None:
        return None
    names = [k for k in sent if k in fed.runner.trained and k in made]
    cosine, length = _compared(sent, made, names)
    if 1 - cosine <= APART and abs(math.log(length)) <= LONGER:
        return None
    models = [_rounded(model, number) for number in range(TRIED)]
    others = [_made(fed, other, client, steps) for other in models]
    apart, longer = APART, LONGER
    if not ordered:
        orders = [_reordered(steps, number) for number in range(TRIED)]
        others += [_made(fed, model, client, order) for order in orders]
        apart, longer = ROUGHLY, ROUGHLY_LONGER + _left_out(steps)
    pairs = [_compared(other or made, made, names) for other in others]
    directions, lengths = zip(*pairs, strict=True)
    logs = [math.log(value) for value in (1.0, *lengths[-TRIED:])]
    apart += TIMES * (1 - min(directions))
    longer += DEVIATIONS * statistics.stdev(logs)
    alike = 1 - cosine <= apart and abs(math.log(length) - statistics.mean(logs)) <= longer
    return None if alike else (cosine, length)


def _left_out(steps: Sequence[Tensor]) -> float:
    """How much shorter an update is, as a logarithm, whose loader drops what fills no batch."""
    full = max(map(len, steps))
    return -math.log(sum(len(rows) == full for rows in steps) / len(steps))


def _reordered(steps: Sequence[Tensor], number: int) -> list[Tensor]:
    """The same rows in steps of the same sizes, in another order."""
    whole = torch.cat(list(steps))
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(number))
    return list(torch.split(whole[order], [len(rows) for rows in steps]))


def _rounded(model: Tree, number: int) -> Tree:
    """The same weights as another machine's rounding might have them."""
    dice, unit = torch.Generator().manual_seed(number), torch.finfo(torch.float32).eps
    return {
        k: v * (1 + unit * torch.randn(v.shape, generator=dice)) if v.is_floating_point() else v
        for k, v in model.items()
    }


def _made(fed: Federation, model: Tree, client: int, steps: Sequence[Tensor]) -> Tree | None:
    """The update of these steps; None where the network does not take them."""
    each = single(fed.tables(), client, client)
    batches = [fed.data.train.batch(rows) for rows in steps]
    try:
        made: Tree = fed.runner.train("loss", fed.t, each, {"model": model}, batches)["update"]
    except FAULTS:  # a batch of one example and BatchNorm, say
        return None
    return made


def _compared(one: Tree, other: Tree, names: Sequence[str]) -> tuple[float, float]:
    """The cosine of two updates, and how many times as long the first is."""
    ours = torch.cat([other[k].double().flatten() for k in names])
    theirs = torch.cat([one[k].double().flatten() for k in names])
    cosine = float(torch.nn.functional.cosine_similarity(ours, theirs, dim=0))
    return cosine, max(float(theirs.norm() / ours.norm().clamp(min=1e-30)), 1e-30)
