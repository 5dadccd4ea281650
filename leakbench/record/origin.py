"""Which code and data a run comes from: whether it can be gone on with, and what to say of it.

Line by line the same code, on the same data, goes on with a checkpoint to the same bytes; nothing
else does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from leakbench.base import provenance, registry, sources
from leakbench.base.errors import LeakbenchError, UsageError
from leakbench.base.lazy import torch
from leakbench.base.spec import canonical
from leakbench.federation.task_data import Examples, TaskData
from leakbench.record.runspec import RunSpec

# What decides a run's bytes, besides its method, wrappers and task; each with what it imports.
CORE = (
    "leakbench.data",
    "leakbench.federation",
    "leakbench.models",
    "leakbench.record.recorder",
    "leakbench.record.rounds",
    "leakbench.record.training",
)
# What run.json's `origin` says, and the flag, of a run that leakbench recorded and did not train.
OUTSIDE = "outside"
_METHODS = {"task": "tasks", "defense": "defenses"}
# What must be the same for a checkpoint to be gone on with, in the words of the refusal. The
# commit is told, too, but it does not decide: the digests say what of it counts.
COMPARED = {
    "run": "the run",
    "data": "the data",
    "dtype": "the dtype",
    "method": "the source of the method",
    "core": "the source of leakbench's core",
    "utility": "the source of the utility metric",
    "leakbench": "the version of leakbench",
    "torch": "the version of torch",
    "numpy": "the version of numpy",
    "device": "the device",
    "cpu": "the processor's instructions",
    "deterministic": "--deterministic",
}
CODE = ("method", "core", "utility")
# The truth that is written at the end would be another one than that of the first rounds.
UNMIXED = ("run", "data", "dtype")


def spec_code(spec: Mapping[str, Any]) -> dict[str, str]:
    """{"method", "core", "utility"}: SHA-256 of the installed code that makes a run of ``spec``.

    The method's are its own module, its wrappers' and its task's, and the utility's that of the
    metric, each with all that it rests on and the core does not. Read once in a process, which goes
    on with the code that it has imported.

    Without a part where a module of it has no source file, as in a notebook.

    Raises:
        UsageError: one of them is not installed.
    """
    core = {"core": _digest(_loaded(CORE), "")}
    parts = {"method": _modules(spec), "utility": _utility(spec)}
    found = core | {k: _digest(_loaded(m), _loaded(CORE)) for k, m in parts.items() if m}
    return {k: digest for k, digest in found.items() if digest}


def spec_opened(spec: Mapping[str, Any]) -> dict[str, str]:
    """{file: SHA-256} of what the method, task, wrappers and metric of ``spec`` opened here."""
    return sources.opened_by(sorted(_modules(spec) | _utility(spec)))


def opened_files(made: Mapping[str, Any]) -> dict[str, str]:
    """Those of an origin, or of `sources`, that are files which ``opened`` named."""
    return {k: v for k, v in made.items() if ":" in k}


def _modules(spec: Mapping[str, Any]) -> set[str]:
    named = [(kind, spec[one]["name"]) for one, kind in _METHODS.items()]
    named += [("wrappers", w["name"]) for w in spec["wrappers"]]
    own = registry.given("tasks", spec["task"]["name"])  # its file may hold nothing but its data
    return {_module(kind, name) for kind, name in named} | ({own.__module__} if own else set())


def _utility(spec: Mapping[str, Any]) -> set[str]:
    metric = spec["task"]["params"].get("utility")
    return {_module("utilities", metric)} if metric else set()


def _module(kind: str, name: str) -> str:
    return registry.names(kind)[registry.meant(kind, name)]


def data_digest(data: TaskData) -> str:
    """SHA-256 of everything that a task loaded: examples, split, marker, weights."""
    sha = hashlib.sha256()
    for name in ("train", "test", "aux"):
        examples: Examples = getattr(data, name)
        _add(sha, f"{name}.x", examples.stored)
        _add(sha, f"{name}.y", examples.y)
        if examples.targets is not None:
            _add(sha, f"{name}.targets", examples.targets)
        if examples.attribute is not None:
            _add(sha, f"{name}.attribute", examples.attribute)
    if data.attributed is not None:
        for name, tensor in data.attributed.tree.items():
            _add(sha, f"attributed.{name}", tensor)
    for name in ("rows", "counts", "client_class", "context", "pairs"):
        tensor = getattr(data, name)
        if tensor is not None:
            _add(sha, name, tensor)
    for i, tensor in enumerate(data.absent):
        _add(sha, f"absent/{i}", tensor)
    for name, tensor in sorted(data.pretrained.items()):
        _add(sha, f"pretrained/{name}", tensor)
    return sha.hexdigest()


def origin_of(spec: RunSpec, data: TaskData, device: str) -> dict[str, Any]:
    """Everything that decides the bytes of a run, for its checkpoint; ``device`` of torch."""
    versions, (commit, dirty) = provenance.versions(), provenance.source()
    known = {k: versions[k] for k in ("leakbench", "torch", "numpy")}
    return {
        "run": spec.folder(),
        **spec_code(spec.model_dump(mode="json")),
        "data": data_digest(data),
        "device": provenance.device_name(device),
        "dtype": spec.dtype,
        **machine(),
        **known,
        "commit": commit,
        "dirty": dirty,
    }


def official(data: TaskData) -> bool | None:
    """Are these, byte for byte, the official set's data? None: there is no official set."""
    return None if data.unofficial is None else not data.unofficial


