"""SGD and Adam on named leaves, by hand: torch.optim costs 2.5 s of imports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.federation.defense import Defense, SgdTerms

if TYPE_CHECKING:
    from torch import Tensor, nn


class Optimizer:
    """One client's local optimiser.

    Leaves are named "model/..." or "own/..." and use the method's ``lr`` or ``own_lr``; stages of
    the network may state factors on the first (``Stages.rates``). Adam is Kingma and Ba's with
    betas 0.9 and 0.999 and epsilon 1e-8, begun anew in every round. "adam_each_step" forgets at
    every step, so that each is lr g / (|g| + 1e-8), the sign of the gradient: what FLea's released
    code does. SGD has the method's ``sgd_terms``; its velocity, too, is begun anew.
    """

    def __init__(self, method: Defense, round: int, module: nn.Module | None = None) -> None:
        scale = method.schedule(round)
        self.adam, self.fresh = method.optimizer != "sgd", method.optimizer == "adam_each_step"
        self.rates = {"model": method.lr * scale, "own": method.own_lr * scale}
        self.terms = method.sgd_terms()
        self.module = module
        self.mean: dict[str, Tensor] = {}
        self.square: dict[str, Tensor] = {}
        self.steps = 0

    def step(self, leaves: dict[str, Tensor], grads: Sequence[Tensor]) -> dict[str, Tensor]:
        """The new values; nothing is changed in place."""
        if self.fresh:
            self.mean, self.square, self.steps = {}, {}, 0
        self.steps += 1
        out = {}
        for (name, value), grad in zip(leaves.items(), grads, strict=True):
            if self.adam:
                move = self._adam(name, grad)
            else:
                move, speed = sgd_move(self.terms, grad, value.detach(), self.mean.get(name))
                if speed is not None:
                    self.mean[name] = speed
            out[name] = torch.sub(value.detach(), move, alpha=self._rate(name))
        return out

    def _rate(self, name: str) -> float:
        group, _, own = name.partition("/")
        return self.rates[group] * (rate_factor(self.module, own) if group == "model" else 1.0)

    def _adam(self, name: str, grad: Tensor) -> Tensor:
        self.mean[name] = 0.9 * self.mean.get(name, torch.zeros_like(grad)) + 0.1 * grad
        square = self.square.get(name, torch.zeros_like(grad))
        self.square[name] = 0.999 * square + 0.001 * grad * grad
        mean = self.mean[name] / (1 - 0.9**self.steps)
        return mean / ((self.square[name] / (1 - 0.999**self.steps)).sqrt() + 1e-8)


def sgd_move(
    terms: SgdTerms, grad: Tensor, value: Tensor, speed: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """How far a step of SGD goes against ``grad`` at ``value``, over the rate; and its velocity.

    ``speed``: the velocity before, None at the first step.
    """
    if terms.weight_decay:
        grad = grad + terms.weight_decay * value
    if not terms.momentum:
        return grad, None
    speed = grad if speed is None else terms.momentum * speed + grad
    return (grad + terms.momentum * speed if terms.nesterov else speed), speed


def rate_factor(module: nn.Module | None, name: str) -> float:
    """The factor on a method's learning rate of the tensor ``name`` of a network."""
    return getattr(module, "rates", {}).get(name.partition(".")[0], 1.0)


def leaves_named(model: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """The leaves of a local training: {"model/...": tensor, "own/...": tensor}."""
    out = {f"model/{k}": v for k, v in model.items()}
    return out | {f"own/{k}": v for k, v in own.items()}


def group_leaves(name: str, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    """The leaves of one group, "model" or "own", under their own names."""
    start = f"{name}/"
    return {k.removeprefix(start): v for k, v in leaves.items() if k.startswith(start)}
