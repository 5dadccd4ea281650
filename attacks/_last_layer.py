"""The step of the last linear layer: what an update holds of it, and what it started from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from attacks._low_rank import completed
from leakbench import models
from leakbench.attacking import Replay, View
from leakbench.base import torch
from leakbench.federation import Batch, reach, trainings
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

NOISE = 64  # images of noise that the received network is shown
SAME = 1e-5  # lengths of updates that differ by less, relatively, are one


@dataclass(frozen=True)
class LayerStart:
    """The last layer as a round's clients received it, in float64."""

    received: dict[str, Tensor]  # its weights and, where it has one, its bias, by name
    start: Tensor  # (dim, n): the same, a bias the last column
    usual: Tensor  # (n or more,): its mean input where the network is shown noise, and 1
    clipped: bool  # were the round's updates longer?


@dataclass(frozen=True)
class LayerStep:
    """One client's step of the last layer, in float64; a bias is the last column of both."""

    message: Message
    start: Tensor  # (dim, n): the weights that the client had received
    # (dim, n): by how much they moved; what of it was not sent by what was, 0 where that tells
    # nothing.
    moved: Tensor
    rate: float  # learning rate times local steps; 0 where neither can be told
    usual: Tensor  # (n,): the mean input of the layer where the network is shown noise
    bias: bool  # is the last column that of a bias?
    clipped: bool  # was it longer?


class Outputs:
    """A network whose outputs are there already; a method's loss takes it for the real one."""

    low = None  # nothing is multiplied

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs

    def __call__(self, x: Tensor, **_: Any) -> Tensor:
        """``outputs`` (B, dim), whatever ``x`` is."""
        return self.outputs


def sent(view: View) -> list[Message]:
    """Every client's updates up to the attacked round, whole or their last layer, oldest first.

    Of a round's trainings the first; none of a client whose newest was not kept.
    """
    rows = view.traffic("update")
    newest: dict[str, int] = {}
    for t, sender, _ in rows.tolist():
        newest[f"client/{sender}"] = max(t, newest.get(f"client/{sender}", t))
    first: dict[tuple[str, int], Message] = {}
    for m in view.messages("update", last_layer=True):
        first.setdefault((m.sender, m.round), m)
    # Of what a client is told by two models there is no traffic.
    kept = [m for m in first.values() if (m.sender, newest.get(m.sender, m.round)) in first]
    return sorted(kept, key=lambda m: (m.round, m.sender))


def start(view: View, m: Message) -> LayerStart | None:
    """What the sender of ``m`` received; None where it was not kept, or has another end.

    Of a sum what all who are in it received; None where they did not receive the same.
    """
    round = m.round
    name, layer = models.last_layer(view.module, view.facts.shape)
    sent = view.messages("model", sender="server", to=m.sender, round=round, last_layer=True)
    keys = [
        k
        for k in (models.tensor_of(name, "weight"), models.tensor_of(name, "bias"))
        if sent and k in sent[-1].payload
    ]
    if layer is None or not keys:
        return None
    received = {k: sent[-1].payload[k] for k in keys}
    usual = _usual(view, name, sent[-1].payload)
    return LayerStart(received, _columns(received, keys, received), usual, _clipped(view, round))


def step(view: View, m: Message) -> LayerStep | None:
    """The last layer's step in an update; None where its model was not kept, or has another end."""
    at = start(view, m)
    return None if at is None else step_from(view, at, m)


def step_from(view: View, at: LayerStart, m: Message) -> LayerStep | None:
    """The same, where the start is known."""
    keys, bias = [*at.received], len(at.received) > 1
    if keys[0] not in m.payload:
        return None
    moved, told = (_columns(one, keys, at.received) for one in (m.payload, m.told()))
    if m.sparse:
        moved = completed(moved, told != 0)
    if bias and not bool(told[:, -1].any()):
        moved[:, -1] = _missing(moved[:, :-1], at.usual)
    like = at.usual[: at.start.shape[1]]
    return LayerStep(m, at.start, moved, _rate(view, m), like, bias, at.clipped)


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
    """(n + 1,): the last layer's mean input on images of uniform noise, and 1.

    Of the newest whole model, with the last layer as the client had ``received`` it.
    """
    whole = view.messages("model", sender="server")
    weights = {**(whole[-1].payload if whole else {}), **received}
    module, seen = view.module.double(), []
    module.load_state_dict({k: v.double() for k, v in weights.items()}, strict=False)
    hook: Callable[..., None] = lambda _m, given, _o: seen.append(given[0])  # noqa: E731
    handle = module.get_submodule(name).register_forward_hook(hook)
    dice = torch.Generator().manual_seed(0)
    x = torch.rand(NOISE, *view.facts.shape, generator=dice, dtype=torch.float64)
    x = view.facts.input_range.native(x)
    with torch.no_grad():
        module.eval().to(view.device)(x.to(view.device))
    handle.remove()
    mean = seen[0].reshape(-1, seen[0].shape[-1]).mean(0)
    return torch.cat([mean, torch.ones_like(mean[:1])])


def _rate(view: View, m: Message) -> float:
    """How far the local steps go (``reach``); 0 where that cannot be told."""
    method = view.loss_method()
    made = trainings(method, m.round, last=view.last)
    training = next((e for e in made if e.phase == m.phase), None)
    if training is None or method.optimizer != "sgd" or not training.steps:
        return 0.0
    if method.step_terms().clips:  # by how much, nobody tells
        return 0.0
    return reach(method, m.round, training.steps)


def _clipped(view: View, round: int) -> bool:
    """Have two of a round's updates one length, as no two have that were not clipped to it?"""
    lengths = []
    for m in view.messages("update", round=round):
        parts = torch.stack([v.double().norm() for v in m.payload.values()])
        lengths.append(float(parts.norm()))
    lengths.sort()
    return any(a > 0 and b - a < SAME * b for a, b in pairwise(lengths))


def pull(
    replay: Replay, key: str, w: Tensor, outputs: Tensor, *, differentiable: bool = False
) -> Tensor:
    """(k, dim): minus the gradient of the method's own loss by each of ``outputs`` (k, dim).

    For the prototype ``w`` (dim,) under the name ``key``; the loss is a mean over its examples.
    """
    z = outputs if differentiable else outputs.detach().requires_grad_()
    loss = _loss(replay, key, w, z)
    (gradient,) = torch.autograd.grad(loss, z, create_graph=differentiable)
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
