"""Runs a federation into a run folder, or resumes it; the folder ends in the same bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakbench.base import locks, provenance
from leakbench.base.errors import LeakbenchError, MethodError, UsageError
from leakbench.base.files import digests, read_meta, write_csv, write_sealed, write_tree
from leakbench.base.float32 import whole_float32
from leakbench.base.interrupts import heed
from leakbench.base.jobs import Progress
from leakbench.base.raised import is_fault, own_files, raised_text
from leakbench.base.thread_count import threads
from leakbench.base.tree import Tree
from leakbench.federation.choosing import shared_by
from leakbench.federation.evaluate import Evaluations, evaluated
from leakbench.federation.federation import Federation
from leakbench.federation.network import built
from leakbench.federation.task_data import TaskData
from leakbench.federation.utility import METRICS
from leakbench.record import audited, checkpoint, clearing, existing_run, private_data, rounds
from leakbench.record import origin as origins
from leakbench.record.budget import fitted
from leakbench.record.columns import RUN_DIAGNOSTICS, RUN_UTILITY
from leakbench.record.recorder import Recorder
from leakbench.record.run_json import run_described
from leakbench.record.runspec import Parts, RunSpec, parts

CHECKPOINT_SECONDS = 10.0
# A method that keeps a model for every client has large ones: training takes so many times as long
# as writing them.
CHECKPOINT_SHARE = 20


@dataclass(frozen=True)
class Trained:
    """Where a run lies, and whether it was there already."""

    path: Path
    skipped: bool


def train_run(
    spec: RunSpec,
    runs: Path,
    *,
    device: str = "auto",
    restart: bool = False,
    mixed: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Trained:
    """Run ``spec`` into its folder below ``runs``: from its last checkpoint; not if it is complete.

    Args:
        spec: what is run.
        runs: the folder that holds run folders.
        device: auto, cpu or cuda.
        restart: train it anew, whatever is there; the folder's content and its attacks are deleted.
        mixed: go on with a checkpoint of other code, too; run.json then says whose rounds are
            whose, and every row is flagged.
        progress: called with (rounds done, rounds, what).
        say: is told what somebody should know who waits for the run.

    Raises:
        UsageError: the place cannot be written, or holds another run under this name, or one that
            other code or other data began, or somebody else trains or attacks it.
        MethodError: the method broke its contract or diverged; run.json's status says so.
    """
    if restart and mixed:
        raise UsageError("restart and mixed exclude each other: a run is begun anew or gone on.")
    where = provenance.device(device)
    made = parts(spec)
    data = made.task.examined(made.task.load())
    shared = _shared(made, data)

    def federation(recorder: Recorder | None = None) -> Federation:
        return made.federation(data, device=where, recorder=recorder)

    try:
        with threads(shared), whole_float32():
            policy = fitted(spec.record, federation, spec.rounds, say)
    except (Exception, SystemExit) as error:  # its first round, run to see how much it sends
        if not is_fault(error):
            raise
        why = raised_text(error, own_files(made.method, made.task, *made.wrappers))
        raise MethodError(f"{spec.folder()} failed: {why}.") from error
    spec = spec.model_copy(update={"record": policy})
    for sentence in _absent(spec, made):
        say(sentence)
    folder = runs / spec.folder()
    now = origins.origin_of(spec, data, where)
    if existing_run.complete_there(folder, spec, restart=restart, say=say):
        existing_run.differences_said(folder, now["data"], say)
        return Trained(folder, skipped=True)
    with locks.training_lock(folder):
        # Somebody else just did it?
        if not restart and existing_run.complete_there(folder, spec, restart=False, say=say):
            return Trained(folder, skipped=True)
        spec = existing_run.with_what_stands_beside(folder, spec, say)
        # If damaged, or another's, that is said before anything is written.
        saved = None if restart else checkpoint.last_checkpoint(folder)
        begun_by = _begun_by(folder, saved, now, mixed=mixed)
        if data.unofficial:
            say(f"{data.unofficial}; every row of this run is flagged unofficial_data")
        clearing.clear_rounds(
            folder, whole=restart, after=int(saved[0]["federation"]["t"]) if saved else -1
        )
        count = int(saved[1]["origin"]["threads"]) if saved else shared
        with threads(count), whole_float32():
            now["threads"] = torch.get_num_threads()
            now = (origins.opened_files(saved[1]["origin"]) if saved else {}) | now
            fed = federation(Recorder(folder, spec.rounds, spec.record))
            meta = run_described(spec, made, fed, where, origins.origin_facts(now, begun_by, data))

            def keep(scores: Evaluations) -> None:
                made_by = now | origins.spec_opened(meta["spec"])
                checkpoint.write_checkpoint(fed, folder, scores, origin=made_by, begun_by=begun_by)

            _train(fed, spec, folder, saved, meta, keep, progress or (lambda *_: None), data)
    return Trained(folder, skipped=False)


def _shared(made: Parts, data: TaskData) -> int:
    """How many threads share a sum of this run."""
    facts = made.task.facts(made.method)
    module = built(made.task, made.method, facts)
    most = min(made.method.batch, max(data.sizes))
    weights = sum(v.numel() for v in module.parameters())
    return shared_by(most * data.train.stored[0].numel(), weights)


def _train(
    fed: Federation,
    spec: RunSpec,
    folder: Path,
    saved: tuple[Tree, Any] | None,
    meta: dict[str, Any],
    keep: Callable[[Evaluations], None],
    progress: Progress,
    data: TaskData,
) -> None:
    """The rounds that are left; run.json says at any time how it stands."""
    write_sealed(folder / "run.json", {**meta, "status": "running"})
    try:
        scores = _rounds(fed, spec, saved, keep, progress)
    except LeakbenchError as error:
        write_sealed(folder / "run.json", {**meta, "status": f"failed: {error}"})
        raise
    except (Exception, SystemExit) as error:  # somebody's code may raise anything, or leave
        if not is_fault(error):
            raise
        heed()
        why = raised_text(error, own_files(fed.method, fed.task, *fed.wrappers))
        write_sealed(folder / "run.json", {**meta, "status": f"failed: {why}"})
        raise MethodError(f"{spec.folder()} failed: {why}.") from error
    _finish(fed, spec, folder, data, scores, meta)


def _begun_by(
    folder: Path, saved: tuple[Tree, Any] | None, now: Mapping[str, Any], *, mixed: bool
) -> list[dict[str, Any]]:
    """The origins of the rounds behind a checkpoint that are not ``now``'s, each with its last.

    Raises:
        UsageError: there is one that may not be gone on with, or was not asked to be.
    """
    if not saved:
        return []
    tree, meta = saved
    then, past = meta["origin"], list(meta["begun_by"])
    differs = origins.unlike_parts(then, now)
    if not differs:
        return past
    if not mixed or set(differs) & set(origins.UNMIXED):
        raise UsageError(origins.refusal(folder, then, now))
    told = {k: v for k, v in then.items() if k != "run"}  # its name holds the seed
    return [*past, {**told, "until": int(tree["federation"]["t"])}]


def _rounds(
    fed: Federation,
    spec: RunSpec,
    saved: tuple[Tree, Any] | None,
    keep: Callable[[Evaluations], None],
    progress: Progress,
) -> Evaluations:
    """All rounds that are not behind the last checkpoint."""
    if saved:
        scores = checkpoint.restore(fed, *saved)
    else:
        scores = Evaluations()
        fed.begin()
    last, took = time.monotonic(), 0.0

    def between() -> None:
        nonlocal last, took
        progress(fed.t, spec.rounds, "training")
        begun = time.monotonic()
        # Between rounds only: an interrupted round is run again.
        if begun - last > max(CHECKPOINT_SECONDS, CHECKPOINT_SHARE * took):
            keep(scores)
            last = time.monotonic()
            took = last - begun

    rounds.run_rounds(
        fed, spec.rounds, evaluated(spec.rounds, fed.task.evaluations), scores, between
    )
    return scores


def utility_rows(metric: str, scores: Mapping[int, Tensor]) -> list[dict[str, Any]]:
    """The lines of utility.csv, from {round: scores of the test units}."""
    rows = []
    for t, v in sorted(scores.items()):
        e = METRICS[metric].estimate(v.double().tolist())
        rows.append({"round": t, "metric": metric, **{k: getattr(e, k) for k in RUN_UTILITY[2:]}})
    return rows


def diagnostic_rows(scores: Evaluations) -> list[dict[str, Any]]:
    """The lines of diagnostics.csv."""
    return [dict(zip(RUN_DIAGNOSTICS, d, strict=True)) for d in scores.diagnostics]


def missing_of_run(
    spec: RunSpec, made: Parts, folder: Path, sent: set[str]
) -> list[dict[str, str]]:
    """What run.json says is missing of a run in ``folder``, whose clients sent the kinds ``sent``.

    What the recording policy kept nothing of, for nobody can attack it; and who took no part.
    """
    kept: set[str] = set()
    for path in sorted((folder / "transcript").glob("round-*.safetensors")):
        kept |= {m["kind"] for m in read_meta(path)["messages"] if m["sender"] != "server"}
    why = "no message of kind {} was kept, so none was attacked: train with --record all"
    reasons = [*map(why.format, sorted(sent - kept)), *_absent(spec, made)]
    return audited.missing_lines(reasons)


def _absent(spec: RunSpec, made: Parts) -> list[str]:
    """What the record will lack of the clients that it names, a sentence each."""
    clients = made.task.facts(made.method).clients
    gone = audited.audited_lacking(spec.record, made.method, clients, spec.rounds, spec.seed)
    return audited.gone_sentences(gone)


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
    write_csv(folder / "diagnostics.csv", RUN_DIAGNOSTICS, diagnostic_rows(scores))
    traffic, head = fed.traffic.tensors(), {"columns": ["round", "sender", "receiver"]}
    write_tree(folder / "transcript" / "rounds.safetensors", traffic, head)
    private_data.write_known(folder, data, spec)
    private_data.write_private_data(folder / "truth" / "data.safetensors", data, spec)
    checkpoint.leave(fed, folder)
    (folder / checkpoint.STATE).unlink(missing_ok=True)
    for part in folder.rglob(".*.part"):  # left where a process was killed while it wrote
        if part.is_file():  # not the guesses of an attack, for which `attack` cares
            part.unlink()
    ran = {"phases": fed.phases, "fallbacks": fed.fallbacks}
    sent = {kind for kind, sender, _ in fed.traffic.totals if sender == "client"}
    missing = missing_of_run(spec, parts(spec), folder, sent)
    done = {"status": "done", "sent": fed.traffic.table(), "missing": missing, **ran}
    done["sources"] = meta["sources"] | origins.spec_opened(meta["spec"])
    files = digests(folder, without=("attacks/", checkpoint.STATE.as_posix(), "run.json"))
    write_sealed(folder / "run.json", {**meta, **done, "files": files})
