"""Many attacks as one.

What an attacker really reaches (cascade), and a bound on what any of them could (any_attack). Both
are made from units.csv whenever they are shown, and never stored. Attacks whose control failed do
not enter, unless they are beyond the blind guess all the same: they have shown what they can do.

A cascade is of one attacker: who listens elsewhere hears something else and picks among its own. Of
several that listened the one that reaches most stands, so that a client that finds little never
takes the place of the server that finds much.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import TypeVar

from leakbench.base.reason import Reason, reason
from leakbench.record.columns import STAGES
from leakbench.results import paired
from leakbench.results.listener import LISTENERS, Listener
from leakbench.results.number import (
    ANY,
    CASCADE,
    MADE,
    Attacker,
    Environment,
    Measured,
    PooledNumber,
    Unit,
    when,
)
from leakbench.results.units import ROLES, pooled_estimates
from leakbench.scoring import flags
from leakbench.statistics.intervals import NoInterval

Question = tuple[str, bool, str]  # metric, probe, stage asked about
Guesses = Sequence[tuple[Measured, Unit]]
Row = TypeVar("Row", bound=Measured | PooledNumber)


def questions(numbers: Sequence[Measured]) -> dict[Question, list[Measured]]:
    """Numbers of one run, or of the seeds of one setting, by question.

    Those of one question are joined, others stay apart. Rows of a curve answer none.
    """
    out: dict[Question, list[Measured]] = defaultdict(list)
    for m in numbers:
        if m.stage != "curve" and m.meaning.judges:
            out[m.meaning.name, m.probe, when(m.stage)].append(m)
    return dict(sorted(out.items()))


def entering(
    kind: str, numbers: Sequence[Measured], failed: Callable[[Measured], bool]
) -> list[Measured]:
    """Those that enter, in the order in which they are tried; ``failed``: does it say nothing?"""
    fit = [m for m in numbers if not failed(m) and (kind == ANY or m.attacker.rung != "paper")]
    return sorted(fit, key=_turn)


def why_none(kind: str, numbers: Sequence[Measured]) -> Reason:
    """Why no number of a question entered."""
    if kind == CASCADE and all(m.attacker.rung == "paper" for m in numbers):
        return reason("only_paper")
    return reason("all_weak")


def listeners(rows: Iterable[Measured | PooledNumber]) -> list[Listener]:
    """Who attacked, by their kinds; ``rows``: of single attacks."""
    there = {row.attacker.listener for row in rows}
    return [one for one in LISTENERS if one in there]


def heard_by(listener: Listener, rows: Sequence[Row]) -> list[Row]:
    """What attackers of one kind found; of several clients also what one of them found alone."""
    kinds = ("coalition", "client") if listener == "coalition" else (listener,)
    return [row for row in rows if row.attacker.listener in kinds]


def parties(kind: str, parts: Sequence[Measured]) -> list[list[Measured]]:
    """``parts`` by who may join them: of a cascade each party its own, of the bound the truth."""
    out: dict[object, list[Measured]] = defaultdict(list)
    for m in sorted(parts, key=lambda m: LISTENERS.index(m.attacker.listener)):
        out[m.attacker.party if kind == CASCADE else ANY].append(m)
    return [sorted(own, key=_turn) for own in out.values()]


def combine(kind: str, parts: Sequence[Measured], stage: str | None = None) -> Measured:
    """`cascade` or `any_attack` of one run and one question.

    Args:
        kind: "cascade" or "any_attack".
        parts: what ``entering`` returned for this run, not empty.
        stage: where other seeds decide it; else that of the parts, `all` where they differ.

    Raises:
        NoInterval: there is one unit only, and the metric's range has no end.
    """
    first, alone = parts[0], len(parts) == 1
    picks = _pick(kind, parts)
    picked = {id(m) for m, _ in picks}
    used = [m for m in parts if id(m) in picked]
    stages = {m.stage for m in parts}
    behind = used if kind == CASCADE else parts
    out = replace(
        first,
        attacker=_attacker(kind, parts),
        stage=stage or (stages.pop() if len(stages) == 1 else "all"),
        round=max(m.round for m in parts),
        order=0,
        exact=frozenset(ROLES).intersection(*(m.exact for m in behind)),
        guesses={name: sha for m in parts for name, sha in m.guesses.items()},
        code={name: of for m in parts for name, of in m.code.items()},
        made=_made(parts),
    )
    if alone:  # then it is that attack
        return out
    units = {"attack": tuple(u for _, u in picks), **_beside(kind, parts, picks)}
    found = pooled_estimates([replace(out, units=units)])
    out = replace(
        out, units=units, value=found["attack"], floor=found["floor"], control=found["control"]
    )
    return replace(out, flags=_flags(out, used))


def beside(m: Measured, parts: Iterable[Measured]) -> Measured:
    """What was made of a run, with the guesses and code of all that it was picked among."""
    own = [p for p in parts if p.run.id == m.run.id]
    guesses = {name: sha for p in own for name, sha in p.guesses.items()}
    return replace(m, guesses=guesses, code={name: of for p in own for name, of in p.code.items()})


def weak(m: Measured) -> bool:
    """Was it not shown to work where nothing is defended, and found nothing here either?"""
    if "no_control" in m.flags or paired.beyond_floor([m], m.value, m.floor):
        return False
    return not paired.control_shown([m], m.floor, m.control)


def cascade_of_run(numbers: Sequence[Measured]) -> list[Measured]:
    """`cascade` and `any_attack` of one run.

    What cannot be had is said per setting, in missing.csv.
    """
    out = []
    for asked in questions(numbers).values():
        for kind in MADE:
            found = []
            for own in parties(kind, entering(kind, asked, weak)):
                with suppress(NoInterval):  # one unit of a metric without ends
                    found.append(combine(kind, own))
            out += [most_leaking(found)] if found else []
    return out


def most_leaking(found: Sequence[Measured]) -> Measured:
    """Of one question the first of those whose value is worst."""
    best = found[0]
    for m in found[1:]:
        best = m if m.meaning.worse(m.value.value, best.value.value) else best
    return best


def _attacker(kind: str, parts: Sequence[Measured]) -> Attacker:
    """The strongest rung, and all that any of them reads and knows."""
    return Attacker(
        name=kind,
        rung=max((m.attacker for m in parts), key=lambda a: a.strength).rung,
        observer=distinct(o for m in parts for o in m.attacker.observer),
        knowledge=distinct(k for m in parts for k in m.attacker.knowledge),
        active=any(m.attacker.active for m in parts),
    )


def _made(parts: Sequence[Measured]) -> Environment:
    names = [f.name for f in fields(Environment)]

    def joined(name: str) -> str:
        return "|".join(distinct(getattr(m.made, name) for m in parts))

    return Environment(*map(joined, names))


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """Each once, in the order in which they appear; a joined text counts as its parts."""
    return tuple(dict.fromkeys(part for v in values for part in v.split("|") if part))


def _flags(m: Measured, used: Sequence[Measured]) -> frozenset[str]:
    """What the attacks ``used`` carry, and what the units themselves say."""
    units = m.units["attack"]
    out = {f for p in used for f in p.flags} & flags.CARRIED
    out |= flags.of_units([u.cluster for u in units], [u.failed for u in units])
    out |= {"probe"} if m.probe else set()
    failed = flags.control_failed(m.meaning.direction, m.floor, m.control)
    out |= {"control_failed"} if failed else set()
    return frozenset(out)


def _turn(m: Measured) -> tuple[int, int, str, str, int]:
    return m.attacker.strength, m.order, *m.attacker.key, STAGES.index(m.stage)


def _pick(kind: str, parts: Sequence[Measured]) -> list[tuple[Measured, Unit]]:
    """One guess per unit, units in the order in which they first appear."""
    by_unit: dict[str, list[tuple[Measured, Unit]]] = defaultdict(list)
    for m in parts:
        for unit in m.units["attack"]:
            by_unit[unit.name].append((m, unit))
    choose = _last_accepted if kind == CASCADE else _most_leaking
    return [choose(guesses) for guesses in by_unit.values()]


def _last_accepted(guesses: Guesses) -> tuple[Measured, Unit]:
    """The last that its own self-check accepts, else the first.

    An attack knows that it failed: then it has no guess.
    """
    accepted = [g for g in guesses if g[1].accepted and not g[1].failed]
    made = [g for g in guesses if not g[1].failed]
    return accepted[-1] if accepted else (made or list(guesses))[0]


def _most_leaking(guesses: Guesses) -> tuple[Measured, Unit]:
    """The worst by the truth; of equal ones the first that did not fail."""
    best = guesses[0]
    for guess in guesses[1:]:
        better = best[0].meaning.worse(guess[1].score, best[1].score)
        if better or (guess[1].score == best[1].score and best[1].failed and not guess[1].failed):
            best = guess
    return best


def _beside(kind: str, parts: Sequence[Measured], picks: Guesses) -> dict[str, tuple[Unit, ...]]:
    """Floor and control.

    Of the attack picked for each unit (cascade), or the best of all attacks (any_attack).
    """
    out = {}
    for role in ("floor", "control"):
        if kind == CASCADE:
            out[role] = tuple(_same(role, m, u) for m, u in picks)
        else:
            out[role] = tuple(_best(role, parts, u) for _, u in picks)
    return out


def _same(role: str, m: Measured, unit: Unit) -> Unit:
    """The blind or the control guess of ``m`` for the same unit.

    Where it has none for that unit, the number's mean stands for it.
    """
    mean: float = getattr(m, role).value
    found = m.by_name[role].get(unit.name)
    return found or Unit(unit.name, unit.cluster, mean, False, False)


def _best(role: str, parts: Sequence[Measured], unit: Unit) -> Unit:
    every = [_same(role, m, unit) for m in parts if unit.name in m.by_name["attack"]]
    out = every[0]
    for other in every[1:]:
        out = other if parts[0].meaning.worse(other.score, out.score) else out
    return out
