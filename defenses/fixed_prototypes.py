"""A baseline: every client pulls to a random direction that nobody trains or is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from defenses._prototypes import OwnPrototype
from leakbench import Batch, Client, Net, Tree, unit

if TYPE_CHECKING:
    from torch import Tensor


class FixedPrototypes(OwnPrototype):
    """FedHide's Eq. 2 alone, towards a prototype that stays as it was drawn.

    The model goes down and the update up. Random directions in many dimensions lie far apart
    without anybody's help: what FedHide is better than this is what trained prototypes and shared
    proxies gain together. It hides by not sending. Does not repair: the update gives w away, for
    all rounds at once, because w never moves. ``own_lr`` and ``stored`` change nothing.
    Undefended: itself.
    """

    title: ClassVar[str] = "fixed prototypes"
    paper: ClassVar[str] = "ours; the loss is Park and Yun's, ECCV 2024, Eq. 2"

    def start(self, me: Client) -> None:
        me.state["prototype"] = unit(me.rng.normal("prototype", me.facts.dim))

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        return self.positive(net, batch, me.state["prototype"])

    def uplink(self, me: Client) -> None:
        return None

    def predict(self, net: Net, x: Tensor, me: Client) -> Tensor:
        return unit(net(x)) @ me.state["prototype"]

    def secrets(self, me: Client) -> dict[str, Tree]:
        return {"prototype": me.state["prototype"]}

    def hides(self) -> bool:
        return True
