"""FedAvg whose clients train as people's loops do: clipped steps, rates of a schedule, AdamW."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from leakbench import Defense
from leakbench.federation import StepTerms


class FedAvgOptim(Defense):
    """FedAvg (McMahan et al. 2017) with local steps of ``torch.optim``'s SGD, Adam or AdamW.

    A gradient may be cut before each step (``torch.nn.utils``), and rates may change by round and
    by step. Velocity and moments are begun anew in every round, as where clients make their
    optimizer anew. Hides nothing: a cut within the training is part of it, and attacks replay it.
    """

    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    texts: ClassVar[bool] = True
    title: ClassVar[str] = "FedAvg, torch.optim"
    principal: ClassVar[tuple[str, ...]] = ("optimizer",)

    momentum: float = Field(0.0, ge=0, lt=1, description="of SGD")
    nesterov: bool = Field(False, description="Nesterov's momentum")
    weight_decay: float = Field(0.0, ge=0, lt=1, description="of the local steps, times weights")
    decoupled: bool = Field(
        False, description="weight decay beside the step of Adam (AdamW), not within the gradient"
    )
    clip_norm: float = Field(
        0.0,
        ge=0,
        description="a step's gradient is cut to this norm, over all tensors; 0: it is not",
    )
    clip_value: float = Field(
        0.0, ge=0, description="each number of a step's gradient is cut to this; 0: none is"
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="of Adam's mean")
    beta2: float = Field(0.999, ge=0, lt=1, description="of Adam's mean square")
    epsilon: float = Field(1e-8, gt=0, description="of Adam")
    rates: tuple[tuple[float, ...], ...] = Field(
        (),
        description=(
            "local learning rates of round 1, 2, ..., each one for all steps or one for each; the"
            " last ones stay; empty: lr"
        ),
    )

    @field_validator("rates")
    @classmethod
    def _some_go(cls, given: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        for t, each in enumerate(given, 1):
            if not each or min(each) < 0 or max(each) == 0:
                raise ValueError(f"of round {t} expected rates of 0 or more, one of them above 0")
        return given

    @model_validator(mode="after")
    def _as_torch_has_it(self) -> Self:
        if self.optimizer != "sgd" and (self.momentum or self.nesterov):
            raise ValueError("momentum and nesterov go with optimizer = sgd: leave them out")
        if self.optimizer == "sgd" and self.decoupled:
            raise ValueError("decoupled weight decay goes with optimizer = adam: leave it out")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        if self.clip_norm and self.clip_value:
            raise ValueError("clip_norm and clip_value are both given: expected one of them")
        return self

    def schedule(self, round: int) -> float:
        """The largest rate of the round, over ``lr``."""
        return super().schedule(round) * (max(self._rates(round)) / self.lr if self.rates else 1.0)

    def step_schedule(self, round: int) -> tuple[float, ...]:
        """The rates of the round's steps, over the largest of them."""
        each = self._rates(round) if self.rates else ()
        return tuple(rate / max(each) for rate in each)

    def _rates(self, round: int) -> tuple[float, ...]:
        return self.rates[min(max(round, 1), len(self.rates)) - 1]

    def step_terms(self) -> StepTerms:
        """What a step makes of the gradient."""
        return StepTerms(
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
            decoupled=self.decoupled,
            clip_norm=self.clip_norm,
            clip_value=self.clip_value,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
        )
