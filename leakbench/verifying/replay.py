"""The first rounds trained again into another folder, and compared byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from leakbench.base import provenance
from leakbench.base.files import file_digest, inside, read_tree
from leakbench.base.jobs import Progress
from leakbench.base.thread_count import threads
from leakbench.base.tree import flat
from leakbench.federation.evaluate import Evaluations, evaluated
from leakbench.federation.federation import Federation
from leakbench.record import checkpoint
from leakbench.record.columns import RUN_DIAGNOSTICS
from leakbench.record.folders import Run, typed_rows
from leakbench.record.messages import round_file
from leakbench.record.origin import is_outside
from leakbench.record.recorder import Recorder
from leakbench.record.rounds import advance
from leakbench.record.rounds import end as finish
from leakbench.record.runspec import RunSpec
from leakbench.record.training import diagnostic_rows
from leakbench.results.recomputed import short_value
from leakbench.verifying import same
from leakbench.verifying.final import DIAGNOSTICS, SCORES, federation
from leakbench.verifying.finding import (
    ELSEWHERE,
    LAST_BITS,
    Finding,
    compared,
    differs,
    holds,
    unchecked,
)

ROOMS = ("transcript", "control", "known", "truth")
TRAFFIC = "transcript/rounds.safetensors"


def replayed(run: Run, rounds: int, progress: Progress) -> Iterator[Finding]:
    """Findings of the first ``rounds`` rounds, of all of them and of what follows the last one.

    Raises:
        UsageError: the task's data are not on this machine.
    """
    if is_outside(run.meta):
        yield unchecked("transcript", f"the first {rounds} rounds, trained again", ELSEWHERE)
        return
    for kind in ("excerpt", "export"):
        if kind in run.meta:
            why = f"an {kind} does not hold every message of a round, and cannot be trained again"
            yield unchecked("transcript", f"the first {rounds} rounds, trained again", why)
            return
    with TemporaryDirectory(prefix="leakbench-verify-") as name:
        folder = Path(name)
        # The last bits depend on how many threads share a sum.
        with threads(int(run.meta.get("machine", {}).get("threads", torch.get_num_threads()))):
            fed, scores = _trained(run, folder, rounds, progress)
        whole = rounds >= run.spec["rounds"]
        last = run.spec["rounds"] + 1 if whole else rounds
        yield from _compared(run, folder, last)
        yield _traffic(run, fed, last)
        yield from _measured(run, scores)
        if whole:
            yield from _left(run, folder, fed)
            yield _sent(run, fed)


def beyond(run: Run, rounds: int) -> list[Finding]:
    """What a replay of ``rounds`` rounds does not tell, and nothing else does."""
    if rounds >= run.spec["rounds"]:
        return []
    since = f", of round {rounds + 1} and later" if rounds else ""
    listed = {name.partition("/")[0] for name in run.meta["files"]}
    there = [room for room in ROOMS if room in listed]
    why = f"give --replay ROUNDS, up to {run.spec['rounds']}"
    why = ELSEWHERE if is_outside(run.meta) else why
    found = [unchecked(room, f"that training sends it{since}", why) for room in there]
    found += [unchecked(SCORES, f"evaluations before the last one{since}", why)]
    found += [unchecked(DIAGNOSTICS, f"what training tells of it{since}", why)]
    found += [unchecked("run.json", "spec", f"that its training gives these files: {why}")]
    return [*found, unchecked("run.json", "sent", f"its bytes, and messages to all: {why}")]


def _trained(
    run: Run, folder: Path, rounds: int, progress: Progress
) -> tuple[Federation, Evaluations]:
    """A federation after its first ``rounds`` rounds, recorded in ``folder``."""
    spec = RunSpec.build(run.spec, f"{run.path}/run.json")
    fed = federation(run, Recorder(folder, spec.rounds, spec.record))
    fed.phases.update(run.meta["phases"])  # it trained as that machine's sizes or table said
    scores, at = Evaluations(), evaluated(spec.rounds, fed.task.evaluations)
    fed.begin()
    last = min(rounds, spec.rounds)
    while fed.t < last:
        advance(fed, at, scores)
        progress(fed.t, last, "training again")
    if last == spec.rounds:
        finish(fed, scores)
    return fed, scores


def _compared(run: Run, folder: Path, last: int) -> Iterator[Finding]:
    """What was recorded of rounds 0 to ``last``, room by room."""
    for room in ROOMS:
        names = [f"{room}/{round_file(t)}" for t in range(last + 1)]
        listed = [n for n in names if n in run.meta["files"]]
        again = [n for n in names if (folder / n).is_file()]
        what = f"rounds 0 to {last}, trained again"
        apart = sorted(set(listed) ^ set(again))
        if apart:
            where = "not made again" if apart[0] in listed else "not in the run"
            yield differs(room, what, f"{apart[0]} is {where} (and {len(apart) - 1} more)")
            continue
        changed = [n for n in listed if file_digest(folder / n) != run.meta["files"][n]]
        if not changed:
            yield holds(room, what, f"{len(listed)} files, byte for byte")
            continue
        yield _unlike(run, room, what, [(n, _difference(run, folder, n)) for n in changed])


def _traffic(run: Run, fed: Federation, last: int) -> Finding:
    """Who sent what to whom until round ``last``, kept or not."""
    what = f"who sent what in rounds 0 to {last}"
    found, _ = run.tree(TRAFFIC)
    until = {k: rows[rows[:, 0] <= last] for k, rows in flat(found).items()}
    made = flat(fed.traffic.tensors())
    why = same.differing_tensors({k: rows for k, rows in until.items() if len(rows)}, made)
    return compared(TRAFFIC, what, why, "all of it")


def _difference(run: Run, folder: Path, name: str) -> str:
    found, head = read_tree(inside(run.path, name))
    made, remade = read_tree(folder / name)
    if head != remade:
        return "its header differs"
    return same.differing_tensors(found, made) or "its tensors are equal, but not in their order"


def _unlike(run: Run, room: str, what: str, changed: list[tuple[str, str]]) -> Finding:
    """Files that are not the same: another machine's last bits, or another training."""
    far = [(name, why) for name, why in changed if not why.startswith(LAST_BITS)]
    if not far:
        return compared(room, what, changed[0][1], "")
    name, why = far[0]
    return differs(room, what, f"{len(far)} files differ; in {name} {why}{_elsewhere(run)}")


