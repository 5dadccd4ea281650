"""Did the same attacks run now and then? A number of others says nothing of the method."""

from __future__ import annotations

from leakbench.base.reason import Reason, reason
from leakbench.gate.comparing import other_code
from leakbench.gate.naming import Matched, changed_attack
from leakbench.gate.row import GateRow


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
                return reason("other_parameters", attack=before.attack, changes=changes)
    return other_code(now, then)


def extra(now: GateRow, then: GateRow, both: Matched) -> Reason | None:
    """Which attacks entered now, and did not then; None where the baseline does not say."""
    if then.entered is None or now.entered is None:
        return None
    old = _behind(then) | {b for (label, _), b in both.swapped.items() if label == then.label}
    fresh = sorted(_behind(now) - old)
    names = tuple(dict.fromkeys(folder.rpartition("-")[0] or folder for folder in fresh))
    return reason("attacked_by_more", attacks=names) if names else None


def _behind(row: GateRow) -> set[str]:
    """The folders of the attacks that it is made from."""
    if row.is_utility:
        return set()
    if not row.joins:
        return {row.attacked_by}
    return {a for attacks in (row.entered or {}).values() for a in attacks}


def _ran(folder: str, of: GateRow, rows: dict[str, GateRow]) -> GateRow | None:
    own = [r for r in rows.values() if r.label == of.label and not (r.joins or r.is_utility)]
    return next((r for r in own if r.attacked_by == folder), None)
