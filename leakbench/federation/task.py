"""A task: data split over clients, a model, a utility metric, and the parameter values that fit
each method here.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench.base.errors import UsageError, suggestion
from leakbench.base.spec import Spec
from leakbench.base.streams import Rng
from leakbench.federation.defense import Defense
from leakbench.federation.parties import Facts
from leakbench.models.networks import MODELS, Stages


@dataclass(frozen=True)
class Examples:
    """Inputs with their classes. ``stored`` (n, ...): uint8 (0 to 255 stands for 0 to 1, and stays
    uint8 on the device) or floats in [0, 1] (sensors: standardised); ``y`` (n,) int64; ``dtype``:
    of the floats that are made of ``stored``.
    """

    stored: Tensor
    y: Tensor
    dtype: torch.dtype = torch.float64

    def __len__(self) -> int:
        return len(self.y)

    @property
    def x(self) -> Tensor:
        """All inputs (n, ...) as floats; for large sets take ``images`` of some rows."""
        return self._floats(self.stored)

    def images(self, rows: Tensor) -> Tensor:
        """The inputs in ``rows`` (any shape) as floats, (*rows.shape, ...)."""
        return self._floats(self.stored[rows])

    def _floats(self, stored: Tensor) -> Tensor:
        return stored.to(self.dtype) / 255 if stored.dtype == torch.uint8 else stored.to(self.dtype)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Examples:
        """The same on another device and in another precision."""
        stored = self.stored.to(device)
        return Examples(
            stored if stored.dtype == torch.uint8 else stored.to(dtype), self.y.to(device), dtype
        )


@dataclass(frozen=True)
class TaskData:
    """What a task loads. ``rows`` (C, n_max) int64: each client's rows of ``train``, padded with
    its first; ``counts`` (C,).

    ``aux``: what an attacker may be granted; it depends on the task alone and is disjoint from
    train and test. ``client_class`` (C,): the class that a client stands for, where a client is a
    class; else -1. ``context`` (C,) bool: True for a client whose inputs all carry the planted
    marker; None where the task plants none.
    """

    train: Examples
    test: Examples
    aux: Examples
    rows: Tensor
    counts: Tensor
    client_class: Tensor
    context: Tensor | None = None

    def to(self, device: torch.device | str, dtype: torch.dtype) -> TaskData:
        """The same on another device and in another precision."""
        train, test, aux = (e.to(device, dtype) for e in (self.train, self.test, self.aux))
        context = None if self.context is None else self.context.to(device)
        return TaskData(
            train,
            test,
            aux,
            self.rows.to(device),
            self.counts.to(device),
            self.client_class.to(device),
            context,
        )


class Task(Spec):
    """Base of all tasks. A subclass says how data are loaded and split, and which values each
    method takes here.
    """

    about: ClassVar[str]
    shape: ClassVar[tuple[int, ...]]  # of one input, channels first
    classes: ClassVar[int]
    rounds: ClassVar[int]  # unless the user says otherwise
    tables: ClassVar[dict[str, dict[str, Any]]] = {}  # method -> its parameters here
    stand_in: ClassVar[str] = ""  # the set that this one stands in for, if it does
    signal: ClassVar[bool] = (
        False  # inputs are standardised signals without bounds, not images in [0, 1]
    )

    clients: int = Field(ge=2, description="clients")
    model: str = Field(description="network, one of `leakbench list models`")
    width: int = Field(ge=1, le=4096, description="channels or hidden units of the network")
    dim: int = Field(
        ge=2, le=4096, description="width of the embedding, for methods that compare embeddings"
    )
    evaluations: int = Field(
        20,
        ge=10,
        le=1000,
        description="evaluations over the run, evenly spaced, the last round among them",
    )
    utility: Literal["accuracy", "auroc"] = Field(
        "accuracy",
        description=(
            "accuracy of the best-fitting class, or area under ROC of one class against the others,"
            " mean over classes"
        ),
    )

    @abstractmethod
    def load(self) -> TaskData:
        """The data, split over the clients; the same in every run of this task."""

    def augment(self, x: Tensor, rng: Rng) -> Tensor:
        """What local training sees instead of the images ``x`` (*party, B, ...) of a step;
        ``rng.party``: () or (M,).
        """
        return x

    def defaults(self, method: str) -> dict[str, Any]:
        """The values that this task states for ``method``."""
        return dict(self.tables.get(method, {}))

    @property
    def one_class_each(self) -> bool:
        """Does every client stand for a class of its own?"""
        return True

    def suits(self, method: Defense) -> None:
        """A method that compares embeddings knows one class per client: its ``predict`` says how
        well x fits *this* client.

        Raises:
            UsageError: this task's clients have several classes.
        """
        if method.outputs == "embedding" and not self.one_class_each:
            raise UsageError(
                f"{type(method).__name__} needs clients with one class each, but this task's"
                " clients have several: train it with task.split=class and"
                f" task.clients={self.classes}, or take a method whose network ends in class"
                " logits."
            )

    def facts(self, method: Defense) -> Facts:
        """Public facts, given what the method's network ends in.

        Raises:
            UsageError: the method does not suit the task.
        """
        self.suits(method)
        return Facts(
            clients=self.clients,
            classes=self.classes,
            dim=self.dim if method.outputs == "embedding" else self.classes,
            shape=self.shape,
        )

    def module(self, facts: Facts) -> Stages:
        """The architecture; its numbers come from a named stream.

        Raises:
            UsageError: there is no such model.
        """
        if self.model not in MODELS:
            raise UsageError(
                f"task.model = {self.model!r}: unknown model.{suggestion(self.model, MODELS)}"
            )
        return MODELS[self.model](facts.shape, facts.dim, self.width)

    @property
    def metric(self) -> str:
        """The utility metric."""
        return self.utility

    @property
    def chance(self) -> float:
        """What the utility metric gives to someone who guesses."""
        return 0.5 if self.utility == "auroc" else 1 / self.classes

    @property
    def better(self) -> Literal["up", "down"]:
        """In which direction the utility metric is better."""
        return "up"


def one_class_each(train: Examples, test: Examples, aux: Examples, clients: int) -> TaskData:
    """Client c has the training examples of class c."""
    rows, counts = padded([(train.y == c).nonzero().flatten() for c in range(clients)])
    return TaskData(train, test, aux, rows, counts, client_class=torch.arange(clients))


def padded(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Rows per client as one table, short ones padded with their first row; and the counts."""
    longest = max(map(len, parts))
    rows = torch.stack([torch.cat([p, p[:1].expand(longest - len(p))]) for p in parts])
    return rows, torch.tensor([len(p) for p in parts])
