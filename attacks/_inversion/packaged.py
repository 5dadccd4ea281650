"""A victim as the package `breaching` wants it: its loss as a module, its last layer's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attacks._inversion.victims import Victim
from leakbench import models
from leakbench.attacking import Replay
from leakbench.base import MethodError
from leakbench.federation import Batch


class VictimLoss(nn.Module):
    """A victim's loss of images, as a module whose parameters are what the gradient is of.

    Those alone that were sent and that the loss depends on: the package differentiates by all. Of a
    tensor of which a part was sent they are the numbers (n,) of that part.
    """

    def __init__(self, victim: Victim, dtype: torch.dtype) -> None:
        super().__init__()
        replay = victim.replay(dtype)
        private = {
            k: v.to(dtype) if v.is_floating_point() else v for k, v in victim.private.items()
        }
        self.labels, self._held = victim.labels, _Held(replay, private)
        seen = replay.observed()
        names = [n for n, _ in replay.module.named_parameters() if n in seen and seen[n].any()]
        self.names, told = names, replay.sent()
        self._part = {n: told[n].nonzero(as_tuple=True) for n in names if not told[n].all()}
        received = {n: replay.inbox["model"][n].detach() for n in names}
        self.free = nn.ParameterList([self._of(n, received[n]).clone() for n in names])
        blank = torch.full(victim.shape, 0.5, dtype=dtype, device=replay.device)
        parts = torch.autograd.grad(self(blank), list(self.free), allow_unused=True)
        kept = [j for j, part in enumerate(parts) if part is not None]
        if not kept:
            raise MethodError("the method's loss depends on none of the update's tensors.")
        self.names = [names[j] for j in kept]
        self.free = nn.ParameterList([self.free[j] for j in kept])
        self.gradient = [self._of(n, seen[n]) for n in self.names]

    def forward(self, x: Tensor) -> Tensor:
        """Images (B, C, H, W) on [0, 1] to the loss ()."""
        held = self._held
        weights = dict(zip(self.names, self.free, strict=True))
        for name, at in self._part.items():
            if name in weights:
                whole = held.replay.inbox["model"][name].detach()
                weights[name] = whole.index_put(at, weights[name])
        batch = Batch(held.replay.facts.input_range.native(x), self.labels)
        return held.replay.loss(batch, held.private, weights=weights)

    def _of(self, name: str, whole: Tensor) -> Tensor:
        """Of a tensor what was sent of it."""
        return whole[self._part[name]] if name in self._part else whole


class _Held:
    """What the package's copies of a module share."""

    def __init__(self, replay: Replay, private: Mapping[str, Tensor]) -> None:
        self.replay, self.private = replay, private

    def __deepcopy__(self, memo: dict[int, Any]) -> _Held:
        return self


class Features(nn.Module):
    """How far the inputs of a linear layer are from those that its gradient tells.

    Args:
        layer: whose inputs are followed, as they come by.
        wanted: (B, inputs).
        told: (B,) bool; does the gradient say anything of this example's?
    """

    def __init__(self, layer: nn.Linear, wanted: Tensor, told: Tensor) -> None:
        super().__init__()
        self.wanted, self.told, self.scale = wanted, told, 0.0
        self.seen = wanted
        self.hook = layer.register_forward_pre_hook(self._see)

    def _see(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if inputs[0].requires_grad and inputs[0].shape == self.wanted.shape:
            self.seen = inputs[0]

    def initialize(self, *_: Any) -> None:
        """What the package calls before a search."""

    def forward(self, x: Tensor) -> Tensor:
        """Mean squared distance times ``scale``, ()."""
        apart = (self.seen - self.wanted)[self.told].square()
        return self.scale * apart.mean() if apart.numel() else x.new_zeros(())


def told(victim: Victim) -> Features | None:
    """What the last linear layer's gradient tells of its inputs; None where it tells nothing.

    Row over bias: the row of an example's label, or of one image all rows together. None where a
    part of the rows was not sent.
    """
    replay = victim.replay(torch.float32)
    seen = replay.observed()
    name, layer = models.last_layer(replay.module, replay.facts.shape)
    rows, biases = (seen.get(models.tensor_of(name, key)) for key in ("weight", "bias"))
    if layer is None or rows is None or biases is None:
        return None
    if not all(bool(t.all()) for k, t in replay.sent().items() if k in models.of_layer(name, seen)):
        return None
    if len(victim.labels) == 1:
        total = biases.square().sum()
        wanted = (biases @ rows / total.clamp(min=1e-30))[None]
        return Features(layer, wanted, (total > 0)[None])
    if len(biases) != replay.facts.classes:
        return None
    own = biases[victim.labels]
    wanted = rows[victim.labels] / torch.where(own == 0, 1.0, own)[:, None]
    return Features(layer, wanted, own != 0)
