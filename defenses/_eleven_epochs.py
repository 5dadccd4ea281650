"""How FedAA trains all methods that it compares: many local epochs of slow SGD."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leakbench import Defense


class ElevenEpochs(Defense):
    """FedAvg with FedAA's values (Section 4.1).

    FedAA trains for 10 epochs and once more for 1, in every round; how long the others train the
    paper does not say. Ours: 11.
    """

    lr: float = Field(0.0025, gt=0, description="local learning rate of the model")
    batch: int = Field(256, ge=1, description="examples in a local step")
    steps: int = Field(0, ge=0, description="local steps; 0: by epochs")
    epochs: int = Field(
        11,
        ge=0,
        description=(
            "local epochs when steps is 0 (FedAA has 10 + 1; the paper is silent on the others)"
        ),
    )
    average: Literal["plain", "weighted"] = Field(
        "weighted", description="weighted by the clients' counts, which are then sent"
    )
