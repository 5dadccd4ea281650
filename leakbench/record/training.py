"""Runs a federation into a run folder, or resumes it; the folder ends in the same bytes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakbench.base import locks, provenance
from leakbench.base.errors import BrokenFile, LeakbenchError, MethodError, UsageError
from leakbench.base.files import digests, read_sealed, write_csv, write_sealed, write_tree
from leakbench.base.jobs import Progress
from leakbench.base.tree import Tree
from leakbench.federation.evaluate import Evaluations, evaluated
from leakbench.federation.federation import Federation
from leakbench.federation.task import TaskData
from leakbench.federation.utility import METRICS
from leakbench.record import checkpoint, private_data
from leakbench.record.budget import fitted
from leakbench.record.columns import RUN_DIAGNOSTICS, RUN_UTILITY
from leakbench.record.recorder import Recorder
from leakbench.record.run_json import described
from leakbench.record.runspec import Parts, RunSpec, parts

CHECKPOINT_SECONDS = 10.0
# A method that keeps a model for every client has large ones: training takes so many times as long
# as writing them.
CHECKPOINT_SHARE = 20
# What a method raises by a fault of its own.
FAULTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Trained:
    """Where a run lies, and whether it was there already."""

    path: Path
    skipped: bool


def train(
    spec: RunSpec,
    runs: Path,
    *,
    device: str = "auto",
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Trained:
    """Run ``spec`` into its folder below ``runs``: from its last checkpoint; not if it is complete.

    Raises:
        UsageError: the place cannot be written, or holds another run under this name, or somebody
            else trains or attacks it.
        MethodError: the method broke its contract or diverged; run.json's status says so.
    """
    where = provenance.device(device)
    made = parts(spec)
    data = made.task.load()

    dtype = getattr(torch, spec.dtype)

    def federation(recorder: Recorder | None = None) -> Federation:
        how: dict[str, Any] = {"seed": spec.seed, "engine": spec.engine, "wrappers": made.wrappers}
        how |= {"dtype": dtype, "device": where, "recorder": recorder}
        return Federation(made.method, made.task, data, **how)

    spec = spec.model_copy(update={"record": fitted(spec.record, federation, spec.rounds, say)})
    folder = runs / spec.folder()
    if _complete(folder, spec):
        return Trained(folder, skipped=True)
    with locks.training(folder):
        if _complete(folder, spec):  # somebody else has trained it meanwhile
            return Trained(folder, skipped=True)
        return _trained(spec, folder, made, data, federation, where, progress)


def _trained(
    spec: RunSpec,
    folder: Path,
    made: Parts,
    data: TaskData,
    federation: Callable[[Recorder], Federation],
    where: str,
    progress: Progress | None,
) -> Trained:
    """Run ``spec`` into ``folder``, which nobody else writes to."""
    fed = federation(Recorder(folder, spec.rounds, spec.record))
    saved = checkpoint.saved(folder)  # if damaged, that is said before anything is written
    meta = described(spec, made, fed, where)
    write_sealed(folder / "run.json", {**meta, "status": "running"})
    at = evaluated(spec.rounds, made.task.evaluations)
    try:
        scores = _rounds(fed, spec, folder, saved, at, progress or (lambda *_: None))
    except LeakbenchError as error:
        write_sealed(folder / "run.json", {**meta, "status": f"failed: {error}"})
        raise
    except FAULTS as error:
        why = f"{type(error).__name__}: {error}"
        write_sealed(folder / "run.json", {**meta, "status": f"failed: {why}"})
        raise MethodError(f"{spec.folder()} failed: {why}.") from error
    _finish(fed, spec, folder, data, scores, meta)
    return Trained(folder, skipped=False)


def _complete(folder: Path, spec: RunSpec) -> bool:
    """Is this very run there already? Its list of attacks is brought up to date."""
    if not (folder / "run.json").exists():
        if (folder / "checkpoint").exists():
            raise BrokenFile(
                f"{folder} has a checkpoint but no run.json. Delete the folder to train this run"
                " anew."
            )
        return False
    meta = read_sealed(folder / "run.json")
    found = meta.get("spec")
    if not isinstance(found, dict):
        raise BrokenFile(
            f"{folder / 'run.json'} is damaged (no 'spec'). Delete the folder to train this run"
            " anew."
        )
    ours = spec.model_dump(mode="json")
    if {**found, "attacks": None} != {**ours, "attacks": None}:
        raise UsageError(
            f"{folder} holds another run (its spec differs). Train into another folder with -o."
        )
    if meta.get("status") != "done":
        return False
    if "export" in meta:
        raise UsageError(
            f"{folder} is an export of this run, which lacks the truth. Train into another folder"
            " with -o."
        )
    # Attacks would read fewer messages than were sent, and leakage would look smaller than it is.
    if "excerpt" in meta:
        raise UsageError(
            f"{folder} is an excerpt of this run, which lacks a part of what was sent. Train into"
            " another folder with -o."
        )
    # A command without attacks keeps those that are stored.
    if ours["attacks"] and found.get("attacks") != ours["attacks"]:
        write_sealed(folder / "run.json", {**meta, "spec": ours})
    return True


def _rounds(
    fed: Federation,
    spec: RunSpec,
    folder: Path,
    saved: tuple[Tree, Any] | None,
    at: set[int],
    progress: Progress,
) -> Evaluations:
    """All rounds that are not behind the last checkpoint; utility is measured ``at`` some."""
    if saved:
        scores = checkpoint.restore(fed, *saved)
    else:
        scores = Evaluations()
        fed.begin()
    last, took = time.monotonic(), 0.0
    while fed.t < spec.rounds:
        fed.step()
        if fed.t in at:
            scores.add(fed)
            _finite(fed, scores)
        progress(fed.t, spec.rounds, "training")
        begun = time.monotonic()
        # Between rounds only: an interrupted round is run again.
        if begun - last > max(CHECKPOINT_SECONDS, CHECKPOINT_SHARE * took):
            checkpoint.write(fed, folder, scores)
            last = time.monotonic()
            took = last - begun
    fed.end()
    return scores


def _finite(fed: Federation, scores: Evaluations) -> None:
    now = [(name, value) for t, name, value in scores.diagnostics if t == fed.t]
    bad = [f"{name} is {value}" for name, value in now if not math.isfinite(value)]
    if not all(bool(v.isfinite().all()) for v in fed.model.values()):
        bad.append("the model is not finite")
    if bad:
        raise MethodError(f"training diverged by round {fed.t} ({bad[0]}): lower lr or own_lr.")


def utility_rows(metric: str, scores: Mapping[int, Tensor]) -> list[dict[str, Any]]:
    """The lines of utility.csv, from {round: scores of the test units}."""
    rows = []
    for t, v in sorted(scores.items()):
        e = METRICS[metric].estimate(v.double().tolist())
        rows.append({"round": t, "metric": metric, **{k: getattr(e, k) for k in RUN_UTILITY[2:]}})
    return rows


def _finish(
    fed: Federation,
    spec: RunSpec,
    folder: Path,
    data: TaskData,
    scores: Evaluations,
    meta: dict[str, Any],
) -> None:
    """Everything that is written once, after the last round; run.json last."""
    metric = fed.task.metric
    write_csv(folder / "utility.csv", RUN_UTILITY, utility_rows(metric, scores.scores))
    measured = {f"{t:06d}": v for t, v in scores.scores.items()}
    write_tree(folder / "utility.safetensors", measured, {"metric": metric})
    diagnostics = [dict(zip(RUN_DIAGNOSTICS, d, strict=True)) for d in scores.diagnostics]
    write_csv(folder / "diagnostics.csv", RUN_DIAGNOSTICS, diagnostics)
    traffic, head = fed.traffic.tensors(), {"columns": ["round", "sender", "receiver"]}
    write_tree(folder / "transcript" / "rounds.safetensors", traffic, head)
    private_data.write_aux(folder / "known" / "aux_data.safetensors", data, spec.task)
    private_data.write(folder / "truth" / "data.safetensors", data, spec.task)
    write_tree(folder / "checkpoint" / "model.safetensors", fed.model, {"round": fed.t})
    (folder / checkpoint.STATE).unlink(missing_ok=True)
    for part in folder.rglob(".*.part"):  # left where a process was killed while it wrote
        if part.is_file():  # not the guesses of an attack, for which `attack` cares
            part.unlink()
    ran = {"phases": fed.phases, "fallbacks": fed.fallbacks}
    done = {"status": "done", "sent": fed.traffic.table(), **ran}
    files = digests(folder, without=("attacks/", checkpoint.STATE.as_posix(), "run.json"))
    write_sealed(folder / "run.json", {**meta, **done, "files": files})
