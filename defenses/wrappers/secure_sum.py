"""Secure aggregation as an ideal functionality (Bonawitz et al. 2017): the server learns the sum
and nothing else.
"""

from __future__ import annotations

from typing import ClassVar

from leakbench import Wrapper


class SecureSum(Wrapper):
    """Uplinks of ``kinds`` go to an aggregator, which sends the server their (weighted) mean. What
    is not covered is listed.
    """

    linear: ClassVar[bool] = True
    sums: ClassVar[bool] = True
    paper: ClassVar[str] = "Bonawitz et al., CCS 2017"
