"""A task: data split over clients, a model, a utility metric, and values for each method."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from leakbench.base.errors import UsageError, suggestion
from leakbench.base.lazy import torch
from leakbench.base.spec import Spec
from leakbench.base.streams import Rng
from leakbench.federation.defense import Defense
from leakbench.federation.parties import Facts

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.models.stages import Stages


@dataclass(frozen=True)
class Examples:
    """Inputs with their classes."""

    # (n, ...) uint8, 0 to 255 for 0 to 1, or floats in [0, 1] (sensors: standardised).
    stored: Tensor
    y: Tensor  # (n,) int64
    # Of the floats that are made of ``stored``.
    dtype: torch.dtype = field(default_factory=lambda: torch.float64)

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
        if stored.dtype != torch.uint8:
            stored = stored.to(dtype)
        return Examples(stored, self.y.to(device), dtype)


@dataclass(frozen=True)
class TaskData:
    """What a task loads."""

    train: Examples
    test: Examples
    # What an attacker may be granted: of the task alone, disjoint from train and test.
    aux: Examples
    rows: Tensor  # (C, n_max) int64: each client's rows of ``train``, padded with its first
    counts: Tensor  # (C,) int64
    client_class: Tensor  # (C,) the class that a client stands for, or -1
    # (C,) bool: do all of a client's inputs carry the planted marker? None: the task plants none.
    context: Tensor | None = None
    # Why these are not, byte for byte, the official set's data, a clause; "": they are. None: there
    # is no official set to compare with.
    unofficial: str | None = None

    def to(self, device: torch.device | str, dtype: torch.dtype) -> TaskData:
        """The same on another device and in another precision."""
        train, test, aux = (e.to(device, dtype) for e in (self.train, self.test, self.aux))
        rows, counts, own = (t.to(device) for t in (self.rows, self.counts, self.client_class))
        context = None if self.context is None else self.context.to(device)
        return TaskData(train, test, aux, rows, counts, own, context, self.unofficial)


class Task(Spec):
    """Base of all tasks: how data are loaded and split, and which values each method takes."""

    about: ClassVar[str]
    shape: ClassVar[tuple[int, ...]]  # of one input, channels first
    classes: ClassVar[int]
    rounds: ClassVar[int]  # unless the user says otherwise
    tables: ClassVar[dict[str, dict[str, Any]]] = {}  # method -> its parameters here
    stand_in: ClassVar[str] = ""  # the set that this one stands in for, if it does
    signal: ClassVar[bool] = False  # standardised signals without bounds, not images in [0, 1]

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
        """What local training sees instead of the images ``x`` (*party, B, ...) of a step."""
        return x

    @property
    def augments(self) -> bool:
        """Does ``augment`` change anything?"""
        return type(self).augment is not Task.augment

    def defaults(self, method: str) -> dict[str, Any]:
        """The values that this task states for ``method``."""
        return dict(self.tables.get(method, {}))

    @property
    def one_class_each(self) -> bool:
        """Does every client stand for a class of its own?"""
        return True

    def suits(self, method: Defense) -> None:
        """Refuse a method that compares embeddings, which knows one class per client.

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
        dim = self.dim if method.outputs == "embedding" else self.classes
        return Facts(
            clients=self.clients,
            classes=self.classes,
            dim=dim,
            shape=self.shape,
            augmented=self.augments,
            signal=self.signal,
        )

    def module(self, facts: Facts) -> Stages:
        """The architecture; its numbers come from a named stream.

        Raises:
            UsageError: there is no such model.
        """
        from leakbench.models.networks import MODELS

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
