"""What run.json says, key by key: derived again, compared, or named with the reason why not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leakbench.base import provenance
from leakbench.base.errors import LeakbenchError
from leakbench.base.raised import raised_text
from leakbench.base.spec import canonical, command_words
from leakbench.federation.federation import Federation
from leakbench.record import audited, origin, run_json, twin
from leakbench.record.folders import Run
from leakbench.record.recording import Recording
from leakbench.record.runspec import RunSpec, parts
from leakbench.record.training import missing_of_run
from leakbench.results.recomputed import short_value
from leakbench.verifying.finding import (
    CHECKOUT,
    MACHINE,
    Finding,
    differs,
    holds,
    unchecked,
    untold,
)
from leakbench.verifying.finding import ELSEWHERE as TRAINED

FILE, TRAFFIC = "run.json", "transcript/rounds.safetensors"
# What the spec, the installed code and the data give a second time.
DERIVED = (
    *("schema", "id", "spec", "method", "hides", "secrets", "distance", "engine", "dtype"),
    *("utility", "facts", "stages", "pooled", "stand_in", "test_data", "command", "begins"),
)
# Checked in other places: as one reads the file, as its files are, with the traffic and the data.
ELSEWHERE = ("digest", "status", "files", "sent", "missing", "data", "sources", "versions")
UNKNOWN = {
    **dict.fromkeys(("device", "machine", "phases", "fallbacks", "begun_by"), MACHINE),
    **dict.fromkeys(("commit", "dirty"), CHECKOUT),
    **dict.fromkeys(("origin", "no_control", "declared"), TRAINED),
    "excerpt": "what it is an excerpt of, is not here",
    "export": "what it is an export of, is not here",
}
TWIN = "twin"  # only of a run that was made for a paper's table
# What an excerpt, an export or a record of somebody's own loop says otherwise than the run itself.
PARTS = {
    "origin": {"hides", "command", "pooled"},
    "excerpt": {"spec", "stages", "command"},
    "export": {"id", "spec", "command"},
}
USERS = "they are what its user wrote beside the run, and change no number"


def of_run_json(run: Run, again: Callable[[], Federation]) -> Iterator[Finding]:
    """Findings of every key; ``again``: the run's federation before round 0."""
    meta = run.meta
    strange = sorted(meta.keys() - {*DERIVED, *ELSEWHERE, *UNKNOWN, TWIN})
    if strange:
        yield differs(FILE, ", ".join(strange), "leakbench writes no such key")
    yield from _derived(run, again)
    yield _versions(meta)
    yield _sources(meta)
    yield _missing(run)
    yield from _twin(run)
    yield unchecked(FILE, "spec.name, spec.attacks", USERS)
    yield from untold(FILE, UNKNOWN, meta)


def _derived(run: Run, again: Callable[[], Federation]) -> Iterator[Finding]:
    """What is described again, from the spec, with the code and the data of this machine."""
    what = ", ".join(DERIVED)
    try:
        spec = RunSpec.build(run.spec, f"{run.path}/{FILE}")
        fed = again()
        made = run_json.run_described(spec, parts(spec), fed, "cpu", {})
    except LeakbenchError as error:
        yield unchecked(FILE, what, str(error))
        return
    ours = json.loads(canonical({k: made[k] for k in DERIVED}))
    part = {key for kind, keys in PARTS.items() if kind in run.meta for key in keys}
    wrong = [
        k for k in DERIVED if k not in part and as_words(k, run.meta.get(k)) != as_words(k, ours[k])
    ]
    other = origin.stale_sources(run.meta)
    for key in wrong:
        why = f"it is {short_value(run.meta.get(key))}, derived is {short_value(ours[key])}"
        told = unchecked if other else differs
        yield told(FILE, key, f"{why}; other code made it" if other else why)
    for key in sorted(part):
        said = "a part of a run says otherwise than the run itself"
        yield unchecked(FILE, key, TRAINED if origin.is_outside(run.meta) else said)
    right = [k for k in DERIVED if k not in part and k not in wrong]
    yield holds(FILE, f"{len(right)} keys, as spec, code and data say them", ", ".join(right))
    yield _covered(run, fed)


