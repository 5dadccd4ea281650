"""Two-class classifiers trained on an attacker's own pairs: an input, and the same one marked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


Network = Literal["linear", "relu"]
HIDDEN = {"linear": (16, 16, 16), "relu": (64, 32)}
KEPT = 1024  # numbers of an example that the ReLU network reads: those that the marker moves most
# Steps, steps between looks at the samples kept back, looks without improvement.
STEPS, LOOK, PATIENCE = (300, 10, 10)
ENOUGH = 0.01  # loss on the samples kept back
BATCH, RATE, DECAY = 64, 0.002, 0.01
RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1)  # of the matched filter, in total variances
MARGIN = 3.0  # logit of one standard deviation of the filter's output


@dataclass(frozen=True)
class Classifier:
    """Tells marked inputs from clear ones."""

    score: Callable[[Tensor], Tensor]  # (n, d) -> (n,), above 0 for marked
    right: float  # share of its own samples kept back from training that it gets right


def fit(
    clear: Tensor, marked: Tensor, network: Network, rng: torch.Generator, *, shuffled: bool = False
) -> Classifier:
    """Train on pairs; a fifth of them (one at least) is kept back to stop and to choose by.

    "linear": four linear layers on all numbers, as FLea's attacker (Appendix D; its widths are not
    given). "relu": the best on the pairs kept back, of equal ones the first, of a matched filter
    (the ridge-whitened mean difference of the pairs), which needs few samples, of a network with
    ReLU on the numbers that the marker moves most, and of the four linear layers.

    Args:
        clear: (m, d) float32, m at least 2.
        marked: (m, d), row by row the same examples with the marker.
        network: which of the two.
        rng: on the CPU.
        shuffled: deal clear and marked examples out to the two labels at random: nothing is left to
            learn but chance.
    """
    if shuffled:
        mixed = torch.randperm(2 * len(clear), generator=rng).to(clear.device)
        clear, marked = torch.cat([clear, marked])[mixed].chunk(2)
    order = torch.randperm(len(clear), generator=rng).to(clear.device)
    count = max(1, len(order) // 5)
    back, rest = order[:count], order[count:]
    std, mean = torch.std_mean(torch.cat([clear[rest], marked[rest]]), 0, correction=0)
    # A number that hardly varies in few samples is not blown up.
    std = std + 0.1 * std.square().mean().sqrt() + 1e-12
    parts = (clear[rest], marked[rest], clear[back], marked[back])
    pairs = SamplePairs(*((x - mean) / std for x in parts))

    def classifier(score: Callable[[Tensor], Tensor]) -> Classifier:
        x, y = pairs.back()
        right = float(((score(x) > 0) == (y > 0)).double().mean())
        return Classifier(lambda v: score((v - mean) / std), right)

    if network == "linear":
        return classifier(_layers(pairs, network, rng))
    simple = classifier(_filter(pairs))
    if simple.right == 1:  # nothing is better
        return simple
    relu, linear = (classifier(_layers(pairs, n, rng)) for n in ("relu", "linear"))
    return max(simple, relu, linear, key=lambda c: c.right)


@dataclass(frozen=True)
class SamplePairs:
    """The attacker's samples, (k, d) each: for training, and kept back."""

    clear: Tensor
    marked: Tensor
    clear_back: Tensor
    marked_back: Tensor

    def training(self) -> tuple[Tensor, Tensor]:
        """(2k, d) and labels (2k,)."""
        return _labelled(self.clear, self.marked)

    def back(self) -> tuple[Tensor, Tensor]:
        """The same of those kept back."""
        return _labelled(self.clear_back, self.marked_back)


