"""Distance correlation (Székely et al. 2007) of shared features and the inputs behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from leakbench.attacking import Attack, Guess, Metric, ThreatModel, View
from leakbench.base import torch
from leakbench.metrics import DCOR, DCOR2_CORRECTED, FLEA_CORRELATION

if TYPE_CHECKING:
    from torch import Tensor


class DistanceCorrelation(Attack):
    """Takes each client's newest features as they are.

    Nothing is solved: it measures dependence, not what can be rebuilt. A small sample of many
    dimensions correlates by chance, so every value stands beside the mean of 200 permuted pairings,
    and the bias-corrected one beside a permutation p-value.
    """

    about: ClassVar[str] = "how closely shared features follow the inputs"
    paper: ClassVar[str] = "Székely et al. 2007, 2013; FLea, KDD 2024, Eq. 8"
    metrics: ClassVar[tuple[Metric, ...]] = (DCOR, DCOR2_CORRECTED, FLEA_CORRELATION)
    curve: ClassVar[bool] = True
    handed: ClassVar[Literal["", "rows", "banks"]] = "rows"

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(kinds=("features",), rounds="last", rung="transcript")

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        newest = {m.sender: m for m in view.of_others(view.messages("features"))}
        out = []
        for sender, m in newest.items():
            if len(m.payload) < 4:
                out.append(Guess(sender, view.round, failed="fewer than 4 rows"))
            else:
                out.append(Guess(sender, view.round, {"features": m.payload}))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """Random features of the same shape.

        The floor that is printed pairs the real ones at random instead.
        """

        def noise(t: Tensor) -> Tensor:
            return torch.randn(t.shape, generator=rng, dtype=torch.float64).to(t)

        out = []
        for g in self.run(view, rng):
            tensors = {k: noise(t) for k, t in g.tensors.items()}
            out.append(Guess(g.unit, g.round, tensors))
        return out
