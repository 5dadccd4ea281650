"""Send fewer bits of each number, so that small parts of it are lost in the rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from leakbench import Client, Processing, Tree, Wrapper
from leakbench.base import flat, torch, unflat

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 65504.0  # of float16


class Quantise(Wrapper):
    """Every number of a message is rounded to the nearest that ``number`` can hold.

    Whole numbers of b bits stand for multiples of max |x| / (2^(b-1) - 1) of their tensor, a scale
    that is sent with it. Receivers, the method's own server and clients among them, see what was
    rounded: a bank of proxies is one of rounded proxies. Whole
    numbers stay as they are; a message that has no others is refused.

    Meant for FedHide's proxies (``kinds`` = prototype), of which alpha w is a small part: repairs
    un-mixing where the rounding is many times as large as that (int4 at alpha = 0.01 in 128
    dimensions). Does not repair: int8 there, which spoils what is solved for and still lets it name
    everybody; and the update gives the prototype away. Rounding is the same for the same number:
    averaging gains what the number moves meanwhile.
    """

    masks: ClassVar[bool | None] = False
    paper: ClassVar[str] = "ours"

    number: Literal["float16", "int16", "int8", "int4", "int2"] = Field(
        "int8", description="what each number is sent as: half precision, or so many bits"
    )

    def uplink(self, payload: Tree, me: Client) -> Tree:
        return unflat({k: self._rounded(t) for k, t in flat(payload).items()})

    def mechanism(self) -> Processing:
        return Processing()

    def _rounded(self, t: Tensor) -> Tensor:
        if not t.is_floating_point() or not t.numel():
            return t
        if self.number == "float16":
            return t.clamp(-LARGEST, LARGEST).to(torch.float16).to(t.dtype)
        most = 2 ** (int(self.number.removeprefix("int")) - 1) - 1
        scale = (t.abs().max() / most).clamp(min=torch.finfo(t.dtype).tiny)
        return (t / scale).round() * scale
