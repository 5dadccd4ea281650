"""What flags, rungs, stages and missing numbers are called on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakbench.judging import METHODS, Number, plain, words
from leakbench.results import Row

FLAGS = {
    "control_failed": "the attack fails even with nothing defended: too weak to judge",
    "dead_run": "dead run",
    "one_seed": "one seed: how training runs differ is not covered",
    "few_seeds": "two seeds",
    "few_units": "few units: rare leaks can be missed",
    "failed_units": "the attack failed on some units; they count as blind guesses",
    "oracle_prototypes": "the attack was given the true prototypes",
    "oracle_labels": "the attack was given the true labels",
    "probe": "probe: a message nobody sends",
    "loss_did_not_fall": "the attack's loss did not fall",
    "gradient_vanished": "the update is almost zero",
    "below_class_mean": "no better than the class mean",
    "restarts_disagree": "restarts disagree",
    "other_engine": "seeds ran on different engines",
    "stand_in_data": "stand-in data",
}
RUNGS = {
    "paper": "the paper's own",
    "transcript": "reads the record",
    "method": "knows the method",
    "public": "has public data",
}
ATTACKS = {"cascade": "best real attacker (cascade)", "any_attack": "worst case (any attack)"}
STAGES = {
    "untrained": "before training",
    "early": "early",
    "middle": "half way",
    "final": "at the end",
    "all": "all rounds",
}
PROBE = (
    "A probe is an update from a single image, made for this audit: nobody sends it. It says what"
    " one image would give away, and gives no verdict on the messages that are really sent."
)


def notes(flags: str) -> str:
    """Flags in words."""
    return "; ".join(FLAGS.get(f, f) for f in flags.split("|") if f) or "nothing to note"


def attack(row: Row) -> str:
    """The name of a row's attack."""
    return attack_words(str(row["attack"]))


def attack_words(name: str) -> str:
    """An attack's name in words."""
    return ATTACKS.get(name, name.replace("_", " "))


def number_text(metric: str, row: Number | None) -> str:
    """As in "0.94 (0.90 to 0.97)", or that there is none."""
    return "not run" if row is None else interval_text(metric, row.value, row.low, row.high)


def interval_text(metric: str, value: float, low: float, high: float) -> str:
    """A value with its interval, the unit once."""
    unit = words(metric).suffix
    first, a, b = (plain(metric, v).removesuffix(unit) for v in (value, low, high))
    return f"{first} ({a} to {b}){unit}"


def why_missing(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """missing.csv as sentences, one reason once: (reason, what it concerns)."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        who = METHODS.get(row["defense"], row["defense"])
        what = (
            " ".join(str(row[k]).replace("_", " ") for k in ("attack", "metric") if row[k])
            or "every number"
        )
        found.setdefault(str(row["reason"]), {})[f"{row['task']}: {who}, {what}"] = None
    return [(reason, list(whom)) for reason, whom in found.items()]


def megabytes(count: Any) -> str:
    """Bytes for people."""
    size = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
