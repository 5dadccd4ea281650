"""SGD and Adam on named leaves, by hand: torch.optim costs 2.5 s of imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.federation.defense import Defense, StepTerms

if TYPE_CHECKING:
    from torch import Tensor, nn


class Optimizer:
    """One client's local optimiser, of who trains and of who replays a training.

    Leaves are named "model/..." or "own/..." and use the method's ``lr`` or ``own_lr``; stages of
    the network may state factors on the first (``Stages.rates``). What a step makes of a gradient
    say the method's ``step_terms``, ``schedule`` and ``step_schedule``. Adam is Kingma and Ba's,
    begun anew in every round. "adam_each_step" forgets at every step, so that each is
    lr g / (|g| + epsilon), the sign of the gradient: what FLea's released code does.

    Args:
        method: whose local steps these are.
        round: of the training, from 1 on.
        module: the network.
        clients: are leaves and gradients those of several clients, one in each row?
        soft: where a search goes through Adam's steps, their slope is that of steps whose epsilon
            is so many root mean squares of the gradient; that of a sign is 0. Steps stay the same.
    """

    def __init__(
        self,
        method: Defense,
        round: int,
        module: nn.Module | None = None,
        *,
        clients: bool = False,
        soft: float = 0.0,
    ) -> None:
        scale = method.schedule(round)
        self.adam, self.fresh = method.optimizer != "sgd", method.optimizer == "adam_each_step"
        self.rates = {"model": method.lr * scale, "own": method.own_lr * scale}
        self.terms, self.factors = method.step_terms(), method.step_schedule(round)
        self.module, self.clients, self.soft = module, clients, soft
        self.mean: dict[str, Tensor] = {}
        self.square: dict[str, Tensor] = {}
        self.steps = 0

    def step(self, leaves: dict[str, Tensor], grads: Sequence[Tensor]) -> dict[str, Tensor]:
        """The new values; nothing is changed in place."""
        values = {name: value.detach() for name, value in leaves.items()}
        moves = self.moves(values, dict(zip(values, grads, strict=True)))
        return {k: torch.sub(v, moves[k], alpha=self._rate(k)) for k, v in values.items()}

    def moves(self, values: Mapping[str, Tensor], grads: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """How far the next step goes against ``grads`` at ``values``, over its rate.

        Differentiable in both; through Adam as ``soft`` says.
        """
        if self.fresh:
            self.mean, self.square = {}, {}
        self.steps += 1
        given, terms = self.given(values, grads), self.terms
        moves = {k: self._adam(k, g) if self.adam else self._sgd(k, g) for k, g in given.items()}
        if terms.weight_decay and terms.decoupled:
            moves = {k: v + terms.weight_decay * values[k] for k, v in moves.items()}
        return moves

    def given(self, values: Mapping[str, Tensor], grads: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The gradients as SGD or Adam is given them: cut, and with the weights' decay."""
        terms = self.terms
        found = clipped(terms, grads, clients=self.clients) if terms.clips else dict(grads)
        if terms.weight_decay and not terms.decoupled:
            found = {k: g + terms.weight_decay * values[k] for k, g in found.items()}
        return found

    @property
    def factor(self) -> float:
        """What the rate of the step that was made last is, over that of the round."""
        return step_factor(self.factors, self.steps - 1)

    def _rate(self, name: str) -> float:
        group, _, own = name.partition("/")
        rate = self.rates[group] * self.factor
        return rate * (rate_factor(self.module, own) if group == "model" else 1.0)

    def _sgd(self, name: str, grad: Tensor) -> Tensor:
        terms, before = self.terms, self.mean.get(name)
        if not terms.momentum:
            return grad
        speed = self.mean[name] = grad if before is None else terms.momentum * before + grad
        return grad + terms.momentum * speed if terms.nesterov else speed

    def _adam(self, name: str, grad: Tensor) -> Tensor:
        first, second, step = self.terms.beta1, self.terms.beta2, 1 if self.fresh else self.steps
        before, square = (m.get(name, torch.zeros_like(grad)) for m in (self.mean, self.square))
        self.mean[name] = first * before + (1 - first) * grad
        self.square[name] = second * square + (1 - second) * grad * grad
        mean = self.mean[name] / (1 - first**step)
        square = self.square[name] / (1 - second**step)
        # A root has no slope at 0, and no replay could go through it.
        root = square.clamp(min=torch.finfo(square.dtype).tiny).sqrt()
        move = mean / (root + self.terms.epsilon)
        if not self.soft:
            return move
        softly = mean / (root + self.soft * square.mean().sqrt().detach())
        return softly + (move - softly).detach()


def clipped(
    terms: StepTerms, grads: Mapping[str, Tensor], *, clients: bool = False
) -> dict[str, Tensor]:
    """Gradients cut as torch's ``clip_grad_value_`` or ``clip_grad_norm_`` cuts them.

    ``clients``: each has a row of its own in every tensor, and a norm of its own.
    """
    if terms.clip_value:
        return {k: g.clamp(-terms.clip_value, terms.clip_value) for k, g in grads.items()}
    first = 1 if clients else 0
    squares = [
        g.square().flatten(first).sum(first) if g.dim() > first else g.square()
        for g in grads.values()
    ]
    whole = torch.stack(squares).sum(0)
    # A root has no slope at 0.
    norm = whole.clamp(min=torch.finfo(whole.dtype).tiny).sqrt()
    share = (terms.clip_norm / (norm + 1e-6)).clamp(max=1.0)
    return {
        k: g * (share.view(-1, *[1] * (g.dim() - 1)) if clients else share)
        for k, g in grads.items()
    }


def step_factor(factors: Sequence[float], step: int) -> float:
    """The factor on the rate in a local step, from 0 on, of those of ``step_schedule``."""
    return factors[min(step, len(factors) - 1)] if factors else 1.0


def reach(method: Defense, round: int, steps: int) -> float:
    """How far so many local steps of SGD go against a gradient that stays the same, over it.

    Rate times steps where there is no momentum; else more, as the first counts in all that follow.
    Of methods that clip no gradient.
    """
    terms, factors = method.step_terms(), method.step_schedule(round)
    total, velocity = 0.0, 0.0
    for step in range(steps):
        velocity = terms.momentum * velocity + 1
        move = 1 + terms.momentum * velocity if terms.nesterov else velocity
        total += step_factor(factors, step) * move
    return method.lr * method.schedule(round) * total


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
