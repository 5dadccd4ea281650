"""What of a setting, or of an attack, is another one than in the baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leakbench.base.spec import canonical
from leakbench.gate.row import GateRow


@dataclass(frozen=True)
class Change:
    """One thing then and now; None where it was not there.

    ``name``: of a parameter; of a wrapper it stands in ``then`` or ``now``, whichever has it. Its
    text is as in "sigma 0.3 -> 0.1" or "clip_noise dropped".
    """

    kind: Literal["called", "task", "defense", "wrapper", "parameter"]
    then: str | None
    now: str | None
    name: str = ""

    def __str__(self) -> str:
        if self.kind == "wrapper":
            return f"{self.then} dropped" if self.now is None else f"{self.now} added"
        absent = "nothing" if self.kind == "called" else "not set"
        then, now = (absent if side is None else side for side in (self.then, self.now))
        first = "called" if self.kind == "called" else self.name
        return f"{first} {then} -> {now}".strip()


def changed_parameters(then: GateRow, now: GateRow) -> tuple[Change, ...]:
    """What of the setting is another one; nothing where all is the same."""
    out = []
    called, calls = then.training.called, now.training.called
    if called and called != calls:
        out.append(Change("called", called, calls or None))
    old, new = then.configuration, now.configuration
    if old.plain_task != new.plain_task:
        out.append(Change("task", old.plain_task, new.plain_task))
    if old.defense != new.defense:
        out.append(Change("defense", old.defense, new.defense))
    wraps = set(old.wrapped), set(new.wrapped)
    out += [Change("wrapper", name, None) for name in sorted(wraps[0] - wraps[1])]
    out += [Change("wrapper", None, name) for name in sorted(wraps[1] - wraps[0])]
    before, after = all_parameters(then), all_parameters(now)
    out += _differing(before, after, before.keys() & after.keys())
    if old.defense == new.defense:  # else these are the two methods' own
        alone = {k for k in before.keys() ^ after.keys() if k[0] not in wraps[0] ^ wraps[1]}
        out += _differing(before, after, alone)
    return tuple(out)


def changed_attack(then: GateRow, now: GateRow) -> tuple[Change, ...]:
    """What an attack ran with that is another one."""
    a = {("", k): v for k, v in then.attacker.params.items()}
    b = {("", k): v for k, v in now.attacker.params.items()}
    return tuple(_differing(a, b, a.keys() | b.keys()))


def all_parameters(row: GateRow) -> dict[tuple[str, str], Any]:
    """{(wrapper, parameter): value}; the method's own with "" for a wrapper."""
    out = {("", k): v for k, v in row.configuration.params.items()}
    for w in row.configuration.wrappers:
        out |= {(w["name"], k): v for k, v in (w.get("params") or {}).items()}
    return out


def parameter_name(key: tuple[str, str]) -> str:
    """As in "sigma" or "clip_noise.clip"."""
    return ".".join(filter(None, key))


def plain_value(value: Any) -> str:
    """A parameter's value as people read it."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else canonical(value)


def _differing(
    then: Mapping[tuple[str, str], Any],
    now: Mapping[tuple[str, str], Any],
    keys: Collection[tuple[str, str]],
) -> list[Change]:
    out = []
    for key in sorted(keys):
        if then.get(key) == now.get(key):
            continue
        old, new = (plain_value(s[key]) if key in s else None for s in (then, now))
        out.append(Change("parameter", old, new, parameter_name(key)))
    return out
