"""A name is one setting's: what a command would train is looked through before it begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import UsageError
from leakbench.base.spec import canonical

if TYPE_CHECKING:
    from leakbench.record.runspec import RunSpec

SHOWN = 3  # values of a sweep that a sentence repeats


def distinct_specs(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Every run once, in order: a sweep may speak of one twice.

    Raises:
        UsageError: one name is given to several settings, or two names to one.
    """
    runs: dict[str, RunSpec] = {}
    for spec in specs:
        other = runs.setdefault(spec.folder(), spec)
        if spec.name and other.name not in ("", spec.name):
            raise UsageError(
                f"{spec.folder()} would be called both {other.name!r} and {spec.name!r}: a setting"
                " has one name, so give it one of them."
            )
        if spec.name:
            runs[spec.folder()] = spec
    named: dict[str, dict[str, RunSpec]] = defaultdict(dict)
    for spec in runs.values():
        if spec.name:
            named[spec.name].setdefault(spec.identity(), spec)
    for name, several in named.items():
        if len(several) > 1:
            raise UsageError(
                f"{name!r} would be the name of {len(several)} settings"
                f" ({_sweeping(list(several.values()))}): a name is one setting's, so name each in"
                ' a [[defense]] table of its own (as = "..."), or leave the name out.'
            )
    return list(runs.values())


def _sweeping(specs: Sequence[RunSpec]) -> str:
    """What differs between settings, as in "sigma = 0.1, 0.3"."""
    flat = [_flat(spec) for spec in specs]
    told = []
    # What one method has and another has not follows from the method, which differs then.
    for key in flat[0]:
        if any(key not in f for f in flat):
            continue
        values = list(dict.fromkeys(_plain(f[key]) for f in flat))
        if len(values) > 1:
            more = [f"and {len(values) - SHOWN} more"] * (len(values) > SHOWN)
            told.append(f"{key} = {', '.join([*values[:SHOWN], *more])}")
    return "; ".join(told)


def _flat(spec: RunSpec) -> dict[str, Any]:
    out: dict[str, Any] = {"defense": spec.defense.name, **spec.defense.params}
    out["wrappers"] = " + ".join(w.name for w in spec.wrappers) or "none"
    for w in spec.wrappers:
        out |= {f"{w.name}.{k}": v for k, v in w.params.items()}
    out["task"] = spec.task.name
    out |= {f"task.{k}": v for k, v in spec.task.params.items()}
    return out | {"rounds": spec.rounds, "engine": spec.engine, "dtype": spec.dtype}


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)
