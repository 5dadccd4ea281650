"""The labels behind an update, from how its output bias moved and from what the model predicts
anyway.
"""

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
    """Shares s (K,) float64, 0 or more and of sum 1, for which s.

    predictedᵀ s is nearest to ``rise``.

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
    """(K, K) float64, on the CPU: mean class probabilities of auxiliary examples of each class.

    Of a class without any, of all.
    """
    net = Net(module, weights)
    with torch.no_grad():
        parts = [net(x).double().softmax(1) for x in torch.split(aux.x, CHUNK)]
    p, y = torch.cat(parts).cpu(), aux.y.cpu()
    return torch.stack(
        [p[y == c].mean(0) if bool((y == c).any()) else p.mean(0) for c in range(classes)]
    )


def taken(view: View, m: Message) -> tuple[int, int]:
    """(local steps, examples in a pass) behind the update ``m``.

    0 steps where that cannot be told: by epochs it takes a count.
    """
    method = view.loss_method()
    training = next(t for t in trainings(method, m.round) if t.phase == m.phase)
    if training.steps:
        return training.steps, method.batch
    said = [
        int(c.payload)
        for c in view.messages("count", sender=m.sender, round=m.round)
        if c.phase == m.phase
    ]
    return (
        (len(training.sizes(said[-1] * training.epochs, method.batch)), said[-1])
        if said
        else (0, 0)
    )


def calibrated(view: View, m: Message, bias: str) -> Tensor | str:
    """The shares (K,) of the classes behind ``m``, or why they cannot be told.

    ``bias``: the name of the output bias. A single step was taken at the weights received, so
    predictions are theirs; of several most are near the weights that they led to. A share of less
    than half an example is none.
    """
    steps, examples = taken(view, m)
    models = [
        e.payload
        for e in view.messages("model", sender="server", round=m.round)
        if e.phase < m.phase
    ]
    if not steps or not models:
        return (
            "the model it received was not kept"
            if steps
            else "how many local steps it took cannot be told"
        )
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