def origin_facts(origin: Mapping[str, Any], begun_by: list[dict[str, Any]], data: TaskData) -> Any:
    """What run.json says of an origin."""
    said = {
        "data": {"digest": origin["data"], "official": official(data)},
        "sources": _sources(origin),
        "machine": {k: origin[k] for k in machine()},
    }
    return said | ({"begun_by": begun_by} if begun_by else {})


def machine() -> dict[str, Any]:
    """What else changes the last bits: how many threads share a sum, and in which instructions."""
    return {
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def _sources(origin: Mapping[str, Any]) -> dict[str, str]:
    """The digests of an origin: of code, and of files that it opened."""
    return {k: origin[k] for k in CODE if k in origin} | opened_files(origin)


def unlike_parts(
    then: Mapping[str, Any], now: Mapping[str, Any], compared: Iterable[str] = COMPARED
) -> list[str]:
    """In what two origins differ: keys ``compared``, and files that are not what they were."""
    today = sources.opened_now(then)
    found = [k for k in compared if then.get(k) != now.get(k)]
    return found + [k for k, digest in today.items() if then[k] != digest]


def part_text(part: str) -> str:
    """A key of ``unlike`` in words."""
    return COMPARED.get(part) or f"the file {part.partition(':')[2]} that the method opened"


def refusal(folder: object, then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Why a checkpoint is not gone on with, in a sentence with both ways on."""
    differs = unlike_parts(then, now)
    known = {**sources.opened_now(then), **now}
    each = (f"{part_text(k)} ({_short(then, k)}, now {_short(known, k)})" for k in differs)
    text = f"{folder} was begun by other code or on other data; what differs: {', '.join(each)}."
    if set(differs) & set(UNMIXED):
        return (
            f"{text} Train it anew with --restart (in Python restart=True), which replaces the"
            " folder and its attacks; two data sets in one run could not be scored."
        )
    return (
        f"{text} Train it anew with --restart (in Python restart=True), which replaces the folder"
        " and its attacks, or go on with --mixed (mixed=True), which flags its rows mixed_code."
    )


def stale_sources(meta: Mapping[str, Any]) -> list[str]:
    """Which sources of a run.json are not those that are installed, as ``told`` has them in words.

    None where run.json does not say which they were, or the method is not installed here.
    """
    made = meta.get("sources")
    if not isinstance(made, dict):
        return []
    try:
        here = spec_code(meta["spec"])
    except LeakbenchError:
        return []
    here |= sources.opened_now(made)
    return [k for k, digest in here.items() if made.get(k, digest) != digest]


def flags(meta: Mapping[str, Any]) -> set[str]:
    """What a reader must know of the code and the data behind a run.json."""
    return lasting(meta) | ({"stale_run"} if stale_sources(meta) else set())


def is_outside(meta: Mapping[str, Any]) -> bool:
    """Did leakbench record the run of this run.json, and not train it?"""
    return bool(meta.get("origin") == OUTSIDE)


def lasting(meta: Mapping[str, Any]) -> set[str]:
    """Those of ``flags`` that do not depend on what is installed."""
    said = {
        OUTSIDE: is_outside(meta),
        "unofficial_data": meta.get("data", {}).get("official") is False,
        "mixed_code": bool(meta.get("begun_by")),
        "weaker_observer": bool(meta.get("declared")),
    }
    return {flag for flag, holds in said.items() if holds}


def made_apart(metas: Iterable[Mapping[str, Any]]) -> bool:
    """Were some runs made by different code, or on different data, as far as they say so?"""
    seen: dict[str, str | None] = {}
    for meta in metas:
        if "sources" in meta and "data" in meta:
            said = {k: meta["sources"].get(k) for k in CODE} | meta["sources"]
            said["data"] = meta["data"]["digest"]
            if any(seen.setdefault(k, digest) != digest for k, digest in said.items()):
                return True
    return False


def _short(origin: Mapping[str, Any], key: str) -> str:
    """A digest by its beginning, the method's and the core's with the commit."""
    text = str(origin.get(key, "unknown"))
    short = text[:8] if len(text) == 64 else text
    commit = str(origin.get("commit", ""))[:8]
    return f"{short} of commit {commit}" if key in CODE and commit else short


def _loaded(modules: set[str] | tuple[str, ...]) -> str:
    """The modules, each with its file: one of another folder may have the same name."""
    found = {}
    for name in modules:
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):  # made by hand, in a notebook
            spec = None
        found[name] = spec and spec.origin
    return canonical(found)


@lru_cache(maxsize=256)
def _digest(modules: str, but: str) -> str:
    """Empty where one of the modules has no source file; ``but``: what has its own digest."""
    try:
        return sources.sources_digest(json.loads(modules), json.loads(but) if but else ())
    except UsageError:
        return ""


def _add(sha: Any, name: str, tensor: torch.Tensor) -> None:
    plain = tensor.detach().cpu().contiguous()
    sha.update(f"{name}\0{plain.dtype}\0{tuple(plain.shape)}\0".encode())
    sha.update(plain.numpy().tobytes())
