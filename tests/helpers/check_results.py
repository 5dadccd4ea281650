"""What a check found, made by hand: rows of one setting or of several, limits, all that is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from helpers.gate_rows import made
from leakbench.base.reason import in_words, reason
from leakbench.federation.utility import meanings
from leakbench.gate import CheckResult, Comparison, GateRow
from leakbench.gate.outcome import LimitOutcome
from leakbench.metrics.prototypes import P_LEAK
from leakbench.words.outcomes import check_in_words

EVIL = "a\n::error::b ##[error]c %0A ]]> | `x` <script>&amp; [a](//b.c)\x1b[31m\u202e \x00\ufffe"

NUMBERS = reason(
    "compared",
    **{"old": 0.32, "new": 0.6, "d": 0.28, "low": 0.2, "high": 0.35, "margin": 0.05},
    **{"seeds": (3, 3), "paired": True},
)
# One that gives no kind of reason that the gate knows.
ODD = (in_words(EVIL),)


def row(value=0.6, attack="cascade", **more: Any) -> GateRow:
    """A number of FedGN on digits."""
    utility = attack == "utility"
    meaning = meanings()["accuracy"] if utility else P_LEAK.meaning
    given = {
        "task": "digits",
        "defense": "fedgn",
        "defense_params": {"sigma": 0.1},
        "attack": attack,
        "rung": "" if utility else "transcript",
        "metric": meaning.name,
        "stage": "final",
        "worse": "down" if utility else "up",
        "share": True,
        "range": (0.0, 1.0),
        "unit": "client",
        "value": value,
        "low": value,
        "high": value,
        "scores": {seed: {"u": value} for seed in range(3)},
        "engine": "fused",
        "dtype": "float32",
        "margin": 0.05,
    }
    return made(given | more, meaning)


def compared(
    state="leaks more",
    d: float | None = 0.28,
    attack="cascade",
    *,
    setting="release",
    called="release",
    why=(NUMBERS,),
    **more: Any,
) -> Comparison:
    """One row of a check; ``d``: how much worse it is."""
    then, now = row(0.32, attack, called=called), row(0.32 + (d or 0), attack, called=called)
    name = f"{setting}/{attack}/transcript/{now.metric}/final"
    known = {} if d is None else {"d": d, "low": d - 0.08, "high": d + 0.07}
    sides = {"now": now, "then": then, "look": 3, **known}
    return Comparison(name, state, why, **sides | more)


def fine(attack="any_attack", **more: Any) -> Comparison:
    """A row that did not move."""
    same = (reason("same"),)
    return compared("fine", 0.0, attack, **{"why": same, "low": 0.0, "high": 0.0, **more})


def undecided(attack="cascade", d=0.04, **more: Any) -> Comparison:
    """A row that more seeds would settle."""
    why = (NUMBERS, reason("settled_by", seeds=12))
    return compared("cannot tell", d, attack, **{"why": why, "seeds": 12, **more})


def against_limit(*more):
    """The number of a limit, and why it cannot be told."""
    number = {"value": 0.53, "low": 0.41, "high": 0.64}
    return reason("held", row="prototype_averaging/transcript/p_leak/final", **number), *more


def limited(state="breached", **more: Any) -> LimitOutcome:
    """`p_leak<=0.2` on the release."""
    over = row(0.53, "prototype_averaging", called="release")
    given = {"value": 0.53, "low": 0.41, "high": 0.64, "row": over, "rows": 2}
    given |= {"name": "release/prototype_averaging/transcript/p_leak/final"}
    given |= {"limit": "p_leak<=0.2", "setting": "release", "why": against_limit()}
    return LimitOutcome(state=state, **given | more)


def found(*rows: Comparison, limits=(), unfinished=(), notes=(), code: int | None = None):
    """The result, with the exit code that these rows give."""
    states = {r.state for r in rows} | {x.state for x in limits}
    told = 3 if states & {"cannot tell", "new"} or unfinished or not (rows or limits) else 0
    told = 1 if states & {"leaks more", "loses utility", "breached"} else told
    undone = [reason("told", text=text, run=text.partition(": ")[0]) for text in unfinished]
    noted = tuple(map(in_words, notes))
    result = CheckResult(told, tuple(rows), tuple(limits), undone=tuple(undone), noted=noted)
    return check_in_words(result if code is None else replace(result, exit_code=code))
