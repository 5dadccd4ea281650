"""Would a run that lies there come out the same today? By the code and the data that made it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from leakbench.base import sources
from leakbench.base.reason import Reason, reason
from leakbench.base.spec import canonical
from leakbench.federation.task_data import TaskData
from leakbench.record import checkpoint, folders, origin
from leakbench.record.runspec import RunSpec, parts

# Of what decides a run's bytes, what a pull request can change: machines differ besides.
WATCHED = ("method", "core", "utility", "data", "leakbench", "torch", "numpy")


@dataclass(frozen=True)
class Found:
    """How the run of a spec stands in its folder.

    ``status``: that of its run.json, "" where there is none. ``failed``: does it say so?
    ``changed``: why it would not come out the same today. ``exact``: run.json holds
    this very spec.
    """

    status: str
    changed: tuple[Reason, ...] = ()
    exact: bool = False
    failed: bool = False


def found_run(folder: Path, spec: RunSpec, device: str) -> Found:
    """Look what is in ``folder``; ``device`` of torch.

    A complete run is asked what a change of the code can alter, an unfinished one all that must be
    the same for its checkpoint to be gone on with.

    Raises:
        BrokenFile: run.json or the checkpoint is damaged.
    """
    if not (folder / "run.json").exists():
        return Found("")
    run = folders.load(folder)
    failed = run.failure is not None
    exact = run.spec == spec.model_dump(mode="json") and not {"export", "excerpt"} & set(run.meta)
    if run.done:
        made = {**run.meta.get("versions", {}), **run.meta.get("sources", {})}
        made["data"] = run.meta.get("data", {}).get("digest")
        compared: Iterable[str] = WATCHED
    else:
        saved = checkpoint.last_checkpoint(folder)
        if saved is None:  # nothing of it is kept
            return Found(run.status, exact=exact, failed=failed)
        made, compared = saved[1]["origin"], origin.COMPARED
    files = sources.opened_now(made)
    now = origin.origin_of(spec, _data(spec), device) | files
    differs = [origin.part_text(k) for k in (*compared, *files) if made.get(k) != now.get(k)]
    told = [reason("parts_changed", parts=tuple(differs))] if differs else []
    told += [reason("several_codes")] if run.meta.get("begun_by") else []
    return Found(run.status, tuple(told), exact, failed)


_kept: dict[str, TaskData] = {}  # of the task that was asked about last: data may be large


def _data(spec: RunSpec) -> TaskData:
    task = canonical(spec.task.model_dump(mode="json"))
    if task not in _kept:
        _kept.clear()
        _kept[task] = parts(spec).task.load()
    return _kept[task]
