"""Prototypes of classes: each client's mean features of every class that it holds, and no model."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from leakbench import Client, Defense, Sent, Server
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 500  # inputs at a time
FAR = 1e6  # the distance to the prototype of a class that nobody has


class ClassPrototypes(Defense):
    """Clients send, after local training, the mean of their features of each class, and its label.

    Messages are ``features`` (L, d) with ``labels`` (L,) ascending, L being the classes that a
    client holds: a row is one example's features where the client has a single one of the class.
    What it is held against is the mean of the inputs of the class.
    """

    fraction: float = Field(1.0, gt=0, le=1, description="share of the clients in a round, rounded")
    lr: float = Field(0.01, gt=0, description="local learning rate of the model")
    steps: int = Field(0, ge=0, description="local steps; 0: by epochs")
    epochs: int = Field(1, ge=0, description="local epochs when steps is 0")
    batch: int = Field(32, ge=1, description="examples in a local step")
    fusible: ClassVar[bool] = False  # there is no update from which a mean could be made

    @abstractmethod
    def features(self, me: Client, x: Tensor) -> Tensor:
        """What is averaged: (n, d) of x (n, ...)."""

    def uplink(self, me: Client) -> Sent:
        x, y = me.data.x, me.data.y
        f = torch.cat([self.features(me, some) for some in torch.split(x, CHUNK)])
        return {"features": class_means(f, y), "labels": present(y)}

    def inputs(self, me: Client) -> dict[str, Any]:
        return {"features": class_means(me.data.x, me.data.y)}

    def hides(self) -> bool:
        """True: it claims to, as it sends neither a model nor an update."""
        return True


def present(y: Tensor) -> Tensor:
    """The labels that occur in y (n,), ascending."""
    return y.bincount().nonzero().flatten()


def class_means(x: Tensor, y: Tensor) -> Tensor:
    """(L, ...): the means of the rows of x (n, ...) with each label that occurs in y (n,)."""
    return torch.stack([x[y == label].mean(0) for label in present(y)])


def pooled(server: Server) -> dict[str, Tensor]:
    """What all senders sent, {"features": (N, d), "labels": (N,)}, one sender after the other."""
    return {k: torch.cat(list(server.inbox[k])) for k in ("features", "labels")}


def bank(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The mean prototype of each class (classes, d), and for which there is one, (classes,) bool.

    Of ``features`` (N, d) with ``labels`` (N,).
    """
    of = torch.nn.functional.one_hot(labels, classes).to(features.dtype)
    many = of.sum(0)
    return of.T @ features / many.clamp(min=1)[:, None], many > 0


def fits(f: Tensor, prototypes: Tensor, known: Tensor) -> Tensor:
    """(n, classes): minus the distance of features f (n, d) to each of ``prototypes``."""
    apart = (f[:, None] - prototypes).norm(dim=-1)
    return -torch.where(known, apart, torch.full_like(apart, FAR))
