"""What is told of the messages of somebody's own loop, examined: is it what it is called?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import UsageError, suggestion
from leakbench.base.lazy import torch
from leakbench.base.tree import Tree
from leakbench.federation.defense import Defense
from leakbench.federation.local_steps import Training
from leakbench.federation.optimizer import reach
from leakbench.federation.task_data import TaskData
from leakbench.own.arrays import is_whole
from leakbench.own.clients import ClientData

if TYPE_CHECKING:
    from torch import Tensor

# A difference is small beside the weights, and is no small step away from them.
SMALL = 0.5


@dataclass
class ToldMessages:
    """The messages that a loop can have: of these clients, and of a network of these tensors.

    Args:
        own: who the clients are.
        data: what they hold.
        shapes: the network's tensors by name.
        trained: the names of those that are.
        truth: is it told which rows are behind an update?
        method: as which clients train, with the rates of the rounds until now.
    """

    own: ClientData
    data: TaskData
    shapes: Mapping[str, Tensor]
    trained: Sequence[str]
    truth: bool
    method: Defense

    def clients(self, clients: Sequence[int]) -> list[int]:
        """Their numbers, each once and in order."""
        plain = clients.tolist() if hasattr(clients, "tolist") else clients
        if isinstance(plain, str) or not isinstance(plain, Iterable):
            raise UsageError(f"clients is {plain!r}: expected a list of the numbers of clients.")
        found = list(plain)
        for c in found:
            self.own.known(c)
        return sorted({int(c) for c in found})

    def tensors(
        self, given: Mapping[str, Any], whose: str, *, whole: bool = True
    ) -> dict[str, Tensor]:
        """A copy of what was given, which has the network's names, shapes and finite numbers."""
        if not isinstance(given, Mapping):
            raise UsageError(
                f"{whose} came as {type(given).__name__}: expected tensors by name, as"
                " net.state_dict() has them."
            )
        odd = [k for k in given if k not in self.shapes]
        if odd:
            raise UsageError(
                f"in {whose} there is a tensor {odd[0]!r}, which the network has not."
                f"{suggestion(str(odd[0]), self.shapes)}"
            )
        floats = [k for k, v in self.shapes.items() if v.is_floating_point()]
        gone = [k for k in (floats if whole else self.trained) if k not in given]
        if gone:
            raise UsageError(
                f"in {whose} the tensor {gone[0]!r} is missing: give all that the network has."
            )
        out = {}
        for k, v in given.items():
            tensor = _copied(v)
            if tensor is None or tensor.is_floating_point() != (k in floats):
                kind = getattr(v, "dtype", type(v).__name__)
                raise UsageError(
                    f"in {whose} {k!r} is {kind}: expected {self.shapes[k].dtype}, as the network"
                    " has it."
                )
            if tensor.shape != self.shapes[k].shape:
                raise UsageError(
                    f"in {whose} {k!r} is of shape {tuple(tensor.shape)}: expected"
                    f" {tuple(self.shapes[k].shape)}, as the network has it."
                )
            if tensor.is_floating_point():
                tensor = tensor.float()
                if not bool(tensor.isfinite().all()):
                    raise UsageError(
                        f"in {whose} {k!r} is not finite: the training diverged; take a smaller lr."
                    )
            out[k] = tensor
        return out

    def moved(self, given: Tree, model: Tree, t: int, what: str, whose: str) -> dict[str, Tensor]:
        """The difference to ``model`` that is sent in round ``t``, as every run has it."""
        floats = {k: v for k, v in given.items() if v.is_floating_point()}
        if what != "weights" and _length(floats) == 0:
            raise UsageError(
                f"{whose} is zero everywhere: give what came of the client's training."
            )
        if what == "gradient":
            rate = self._gradient_rate(t)
            return {k: -rate * v for k, v in floats.items()}
        here = {k: model[k] for k in floats}
        size, whole, way = _length(floats), _length(here), apart(floats, here)
        if what == "difference":
            if size > SMALL * whole and way < SMALL * whole:
                raise UsageError(
                    f"{whose} is as long as the model and near it: if these are weights, say"
                    " what='weights'."
                )
            moved = floats
        else:
            if way > SMALL * whole and size < SMALL * whole:
                raise UsageError(
                    f"{whose} are short beside the model and far from it: if this is a difference,"
                    " say what='difference'."
                )
            moved = {k: v - here[k] for k, v in floats.items()}
        if _length(moved) == 0:
            raise UsageError(
                f"{whose} are those of the model that was sent: give what the client has after its"
                " training."
            )
        return moved

    def _gradient_rate(self, t: int) -> float:
        """By what a gradient is multiplied that is sent as it is in round ``t``.

        Raises:
            UsageError: a step of the declared training is no gradient times a rate.
        """
        method = self.method
        terms = method.step_terms()
        if method.optimizer != "sgd" or terms.weight_decay or terms.clips:
            raise UsageError(
                "a gradient is sent as it is, and by sgd a step is more than that: expected lr,"
                " batch and steps alone, or what='difference'."
            )
        return reach(method, t, 1)

    def counted(self, client: int, rows: Any, examples: Any, training: Training) -> int:
        """Of a record without truth how many examples are behind an update; 0: nobody knows."""
        if self.truth:
            if examples is not None:
                raise UsageError(
                    f"client {client} gives examples, and its rows say how many they are: expected"
                    " observe(..., truth=False), or no examples."
                )
            return 0
        if rows is not None:
            raise UsageError(
                f"client {client} gives rows, and this record has no truth: expected truth=True,"
                " or examples=, how many there were."
            )
        if examples is None:
            return training.steps * self.method.batch
        if not is_whole(examples) or examples < 1:
            raise UsageError(
                f"examples of client {client} = {examples!r}: expected a whole number from 1 on."
            )
        return int(examples)

    def trained_on(self, client: int, rows: Any, training: Training) -> tuple[Tensor, list[Tensor]]:
        """The rows of the task's data behind an update, (n,), and those of each step.

        Of no step where it cannot be told which stood in it.
        """
        batch, epochs = self.method.batch, training.epochs
        held = self.data.rows[client, : self.data.sizes[client]]
        if rows is None and not epochs:
            raise UsageError(
                f"client {client} trains by steps: say which of its {len(held)} rows it trained on,"
                " rows=[...], or by epochs."
            )
        if rows is None:
            whole = held.repeat(epochs)
            return whole, list(torch.split(whole, training.sizes(len(whole), batch)))
        plain = rows.tolist() if hasattr(rows, "tolist") else rows
        if isinstance(plain, str) or not isinstance(plain, Iterable):
            raise UsageError(
                f"rows of client {client} is {plain!r}: expected a list of places in"
                f" data.client({client}), or one for each step."
            )
        steps = [s.tolist() if hasattr(s, "tolist") else s for s in plain]
        every = [r for s in steps for r in (s if isinstance(s, list | tuple) else [s])]
        for r in every:
            if not is_whole(r):
                raise UsageError(
                    f"client {client} trained on its row {r!r}: expected whole numbers, places in"
                    f" data.client({client}) from 0 to {len(held) - 1}, as rows.long() or"
                    " rows.astype(int) gives."
                )
            if not 0 <= r < len(held):
                raise UsageError(
                    f"client {client} trained on its row {r!r}, and it holds {len(held)}: rows are"
                    f" places in data.client({client}), from 0 to {len(held) - 1}."
                )
        if not every:
            raise UsageError(f"client {client} trained on no row: give those that it trained on.")
        most = training.steps * batch if training.steps else epochs * len(held)
        if len(every) > most:
            raise UsageError(
                f"client {client} trained on {len(every)} rows, and by sgd on {most} at most:"
                f" expected {'steps' if training.steps else 'epochs'} and batch as they are."
            )
        whole = held[torch.tensor(every, dtype=torch.int64)]
        each = [len(s) for s in steps if isinstance(s, list | tuple)]
        if each and training.steps and len(each) != training.steps:
            raise UsageError(
                f"client {client} trained on rows of {len(each)} steps, and by sgd it takes"
                f" {training.steps}: expected a list for each."
            )
        sizes = each if len(each) == len(steps) else training.sizes(len(whole), batch)
        return whole, list(torch.split(whole, sizes)) if sizes else []


def _copied(given: Any) -> Tensor | None:
    """A tensor of its own; None where these are no numbers."""
    try:
        found = torch.as_tensor(given).detach().cpu()
        found = found.clone() if found.layout == torch.strided else found.to_dense()
    except (TypeError, ValueError, RuntimeError):
        return None
    return None if found.is_complex() else found


def _length(tensors: Tree) -> float:
    return float(torch.stack([v.double().norm() for v in tensors.values()]).norm())


def apart(one: Tree, other: Tree) -> float:
    """How far tensors of the same names are from each other, all together."""
    return _length({k: v - other[k] for k, v in one.items()})
