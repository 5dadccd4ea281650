"""The run that may lie in a spec's folder: is it there, and would it come out the same today?

And what its user wrote beside it: its name, and the attacks to follow. They are no part of the run:
a command that says something of them replaces what is stored, trained or not, and one that is
silent leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import read_sealed, write_sealed
from leakbench.base.spec import canonical
from leakbench.record import origin as origins
from leakbench.record.run_json import command
from leakbench.record.runspec import RunSpec, parts
from leakbench.record.setting_name import BESIDE

if TYPE_CHECKING:
    from leakbench.federation.task_data import TaskData

# Of what decides a run's bytes, what a pull request can change: machines differ besides.
WATCHED = ("method", "core", "utility", "data", "leakbench", "torch", "numpy")

Say = Callable[[str], None]


def complete_there(folder: Path, spec: RunSpec, *, restart: bool, say: Say) -> bool:
    """Is this very run there already? What stands beside it is brought up to date.

    Args:
        folder: of the run.
        spec: what is asked for.
        restart: it is not, whatever state it is in, unless the folder holds something else.
        say: is told of a new name.

    Raises:
        UsageError: the folder holds another run, or a part of this one.
        BrokenFile: its run.json is missing or damaged.
    """
    if restart and not _readable(folder):
        return False
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
    if why := unlike_spec(meta, spec):
        raise UsageError(f"{folder} {why}. Train into another folder with -o.")
    if restart or meta.get("status") != "done":
        return False
    ours = spec.model_dump(mode="json")
    fresh = {k: ours[k] for k in BESIDE if ours.get(k) and found.get(k) != ours[k]}
    if fresh:
        told: dict[str, Any] = {"spec": {**found, **fresh}}
        if "name" in fresh:
            told["command"] = command(spec)
            _renamed(found, ours, say)
        write_sealed(folder / "run.json", {**meta, **told})
    return True


def with_what_stands_beside(folder: Path, spec: RunSpec, say: Say) -> RunSpec:
    """``spec`` of a run that is to be gone on with, or begun anew: where it is silent, as stored.

    ``say`` is told of a new name.
    """
    if not _readable(folder):
        return spec
    found, ours = read_sealed(folder / "run.json")["spec"], spec.model_dump(mode="json")
    _renamed(found, ours, say)
    kept = {k: found[k] for k in BESIDE if found.get(k) and not ours.get(k)}
    return RunSpec.build({**ours, **kept}, str(folder / "run.json")) if kept else spec


def differences_said(folder: Path, data: str, say: Say) -> None:
    """A complete run is not trained again; where other code or data made it, that is told."""
    meta = read_sealed(folder / "run.json")
    differs = sorted(origins.stale_sources(meta))
    differs += ["data"] * (meta.get("data", {}).get("digest") not in (None, data))
    if differs:
        say(
            f"it is complete, but {' and '.join(map(origins.part_text, differs))} differed when it"
            " was made; --restart trains it anew (in Python restart=True)"
        )


def unlike_spec(meta: Mapping[str, Any], spec: RunSpec) -> str:
    """Why the run of a run.json is not the one of ``spec``, whole; empty where it is."""
    if _alone(meta["spec"]) != _alone(spec.model_dump(mode="json")):
        return "holds another run (its spec differs)"
    if "export" in meta:
        return "is an export of this run, which lacks the truth"
    # Attacks would read fewer messages than were sent, and leakage would look smaller than it is.
    if "excerpt" in meta:
        return "is an excerpt of this run, which lacks a part of what was sent"
    return ""


@dataclass(frozen=True)
class Found:
    """How the run of a spec stands in its folder.

    ``status``: that of its run.json, "" where there is none. ``exact``: that holds this very spec.
    ``changed``: what of its code and data is not as it was when it was made. ``mixed``: did several
    codes make it?
    """

    status: str = ""
    exact: bool = False
    changed: tuple[str, ...] = ()
    mixed: bool = False


def found_run(folder: Path, spec: RunSpec, device: str) -> Found:
    """Look what is in ``folder``; ``device`` of torch.

    A complete run is asked what a change of the code can alter, an unfinished one all that must be
    the same for its checkpoint to be gone on with.

    Raises:
        BrokenFile: run.json or the checkpoint is damaged.
    """
    from leakbench.record import checkpoint  # with torch

    if not (folder / "run.json").exists():
        return Found()
    meta = read_sealed(folder / "run.json")
    exact = meta["spec"] == spec.model_dump(mode="json") and not unlike_spec(meta, spec)
    if meta["status"] == "done":
        made = {**meta.get("versions", {}), **meta.get("sources", {})}
        made["data"] = meta.get("data", {}).get("digest")
        compared: Iterable[str] = WATCHED
    else:
        saved = checkpoint.last_checkpoint(folder)
        if saved is None:  # nothing of it is kept
            return Found(meta["status"], exact)
        made, compared = saved[1]["origin"], origins.COMPARED
    differs = origins.unlike_parts(made, origins.origin_of(spec, _data(spec), device), compared)
    changed = tuple(map(origins.part_text, differs))
    return Found(meta["status"], exact, changed, mixed=bool(meta.get("begun_by")))


_kept: dict[str, TaskData] = {}  # of the task that was asked about last: data may be large


def _data(spec: RunSpec) -> TaskData:
    task = canonical(spec.task.model_dump(mode="json"))
    if task not in _kept:
        _kept.clear()
        _kept[task] = parts(spec).task.load()
    return _kept[task]


def _alone(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the run."""
    return {k: v for k, v in spec.items() if k not in BESIDE}


def _renamed(found: Mapping[str, Any], ours: Mapping[str, Any], say: Say) -> None:
    """Tell of a name that replaces another, or none."""
    old, new = found.get("name", ""), ours.get("name", "")
    if new and new != old:
        say(f"now called {new!r}" + (f" (was {old!r})" if old else ""))


def _readable(folder: Path) -> bool:
    """Can it be told what the folder holds?"""
    try:
        return "spec" in read_sealed(folder / "run.json")
    except BrokenFile:
        return False
