"""What a complete run says of itself, held against what its own files and the installed code say.

A digest shows that a file was changed; who seals it again is found here, as far as a number can be
had a second time for little. Methods and tasks that are not installed say nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakbench.base import registry
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.meaning import Meaning
from leakbench.federation.traffic import AGGREGATOR, SERVER
from leakbench.federation.utility import METRICS
from leakbench.record import attack_code, origin, run_json
from leakbench.record.columns import Row
from leakbench.record.folders import AttackFolder, Run
from leakbench.record.policy import Policy
from leakbench.record.runspec import Parts, RunSpec, parts
from leakbench.record.shapes import ROOMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRAFFIC = "transcript/rounds.safetensors"
# What verdicts rest on, of a metric; the rest are words.
JUDGED = ("direction", "low", "high", "unit", "share", "scale", "margin", "as_good", "public")
ROUNDING = 1e-9


def same(a: float, b: float) -> bool:
    """Is it the same number, but for rounding?"""
    return math.isclose(a, b, rel_tol=ROUNDING, abs_tol=ROUNDING)


def check_run(run: Run) -> None:
    """A complete run contradicts neither its own files nor the installed task and method.

    Raises:
        BrokenFile: one sentence with the first difference, both values in it.
    """
    for room in ROOMS:
        run.within(room)
    made = _installed(run)
    _stated(run, made)
    _stages(run)
    if TRAFFIC in run.meta["files"]:
        _traffic(run)


def check_attack(run: Run, folder: AttackFolder) -> dict[str, bool]:
    """An attack folder says of its attack and metrics what the installed ones say.

    Metrics of another version are not compared, nor is what an attack of other code declares: its
    numbers are flagged.

    Returns:
        {metric: is its number exact, without an interval?} of the installed attack.

    Raises:
        BrokenFile: one sentence with the first difference, both values in it.
    """
    where = folder.path / "attack.json"
    try:
        attack = registry.load_plugin("attacks", folder.name).build(
            folder.meta["params"], folder.name
        )
    except UsageError:  # somebody else's, or of another version
        return {}
    here, there = attack_code.guessed_by(attack, run.spec), folder.meta["sources"]
    ours = {"order": attack.order, "threat": attack.threat.parameters()}
    for key, value in ours.items():
        if all(there.get(part) == code for part, code in here.items()):
            _equal(where, key, folder.meta[key], value)
    for metric in attack.metrics:
        about = folder.meta["metrics"].get(metric.name)
        if isinstance(about, Mapping) and about.get("version") == metric.meaning.version:
            _means(where, metric.name, about, metric.meaning)
    return {metric.name: bool(metric.exact) for metric in attack.metrics}


def _installed(run: Run) -> Parts | None:
    try:
        return parts(RunSpec.build(run.spec, str(run.path / "run.json")))
    except UsageError:
        return None


def _stated(run: Run, made: Parts | None) -> None:
    """Facts of task and method."""
    if made is None:
        return
    where, meta, task = run.path / "run.json", run.meta, made.task
    ours: dict[str, Any] = {
        "hides": made.hides,
        "distance": made.method.distance,
        "stand_in": task.stand_in,
        "facts": run_json.facts_told(task.facts(made.method)),
    }
    if origin.is_outside(meta):  # what covers its messages is its owner's word
        ours["hides"] = any(line["covered"] for line in meta["sent"])
    for key, value in ours.items():
        _equal(where, key, meta.get(key), value)
    said = meta["utility"]
    for key in ("metric", "better", "chance"):
        _equal(where, f"utility.{key}", said[key], getattr(task, key))
    about, meaning = said.get("meaning"), METRICS[task.metric].meaning
    if isinstance(about, Mapping) and about.get("version") == meaning.version:
        _means(where, task.metric, about, meaning)


def _means(where: Path, name: str, about: Mapping[str, Any], ours: Meaning) -> None:
    try:
        said = Meaning.recorded(name, about)
    except ValueError as error:
        raise BrokenFile(f"{where} is damaged (metric {name}: {error}). Make it again.") from None
    for key in JUDGED:
        _equal(where, f"{name}.{key}", getattr(said, key), getattr(ours, key))


def _stages(run: Run) -> None:
    """Which rounds were audited, by the policy; an excerpt may have lost some."""
    ours = Policy.build(run.spec["record"], "record").stages(run.spec["rounds"])
    said = run.meta["stages"]
    if "excerpt" in run.meta:
        ours = {stage: t for stage, t in ours.items() if stage in said}
    _equal(run.path / "run.json", "stages", said, ours)


def check_utility(run: Run, rows: Sequence[Row], scores: Mapping[str, NDArray[Any]]) -> None:
    """The lines of utility.csv are what ``scores`` give, by round, up to the last one.

    After it there may be one more, of what the method leaves.

    Raises:
        BrokenFile: one sentence with the first difference, both values in it.
    """
    where, metric = run.path / "utility.csv", run.meta["utility"]["metric"]
    rounds, last = [r["round"] for r in rows], run.spec["rounds"]
    ends = rounds[-1:] == [last] or rounds[-2:] == [last, last + 1]
    named = all(name.isdecimal() for name in scores)
    if not named or rounds != sorted({int(t) for t in scores}) or not ends:
        raise BrokenFile(
            f"{where} is damaged (it has rounds {_few(rounds)}, of a run of {last} rounds with"
            f" scores of {_few(sorted(scores))}). Train the run again."
        )
    for row in rows:
        each = scores.get(f"{row['round']:06d}")
        if each is None or not _plain(each):
            name = run.path / "utility.safetensors"
            raise BrokenFile(
                f"{name} is damaged (no scores of round {row['round']}). Train the run again."
            )
        if metric not in METRICS:
            continue
        found = METRICS[metric].estimate(each.astype(np.float64).tolist())
        for key in ("value", "low", "high", "n"):
            if not same(row[key], getattr(found, key)):
                raise BrokenFile(
                    f"{where} is damaged ({key} of round {row['round']} is {row[key]}, its test"
                    f" units give {getattr(found, key)}). Train the run again."
                )


def _plain(scores: NDArray[Any]) -> bool:
    floats = scores.dtype in (np.float32, np.float64)
    return floats and scores.ndim == 1 and len(scores) > 0 and bool(np.isfinite(scores).all())


def _traffic(run: Run) -> None:
    """The list of all messages against `sent`, and against the number of rounds."""
    where, last = run.path / TRAFFIC, run.spec["rounds"]
    table = run.arrays(TRAFFIC)
    for kind, rows in table.items():
        if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype != np.int32:
            raise BrokenFile(
                f"{where} is damaged ({kind} is no list of rounds, senders and receivers). Train"
                " the run again."
            )
        if len(rows) and not 0 <= int(rows[:, 0].min()) <= int(rows[:, 0].max()) <= last + 1:
            raise BrokenFile(
                f"{where} is damaged ({kind} was sent in round {int(rows[:, 0].max())} of a run of"
                f" {last}). Train the run again."
            )
    if "excerpt" in run.meta:  # of which `sent` tells more than is there
        return
    sent = run.meta["sent"]
    _equal(where, "its kinds", sorted(table), sorted({line["kind"] for line in sent}))
    # Of a kind that is both broadcast and sent one by one the list does not tell which was which.
    lines = Counter((s["kind"], s["sender"], s["receiver"].split("/")[0]) for s in sent)
    for line in sent:
        if lines[line["kind"], line["sender"], line["receiver"].split("/")[0]] > 1:
            continue
        found = _sent(table.get(line["kind"]), line["sender"], line["receiver"])
        for key, ours in found.items():
            what = f"sent.{line['kind']} from {line['sender']}: {key}"
            _equal(run.path / "run.json", what, line[key], ours)


def _sent(rows: NDArray[Any] | None, sender: str, receiver: str) -> dict[str, int]:
    """{"rounds", "messages"} of one line of `sent`, from the list of all messages."""
    if rows is None:
        return {"rounds": 0, "messages": 0}
    by = {"server": rows[:, 1] == SERVER, "aggregator": rows[:, 1] == AGGREGATOR}
    of = rows[by.get(sender, rows[:, 1] >= 0)]
    to = {"server": of[:, 2] == SERVER, "aggregator": of[:, 2] == AGGREGATOR}
    of = of[to.get(receiver, of[:, 2] >= 0)]
    rounds = len(set(of[:, 0].tolist()))
    # A broadcast is one message, and several of a round cannot be told from its receivers.
    return {"rounds": rounds} if receiver == "client/*" else {"rounds": rounds, "messages": len(of)}


def _equal(where: Path, key: str, came: Any, ours: Any) -> None:
    alike = (
        same(came, ours) if isinstance(came, float) and isinstance(ours, float) else came == ours
    )
    if not alike:
        told, found = short_value(came), short_value(ours)
        raise BrokenFile(f"{where} says {key} is {told}, but it is {found}. Make it again.")


def short_value(value: Any) -> str:
    """A value as a sentence repeats it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _few(rounds: Iterable[object]) -> str:
    return ", ".join(map(str, list(rounds)[:5])) or "none"
