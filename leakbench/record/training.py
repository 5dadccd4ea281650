"""train: run a federation into a run folder, or resume it; the folder ends in the same bytes either
way.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from leakbench.base import provenance
from leakbench.base.errors import BrokenFile, LeakbenchError, MethodError, UsageError
from leakbench.base.files import SCHEMA, digests, read_json, write_csv, write_json, write_tree
from leakbench.base.jobs import Progress
from leakbench.base.tree import Tree
from leakbench.federation.evaluate import Evaluations, evaluated
from leakbench.federation.federation import Federation
from leakbench.federation.task import TaskData
from leakbench.federation.utility import METRICS
from leakbench.record import checkpoint, private_data
from leakbench.record.budget import fitted
from leakbench.record.columns import RUN_DIAGNOSTICS, RUN_UTILITY
from leakbench.record.policy import Policy
from leakbench.record.recorder import Recorder
from leakbench.record.runspec import Parts, RunSpec, parts

CHECKPOINT_SECONDS = 10.0
# A method that keeps a model for every client has large ones: rounds take so many times as long as
# writing.
CHECKPOINT_SHARE = 20


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
    """Run ``spec`` into its folder below ``runs``; go on from the last checkpoint, skip what is
    complete.

    Raises:
        UsageError: the place cannot be written, or holds another run under this name.
        MethodError: the method broke its contract or diverged; run.json's status says so.
    """
    where = provenance.device(device)
    made = parts(spec)
    data = made.task.load()

    def federation(recorder: Recorder | None = None) -> Federation:
        how = {
            "seed": spec.seed,
            "engine": spec.engine,
            "wrappers": made.wrappers,
            "dtype": getattr(torch, spec.dtype),
        }
        return Federation(made.method, made.task, data, device=where, recorder=recorder, **how)

    spec = spec.model_copy(update={"record": fitted(spec.record, federation, spec.rounds, say)})
    folder = runs / spec.folder()
    if _complete(folder, spec):
        return Trained(folder, skipped=True)
    fed = federation(Recorder(folder, spec.rounds, spec.record))
    saved = checkpoint.saved(folder)  # if damaged, that is said before anything is written
    meta = _meta(spec, made, fed, where)
    write_json(folder / "run.json", {**meta, "status": "running"})
    try:
        scores = _rounds(
            fed, spec, folder, saved, made.task.evaluations, progress or (lambda *_: None)
        )
    except LeakbenchError as error:
        write_json(folder / "run.json", {**meta, "status": f"failed: {error}"})
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:  # a method's own fault
        write_json(
            folder / "run.json", {**meta, "status": f"failed: {type(error).__name__}: {error}"}
        )
        raise MethodError(f"{spec.folder()} failed: {type(error).__name__}: {error}.") from error
    _finish(fed, spec, folder, data, scores, meta, made)
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
    meta = read_json(folder / "run.json")
    found = meta.get("spec") if isinstance(meta, dict) else None
    if not isinstance(found, dict):
        raise BrokenFile(
            f"{folder / 'run.json'} is damaged (no 'spec'). Delete the folder to train this run"
            " anew."
        )
    ours = spec.model_dump(mode="json")
    if {k: v for k, v in found.items() if k != "attacks"} != {
        k: v for k, v in ours.items() if k != "attacks"
    }:
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
        write_json(folder / "run.json", {**meta, "spec": ours})
    return True


def _rounds(
    fed: Federation,
    spec: RunSpec,
    folder: Path,
    saved: tuple[Tree, Any] | None,
    times: int,
    progress: Progress,
) -> Evaluations:
    """All rounds that are not behind the last checkpoint."""
    at = evaluated(spec.rounds, times)
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
    bad = next(
        (
            f"{name} is {value}"
            for t, name, value in scores.diagnostics
            if t == fed.t and not abs(value) < float("inf")
        ),
        "",
    )
    if bad or not all(bool(v.isfinite().all()) for v in fed.model.values()):
        raise MethodError(
            f"training diverged by round {fed.t} ({bad or 'the model is not finite'}): lower lr or"
            " own_lr."
        )


def _meta(spec: RunSpec, made: Parts, fed: Federation, where: str) -> dict[str, Any]:
    facts = fed.facts
    return {
        "schema": SCHEMA,
        "id": spec.folder(),
        "spec": spec.model_dump(mode="json"),
        "method": made.method.display(),
        "hides": made.method.hides() or bool(made.wrappers),
        "distance": made.method.distance,
        "engine": fed.engine,
        "utility": {
            "metric": made.task.metric,
            "better": made.task.better,
            "chance": made.task.chance,
            "meaning": METRICS[made.task.metric].meaning.parameters(),
        },
        "facts": {
            "clients": facts.clients,
            "classes": facts.classes,
            "dim": facts.dim,
            "shape": list(facts.shape),
        },
        "stages": spec.record.stages(spec.rounds),
        "stand_in": made.task.stand_in,
        "test_data": _digest(fed.data.test.stored, fed.data.test.y),
        "sent": [],
        "missing": [],
        "files": {},
        "command": command(spec),
        **provenance.provenance(provenance.device_name(where), spec.dtype),
    }


def _finish(
    fed: Federation,
    spec: RunSpec,
    folder: Path,
    data: TaskData,
    scores: Evaluations,
    meta: dict[str, Any],
    made: Parts,
) -> None:
    """Everything that is written once, after the last round; run.json last."""
    rows = []
    for t, v in sorted(scores.scores.items()):
        e = METRICS[made.task.metric].estimate(v.double().tolist())
        rows.append(
            {
                "round": t,
                "metric": made.task.metric,
                "value": e.value,
                "low": e.low,
                "high": e.high,
                "n": e.n,
                "unit": e.unit,
            }
        )
    write_csv(folder / "utility.csv", RUN_UTILITY, rows)
    write_tree(
        folder / "utility.safetensors",
        {f"{t:06d}": v for t, v in scores.scores.items()},
        {"metric": made.task.metric},
    )
    write_csv(
        folder / "diagnostics.csv",
        RUN_DIAGNOSTICS,
        [dict(zip(RUN_DIAGNOSTICS, d, strict=True)) for d in scores.diagnostics],
    )
    write_tree(
        folder / "transcript" / "rounds.safetensors",
        fed.traffic.tensors(),
        {"columns": ["round", "sender", "receiver"]},
    )
    write_tree(
        folder / "known" / "aux_data.safetensors",
        {"x": data.aux.stored, "y": data.aux.y},
        {"task": spec.task.name},
    )
    private_data.write(folder / "truth" / "data.safetensors", data, spec.task)
    write_tree(folder / "checkpoint" / "model.safetensors", fed.model, {"round": fed.t})
    (folder / checkpoint.STATE).unlink(missing_ok=True)
    for part in folder.rglob(".*.part"):  # left where a process was killed while it wrote
        part.unlink()
    done = {
        "status": "done",
        "sent": fed.traffic.table(),
        "phases": fed.phases,
        "fallbacks": fed.fallbacks,
    }
    files = digests(folder, without=("attacks/", "checkpoint/", "run.json"))
    write_json(folder / "run.json", {**meta, **done, "files": files})


def _digest(*tensors: torch.Tensor) -> str:
    """SHA-256 of tensors' bytes: the gate asks whether utility was measured on the
    same test data.
    """
    sha = hashlib.sha256()
    for t in tensors:
        sha.update(t.detach().cpu().double().contiguous().numpy().tobytes())
    return sha.hexdigest()


def command(spec: RunSpec) -> str:
    """The command that makes this run again, from anywhere."""

    def values(prefix: str, params: dict[str, Any]) -> list[str]:
        return [
            w
            for k, v in params.items()
            for w in ("-s", f"{prefix}{k}={v if isinstance(v, str) else json.dumps(v)}")
        ]

    words = ["leakbench", "train", "-t", spec.task.name, "-d", spec.defense.name]
    words += [*values("", spec.defense.params), *values("task.", spec.task.params)]
    for w in spec.wrappers:
        words += ["-w", w.name, *values(f"{w.name}.", w.params)]
    words += values(
        "record.",
        {
            k: v
            for k, v in spec.record.parameters().items()
            if k != "name" and v != getattr(Policy(), k)
        },
    )
    for option in ("rounds", "engine", "dtype"):
        words += [f"--{option}", str(getattr(spec, option))]
    return shlex.join([*words, "--seeds", str(spec.seed), "--record", spec.record.name])
