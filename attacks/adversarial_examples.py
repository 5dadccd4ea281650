"""FedAA's adversarial examples as an attack.

The server inverts a client's own model, and the result lies beside the client's images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from attacks import _updates
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import Batch, Net
from leakbench.metrics import EXAMPLES
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor


class AdversarialExamples(Attack):
    """Makes the examples of Eq. 4 again, with noise of its own.

    From the audited clients' models and label names. The server of FedAA makes them anyway; "as for
    an image classification task, ... it is impossible to leak the details of any image through the
    shared label name" (Section 3.3) is what is measured. A client's model is the one that opened
    the round plus its first update. Where clients send images (the control, or ``sends`` =
    "images") the guess is those images as they are.

    Where clients send captions, theirs take the label names' place, and nothing is recognised.

    Examples are matched to the images that the control sends (so many of each label, drawn once) by
    the optimal assignment with the least squared error, whatever their labels; there may be more
    examples than images. The guess is what the method's server would hold, clipped or not; scoring
    clips it to [0, 1]. True are these images alone in psnr, ssim, mse, lpips and identification;
    all that the client holds in `nearest_psnr`. `recognised` asks for the class only.

    Floor: examples made from the model as the client *received* it, for the same labels, as many,
    clipped and matched alike. So the distance to the floor is what the client's training put in. It
    knows the labels, and it is far below a guess that also has public data (the class mean of
    these): a value above the floor is no image yet, look at the pictures. The other way round,
    Eq. 4 seeks any input that the model is sure of, not the likeliest image, with no prior on
    images, and the control, the images as they are, never fails: a value at the floor shows that
    *these examples* give no image away. What else a model of one client gives away it does not
    bound. So it is on the rung ``paper``: its failure alone never makes a verdict of "held".
    """

    about: ClassVar[str] = (
        "the server's inversion of a client's model and label names (FedAA, Eq. 4), beside the"
        " client's images"
    )
    paper: ClassVar[str] = "FedAA, ACM MM 2023, Eq. 4, Section 3.3, Figure 6"
    metrics: ClassVar[tuple[Metric, ...]] = EXAMPLES
    class_mean: ClassVar[bool] = False

    steps: int = Field(
        0,
        ge=0,
        le=100_000,
        description="most iterations of L-BFGS; 0: as many as the method's server takes",
    )

    @property
    def threat(self) -> ThreatModel:
        kinds = ("update", "labels", "model", "data")
        return ThreatModel(kinds=kinds, rounds="audited", knows=("method", "facts"), rung="paper")

    def attacks(self, run: Outline) -> tuple[str, ...]:
        return self.threat.kinds[:2]

    def obstacle(self, run: Outline) -> str:
        if not hasattr(run.method, "made"):
            return "the method makes no examples of its clients' models (it has no `made`)"
        return super().obstacle(run)

    def seconds(self, run: Outline) -> float:
        """From a forward pass that is counted, not timed.

        So many operations a step, forward and twice that backward.
        """
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter, torch.no_grad():
            run.module()(run.blank())
        method: Any = run.method
        sent = next(s for s in run.sent if (s["kind"], s["sender"]) == ("labels", "client"))
        examples = sent["bytes"] / 8 / sent["messages"] * method.examples
        if run.facts.targets == "tokens":  # one caption, whose words are what was counted
            examples = 10.0 * method.examples  # an LSTM's steps are many small operations
        made = 2 * len(run.stages) * run.audited
        steps = self.steps or method.search_steps
        step = 0.002 + 3 * examples * counter.get_total_flops() / 4e10
        return float(1 + made * 1.25 * steps * step)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        return [self._guess(view, m, rng, trained=True) for m in _updates.first(view)]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """Examples of the model that every client received, for the labels that this one named."""
        return [self._guess(view, m, rng, trained=False) for m in _updates.first(view)]

    def _guess(self, view: View, m: Message, rng: torch.Generator, *, trained: bool) -> Guess:
        labels = [e.payload for e in view.messages("labels", sender=m.sender, round=m.round)]
        opened = view.messages("model", sender="server", to=m.sender, round=m.round)
        models = [e.payload for e in opened if e.phase < m.phase]
        images = [e.payload for e in view.messages("data", sender=m.sender, round=m.round)]
        if not labels or not models:
            lost = "model" if labels else "labels"
            return Guess(m.sender, m.round, failed=f"its {lost} of this round was not kept")
        if images and trained:
            return self._about(m, Batch(images[-1], labels[-1]), view)
        weights = dict(models[-1])
        if trained:
            weights |= {k: v + m.payload[k] for k, v in weights.items() if k in m.payload}
        if not all(bool(v.isfinite().all()) for v in weights.values()):
            return Guess(m.sender, m.round, failed="the client's model is not finite")
        names = torch.unique(labels[-1], dim=0)
        return self._about(m, self._made(view, weights, names, rng), view)

    def _made(
        self, view: View, weights: dict[str, Tensor], names: Tensor, rng: torch.Generator
    ) -> Batch:
        method: Any = view.method
        if self.steps:
            method = method.model_copy(update={"search_steps": self.steps})
        size = (len(names) * method.examples, *view.facts.shape)
        noise = torch.randn(size, generator=rng, dtype=torch.float64)
        noise = noise.to(view.device, view.dtype)
        batch: Batch = method.made(Net(view.module, weights), weights, names, noise)
        return batch

    def _about(self, m: Message, batch: Batch, view: View) -> Guess:
        """A guess whose examples are about the images that stand for the labels, in no order."""
        among = torch.tensor(m.round)
        tensors = {"x": batch.x.to(view.dtype), "data.among": among}
        if batch.y.dim() == 1:  # a caption is no class that could be recognised
            tensors["y"] = batch.y
        return Guess(m.sender, m.round, tensors)
