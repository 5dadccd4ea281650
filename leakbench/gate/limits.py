"""`--limit 'p_leak<=0.2'`: is a number above what may be, whatever it was before?

A limit on a metric holds for every attack on real messages and for the cascade, at every stage. A
pattern of row names (`release/cascade/*/p_leak/*<=0.2`) says otherwise.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from leakbench.base.errors import UsageError, alike, among
from leakbench.base.reason import Reason, reason
from leakbench.gate.comparison import FEWER, flagged, outdated
from leakbench.gate.looks import levels_of_looks, looks_of, next_seeds
from leakbench.gate.outcome import Kept, LimitOutcome
from leakbench.gate.row import GateRow
from leakbench.gate.row_names import fits_pattern
from leakbench.results.number import ANY
from leakbench.statistics.amounts import Amount, mean_amount
from leakbench.statistics.differences import FEWEST_SEEDS, LEVEL

_FORM = re.compile(r"(.+?)\s*(<=|>=)\s*([^<>=]+)")
_ORDER: tuple[Kept, ...] = ("breached", "cannot tell", "kept")


@dataclass(frozen=True)
class Limit:
    """``rows``: a metric or a pattern of row names; ``most``: the largest value, or the least."""

    text: str
    rows: str
    sign: str
    most: float

    def over(self, value: float) -> float:
        """How far ``value`` is beyond the limit; negative within it."""
        return value - self.most if self.sign == "<=" else self.most - value


@dataclass(frozen=True)
class _Held:
    """One row under one limit, at every look that it has reached."""

    row: GateRow
    looks: tuple[tuple[float, Amount], ...]  # (share of the level, the value)

    def ps(self, limit: Limit) -> list[tuple[float, float]]:
        """(share of the level, p of being beyond the limit) at each look."""
        return [(share, value.p(limit.most)) for share, value in self.looks]


def parse(text: str) -> Limit:
    """A limit from its text.

    Raises:
        UsageError: it is not of the form METRIC<=VALUE or PATTERN<=VALUE.
    """
    found = _FORM.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError
        value = float(found[3])
        if not math.isfinite(value):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--limit {text!r}: expected METRIC<=VALUE, with one of `leakbench list metrics`, or a"
            " pattern of row names in its place; >= for what leaks when it falls, and for utility."
        ) from None
    return Limit(text.strip(), found[1].strip(), found[2], value)


def held(
    limits: Sequence[str],
    here: Mapping[str, GateRow],
    there: Mapping[str, GateRow],
    looks: Sequence[int] = (),
) -> tuple[LimitOutcome, ...]:
    """Every limit on every setting that it speaks of; all of them together keep the level.

    Args:
        limits: their texts.
        here: every row now, by name.
        there: every row of the baseline, by name.
        looks: after how many seeds a row may be looked at.

    Raises:
        UsageError: a limit is not well formed, or speaks of no row now or then.
    """
    parsed = [parse(text) for text in dict.fromkeys(limits)]
    every = [
        (limit, name, _held(here[name], looks)) for limit in parsed for name in _rows(limit, here)
    ]
    for limit in parsed:
        _known(limit, here, there)
    worst = _beyond(every)
    grouped: dict[tuple[str, str], list[tuple[_Held, bool]]] = defaultdict(list)
    for (limit, _, one), beyond in zip(every, worst, strict=True):
        grouped[limit.text, one.row.label].append((one, beyond))
    out = []
    for limit in parsed:
        labels = {r.label for r in here.values()} | {r.label for r in there.values()}
        for label in sorted(labels):
            rows = grouped.get((limit.text, label), [])
            gone = [n for n in _rows(limit, there) if there[n].label == label and n not in here]
            why = None if gone else _unattacked(limit, label, rows, here)
            if why:
                out.append(LimitOutcome(limit.text, label, "cannot tell", (why,), rows=len(rows)))
            elif rows or gone:
                out.append(_outcome(limit, label, rows, gone, there, looks))
    return tuple(sorted(out, key=lambda o: (_ORDER.index(o.state), o.setting, o.limit)))


def _unattacked(
    limit: Limit, label: str, rows: Sequence[tuple[_Held, bool]], here: Mapping[str, GateRow]
) -> Reason | None:
    """Why nothing is known of a setting, or of a part of its seeds; None where it is breached.

    What nobody attacked keeps no limit.
    """
    own = [r for r in here.values() if r.label == label]
    trained = {seed for r in own if r.is_utility for seed in r.units.scores}
    if own and all(r.is_utility for r in own) and "/" not in limit.rows:
        of_utility = any(alike(r.metric, limit.rows) for r in own)
        return None if of_utility else reason("nobody_attacked")
    if any(beyond for _, beyond in rows):
        return None
    for one, _ in rows:
        if lacking := tuple(sorted(trained - one.row.units.scores.keys())):
            return reason("seeds_unattacked", row=one.row.short, seeds=lacking)
    return None


def _rows(limit: Limit, rows: Mapping[str, GateRow]) -> list[str]:
    """The names of the rows that it speaks of.

    Raises:
        UsageError: it is on the side on which they leak less.
    """
    out = []
    for name, row in rows.items():
        pattern = "/" in limit.rows
        if pattern:
            fits = fits_pattern(name, limit.rows)
        else:
            real = not row.probe and row.attacker.name != ANY
            fits = real and alike(row.metric, limit.rows)
        if not fits:
            continue
        right = "<=" if row.worse == "up" else ">="
        if limit.sign != right:
            what = "utility is lost" if row.is_utility else "it leaks"
            raise UsageError(
                f"--limit {limit.text!r}: {row.metric} is worse ({what}) when it goes {row.worse};"
                f" write {limit.rows}{right}{limit.most:g}."
            )
        out.append(name)
    return out


def _known(limit: Limit, *sides: Mapping[str, GateRow]) -> None:
    if any(_rows(limit, rows) for rows in sides):
        return
    metrics = sorted({r.metric for rows in sides for r in rows.values()})
    if among(limit.rows, metrics) in metrics:
        raise UsageError(
            f"--limit {limit.text!r}: only probes or any_attack measure {limit.rows} here; name"
            f" their rows with a pattern, for example '*/{limit.rows}/*{limit.sign}{limit.most:g}'."
        )
    near = get_close_matches(limit.rows, metrics, n=1, cutoff=0.4)
    guess = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(metrics) or 'none'}."
    raise UsageError(f"--limit {limit.text!r}: no row here is measured by {limit.rows!r}. {guess}")


def _held(row: GateRow, looks: Sequence[int]) -> _Held:
    seeds = sorted(row.units.scores)
    out = []
    for count, share in looks_of(looks, len(seeds)):
        found = mean_amount(row.units.only(seeds[:count]).scores, **row.scoring)
        if found is not None:
            out.append((share, found))
    return _Held(row, tuple(out))


def _beyond(every: Sequence[tuple[Limit, str, _Held]]) -> list[bool]:
    """Which of the rows are beyond their limits at any look, all together at the level."""
    ps = [one.ps(limit) for limit, _, one in every]
    out = []
    for looks, levels in zip(ps, levels_of_looks(ps), strict=True):
        out.append(any(p < level for (_, p), level in zip(looks, levels, strict=True)))
    return out


def _outcome(
    limit: Limit,
    label: str,
    rows: Sequence[tuple[_Held, bool]],
    gone: Sequence[str],
    there: Mapping[str, GateRow],
    looks: Sequence[int],
) -> LimitOutcome:
    beyond = [one for one, is_beyond in rows if is_beyond]
    if beyond:
        worst = max(beyond, key=lambda one: limit.over(one.row.value.value))
        return _say(limit, label, "breached", worst, len(rows))
    if gone:
        why = (reason("no_rows", row=min(gone), more=len(gone) - 1),)
        return LimitOutcome(limit.text, label, "cannot tell", why, min(gone), rows=len(rows))
    doubtful = ((one, _doubt(limit, one)) for one, _ in rows)
    open_rows = [(one, why) for one, why in doubtful if why]
    if not open_rows:
        worst = max((one for one, _ in rows), key=lambda one: limit.over(_worst(one)))
        return _say(limit, label, "kept", worst, len(rows))
    worst, doubt = max(open_rows, key=lambda both: limit.over(_worst(both[0])))
    said = _say(limit, label, "cannot tell", worst, len(rows), doubt)
    if doubt.code != "reaches_beyond":
        return said
    return replace(said, more=next_seeds(worst.row, there.get(worst.row.name), looks))


def _doubt(limit: Limit, one: _Held) -> Reason | None:
    """Why a row that is not beyond the limit does not keep it for sure."""
    if why := flagged(one.row, one.row) or outdated(one.row):
        return why
    if "weaker_observer" in one.row.flags:
        return reason("observer_weaker")
    if "no_control" in one.row.flags:
        return reason("not_shown_to_work")
    own = one.row.units
    lost = sum(own.failed.values()) + sum(own.unsettled.values())
    units = sum(map(len, own.scores.values()))
    if lost > FEWER * units:
        return reason("units_lost", lost=lost, units=units)
    if len(own.scores) < FEWEST_SEEDS or not one.looks:
        return reason("few_to_keep", seeds=len(own.scores), least=FEWEST_SEEDS)
    kept = [limit.over(value.below(LEVEL * share)) <= 0 for share, value in one.looks]
    if one.row.worse == "down":
        kept = [limit.over(value.above(LEVEL * share)) <= 0 for share, value in one.looks]
    # What an early look has kept, a later one or the seeds beyond it may not.
    within = limit.over(one.row.value.value) <= 0 and limit.over(_worst(one)) <= 0
    return None if any(kept) and within else reason("reaches_beyond")


def _worst(one: _Held) -> float:
    """The end of the interval on the side that leaks."""
    if not one.looks:
        return one.row.value.value
    value = one.looks[-1][1]
    return value.below(LEVEL) if one.row.worse == "up" else value.above(LEVEL)


def _say(
    limit: Limit, label: str, state: Kept, one: _Held, count: int, *doubts: Reason
) -> LimitOutcome:
    row = one.row
    low = one.looks[-1][1].above(LEVEL) if one.looks else None
    high = one.looks[-1][1].below(LEVEL) if one.looks else None
    held = reason("held", row=row.short, value=row.value.value, low=low, high=high)
    told = (limit.text, label, state, (held, *doubts))
    return LimitOutcome(*told, row.name, row.value.value, low, high, row, count)


def merged(*given: Iterable[str]) -> tuple[str, ...]:
    """The limits of a file and of a command, each once.

    Raises:
        UsageError: one is not well formed.
    """
    return tuple(dict.fromkeys(parse(text).text for texts in given for text in texts))
