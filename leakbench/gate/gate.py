"""`leakbench check`: do these runs leak more, or lose utility, against the baseline?

The answer is yes, no, or cannot tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from leakbench.base.errors import UsageError
from leakbench.gate.baseline import UTILITY, Baseline, GateRow, load, save
from leakbench.gate.comparing import (
    blocked,
    difference,
    fewer_units,
    moved,
    other_code,
    outdated,
    unchanged,
    weaker,
)
from leakbench.gate.lost import lost
from leakbench.gate.outcome import (
    CANNOT_TELL,
    FINE,
    LEAKS_MORE,
    ORDER,
    CheckResult,
    Comparison,
    State,
)
from leakbench.statistics.differences import FEWEST_SEEDS, Difference, holm, judge, seeds_to_settle

__all__ = ["Baseline", "CheckResult", "Comparison", "GateRow", "check", "load", "save", "update"]

ENOUGH = 8  # seeds that settle most rows whose draws changed


def check(
    now: Sequence[GateRow],
    then: Baseline,
    *,
    named: Sequence[str] = (),
    unfinished: Sequence[str] = (),
) -> CheckResult:
    """Compare the rows of these runs with the baseline's.

    Args:
        now: every row of the runs, gated or not.
        then: the baseline.
        named: names or patterns (`*`) of rows to gate beside the cascade, any_attack, the utility
            and those the baseline names.
        unfinished: runs that have no rows because they failed or are not finished, in words.

    Raises:
        UsageError: a name fits no row, or two rows have the same key.
    """
    undone = tuple(f"{'cannot tell':13} {said}" for said in unfinished)
    if not then.rows:
        empty = "cannot tell: the baseline has no rows. Write them with --update."
        return CheckResult(CANNOT_TELL, (*undone, empty), unfinished=tuple(unfinished))
    here, there = Baseline.of(now).by_name(), then.by_name()
    _known(named, here | there)
    gated = [n for n, r in there.items() if r.gated or _fits(n, named)]
    rows = _judge_all(
        {n: (here.get(n), there[n]) for n in gated}, {n: lost(there[n], here, there) for n in gated}
    )
    fresh = [n for n, r in here.items() if n not in there and (r.gated or _fits(n, named))]
    not_gated = "not in the baseline, so it is not gated: --update adds it"
    rows += [Comparison(n, "new", f"{here[n].value:.4g}; {not_gated}", now=here[n]) for n in fresh]
    rows.sort(key=lambda r: (ORDER.index(r.state), r.name))
    count = Counter(r.state for r in rows)
    code = FINE
    if count["leaks more"] or count["loses utility"]:
        code = LEAKS_MORE
    elif count["cannot tell"] or undone or not gated:
        code = CANNOT_TELL
    counts = ", ".join(f"{count[s]} {s}" for s in ORDER if count[s])
    total = f"{len(gated)} rows gated: {counts or 'the baseline has no gated row'}"
    lines = (*undone, *(r.line for r in rows), total)
    return CheckResult(code, lines, tuple(rows), tuple(unfinished))


def update(
    now: Sequence[GateRow],
    then: Baseline | None,
    *,
    accept: Sequence[str] = (),
    named: Sequence[str] = (),
    unfinished: Sequence[str] = (),
) -> tuple[Baseline | None, CheckResult]:
    """The new baseline, or None where a gated row would be worse and is not accepted.

    Worse: `check` says so, or the value moved against the method by more than half the margin,
    however sure that is (else a string of updates, each too small to be sure of, lets anything
    through); or the row would say less than before: of fewer seeds, units or attacks. None, too,
    where a run failed or is not finished: its rows would be missing without a word. Margins and
    names written into the file stay. Rows that these runs do not have stay, unless ``accept`` names
    them.

    Raises:
        UsageError: there is nothing to write, a name fits no row, or two rows have the same key.
    """
    if unfinished:
        undone = tuple(f"{'refused':13} {said}" for said in unfinished)
        return None, CheckResult(CANNOT_TELL, undone, unfinished=tuple(unfinished))
    fresh = Baseline.of(now)
    if not fresh.rows:
        raise UsageError(
            "these runs have no rows to put into a baseline. Run `leakbench attack` on them first."
        )
    old, here = (then or Baseline(())).by_name(), fresh.by_name()
    _known([*accept, *named], here | old)
    verdict = check(now, then, named=named) if then and then.rows else CheckResult(FINE, ())
    judged = {r.name: r for r in verdict.rows}
    lines = []
    for name in sorted(old.keys() & here.keys()):
        gated = old[name].gated or _fits(name, named)
        if not gated or _fits(name, accept):
            continue
        sure = name in judged and judged[name].state in ("leaks more", "loses utility")
        if sure or moved(here[name], old[name]) > (old[name].allowed or 0) / 2:
            move = f"{old[name].value:.4g} -> {here[name].value:.4g}"
            lines.append(
                f"refused       {name}: {move} is worse than the baseline. If that is meant:"
                f" --update --accept {name}"
            )
        elif less := _says_less(name, here, old, [n for n in old if _fits(n, accept)]):
            lines.append(
                f"refused       {name}: {less}. If that is meant: --update --accept {name}"
            )
    if lines:
        return None, CheckResult(LEAKS_MORE, tuple(lines), verdict.rows)
    rows = []
    for name, row in here.items():
        before = old.get(name, row)
        by_name = row.named or before.named or _fits(name, named)
        rows.append(row.model_copy(update={"margin": before.allowed, "named": by_name}))
    kept = [r for n, r in old.items() if n not in here and not _fits(n, accept)]
    lines = [
        f"kept          {r.name}: not among these runs; --accept {r.name} drops it" for r in kept
    ]
    lines.append(f"{len(rows)} rows written, {len(kept)} kept")
    return Baseline.of([*rows, *kept]), CheckResult(FINE, tuple(lines), verdict.rows)


def _says_less(
    name: str, here: Mapping[str, GateRow], old: Mapping[str, GateRow], accepted: Sequence[str]
) -> str:
    """Of how many seeds, units or attacks fewer the row would be, or nothing."""
    now, then = here[name], old[name]
    seeds, had = len(now.scores), len(then.scores)
    if seeds < had:
        return f"{seeds} of {had} seeds would be left of it"
    fewer = "" if then.is_utility else fewer_units(now, then)
    return fewer or lost(then, here, old, accepted)


def _judge_all(
    pairs: Mapping[str, tuple[GateRow | None, GateRow]], lost: Mapping[str, str]
) -> list[Comparison]:
    """Every gated row; Holm's levels are shared among those that are compared.

    ``lost``: {name: why the row is of fewer attacks}.
    """
    rows: list[Comparison] = []
    compared: dict[str, tuple[Difference, float, GateRow, GateRow]] = {}
    for name, (now, then) in pairs.items():
        reason = _undecided(now, then, lost[name])
        if now is None or reason:
            rows.append(Comparison(name, "cannot tell", reason, now=now, then=then))
        elif unchanged(now, then):
            same = "unchanged: the same guesses, byte for byte"
            rows.append(_fine(Comparison(name, "fine", same, 0.0, 0.0, 0.0, now, then)))
        elif other := other_code(now, then):
            why = (
                f"{then.value:.4g} -> {now.value:.4g}, but {other} ran with other code than in the"
                " baseline: the attack may have changed, and not the method. Make the baseline's"
                " runs again with this code, or if it is meant, --update"
            )
            rows.append(Comparison(name, "cannot tell", why, now=now, then=then))
        elif then.allowed is None:
            why = f"{then.metric} has no margin: write one into the baseline"
            rows.append(Comparison(name, "cannot tell", why, now=now, then=then))
        elif (d := difference(now, then)) is None:
            why = _too_few(now, then)
            rows.append(Comparison(name, "cannot tell", why, now=now, then=then, seeds=ENOUGH))
        else:
            compared[name] = d, then.allowed, now, then
    levels = holm([d.p() for d, *_ in compared.values()])
    for (name, parts), level in zip(compared.items(), levels, strict=True):
        rows.append(_fine(_say(name, *parts, level)))
    return rows


def _fine(row: Comparison) -> Comparison:
    """The same, but what is fine by an attack that is not the installed one cannot be told.

    Nor what is fine by one that works less well than in the baseline; the same guesses do not.
    """
    if row.state != "fine" or row.now is None or row.then is None:
        return row
    why = outdated(row.now)
    if not why and not unchanged(row.now, row.then):
        why = weaker(row.now, row.then)
    return replace(row, state="cannot tell", reason=f"{row.reason}; {why}") if why else row


def _undecided(now: GateRow | None, then: GateRow, lost: str) -> str:
    """Why a row cannot be judged, or nothing."""
    if now is None:
        return "no such row now: run the same defenses and attacks"
    return blocked(now, then) or lost


def _too_few(now: GateRow, then: GateRow) -> str:
    there = f"seeds now: {len(now.scores)}, in the baseline: {len(then.scores)}"
    least = f"it takes at least {FEWEST_SEEDS} on each side, {ENOUGH} or more settle most rows"
    return f"{there}; {least}"


def _say(
    name: str, d: Difference, margin: float, now: GateRow, then: GateRow, level: float
) -> Comparison:
    state, low, high = judge(d, margin, level), d.lower(), d.upper()
    k, m = d.seeds
    seeds = f"{k} paired seeds" if d.paired else f"{k} against {m} seeds"
    moved = f"{then.value:.4g} -> {now.value:.4g}, worse by {d.d:+.3g} [{low:+.3g}, {high:+.3g}]"
    text = f"{moved}, margin {margin:.3g}, {seeds}"
    more = seeds_to_settle(d, margin, level) if state == "cannot tell" else None
    if state == "cannot tell" and more:
        text += f"; about {more} seeds on each side would settle it"
    elif state == "cannot tell":
        text += "; more than 200 seeds would be needed to settle it"
    shown: State = "loses utility" if state == "leaks more" and then.attack == UTILITY else state
    return Comparison(name, shown, text, d.d, low, high, now, then, more)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, p) for p in patterns)


def _known(patterns: Sequence[str], rows: Mapping[str, GateRow]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in rows):
            near = get_close_matches(pattern, rows, n=1, cutoff=0.3)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"no row is called {pattern!r}.{guess} `leakbench check` prints their names."
            )
