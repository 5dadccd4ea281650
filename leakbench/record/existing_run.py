"""Is a run there already? And what its user wrote beside it: its name, and the attacks to follow.

Both are the user's, and no part of the run: a command that says something of them replaces what is
stored, trained or not, and one that is silent leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leakbench.base import sources
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import read_sealed, write_sealed
from leakbench.record import origin as origins
from leakbench.record.run_json import command
from leakbench.record.runspec import RunSpec
from leakbench.record.setting_name import BESIDE

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
    ours = spec.model_dump(mode="json")
    if _alone(found) != _alone(ours):
        raise UsageError(
            f"{folder} holds another run (its spec differs). Train into another folder with -o."
        )
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
    if restart or meta.get("status") != "done":
        return False
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


def differences_said(folder: Path, now: Mapping[str, Any], say: Say) -> None:
    """A complete run is not trained again; where other code or data made it, that is told."""
    meta = read_sealed(folder / "run.json")
    made = {**meta.get("sources", {}), "data": meta.get("data", {}).get("digest")}
    here = {**now, **sources.opened_now(made)}
    differs = [origins.part_text(k) for k, v in made.items() if v not in (None, here.get(k, v))]
    if differs:
        say(
            f"it is complete, but {' and '.join(differs)} differed when it was made; --restart"
            " trains it anew (in Python restart=True)"
        )


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
