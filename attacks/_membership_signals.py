"""How much an update speaks for each candidate: four signals of one round."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attacks._candidate_gradients import Heard
from leakbench import models
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

RIDGE = 1e-3  # of the mean squared length of a gradient
# Of the mean coefficient: that of a member may be so large.
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
HALF = math.log(0.5)  # half of the candidates are members
OTHERS = 4  # clients of a round: so many show what an example's loss does without it
FEW = 3  # auxiliary examples of a class, to tell what is usual of it
CLEAREST = 1e-6  # of the largest coefficient: no error is taken to be less
TINY = 1e-8  # lengths are taken to be no less
ROUNDING = 4.0  # times: what stands out so far of rounding errors is no rounding error
DEVIATION = 1.4826  # of a normal distribution, in median absolute deviations

# Of the updates of a round: of each, (n,) float64, the higher the likelier a member.
Signal = Callable[[Sequence[Heard]], "list[Tensor]"]


def likelihood(round: Sequence[Heard]) -> list[Tensor]:
    """Log of how much likelier the update is with the candidate's gradient in it than without.

    The update is taken as a sum of gradients, with a coefficient for each candidate and each
    auxiliary example, which are found together, in least squares: what one example explains no
    other one does. A member's coefficient is w, the same for all, of which the likeliest is taken;
    the others' is 0; how far they err, auxiliary examples tell, whose is 0 for sure.
    """
    return [_log_odds(*_solved(h)) for h in round]


def _solved(h: Heard) -> tuple[Tensor, Tensor]:
    """The candidates' coefficients (n,), and how far each errs (n,)."""
    products, with_update, _ = h.products()
    size = float(products.diagonal().mean())
    inverse = torch.linalg.inv(products + RIDGE * max(size, 1e-300) * torch.eye(len(products)))
    found, error = inverse @ with_update, inverse.diagonal().sqrt()
    n = len(h.asked.y)
    each = found / error
    none = each[n:] if len(each) > n else each
    usual = DEVIATION * float((none - none.median()).abs().median())
    least = CLEAREST * float(each.abs().max())
    return found[:n], error[:n] * max(usual, least, 1e-300)


def _log_odds(found: Tensor, error: Tensor) -> Tensor:
    told = [torch.zeros_like(found)]
    for share in SHARES:
        steps = share * found.abs().mean() / error
        odds = steps * found / error - steps.square() / 2
        told.append(torch.logaddexp(torch.full_like(odds, HALF), HALF + odds))
    return max(told, key=lambda one: float(one.sum()))


def span(round: Sequence[Heard]) -> list[Tensor]:
    """How nearly what a linear layer reads of the candidate lies in the row space of its update.

    A step moves the weights of such a layer by sums of (slope of an output) x (what it read of an
    example): of fewer examples than it has inputs the rows span those examples and nothing else,
    however small a part one has. Of several layers the one counts that says most.
    """
    return [_usual(_inside(h), h) for h in round]


def _inside(h: Heard) -> Tensor:
    """(n + m,) of minus the log of the share of each example that lies outside."""
    read, best = _read(h), torch.zeros(len(h.both.y), dtype=torch.float64)
    told = h.replay.sent()
    for name, x in read.items():
        key = models.tensor_of(name, "weight")
        if key not in told or not bool(told[key].all()):
            continue
        rows = h.message.payload[key].double().cpu().flatten(1)
        weights = h.replay.inbox["model"][key].double().cpu()
        _, sizes, directions = torch.linalg.svd(rows, full_matrices=False)
        eps = torch.finfo(h.replay.dtype).eps * float(weights.square().mean().sqrt())
        clear = sizes > ROUNDING * eps * sum(math.sqrt(k) for k in rows.shape)
        kept = directions[clear]
        if not 0 < len(kept) < rows.shape[1]:
            continue
        out = (x - x @ kept.T @ kept).norm(dim=1) / x.norm(dim=1).clamp(min=1e-300)
        best = torch.maximum(best, -out.clamp(min=1e-9).log())
    return best


def _read(h: Heard) -> dict[str, Tensor]:
    """{name of a linear layer: (n + m, inputs) float64}, what it reads of each example."""
    found: dict[str, Tensor] = {}
    batch = h.both

    def keep(name: str, x: Tensor) -> None:
        if x.dim() == 2 and len(x) == len(batch.y):
            found.setdefault(name, x.detach().double().cpu())

    hooks = []
    for name, layer in h.replay.module.named_modules():
        if isinstance(layer, torch.nn.Linear):
            hook = layer.register_forward_pre_hook(lambda _, x, name=name: keep(name, x[0]))
            hooks.append(hook)
    try:
        with torch.no_grad():
            h.replay.loss(batch, h.private, mode=False)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def loss(round: Sequence[Heard]) -> list[Tensor]:
    """How much further the client's own training took the candidate's loss down than others' did.

    The other clients of the round began at the same model: the world in which the candidate is no
    member; of many the next ``OTHERS``. Where there are none, how far it fell.
    """
    out = []
    for i, h in enumerate(round):
        before = h.losses()
        some = [*round[i:], *round[:i]][: OTHERS + 1]
        own, *others = [(before - h.losses(o.message)).double().cpu() for o in some]
        # One client that sends what is no model hides nobody.
        usual = torch.stack(others).nan_to_num(nan=torch.inf).median(0).values if others else 0.0
        out.append(_usual(own - usual, h))
    return out


def cosine(round: Sequence[Heard]) -> list[Tensor]:
    """The cosine of the candidate's gradient and the update: FedMIA's signal."""
    out = []
    for h in round:
        products, with_update, length = h.products()
        lengths = length * products.diagonal().sqrt()
        out.append(_usual(with_update / lengths.clamp(min=TINY), h))
    return out


def _usual(told: Tensor, h: Heard) -> Tensor:
    return beyond_usual(told, h.asked.y.cpu(), h.others.y.cpu())


def beyond_usual(told: Tensor, asked: Tensor, y: Tensor) -> Tensor:
    """(n,): the candidates', less what is usual of their class, in its deviations.

    Args:
        told: (n + m,), of candidates and auxiliary examples, which no client trains on.
        asked: (n,), the candidates' classes.
        y: (m,), the others'.
    """
    told, n = told.nan_to_num(0.0, 0.0, 0.0), len(asked)
    mine, others = told[:n], told[n:]
    if len(others) < FEW:
        others, y = mine, asked
    middle = torch.full_like(mine, float(others.mean()))
    left = others - others.mean()
    for c in sorted({*asked.tolist()}):
        own = y == c
        if int(own.sum()) >= FEW:
            middle[asked == c] = others[own].mean()
            left[own] = others[own] - others[own].mean()
    return (mine - middle) / left.square().mean().sqrt().clamp(min=1e-12)
