"""A task: data split over clients, a model, a utility metric, and values for each method."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from leakbench.base import module_text
from leakbench.base.errors import UsageError, among, suggestion
from leakbench.base.spec import Spec
from leakbench.base.streams import Rng
from leakbench.data.log_mel import LogMel
from leakbench.federation.defense import Defense
from leakbench.federation.examination import Declared, Examination
from leakbench.federation.input_range import UNIT, InputRange, declared
from leakbench.federation.parties import Facts
from leakbench.federation.task_data import TaskData
from leakbench.federation.utility import METRICS

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.models.stages import Stages


class Task(Spec):
    """Base of all tasks: how data are loaded and split, and which values each method takes."""

    about: ClassVar[str]
    shape: ClassVar[tuple[int, ...]]  # of one input, channels first
    classes: ClassVar[int]
    rounds: ClassVar[int]  # unless the user says otherwise
    tables: ClassVar[dict[str, dict[str, Any]]] = {}  # method -> its parameters here
    stand_in: ClassVar[str] = ""  # the set that this one stands in for, if it does
    # Where the numbers of an input lie, an ``InputRange`` or (low, high). What is loaded and lies
    # elsewhere is refused; images are shown and scored on [0, 1], onto which it is mapped.
    input_range: ClassVar[InputRange | tuple[float, float]] = UNIT
    signal: ClassVar[bool] = False  # standardised signals: their range has no bounds
    # The scale of inputs that are log-mel spectrograms of sound: then one can be heard.
    sound: ClassVar[LogMel | None] = None
    # What an example's target is: its class, or a row of tokens that describes it.
    targets: ClassVar[Literal["classes", "tokens"]] = "classes"

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
    utility: str = Field(
        "accuracy",
        description=(
            "what a run gains: accuracy of the best-fitting class; auroc of one class against the"
            " others, mean over classes; or another one of `leakbench list utilities`"
        ),
    )

    @field_validator("utility")
    @classmethod
    def _is_installed(cls, name: str) -> str:
        found = among(name, METRICS)
        if found not in METRICS:
            raise ValueError(f"{name!r}: unknown utility metric.{suggestion(name, METRICS)}")
        return found

    @field_validator("model")
    @classmethod
    def _its_own_name(cls, name: str) -> str:
        """As the network calls itself; which there are is asked where it is built."""
        if "-" not in name:  # nor is any of ours; they are imported with torch
            return name
        from leakbench.models.networks import MODELS

        return among(name, MODELS)

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
            input_range=self.lies_in,
            targets=self.targets,
            sound=self.sound,
        )

    def knows_model(self) -> None:
        """Refuse a network that there is not; read off the source, for torch takes seconds.

        A task that makes its networks itself says which there are.

        Raises:
            UsageError: there is no such model.
        """
        if type(self).module is Task.module:
            self._named_among(module_text.entries("leakbench.models.networks", "MODELS"))

    def _named_among(self, known: Iterable[str]) -> None:
        if self.model not in known:
            raise UsageError(
                f"task.model = {self.model!r}: unknown model.{suggestion(self.model, known)}"
            )

    @property
    def lies_in(self) -> InputRange:
        """Where the numbers of an input lie."""
        return declared(None if self.signal else self.input_range, self.shape, signal=self.signal)

    def examined(self, data: TaskData) -> TaskData:
        """``data``, which are as the task's class says.

        Raises:
            UsageError: something is not, or nothing can be made of it.
        """
        if not isinstance(data, TaskData):
            raise UsageError(
                f"load of {type(self).__name__} gives {type(data).__name__}: expected a TaskData;"
                " the function must return it."
            )
        said = Declared(
            name=type(self).__name__,
            shape=tuple(self.shape),
            classes=self.classes,
            clients=self.clients,
            lies_in=self.lies_in,
            targets=self.targets,
        )
        return Examination(said, data).passed()

    def module(self, facts: Facts) -> Stages:
        """The architecture; its numbers come from a named stream.

        Raises:
            UsageError: there is no such model.
        """
        from leakbench.models.networks import MODELS
        from leakbench.models.stages import fix

        self._named_among(MODELS)
        module = MODELS[self.model](facts.shape, facts.dim, self.width)
        for stage in self.frozen:
            fix(module.get_submodule(stage))
        return module

    @property
    def frozen(self) -> tuple[str, ...]:
        """The stages of the network that nobody trains: they stay as they are, and are not sent."""
        return ()

    @property
    def metric(self) -> str:
        """The utility metric."""
        return self.utility

    @property
    def chance(self) -> float:
        """What the utility metric gives to someone who guesses."""
        return METRICS[self.metric].chance(self.classes)

    @property
    def better(self) -> Literal["up", "down"]:
        """In which direction the utility metric is better."""
        return METRICS[self.metric].meaning.direction
