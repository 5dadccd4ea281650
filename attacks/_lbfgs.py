"""L-BFGS of functions that autograd differentiates: SciPy's L-BFGS-B, with a box or without."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Solution:
    """Where the search ended: the best point seen."""

    x: Tensor  # (n,)
    value: float  # f(x)
    steps: int  # iterations done
    gradient_norm: float  # Euclidean, at x
    # The gradient is within the tolerance, or no step lowers the value any more (rounding).
    converged: bool


def minimise(
    f: Callable[[Tensor], Tensor],
    x0: Tensor,
    *,
    steps: int,
    memory: int = 20,
    tolerance: float = 0.0,
    enough: float = -math.inf,
    box: tuple[float, float, int] | None = None,
) -> Solution:
    """Minimise a smooth function.

    Args:
        f: (n,) to a scalar (), differentiable by autograd. A value that is not finite counts as a
            wall: the step is shortened.
        x0: (n,), float64 advised; where to start.
        steps: most iterations, 1 or more; each costs one to about three evaluations of ``f`` and
            its gradient.
        memory: pairs of differences that are kept.
        tolerance: stop once the gradient's norm is at most this.
        enough: stop once the value is at most this.
        box: (low, high, n): the first n unknowns stay between the two; a start outside is moved.

    Raises:
        ValueError: ``x0`` is not a vector, or ``f`` or its gradient is not finite there.
    """
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    if x0.ndim != 1:
        raise ValueError(f"expected a starting vector (n,), got {tuple(x0.shape)}. Flatten it.")
    at = x0.cpu().double().numpy()
    best, most = math.inf, -math.inf  # the lowest value yet, at ``at``, and the highest

    def evaluate(v: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal best, most, at
        x = torch.from_numpy(v.copy()).to(x0).requires_grad_()
        with torch.enable_grad():
            value = f(x)
            (slopes,) = torch.autograd.grad(value, x)
        number, gradient = float(value.detach()), slopes.cpu().double().numpy()
        if math.isfinite(number) and np.isfinite(gradient).all():
            most = max(most, number)
            if number < best:
                best, at = number, v.copy()
            return number, gradient
        if math.isinf(best):
            raise ValueError(
                "the function or its gradient is not finite at the starting point. Start elsewhere."
            )
        # A bowl about the best point, here higher than anything yet: the line search turns back.
        far, high = v - at, most + 1 + abs(most)
        return high, 2 * (high - best) / (far @ far) * far

    def stop(intermediate_result: Any) -> None:
        if intermediate_result.fun <= enough:
            raise StopIteration

    options: dict[str, float] = {"maxiter": steps, "maxfun": 10**9, "maxcor": memory}
    options |= {"ftol": 0, "gtol": tolerance / math.sqrt(len(x0))}  # of the largest number
    bounds = None
    if box is not None:
        low, high, held = box
        at = np.concatenate([at[:held].clip(low, high), at[held:]])
        bounds = [(low, high)] * held + [(None, None)] * (len(at) - held)
    # One thread: many would spend their time waiting on matrices this small.
    with threadpool_limits(limits=1, user_api="blas"):
        found = minimize(
            evaluate, at, jac=True, method="L-BFGS-B", bounds=bounds, callback=stop, options=options
        )
    return Solution(
        torch.from_numpy(found.x).to(x0),
        float(found.fun),
        found.nit,
        float(np.linalg.norm(found.jac)),
        bool(found.success),
    )
