"""Which of many photographs is the one that a client's shared caption is about?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import Net, fits_target
from leakbench.metrics import IMAGE_FOUND

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.record import Message

CHUNK = 64  # images of one forward pass


class CaptionReidentification(Attack):
    """Holds a gallery of photographs, one of which the caption is about, and ranks them.

    By how well a captioner says the shared caption of each: log p(caption | image), mean over its
    words. The captioner is the client's own model after the training in which it chose the caption
    (the model it received and its update: ``model`` = "client"; only clients whose whole update was
    kept), or the model that everybody received (``model`` = "global"). No other scorer is used; one
    trained on far more captions would do better, so a failure here acquits little.

    The gallery are all training images, nameless, in an order that says nothing; scored is whether
    the image ranks first among up to 100, those of its topic before others. Having the victim's
    very photograph among the candidates is a strong assumption: it asks whether a caption ties a
    client to a picture that is known (posted, seized, scraped), not whether it shows it.

    Floor: 1 / look-alikes. Control: clients send the image with the caption, which is then found by
    its distance.
    """

    about: ClassVar[str] = "which photograph of a gallery is a shared caption about?"
    paper: ClassVar[str] = "adaptive; FedAA (Section 3.2) calls captions non-sensitive"
    metrics: ClassVar[tuple[Metric, ...]] = (IMAGE_FOUND,)
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"model": "client"}, {"model": "global"})

    model: Literal["client", "global"] = Field(
        "client", description="whose captioner scores: the client's own, or what all received"
    )

    @property
    def threat(self) -> ThreatModel:
        kinds = ("labels", "model", "data", *(("update",) if self.model == "client" else ()))
        return ThreatModel(
            kinds=kinds, rounds="audited", knows=("method", "facts", "gallery"), rung="method"
        )

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why:
            return why
        if run.facts.targets != "tokens":
            return "what clients send are labels of classes and no captions"
        if not run.holds("gallery"):
            return "the photographs among which it would look are not told of in an export"
        return ""

    def seconds(self, run: Outline) -> float:
        return 5.0 + 3.0 * len(run.stages) * run.audited

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        return [self._guess(view, m) for m in _captions(view)]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """Every photograph is as likely as every other."""
        size = len(view.know("gallery"))
        return [
            Guess(m.sender, m.round, {"likeness": torch.zeros(size, dtype=torch.float64)})
            for m in _captions(view)
        ]

    def _guess(self, view: View, m: Message) -> Guess:
        gallery = view.know("gallery")
        images = [e.payload for e in view.messages("data", sender=m.sender, round=m.round)]
        places = torch.arange(len(gallery), device=gallery.y.device)
        parts = places.split(CHUNK)  # type: ignore[no-untyped-call]
        if images:
            shown = images[-1][:1]
            far = [(gallery.images(rows) - shown).flatten(1).norm(dim=1) for rows in parts]
            return Guess(m.sender, m.round, {"likeness": -torch.cat(far).double()})
        weights = self._weights(view, m)
        if isinstance(weights, str):
            return Guess(m.sender, m.round, failed=weights)
        net, losses = Net(view.module, {}), []
        with torch.no_grad():
            for rows in parts:
                said = m.payload[:1].expand(len(rows), -1)
                losses.append(fits_target(net, gallery.images(rows), said, weights=weights))
        likeness = -torch.cat(losses).double()
        if not bool(likeness.isfinite().all()):
            return Guess(m.sender, m.round, failed="the captioner is not finite")
        return Guess(m.sender, m.round, {"likeness": likeness})

    def _weights(self, view: View, m: Message) -> dict[str, Tensor] | str:
        """The captioner's tensors, or why there is none."""
        sent = view.messages("model", sender="server", to=m.sender, round=m.round)
        opened = [e.payload for e in sent if e.phase < m.phase]
        if not opened:
            return "the model of this round was not kept"
        weights: dict[str, Tensor] = dict(opened[-1])
        if self.model == "global":
            return weights
        updates = view.messages("update", sender=m.sender, round=m.round)
        behind = [e.payload for e in updates if e.phase < m.phase]
        if not behind:
            return "the client's update of this round was not kept"
        return weights | {k: v + behind[-1][k] for k, v in weights.items() if k in behind[-1]}


def _captions(view: View) -> list[Message]:
    """The captions of this round, one message a client."""
    sent = [m for m in view.messages("labels", round=view.round) if m.sender != "server"]
    return list({m.sender: m for m in sent}.values())
