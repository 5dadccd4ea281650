"""FedAA's client identifiers I_k: networks that tell a client's adversarial examples from others'.

They see features. Parameters are {"w1": (d, h), "b1": (1, h), "w2": (h, h), "b2": (1, h), "w3":
(h, 1), "b3": (1, 1)}; several identifiers are stacked in front, and then work, and are trained, at
once: their losses do not touch each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from leakbench.base import Rng, torch

if TYPE_CHECKING:
    from torch import Tensor

Identifier: TypeAlias = "dict[str, Tensor]"
BETAS = (0.5, 0.9)  # of Adam, Section 4.1


def start(rng: Rng, name: str, inputs: int, hidden: int) -> Identifier:
    """Three fully connected layers with PyTorch's usual start, drawn under ``name``."""
    out: Identifier = {}
    for i, (a, b) in enumerate(((inputs, hidden), (hidden, hidden), (hidden, 1)), 1):
        for letter, rows in (("w", a), ("b", 1)):
            out[f"{letter}{i}"] = (2 * rng.uniform(f"{name}/{letter}{i}", rows, b) - 1) * a**-0.5
    return out


def logit(identifier: Identifier, features: Tensor) -> Tensor:
    """(..., n) of features (n, d): I = sigmoid of it."""
    h = features  # ReLU between the layers: the paper names no activation
    for i in (1, 2):
        h = torch.relu(h @ identifier[f"w{i}"] + identifier[f"b{i}"])
    return (h @ identifier["w3"] + identifier["b3"])[..., 0]


def loss(logits: Tensor, own: Tensor) -> Tensor:
    """Eq. 6 of each identifier, (M,): minus mean log I over its own, mean log(1 - I) over others'.

    Args:
        logits: (M, n).
        own: (M, n) bool, both kinds in every row.
    """
    mine, theirs = torch.nn.functional.softplus(-logits), torch.nn.functional.softplus(logits)
    return (mine * own).sum(1) / own.sum(1) + (theirs * ~own).sum(1) / (~own).sum(1)


def train(
    identifiers: Identifier,
    features: Sequence[Tensor],
    rng: Rng,
    *,
    epochs: int,
    batch: int,
    lr: float,
) -> Identifier:
    """Algorithm 2 for all clients at once, by Adam with betas 0.5 and 0.9.

    Args:
        identifiers: M of them, stacked, as they start.
        features: of each client's examples, (n_k, d); identifier k is to answer 1 on features[k]
            and 0 on all others.
        rng: of the server.
        epochs: passes over all examples.
        batch: at most about so many examples in a step.
        lr: of Adam.
    """
    leaves = {k: v.detach().clone().requires_grad_() for k, v in identifiers.items()}
    optimizer = torch.optim.Adam(list(leaves.values()), lr=lr, betas=BETAS, fused=True)
    f, owner = torch.cat(list(features)), _owners(features)
    own = owner == torch.arange(len(features), device=owner.device)[:, None]

    for epoch in range(epochs):
        for rows in _batches([len(part) for part in features], rng, epoch, batch, owner.device):
            value = loss(logit(leaves, f[rows]), own[:, rows]).sum()
            grads = torch.autograd.grad(value, list(leaves.values()))
            for leaf, grad in zip(leaves.values(), grads, strict=True):
                leaf.grad = grad
            optimizer.step()
    return {k: v.detach() for k, v in leaves.items()}


def _owners(features: Sequence[Tensor]) -> Tensor:
    owner = [torch.full((len(part),), k, device=part.device) for k, part in enumerate(features)]
    return torch.cat(owner)


def _batches(
    sizes: Sequence[int], rng: Rng, epoch: int, batch: int, device: torch.device
) -> Iterator[Tensor]:
    """Rows of each step, every client's dealt evenly: without its own there is no Eq. 6."""
    steps = max(1, min(-(-sum(sizes) // batch), *sizes))
    orders, begin = [], 0
    for k, n in enumerate(sizes):
        order = begin + rng.permutation(f"identifier/{k}/order/{epoch}", n)
        orders.append(order.tensor_split(steps))
        begin += n
    for parts in zip(*orders, strict=True):
        yield torch.cat(parts).to(device)
