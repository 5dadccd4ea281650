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
    "not_run",  # params: it would fit with these; {} of an attack that was not run at all
    "none_run",  # none at all
    "not_heard",  # to: of whom it was not asked
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
    # Why a run is dead.
    "not_beyond",  # metric, value, low, high, n, what ("chance", or as run.json says), level
    "one_direction",  # cosine: the mean of two prototypes
    "one_point",  # ratio: of the prototypes' distance to the embeddings'
    "loss_ran_away",  # began, first: a round; ended, last
    "loss_of_model",  # loss, alike: of no preference
    "marked_dead",  # by a table, which does not say why
    # What is there of a run or an attack, and is not what would be made today.
    "not_there_yet",
    "had_failed",
    "not_finished",
    "parts_changed",  # parts: of the code and the data, by their names
    "several_codes",
    "was_submitted",  # attack
    "other_messages",  # run
    "other_guesser",  # attack
    "file_changed",  # file
    "other_method",
    "other_version",  # version
    "other_scorer",  # attack
    # What numbers that are there say less for.
    "seed_lacks",  # attack, seeds
    "incomplete",  # some, all: runs
    "few_attacked",  # some, all: seeds
    "unread",  # kinds, by: "nobody", "clients", "one" of those asked, "paper" or "weak" attacks
    "found_beside",  # metric, attack: by another metric of the question
    "chosen",  # count: of clients that somebody picked
    "few_rounds",  # kept, all: rounds of covered updates
    "few_updates",  # kept, all: rounds of whole updates, each of which says more
    "not_listened",
    "not_added_up",  # kind: of messages
    "gone",  # attack, of: a ``Reason``
    "dead_seeds",
    "mixed_code",
    "stale_run",
    "stale_attack",
    "no_control",
    "weaker_observer",
    # Why no ε is claimed of a run, or none is proven, and what is wrong with one.
    "no_mechanism",
    "not_covered",  # kinds: of messages
    "reads_more",  # wrappers: by their classes
    "senders_unknown",
    "no_noise",
    "not_guessed",
    "claim_broken",  # claimed, proven: ε; delta; attack: a folder
]
# Of a check: what a row or a limit comes to, which ``leakbench.words.outcomes`` says.
GateCode = Literal[
    # The numbers themselves.
    "worth",  # value: of a row that the baseline does not have
    "compared",  # old, new, d, low, high, margin, seeds, paired
    "held",  # row, value, low, high: against a limit
    # Fine, and nothing had to be compared.
    "same",
    "nearly",
    "ceiling",  # old, new
    # Nothing could be compared.
    "no_row",
    "new_row",  # what: "row" or "setting", allowed
    "flagged",  # flag, then: stands it in the baseline alone?
    "unlike",  # what, old, new
    "failed_more",  # failed, units, before, had
    "not_run_now",  # row: of an attack that entered in the baseline
    "entered_less",  # row
    "failed_control",  # row
    "seeds_not_attacked",  # seeds
    "moved",  # old, new, of: a ``Reason`` why that says nothing
    "other_parameters",  # attack, changes
    "other_code",  # attacks: their folders
    "no_margin",  # metric
    "few_seeds",  # now, then, least, enough
    # Compared, and it says less.
    "settled_by",  # seeds
    "never_settled",
    "corrected",  # p, level, low: its own interval decides, the one of all rows together does not
    "attacked_by_more",  # attacks
    "contradicted",
    "not_all_compared",  # seeds, old, new
    "fewer_units",  # units, had
    "open",  # left, before
    "open_in_tables",  # left
    "no_control_now",
    "observer_weaker",
    "control_fell",  # old, new
    "unknown_on_a_side",  # what, attacks: their folders
    # Of a limit.
    "no_rows",  # row, more
    "nobody_attacked",
    "seeds_unattacked",  # row, seeds
    "not_shown_to_work",
    "units_lost",  # lost, units
    "few_to_keep",  # seeds, least
    "reaches_beyond",
    # Against another report.
    "one_seed",
    "tables_alone",
]
# Of a check as a whole, of `--update`, and of what a row of the baseline can see.
CheckCode = Literal[
    # Of the whole check.
    "run_undone",  # run, failed: its status, "" where it is not finished
    "empty_baseline",
    "total",  # gated, rows and limits: {state: how many}
    "other_setting",  # setting, changes
    "hollow_baseline",
    "no_baseline",
    "all_at_ceiling",  # setting
    # In what a SPEC holds a build to less.
    "less_of",  # key, old, new
    "row_ungated",  # row: a pattern
    "limit_loosened",  # limit, now: "" where it was dropped
    "margin_widened",  # row, old, new
    "older_baseline",
    "runs_committed",  # out: their folder
    # Of an update.
    "refused_limit",  # state, setting, limit, why: several ``Reason``
    "limit_open",  # the same
    "refused_worse",  # row, old, new, changes
    "refused_less",  # row, of: a ``Reason``
    "accept_all",  # rows
    "seeds_left",  # seeds, had
    "row_kept",  # row
    "row_moved",  # row, old, new, accepted, changes, of: a ``Reason`` where nothing changed
    "rows_unchanged",  # rows: how many
    "more_or_fewer_seeds",  # now, then
    "other_seeds",
    "other_commits",  # old, new
    "same_commit",
    "looked_at",  # looks
    "written",  # rows, kept, gated, rest: how many; attacks
    # What a row can see.
    "sees",  # row, what: a ``Reason``
    "sees_nothing",  # setting, of, rows
    "blind",  # of: a ``Reason``
    "blind_at_ceiling",  # value
    "sight_of_few",  # value, at_floor, seeds
    "sight",  # the same, shown, left, need, enough
]
# An attack was run and gave no number.
GONE: frozenset[Code] = frozenset(("failed", "unfinished", "unscored", "no_end"))


class Reason(Part):
    """What ``leakbench.base.reason_words`` makes a sentence of, or the gate's own words.

    Of any code, ``seeds`` says that it holds in these alone.
    """

    code: Code | GateCode | CheckCode
    facts: dict[str, Any] = Field(default_factory=dict)
    seeds: tuple[int, ...] = ()  # empty: in all of them

    def __hash__(self) -> int:
        return hash((self.code, repr(self.facts), self.seeds))


def reason(code: Code | GateCode | CheckCode, **facts: Any) -> Reason:
    """One that holds in all seeds."""
    return Reason(code=code, facts=facts)


def in_words(text: str) -> Reason:
    """In the words of an attack, a metric or the record."""
    return reason("told", text=text)


# A field that takes words for a ``Reason``.
Why = Annotated[Reason, BeforeValidator(lambda v: in_words(v) if isinstance(v, str) else v)]
