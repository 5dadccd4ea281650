"""FedMetric (Park, Hosseini and Yun 2021): a client shows a larger sphere around its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from leakbench import Batch, Client, Defense, Net, Sent, Server, Tree, others, unit
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 500  # images at a time


class FedMetric(Defense):
    """A client's embeddings lie in a sphere of centre C, radius R.

    It shows A = C + X and M = R + D. X is uniform on the sphere of radius D = ``scale`` R: above 1
    the shown centre is outside of the true sphere, 0 shows the true one. A round (Algorithm 1):
    model and all (A, M) down; C, the mean embedding of the client's data under the model received;
    a step on l_pos + lam l_neg (Eq. 4 to 6), which pulls to C and pushes out of the others' shown
    spheres; R, the largest distance to C under the model as trained; update, a fresh A and M up.
    Undefended: variant "true"; "pos" hides by not sending.

    M = (1 + scale) R and ``scale`` is public, so C is known to lie on a sphere around A; and A is
    drawn afresh in each round, so its mean over rounds tends to C (`prototype_spheres`).

    Left open by the paper, decided here: d is the Euclidean distance, not squared; means over the
    batch, sums over the other clients; embeddings of any norm; before a client's first upload its M
    is 0, so it pushes nobody. The centre that is scored and used at test is the one of the client's
    last round, made under the weights it received then: one round behind the model. "batch" takes
    the mean of each batch, as a constant, for C in the loss; what is shown and scored stays the
    round's.
    """

    adds_mean: ClassVar[bool] = True
    fusible: ClassVar[bool] = False  # R is measured under the client's own trained model
    outputs: ClassVar[Literal["logits", "embedding"]] = "embedding"
    distance: ClassVar[Literal["", "cosine", "euclidean"]] = "euclidean"
    paper: ClassVar[str] = "Park, Hosseini and Yun, FL-ICML 2021, Eq. 4 to 6, Algorithm 1"

    variant: Literal["pos", "proxy", "true"] = Field(
        "proxy",
        description=(
            "positive loss only; negative loss with the shown spheres; or with the true ones, which"
            " are then sent"
        ),
    )
    scale: float = Field(
        1.5,
        ge=0,
        description="s: the shown centre lies s R away from the true one; private above 1",
    )
    lam: float = Field(0.1, ge=0, description="weight of the negative loss")
    squared: bool = Field(True, description="square the hinge (Eq. 6); false: as in Algorithm 1")
    centre: Literal["round", "batch"] = Field(
        "round",
        description="C in the loss: of all data once a round (Algorithm 1), or of each batch",
    )
    normalised: bool = Field(False, description="divide embeddings by their norm")
    sums: bool = Field(
        False, description="sum over the batch, as Eq. 5 and 6 are printed; false: mean"
    )
    sample: int = Field(
        0,
        ge=0,
        description=(
            "examples, drawn afresh each round, that C and R are made of (ours; fewer: a smaller"
            " R); 0: all"
        ),
    )

    def start(self, me: Client) -> None:
        me.state["prototype"] = self._embedded(me).mean(0)
        if self.variant != "pos":
            me.state["radius"] = torch.zeros_like(me.state["prototype"][0])

    def start_server(self, server: Server) -> None:
        n, dim = server.facts.clients, server.facts.dim
        if self.variant != "pos":
            empty = torch.zeros(n, dim, dtype=server.rng.dtype, device=server.receivers.device)
            server.state.update(anchors=empty, margins=empty[:, 0].clone())

    def downlink(self, server: Server) -> Sent:
        if self.variant == "pos":
            return {"model": server.model}
        shown = {"prototype": server.state["anchors"], "statistics": server.state["margins"]}
        return {"model": server.model, **shown}

    def prepare(self, me: Client) -> None:
        me.state["prototype"] = self._embedded(me).mean(0)

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        g = self._normed(net(batch.x))
        centre = me.state["prototype"] if self.centre == "round" else g.detach().mean(0)
        each = euclidean(g, centre, net.low)  # Eq. 5
        if self.variant != "pos":
            away = euclidean(g[:, None], me.inbox["prototype"], net.low)  # (B, C)
            inside = (me.inbox["statistics"] - away).clamp(min=0) * others(me)
            negative = (inside.square() if self.squared else inside).sum(1)  # Eq. 6
            each = each + self.lam * negative  # Eq. 4
        return each.sum() if self.sums else each.mean()

    def uplink(self, me: Client) -> Sent:
        if self.variant == "pos":
            return None
        centre = me.state["prototype"]
        radius = me.state["radius"] = euclidean(self._embedded(me, me.trained), centre).max()
        far = radius * (self.scale if self.variant == "proxy" else 0.0)
        shown = centre + far * unit(me.rng.normal("direction", me.facts.dim))
        return {"prototype": shown, "statistics": radius + far}

    def aggregate(self, server: Server) -> None:
        super().aggregate(server)
        if self.variant != "pos":
            state, came = server.state, server.inbox
            for name, kind in (("anchors", "prototype"), ("margins", "statistics")):
                state[name] = state[name].index_copy(0, server.senders, came[kind])

    def predict(self, net: Net, x: Tensor, me: Client) -> Tensor:
        return -euclidean(self._normed(net(x)), me.state["prototype"])

    def embed(self, net: Net, x: Tensor, me: Client) -> Tensor:
        return self._normed(net(x))

    def secrets(self, me: Client) -> dict[str, Tree]:
        names = ("prototype",) if self.variant == "pos" else ("prototype", "radius")
        return {name: me.state[name] for name in names}

    def distance_shown(self, margin: Tensor) -> Tensor:
        """How far the true centre lies from the shown one: D, of what is sent, M = (1 + s) R."""
        far = self.scale if self.variant == "proxy" else 0.0
        return margin * (far / (1 + far))

    def undefended(self) -> Self:
        return self.model_copy(update={"variant": "true"}) if self.variant == "proxy" else self

    def hides(self) -> bool:
        return self.variant == "pos" or (self.variant == "proxy" and self.scale > 0)

    def _normed(self, g: Tensor) -> Tensor:
        return unit(g) if self.normalised else g

    def _embedded(self, me: Client, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """(n, dim): the embeddings of the client's data, or of this round's ``sample`` of them."""
        x = me.data.x
        if 0 < self.sample < len(x):
            # The same name, so the same rows for C and R.
            x = x[me.rng.permutation("sample", len(x))[: self.sample]]
        parts = [me.net(some, weights=weights) for some in torch.split(x, CHUNK)]
        return self._normed(torch.cat(parts))


def euclidean(a: Tensor, b: Tensor, products: torch.dtype | None = None) -> Tensor:
    """Euclidean distance along the last axis; where points coincide all its gradients are 0.

    They coincide up to rounding, else who has one example, and so its embedding for a centre, would
    go a whole step in the direction that some processor's rounding has. ``products``: in which one
    of the two was computed, where that is less precise.
    """
    square = (a - b).square().sum(-1)
    size = (a.detach().square() + b.detach().square()).sum(-1)
    rounding = 16 * torch.finfo(square.dtype).eps
    if products is not None:
        rounding = 2 * torch.finfo(products).eps  # three times what networks were seen to make
    same = square <= size * rounding**2
    return torch.where(same, 0.0, torch.where(same, 1.0, square).sqrt())
