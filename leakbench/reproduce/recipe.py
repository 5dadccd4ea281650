"""A recipe: which runs a table or figure of a paper needs, at which scale.

It also says which of the paper's statements can be checked.

A recipe with a ``study`` needs none: its numbers are of the data themselves. Recipes are data: each
is a file of ``recipes/``, which ``recipe_file`` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from leakbench.federation.precision import Dtype
from leakbench.record.policy import Policy
from leakbench.reproduce.row import FEWEST
from leakbench.reproduce.statements import KnownKeys, Order

SCALES = ("smoke", "small", "full")
PLAIN = Policy(probes=0, audited=1)
Params = Mapping[str, Any]
UTILITY = "utility"  # the measure that is the task's utility metric, whatever that is
# What code a recipe may name, of ``rows`` and ``figures``: a view of a run gives a number per unit,
# a study a number per measure where no run is needed, and a figure draws what there is.
View = Literal["", "log10_sphere_ratios", "late_loss", "first_variance", "last_variance"]
Study = Literal["", "name_correlations", "feature_clusters", "client_sizes"]
Figure = Literal[
    "",
    "accuracy",
    "identities",
    "tsne",
    "inversion",
    "lam",
    "scale",
    "rounds",
    "sizes",
    "privacy",
    "weights",
    "fractions",
    "loss",
    "variance",
    "names",
]


@dataclass(frozen=True)
class Case(KnownKeys):
    """A row of the paper, and what that is here."""

    label: str  # as it is called in the paper
    defense: str  # "" where a study is asked
    params: Params = field(default_factory=dict)
    ours: str = ""  # why it stands there although the paper has no such row; "" for the paper's
    scales: tuple[str, ...] = SCALES  # where it is run
    columns: tuple[str, ...] = ()  # and in which columns; in all where empty
    # A parameter and the values of which the paper reports the best: each is a row of its own, and
    # this row the best of them, at the scales of ``swept``; elsewhere its own ``params`` are all.
    sweep: tuple[str, tuple[float, ...]] | None = None
    swept: tuple[str, ...] = SCALES[1:]
    of: str = ""  # the case of whose sweep it is a value
    short: str = ""  # its label in a figure where a panel's title says the rest

    def at(self, scale: str) -> tuple[Case, ...]:
        """What is run of it at ``scale``: itself, or every value of its sweep."""
        if self.sweep is None or scale not in self.swept:
            return (self,)
        name, values = self.sweep
        return tuple(self._with(name, v) for v in values)

    def _with(self, name: str, value: float) -> Case:
        label = f"{self.label}, {name} = {value:g}"
        params = {**self.params, name: value}
        said = f"{name} = {value:g}, one of the values of which {self.label} is the best"
        return replace(self, label=label, params=params, ours=said, sweep=None, of=self.label)


@dataclass(frozen=True)
class Measure(KnownKeys):
    """A column: a metric of an attack, a view of a run, a number of a study, or the utility."""

    key: str
    title: str
    short: str = ""  # its title in a figure that is of nothing else
    metric: str = ""
    attack: str = ""
    params: Params = field(default_factory=dict)
    printed: bool = True  # by the paper
    over: str = ""  # what the standard deviation beside it is over, if the paper gives one
    defenses: tuple[str, ...] = ()  # whom it is asked of; all where empty
    view: View = ""
    unit: str = "client"  # of ``view``; of a run there is one, so a single seed has no interval
    # Of the utility (utility.csv); the best round is chosen on the test set, as papers do.
    statistic: Literal["final", "best", "last10"] = "final"
    # Of an attack's number; "" for the end of training.
    stage: Literal["", "untrained", "early", "middle"] = ""
    probe: bool = False  # of an attack's number: on single-image updates, not on real ones?

    def asks(self, defense: str) -> bool:
        """Is it asked of this method?"""
        return not self.defenses or defense in self.defenses


@dataclass(frozen=True)
class Setup(KnownKeys):
    """The task on which one data set's column is made."""

    # Of the paper, in our names; its numbers are looked up under this name.
    dataset: str
    task: str  # a name of `leakbench list tasks`
    rounds: int
    task_params: Params = field(default_factory=dict)
    # Defense -> its parameters here, under a case's own.
    params: Mapping[str, Params] = field(default_factory=dict)
    differs: tuple[str, ...] = ()  # from the paper, where that cannot be read off parameters
    stand_in: str = ""  # what the task stands in for; "" where it is the paper's own data
    needs: str = ""  # the image set that must be there; "" where the data come with leakbench
    # Used where ``needs`` is not there; without it the column then says how to get the set.
    otherwise: Setup | None = None
    split: str = ""  # what tells it from the recipe's other columns of the same data set
    seeds: tuple[int, ...] = ()  # instead of the scale's
    # Defense -> parameter -> why it is not the paper's, and how ours was chosen; it stands beside
    # what differs. Every rate that is not the paper's has one.
    why: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def column(self) -> str:
        """What its column is called: the data set and, where there are several, the split."""
        return f"{self.dataset}, {self.split}" if self.split else self.dataset


@dataclass(frozen=True)
class Scale(KnownKeys):
    """How much is done: the data sets, seeds, and what is recorded."""

    time: str  # about how long, in words
    setups: tuple[Setup, ...]
    seeds: tuple[int, ...] = (0,)
    record: Policy = PLAIN
    engine: str = "auto"
    dtype: Dtype = "float32"
    excerpts: bool = False
    # What its attacks take of time: laid over the parameters that a measure gives them.
    attacks: Params = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe(KnownKeys):
    """A table or figure."""

    name: str
    paper: str  # as in published.json
    about: str
    cases: tuple[Case, ...]
    measures: tuple[Measure, ...]
    scales: Mapping[str, Scale]
    orders: tuple[Order, ...] = ()
    figure: Figure = ""
    choices: tuple[str, ...] = ()  # what the paper leaves open
    # Where no run is needed: what gives a case's numbers. Seeds are then draws.
    study: Study = ""

    def of(self, scale: str) -> tuple[Case, ...]:
        """The cases that are run at ``scale``."""
        return tuple(c for c in self.cases if scale in c.scales)

    def labels(self, scale: str, column: str) -> set[str]:
        """The rows of one column at ``scale``; of a sweep the one that stands for its values."""
        return {c.label for c in self.of(scale) if not c.columns or column in c.columns}

    def planned_seeds(self, scale: str, column: str) -> int:
        """How many each row has before anybody adds some; fewer than tell anything count as those.

        Of a column that is gone, as many as the scale names; of a scale that is, the fewest.
        """
        chosen = self.scales.get(scale)
        if chosen is None:
            return FEWEST
        own = [len(s.seeds) for s in chosen.setups if s.column == column and s.seeds]
        return max(FEWEST, *own or [len(chosen.seeds)])

    def orders_of(self, scale: str) -> tuple[Order, ...]:
        """What the paper says of the cases that are run at ``scale``."""
        labels = {c.label for c in self.of(scale)}
        left = [order.within(labels) for order in self.orders]
        return tuple(order for order in left if order)

    def asked(self, m: Measure, scale: str) -> dict[str, Any]:
        """The parameters of the attack that gives ``m`` at ``scale``."""
        return {**m.params, **self.scales[scale].attacks}

    def attacks(self, defense: str, scale: str) -> list[tuple[str, dict[str, Any]]]:
        """(attack, parameters) that a run of ``defense`` needs at ``scale``."""
        out: list[tuple[str, dict[str, Any]]] = []
        for m in self.measures:
            attack = (m.attack, self.asked(m, scale))
            if m.attack and m.asks(defense) and attack not in out:
                out.append(attack)
        return out
