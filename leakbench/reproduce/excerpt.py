"""A small copy of a run for attacks that are not written yet.

It says which of ours can be made of it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from leakbench.attacking import choices
from leakbench.base.errors import UsageError
from leakbench.base.files import file_digest, read_sealed
from leakbench.record import excerpts
from leakbench.record.columns import Row
from leakbench.record.folders import Run
from leakbench.record.parts import must_be_whole
from leakbench.record.recording import Recording


def excerpt(run: Run, out: Path, rounds: int = 50) -> Run:
    """Write a smaller run folder, of at most 5 MB, to ``out`` and return it.

    An excerpt that is there is replaced.

    It holds what ``leakbench.record.excerpts.write_excerpt`` says, and all that is optional there,
    as far as it fits. Other kinds, earlier stages and images are left out (the task has the
    images). An attack that looks at prototypes of these rounds gives the same numbers as on the
    run; one that wants more of a client's messages finds fewer.

    Args:
        run: complete.
        out: the folder; not the run's own.
        rounds: at least 1; fewer are kept where they would not fit.

    Raises:
        UsageError: the run is not complete, a part of a run, or shared no prototype; ``out`` cannot
            be written or holds something else.
        BrokenFile: a file of the run is missing, changed or damaged.
    """
    must_be_whole(run)
    if rounds < 1:
        raise UsageError(f"rounds = {rounds}: an excerpt holds at least one round.")
    if not any(s["kind"] == "prototype" and s["sender"] == "client" for s in run.meta["sent"]):
        raise UsageError(
            f"{run.id}: its clients share no prototypes, so there is nothing to make an excerpt of."
        )
    there = out / "run.json"
    if out.exists() and not (there.is_file() and "excerpt" in read_sealed(there)):
        raise UsageError(f"{out} is there and is no excerpt; give another folder.")
    return excerpts.write_excerpt(run, out, rounds, more=partial(excerpt_attacks, run))


def is_of(out: Path, run: Run) -> bool:
    """Does the folder ``out`` hold an excerpt of this very run?"""
    there = out / "run.json"
    about = read_sealed(there).get("excerpt", {}) if there.is_file() else {}
    return bool(about.get("run_json") == file_digest(run.path / "run.json"))


def excerpt_attacks(run: Run, small: Run) -> Row:
    """What run.json of ``small`` says of attacks.

    These are the attacks that fit ``run`` (as it was before it was cut, if it was) and can be made
    of ``small``, and why the others cannot.
    """
    full = Recording(Run(run.path, {k: v for k, v in run.meta.items() if k != "excerpt"}))
    fitting = [c for c in choices.variants() if not c.obstacle(full)]
    why = [(c, c.obstacle(Recording(small))) for c in fitting]
    fits = [{"name": c.name, "params": c.attack.parameters()} for c, reason in why if not reason]
    some = {fit["name"] for fit in fits}
    # Once, though an attack may have two settings.
    unfit = dict.fromkeys((c.title if c.name in some else c.name, r) for c, r in why if r)
    named = {"metric": "", "code": "unfit"}
    gone = [{"attack": name, "reason": reason, **named} for name, reason in unfit]
    return {"spec": {**small.spec, "attacks": fits}, "missing": [*small.meta["missing"], *gone]}
