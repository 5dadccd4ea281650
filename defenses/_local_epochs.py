"""How FLea trains all methods that it compares: local epochs of Adam on a tenth of the clients."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leakbench import Defense


class LocalEpochs(Defense):
    """FedAvg with FLea's values (Section 4.1, Appendix C.2).

    Its floor of the rate, 1e-5, is never reached in 100 rounds and left out.
    """

    optimizer: Literal["sgd", "adam", "adam_each_step"] = Field(
        "adam",
        description=(
            "of the local steps, begun anew each round; adam_each_step: at every step, as the"
            " released code does"
        ),
    )
    lr: float = Field(0.001, gt=0, description="local learning rate of the model")
    decay: float = Field(0.98, gt=0, le=1, description="factor on the rate per round")
    batch: int = Field(32, ge=1, description="examples in a local step")
    steps: int = Field(0, ge=0, description="local steps; 0: by epochs")
    epochs: int = Field(
        5,
        ge=0,
        description="local epochs when steps is 0 (Section 4.1; Appendix C.2 says 10 or 15)",
    )
    fraction: float = Field(
        0.1, gt=0, le=1, description="share of the clients in a round, rounded, at least one"
    )
    average: Literal["plain", "weighted"] = Field(
        "weighted", description="weighted by the clients' counts, which are then sent"
    )