def _elsewhere(run: Run) -> str:
    """How this machine is not the one of the run, as the end of a sentence."""
    now = provenance.versions()
    then = dict(run.meta["versions"])
    apart = [f"{k} {then.get(k)} then, {v} now" for k, v in now.items() if then.get(k) != v]
    return f" ({'; '.join(apart)})" if apart else ""


def _measured(run: Run, scores: Evaluations) -> Iterator[Finding]:
    """The utility of every evaluated round, unit by unit."""
    what = f"{len(scores.scores)} evaluations of the rounds trained again"
    if not scores.scores:
        return
    tree, _ = run.tree(SCORES)
    mine = {f"{t:06d}": v for t, v in scores.scores.items()}
    missing = sorted(mine.keys() - tree.keys())
    if missing:
        yield differs(SCORES, what, f"round {int(missing[0])} is not there")
        return
    why = same.differing_tensors({k: tree[k] for k in mine}, mine)
    yield compared(SCORES, what, why, "bit for bit")
    last = max(scores.scores)
    there = [r for r in run.table(DIAGNOSTICS, RUN_DIAGNOSTICS) if r["round"] <= last]
    made = typed_rows(diagnostic_rows(scores), RUN_DIAGNOSTICS)
    why = same.differing_tables(there, made, near=same.NEAR)
    told = differs if why else holds
    yield told(DIAGNOSTICS, what, why or f"{len(made)} lines")


def _left(run: Run, folder: Path, fed: Federation) -> Iterator[Finding]:
    """The model that is left, and what clients hold beside it."""
    what = "what is left, trained again"
    checkpoint.leave(fed, folder)
    for name in (checkpoint.MODEL, checkpoint.CLIENTS):
        if name in run.meta["files"] or (folder / name).is_file():
            found, head = run.tree(name)
            made, ours = read_tree(folder / name)
            why = "its header differs" if head != ours else same.differing_tensors(found, made)
            yield compared(name, what, why, "bit for bit")


def _sent(run: Run, fed: Federation) -> Finding:
    ours, what = fed.traffic.table(), "sent: all of it, trained again"
    if run.meta["sent"] == ours:
        return holds("run.json", what, f"{len(ours)} lines")
    apart = [line for line in ours if line not in run.meta["sent"]] or run.meta["sent"]
    return differs("run.json", what, f"derived is {short_value(apart[0])}")
