"""The step of the last linear layer: what an update holds of it, and what it started from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.attacking import Replay, View
from leakbench.federation import Batch, Defense, Training, trainings
from leakbench.record import Message

NOISE = 64  # images of noise that the received network is shown


@dataclass(frozen=True)
class Step:
    """One client's step of the last layer, in float64; a bias is the last column of both."""

    message: Message
    start: Tensor  # (dim, n): the weights that the client had received
    moved: Tensor  # (dim, n): by how much they moved
    rate: float  # learning rate times local steps; 0 where neither can be told
    usual: Tensor  # (n,): the mean input of the layer where the network is shown noise
    bias: bool  # is the last column that of a bias?


class Outputs:
    """A network whose outputs are there already; a method's loss takes it for the real one."""

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs

    def __call__(self, x: Tensor, **_: Any) -> Tensor:
        """``outputs`` (B, dim), whatever ``x`` is."""
        return self.outputs


def last(module: nn.Module) -> tuple[str, nn.Linear | None]:
    """Name and module of the last layer that has parameters; None where it is not linear."""
    owners = [(k, m) for k, m in module.named_modules() if list(m.parameters(recurse=False))]
    name, layer = owners[-1] if owners else ("", None)
    return name, layer if isinstance(layer, nn.Linear) else None


def steps(view: View, round: int) -> list[Step]:
    """The last layer's step of every client of a round of which an update is there.

    Of a round's trainings that of the first; empty where the model of the round was not kept, or
    the layer's weights are not in the updates.
    """
    models = [m for m in view.messages("model", round=round) if m.sender == "server"]
    name, layer = last(view.module)
    if not models or layer is None:
        return []
    received, method = models[-1].payload, view.loss_method()
    keys = [k for k in (f"{name}.weight", f"{name}.bias") if k in received]
    sent = view.messages("update", round=round)
    phase = min((m.phase for m in sent), default=0)
    usual = _usual(view, name, received)
    out = []
    for m in (m for m in sent if m.phase == phase and keys and keys[0] in m.payload):
        start = _columns(received, keys, received)
        moved = _columns(m.payload, keys, received)
        if len(keys) > 1 and keys[1] not in m.payload:
            moved[:, -1] = _missing(moved[:, :-1], usual)
        rate = _rate(method, trainings(method, round, last=view.last), m)
        out.append(Step(m, start, moved, rate, usual[: start.shape[1]], len(keys) > 1))
    return out


def _columns(payload: Any, keys: list[str], like: Any) -> Tensor:
    """(dim, n) float64 of the layer's weights and, where it has one, its bias; 0 where lacking."""
    parts = [payload.get(k, torch.zeros_like(like[k])).double() for k in keys]
    return torch.cat([p.reshape(len(p), -1) for p in parts], 1)


def _missing(moved: Tensor, usual: Tensor) -> Tensor:
    """(dim,): the bias's step where it is not sent.

    For one image it is the weights' step on its hidden vector, over that one's squared length: its
    direction is in the step, its length taken from ``usual``.
    """
    _, _, right = torch.linalg.svd(moved, full_matrices=False)
    hidden = right[0] * (right[0] @ usual[:-1]).sign()
    return moved @ hidden / usual[:-1].norm().clamp(min=1e-12)


def _usual(view: View, name: str, received: Any) -> Tensor:
    """(n + 1,): the last layer's mean input on images of uniform noise, and 1."""
    module, seen = view.module.double(), []
    module.load_state_dict({k: v.double() for k, v in received.items()}, strict=False)
    hook: Callable[..., None] = lambda _m, given, _o: seen.append(given[0])  # noqa: E731
    handle = module.get_submodule(name).register_forward_hook(hook)
    dice = torch.Generator().manual_seed(0)
    x = torch.rand(NOISE, *view.facts.shape, generator=dice, dtype=torch.float64)
    with torch.no_grad():
        module.eval().to(view.device)(x.to(view.device))
    handle.remove()
    mean = seen[0].reshape(-1, seen[0].shape[-1]).mean(0)
    return torch.cat([mean, torch.ones_like(mean[:1])])


def _rate(method: Defense, made: list[Training], m: Message) -> float:
    """The learning rate times the local steps; 0 where the number of steps cannot be told."""
    training = next((e for e in made if e.phase == m.phase), None)
    if training is None or method.optimizer != "sgd" or not training.steps:
        return 0.0
    return method.lr * method.schedule(m.round) * training.steps


def pull(replay: Replay, key: str, w: Tensor, outputs: Tensor) -> Tensor:
    """(k, dim): minus the gradient of the method's own loss by each of ``outputs`` (k, dim).

    For the prototype ``w`` (dim,) under the name ``key``; the loss is a mean over its examples.
    """
    z = outputs.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(_loss(replay, key, w, z), z)
    return -gradient * len(z)


def slope(replay: Replay, key: str, w: Tensor, output: Tensor) -> Tensor:
    """(dim,): the gradient of the method's own loss by the prototype ``w``, of one ``output``."""
    free = w.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(_loss(replay, key, free, output[None]), free)
    return gradient


def _loss(replay: Replay, key: str, w: Tensor, outputs: Tensor) -> Tensor:
    """(): as if the network had given ``outputs`` (k, dim)."""
    x = torch.zeros(len(outputs), *replay.facts.shape, dtype=w.dtype, device=w.device)
    batch = Batch(x, torch.zeros(len(outputs), dtype=torch.long, device=w.device))
    return replay.loss_of(Outputs(outputs), batch, {key: w})
