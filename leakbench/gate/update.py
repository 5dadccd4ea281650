"""`leakbench check --update`: the new baseline, what moved and why, and what it can see.

It refuses what would let a row leak more, or say less, without anybody having said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leakbench.base.errors import UsageError
from leakbench.base.reason import Reason
from leakbench.gate.attackers import lost, other_attack
from leakbench.gate.baseline import Baseline
from leakbench.gate.bounds import ROUNDING
from leakbench.gate.comparison import (
    BLOCKING,
    blocked,
    fewer_units,
    flagged,
    moved,
    nearly,
    outdated,
    unchanged,
    weaker,
)
from leakbench.gate.gate import check, fits, known_names
from leakbench.gate.limits import merged
from leakbench.gate.looks import default_looks
from leakbench.gate.outcome import CANNOT_TELL, FINE, LEAKS_MORE, CheckResult, LimitOutcome
from leakbench.gate.outcome_words import whole_reason
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
    unfinished: Sequence[str] = (),
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
        unfinished: runs that have no rows, in words.

    Raises:
        UsageError: there is nothing to write, a name fits no row, or two rows have the same name.
    """
    if unfinished:
        undone = tuple(f"{'refused':13} {said}" for said in unfinished)
        return None, CheckResult(CANNOT_TELL, undone, unfinished=tuple(unfinished))
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
        accepts = " ".join(f"--accept {name}" for name in worse)
        refused.append(f"{'':13} If all of that is meant: --update {accepts}")
    rows_then = () if verdict is None else verdict.rows
    if refused:
        return None, CheckResult(LEAKS_MORE, tuple(refused), rows_then)
    rows = []
    for name, row in both.here.items():
        before = both.there.get(name, row)
        by_name = row.named or before.named or fits(name, named)
        crept = _accepted(row, before, named=fits(name, accept))
        told = {"margin": before.allowed, "named": by_name, "accepted": crept}
        rows.append(row.model_copy(update=told))
    kept = [r for n, r in both.there.items() if n not in both.here and not fits(n, accept)]
    known = {r.configuration.key: r.called or r.label for r in [*kept, *rows]}
    every, looked = labelled([*rows, *kept], known), looks or old.looks or _looks(rows)
    fresh = Baseline.of(every, held, looked, terms or old.terms)
    stayed = {r.name for r in kept}
    seen = [r for r in fresh.rows if r.gated and r.name not in stayed]
    said = (
        *_moves(both, asked),
        *(f"kept          {r.name}: not among these runs; --accept drops it" for r in kept),
        *foreseen(seen),
        *_looked(fresh.looks),
        *_open(verdict),
        _written(rows, kept),
    )
    return fresh, CheckResult(FINE, said, rows_then)


def _written(rows: Sequence[GateRow], kept: Sequence[GateRow]) -> str:
    """How many rows, and which of them gate."""
    gated = [r for r in (*rows, *kept) if r.gated]
    names = ", ".join(sorted({r.attack for r in gated})) or "none is named"
    rest = len(rows) + len(kept) - len(gated)
    return (
        f"{len(rows)} rows written, {len(kept)} kept: {len(gated)} gate ({names}), {rest} stand"
        " there to be read, and gate where --gate names them"
    )


def _looked(looks: Sequence[int]) -> list[str]:
    """When rows will be looked at; with one look seeds cannot be spent on what is undecided."""
    if len(looks) > 1:
        return [f"looks         after {', '.join(map(str, looks))} seeds"]
    return [
        "looks         once: a baseline of eight seeds or more lets a build spend seeds on what it"
        " cannot tell"
    ]


def _looks(rows: Sequence[GateRow]) -> tuple[int, ...]:
    return default_looks(min(len(r.scores) for r in rows))


def _open(verdict: CheckResult | None) -> list[str]:
    """The limits of which it cannot be told whether these runs keep them."""
    told: Sequence[LimitOutcome] = () if verdict is None else verdict.limits
    return [f"{o.state:13} {o.setting}: {o.limit}: {o.reason}" for o in told if o.state != "kept"]


def _beyond(verdict: CheckResult | None) -> list[str]:
    """The limits that these runs do not keep: a baseline is no way around them."""
    told: Sequence[LimitOutcome] = () if verdict is None else verdict.limits
    out = []
    for o in told:
        if o.state == "breached":
            out.append(
                f"refused       {o.setting}: {o.limit} is breached by {o.reason}. If that is meant,"
                " change the limit"
            )
    return out


