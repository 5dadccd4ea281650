"""FedAvg whose clients take steps of SGD as most people do: with momentum and weight decay."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from leakbench import Defense
from leakbench.federation import StepTerms


class FedAvgMomentum(Defense):
    """FedAvg (McMahan et al. 2017) with local steps of ``torch.optim.SGD``; hides nothing.

    The velocity is begun anew in every round, as where clients make their optimizer anew.
    """

    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    texts: ClassVar[bool] = True
    title: ClassVar[str] = "FedAvg, momentum"
    principal: ClassVar[tuple[str, ...]] = ("momentum",)

    momentum: float = Field(0.9, ge=0, lt=1, description="of the local steps")
    weight_decay: float = Field(0.0, ge=0, lt=1, description="of the local steps, times weights")
    nesterov: bool = Field(False, description="Nesterov's momentum")

    def step_terms(self) -> StepTerms:
        """What a step makes of the gradient."""
        return StepTerms(self.momentum, self.weight_decay, self.nesterov)
