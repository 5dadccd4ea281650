"""Which attacks stand behind a row now and then: are they the same, fewer, or more?

With the strongest left out a method would look safer than it is; a number of other attacks says
nothing of the method.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leakbench.base.reason import Reason, reason
from leakbench.gate.change import changed_attack
from leakbench.gate.comparison import other_code
from leakbench.gate.row import GateRow
from leakbench.gate.row_names import Matched


def less_than_then(
    then: GateRow,
    here: Mapping[str, GateRow],
    there: Mapping[str, GateRow],
    accepted: Iterable[str] = (),
    swapped: Mapping[tuple[str, str], str] | None = None,
) -> Reason | None:
    """Why a row says less than it did then.

    Args:
        then: the row of the baseline.
        here: every row now, by name.
        there: every row of the baseline, by name.
        accepted: names of rows of the baseline whose attacks may be missing.
        swapped: (SETTING, an attack's folder then) -> now, where its parameters changed.
    """
    now = here.get(then.name)
    if now is None or then.is_utility:
        return None
    dropped = {there[name].attacked_by for name in accepted}
    dropped |= {old for setting, old in swapped or {} if setting == then.label}
    less = _attacks(now, then, here, there, dropped) if then.attacker.made else None
    return less or _seeds(now, then, here)


def _attacks(
    now: GateRow,
    then: GateRow,
    here: Mapping[str, GateRow],
    there: Mapping[str, GateRow],
    dropped: set[str],
) -> Reason | None:
    """Which attack entered then, and does not now."""
    asked = [r for r in _alike(then, there) if not r.attacker.made]
    ran = {r.attacked_by for r in _alike(then, here)}
    entered = _entered(now, then)
    for attack in sorted(_must_enter(then, asked, ran) - dropped):
        row = next((r.name for r in asked if r.attacked_by == attack), then.name)
        if attack not in ran:
            return reason("not_run_now", row=row)
        if entered is not None and attack not in entered:
            return reason("entered_less", row=row)
        failed = any("control_failed" in r.flags for r in here.values() if r.name == row)
        if entered is None and failed:
            return reason("failed_control", row=row)
    return None


def _must_enter(then: GateRow, asked: Iterable[GateRow], ran: set[str]) -> set[str]:
    """The attacks that were in it; an older row does not say which, so all that may have been.

    Of these one whose control failed need not enter, but it must have been run.
    """
    if then.units.entered is not None:
        return {attack for attacks in then.units.entered.values() for attack in attacks}
    fit = [r for r in asked if then.attacker.name == "any_attack" or r.attacker.rung != "paper"]
    return {
        r.attacked_by for r in fit if "control_failed" not in r.flags or r.attacked_by not in ran
    }


def _entered(now: GateRow, then: GateRow) -> set[str] | None:
    """The attacks that are in it in every seed, or in each that they were in then and in new ones.

    None where it is not known.
    """
    if now.units.entered is None:
        return None
    here, then_in = now.units.entered, then.units.entered or {}
    out = set()
    for attack in set[str]().union(*here.values()):
        asked = {*here} - {*then_in} | _seeds_of(attack, then_in)
        if asked <= _seeds_of(attack, here) or {*here} == _seeds_of(attack, here):
            out.add(attack)
    return out


def _seeds_of(attack: str, entered: Mapping[int, Iterable[str]]) -> set[int]:
    return {seed for seed, attacks in entered.items() if attack in attacks}


def _seeds(now: GateRow, then: GateRow, here: Mapping[str, GateRow]) -> Reason | None:
    """Which seeds were trained now and are in the baseline, but have no number now."""
    gained = [r for r in here.values() if r.is_utility and r.label == now.label]
    trained = {seed for r in gained for seed in r.units.scores}
    lacking = tuple(sorted(trained & then.units.scores.keys() - now.units.scores.keys()))
    return reason("seeds_not_attacked", seeds=lacking) if lacking else None


def _alike(then: GateRow, rows: Mapping[str, GateRow]) -> list[GateRow]:
    """Those that ask the same question."""
    return [r for r in rows.values() if (r.label, r.asked) == (then.label, then.asked)]


def other_attack(now: GateRow, then: GateRow, both: Matched) -> Reason | None:
    """Which attack ran with other parameters or other code, so that the numbers are not of one.

    One that finds more would make the method look worse, and one that finds less better.
    """
    for old in sorted(_behind(then)):
        new = both.swapped.get((then.label, old))
        if new is not None:
            before, after = _ran(old, then, both.there), _ran(new, now, both.here)
            if before is not None and after is not None:
                changes = changed_attack(before, after)
                return reason("other_parameters", attack=before.attacker.name, changes=changes)
    return other_code(now, then)


def extra(now: GateRow, then: GateRow, both: Matched) -> Reason | None:
    """Which attacks entered now, and did not then; None where the baseline does not say."""
    if then.units.entered is None or now.units.entered is None:
        return None
    old = _behind(then) | {b for (label, _), b in both.swapped.items() if label == then.label}
    fresh = sorted(_behind(now) - old)
    names = tuple(dict.fromkeys(folder.rpartition("-")[0] or folder for folder in fresh))
    return reason("attacked_by_more", attacks=names) if names else None


def _behind(row: GateRow) -> set[str]:
    """The folders of the attacks that it is made from."""
    if row.is_utility:
        return set()
    if not row.attacker.made:
        return {row.attacked_by}
    return {a for attacks in (row.units.entered or {}).values() for a in attacks}


def _ran(folder: str, of: GateRow, rows: dict[str, GateRow]) -> GateRow | None:
    own = (r for r in rows.values() if r.label == of.label and r.attacks)
    return next((r for r in own if r.attacked_by == folder), None)
