"""export: one archive of a run for somebody else to attack, without any answer.

Only what is listed here goes in, so that a file that is added to run folders stays out until
somebody decides. Left out are

* the private data and all other answers; what stands for answers: what would have been sent with
  nothing defended (the very thing that a defense hides), the labels of private batches, guesses
  and their scores;
* messages that no attacker would have: probes, which nobody sends, and what only an aggregator
  sees;
* the seed, with which everybody could draw the method's noise again;
* the setting's name: who gave it did not give it for others to read, and it may hold the seed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from leakbench.base.spec import fingerprint
from leakbench.record import origin
from leakbench.record.columns import Row
from leakbench.record.folders import Run
from leakbench.record.parts import AUX_DATA, RunPart, must_be_whole

FILES = (
    "utility.csv",
    "utility.safetensors",
    "diagnostics.csv",
    AUX_DATA,
    "transcript/rounds.safetensors",
)
ROUNDS, COUNTS = "transcript/round-", "known/round-"
KEPT = (
    *(
        "schema",
        "status",
        "method",
        "origin",
        "no_control",
        "declared",
        "hides",
        "secrets",
        "distance",
        "engine",
        "phases",
        "fallbacks",
    ),
    *("device", "dtype", "versions", "commit", "dirty"),
    *("utility", "facts", "stages", "pooled", "sent", "missing", "stand_in", "test_data"),
    *("data", "sources", "begun_by"),
)
# Of a record whose truth nobody told; how many examples stood behind an update may have been.
UNTOLD = ("private data and every other answer", "what would have been sent with nothing defended")
LEFT_OUT = (
    "private data and every other answer",
    "what would have been sent with nothing defended",
    "labels of private batches",
    "probes, which nobody sends",
    "messages that only the aggregator sees",
    "the final model and state",
    "attacks, their guesses and scores",
    "the setting's name: its owner's own words",
    "the seed: in its place stands a number made of the files' hashes",
)
GUESSABLE = 2**48  # a seed below is found by training with one after the other
RAW = ("data",)  # kinds that are the private data themselves


def export(run: Run, out: Path) -> list[str]:
    """Write the archive ``out``; returns what its owner should know.

    It is a tar; the same run gives the same bytes.

    Raises:
        UsageError: the run is not complete, or was cut or exported before; ``out`` cannot be
            written.
        BrokenFile: a file of the run is damaged.
    """
    part = _part(run)
    part.archive(out, _meta(part))
    return _warnings(run)


def untold(run: Run) -> Run:
    """The record ``run`` without any answer, for nobody told one: its folder becomes an export.

    Guesses on it are saved and not scored, and it acquits nobody.
    """
    part = RunPart(run)
    for name in sorted(run.meta["files"]):
        if name in FILES or name.startswith((ROUNDS, COUNTS)):
            part.same(name)
    # Nothing was drawn with its seed.
    shown = _meta(part, UNTOLD, "recorded")
    shown |= {"spec": {**shown["spec"], "seed": run.seed}, "begins": run.meta["begins"]}
    return part.folder(run.path, shown, lambda _: {})


def archive_name(run: Run) -> dict[str, str]:
    """What an attack on an export of ``run`` says that it was made of: the same for every export.

    Raises:
        UsageError, BrokenFile: as for ``export``.
    """
    return Run(run.path, _meta(_part(run))).named


def _part(run: Run) -> RunPart:
    must_be_whole(run)
    part = RunPart(run)
    for name in sorted(run.meta["files"]):
        if name in FILES:
            part.same(name)
        elif name.startswith(ROUNDS):
            part.messages(name, _seen)
    return part


def _seen(message: Row) -> bool:
    """Did an attacker outside the clients see it?"""
    return message["probe"] is None and message["receiver"] != "aggregator"


def _meta(part: RunPart, left_out: Sequence[str] = LEFT_OUT, how: str = "exported") -> Row:
    """What run.json says in the archive; ``how`` it came to be without what is ``left_out``."""
    meta, spec = part.run.meta, part.run.spec
    content = fingerprint({n: f.sha256 for n, f in part.files.items()})
    words = (
        re.sub(r"[^a-zA-Z0-9_]+", "-", str(spec[what]["name"])).strip("-")
        for what in ("task", "defense")
    )
    shown = {k: meta[k] for k in KEPT if k in meta} | {
        "id": "-".join((*words, f"x{content}")),  # a folder on somebody else's machine
        "spec": {k: v for k, v in spec.items() if k != "name"}
        | {"seed": int(content, 16), "attacks": []},
        "command": "",
    }
    if "sources" in shown:
        shown["sources"] = _without_files(shown["sources"])
    if "begun_by" in shown:
        shown["begun_by"] = [_without_files(one) for one in shown["begun_by"]]
    gone = f"{how} without: {'; '.join(left_out)}"
    return part.described(shown, "export", {"left_out": list(left_out)}, gone)


def _without_files(made: Row) -> Row:
    """What made a run, but for files that its method opened: they bear their owner's paths."""
    gone = origin.opened_files(made)
    return {k: v for k, v in made.items() if k not in gone}


def _warnings(run: Run) -> list[str]:
    out = []
    if run.seed < GUESSABLE:
        out.append(
            "its seed is small enough to be found by trying: whoever has the data trains with seeds"
            " 0, 1, 2, ... and compares, and then holds everything that was left out. For a run to"
            " hand out train with a secret seed of 60 bits or more."
        )
    kinds = {str(s["kind"]) for s in run.meta.get("sent", ()) if s["sender"] == "client"}
    raw = sorted(kinds & set(RAW))
    if raw:
        out.append(
            f"its clients send {', '.join(raw)} as such, so the archive holds a part of their"
            " private data."
        )
    return out
