"""`leakbench check`: do these runs leak more, or lose utility, against the baseline?

The answer is yes, no, or cannot tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from leakbench.base.errors import UsageError
from leakbench.base.reason import Reason, reason
from leakbench.gate.attackers import extra, less_than_then, other_attack
from leakbench.gate.baseline import Baseline
from leakbench.gate.change import Change
from leakbench.gate.comparison import (
    TINY,
    blocked,
    contradiction,
    difference,
    end_of,
    further,
    nearly,
    outdated,
    unchanged,
    weaker,
)
from leakbench.gate.limits import held, merged
from leakbench.gate.looks import Compared, Look, judge_looks, next_seeds, only, sides
from leakbench.gate.outcome import (
    CANNOT_TELL,
    FINE,
    LEAKS_MORE,
    ORDER,
    CheckResult,
    Comparison,
    LimitOutcome,
    State,
)
from leakbench.gate.row import GateRow
from leakbench.gate.row_names import Matched, fits_pattern, matched
from leakbench.gate.terms import Terms, softer, widened
from leakbench.statistics.differences import FEWEST_SEEDS, judge, seeds_to_settle

ENOUGH = 8  # seeds that settle most rows whose draws changed


def check(
    now: Sequence[GateRow],
    then: Baseline,
    *,
    named: Sequence[str] = (),
    limits: Sequence[str] = (),
    allow_new: bool = False,
    terms: Terms | None = None,
    undone: Sequence[Reason] = (),
    claims: Sequence[LimitOutcome] = (),
) -> CheckResult:
    """Compare the rows of these runs with the baseline's.

    Args:
        now: every row of the runs, gated or not.
        then: the baseline.
        named: names or patterns (`*`) of rows to gate beside the cascade, any_attack, the utility
            and those the baseline names.
        limits: texts such as "p_leak<=0.2", beside the baseline's own.
        allow_new: rows that the baseline does not have may pass.
        terms: what a SPEC asks for; None: no SPEC does.
        undone: runs that have no rows because they failed or are not finished.
        claims: what wrappers claim of runs of which attacks prove more; baselines change nothing.

    Raises:
        UsageError: a name fits no row, a limit speaks of none, or two rows or settings now have one
            name.
    """
    limits = merged(then.limits, limits)
    less = (*(softer(terms, then.terms) if terms else ()), *then.unbound)
    if not then.rows and not limits:
        empty = (reason("empty_baseline"),)
        code = LEAKS_MORE if claims else CANNOT_TELL
        return CheckResult(code, (), tuple(claims), tuple(undone), said=empty, less=less)
    both = matched(now, then.rows)
    here, there = both.here, both.there
    known_names(named, here | there)
    gated = [n for n, r in there.items() if r.gated or fits_any(n, named)]
    rows = _judge_all(gated, both, then.looks)
    if then.rows:
        rows += _fresh(
            [n for n, r in here.items() if r.gated or fits_any(n, named)], both, allow_new
        )
    rows.sort(key=lambda r: (ORDER.index(r.state), r.name))
    told = (*claims, *(held(limits, here, there, then.looks) if here or there else ()))
    count = Counter(r.state for r in rows)
    kept = Counter(o.state for o in told)
    code = FINE
    if count["leaks more"] or count["loses utility"] or kept["breached"]:
        code = LEAKS_MORE
    elif (
        count["cannot tell"]
        or kept["cannot tell"]
        or undone
        or then.hollow
        or not (gated or told)
        or (count["new"] and not allow_new)
    ):
        code = CANNOT_TELL
    counted = {s: count[s] for s in ORDER if count[s]}
    total = reason("total", gated=len(gated), rows=counted, limits=dict(sorted(kept.items())))
    return CheckResult(
        code,
        tuple(rows),
        told,
        undone=tuple(undone),
        said=(total,),
        noted=tuple(_noted(rows, then, both)),
        less=(*less, *widened(there.values())),
    )


def _noted(rows: Sequence[Comparison], then: Baseline, both: Matched) -> list[Reason]:
    """What is said of the whole."""
    out = []
    told = {r.then.label for r in rows if r.then is not None and r.state != "fine"}
    for label, changes in both.changes.items():
        if changes and label not in told:  # else a line says it
            out.append(reason("other_setting", setting=label, changes=tuple(changes)))
    if then.hollow:
        out.append(reason("hollow_baseline"))
    elif not then.rows:
        out.append(reason("no_baseline"))
    of: dict[str, list[Comparison]] = {}
    for r in rows:
        if r.then is not None and not r.then.is_utility:
            of.setdefault(r.then.label, []).append(r)
    for setting, own in of.items():
        if all(r.then is not None and end_of(r.then) == "ceiling" for r in own):
            out.append(reason("all_at_ceiling", setting=setting))
    return out


def _fresh(names: Sequence[str], both: Matched, allowed: bool) -> list[Comparison]:
    """Rows that only these runs have."""
    out = []
    for name in names:
        if name in both.there:
            continue
        row = both.here[name]
        known = any(r.label == row.label for r in both.there.values())
        what = "row" if known else "setting"
        why = reason("worth", value=row.value.value), reason("new_row", what=what, allowed=allowed)
        out.append(Comparison(name, "new", why, now=row))
    return out


def _judge_all(gated: Sequence[str], both: Matched, looks: Sequence[int] = ()) -> list[Comparison]:
    """Every gated row; Holm's levels are shared among those that are compared."""
    rows: list[Comparison] = []
    compared: dict[str, Compared] = {}
    for name in gated:
        now, then = both.here.get(name), both.there[name]
        said = _without_comparing(name, now, then, both)
        if said is not None:
            rows.append(said)
            continue
        assert now is not None  # noqa: S101 (a row that is missing was said so)
        found = []
        for share, part, count in sides(now, then, looks):
            d = difference(part, then)
            found += [Look(d, share, count)] if d else []
        if not found or then.allowed is None:
            few = Comparison(name, "cannot tell", (_too_few(now, then),), now=now, then=then)
            rows.append(replace(few, seeds=ENOUGH, more=next_seeds(now, then, looks)))
        else:
            compared[name] = Compared(now, then, then.allowed, tuple(found))
    for name, (state, look, level) in judge_looks(compared).items():
        row = compared[name]
        said = _say(name, state, look, level, row)
        if said.state == "cannot tell":
            said = replace(said, more=next_seeds(row.now, row.then, looks))
        rows.append(_fine(_accused(said, both)))
    return [
        replace(r, changes=_changes(r, both), end=end_of(r.then) if r.then else "") for r in rows
    ]


