"""SCAFFOLD (Karimireddy et al. 2020): control variates correct the drift of the local steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from leakbench import Batch, Client, Defense, Net, Sent, Server, Tree

if TYPE_CHECKING:
    from torch import Tensor


class SCAFFOLD(Defense):
    """A local step is corrected by c - c_i: y <- y - lr (g(y) - c_i + c) (Algorithm 1, line 10).

    Afterwards c_i becomes c_i - c + (x - y) / (K lr) (line 12, option II), the mean of the client's
    K gradients, and is sent with the update; the server's c moves by the mean change of the round's
    clients times their share of all (line 17), and the model by the mean update (global rate 1).

    c_i *is* a gradient: it is sent in clear beside an update that a wrapper may noise or sum, so
    attacks on updates read it in the update's place (``tells``). Of all that made it only the loss
    without the correction is needed, nothing that the client keeps.

    Ours: the client sends c_i next to its change. The change alone is what the paper sends; whoever
    gets all of them adds them up, but a record keeps some rounds only. Steps are SGD's: of Adam's
    x - y is no gradient. Undefended: itself; it claims to hide nothing.
    """

    adds_mean: ClassVar[bool] = True
    fusible: ClassVar[bool] = False  # the trained model gives the variate
    tells: ClassVar[str] = "variate"
    plain_loss: ClassVar[str] = "uncorrected_loss"
    by_example: ClassVar[tuple[str, ...]] = ("loss",)
    paper: ClassVar[str] = "Karimireddy et al., ICML 2020, Algorithm 1, option II"

    steps: int = Field(3, ge=0, description="local steps; 0: by epochs")
    optimizer: Literal["sgd"] = Field("sgd", description="of the local steps")

    def start(self, me: Client) -> None:
        me.state["variate"] = _zeros(me.net, me.inbox["model"])

    def start_server(self, server: Server) -> None:
        server.state["variate"] = _zeros(server.net(), server.model)

    def downlink(self, server: Server) -> Sent:
        return {"model": server.model, "variate": server.state["variate"]}

    def uncorrected_loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        """The loss without the correction."""
        return super().loss(net, batch, me)

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        mine, all_ = me.state["variate"], me.inbox["variate"]
        received = me.inbox["model"]
        drift = [((net.weights[k] - received[k]) * (all_[k] - mine[k])).sum() for k in mine]
        total: Tensor = sum(drift[1:], drift[0])
        return self.uncorrected_loss(net, batch, me) + total

    def uplink(self, me: Client) -> Sent:
        """Its new variate, and by how much that differs from the old one."""
        # Whole numbers times a Python number would be of single precision, whatever the run's is.
        moved = self.local_steps(me.count).double() * (self.lr * self.schedule(me.round))
        old, all_, x = me.state["variate"], me.inbox["variate"], me.inbox["model"]
        slope = {k: (x[k] - me.trained[k]) / moved.to(x[k].dtype) for k in old}
        new = {k: old[k] - all_[k] + slope[k] for k in old}
        me.state["variate"] = new
        return {"variate": {"new": new, "change": {k: new[k] - old[k] for k in new}}}

    def aggregate(self, server: Server) -> None:
        super().aggregate(server)
        share = len(server.senders) / server.facts.clients
        change, old = server.inbox["variate"]["change"], server.state["variate"]
        server.state["variate"] = {k: v + share * change[k].mean(0) for k, v in old.items()}

    def gradient(self, payload: Tree) -> dict[str, Tensor]:
        return dict(payload["new"])

    def bent_gradient(
        self, moved: Mapping[str, Tensor], before: Mapping[str, Tensor] | None, inbox: Tree
    ) -> dict[str, Tensor]:
        """Steps were of g - c_i + c, and c_i is the gradient before; 0 at first."""
        mine = before or {}
        return {k: moved[k] - c + mine.get(k, 0) for k, c in inbox.items()}


def _zeros(net: Net, model: Tree) -> dict[str, Tensor]:
    """A variate of 0 for every tensor of the model that is trained and leaves its client."""
    trained = [k for k, v in net.module.named_parameters() if v.requires_grad]
    return {k: model[k].new_zeros(model[k].shape) for k in trained if k in model}
