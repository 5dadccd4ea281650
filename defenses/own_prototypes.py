"""A baseline: every client pulls to a prototype of its own and hears of nobody else's."""

from __future__ import annotations

from typing import ClassVar

from defenses._prototypes import OwnPrototype


class OwnPrototypes(OwnPrototype):
    """FedHide's loss without its negative term (Eq. 2 alone), and so without any proxy.

    The model goes down and the update up. What FedHide is better than this is what sharing proxies
    gains. It hides by not sending: there is no proxy to un-mix or to average. Does not repair: the
    update gives w away. Undefended: itself.
    """

    title: ClassVar[str] = "own prototypes"
    paper: ClassVar[str] = "ours; the loss is Park and Yun's, ECCV 2024, Eq. 2"

    def hides(self) -> bool:
        return True
