"""What tasks share whose clients may have several classes: a split, a marker, local training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from leakbench.base import UsageError, torch
from leakbench.data import Rule, marker, splits
from leakbench.federation import Defense, Examples, Facts, Task, TaskData, padded

if TYPE_CHECKING:
    from torch import Tensor

# FLea, Sections 4.1 and C.2: for every method alike.
FLEA: dict[str, Any] = {
    "average": "weighted",
    "fraction": 0.1,
    "batch": 32,
    "steps": 0,
    "epochs": 5,
    "optimizer": "adam",
    "lr": 0.001,
    "decay": 0.98,
}
# FedAA, Section 4.1: for every method alike; FedAA itself has 10 epochs and 1.
FEDAA: dict[str, Any] = {
    "average": "weighted",
    "batch": 256,
    "steps": 0,
    "epochs": 11,
    "lr": 0.0025,
}
SGD_RATE = 0.05  # of a method that takes steps of SGD where the others take Adam's (ours)
# Methods of the FLea paper alone, which train as there on any split.
OF_FLEA = (
    *("flea", "fedmix", "feddata", "feddecorr", "fedlc", "fedntd", "fedbr", "ccvr", "fedgen"),
)
# The last stage that FLea's clients run before they share: its released code's choice; for other
# networks the first stage.
LAYERS = {
    "audionet": "block2",
    "harnet": "layer2",
    "harnet_padded": "layer2",
    "mobilenetv2": "block1",
    "cnn": "conv1",
    **dict.fromkeys(("resnet8", "resnet18", "resnet32", "fast_resnet34", "mobilefacenet"), "stem"),
}
# Whose papers have all clients in every round.
EVERYBODY = ("fedproto", "fedpcl")
SPLIT = (
    "class: a class per client; qua: q classes each; dir: Dirichlet; iid; shards: of the"
    " class-sorted set"
)
SPLIT_PARAM = "classes of a client (qua), concentration (dir), shards of a client (shards)"
LOCAL_SIZE = "training examples of a client on average; 0: the whole training set is used"
HELD_OUT = (
    "examples of each client that it does not train on, so that membership is asked of its own; 0:"
    " auxiliary data of the same classes stand in"
)
ABSENT = (
    "people who are dealt data as the clients are and never train, so that it is asked who did; who"
    " they are is drawn"
)
ANY_MARKER = "marker in all inputs of half of the clients, for attacks that infer it"
IMAGE_MARKER = "marker in all images of half of the clients, for attacks that infer it"


class SplitTask(Task):
    """Clients get the training set by ``split``.

    Under qua, dir and iid all methods train as FLea's do, under shards as FedAA's.
    """

    source: ClassVar[str]  # of the named streams
    local: ClassVar[dict[str, Any]] = FLEA  # every method's local training under qua, dir and iid
    # The same under shards, but for ``OF_FLEA``.
    local_under_shards: ClassVar[dict[str, Any]] = FEDAA

    split: Rule = Field("class", description=SPLIT)
    split_param: float = Field(2.0, gt=0, description=SPLIT_PARAM)
    mean_local_size: int = Field(0, ge=0, description=LOCAL_SIZE)
    held_out: int = Field(0, ge=0, description=HELD_OUT)
    absent: int = Field(0, ge=0, description=ABSENT)
    context: str = Field("none", description=ANY_MARKER)

    @model_serializer(mode="wrap")
    def _plain(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what changes nothing: such a run is called as it always was."""
        told: dict[str, Any] = dump(self)
        return {k: v for k, v in told.items() if k not in self.idle}

    @property
    def idle(self) -> set[str]:
        """The fields, younger than the first runs, that change nothing as they stand."""
        return {name for name in ("held_out", "absent") if not getattr(self, name)}

    @model_validator(mode="after")
    def _one_client_per_class(self) -> Self:
        if self.split == "class" and self.clients != self.classes:
            raise UsageError(
                f"task.clients = {self.clients} with split class: expected {self.classes}, one"
                " client per class. For other numbers of clients use another split, as"
                " task.split=iid."
            )
        if self.split == "class" and self.absent:
            raise UsageError(
                f"task.absent = {self.absent} with split class: a class is one client's, so nobody"
                " else has the like. Use another split, as task.split=iid."
            )
        if self.absent and self.context != "none":
            raise UsageError(
                "task.absent and task.context: expected one of them, for those who do not train"
                " have no marker."
            )
        return self

    @property
    def one_class_each(self) -> bool:
        """Does every client stand for a class of its own?"""
        return self.split == "class"

    def defaults(self, method: str) -> dict[str, Any]:
        """What this task states for ``method``: FLea's training, too, or FedAA's under shards."""
        values = super().defaults(method)
        if self.split == "shards" and method not in OF_FLEA:
            training = dict(self.local_under_shards)
            if method == "fedaa":
                training["epochs"] -= 1
            values = {**training, **values}
        elif method in OF_FLEA or not self.one_class_each:
            values = {**self.local, **values}
        if method == "scaffold" and "adam" in values.get("optimizer", ""):  # no gradients
            values |= {"optimizer": "sgd", "lr": SGD_RATE}
        if method in EVERYBODY:
            values.pop("fraction", None)
        if method == "feddata":
            values = {**self._own_and_shared(values.pop("batch")), **values}
        if method == "flea":
            values["layer"] = LAYERS.get(self.model, "first")
        return values

    def _own_and_shared(self, batch: int) -> dict[str, int]:
        """FedData's batch, where a client has n examples and a tenth of all C n are shared."""
        own = max(1, round(batch / (1 + 0.1 * self.clients)))
        return {"batch": own, "shared_batch": batch - own}

    def facts(self, method: Defense) -> Facts:
        """Public facts, the planted marker among them."""
        marker = "" if self.context == "none" else self.context
        return replace(super().facts(method), context=marker)

    def dealt_by(self, train: Examples) -> tuple[Tensor, int]:
        """(n,) int64, what ``split`` deals by: the class; and how many values it has."""
        return train.y, self.classes

    def dealt(self, train: Examples, test: Examples, aux: Examples) -> TaskData:
        """The data: ``train`` thinned, spread over the clients and marked; the others untouched.

        Raises:
            UsageError: ``train`` cannot be dealt as the fields ask.
        """
        stream = f"task/{self.source}"
        people = self.clients + self.absent
        who = "clients and absent ones" if self.absent else "clients"
        some = splits.kept_rows(len(train), people, self.mean_local_size, stream, who=who)
        shown = train.some(some)
        by, values = self.dealt_by(shown)
        how: dict[str, Any] = {"rule": self.split, "param": self.split_param, "stream": stream}
        parts = splits.split_rows(by, clients=people, classes=values, **how)
        parts, absent = splits.absent(parts, self.absent, stream)
        out = None
        if self.held_out:
            parts, out = splits.held_out(parts, self.held_out, stream)
        marked = None
        if self.context != "none":
            marked = marker.with_marker(self.clients, stream)
            dealt = [torch.cat([p, o]) for p, o in zip(parts, out, strict=True)] if out else parts
            theirs = torch.cat([dealt[c] for c in marked.nonzero().flatten().tolist()])
            shown.stored[theirs] = marker.paste(shown.stored[theirs], self.context)
        rows, counts = padded(parts)
        own = torch.arange(self.clients) if self.one_class_each else torch.full((self.clients,), -1)
        held = torch.stack(out) if out else None
        return TaskData(
            shown, test, aux, rows, counts, own, marked, held_out=held, absent=tuple(absent)
        )
