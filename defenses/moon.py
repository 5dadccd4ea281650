"""MOON (Li et al. 2021): representations are drawn to the global model's, off the client's last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from defenses._eleven_epochs import ElevenEpochs
from leakbench import Batch, Client, Facts, Net, Sent, UsageError
from leakbench.base import torch
from leakbench.federation import fits
from leakbench.models import Stages

if TYPE_CHECKING:
    from torch import Tensor, nn


class MOON(ElevenEpochs):
    """Cross-entropy + mu * contrast (Li et al., Eq. 3 and 4), for each example.

    With g = exp(cos(z, z_global) / tau) and p = exp(cos(z, z_previous) / tau) the contrast is
    -log(g / (g + p)): representations z of the model that is trained, z_global of the one received,
    z_previous of the client's own at the end of its last round, which it keeps. Before that the
    last two are the same and the term is constant. Undefended: itself; it claims to hide nothing.

    A representation is the output of F, all stages but the last. MOON puts a projection head
    between F and T, two linear layers of which the second has 256 outputs; FedAA, which compares
    with it, names none, so ``projection`` is 0 unless asked for.
    """

    fusible: ClassVar[bool] = False  # the trained model is kept for the next round
    texts: ClassVar[bool] = True
    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    paper: ClassVar[str] = "Li et al., CVPR 2021, Eq. 3 and 4, Algorithm 1"
    principal: ClassVar[tuple[str, ...]] = ("mu",)

    mu: float = Field(5.0, ge=0, description="weight of the contrast")
    temperature: float = Field(0.5, gt=0, description="tau: of the contrast")
    projection: int = Field(
        0,
        ge=0,
        le=4096,
        description="outputs of a projection head before the last layer (MOON's own: 256); 0: none",
    )

    def module(self, module: nn.Module, facts: Facts) -> nn.Module:
        """The task's architecture, with MOON's projection head if there is to be one.

        Raises:
            UsageError: it is not made of stages, or does not end in a linear layer.
        """
        if not self.projection:
            return module
        if not isinstance(module, Stages) or not module.in_a_row:
            raise UsageError("moon: a projection needs a network made of stages; use projection=0.")
        stage = module.names[-1]
        *front, last = _layers(module.get_submodule(stage))
        if not isinstance(last, torch.nn.Linear):
            raise UsageError(
                "moon: a projection stands before a linear head, which this network lacks; use"
                " projection=0."
            )
        wide = last.in_features
        projection = (
            torch.nn.Linear(wide, wide),
            torch.nn.ReLU(),
            torch.nn.Linear(wide, self.projection),
        )
        module.set_submodule(stage, torch.nn.Sequential(*front, *projection))
        module.add_module("logits", torch.nn.Linear(self.projection, last.out_features))
        return module

    def start(self, me: Client) -> None:
        me.state["previous"] = dict(me.inbox["model"])

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        place = net.extractor
        f = net(batch.x, stop=place)
        z = f.flatten(1)
        near = torch.cosine_similarity(z, net.features(batch.x, weights=me.inbox["model"]))
        far = torch.cosine_similarity(z, net.features(batch.x, weights=me.state["previous"]))
        contrast = torch.nn.functional.softplus((far - near) / self.temperature)
        fit = fits(net, replace(batch, x=f), me.facts, start=place)
        return batch.mean(fit + self.mu * contrast)

    def uplink(self, me: Client) -> Sent:
        """Nothing is sent; the trained model is kept."""
        me.state["previous"] = {k: me.trained[k] for k in me.state["previous"]}
        return None


def _layers(stage: nn.Module) -> list[nn.Module]:
    return list(stage.children()) or [stage]
