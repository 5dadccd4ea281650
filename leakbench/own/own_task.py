"""A task of somebody's own data and network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.base.spec import fingerprint
from leakbench.base.streams import shared
from leakbench.federation.parties import Facts
from leakbench.federation.task import Task
from leakbench.federation.task_data import TaskData
from leakbench.models.cut_network import Places
from leakbench.own import network
from leakbench.own.clients import ClientData
from leakbench.own.network import Model
from leakbench.record.origin import data_digest

if TYPE_CHECKING:
    from torch import nn

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class OwnTask(Task):
    """Data and a network that were given; each ``make_task`` is a class of its own.

    ``data`` and ``network`` say which they were, so that nothing is taken for a run of others.
    """

    about = "data and a network of one's own"
    rounds: ClassVar[int] = 20
    given_name: ClassVar[str]
    held: ClassVar[ClientData]
    make: ClassVar[tuple[Model]]  # in a tuple: a function of a class is called with its object
    made_of: ClassVar[dict[str, str]]
    training: ClassVar[dict[str, Any]]  # of every method
    places: ClassVar[Places | None]  # where the network is cut; None: where its stages end
    stage: ClassVar[str]  # whose output methods share that share features; "": as they have it

    model: str = "own"
    width: int = 1
    dim: int = Field(64, ge=2, le=4096, description="outputs, for methods that compare embeddings")
    # Filled in by ``_the_same``, which pydantic asks of a default only if it is told to.
    data: str = Field(
        "", validate_default=True, description="SHA-256 of the data, its first 8 digits"
    )
    network: str = Field(
        "", validate_default=True, description="SHA-256 of the network's layers, its first 8 digits"
    )

    @field_validator("data", "network")
    @classmethod
    def _the_same(cls, given: str, info: Any) -> str:
        """What this task has; of a run that was trained on something else it is none."""
        mine = cls.made_of[info.field_name]
        if given not in ("", mine):
            raise ValueError(
                f"{info.field_name} {given} is not that of this task, {mine}: the run was trained"
                " on something else under its name"
            )
        return mine

    def load(self) -> TaskData:
        """What was given."""
        return self.held.data

    @property
    def one_class_each(self) -> bool:
        """Does every client stand for a class of its own?"""
        return bool((self.held.data.client_class >= 0).all())

    def knows_model(self) -> None:
        """The network was given, so there is one."""

    def module(self, facts: Facts) -> nn.Module:  # type: ignore[override]
        """A new one, of as many outputs as are asked.

        Raises:
            UsageError: the network cannot be made.
        """
        made = network.made(self.make[0], facts.dim)
        tokens, places = self.held.tokens, self.places
        return network.prepared(made, tuple(self.shape), tokens=tokens, places=places)

    def defaults(self, method: str) -> dict[str, Any]:
        """How every method trains here, and which layer's output is shared."""
        found = dict(self.training)
        field = registry.load_plugin("defenses", method).model_fields.get("layer")
        if self.stage and field is not None and field.default not in ("", "input"):
            found.setdefault("layer", self.stage)
        return found


def _twice(model: Model, out: int) -> tuple[nn.Module, nn.Module]:
    """The network made with two throws of the dice, which are left as they were."""
    made = []
    for again in (0, 1):
        with shared(0, "network", round=again).lent():
            made.append(network.made(model, out))
    return made[0], made[1]


def _stage(places: Places | None, cut: str | None) -> str:
    """The layer whose output is shared: where the network is cut, else the first place."""
    return cut or next(iter(places.before if places else {}), "")


def make_task(
    name: str,
    data: ClientData,
    *,
    model: Model,
    cut: str | None = None,
    dim: int = 64,
    utility: str = "accuracy",
    rounds: int = 20,
    train: dict[str, Any] | None = None,
    begins: bool = True,
) -> type[OwnTask]:
    """As ``leakbench.task``; ``begins``: do runs begin with the network as it is?

    Not those that somebody's loop trains, of whose outputs and numbers nothing is said before its
    messages are there.

    Raises:
        UsageError: something is wrong with it, or the name is taken.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError(
            f"name = {name!r}: expected small letters, digits and hyphens, as in my-faces."
        )
    if not isinstance(data, ClientData):
        raise UsageError(
            f"data is {type(data).__name__}: expected what leakbench.clients(x, y, ...) gives."
        )
    first = network.made(model, data.classes)
    if first is not model and isinstance(model, torch.nn.Module):
        model = first  # as it is now: somebody may go on to train it
    twice = _twice(model, data.classes)
    of = network.identity(*twice)
    known = {
        "data": data_digest(data.data)[:8],
        "network": of if cut is None else fingerprint([of, cut]),
    }
    places = network.places(twice[0], tuple(data.shape), tokens=data.tokens, wanted=cut)
    if begins:
        network.refuse_outputs(twice[1], data, dim)
    clients = len(data)
    fields = {
        "__module__": __name__,
        "__doc__": f"{data!r}.",
        "__annotations__": {"clients": int, "utility": str, "dim": int},
        "about": f"own data: {data!r}",
        "shape": data.shape,
        "classes": data.classes,
        "rounds": rounds,
        "signal": not data.lies_in.bounded,
        "input_range": data.lies_in if data.lies_in.bounded else None,
        "given_name": name,
        "held": data,
        "make": (model,),
        "made_of": known,
        "training": dict(train or {}),
        "places": places,
        "stage": _stage(places, cut),
        "dim": Field(dim, ge=2, le=4096, description="outputs of an embedding"),
        "clients": Field(clients, ge=clients, le=clients, description="clients"),
        "utility": Field(utility, description="what a run gains"),
    }
    title = "".join(part.capitalize() for part in name.split("-"))
    cls: type[OwnTask] = type(title, (OwnTask,), fields)
    cls.build({}, f"task {name}")
    registry.give("tasks", name, cls)
    return cls
