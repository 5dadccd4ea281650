"""Secure aggregation as an ideal functionality (Bonawitz et al. 2017): only the sum is learnt."""

from __future__ import annotations

from typing import ClassVar

from leakbench import Processing, Wrapper


class SecureSum(Wrapper):
    """Uplinks of ``kinds`` go to an aggregator, which sends the server their (weighted) mean."""

    linear: ClassVar[bool] = True
    sums: ClassVar[bool] = True
    masks: ClassVar[bool | None] = False
    paper: ClassVar[str] = "Bonawitz et al., CCS 2017"

    def mechanism(self) -> Processing:
        return Processing()
