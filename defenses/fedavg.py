"""FedAvg (McMahan et al. 2017): local steps on cross-entropy, then the average of the models."""

from __future__ import annotations

from typing import ClassVar

from leakbench import Defense


class FedAvg(Defense):
    """The base behaviour, unchanged; hides nothing."""

    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    texts: ClassVar[bool] = True
