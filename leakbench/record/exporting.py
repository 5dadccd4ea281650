"""export: one archive of a run for somebody else to attack. It holds what crossed between client
and server, and no answer.

Only what is listed here goes in, so that a file that is added to run folders stays out until
somebody decides. Left out are the private data and all other answers; what stands for answers: what
would have been sent with nothing defended (the very thing that a defense hides), the labels of
private batches, guesses and their scores; messages that no attacker would have: probes, which
nobody sends, and what only an aggregator sees; and the seed, with which everybody could draw the
method's noise again.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.base.files import inside, pack_tree, read_tree
from leakbench.base.spec import canonical
from leakbench.base.tree import Tree
from leakbench.record.folders import Run

FILES = (
    "utility.csv",
    "utility.safetensors",
    "diagnostics.csv",
    "known/aux_data.safetensors",
    "transcript/rounds.safetensors",
)
ROUNDS = "transcript/round-"
KEPT = (
    *(
        "schema",
        "status",
        "method",
        "hides",
        "distance",
        "engine",
        "phases",
        "fallbacks",
        "device",
        "dtype",
        "versions",
        "commit",
        "dirty",
    ),
    *("utility", "facts", "stages", "sent", "missing", "stand_in", "test_data"),
)
LEFT_OUT = (
    "private data and every other answer",
    "what would have been sent with nothing defended",
    "labels of private batches",
    "probes, which nobody sends",
    "messages that only the aggregator sees",
    "the final model and state",
    "attacks, their guesses and scores",
    "the seed: in its place stands a number made of the files' hashes",
)
GUESSABLE = 2**48  # a seed below is found by training with one after the other
RAW = ("data",)  # kinds that are the private data themselves


def export(run: Run, out: Path) -> list[str]:
    """Write the archive ``out`` (tar; the same run gives the same bytes); returns what its owner
    should know.

    Raises: UsageError: the run is not complete, or was cut or exported before; ``out`` cannot be
        written. BrokenFile: a file of the run is damaged.
    """
    if not run.done:
        raise UsageError(f"{run.path} is not complete (status: {run.status}). Train it first.")
    for kind in ("excerpt", "export"):
        if kind in run.meta:
            raise UsageError(f"{run.path} is an {kind} of a run; export the run itself.")
    listed = run.meta["files"]
    names = [n for n in FILES if n in listed] + sorted(n for n in listed if n.startswith(ROUNDS))
    run.check(*names)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in _contents(run, names)}
    meta = _meta(run, digests)
    part = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(part, "w", format=tarfile.GNU_FORMAT) as archive:
            _add(
                archive,
                f"{meta['id']}/run.json",
                (json.dumps(meta, sort_keys=True, indent=1, allow_nan=False) + "\n").encode(),
            )
            for name, data in _contents(run, names):
                _add(archive, f"{meta['id']}/{name}", data)
        part.replace(out)
    except OSError as error:
        part.unlink(missing_ok=True) if part.parent.is_dir() else None
        raise UsageError(
            f"cannot write {out}: {error.strerror or error}. Choose another file with -o, or make"
            " room there."
        ) from None
    return _warnings(run)


def _contents(run: Run, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of everything but run.json, one at a time: transcripts may be large."""
    for name in sorted(names):
        if not name.startswith(ROUNDS):
            yield name, inside(run.path, name).read_bytes()
            continue
        tree, meta = read_tree(inside(run.path, name))
        kept = [
            i
            for i, m in enumerate(meta["messages"])
            if m["probe"] is None and m["receiver"] != "aggregator"
        ]
        if kept:
            yield name, _packed(tree, [meta["messages"][i] for i in kept], kept)


def _packed(tree: Tree, table: list[dict[str, Any]], kept: list[int]) -> bytes:
    return pack_tree(
        {str(j): tree[str(i)] for j, i in enumerate(kept) if str(i) in tree}, {"messages": table}
    )


def _meta(run: Run, digests: dict[str, str]) -> dict[str, Any]:
    """What run.json says in the archive."""
    content = hashlib.sha256(canonical(digests).encode()).hexdigest()[:8]
    spec = run.spec
    words = (
        re.sub(r"[^a-zA-Z0-9_]+", "-", str(spec[part]["name"])).strip("-")
        for part in ("task", "defense")
    )
    name = "-".join((*words, f"x{content}"))  # it becomes a folder on somebody else's machine
    reason = f"exported without: {'; '.join(LEFT_OUT)}"
    return {
        **{k: run.meta[k] for k in KEPT if k in run.meta},
        "id": name,
        "spec": {**spec, "seed": int(content, 16), "attacks": []},
        "command": "",
        "files": digests,
        "missing": [*run.meta.get("missing", []), {"attack": "", "metric": "", "reason": reason}],
        "export": {"left_out": list(LEFT_OUT)},
    }


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """A plain file without owner and time."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o644, 0
    archive.addfile(info, io.BytesIO(data))


def _warnings(run: Run) -> list[str]:
    out = []
    if run.seed < GUESSABLE:
        out.append(
            "its seed is small enough to be found by trying: whoever has the data trains with seeds"
            " 0, 1, 2, ... and compares, and then holds everything that was left out. For a run to"
            " hand out train with a secret seed of 60 bits or more."
        )
    raw = sorted(
        {
            str(s["kind"])
            for s in run.meta.get("sent", ())
            if s["sender"] == "client" and s["kind"] in RAW
        }
    )
    if raw:
        out.append(
            f"its clients send {', '.join(raw)} as such, so the archive holds a part of their"
            " private data."
        )
    return out
