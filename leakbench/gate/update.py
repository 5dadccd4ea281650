"""`leakbench check --update`: the new baseline, what moved and why, and what it can see.

It refuses what would let a row leak more, or say less, without anybody having said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.base.reason import Reason, reason
from leakbench.gate.attackers import less_than_then, other_attack
from leakbench.gate.baseline import Baseline
from leakbench.gate.bounds import ROUNDING
from leakbench.gate.comparison import (
    BLOCKING,
    blocked,
    fewer_units,
    flagged,
    further,
    nearly,
    outdated,
    unchanged,
    weaker,
)
from leakbench.gate.gate import check, fits_any, known_names
from leakbench.gate.limits import merged
from leakbench.gate.looks import default_looks
from leakbench.gate.outcome import CANNOT_TELL, FINE, LEAKS_MORE, CheckResult, LimitOutcome
from leakbench.gate.power import foreseen
from leakbench.gate.row import GateRow
from leakbench.gate.row_names import Matched, labelled, matched
from leakbench.gate.terms import Terms


@dataclass(frozen=True)
class _Asked:
    """What the command says beside the runs."""

    accept: Sequence[str]
    named: Sequence[str]


def update(
    now: Sequence[GateRow],
    then: Baseline | None,
    *,
    accept: Sequence[str] = (),
    named: Sequence[str] = (),
    limits: Sequence[str] = (),
    looks: Sequence[int] = (),
    terms: Terms | None = None,
    undone: Sequence[Reason] = (),
) -> tuple[Baseline | None, CheckResult]:
    """The new baseline, or None where a gated row would be worse and is not accepted.

    Worse: `check` says so, or the value moved against the method by more than half the margin,
    however sure that is (else a string of updates, each too small to be sure of, lets anything
    through); or the row would say less than before: of fewer seeds, units or attacks; or it is
    beyond a limit. None, too, where a run failed or is not finished: its rows would be missing
    without a word. Margins, limits and names written into the file stay. Rows that these runs do
    not have stay, unless ``accept`` names them.

    Args:
        now: every row of the runs.
        then: the baseline so far, if there is one.
        accept: names or patterns of rows that may be worse, or be dropped.
        named: names or patterns of rows to gate beside the default ones.
        limits: texts such as "p_leak<=0.2", added to the file's.
        looks: after how many seeds a row may be looked at; none: the file's, or by the seeds.
        terms: what a SPEC asks for, noted in the file; None: as it is there.
        undone: runs that have no rows.

    Raises:
        UsageError: there is nothing to write, a name fits no row, or two rows have the same name.
    """
    if undone:
        return None, CheckResult(CANNOT_TELL, undone=tuple(undone), updates=True)
    old = then or Baseline(())
    if not now:
        raise UsageError(
            "these runs have no rows to put into a baseline. Run `leakbench attack` on them first."
        )
    both = matched(now, old.rows)
    known_names([*accept, *named], both.here | both.there)
    asked = _Asked(accept, named)
    held = merged(old.limits, limits)
    verdict = check(now, replace(old, limits=held), named=named) if old.rows or held else None
    worse = _worse(both, verdict, asked)
    refused = [*_beyond(verdict), *worse.values()]
    if len(worse) > 1:
        refused.append(reason("accept_all", rows=tuple(worse)))
    rows_then = () if verdict is None else verdict.rows
    if refused:
        return None, CheckResult(LEAKS_MORE, rows_then, said=tuple(refused), updates=True)
    rows = []
    for name, row in both.here.items():
        before = both.there.get(name, row)
        by_name = row.named or before.named or fits_any(name, named)
        crept = _accepted(row, before, named=fits_any(name, accept))
        told = {"margin": before.allowed, "named": by_name, "accepted": crept}
        rows.append(row.model_copy(update=told))
    kept = [r for n, r in both.there.items() if n not in both.here and not fits_any(n, accept)]
    known = {r.configuration.key: r.training.called or r.label for r in [*kept, *rows]}
    every, looked = labelled([*rows, *kept], known), looks or old.looks or _looks(rows)
    fresh = Baseline.of(every, held, looked, terms or old.terms)
    stayed = {r.name for r in kept}
    seen = [r for r in fresh.rows if r.gated and r.name not in stayed]
    said = (
        *_moves(both, asked),
        *(reason("row_kept", row=r.name) for r in kept),
        *foreseen(seen),
        reason("looked_at", looks=tuple(fresh.looks)),
        *_open(verdict),
        _written(rows, kept),
    )
    return fresh, CheckResult(FINE, rows_then, said=said, updates=True)


def _written(rows: Sequence[GateRow], kept: Sequence[GateRow]) -> Reason:
    """How many rows, and which of them gate."""
    gated = [r for r in (*rows, *kept) if r.gated]
    attacks = tuple(sorted({r.attacker.name for r in gated}))
    rest = len(rows) + len(kept) - len(gated)
    counts = {"rows": len(rows), "kept": len(kept), "gated": len(gated), "rest": rest}
    return reason("written", **counts, attacks=attacks)


def _looks(rows: Sequence[GateRow]) -> tuple[int, ...]:
    return default_looks(min(len(r.units.scores) for r in rows))


def _open(verdict: CheckResult | None) -> list[Reason]:
    """The limits of which it cannot be told whether these runs keep them."""
    told: Sequence[LimitOutcome] = () if verdict is None else verdict.limits
    return [reason("limit_open", **_about(o)) for o in told if o.state != "kept"]


def _beyond(verdict: CheckResult | None) -> list[Reason]:
    """The limits that these runs do not keep: a baseline is no way around them."""
    told: Sequence[LimitOutcome] = () if verdict is None else verdict.limits
    return [reason("refused_limit", **_about(o)) for o in told if o.state == "breached"]


def _about(o: LimitOutcome) -> dict[str, Any]:
    return {"state": o.state, "setting": o.setting, "limit": o.limit, "why": o.why}


def _worse(both: Matched, verdict: CheckResult | None, asked: _Asked) -> dict[str, Reason]:
    """Each gated row that would be worse, or say less, and that nobody accepted, and why."""
    judged = {} if verdict is None else {r.name: r for r in verdict.rows}
    out = {}
    for name in sorted(both.there.keys() & both.here.keys()):
        now, then = both.here[name], both.there[name]
        if not (then.gated or fits_any(name, asked.named)) or fits_any(name, asked.accept):
            continue
        sure = name in judged and judged[name].state in ("leaks more", "loses utility")
        before = then.value.value if then.accepted is None else then.accepted
        if sure or further(now.value.value, before, now, then) > (then.allowed or 0) / 2:
            changes = both.changes.get(then.label, ())
            sides = {"old": before, "new": now.value.value, "changes": changes}
            out[name] = reason("refused_worse", row=name, **sides)
        elif less := _says_less(name, both, asked.accept):
            out[name] = reason("refused_less", row=name, of=less)
    return out


def _says_less(name: str, both: Matched, accept: Sequence[str]) -> Reason | None:
    """Of how many seeds, units or attacks fewer the row would be."""
    now, then = both.here[name], both.there[name]
    seeds, had = len(now.units.scores), len(then.units.scores)
    if seeds < had:
        return reason("seeds_left", seeds=seeds, had=had)
    fewer = None if then.is_utility else fewer_units(now, then)
    accepted = [n for n in both.there if fits_any(n, accept)]
    why = fewer or _known_less(now, then)
    return why or less_than_then(then, both.here, both.there, accepted, both.swapped)


def _known_less(now: GateRow, then: GateRow) -> Reason | None:
    """Why the row would be a weaker standard than it was: a flag, or an attack that works less."""
    if why := flagged(now, now, [flag for flag in BLOCKING if flag not in then.flags]):
        return why
    if unchanged(now, then) or nearly(now, then):
        return None
    return outdated(now) or weaker(now, then)


def _accepted(row: GateRow, before: GateRow, *, named: bool) -> float | None:
    """The value that somebody accepted last, where the row has crept away from it."""
    known = before.value.value if before.accepted is None else before.accepted
    crept = further(row.value.value, known, row, before)
    # The file has six digits of a value; what differs beyond them has not moved.
    return None if named or crept <= ROUNDING * max(abs(known), 1.0) else known


def _moves(both: Matched, asked: _Asked) -> list[Reason]:
    """Every gated row that is another than before, and why."""
    out, same = [], 0
    for name, now in sorted(both.here.items()):
        then = both.there.get(name)
        if then is None or not (then.gated or fits_any(name, asked.named)):
            continue
        if unchanged(now, then) or nearly(now, then):
            same += 1
            continue
        changes = both.changes.get(then.label, ())
        about = {
            "old": then.value.value,
            "new": now.value.value,
            "accepted": fits_any(name, asked.accept),
        }
        of = None if changes else _otherwise(now, then, both)
        out.append(reason("row_moved", row=name, **about, changes=changes, of=of))
    return out + [reason("rows_unchanged", rows=same)] * bool(same)


def _otherwise(now: GateRow, then: GateRow, both: Matched) -> Reason:
    """Why a row moved whose setting is the same."""
    if why := blocked(now, then) or other_attack(now, then, both):
        return why
    if len(now.units.scores) != len(then.units.scores):
        return reason("more_or_fewer_seeds", now=len(now.units.scores), then=len(then.units.scores))
    if now.units.scores.keys() != then.units.scores.keys():
        return reason("other_seeds")
    old, new = (tuple(r.training.provenance.get("commit") or ["?"]) for r in (then, now))
    return reason("other_commits", old=old, new=new) if old != new else reason("same_commit")
