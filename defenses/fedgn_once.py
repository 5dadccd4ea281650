"""FedGN with one draw: a client's noise is drawn once and kept, so that averaging gains nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from defenses.fedgn import FedGN
from leakbench import Client

if TYPE_CHECKING:
    from torch import Tensor


class FedGNOnce(FedGN):
    """Proxy = unit(w + n), n ~ N(0, sigma^2 I) drawn once for each client (FedGN: in every round).

    Repairs: the mean of a client's proxies over rounds is as far from w as each of them. Does not
    repair: the update gives w away without any proxy; and n is the client's for good, so whoever
    learns one w by it knows n, and from then on every w by its proxy. Undefended: sigma = 0.
    """

    title: ClassVar[str] = "FedGN once"
    paper: ClassVar[str] = "ours; FedGN is of Park and Yun, ECCV 2024, Eq. 5"

    def proxy(self, w: Tensor, me: Client) -> Tensor:
        return super().proxy(w, replace(me, rng=me.rng.always()))
