"""Accuracy on a client's own classes: what personalised federations are tested by."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from leakbench.base import Meaning, torch
from leakbench.utilities.accuracy import Accuracy

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation import TaskData


class OwnClasses(Accuracy):
    """Each client's accuracy on the test examples of the classes that it holds, mean over clients.

    So FedProto (Tan et al., AAAI 2022, Section 5) and FedPCL (Tan et al., NeurIPS 2022, Section 5)
    test: their clients learn nothing of other classes, and on the whole test set each has at most
    its share of them. Here the answer is sought among all classes, own or not, by every method
    alike; their code asks among a client's own, which is easier.

    A unit is a client, one of whose classes is tested at least; its score is a share of its own
    test examples. Clients may share test examples, so the interval, which is over clients, is that
    of other clients of this federation, not of other test sets.
    """

    meaning: ClassVar[Meaning] = Meaning(
        name="own_classes",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        margin=0.02,
        title="accuracy on own classes",
        verb="has accuracy on own classes",
        about="Mean over clients of the accuracy on test examples of the classes they hold.",
        decimals=3,
    )

    def together(self, each: Tensor, data: TaskData, own: Tensor | None) -> Tensor:
        """(clients,), of those of whose classes there are test examples."""
        right = torch.stack([self.scores(one, data, own) for one in each])
        tested = _tested(data)
        some = tested.any(1)
        if len(right) == len(tested):  # a model of each client, not one of all
            right = right[some]
        asked = tested[some].to(right)
        return (right * asked).sum(1) / asked.sum(1)

    def untaught(self, data: TaskData) -> dict[str, float]:
        """Of a client that always says the most frequent of its own classes."""
        tested = _tested(data)
        tested = tested[tested.any(1)].double()
        of_class = torch.nn.functional.one_hot(data.test.y).double()
        return {"constant": float(((tested @ of_class).amax(1) / tested.sum(1)).mean())}


def _tested(data: TaskData) -> Tensor:
    """(clients, n) bool: which test examples are of a class that a client holds."""
    classes = 1 + int(torch.cat([data.train.y, data.test.y]).max())
    real = torch.arange(data.rows.shape[1], device=data.rows.device) < data.counts[:, None]
    held = torch.zeros(len(data.rows), classes, dtype=torch.int64, device=data.rows.device)
    held.scatter_add_(1, data.train.y[data.rows], real.long())
    return held[:, data.test.y] > 0
