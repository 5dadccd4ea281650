"""What a function of a client or of the server can touch; it has no other name for anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import MethodError
from leakbench.base.lazy import torch
from leakbench.base.streams import Rng
from leakbench.base.tree import Tree, row, stack, tmap
from leakbench.data.log_mel import LogMel

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Facts:
    """Public facts of the task."""

    clients: int
    classes: int
    dim: int  # width of the network's output: embedding or logits
    shape: tuple[int, ...]  # of one input
    context: str = ""  # the marker in some clients' inputs, of leakbench.data.marker; "": none
    augmented: bool = False  # does each local step see its inputs changed anew (mirrored, turned)?
    signal: bool = False  # are inputs standardised signals without bounds, not images in [0, 1]?
    targets: str = "classes"  # what the network is to say of an input: its class, or "tokens"
    sound: LogMel | None = None  # the scale of inputs that are spectrograms of sound


@dataclass(frozen=True)
class Batch:
    """x (B, ...), y (B,) int64; targets (B, ...) int64 where the task asks for more than a class.

    Captions are targets (B, T): a token that begins each, the words, one that ends it, then 0.
    """

    x: Tensor
    y: Tensor
    targets: Tensor | None = None

    def some(self, rows: Tensor | slice) -> Batch:
        """Some of its examples."""
        return Batch(**{k: v[rows] for k, v in vars(self).items() if v is not None})


class Each:
    """Marks a downlink of which every receiver gets a row, in the order of ``server.receivers``."""

    def __init__(self, payload: Tree) -> None:
        self.payload = payload


def modal(module: nn.Module) -> list[nn.Module]:
    """The submodules that behave differently in training."""
    kinds = torch.nn.modules.batchnorm._BatchNorm | torch.nn.modules.dropout._DropoutNd
    return [m for m in module.modules() if isinstance(m, kinds)]


@contextmanager
def training(module: nn.Module, on: bool) -> Iterator[None]:
    """Training or evaluation mode for a while, without a walk over layers that do not care."""
    layers = modal(module)
    before = [m.training for m in layers]
    for m in layers:
        m.training = on
    try:
        yield
    finally:
        for m, was in zip(layers, before, strict=True):
            m.training = was


class Net:
    """The public architecture with some weights.

    ``net(x, stop="conv1")`` and ``net(f, start="conv1")`` cut it after a stage.
    """

    def __init__(self, module: nn.Module, weights: Mapping[str, Tensor]) -> None:
        self.module, self.weights = module, weights

    def __call__(
        self,
        x: Tensor,
        *,
        start: str | None = None,
        stop: str | None = None,
        weights: Mapping[str, Tensor] | None = None,
        given: Tensor | None = None,
    ) -> Tensor:
        """(B, dim) of x (B, ...); ``weights``: another model's, in evaluation mode (a teacher).

        ``given`` (B, T): the tokens said so far, of a network that says one after another; then
        (B, T, tokens).
        """
        # A network that is not made of stages takes x alone.
        cut = {k: v for k, v in (("start", start), ("stop", stop)) if v is not None}
        if cut and "stop" not in signature(self.module.forward).parameters:
            raise MethodError(
                "the network is not made of stages, so it cannot be cut: make it of"
                " leakbench.models.Stages."
            )
        asked: dict[str, Any] = cut if given is None else {**cut, "given": given}
        return self._called(x, asked, weights)

    def _called(
        self, x: Tensor, how: dict[str, Any], weights: Mapping[str, Tensor] | None
    ) -> Tensor:
        if weights is None:
            return torch.func.functional_call(self.module, dict(self.weights), (x,), how)
        # Else BatchNorm would write into the other model's buffers.
        with training(self.module, False):
            return torch.func.functional_call(self.module, {**self.weights, **weights}, (x,), how)

    def side(self, name: str, z: Tensor, *, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """What the head ``name`` beside the stages makes of z (B, ...).

        ``weights``: laid over the net's own, in the mode it is in (a head whose tensors are
        changed on the way).

        Raises:
            MethodError: the network has no such head.
        """
        if not any(k.startswith(f"side.{name}.") for k in self.weights):
            raise MethodError(
                f"the network has no head {name!r} beside its stages: the method's module() puts"
                " it there with Stages.put_aside."
            )
        laid = {**self.weights, **(weights or {})}
        return torch.func.functional_call(self.module, laid, (z,), {"side": name})

    def decode(self, x: Tensor) -> Tensor:
        """(B, T) int64, the tokens that the network says of x (B, ...), greedily, padded with 0."""
        return torch.func.functional_call(self.module, dict(self.weights), (x,), {"decode": True})

    @property
    def extractor(self) -> str:
        """The stage after which F(x), the features, end and T, the last stage, begins.

        Raises:
            MethodError: the network is not made of stages, or of one only.
        """
        from leakbench.models.stages import Stages

        names = self.module.names if isinstance(self.module, Stages) else []
        if len(names) < 2:
            raise MethodError(
                "this method cuts the network before its last stage: take a task.model of two"
                " stages at least."
            )
        return names[-2]

    def features(self, x: Tensor, *, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """F(x), flat, (B, d): what goes into the last stage."""
        return self(x, stop=self.extractor, weights=weights).flatten(1)

    @property
    def representation(self) -> str:
        """The place after which z, what goes into the last layer, is to be had.

        Not ``extractor`` where the last stage does more than one layer does (it pools, say).

        Raises:
            MethodError: the network is not made of stages, or its last layer not one of theirs.
        """
        from leakbench.models.stages import Stages, last_layer

        name, _ = last_layer(self.module)
        try:
            if not isinstance(self.module, Stages):
                raise ValueError("it is not made of stages")
            return self.module.before(name)
        except ValueError as error:
            raise MethodError(
                f"this method cuts the network before its last layer, but {error}: make it of"
                " leakbench.models.Stages that end in a layer or an nn.Sequential."
            ) from None


@dataclass
class Client:
    """One client, in one phase of one round."""

    index: Tensor  # () int64, which client
    count: Tensor  # () int64, its number of examples
    round: int
    facts: Facts
    own: dict[str, Any]  # private parameters, trained together with the model
    state: dict[str, Any]  # private, kept from round to round
    # Kind -> what the server sent this round, or sent to everybody before round 1.
    inbox: dict[str, Any]
    net: Net  # the model as received (in a loss: as trained so far)
    rng: Rng
    get_data: Callable[[], Batch] | None = field(repr=False, default=None)
    local: dict[str, Tensor] | None = field(repr=False, default=None)

    @property
    def data(self) -> Batch:
        """All examples of this client, x (n, ...), y (n,).

        Raises:
            MethodError: read inside a loss, which has its batch and no more.
        """
        if self.get_data is None:
            raise MethodError(
                "me.data is not for a loss: read it in prepare and keep what is needed in me.state."
            )
        return self.get_data()

    @property
    def trained(self) -> dict[str, Tensor]:
        """This client's model after local training.

        Raises:
            MethodError: the method did not say ``fusible = False``.
        """
        if self.local is None:
            raise MethodError(
                "me.trained is there after training, and only for methods that say `fusible ="
                " False`."
            )
        return self.local


@dataclass
class Server:
    """The server, in one phase of one round."""

    round: int
    facts: Facts
    model: dict[str, Tensor]  # the global model, without what clients keep
    state: dict[str, Any]
    receivers: Tensor  # (M,) clients of this round
    rng: Rng
    module: nn.Module = field(repr=False)
    # Kind -> (M, ...) stacked over senders, a list where ragged.
    inbox: dict[str, Any] = field(default_factory=dict)
    senders: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    share: Tensor | None = None  # (M,) weight of each sender in ``mean``
    means: dict[str, Tree] = field(default_factory=dict, repr=False)
    # What of its work is done the slow way -> why; for run.json.
    fallbacks: dict[str, str] = field(default_factory=dict, repr=False)

    def mean(self, kind: str) -> Any:
        """The mean of what the senders sent, plain or weighted as the method's ``average`` says.

        Raises:
            MethodError: nobody sent this kind in this round.
        """
        if kind not in self.means:
            if kind not in self.inbox or self.share is None:
                raise MethodError(
                    f"server.mean({kind!r}): no client sent {kind!r} in this round; it has"
                    f" {sorted({*self.inbox, *self.means})}."
                )
            self.means[kind] = weighted_mean(self.inbox[kind], self.share)
        return self.means[kind]

    def average(self, each: Sequence[Tree]) -> Tree:
        """The mean of one tree for every sender, with the weights of ``mean``.

        Raises:
            MethodError: nobody sent anything in this round.
        """
        if self.share is None:
            raise MethodError(
                "server.average: no client sent anything in this round, so there are no weights."
            )
        return weighted_mean(stack(each), self.share)

    def net(self, weights: Mapping[str, Tensor] | None = None) -> Net:
        """The architecture with the global model, or with other weights laid over it."""
        return Net(self.module, {**self.model, **(weights or {})})

    def local_models(self) -> list[dict[str, Tensor]]:
        """The senders' models, rebuilt from their updates (needs ``fusible = False``)."""
        updates = self.inbox["update"]
        base = {k: self.model[k] for k in updates}
        return [tmap(torch.add, base, row(updates, j)) for j in range(len(self.senders))]


def weighted_mean(payload: Tree, share: Tensor) -> Tree:
    """sum_j share_j payload_j over the leading axis of every leaf."""
    return tmap(lambda t: torch.tensordot(share.to(t.dtype), t, 1), payload)
