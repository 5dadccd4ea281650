"""Which code made an attack's guesses and scored them, and whether it is the code that is here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from leakbench.base import registry, sources
from leakbench.base.errors import LeakbenchError
from leakbench.record import origin

STALE = "stale_attack"  # the flag
# What a guess depends on beside its attack: what the attack is shown, and by what it replays.
CORE = (
    "leakbench.attacking",
    "leakbench.federation",
    "leakbench.models",
    "leakbench.data.marker",
    "leakbench.metrics.prototypes",
)
SCORING = "leakbench.scoring.score"
GUESSED = ("attack", "core")
PARTS = (*GUESSED, "scoring")


def guessed_by(attack: object, spec: Mapping[str, Any]) -> dict[str, str]:
    """Digests of an attack's module, of the core, and of the method of ``spec`` that it replays.

    Each with what it imports of its package; without that of the attack where its module has no
    source file, as in a notebook.
    """
    return {**_guesses(type(attack)), **_digest("core", *CORE), **_replayed_by(spec)}


def attack_opened(attack: Any, spec: Mapping[str, Any]) -> dict[str, str]:
    """{file: SHA-256} of what the attack, its metrics and what it replays opened here."""
    own = {type(attack).__module__, *_of_metrics(attack.metrics)}
    try:
        return sources.opened_by(sorted(own)) | origin.spec_opened(spec)
    except LeakbenchError:
        return sources.opened_by(sorted(own))


def changed_files(made: Mapping[str, str]) -> list[str]:
    """Which of the files that ``opened`` named are not what they were, by their names."""
    now = sources.opened_now(made)
    return [name.partition(":")[2] for name, sha in now.items() if made[name] != sha]


def _guesses(attack: type[Any]) -> dict[str, str]:
    """The digest of what guesses.

    Of ours without what only scores: it names metrics, and what they are is in `scoring`.
    """
    module, ours = attack.__module__, set[str]()
    if module.split(".")[0] in sources.METHODS:
        ours = {m for m in _of_metrics(attack.metrics) if m.startswith("leakbench.")} | {SCORING}
    return _digest("attack", module, but=(*CORE, *sorted(ours)))


def _of_metrics(metrics: Iterable[Any]) -> set[str]:
    return {m for one in metrics for m in _modules(one)}


def _replayed_by(spec: Mapping[str, Any]) -> dict[str, str]:
    """The digest of the installed method, wrappers and task of a run's spec."""
    try:
        method = origin.spec_code(spec).get("method")
    except LeakbenchError:
        return {}
    return {"method": method} if method else {}


def scored_by(metrics: Iterable[Any]) -> dict[str, str]:
    """The digest of what scores guesses: the scoring, and the modules of an attack's metrics."""
    return _digest("scoring", SCORING, *sorted(_of_metrics(metrics)))


@lru_cache(maxsize=256)
def installed_sources(name: str) -> Mapping[str, str]:
    """What the attack that is installed as ``name`` would write today.

    Empty where there is none; without `scoring` where it cannot be imported. Asked once a process:
    what is edited later is not what runs here.
    """
    try:
        module = registry.names("attacks").get(name)
    except LeakbenchError:
        return {}
    if module is None:
        return {}
    try:
        attack = registry.load_plugin("attacks", name)
    except LeakbenchError:
        return {**_digest("attack", module), **_digest("core", *CORE)}
    return {**_guesses(attack), **_digest("core", *CORE), **scored_by(attack.metrics)}


def differ(
    one: Mapping[str, str], other: Mapping[str, str], parts: Iterable[str] = PARTS
) -> tuple[str, ...]:
    """The parts, and files, of which both sides know the digest, and not the same one."""
    parts = (*parts, *origin.opened_files(one))
    return tuple(p for p in parts if one.get(p) and other.get(p) and one[p] != other[p])


def stale(made: Mapping[str, str], name: str, run: Mapping[str, Any]) -> bool:
    """Was it guessed or scored by other code than is installed? Not, where none is installed.

    Code that is unknown is other code: of what the installed attack knows of itself nothing may
    lack, and an attack whose module has no source file today must have had none. The method that it
    replayed must be the one that the run (whose run.json is ``run``) was trained by, installed or
    not.
    """
    here = installed_sources(name)
    lacks = any(made.get(part) != digest for part, digest in here.items())
    lacks = lacks or (bool(here) and bool(changed_files(made)))
    more = bool(here) and "attack" not in here and bool(made.get("attack"))
    trained = {"method": str(run.get("sources", {}).get("method", ""))}
    return lacks or more or bool(differ(made, trained, ("method",)))


@lru_cache(maxsize=256)
def _digest(part: str, *modules: str, but: tuple[str, ...] = ()) -> dict[str, str]:
    try:
        return {part: sources.sources_digest(modules, but)}
    except LeakbenchError:
        return {}


def _modules(metric: Any) -> set[str]:
    """Where the functions of a metric are defined."""
    beside = [measure for _, measure in metric.beside]
    found = [metric.score, metric.floor, metric.control, metric.remark, *beside]
    out = set()
    for measure in found:
        while hasattr(measure, "func"):  # a partial one
            measure = measure.func
        out |= {measure.__module__} if measure is not None else set()
    return out
