"""What `leakbench check` compares: every pooled number of these runs.

Each comes with its unit scores and the hashes it rests on.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.base.files import SCHEMA, all_inside, file_digest, inside
from leakbench.base.reason import Reason, reason
from leakbench.base.spec import canonical
from leakbench.gate.outcome import LimitOutcome
from leakbench.gate.row import UTILITY, GateRow, SeedUnits, TrainingRecord
from leakbench.record import origin
from leakbench.record.attack_code import PARTS
from leakbench.record.folders import Run
from leakbench.record.placing import GUESS
from leakbench.results import paired
from leakbench.results.number import (
    Attacker,
    Evaluated,
    Measured,
    Number,
    PooledNumber,
    Unit,
    Utility,
)
from leakbench.results.settings import Setting, policy

_CLAIM = "proven epsilon<=claimed epsilon"
_FINAL_MODEL = "checkpoint/model.safetensors"


def gate_rows(settings: Iterable[Setting]) -> list[GateRow]:
    """Of every setting with a complete run: each number that judges, and the final utility.

    Raises:
        BrokenFile: the final model lies outside its run folder.
    """
    out = []
    for setting in settings:
        if setting.final:
            out.append(_utility(setting, setting.final))
            truths = {run.path: _Truth(run) for run in setting.runs}
            for number in (n for n in setting.numbers if n.meaning.judges):
                out.append(_leakage(setting, number, truths))
    return out


def undone_runs(settings: Iterable[Setting]) -> list[Reason]:
    """Every run that failed or is not finished, and so has no rows."""
    others = [run for setting in settings for run in setting.others]
    out = []
    for run in sorted(others, key=lambda r: str(r.path)):
        failed = "" if run.failure is None else run.status
        out.append(reason("run_undone", run=str(run.path), failed=failed))
    return out


def broken_claims(settings: Iterable[Setting]) -> list[LimitOutcome]:
    """Every run of which attacks prove more than its wrappers claim: each is a limit breached."""
    out = []
    for setting, p in ((s, p) for s in settings for p in s.privacy if p.broken):
        proven: dict[str, Any] = {"value": p.proven, "low": p.proven}
        about = f"{setting.name} (seed {p.seed})"
        why = p.breach.model_copy(update={"seeds": ()})
        out.append(LimitOutcome(_CLAIM, about, "breached", (why,), rows=1, **proven))
    return out


class _Truth:
    """All that is true of a run, found once for its many rows.

    ``hash`` stands for all its truth files; ``files`` are these.

    Raises:
        BrokenFile: one lies outside the run's folder.
    """

    def __init__(self, run: Run) -> None:
        own = {name: sha for name, sha in run.meta["files"].items() if name.startswith("truth/")}
        self.hash = hashlib.sha256(canonical(own).encode()).hexdigest()
        self.files = all_inside(run.path, sorted(own))


def leakage_row(number: Number, training: TrainingRecord, units: SeedUnits, **more: Any) -> GateRow:
    """A row of the number, wherever that was read; ``more``: what else is known of it."""
    return GateRow(
        **{name: getattr(number, name) for name in PooledNumber.model_fields},
        floor=number.floor.value,
        control=number.control.value,
        control_low=number.control.low,
        control_high=number.control.high,
        training=training,
        units=units,
        **more,
    )


def utility_row(final: Utility, training: TrainingRecord, units: SeedUnits, **more: Any) -> GateRow:
    """The same of a setting's utility."""
    return GateRow(
        configuration=final.configuration,
        attacker=Attacker(name=UTILITY, rung=""),
        meaning=final.meaning,
        stage="final",
        probe=False,
        value=final.value,
        flags=final.flags,
        training=training,
        units=units,
        **more,
    )


