"""What would decide a statement of a paper that is open: seeds, rounds, a sweep, or other runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leakbench.reproduce import power

Needed = tuple[tuple[str, ...], int | None]  # labels, and how many seeds of each would tell


@dataclass(frozen=True)
class Needs:
    """What would decide a statement, if differences and their spread stay as they are seen.

    How many seeds would tell is said only where nothing else is lacking: more of them tune nobody,
    and train nobody to the end.
    """

    labels: tuple[str, ...] = ()  # whose further seeds would tell
    seeds: int | None = None  # of each; None: more than anybody would run, where there are labels
    hours: float | None = None  # of what is not there yet; None where no run's time is known
    rounds: tuple[str, ...] = ()  # who still learnt
    sweep: tuple[str, ...] = ()  # of whose values not all were tried
    runs: tuple[str, ...] = ()  # who are not there, or learnt nothing

    @property
    def sentence(self) -> str:
        """Without its dot."""
        if self.labels and self.seeds is None:
            whose = ", ".join(self.labels)
            return f"What is seen is too little for {power.MOST} seeds to decide ({whose})"
        time = "" if self.hours is None else f", about {self.hours:.1f} hours"
        parts = (
            (f"about {self.seeds} seeds", self.labels, time),
            ("runs that learn something", self.runs, ""),
            ("more rounds", self.rounds, ""),
            ("every value that its paper tried", self.sweep, ""),
        )
        told = [f"{what} ({', '.join(whose)}){more}" for what, whose, more in parts if whose]
        return f"It needs {'; '.join(told)}"

    def renamed(self, whose: Mapping[str, str]) -> Needs:
        """The same of others: ``whose`` says of each label who stands behind it, once."""

        def names(labels: Sequence[str]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(whose[x] for x in labels))

        return replace(
            self,
            labels=names(self.labels),
            rounds=names(self.rounds),
            sweep=names(self.sweep),
            runs=names(self.runs),
        )


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
    return Needs(labels, most, _hours([(most - counts[x], seconds[x]) for x in labels]))


def _hours(left: Sequence[tuple[int, float | None]]) -> float | None:
    """Of so many runs of so many seconds each."""
    whole = 0.0
    for count, took in left:
        if took is None:
            return None
        whole += max(count, 0) * took
    return whole / 3600
