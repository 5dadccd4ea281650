"""Prune the gradient of the layer that reads the representation, where that tells most."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from leakbench import Client, Tree, UsageError, Wrapper
from leakbench.base import torch
from leakbench.models import last_layer, tensor_of

if TYPE_CHECKING:
    from torch import Tensor

TOGETHER = 32  # features whose slopes by the input are computed at once


class Soteria(Wrapper):
    """Of a linear layer's step, the columns of the features that tell most of the input are 0.

    r is what the layer reads. Pruned are the columns of the ``share`` of features of the smallest
    |d r_i / dx| / |r_i|, which are those of the largest |r_i (d r_i / dx)^-1| in Algorithm 1, by
    the approximation of its authors' code. All else is sent as it is, the layer's bias too.

    Differs from the paper: the mask is found once for a message, at the weights that the client
    received and in evaluation mode, and laid over the update, where Algorithm 1 perturbs r in
    every local step (the same for a single one). Of several examples it is the sum of the slopes'
    lengths over the sum of the sizes, where the code adds up the quotients, with 0.1 beside r_i; a
    feature that is 0 in all of them has no gradient to prune, and is not counted as pruned. The
    share of 0.6 is that of the code's example.

    Repairs attacks that match the whole gradient, zeros and all. Does not repair: the layers
    before tell the input as they did, and who leaves the pruned columns out of the match finds it
    (Balunović et al., ICLR 2022). The zeros give the mask away.
    """

    masks: ClassVar[bool | None] = True
    paper: ClassVar[str] = "Sun et al., CVPR 2021, Algorithm 1"

    share: float = Field(0.6, gt=0, lt=1, description="of the features whose columns are pruned")
    layer: str = Field("", description="the linear layer's name; empty: the last layer")

    def uplink(self, payload: Tree, me: Client) -> Tree:
        if not isinstance(payload, dict):
            return payload
        name, layer = self._layer(me)
        weight = tensor_of(name, "weight")
        if weight not in payload:
            return payload
        pruned = self._pruned(me, layer)
        return {**payload, weight: torch.where(pruned, 0.0, payload[weight])}

    def _layer(self, me: Client) -> tuple[str, torch.nn.Linear]:
        """Whose step is pruned.

        Raises:
            UsageError: it is no linear layer.
        """
        module, name = me.net.module, self.layer
        if name:
            found = dict(module.named_modules()).get(name)
        else:
            name, found = last_layer(module, me.facts.shape)
        if not isinstance(found, torch.nn.Linear):
            raise UsageError(
                f"the wrapper Soteria prunes a linear layer, and {name!r} is none of the network's:"
                " name one, layer=..."
            )
        return name, found

    def _pruned(self, me: Client, layer: torch.nn.Linear) -> Tensor:
        """(features,) bool: whose columns are pruned; none of a client that trained on nothing."""
        like = layer.weight
        slopes = torch.zeros(layer.in_features, dtype=like.dtype, device=like.device)
        sizes = torch.zeros_like(slopes)
        for batch in me.batches:
            far, size = _told(me, layer, batch.x)
            slopes, sizes = slopes + far, sizes + size
        there = sizes > 0
        quotient = torch.where(there, slopes / sizes.clamp(min=1e-30), torch.inf)
        place = quotient.argsort().argsort()  # a device is not asked how many are there
        return there & (place < (self.share * there.sum()).round())


def _told(me: Client, layer: torch.nn.Linear, images: Tensor) -> tuple[Tensor, Tensor]:
    """(features,) twice, summed over ``images``: |d r_i / dx|, and |r_i|."""
    seen: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _layer, given: seen.append(given[0]))
    x = images.detach().requires_grad_()
    weights = {**me.net.weights, **me.inbox.get("model", {})}
    try:
        with torch.enable_grad():
            torch.func.functional_call(me.net.module, weights, (x,))
    finally:
        hook.remove()
    r = seen[0]
    if r.dim() != 2:
        raise UsageError(
            f"the wrapper Soteria prunes by features (B, d), and its layer reads {tuple(r.shape)}:"
            " name another one, layer=..."
        )
    lengths = []
    for some in torch.split(torch.eye(r.shape[1], dtype=r.dtype, device=r.device), TOGETHER):
        each = some[:, None].expand(-1, *r.shape)
        (slopes,) = torch.autograd.grad(r, x, each, retain_graph=True, is_grads_batched=True)
        lengths.append(slopes.flatten(2).norm(dim=2).sum(1))
    return torch.cat(lengths), r.detach().abs().sum(0)
