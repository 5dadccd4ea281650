"""What an excerpt of a run no longer has of what an attack reads."""

from __future__ import annotations

from collections.abc import Sequence

from leakbench.base.files import inside, read_meta
from leakbench.record.folders import Run


def lost(run: Run, kinds: Sequence[str], knows: Sequence[str]) -> str:
    """What the excerpt ``run`` no longer has of what an attack reads, as a reason; "" where all of
    it is there.

    Args:
        run: an excerpt.
        kinds: the kinds of message that the attack reads; those that nobody sent are not missed.
        knows: the knowledge that it, or its blind guess, is granted.

    Raises:
        BrokenFile: a file of messages is missing or damaged.
    """
    names = run.meta["files"]
    kept = {
        m["kind"]
        for n in names
        if n.startswith("transcript/round-")
        for m in read_meta(inside(run.path, n))["messages"]
    }
    held = {
        "aux_data": "known/aux_data.safetensors" in names,
        "labels": any(n.startswith("known/round-") for n in names),
    }
    sent = {s["kind"] for s in run.meta["sent"]}
    gone = [f"messages of kind {k}" for k in dict.fromkeys(kinds) if k in sent and k not in kept]
    gone += [k for k in dict.fromkeys(knows) if not held.get(k, True)]
    if not gone:
        return ""
    begin, end = run.meta["excerpt"]["rounds"]
    there = (
        f"messages of kind {', '.join(sorted(kept))} of rounds {begin} to {end}"
        + " and aux_data" * held["aux_data"]
    )
    return f"this run is an excerpt that kept only {there}; the attack also reads {', '.join(gone)}"
