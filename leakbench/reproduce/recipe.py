"""A recipe: which runs a table or figure of a paper needs, at which scale, and which of its
statements can be checked.

A recipe with a ``study`` needs none: its numbers are of the data themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from leakbench.record.folders import Run
from leakbench.record.policy import Policy
from leakbench.reproduce.statements import Order

SCALES = ("smoke", "small", "full")
PLAIN = Policy(probes=0, audited=1)
Params = Mapping[str, Any]
UTILITY = "utility"  # the measure that is the task's utility metric, whatever that is


@dataclass(frozen=True)
class Case:
    """A row of the paper: ``label`` as it is called there, and what that is here: a method, or what
    a study is asked ("").

    ``ours``: why it stands there although the paper has no such row; "" for the paper's.
    ``scales``: where it is run.
    """

    label: str
    defense: str
    params: Params = field(default_factory=dict)
    ours: str = ""
    scales: tuple[str, ...] = SCALES


@dataclass(frozen=True)
class Measure:
    """A column: a metric of an attack, a view of a run, a number of a study, or the utility.

    ``printed``: the paper prints this number. ``over``: what the standard deviation that stands
    beside it is over, if the paper gives one. ``defenses``: whom it is asked of; all where empty.
    ``statistic``: of the utility (utility.csv); the best round is chosen on the test set, as papers
    do. ``stage``: of an attack's number; "" for the end of training. ``unit``: what one number of
    ``view`` is of; of a run there is one, so a single seed has no interval.
    """

    key: str
    title: str
    metric: str = ""
    attack: str = ""
    params: Params = field(default_factory=dict)
    printed: bool = True
    over: str = ""
    defenses: tuple[str, ...] = ()
    view: Callable[[Run], Sequence[float]] | None = None  # a run -> a number per unit
    unit: str = "client"
    statistic: Literal["final", "best", "last10"] = "final"
    stage: Literal["", "untrained", "early", "middle"] = ""


@dataclass(frozen=True)
class Setup:
    """The task on which one data set's column is made.

    Attributes: dataset: of the paper, in our names; its numbers are looked up under this name.
        task: a name of `leakbench list tasks`. rounds: communication rounds. task_params: of the
        task. params: defense -> its parameters here, under a case's own. differs: what differs from
        the paper and cannot be read off parameters. stand_in: what the task stands in for; "" where
        it is the paper's own data. needs: the image set that must be there; "" where the data come
        with leakbench. otherwise: used where ``needs`` is not there; without it the column then
        says how to get the set.
    """

    dataset: str
    task: str
    rounds: int
    task_params: Params = field(default_factory=dict)
    params: Mapping[str, Params] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    stand_in: str = ""
    needs: str = ""
    otherwise: Setup | None = None


@dataclass(frozen=True)
class Scale:
    """How much is done: the data sets, seeds, and what is recorded. ``time``: about how long, in
    words.
    """

    time: str
    setups: tuple[Setup, ...]
    seeds: tuple[int, ...] = (0,)
    record: Policy = PLAIN
    engine: Literal["auto", "loop", "fused"] = "auto"
    dtype: Literal["float32", "float64"] = "float32"
    excerpts: bool = False


# A data set, what a case asks of it, and the seed of the draw -> measure's key: number.
Study = Callable[[Setup, Params, int], Mapping[str, float]]


@dataclass(frozen=True)
class Recipe:
    """A table or figure. ``figure``: a name of ``leakbench.reproduce.figures``, "" for none.
    ``choices``: what the paper leaves open.

    ``study``: where no run is needed, what gives a case's numbers; seeds are then draws.
    """

    name: str
    paper: str  # as in published.json
    about: str
    cases: tuple[Case, ...]
    measures: tuple[Measure, ...]
    scales: Mapping[str, Scale]
    orders: tuple[Order, ...] = ()
    figure: str = ""
    choices: tuple[str, ...] = ()
    study: Study | None = None

    def of(self, scale: str) -> tuple[Case, ...]:
        """The cases that are run at ``scale``."""
        return tuple(c for c in self.cases if scale in c.scales)

    def orders_of(self, scale: str) -> tuple[Order, ...]:
        """What the paper says of the cases that are run at ``scale``."""
        labels = {c.label for c in self.of(scale)}
        return tuple(o for o in (order.within(labels) for order in self.orders) if o)

    def attacks(self, defense: str) -> list[tuple[str, dict[str, Any]]]:
        """(attack, parameters) that a run of ``defense`` needs."""
        found = [
            (m.attack, dict(m.params))
            for m in self.measures
            if m.attack and (not m.defenses or defense in m.defenses)
        ]
        return [a for i, a in enumerate(found) if a not in found[:i]]
