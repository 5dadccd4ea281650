"""FedCS with one draw: a client's direction is drawn once and kept, so averaging gains nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from defenses.fedcs import FedCS
from leakbench import Client

if TYPE_CHECKING:
    from torch import Tensor


class FedCSOnce(FedCS):
    """Proxy = cos w + sin unit(n - (n . w) w), n drawn once for each client (FedCS: every round).

    Repairs: the mean of a client's proxies over rounds is as far from w as each of them. Does not
    repair: the update gives w away without any proxy; and n is the client's for good, so whoever
    learns one w by it knows the plane that every later w lies in with its proxy. Undefended:
    cos_theta = 1.
    """

    title: ClassVar[str] = "FedCS once"
    paper: ClassVar[str] = "ours; FedCS is of Park and Yun, ECCV 2024, Eq. 6"

    def proxy(self, w: Tensor, me: Client) -> Tensor:
        return super().proxy(w, replace(me, rng=me.rng.always()))
