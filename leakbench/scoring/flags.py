"""Flags: what a reader must know before believing a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leakbench.record import attack_code
from leakbench.record.columns import FLAGS
from leakbench.record.folders import AttackFolder
from leakbench.statistics.intervals import Estimate

FEW_UNITS, FEW_CLUSTERS = 50, 10
UNDERTRAINED, CURVE_UNKNOWN, ONE_SEED = "undertrained", "curve_unknown", "one_seed"
# Of a curve, not of a message: tables of leakage say it in a column beside their own flags.
OF_TRAINING = frozenset({UNDERTRAINED, CURVE_UNKNOWN})
OF_FEW_SEEDS = frozenset({ONE_SEED, "few_seeds"})
# Of all that a run gained, in the last quarter of its rounds (``leakbench.results.rise``). Who
# nears a limit exponentially and is past this has come nine tenths of the way.
STEEP = 0.1

# Decided by the attack on its own rows; a row over several seeds or attacks carries all of them.
CARRIED = frozenset({"oracle_prototypes", "oracle_labels", "gradient_vanished", "below_class_mean"})
CARRIED |= {"isolated", "submitted", "no_control", "weaker_observer"}
CARRIED |= {"restarts_disagree", "loss_did_not_fall", "stand_in_data"}
CARRIED |= {"unofficial_data", "outside", "mixed_code", "stale_run", "stale_attack"}
# With these an attack says of a guess that its search did not converge.
UNSETTLED = frozenset({"loss_did_not_fall", "restarts_disagree", "gradient_vanished"})
# Of one guess also this: it is a blank. Of a row it says how the guesses scored.
UNFOUND = UNSETTLED | {"below_class_mean"}

OPEN = UNSETTLED | {"failed_units"}  # a row says with these that there may be more to find
# With one of these a number says nothing of how much there is.
WEAK = OPEN | {"control_failed", "no_control"}


def ordered(flags: Iterable[str]) -> list[str]:
    """Each once, in the order of ``FLAGS``; names of a later version at the end."""
    names = set(flags) - {""}
    return [f for f in FLAGS if f in names] + sorted(names - set(FLAGS))


def join(flags: Iterable[str]) -> str:
    """Joined by `|`, ``ordered``."""
    return "|".join(ordered(flags))


def split_flags(flags: str) -> set[str]:
    """Inverse of ``join``."""
    return set(flags.split("|")) - {""}


def today(flags: str, attack: AttackFolder, run: Mapping[str, Any]) -> str:
    """The flags of a row, and whether ``attack`` was made by other code than is installed now.

    ``run``: the run.json of what it attacked.

    That is asked whenever a row is read: when it was scored nobody could know.
    """
    old = attack_code.stale(attack.meta["sources"], attack.name, run)
    return join({*split_flags(flags), attack_code.STALE} if old else split_flags(flags))


def of_seeds(count: int) -> set[str]:
    """One or two seeds speak of these runs, not of the method."""
    return {1: {ONE_SEED}, 2: {"few_seeds"}}.get(count, set())


def of_rises(rises: Iterable[float | None]) -> set[str]:
    """``rises``: of each run, how steep its utility is at its end; None where nobody can tell."""
    told = list(rises)
    steep = any(r is not None and r > STEEP for r in told)
    return ({UNDERTRAINED} if steep else set()) | ({CURVE_UNKNOWN} if None in told else set())


def of_units(clusters: Sequence[str], failed: Sequence[bool]) -> set[str]:
    """``clusters``: of every unit score; ``failed``: where the attack failed."""
    few = len(clusters) < FEW_UNITS or len(set(clusters)) < FEW_CLUSTERS
    return ({"few_units"} if few else set()) | ({"failed_units"} if any(failed) else set())


def control_failed(direction: str, floor: Estimate, control: Estimate) -> bool:
    """Is the control's interval not beyond the floor's, in the direction that leaks?"""
    return not (control.low > floor.high if direction == "up" else control.high < floor.low)
