"""The labels behind an update, from how its output bias moved and what the model predicts."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor, nn

from leakbench.attacking import View
from leakbench.base import Tree
from leakbench.federation import Examples, Net, trainings
from leakbench.record import Message

CHUNK = 256  # images of one forward pass
HEAVY = 100.0  # weight of "the shares sum to 1" beside the equations


def solved(rise: Tensor, predicted: Tensor) -> Tensor:
    """Shares s (K,) float64, 0 or more, of sum 1, whose s - predictedᵀ s is nearest to ``rise``.

    Args:
        rise: (K,), the mean over the steps of minus the gradient of the output bias: the share of
            each class minus its mean predicted probability.
        predicted: (K, K), row y: the mean predicted probabilities of examples of class y.
    """
    k = len(rise)
    left = np.vstack([np.eye(k) - predicted.double().numpy().T, np.full(k, HEAVY)])
    found, _ = nnls(left, np.append(rise.double().numpy(), HEAVY), maxiter=30 * k)
    return torch.from_numpy(found / found.sum())


def predicted(module: nn.Module, weights: Tree, aux: Examples, classes: int) -> Tensor:
    """(K, K) float64, on the CPU: mean class probabilities of auxiliary examples of each class."""
    net = Net(module, weights)
    with torch.no_grad():
        parts = [net(x).double().softmax(1) for x in torch.split(aux.x, CHUNK)]
    p, y = torch.cat(parts).cpu(), aux.y.cpu()
    of_class = [p[y == c] for c in range(classes)]  # where one is empty, that of all
    return torch.stack([some.mean(0) if len(some) else p.mean(0) for some in of_class])


def taken(view: View, m: Message) -> tuple[int, int]:
    """(local steps, examples in a pass) behind ``m``; 0 steps where it cannot be told."""
    method = view.loss_method()
    training = next(t for t in trainings(method, m.round, last=view.last) if t.phase == m.phase)
    if training.steps:
        return training.steps, method.batch
    counts = view.messages("count", sender=m.sender, round=m.round)
    said = [int(c.payload) for c in counts if c.phase == m.phase]
    if not said:
        return 0, 0
    return len(training.sizes(said[-1] * training.epochs, method.batch)), said[-1]


def calibrated(view: View, m: Message, bias: str) -> Tensor | str:
    """The shares (K,) of the classes behind ``m``, or why they cannot be told.

    ``bias``: the name of the output bias. A single step was taken at the weights received, so
    predictions are theirs; of several most are near the weights that they led to. A share of less
    than half an example is none.
    """
    steps, examples = taken(view, m)
    sent = view.messages("model", sender="server", round=m.round)
    models = [e.payload for e in sent if e.phase < m.phase]
    if not steps:
        return "how many local steps it took cannot be told"
    if not models:
        return "the model it received was not kept"
    start: Tree = models[-1]
    weights = {k: v + m.payload[k] if k in m.payload and steps > 1 else v for k, v in start.items()}
    method = view.loss_method()
    rise = m.payload[bias].double().cpu() / (steps * method.lr * method.schedule(m.round))
    said = predicted(view.module, weights, view.know("aux_data"), view.facts.classes)
    # Weights that are not finite, or so large that nothing else is.
    if not bool(rise.isfinite().all() and said.isfinite().all()):
        return "the update is not finite"
    shares = solved(rise, said)
    clear = torch.where(shares < 0.5 / examples, 0.0, shares)
    return clear / clear.sum() if bool(clear.any()) else shares
