"""Why something is not there, or says little: a code for who decides, facts for who tells."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from leakbench.base.part import Part

Code = Literal[
    # A run or an attack that gave no number.
    "failed",  # text: what with
    "unfinished",  # status
    "to_finish",  # it goes on where it was
    "unscored",  # guessed, and not scored
    "no_end",  # params, stages, seeds: it gave numbers of earlier stages alone
    # An attack that was not run, or a run that is not here.
    "not_run",  # it would fit
    "none_run",  # none at all
    "none_fits",  # none that fits
    "unfit",  # text: it does not fit what is sent
    "unknown_fit",  # text: which would fit cannot be told
    "no_record",
    # A number that an attack, a metric or the record lacks.
    "no_weights",  # text: of the network that the metric measures by
    "only_paper",  # the best real attacker: its paper's own attack alone ran
    "all_weak",  # the best real attacker or the worst case: every control failed
    "few_evaluations",  # some, all: fewer than the mean of the last is of
    "changed_after",  # the last ten evaluations: the last is of what followed training
    "told",  # text: in the words of whoever left it out, which no code reads
    "at",  # stages, probe (None: both), of: a ``Reason`` that holds there
    # What numbers that are there say less for.
    "seed_lacks",  # attack, seeds
    "incomplete",  # some, all: runs
    "few_attacked",  # some, all: seeds
    "unread",  # kinds, by: "nobody", "clients", "paper" or "weak" attacks
    "chosen",  # count: of clients that somebody picked
    "gone",  # attack, of: a ``Reason``
    "dead_seeds",
    "mixed_code",
    "stale_run",
    "stale_attack",
    "no_control",
]
# An attack was run and gave no number.
GONE: frozenset[Code] = frozenset(("failed", "unfinished", "unscored", "no_end"))


class Reason(Part):
    """What ``leakbench.results.reason_words`` makes a sentence of.

    Of any code, ``seeds`` says that it holds in these alone.
    """

    code: Code
    facts: dict[str, Any] = Field(default_factory=dict)
    seeds: tuple[int, ...] = ()  # empty: in all of them

    def __hash__(self) -> int:
        return hash((self.code, repr(self.facts), self.seeds))


def reason(code: Code, **facts: Any) -> Reason:
    """One that holds in all seeds."""
    return Reason(code=code, facts=facts)


def in_words(text: str) -> Reason:
    """In the words of an attack, a metric or the record."""
    return reason("told", text=text)


# A field that takes words for a ``Reason``.
Why = Annotated[Reason, BeforeValidator(lambda v: in_words(v) if isinstance(v, str) else v)]
