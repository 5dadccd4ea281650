"""Runs a function of the chosen clients: all at once where that works, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from leakbench.base.raised import first_line
from leakbench.base.tree import Tree, each_row, stack
from leakbench.federation import engines
from leakbench.federation.batches import Plan
from leakbench.federation.choosing import WAYS, choice
from leakbench.federation.defense import Defense
from leakbench.federation.engines import Engine, LocalTraining
from leakbench.federation.fused import fused
from leakbench.federation.parties import Batch
from leakbench.federation.party_runner import PartyRunner, single
from leakbench.federation.stacked import stacked
from leakbench.federation.task_data import TaskData
from leakbench.federation.threads import train_in_threads


class Ragged(RuntimeError):
    """Clients' tensors differ in shape here: they are run one by one."""


class Execution:
    """Runs functions of clients, and notes how and why not faster.

    ``phases``: function -> how it really ran. ``fallbacks``: function -> why it is run slowly.
    """

    def __init__(self, engine: Engine, method: Defense, data: TaskData) -> None:
        self.engine, self.method, self.data = engine, method, data
        self.phases: dict[str, str] = {}
        self.fallbacks: dict[str, str] = {}

    def clients(
        self, runner: PartyRunner, name: str, t: int, who: Sequence[int], each: Tree, inbox: Tree
    ) -> Tree:
        """Run the client function ``name`` of the clients ``who``; leaves are stacked over them.

        ``each``: what they hold. Beside what the function makes, the draws that it made: stacked,
        or a list of each client's.
        """

        def one(e: Tree, data: Callable[[], Batch]) -> Tree:
            draws: dict[str, Tensor] = {}
            return {**runner.client(name, t, e, inbox, data, draws), "draws": draws}

        def vectorised() -> Tree:
            return each_row(lambda e: one(e, self._data_of_equals(who, e)), each)

        if self.engine != "loop" and name not in self.method.one_by_one:
            out = self._tried(name, "vectorised", vectorised)
            if out is not None:
                return out
        self.phases[name] = "one by one"
        made = [one(single(each, j, i), self.data_of(i)) for j, i in enumerate(who)]
        draws = [m.pop("draws") for m in made]  # not everybody need draw the same
        return {**stack(made), "draws": draws}

    def training(self, local: LocalTraining, each: Tree, plan: Plan, share: Tensor) -> Tree:
        """Train the clients ``each`` as ``plan`` says; leaves are stacked over them."""
        name, data = local.name, self.data
        if "model" in each["inbox"]:  # each begins at another one
            return engines.loop(local, each, plan, data)
        one_step = plan.even is not None and plan.even.shape[1] == 1
        if self.engine == "fused" and one_step:
            out = self._tried(name, "fused", lambda: fused(local, each, plan, share, data))
            if out is not None:
                return out
        # A run that goes on goes on as it began.
        way = self.phases.get(name)
        if way not in WAYS:
            asked = self.engine in WAYS
            way = self.engine if asked else choice(local, len(plan.chosen), data)
        if way == "stacked":
            out = self._tried(name, way, lambda: stacked(local, each, plan, data))
            if out is not None:
                return out
        if way == "threads":
            out = self._tried(name, way, lambda: train_in_threads(local, each, plan, data))
            if out is not None:
                return out
        self.phases[name] = "loop"
        return engines.loop(local, each, plan, data)

    def _tried(self, name: str, how: str, run: Callable[[], Tree]) -> Tree | None:
        """What ``run`` returns, or None where vmap refuses it or has.

        The slow way then works, or raises what is really wrong.
        """
        if name in self.fallbacks:
            return None
        try:
            out = run()
        except RuntimeError as error:
            self.fallbacks[name] = first_line(error)
            return None
        self.phases[name] = how
        return out

    def data_of(self, i: int) -> Callable[[], Batch]:
        """Client i's examples, made when they are asked for."""
        rows = self.data.rows[i, : self.data.sizes[i]]
        return lambda: self.data.train.batch(rows)

    def _data_of_equals(self, who: Sequence[int], each: Tree) -> Callable[[], Batch]:
        """The same under vmap, where all clients have as many."""

        def get() -> Batch:
            if min(self.data.sizes) != self.data.rows.shape[1]:
                raise Ragged("clients have different numbers of examples")
            rows = self.data.rows[each["index"]]
            return self.data.train.batch(rows)

        return get
