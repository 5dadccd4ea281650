"""The last layer's part of the update of every client of a round, not of the audited ones alone.

A few hundred kilobytes a client tell an attacker what a whole update of tens of megabytes would
tell it about a method's prototypes; so all clients are its units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from leakbench.base.tree import Tree, nbytes, row
from leakbench.federation.batches import Plan
from leakbench.federation.federation import Federation
from leakbench.federation.selection import round_size
from leakbench.record.policy import Policy

LIMIT = 64 * 1024**2  # bytes that are kept of one training
WHOLE = 512 * 1024**2  # of a run
POOL = 64 * 1024**2  # of a run's models and covered updates that are kept to be added up


@dataclass(frozen=True)
class UpdatePart:
    """What is kept of one client's update: its last layer, or all of it."""

    client: int
    sent: dict[str, Tensor]
    bare: dict[str, Tensor] | None  # with no wrapper; None where none covers updates
    labels: list[Tensor]  # of each local step's examples


def turns(fed: Federation) -> int:
    """The rounds that a round robin takes until everybody had a turn."""
    return -(-fed.facts.clients // round_size(fed.method, fed.facts.clients))


def affordable(fed: Federation, policy: Policy, rounds: int) -> int:
    """Of how many clients the part is kept in a training of a run of so many rounds."""
    size = nbytes({k: fed.model[k] for k in fed.last_layer if k in fed.model})
    kept = [t for t in range(rounds + 2) if policy.keeps_last_layers(t, rounds, turns(fed))]
    return min(LIMIT, WHOLE // max(len(kept), 1)) // size if size else 0


def covers(fed: Federation) -> bool:
    """Does a wrapper cover single updates, be it by noise or by a sum?"""
    return any("update" in w.kinds for w in fed.wrappers)


def pooled(fed: Federation, rounds: int) -> int:
    """Of how many rounds the model and the covered updates, or their last layers, are kept."""
    return POOL // size if (size := pooled_bytes(fed, rounds)) else 0


def pools_whole(fed: Federation, rounds: int) -> bool:
    """Is there room for all of the covered updates, or of their sums, of all rounds?"""
    return covers(fed) and _of_round(fed, nbytes(fed.model)) * rounds <= POOL


def pooled_bytes(fed: Federation, rounds: int) -> int:
    """What of one round is kept so; 0 where nothing is."""
    if pools_whole(fed, rounds):
        return _of_round(fed, nbytes(fed.model))
    layer = nbytes({k: fed.model[k] for k in fed.last_layer if k in fed.model})
    return _of_round(fed, layer) if covers(fed) and layer else 0


def _of_round(fed: Federation, size: int) -> int:
    """Bytes of the model, and of what of each update, or of their sum, is sent with and without.

    That is with the wrappers and, beside a sum, without: ``size`` each.
    """
    sums = "update" in fed.summed
    sent = 1 if sums else 2 * round_size(fed.method, fed.facts.clients)
    return nbytes(fed.model) + sent * size


def pooled_rounds(fed: Federation, policy: Policy, rounds: int) -> int:
    """Of how many it is; 0 where nothing covers updates."""
    if policy.name == "all":
        return rounds if covers(fed) else 0
    return sum(policy.pools(t, rounds, pooled(fed, rounds)) for t in range(1, rounds + 1))


def parts_of(
    fed: Federation,
    places: Sequence[int],
    name: str,
    each: Tree,
    todo: Plan,
    update: Tree,
    *,
    whole: bool,
) -> Iterator[UpdatePart]:
    """The parts of those in ``places`` of the round's chosen, who trained on the loss ``name``.

    Args:
        fed: the federation.
        places: whose.
        name: of the loss.
        each: what each of the chosen was given.
        todo: the batches.
        update: what all of them sent, stacked; where single updates were never made ({}), they are
            made by the reference.
        whole: all of each, not the last layer's part.
    """
    for j in places:
        batches, one = todo.batches(fed.data, j), row(each, j)
        sent = row(update, j) if update else None
        if sent is None:
            sent = fed.runner.train(name, fed.t, one, fed.inbox, batches)["update"]
        part, plain = sent if whole else part_of(fed, sent), None
        if covers(fed):
            plain = fed.bare_runner().train(name, fed.t, one, fed.inbox, batches)["update"]
            plain = plain if whole else part_of(fed, plain)
        if part:
            labels = [b.y for b in batches]
            yield UpdatePart(int(fed.chosen[j]), part, plain, labels)


def part_of(fed: Federation, tensors: Tree) -> dict[str, Tensor]:
    """The last layer's tensors of a model or an update, by name; {} where it has none."""
    return {k: tensors[k].clone() for k in fed.last_layer if k in tensors}
