"""What a verdict is made of: one setting's numbers in one metric."""

from __future__ import annotations

from typing import Literal

from leakbench.base.meaning import Meaning
from leakbench.base.part import Part
from leakbench.base.reason import Reason, Why
from leakbench.results.number import Number


class Evidence(Part):
    """Everything that decides one verdict: a setting's numbers in one metric.

    They are of real messages or of probes, never both.
    """

    meaning: Meaning
    hides: bool = True  # does it claim to? What does not is its own control
    attacks: tuple[Number, ...] = ()
    cascade: Number | None = None
    # Where several kinds of listener attacked: all single attacks, and the cascade of each.
    among: tuple[Number, ...] = ()
    cascades: tuple[Number, ...] = ()
    any_attack: Number | None = None
    seeds: int = 1
    dead_seeds: int = 0
    dead_because: Why | None = None  # why a dead run is dead
    kind: str = "message of this kind"
    sends: tuple[str, ...] = ()
    sends_kind: bool = True
    reasons: tuple[Reason, ...] = ()  # why there is no number
    state: Literal["", "not finished", "failed"] = ""  # of the runs, where none is complete
    # Where only so many clients of a round are recorded whole: how many those are, and how many
    # take part.
    audited: int | None = None
    present: int | None = None
    # Numbers of the question's other metrics, some of whose units are as good as the original.
    beside: tuple[Number, ...] = ()
    reads: tuple[str, ...] = ()  # the kinds of message that its attacks read
    gaps: tuple[Reason, ...] = ()  # runs and attacks that gave no number
    instead_of: str = ""  # the question's own metric, where it was not measured here
    public: Number | None = None  # without what the attack was given from the truth
    unmeasured: tuple[str, ...] = ()  # titles of metrics whose weights are not on this machine

    @property
    def live(self) -> int:
        """Seeds that are not dead."""
        return self.seeds - self.dead_seeds

    @property
    def joined(self) -> tuple[Number, ...]:
        """What is made of several attacks."""
        return tuple(n for n in (self.cascade, self.any_attack) if n)