def _leakage(setting: Setting, number: Number, truths: Mapping[Path, _Truth]) -> GateRow:
    seeds = number.parts
    scores, failed = dict[int, dict[str, float]](), dict[int, int]()
    clusters = dict[str, str]()
    for m in seeds:
        named = _named(m.units["attack"])
        scores[m.run.seed] = {name: u.score for name, u in named.items()}
        failed[m.run.seed] = sum(u.failed for u in named.values())
        clusters |= {name: u.cluster for name, u in named.items() if u.cluster != u.name}
    units = SeedUnits(
        scores=scores,
        clusters=clusters,
        failed=failed,
        unsettled={m.run.seed: paired.unsettled(m) for m in seeds},
        guesses={m.run.seed: sorted(m.guesses.values()) for m in seeds},
        truths={m.run.seed: [truths[m.run.path].hash] for m in seeds},
        code=_code(seeds),
        entered=_entered(number),
    )
    training = _training(setting, [m.run for m in seeds])
    return leakage_row(number, training, units, files=_files(seeds, truths))


def _utility(setting: Setting, final: Utility) -> GateRow:
    """The model's and the test data's hashes stand for guess and truth."""
    runs = [e.run for e in setting.evaluated]
    models = {r.seed: inside(r.path, _FINAL_MODEL) for r in runs}
    kept = {seed: (file_digest(path), path) for seed, path in models.items() if path.is_file()}
    units = SeedUnits(
        scores={e.run.seed: _scores(e) for e in setting.evaluated},
        guesses={seed: [sha] for seed, (sha, _) in kept.items()},
        truths={r.seed: [r.meta["test_data"]] for r in runs if r.meta.get("test_data")},
    )
    files = {sha: (path,) for sha, path in kept.values()}
    return utility_row(final, _training(setting, runs), units, files=files)


def _entered(number: Number) -> dict[int, list[str]] | None:
    """The attacks behind `cascade` and `any_attack`; other numbers are made from none."""
    if not number.attacker.made:
        return None
    return {m.run.seed: sorted(m.code) for m in number.parts}


def _code(seeds: Sequence[Measured]) -> dict[str, str]:
    """One digest for each attack, of all its codes where seeds differ in it (one was submitted).

    The method that an attack replays is not in it: it is what the gate is about.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for name, of in (item for m in seeds for item in m.code.items()):
        known = {part: of[part] for part in (*PARTS, *origin.opened_files(of)) if part in of}
        if known:
            found[name].add(canonical(known))
    out = {}
    for name in sorted(found):
        told = "".join(sorted(found[name]))
        out[name] = hashlib.sha256(told.encode()).hexdigest()[:16]
    return out


def _files(seeds: Sequence[Measured], truths: Mapping[Path, _Truth]) -> dict[str, tuple[Path, ...]]:
    """Where guesses and truths lie, by the hashes that stand for them."""
    out = {}
    for m in seeds:
        out[truths[m.run.path].hash] = truths[m.run.path].files
        for folder, sha in m.guesses.items():
            out[sha] = (inside(m.run.path, f"attacks/{folder}/{GUESS}"),)
    return out


def _training(setting: Setting, runs: Sequence[Run]) -> TrainingRecord:
    spec = setting.one.spec
    task = {f"task.{k}": v for k, v in spec["task"]["params"].items()}
    made = {name: _distinct(runs, name) for name in ("commit", "device")}
    return TrainingRecord(
        called=setting.called,
        setting={"rounds": spec["rounds"], **task},
        record=policy(setting.one),
        engine="|".join(_distinct(runs, "engine")),
        dtype="|".join(_distinct(runs, "dtype")),
        run_schema=max(int(r.meta.get("schema", SCHEMA)) for r in runs),
        provenance={**made, "dirty": any(bool(r.meta.get("dirty")) for r in runs)},
    )


def _distinct(runs: Sequence[Run], name: str) -> list[str]:
    return sorted({str(r.meta[name]) for r in runs if name in r.meta})


def _scores(evaluated: Evaluated) -> dict[str, float]:
    """By test unit; a metric that is no mean of units (EER) has one number per seed."""
    last = evaluated.evaluations[-1]
    if last.scores is None:
        return {UTILITY: last.value}
    return {str(i): float(v) for i, v in enumerate(last.scores)}


def _named(units: Sequence[Unit]) -> Mapping[str, Unit]:
    """By name; a unit that is there several times (one client in several rounds) is numbered."""
    seen: dict[str, int] = defaultdict(int)
    out = {}
    for unit in units:
        seen[unit.name] += 1
        times = seen[unit.name]
        out[unit.name if times == 1 else f"{unit.name}#{times}"] = unit
    return out
