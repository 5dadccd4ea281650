"""What a network is trained for, whatever the method: that it says of an input what is to be said.

The class of the input, or a row of tokens that describes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base.errors import MethodError
from leakbench.base.lazy import torch
from leakbench.base.tokens import PAD
from leakbench.federation.net import Net
from leakbench.federation.parties import Batch, Facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


def fits(
    net: Net,
    batch: Batch,
    facts: Facts,
    *,
    weights: Mapping[str, Tensor] | None = None,
    start: str | None = None,
) -> Tensor:
    """J(net(x), target) of each example, (B,): the lower, the better the network says it.

    Of classes the cross-entropy. Of tokens its mean over the tokens that follow the first, each
    given the true ones before it (teacher forcing); padding does not count. ``weights``: another
    model's, in evaluation mode. ``start``: the stage of whose features the batch's x are, in place
    of inputs.

    Raises:
        MethodError: the task asks for tokens, and the batch has none.
    """
    if facts.targets == "classes":
        return fits_target(net, batch.x, batch.y, weights=weights, start=start)
    if batch.targets is None:
        raise MethodError(
            "this task asks for texts, but the batch has no `targets`: hand them on with x and y."
        )
    return fits_target(net, batch.x, batch.targets, weights=weights, start=start)


def class_logits(out: Tensor) -> Tensor:
    """(B, K) logits of what a network says, (B, K) or one logit z (B, 1): (-z / 2, z / 2).

    So it says the second of two classes with probability sigmoid(z), and cross-entropy is the
    binary one of z.
    """
    return torch.cat([-out / 2, out / 2], 1) if out.dim() == 2 and out.shape[1] == 1 else out


def fits_target(
    net: Net,
    x: Tensor,
    target: Tensor,
    *,
    weights: Mapping[str, Tensor] | None = None,
    start: str | None = None,
) -> Tensor:
    """The same, (B,), of inputs x (B, ...) and targets (B,), classes, or (B, T), tokens.

    ``start``: the stage of whose features x are, in place of inputs.
    """
    entropy = torch.nn.functional.cross_entropy
    if target.dim() == 1:
        logits = class_logits(net(x, start=start, weights=weights))
        return entropy(logits, target, reduction="none")
    said = net(x, start=start, given=target[:, :-1], weights=weights)
    following = target[:, 1:]
    counts = (following != PAD).to(said.dtype)
    each = entropy(said.movedim(-1, 1), following, reduction="none")
    return (each * counts).sum(1) / counts.sum(1).clamp(min=1)
