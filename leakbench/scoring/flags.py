"""Flags: what a reader must know before believing a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leakbench.record.columns import FLAGS

FEW_UNITS, FEW_CLUSTERS = 50, 10
COLLAPSED_COSINE, COLLAPSED_RATIO = 0.99, 0.01

# Decided by the attack on its own rows; a row over several seeds or attacks carries all of them.
CARRIED = frozenset({"oracle_prototypes", "oracle_labels", "gradient_vanished", "below_class_mean"})
CARRIED |= {"restarts_disagree", "loss_did_not_fall", "stand_in_data"}


def join(flags: Iterable[str]) -> str:
    """Joined by `|`, each once, in the order of ``FLAGS``; names of a later version at the end."""
    names = set(flags) - {""}
    return "|".join([f for f in FLAGS if f in names] + sorted(names - set(FLAGS)))


def split(flags: str) -> set[str]:
    """Inverse of ``join``."""
    return set(flags.split("|")) - {""}


def of_seeds(count: int) -> set[str]:
    """One or two seeds speak of these runs, not of the method."""
    return {1: {"one_seed"}, 2: {"few_seeds"}}.get(count, set())


def of_units(clusters: Sequence[str], failed: Sequence[bool]) -> set[str]:
    """``clusters``: of every unit score; ``failed``: where the attack failed."""
    few = len(clusters) < FEW_UNITS or len(set(clusters)) < FEW_CLUSTERS
    return ({"few_units"} if few else set()) | ({"failed_units"} if any(failed) else set())


def control_failed(row: Mapping[str, Any]) -> bool:
    """Is the control's interval not beyond the floor's, in the direction that leaks?"""
    if row["leaks"] == "up":
        return not row["control_low"] > row["floor_high"]
    return not row["control_high"] < row["floor_low"]


def dead(
    final: Mapping[str, Any],
    utility: Mapping[str, Any],
    diagnostics: Sequence[Mapping[str, Any]],
    distance: str,
) -> str:
    """Why a run is dead, or "".

    Args:
        final: the last line of the run's utility.csv (low, high).
        utility: run.json's (metric, better, chance).
        diagnostics: lines of the run's diagnostics.csv (round, name, value).
        distance: how its prototypes are compared: "cosine", "euclidean", or "" without prototypes.
    """
    up = utility["better"] == "up"
    if not (final["low"] > utility["chance"] if up else final["high"] < utility["chance"]):
        return f"{utility['metric']} is not beyond chance"
    name = {"cosine": "prototype_mean_cosine", "euclidean": "prototype_distance_ratio"}.get(
        distance
    )
    lines = [d for d in diagnostics if d["name"] == name]
    if not lines:
        return ""
    last = max(lines, key=lambda d: d["round"])["value"]
    if distance == "cosine" and last > COLLAPSED_COSINE:
        return f"its prototypes have become one direction (mean cosine {last:.3f})"
    if distance == "euclidean" and last < COLLAPSED_RATIO:
        return f"its prototypes have become one point (distance ratio {last:.4f})"
    return ""
