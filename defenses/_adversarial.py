"""Inputs that a model is sure about, found from noise.

FedAA's adversarial examples (Eq. 4), for its server and for its attacker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


def search(fits: Callable[[Tensor], Tensor], x0: Tensor, *, steps: int) -> Tensor:
    """Argmin over x of the mean of ``fits``, from ``x0`` on.

    L-BFGS with a strong Wolfe line search, ``torch.optim``'s. FedAA, Eq. 4, cites L-BFGS-B (Zhu et
    al. 1997) and names no bounds; this one has none. ``defenses._lockstep.search`` finds the same
    for many problems at once.

    Args:
        fits: (n, ...) to the loss of each (n,), differentiable.
        x0: (n, ...), where to start.
        steps: most iterations; twice as many evaluations of ``fits`` and its gradient at most.

    Returns:
        (n, ...), detached; never worse than ``x0``.
    """
    x = x0.detach().clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [x], max_iter=steps, max_eval=2 * steps, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        with torch.enable_grad():
            loss = fits(x).mean()
        (grad,) = torch.autograd.grad(loss, [x])
        x.grad = grad.contiguous()
        return loss

    with torch.no_grad():
        before = fits(x0).mean()
    optimizer.step(closure)  # type: ignore[no-untyped-call]
    found = x.detach()
    with torch.no_grad():
        after = fits(found).mean()
    return found if bool(after <= before) else x0.detach().clone()