def _worse(both: Matched, verdict: CheckResult | None, asked: _Asked) -> dict[str, str]:
    """What is said of each gated row that would be worse, or say less, and that nobody accepted."""
    judged = {} if verdict is None else {r.name: r for r in verdict.rows}
    lines = {}
    for name in sorted(both.there.keys() & both.here.keys()):
        now, then = both.here[name], both.there[name]
        if not (then.gated or fits(name, asked.named)) or fits(name, asked.accept):
            continue
        sure = name in judged and judged[name].state in ("leaks more", "loses utility")
        before = then.value if then.accepted is None else then.accepted
        since = then.model_copy(update={"value": before})
        meant = f"If that is meant: --update --accept {name}"
        if sure or moved(now, since) > (then.allowed or 0) / 2:
            move = f"{before:.4g} -> {now.value:.4g}{_because(now, then, both)}"
            lines[name] = f"refused       {name}: {move} is worse than the baseline. {meant}"
        elif less := _says_less(name, both, asked.accept):
            lines[name] = f"refused       {name}: {less}. {meant}"
    return lines


def _says_less(name: str, both: Matched, accept: Sequence[str]) -> str:
    """Of how many seeds, units or attacks fewer the row would be, or nothing."""
    now, then = both.here[name], both.there[name]
    seeds, had = len(now.scores), len(then.scores)
    if seeds < had:
        return f"{seeds} of {had} seeds would be left of it"
    fewer = None if then.is_utility else fewer_units(now, then)
    accepted = [n for n in both.there if fits(n, accept)]
    why = fewer or _known_less(now, then)
    why = why or lost(then, both.here, both.there, accepted, both.swapped)
    return whole_reason([why]) if why else ""


def _known_less(now: GateRow, then: GateRow) -> Reason | None:
    """Why the row would be a weaker standard than it was: a flag, or an attack that works less."""
    if why := flagged(now, now, [flag for flag in BLOCKING if flag not in then.flags]):
        return why
    if unchanged(now, then) or nearly(now, then):
        return None
    return outdated(now) or weaker(now, then)


def _accepted(row: GateRow, before: GateRow, *, named: bool) -> float | None:
    """The value that somebody accepted last, where the row has crept away from it."""
    known = before.value if before.accepted is None else before.accepted
    since = before.model_copy(update={"value": known})
    # The file has six digits of a value; what differs beyond them has not moved.
    return None if named or moved(row, since) <= ROUNDING * max(abs(known), 1.0) else known


def _moves(both: Matched, asked: _Asked) -> list[str]:
    """A line for every gated row that is another than before, and why."""
    out, same = [], 0
    for name, now in sorted(both.here.items()):
        then = both.there.get(name)
        if then is None or not (then.gated or fits(name, asked.named)):
            continue
        if unchanged(now, then) or nearly(now, then):
            same += 1
            continue
        accepted = " (accepted)" if fits(name, asked.accept) else ""
        why = _because(now, then, both) or ": " + _otherwise(now, then, both)
        out.append(f"moved         {name}: {then.value:.4g} -> {now.value:.4g}{accepted}{why}")
    return out + [f"{same} rows unchanged"] * bool(same)


def _because(now: GateRow, then: GateRow, both: Matched) -> str:
    """What of the setting changed, as in " (sigma 0.3 -> 0.1)"."""
    told = both.changes.get(then.label, ())
    return f" ({', '.join(told)})" if told else ""


def _otherwise(now: GateRow, then: GateRow, both: Matched) -> str:
    """Why a row moved whose setting is the same."""
    if why := blocked(now, then) or other_attack(now, then, both):
        return whole_reason([why])
    if len(now.scores) != len(then.scores):
        return f"of {len(now.scores)} seeds, and before of {len(then.scores)}"
    if now.scores.keys() != then.scores.keys():
        return "other seeds than before"
    commits = [r.provenance.get("commit") or ["?"] for r in (then, now)]
    if commits[0] != commits[1]:
        old, new = (_short(of) for of in commits)
        return f"other code made the runs ({old} -> {new})"
    return "the same commit: an uncommitted change, other data, or another machine"


def _short(commits: Sequence[object]) -> str:
    return ", ".join(str(commit)[:7] for commit in commits)
