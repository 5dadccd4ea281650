"""True prototypes beside what stood for them outside; and both in the plane.

Out of the transcript and the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import NotMeasured
from leakbench.federation.traffic import party
from leakbench.metrics.prototypes import likeness
from leakbench.record.folders import Run
from leakbench.record.recording import Recording
from leakbench.scoring.truth import Truth


@dataclass(frozen=True)
class PrototypePairs:
    """The clients of whom a message was kept, in order, with both their prototypes."""

    round: int
    clients: Tensor  # (n,) int64
    true: Tensor  # (n, dim) float64, after round ``round``
    proxy: Tensor  # (n, dim) float64, each client's newest message until then

    def cosines(self) -> Tensor:
        """(n,) float64 in [-1, 1]: cosine of each proxy to its own true prototype.

        As metric `prototype_cosine` has it.
        """
        both = zip(self.proxy, self.true, strict=True)
        each = [likeness(p, w[None], "cosine")[0] for p, w in both]
        return torch.stack(each).clamp(-1, 1)


def pairs(run: Run, round: int | None = None) -> PrototypePairs:
    """True prototypes and proxies of a run at ``round`` (the last one unless given).

    Raises:
        NotMeasured: its clients have no true prototype or sent none of kind `prototype` until then.
        BrokenFile: a file is damaged, or the truth of that round was not recorded (it is, in
            audited and surveyed rounds).
    """
    t = int(run.spec["rounds"]) if round is None else round
    sent = newest(run, "prototype", t)
    everyone = Truth(run).round(t).get("everyone", {}) if sent else {}
    if "prototype" not in everyone:
        raise NotMeasured(
            f"{run.id}: there is no true prototype and no message of kind prototype to set"
            " beside it."
        )
    clients = torch.tensor(sorted(sent))
    true = everyone["prototype"][clients].double()
    proxy = torch.stack([sent[c].double() for c in sorted(sent)])
    return PrototypePairs(t, clients, true, proxy)


def newest(run: Run, kind: str, t: int) -> dict[int, Tensor]:
    """{client: its newest message of ``kind`` up to round t}, as an attack gets them.

    Of those whose newest one was kept.
    """
    view = View(ThreatModel(kinds=(kind,), rounds="last", rung="paper"), Recording(run), t)
    return {party(m.sender): m.payload for m in view.messages(kind) if m.sender != "server"}


def tsne_positions(points: Tensor) -> Tensor:
    """(n, 2) float64: t-SNE by cosine of ``points`` (n, dim).

    On one thread: sums in another order would, after a thousand steps, be another picture.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        perplexity = min(30.0, (len(points) - 1) / 3)
        tsne = TSNE(metric="cosine", init="random", random_state=0, perplexity=perplexity)
        at = tsne.fit_transform(points.cpu().numpy())
    return torch.as_tensor(at, dtype=torch.float64)
