"""What is left after the last round, evaluated again on the task's test data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from leakbench.base import provenance
from leakbench.base.float32 import whole_float32
from leakbench.base.thread_count import threads
from leakbench.federation.evaluate import Evaluations
from leakbench.federation.federation import Federation
from leakbench.record import checkpoint
from leakbench.record.columns import RUN_DIAGNOSTICS
from leakbench.record.folders import Run
from leakbench.record.origin import is_outside
from leakbench.record.recorder import Recorder
from leakbench.record.runspec import RunSpec, parts
from leakbench.verifying import same
from leakbench.verifying.finding import ELSEWHERE, Finding, compared, holds, unchecked

SCORES, DIAGNOSTICS = "utility.safetensors", "diagnostics.csv"
WHAT = "the last evaluation, from the final model and the test data"


def federation(run: Run, recorder: Recorder | None = None) -> Federation:
    """The run's federation before round 0, on the data of this machine.

    Raises:
        UsageError: a method, the data or the device is not here.
    """
    spec = RunSpec.build(run.spec, f"{run.path}/run.json")
    made = parts(spec)
    where = "cuda" if str(run.meta["device"]).startswith("cuda") else "cpu"
    return made.federation(made.task.load(), device=provenance.device(where), recorder=recorder)


def evaluated_again(run: Run, again: Callable[[], Federation]) -> Iterator[Finding]:
    """The scores of the last evaluation; what others were nothing but training tells.

    ``again``: the run's federation, which is put where the run left it.

    Raises:
        UsageError: a method, the data or the device is not here.
    """
    if is_outside(run.meta):
        yield unchecked(SCORES, WHAT, ELSEWHERE)
        return
    for kind in ("excerpt", "export"):
        if kind in run.meta:
            yield unchecked(SCORES, WHAT, f"an {kind} may lack the final model")
            return
    tree, _ = run.tree(SCORES)
    (model, head), last = run.tree(checkpoint.MODEL), max(map(int, tree))
    held = run.tree(checkpoint.CLIENTS)[0] if checkpoint.CLIENTS in run.meta["files"] else None
    # The last bits depend on how many threads share a sum.
    count = int(run.meta.get("machine", {}).get("threads", torch.get_num_threads()))
    with threads(count), whole_float32():
        fed, found = again(), Evaluations()
        if not checkpoint.as_left(fed, last, model, held):
            why = "what clients hold is too large to be kept: give --replay with all its rounds"
            yield unchecked(SCORES, WHAT, why)
            return
        found.add(fed)
    scores = {f"{last:06d}": found.scores[last]}
    ends = {"round": run.spec["rounds"] + 1}
    at = "" if head == ends else f"the final model's header says {head}, it is of {ends}"
    why = at or same.differing_tensors({k: tree[k] for k in scores}, scores)
    yield compared(SCORES, WHAT, why, f"round {last}, bit for bit")
    yield _diagnosed(run, found)


def _diagnosed(run: Run, found: Evaluations) -> Finding:
    """What diagnostics.csv says of the last round, as far as the final model tells it."""
    rows = run.table(DIAGNOSTICS, RUN_DIAGNOSTICS)
    there = {(r["round"], r["name"]): r["value"] for r in rows}
    for t, name, value in found.diagnostics:
        cell = there.get((t, name))
        if cell is None or abs(cell - value) > same.NEAR * max(abs(cell), abs(value)):
            why = f"{name} of round {t} is {cell}, derived is {value}"
            return compared(DIAGNOSTICS, "what the final model tells of it", why, "")
    told = ", ".join(name for _, name, _ in found.diagnostics) or "nothing"
    return holds(DIAGNOSTICS, "what the final model tells of it", told)