def as_words(key: str, value: Any) -> Any:
    """A value as it is compared: of a command its words, whose options come in any order."""
    return sorted(command_words(value)) if key == "command" else value


def _covered(run: Run, fed: Federation) -> Finding:
    """Which uplinks a wrapper covers."""
    what = "sent: covered"
    if origin.is_outside(run.meta):
        return unchecked(FILE, what, TRAINED)
    for line in run.meta["sent"]:
        covered = line["sender"] == "client" and line["kind"] in fed.traffic.covered
        if line["covered"] != covered:
            return differs(FILE, what, f"{line['kind']} is said to be {line['covered']}")
    return holds(FILE, what, f"{len(run.meta['sent'])} lines")


def _versions(meta: Mapping[str, Any]) -> Finding:
    now, then = provenance.versions(), dict(meta.get("versions", {}))
    apart = sorted(k for k in {*now, *then} if now.get(k) != then.get(k))
    if not apart:
        return holds(FILE, "versions", "those that are installed")
    told = "; ".join(f"{k} {then.get(k)}, here {now.get(k)}" for k in apart)
    return unchecked(FILE, "versions", f"other ones are installed ({told})")


def _sources(meta: Mapping[str, Any]) -> Finding:
    """Is the code that made it the installed one, and are the files that it opened what they were?

    What is not the same may be honest: then it was made by other code.
    """
    made = dict(meta.get("sources") or {})
    strange = sorted(made.keys() - {*origin.CODE} - origin.opened_files(made).keys())
    if strange:
        return differs(FILE, "sources", f"leakbench writes no {strange[0]!r} there")
    lacks = [k for k in origin.CODE if k not in made]
    if lacks:
        return unchecked(FILE, "sources", f"it does not say which {' and '.join(lacks)} made it")
    if changed := origin.stale_sources(meta):
        told = " and ".join(map(origin.part_text, changed))
        return unchecked(FILE, "sources", f"{told} is another here: leakbench train --restart")
    return holds(FILE, "sources", "the code that is installed, and files as it opened them")


def _twin(run: Run) -> Iterator[Finding]:
    """What the same run of three rounds comes to."""
    then = run.meta.get(TWIN)
    if then is None:
        return
    try:
        now = twin.twin_of(RunSpec.build(run.spec, f"{run.path}/{FILE}"))
    except Exception as error:  # a method of somebody's may raise anything
        yield unchecked(FILE, TWIN, raised_text(error))
        return
    if twin.twins_alike(then, now):
        yield holds(FILE, TWIN, "three rounds of it come to the same here")
    else:
        told = unchecked if origin.stale_sources(run.meta) else differs
        yield told(FILE, TWIN, "three rounds of it come to something else here")


def _missing(run: Run) -> Finding:
    """What the recording policy kept nothing of, and who took no part."""
    if {"excerpt", "export"} & set(run.meta):
        return unchecked(FILE, "missing", "a part of a run says what it lacks in its own words")
    try:
        spec = RunSpec.build(run.spec, f"{run.path}/{FILE}")
        if origin.is_outside(run.meta):
            came = run.tree(TRAFFIC)[0]["update"].tolist()
            who = Recording(run).declared
            gone = audited.outside_lacking(spec.record, spec.rounds, came, who.words if who else "")
            ours = audited.missing_lines(gone)
        else:
            sent = {str(s["kind"]) for s in run.meta["sent"] if s["sender"] == "client"}
            ours = missing_of_run(spec, parts(spec), run.path, sent)
    except LeakbenchError as error:
        return unchecked(FILE, "missing", str(error))
    if run.meta["missing"] != ours:
        return differs(
            FILE,
            "missing",
            f"it is {short_value(run.meta['missing'])}, derived {short_value(ours)}",
        )
    return holds(FILE, "missing", f"{len(ours)} lines")
