"""FedHide whose last layer, or its bias alone, stays with the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from defenses.fedhide import FedHide
from leakbench import Facts, UsageError
from leakbench.models import last_layer

if TYPE_CHECKING:
    from torch import nn

_MARK = "stays_with_the_client"


class FedHideOwnLayer(FedHide):
    """FedHide without the part of the update that holds w in closed form.

    The last layer, of which the step is made of w and of the embeddings alone, is every client's
    own: trained there, never sent, never averaged. A client then has one class and a layer for it
    that no other client pulls at, and L_pos alone would let it answer w to anything.

    Repairs: the step of the last layer is in no message. Does not repair: the proxies, which are
    FedHide's; nor the step of the layer below, which is that of the last one seen through it: all
    clients began with the same public numbers, and who takes these for the layer still names them.
    Undefended: alpha = 1; the layer stays.

    There is no one global model: each client's fit is told with its own layer.
    """

    title: ClassVar[str] = "FedHide, own layer"
    paper: ClassVar[str] = "ours; FedHide is of Park and Yun, ECCV 2024, Eq. 1 to 4"
    principal: ClassVar[tuple[str, ...]] = ("alpha", "k", "stays")

    stays: Literal["layer", "bias"] = Field(
        "layer", description="what stays with the client: the whole last layer, or its bias"
    )

    def module(self, module: nn.Module, facts: Facts) -> nn.Module:
        """The task's architecture, with a mark on the layer that stays.

        Raises:
            UsageError: what is to stay is not there.
        """
        name, _ = last_layer(module, facts.shape)
        layer = module.get_submodule(name)
        if self.stays == "bias" and getattr(layer, "bias", None) is None:
            raise UsageError(
                "fedhide_own_layer: stays = bias, but this network's last layer has no bias; use"
                " stays = layer, or another task.model."
            )
        setattr(layer, _MARK, True)
        return module

    def keeps(self, name: str, module: nn.Module) -> bool:
        bias = name.rpartition(".")[2] == "bias"
        return hasattr(module, _MARK) and (bias or self.stays == "layer")
