"""The golden twin of a run: the same run, three rounds long, told in a few numbers.

A digest of the sources moves with every comment and every file that gets another name. Two codes
that bring forth one twin train alike, so a number of the older one is not stale. The twin is of the
run's own task, data, network, method, wrappers and metric, from before the first round to after the
last, with all its data and with what it would be dead by. It does not see what changes with the
rounds later on, unless the method says so (``Defense.settled``), nor what the record keeps for an
attack, nor the attacks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from leakbench.base import provenance
from leakbench.base.tree import Tree, flat
from leakbench.federation.evaluate import Evaluations, untaught
from leakbench.federation.federation import Federation
from leakbench.federation.observer import Observer
from leakbench.record import origin, rounds
from leakbench.record.runspec import RunSpec, parts

ROUNDS = 3
# Of a tensor's norm. Commits that sum in another order moved a product by up to 1e-4 of it, in
# float32; the smallest mu of a paper's sweep of FedProx moves one by 1e-3.
TOLERANCE = 3e-4
_SKETCHES = 3
_LONGEST = 2**22  # numbers

# {what it is of: its norm, and its products with some random vectors of signs}
Twin = Mapping[str, Sequence[float]]


class _Sketches(Observer[Federation]):
    """Of everything sent, by kind, its norm and its products with random signs.

    A difference of the norm d moves each product by about d, whatever its direction.
    """

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}  # (1 + _SKETCHES,): squares, products
        self.draws: dict[str, torch.Generator] = {}

    def add(self, name: str, tree: Tree) -> None:
        """Every leaf of ``tree``, in the order of their names."""
        total = self.sums.setdefault(name, torch.zeros(1 + _SKETCHES, dtype=torch.float64))
        draws = self.draws.setdefault(name, torch.Generator().manual_seed(0))
        for v in _parts(tree):
            signs = torch.randint(2, (_SKETCHES, v.numel()), generator=draws).double() * 2 - 1
            total += torch.cat([v.square().sum()[None], signs @ v])

    def down(
        self, fed: Federation, kind: str, payload: Tree, *, each: bool, meant: Tree | None = None
    ) -> None:
        """The server's message."""
        self.add(f"down {kind}", payload)

    def up(self, fed: Federation, name: str, each: Tree, sent: Tree, draws: Tree) -> None:
        """The clients' messages."""
        for kind, payload in sorted(sent.items()):
            self.add(f"up {kind}", payload)

    def trained(self, fed: Federation, name: str, each: Tree, todo: Any, update: Tree) -> None:
        """Their updates, where there are single ones."""
        self.add("up update", update)

    def summed(self, fed: Federation, kind: str, payload: Tree) -> None:
        """The aggregator's sum."""
        self.add(f"sum {kind}", payload)

    def told(self) -> Twin:
        """All of it."""
        found = {}
        for name, sums in sorted(self.sums.items()):
            square, *products = sums.tolist()
            found[name] = [float(f"{x:.6g}") for x in (math.sqrt(square), *products)]
        return found


def _parts(tree: Tree) -> Iterator[Tensor]:
    """Its numbers, in float64, by leaf and at most ``_LONGEST`` at once."""
    for _, leaf in sorted(flat(tree).items()):
        for v in leaf if isinstance(leaf, list) else [leaf]:
            for part in torch.split(v.detach().flatten(), _LONGEST):
                yield part.cpu().double()


def twin_of(spec: RunSpec, device: str = "auto") -> Twin:
    """The twin of ``spec`` by the installed code; shorter where the run itself is.

    Three rounds beyond those after which the method changes its rule.

    Raises:
        LeakbenchError: its data are not there, or it cannot be trained.
    """
    made = parts(spec)
    data = made.task.examined(made.task.load())
    seen = _Sketches()
    fed = made.federation(data, device=provenance.device(device), recorder=seen)
    scores = Evaluations()
    last = min(length(spec), spec.rounds)
    dead_by = {"chance": made.task.chance, **untaught(fed)}
    fed.begin()
    rounds.run_rounds(fed, last, {last}, scores, lambda: None)
    for name, state in fed.snapshot().items():
        seen.add(name, state)
    for t, scored in sorted(scores.scores.items()):
        seen.add(f"utility {t}", scored)
    digest = origin.data_digest(data)
    same = {"data": [1.0, *(int(digest[i : i + 5], 16) for i in (0, 5, 10))]}
    return {**seen.told(), **same, "dead by": [1.0, *(round(v, 6) for v in dead_by.values())]}


def length(spec: RunSpec) -> int:
    """How many rounds of a run its twin has, at most."""
    return ROUNDS + parts(spec).method.settled()


def twins_alike(a: object, b: object) -> bool:
    """Are they twins of one training? Not known is no; so is what no twin looks like."""
    if not isinstance(a, Mapping) or not isinstance(b, Mapping) or not a or a.keys() != b.keys():
        return False
    return all(_near(v, b[name]) for name, v in a.items())


def _near(a: object, b: object) -> bool:
    if not _numbers(a) or not _numbers(b):
        return False
    most = TOLERANCE * max(a[0], b[0])
    return len(a) == len(b) and all(abs(x - y) <= most for x, y in zip(a, b, strict=True))


def _numbers(value: object) -> TypeGuard[Sequence[float]]:
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(x, int | float) for x in value)
