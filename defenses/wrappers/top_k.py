"""Send a share of a message's numbers alone: the largest, or some that are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from leakbench import Client, Processing, Tree, Wrapper
from leakbench.base import flat, torch, unflat

if TYPE_CHECKING:
    from torch import Tensor


class TopK(Wrapper):
    """Of n numbers the round(share n) of largest size are sent, one at least; the rest is 0.

    Differs from the papers: what was not sent is lost, where Aji and Heafield (Section 3) and Stich
    et al. (NeurIPS 2018, Algorithm 1) add it to the client's next message; every client sparsifies
    what it sends in a round, not the gradient of each step; and where a size stands several times
    at the edge as many are sent as were to be. A message is told by its size as if all of it had
    been sent. Whole numbers stay as they are; a message that has no others is refused.

    What is left out an attacker knows to be left out (``masks``), and leaves out as well. Repairs
    little: the numbers that are sent are what the sender's examples make of them, so an image
    still has to explain each, and a few hundred of them are enough to find one.
    """

    masks: ClassVar[bool | None] = True
    paper: ClassVar[str] = "Aji and Heafield, EMNLP 2017, Section 3"

    share: float = Field(0.1, gt=0, le=1, description="of the numbers that are sent")
    choose: Literal["largest", "random"] = Field(
        "largest", description="which: those of largest size, or drawn anew for each message"
    )
    over: Literal["message", "tensor"] = Field(
        "message", description="the share is of the whole message, or of each of its tensors"
    )

    def uplink(self, payload: Tree, me: Client) -> Tree:
        leaves = flat(payload)
        real = {k: t for k, t in leaves.items() if t.is_floating_point() and t.numel()}
        if not real:
            return payload
        if self.over == "tensor":
            parts = {k: self._sent(t.flatten(), me, k) for k, t in real.items()}
        else:
            whole = self._sent(torch.cat([t.flatten() for t in real.values()]), me, "all")
            sizes = [t.numel() for t in real.values()]
            parts = dict(zip(real, torch.split(whole, sizes), strict=True))
        return unflat({**leaves, **{k: v.view(real[k].shape) for k, v in parts.items()}})

    def mechanism(self) -> Processing:
        return Processing()

    def _sent(self, numbers: Tensor, me: Client, name: str) -> Tensor:
        """``numbers`` (n,) with 0 in place of those that are not sent."""
        many = max(1, round(self.share * len(numbers)))
        order = numbers.abs()
        if self.choose == "random":
            order = me.rng.uniform(name, len(numbers))
        at = order.topk(many).indices
        return torch.zeros_like(numbers).scatter(0, at, numbers.gather(0, at))
