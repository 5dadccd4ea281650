"""What would decide a statement of a paper that is open: seeds, rounds, a sweep, other runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leakbench.reproduce import power

Needed = tuple[tuple[str, ...], int | None]  # labels, and how many seeds of each would tell

# What is asked of the labels in a field of ``Needs``.
_WORDS = {
    "runs": "runs that are there",
    "dead": "runs that learn something",
    "unmeasured": "data on which it can be measured",
    "rounds": "more rounds",
    "curves": "curves that tell whether training was over",
    "sweep": "every value that its paper tried",
    "attacks": "attacks that work",
}


@dataclass(frozen=True)
class Needs:
    """What would decide a statement, if differences and their spread stay as they are seen.

    How many seeds would tell is said only where nothing else is lacking: more of them tune nobody,
    and train nobody to the end.
    """

    labels: tuple[str, ...] = ()  # whose further seeds would tell
    seeds: int | None = None  # of each; None: more than anybody would run, where there are labels
    hours: float | None = None  # of what is not there yet; None where no run's time is known
    alone: bool = False  # has one of them a single seed, which tells nobody how many it takes?
    rounds: tuple[str, ...] = ()  # who still learnt
    curves: tuple[str, ...] = ()  # of whom nobody knows whether they still learnt
    sweep: tuple[str, ...] = ()  # of whose values not all were tried
    attacks: tuple[str, ...] = ()  # on whom an attack was too weak, or found no end
    runs: tuple[str, ...] = ()  # who are not there
    dead: tuple[str, ...] = ()  # who learnt nothing
    unmeasured: tuple[str, ...] = ()  # who are there, without this number

    @property
    def sentence(self) -> str:
        """Without its dot."""
        if self.labels and self.seeds is None:
            whose = ", ".join(self.labels)
            return f"What is seen is too little for {power.MOST} seeds to decide ({whose})"
        time = "" if self.hours is None else f", about {self.hours:.1f} hours"
        few = "at least" if self.alone else "about"
        told = [f"{few} {self.seeds} seeds ({', '.join(self.labels)}){time}"] * bool(self.labels)
        told += [f"{_WORDS[k]} ({', '.join(whose)})" for k, whose in self._lacking]
        return f"It needs {'; '.join(told)}"

    @property
    def kinds(self) -> list[str]:
        """What is lacking beside seeds, without whose."""
        return [_WORDS[k] for k, _ in self._lacking]

    @property
    def _lacking(self) -> list[tuple[str, tuple[str, ...]]]:
        told = [(k, getattr(self, k)) for k in _WORDS]
        return [(k, whose) for k, whose in told if whose]

    def renamed(self, whose: Mapping[str, str]) -> Needs:
        """The same of others: ``whose`` says of each label who stands behind it, once."""

        def names(labels: Sequence[str]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(whose[x] for x in labels))

        every: dict[str, Any] = {k: names(getattr(self, k)) for k in ("labels", *_WORDS)}
        return replace(self, **every)

    @property
    def of_more_than_seeds(self) -> bool:
        """Is anything lacking that no seed mends?"""
        return bool(self.rounds or self.curves or self.sweep or self.attacks)


def of_seeds(
    open: Iterable[Needed], counts: Mapping[str, int], seconds: Mapping[str, float | None]
) -> Needs | None:
    """All that is ``open`` together; None where nothing is.

    ``counts``: the seeds that each label has; ``seconds``: what one of its runs took.
    """
    asked = list(open)
    if not asked:
        return None
    labels = tuple(dict.fromkeys(label for names, _ in asked for label in names))
    many = [k for _, k in asked]
    if None in many:
        return Needs(labels)
    most = max(k for k in many if k is not None)
    hours = _hours([(most - counts[x], seconds[x]) for x in labels])
    return Needs(labels, most, hours, alone=any(counts[x] < 2 for x in labels))


def _hours(left: Sequence[tuple[int, float | None]]) -> float | None:
    """Of so many runs of so many seconds each."""
    whole = 0.0
    for count, took in left:
        if took is None:
            return None
        whole += max(count, 0) * took
    return whole / 3600
