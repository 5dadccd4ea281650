"""The columns of every table, in their order. People script against them; docs/formats.md says what each one holds."""

from __future__ import annotations

RESULTS: tuple[str, ...] = (
    *("run", "task", "defense", "defense_params", "wrappers", "seed", "attack", "attack_params", "rung", "observer", "knowledge"),
    *("stage", "round", "probe", "metric", "leaks", "value", "low", "high", "interval", "n", "unit", "floor", "floor_low", "floor_high"),
    *("control", "control_low", "control_high", "failed", "flags", "engine", "device", "dtype", "version", "commit"),
)
TRADEOFF: tuple[str, ...] = (
    *("task", "defense", "defense_params", "wrappers", "seeds", "utility_metric", "utility", "utility_low", "utility_high", "chance"),
    *("attack", "attack_params", "rung", "observer", "knowledge", "stage", "round", "probe", "metric", "leaks"),
    *("value", "low", "high", "interval", "n", "unit", "floor", "floor_low", "floor_high", "control", "control_low", "control_high"),
    *("flags", "on_front", "claimed", "claimed_low", "claimed_high", "claimed_source"),
)
UTILITY: tuple[str, ...] = (
    *("task", "defense", "defense_params", "wrappers", "seeds", "rounds", "metric", "statistic", "value", "low", "high", "n", "chance", "flags"),
    *("claimed", "claimed_low", "claimed_high", "claimed_source"),
)
MISSING: tuple[str, ...] = ("task", "defense", "defense_params", "attack", "metric", "reason")
DIAGNOSTICS: tuple[str, ...] = ("run", "round", "name", "value")
UNITS: tuple[str, ...] = ("role", "metric", "round", "probe", "unit", "cluster", "score", "failed", "accepted")

# In a run folder.
RUN_UTILITY: tuple[str, ...] = ("round", "metric", "value", "low", "high", "n", "unit")
RUN_DIAGNOSTICS: tuple[str, ...] = ("round", "name", "value")

FLOATS = frozenset(
    ("value", "low", "high", "floor", "floor_low", "floor_high", "control", "control_low", "control_high", "score"),
)
WHOLE = frozenset(("seed", "round", "n", "failed"))
BOOLEANS = frozenset(("probe", "accepted"))

RUNGS: tuple[str, ...] = ("paper", "transcript", "method", "public")  # the attacker's strength, weakest first
STAGES: tuple[str, ...] = ("untrained", "early", "middle", "final", "all", "curve")
FLAGS: tuple[str, ...] = (
    *("control_failed", "dead_run", "one_seed", "few_seeds", "few_units", "failed_units", "oracle_prototypes", "oracle_labels", "probe"),
    *("loss_did_not_fall", "gradient_vanished", "below_class_mean", "restarts_disagree", "other_engine", "stand_in_data"),
)
