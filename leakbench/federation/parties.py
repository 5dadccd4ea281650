"""What a function of a client or of the server can touch; it has no other name for anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import MethodError
from leakbench.base.lazy import torch
from leakbench.base.streams import Rng
from leakbench.base.tree import Tree, row, stack, tmap
from leakbench.data.log_mel import LogMel
from leakbench.federation.input_range import UNIT, InputRange
from leakbench.federation.net import Net

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
    input_range: InputRange = UNIT  # where the numbers of an input lie
    targets: str = "classes"  # what the network is to say of an input: its class, or "tokens"
    sound: LogMel | None = None  # the scale of inputs that are spectrograms of sound
    attribute: str = ""  # what examples have beside a class, as "person"; "": nothing is told of it

    @property
    def signal(self) -> bool:
        """Are inputs without bounds, as signals and tables, and no images in some range?"""
        return not self.input_range.bounded

    @property
    def pictured(self) -> bool:
        """Are inputs images, and no signals, tokens or rows of a table?"""
        return not self.signal and len(self.shape) > 1


@dataclass(frozen=True)
class Batch:
    """x (B, ...), y (B,) int64; targets (B, ...) int64 where the task asks for more than a class.

    Captions are targets (B, T): a token that begins each, the words, one that ends it, then 0.
    ``own`` (B,) bool: which examples are no padding, where there is some.
    """

    x: Tensor
    y: Tensor
    targets: Tensor | None = None
    own: Tensor | None = None

    def mean(self, each: Tensor) -> Tensor:
        """The mean () of a number for each example (B,); padding counts nothing."""
        if self.own is None:
            return each.mean()
        return torch.where(self.own, each, 0.0).sum() / self.own.sum()

    def some(self, rows: Tensor | slice) -> Batch:
        """Some of its examples."""
        return Batch(**{k: v[rows] for k, v in vars(self).items() if v is not None})


class Each:
    """Marks a downlink of which every receiver gets a row, in the order of ``server.receivers``."""

    def __init__(self, payload: Tree) -> None:
        self.payload = payload


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
    # Of the training whose update a wrapper is given: of each local step; nothing elsewhere.
    batches: Sequence[Batch] = field(repr=False, default=())

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