def _without_comparing(
    name: str, now: GateRow | None, then: GateRow, both: Matched
) -> Comparison | None:
    """What is said of a row before any statistics, or None."""
    if now is None:
        return Comparison(name, "cannot tell", (reason("no_row"),), then=then)
    sure = Comparison(name, "fine", (reason("same"),), 0.0, 0.0, 0.0, now, then)
    open_ = Comparison(name, "cannot tell", (), now=now, then=then)
    sides = {"old": then.value.value, "new": now.value.value}
    if why := blocked(now, then) or less_than_then(
        then, both.here, both.there, swapped=both.swapped
    ):
        return replace(open_, why=(why,))
    if unchanged(now, then):
        return _fine(sure)
    if nearly(now, then):
        return _fine(replace(sure, why=(reason("nearly"),)))
    if why := other_attack(now, then, both):
        return replace(open_, why=(reason("moved", **sides, of=why),))
    if then.allowed is None:
        return replace(open_, why=(reason("no_margin", metric=then.metric),))
    if end_of(then) == "ceiling":
        return _fine(replace(open_, state="fine", why=(reason("ceiling", **sides),)))
    return None


def _changes(row: Comparison, both: Matched) -> tuple[Change, ...]:
    one = row.then or row.now
    return both.changes.get(one.label, ()) if one else ()


def _accused(row: Comparison, both: Matched) -> Comparison:
    """The same, but an attack that did not run in the baseline proves nothing of the method."""
    if row.state != "leaks more" or row.now is None or row.then is None:
        return row
    more = extra(row.now, row.then, both)
    return replace(row, state="cannot tell", why=(*row.why, more)) if more else row


def _fine(row: Comparison) -> Comparison:
    """The same, but what is fine by an attack that is not the installed one cannot be told.

    Nor what is fine by one that works less well than in the baseline; the same guesses do not.
    """
    if row.state != "fine" or row.now is None or row.then is None:
        return row
    why = outdated(row.now) or contradiction(row.now, row.then)
    why = why or _beyond_what_was_looked_at(row.now, row.then)
    if not why and row.why[0].code not in ("same", "nearly"):
        why = weaker(row.now, row.then)
    return replace(row, state="cannot tell", why=(*row.why, why)) if why else row


def _beyond_what_was_looked_at(now: GateRow, then: GateRow) -> Reason | None:
    """Why a row is no news: all its seeds and units say more than those that were compared.

    Seeds that no look has reached, that the baseline lacks, or units that are new.
    """
    old = then.value.value
    if now.units.scores.keys() <= then.units.scores.keys():  # the same seeds of both
        old = only(then, now.units.scores).mean
    if then.allowed is None or further(now.value.value, old, now, then) <= then.allowed + TINY:
        return None
    sides = {"old": old, "new": now.value.value}
    return reason("not_all_compared", seeds=len(now.units.scores), **sides)


def _too_few(now: GateRow, then: GateRow) -> Reason:
    there = {"now": len(now.units.scores), "then": len(then.units.scores)}
    return reason("few_seeds", **there, least=FEWEST_SEEDS, enough=ENOUGH)


def _say(name: str, state: State, look: Look, level: float, row: Compared) -> Comparison:
    d, margin, now, then = look.difference, row.margin, row.now, row.then
    low, high = d.lower(), d.upper()
    found = {"d": d.d, "low": low, "high": high, "margin": margin}
    sides = {"old": then.value.value, "new": now.value.value, "seeds": d.seeds, "paired": d.paired}
    why, more = [reason("compared", **found, **sides)], None
    if state == "cannot tell":
        if judge(d, margin) == "leaks more":  # as anybody reads the interval that is shown
            why.append(reason("corrected", p=d.p(), level=level, low=d.lower(level)))
        more = seeds_to_settle(d, margin, level)
        why.append(reason("settled_by", seeds=more) if more else reason("never_settled"))
    shown: State = "loses utility" if state == "leaks more" and then.is_utility else state
    told = (name, shown, tuple(why), d.d, low, high, now, then, more)
    return Comparison(*told, look=look.seeds)


def fits_any(name: str, patterns: Iterable[str]) -> bool:
    """Is it one of these names, or does a pattern (`*`) fit it?"""
    return any(fits_pattern(name, p) for p in patterns)


def known_names(patterns: Sequence[str], rows: Mapping[str, GateRow]) -> None:
    """Every pattern fits a row.

    Raises:
        UsageError: one fits none.
    """
    for pattern in patterns:
        if not any(fits_any(name, [pattern]) for name in rows):
            near = get_close_matches(pattern, rows, n=1, cutoff=0.3)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"no row is called {pattern!r}.{guess} `leakbench check -v` prints their names."
            )
