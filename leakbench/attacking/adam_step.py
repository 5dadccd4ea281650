"""What one step of Adam says of the gradient behind it: every sign, and every small number whole.

Adam's first step is lr g / (|g| + 1e-8), which is taken for lr sign(g). What it falls short of the
sign by is 1e-8 / (|g| + 1e-8), and an update keeps that as far as its rounding lets it: numbers of
1e-4 and less stand in a float32 update at a rate of 1e-3, all of them in a float64 one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

SURE = 8.0  # roundings that a distance from the sign must be, or it counts as unknown
MOST, SIGN = "most", "sign"
UNSURE = 1e-5  # of a step that was clipped: its longest number stands for the sign
PILED = 0.05  # share of numbers that are equally short of the sign: the update was clipped


class AdamStep:
    """One step of Adam as an attacker reads it.

    Args:
        update: what was sent, {name: tensor}, of the trained tensors alone.
        received: the weights that the step started at.
        rate: its learning rate.
        dtype: in which the client computed.
        epsilon: Adam's.
        sent: {name: bool}, which numbers of the update were; all of them if None.

    ``observed``: the gradient as far as it can be told: its numbers where they can, ± the largest
    that could be told elsewhere. ``compared`` makes of a gradient what equals that where the
    gradient is the victim's. A step that was clipped is made long again; where noise has moved
    the steps away from ±lr, both are of soft signs in place of numbers (``rough``).
    """

    def __init__(
        self,
        update: Mapping[str, Tensor],
        received: Mapping[str, Tensor],
        rate: float,
        dtype: torch.dtype,
        epsilon: float = 1e-8,
        sent: Mapping[str, Tensor] | None = None,
    ) -> None:
        if sent is not None and not all(bool(told.all()) for told in sent.values()):
            # What was not sent says nothing of how steps were cut or noised.
            update = {k: torch.where(sent[k], v, 0.0) for k, v in update.items()}
        else:
            sent = None
        moved = {k: -v / rate for k, v in update.items()}
        unit = torch.finfo(dtype).eps
        blur = {k: SURE * unit * (received[k].abs() / rate + 2) for k in moved}
        self.told: dict[str, Tensor] = {}  # what ``compared`` goes by
        share = _share(_of_sent(moved, sent), _of_sent(blur, sent))
        if share < 1:
            moved = {k: v / share for k, v in moved.items()}
            blur = {k: b.clamp(min=UNSURE) for k, b in blur.items()}
        self.rough = _rough(_of_sent(moved, sent), _of_sent(blur, sent))
        if self.rough:
            self.observed = moved
            return
        self.observed = {}
        for k, step in moved.items():
            v = torch.where(
                step.abs() > blur[k], step, 0.0
            )  # what rounding left of a decay is none
            short = 1 - v.abs()
            known, most = short > blur[k], epsilon * (1 / blur[k] - 1).clamp(min=0)
            whole = epsilon * v / torch.where(known, short, torch.ones_like(short))
            self.observed[k] = torch.where(known, whole, v.sign() * most)
            # Nothing is cut of what is known.
            self.told[f"{MOST}/{k}"] = torch.where(known, torch.full_like(most, torch.inf), most)
            self.told[f"{SIGN}/{k}"] = v.sign()

    def compared(self, gradient: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What of ``gradient`` is held against ``observed``; differentiable.

        A number that could not be told is cut at the largest that could be, on the observed side of
        0 alone: on the other it stays as it is, so that a wrong sign is always felt.
        """
        if self.rough:
            scale = _size(gradient).detach()
            return {k: g / (g.abs() + scale) for k, g in gradient.items()}
        return {k: self._cut(k, g) for k, g in gradient.items()}

    def known(self, name: str) -> Tensor:
        """Which numbers of a tensor are told, not their signs alone; of a step not ``rough``."""
        return self.told[f"{MOST}/{name}"].isinf()

    @property
    def whole(self) -> bool:
        """Are all of them?"""
        return not self.rough and all(bool(self.known(name).all()) for name in self.observed)

    def at(self, told: Mapping[str, Tensor]) -> AdamStep:
        """The same comparison for another victim's ``told``."""
        other = copy.copy(self)
        other.told = dict(told)
        return other

    def _cut(self, name: str, g: Tensor) -> Tensor:
        most, sign = self.told[f"{MOST}/{name}"], self.told[f"{SIGN}/{name}"]
        return torch.where(most.isinf(), g, sign * torch.minimum(sign * g, most))


def _of_sent(
    tensors: Mapping[str, Tensor], sent: Mapping[str, Tensor] | None
) -> Mapping[str, Tensor]:
    """The numbers that were sent, of the tensors of which any was; as they are if all were."""
    if sent is None:
        return tensors
    return {k: v[sent[k]] for k, v in tensors.items() if bool(sent[k].any())}


def _rough(steps: Mapping[str, Tensor], blur: Mapping[str, Tensor]) -> bool:
    """Is any step longer than Adam's (noise), or are many of about one length that is shorter?

    The latter are of noise on a clipped step. Of a whole step no two are alike so far from the
    sign, as no two gradients are.
    """
    if any(bool((v.abs() > 1 + blur[k]).any()) for k, v in steps.items()):
        return True
    short, unsure = _short(steps), max(float(b.max()) for b in blur.values())
    least = float(short.min())
    return least > unsure and float((short <= 1.01 * least).double().mean()) > PILED


def _share(steps: Mapping[str, Tensor], blur: Mapping[str, Tensor]) -> float:
    """What is left of steps that were clipped: many are of one length, the longest. Else 1."""
    short, unsure = _short(steps), max(float(b.max()) for b in blur.values())
    least = float(short.min())
    unsure = max(unsure, UNSURE)
    alike = float((short <= least + unsure).double().mean()) > PILED
    return 1 - least if alike and unsure < least < 1 else 1.0


def _short(steps: Mapping[str, Tensor]) -> Tensor:
    """(n,): by how much every number is shorter than Adam's longest step."""
    return torch.cat([(1 - v.abs()).flatten() for v in steps.values()])


def _size(tensors: Mapping[str, Tensor]) -> Tensor:
    """Root mean square of all numbers, ()."""
    count = sum(t.numel() for t in tensors.values())
    total = torch.stack([t.square().sum() for t in tensors.values()]).sum()
    return (total / count).sqrt().clamp(min=1e-150)