def _labelled(clear: Tensor, marked: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.cat([torch.zeros(len(clear)), torch.ones(len(marked))])
    return torch.cat([clear, marked]), y.to(clear)


def _layers(
    pairs: SamplePairs, network: Network, rng: torch.Generator
) -> Callable[[Tensor], Tensor]:
    """AdamW; the weights of the lowest loss on the pairs kept back."""
    (x, y), (x_back, y_back) = pairs.training(), pairs.back()
    columns = _moved(pairs) if network == "relu" else slice(None)
    x, x_back = x[:, columns], x_back[:, columns]
    net = _network([x.shape[1], *HIDDEN[network], 1], network == "relu", rng).to(x.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    best, kept, since = float("inf"), [p.detach().clone() for p in net.parameters()], 0
    for step in range(1, STEPS + 1):
        some: Tensor | slice = slice(None)
        if len(y) > BATCH:
            some = torch.randint(len(y), (BATCH,), generator=rng).to(x.device)
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(x[some])[:, 0], y[some])
        torch.autograd.backward(loss)
        optimizer.step()
        if step % LOOK:
            continue
        with torch.no_grad():
            now = float(
                torch.nn.functional.binary_cross_entropy_with_logits(net(x_back)[:, 0], y_back)
            )
        since += 1
        if now < best:
            best, kept, since = now, [p.detach().clone() for p in net.parameters()], 0
        if since == PATIENCE or best < ENOUGH:
            break
    with torch.no_grad():
        for p, value in zip(net.parameters(), kept, strict=True):
            p.copy_(value)
    net.requires_grad_(requires_grad=False)
    return lambda v: net(v[:, columns])[:, 0]


def _moved(pairs: SamplePairs) -> Tensor:
    """The up to 1024 numbers that the marker moves most, in standard deviations."""
    size = (pairs.marked - pairs.clear).square().mean(0)
    return size.topk(min(KEPT, len(size))).indices.sort().values


def _network(sizes: list[int], relu: bool, rng: torch.Generator) -> torch.nn.Sequential:
    """Layers whose numbers come from ``rng`` alone, each keeping the size of what goes through."""
    layers: list[torch.nn.Module] = []
    for i, (inside, out) in enumerate(pairwise(sizes)):
        # Torch's own start would throw the global dice.
        layer = torch.nn.Linear(inside, out, device="meta").to_empty(device="cpu")
        bound = ((6 if relu else 3) / inside) ** 0.5
        with torch.no_grad():
            layer.weight.copy_((2 * torch.rand(out, inside, generator=rng) - 1) * bound)
            layer.bias.zero_()
        layers += [layer, torch.nn.ReLU()] if relu and i < len(sizes) - 2 else [layer]
    return torch.nn.Sequential(*layers)


def _filter(pairs: SamplePairs) -> Callable[[Tensor], Tensor]:
    """The matched filter: the direction (S + ridge v)^-1 mean(marked - clear), threshold midway.

    S is the covariance of the pairs' middles, v its trace. Solved among the pairs, of which there
    are mostly fewer than numbers. The ridge is the one of the lowest loss on the pairs kept back.
    """
    (x, _), (x_back, y_back) = pairs.training(), pairs.back()
    shift, middle = (pairs.marked - pairs.clear).mean(0), (pairs.marked + pairs.clear) / 2
    centred = (middle - middle.mean(0)) / len(middle) ** 0.5
    gram, across = (centred @ centred.T).double(), (centred @ shift).double()
    variance = max(float(gram.trace()), 1e-12)
    eye = torch.eye(len(gram)).to(gram)
    found = []
    for ridge in RIDGES:
        root = torch.linalg.cholesky(gram + ridge * variance * eye)
        w = shift - centred.T @ torch.cholesky_solve(across[:, None], root)[:, 0].to(shift)
        out = x @ w
        steep = MARGIN / (out.std(correction=0) + 1e-12)
        w, zero = w * steep, out.mean() * steep
        loss = float(
            torch.nn.functional.binary_cross_entropy_with_logits(x_back @ w - zero, y_back)
        )
        found.append((loss, w, zero))
    _, best, zero = min(found, key=lambda f: f[0])
    return lambda v: v @ best - zero
