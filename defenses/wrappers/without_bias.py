"""Leave the last layer's bias out of what is sent: the server never learns how it moved."""

from __future__ import annotations

from typing import ClassVar

from leakbench import Client, Processing, Tree, Wrapper
from leakbench.models import last_layer, tensor_of


class WithoutBias(Wrapper):
    """The last layer's bias is in no update, so it never moves in the global model.

    Local training moves it, from where the server has it, and what it moved is dropped. A message
    without such a bias is refused: it would be called covered. Rounds cannot be fused: single
    updates change.

    Repairs: with a prototype loss the step of that bias is a multiple of w - c f, with f the mean
    embedding; it is gone. Does not repair: the step of the same layer's weights is that vector
    times the layer's inputs, and its leading singular vector tells it as well.
    """

    masks: ClassVar[bool | None] = False
    paper: ClassVar[str] = "ours"

    def uplink(self, payload: Tree, me: Client) -> Tree:
        if not isinstance(payload, dict):
            return payload
        bias = tensor_of(last_layer(me.net.module, me.facts.shape)[0], "bias")
        return {k: v for k, v in payload.items() if k != bias}

    def mechanism(self) -> Processing:
        return Processing()
