"""A small copy of a run for attacks that are not written yet: the last rounds' prototypes, the
bank, and what scoring needs.

It is read like any run: `leakbench attack EXCERPT`. What is left out is named in its run.json,
under `excerpt` and `missing`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from leakbench.attacking import choices
from leakbench.base.errors import UsageError
from leakbench.base.files import digest, digests, read_json, write_json
from leakbench.record.folders import Run, load
from leakbench.record.recording import Recording
from leakbench.reproduce.excerpt_parts import LIMIT, Copy, Source


def excerpt(run: Run, out: Path, rounds: int = 50) -> Run:
    """Write a smaller run folder, of at most 5 MB, to ``out`` (an excerpt that is there is
    replaced) and return it.

    It holds, of the kinds `prototype` and `statistics`: every uplink of the last ``rounds`` rounds,
    each client's newest one where that is older, and what stood for them with nothing defended;
    what the server sent in the last round, and in earlier ones as far as that fits. Beside them the
    traffic of these rounds, everybody's secrets at the recorded rounds among them, utility and
    diagnostics; the last model with the auxiliary data, and who holds which rows, where they fit.
    Other kinds, earlier stages and images are left out (the task has the images). An attack that
    looks at prototypes of these rounds gives the same numbers as on the run; one that wants more of
    a client's messages finds fewer.

    Args:
        run: complete.
        out: the folder; not the run's own.
        rounds: at least 1; fewer are kept where they would not fit.

    Raises: UsageError: the run is not complete or shared no prototype; ``out`` cannot be written or
        holds something else. BrokenFile: a file of the run is missing, changed or damaged.
    """
    _check(run, out, rounds)
    source, fresh = Source(run), out.with_name(f".{out.name}.part")
    wanted = min(rounds, source.last)
    try:
        while True:
            shutil.rmtree(fresh, ignore_errors=True)
            copy = Copy(source, fresh, source.last - wanted + 1)
            if copy.essential():
                break
            if wanted == 1:
                raise UsageError(
                    f"{run.id}: not even one round fits into an excerpt of {LIMIT / 1e6:.0f} MB."
                )
            wanted = max(1, wanted * 9 // 10)
        copy.optional()
        write_json(fresh / "run.json", _meta(copy))
        shutil.rmtree(out, ignore_errors=True)
        fresh.rename(out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return load(out)


def is_of(out: Path, run: Run) -> bool:
    """Does the folder ``out`` hold an excerpt of this very run?"""
    there = out / "run.json"
    about = read_json(there).get("excerpt", {}) if there.is_file() else {}
    return bool(about.get("run_json") == digest(run.path / "run.json"))


def _check(run: Run, out: Path, rounds: int) -> None:
    if not run.done:
        raise UsageError(
            f"{run.path} is not complete (status: {run.status}), and an excerpt is made of complete"
            " runs. Train it first."
        )
    if "excerpt" in run.meta:
        raise UsageError(
            f"{run.path} is an excerpt already; make another one of the run"
            f" {run.meta['excerpt']['of']}."
        )
    if rounds < 1:
        raise UsageError(f"rounds = {rounds}: an excerpt holds at least one round.")
    if not any(s["kind"] == "prototype" and s["sender"] == "client" for s in run.meta["sent"]):
        raise UsageError(
            f"{run.id}: its clients share no prototypes, so there is nothing to make an excerpt of."
        )
    there = out / "run.json"
    if out.exists() and not (there.is_file() and "excerpt" in read_json(there)):
        raise UsageError(f"{out} is there and is no excerpt; give another folder.")


def _meta(copy: Copy) -> dict[str, Any]:
    """The run's own run.json, with this folder's files and what is not in it."""
    run, last = copy.run, copy.source.last
    # Of an earlier stage not every client's newest message would be there.
    stages = {s: t for s, t in run.meta["stages"].items() if copy.first == 1 or t == last}
    earlier = [s for s in run.meta["stages"] if s not in stages]
    gone = [
        *(f"stage {s} (round {run.meta['stages'][s]})" for s in earlier),
        f"messages before round {copy.first}, but each client's newest",
        "kinds other than prototype and statistics" + (" and the last model" if copy.model else ""),
        "draws, batches and states of single clients, images",
        *copy.left_out,
    ]
    most = max(
        (
            sum(m.sender == s and m.kind == "prototype" for m in copy.sent)
            for s in {m.sender for m in copy.sent}
        ),
        default=0,
    )
    about = {
        "of": run.id,
        "run_json": digest(run.path / "run.json"),
        "rounds": [copy.first, last],
        "left_out": gone,
    }
    files = digests(copy.folder, without=("attacks/", "checkpoint/", "run.json"))
    meta = run.meta | {"stages": stages, "excerpt": about, "files": files}
    fits, missing = _attacks(copy, Recording(Run(copy.folder, meta)))
    missing.append(
        {
            "attack": "",
            "metric": "",
            "reason": (
                f"an excerpt: {most} messages of a client at most; left out: {'; '.join(gone)}"
            ),
        }
    )
    return meta | {
        "spec": run.meta["spec"] | {"attacks": fits},
        "missing": [*run.meta["missing"], *missing],
    }


def _attacks(copy: Copy, small: Recording) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Of the attacks that fit the run: those that can be made of the excerpt, and why the others
    cannot.
    """
    tried = {
        c: c.attack.obstacle(small)
        for c in choices.variants()
        if not c.attack.obstacle(copy.source.recording)
    }
    fits = [c for c, why in tried.items() if not why]
    some = {c.name for c in fits}
    unfit = dict.fromkeys(
        (c.title if c.name in some else c.name, why) for c, why in tried.items() if why
    )
    return (
        [{"name": c.name, "params": c.attack.parameters()} for c in fits],
        [{"attack": attack, "metric": "", "reason": why} for attack, why in unfit],
    )
