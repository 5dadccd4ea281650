"""What settings and attacks are called in the names of rows, and which of then is which of now.

A setting is called what its user calls it. One without a name is called after its task and method,
and after the parameters in which it differs from others of these: never after a hash.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.base.spec import canonical
from leakbench.gate.change import (
    Change,
    all_parameters,
    changed_parameters,
    parameter_name,
    plain_value,
)
from leakbench.gate.row import GateRow

Rows = Sequence[GateRow]
_MOST = 24  # characters of a value in a name


@dataclass(frozen=True)
class Matched:
    """The rows now and then, by name; one setting has one name on both sides.

    ``changes``: SETTING -> what of it is another than then. ``swapped``: (SETTING, the attack's
    folder then) -> its folder now, of attacks that ran with other parameters.
    """

    here: dict[str, GateRow]
    there: dict[str, GateRow]
    changes: Mapping[str, tuple[Change, ...]]
    swapped: Mapping[tuple[str, str], str]


def labelled(rows: Iterable[GateRow], known: Mapping[str, str] | None = None) -> list[GateRow]:
    """The rows with the names of their settings and attacks.

    Args:
        rows: of one side.
        known: ``Configuration.key`` -> name, of settings whose names are given.

    Raises:
        UsageError: two settings bear one name.
    """
    kept = list(rows)
    names = _labels(_settings(kept), known or {})
    own = _by(kept, lambda r: names[r.configuration.key])
    tags = {label: _tags(rows) for label, rows in own.items()}
    out = []
    for r in kept:
        label = names[r.configuration.key]
        tag = tags[label].get(r.attacked_by, r.attacker.name)
        out.append(r.model_copy(update={"label": label, "tag": tag}))
    return out


def matched(now: Iterable[GateRow], then: Iterable[GateRow]) -> Matched:
    """Every row by name; the same setting, and the same attack, has then's name on both sides.

    Settings are the same by the user's name; else by all their parameters; else where one setting
    of a task and a method is left on each side. Attacks likewise: by their parameters, or the only
    one of its name.

    Raises:
        UsageError: two settings now bear one name.
    """
    now, then = labelled(now), list(then)
    pairs = _paired(_settings(now), _settings(then))
    old = {r.configuration.key: r.label for r in then}
    known = {mine: old[theirs] for mine, theirs in pairs.items()}
    taken = {key: label for key, label in old.items() if key not in known}
    now = labelled(now, {**taken, **known})
    here: list[GateRow] = []
    changes: dict[str, tuple[Change, ...]] = {}
    swapped: dict[tuple[str, str], str] = {}
    before = _by(then, lambda r: r.label)
    for label, mine in _by(now, lambda r: r.label).items():
        theirs = before.get(label, [])
        if theirs:
            changes[label] = changed_parameters(theirs[0], mine[0])
        tags, moved = _same_attacks(mine, theirs)
        swapped |= {(label, a): b for a, b in moved.items()}
        here += [r.model_copy(update={"tag": tags.get(r.attacked_by, r.tag)}) for r in mine]
    mine_by_name = by_name(here)
    theirs = [_as_the_runs_say(r, mine_by_name.get(r.name)) for r in then]
    return Matched(mine_by_name, by_name(theirs), changes, swapped)


def _as_the_runs_say(then: GateRow, now: GateRow | None) -> GateRow:
    """What matters is what the metric of the runs says, whatever stands in the baseline."""
    if now is None or not now.stated:
        return then
    said = {"margin": now.meaning.margin}
    if not then.stated:  # its file is older, and says of the metric no more than these
        told = ("direction", "low", "high", "share", "version")
        said = {**now.meaning.parameters(), **{k: getattr(then.meaning, k) for k in told}}
    meaning = then.meaning.model_copy(update=said)
    return then.model_copy(update={"meaning": meaning, "stated": True})


def by_name(rows: Iterable[GateRow]) -> dict[str, GateRow]:
    """{name: row}.

    Raises:
        UsageError: two rows have the same name.
    """
    out: dict[str, GateRow] = {}
    for r in rows:
        if r.name in out:
            raise UsageError(
                f"two rows are called {r.name}: runs that differ only in rounds, engine or dtype"
                " cannot be in one check. Give fewer runs."
            )
        out[r.name] = r
    return out


def fits_pattern(name: str, pattern: str) -> bool:
    """Is it the name, or does the pattern fit it? Only `*` stands for anything."""
    parts = map(re.escape, pattern.split("*"))
    return re.fullmatch(".*".join(parts), name, re.DOTALL) is not None


def _settings(rows: Iterable[GateRow]) -> dict[str, GateRow]:
    return {r.configuration.key: r for r in rows}


def _by(rows: Iterable[GateRow], name: Any) -> dict[str, list[GateRow]]:
    out: dict[str, list[GateRow]] = defaultdict(list)
    for r in rows:
        out[name(r)].append(r)
    return out


def _labels(settings: Mapping[str, GateRow], known: Mapping[str, str]) -> dict[str, str]:
    """``Configuration.key`` -> the setting's name."""
    called = {key: r.training.called for key, r in settings.items()}
    names = {key: name for key, name in called.items() if name} | dict(known)
    alike: dict[str, list[str]] = defaultdict(list)
    for key, name in names.items():
        alike[name].append(key)
    for name, keys in alike.items():
        if len(keys) > 1 and all(k in settings for k in keys):
            one, two = (settings[k] for k in keys[:2])
            tasks = f"{one.configuration.task} and {two.configuration.task}"
            what = ", ".join(map(str, changed_parameters(one, two))) or tasks
            raise UsageError(
                f"two settings are called {name!r} ({what}): a name is one setting's. Give the runs"
                " of one of them, or train the other under another name with --as."
            )
    groups: dict[str, list[str]] = defaultdict(list)
    for key, r in settings.items():
        if key not in names:
            groups[_base(r)].append(key)
    for base, keys in groups.items():
        others = [r for r in settings.values() if _base(r) == base and not r.training.called]
        differ = _differing(others)
        for key in sorted(keys):
            own = all_parameters(settings[key])
            told = [f"{parameter_name(k)}={_worded(own[k])}" for k in own if k in differ]
            names[key] = _free(":".join([base, ",".join(told)]) if told else base, names)
    return names


def _free(name: str, names: Mapping[str, str]) -> str:
    """The name, numbered where it is taken."""
    found, times = name, 1
    while found in names.values():
        times += 1
        found = f"{name}~{times}"
    return found


def _base(r: GateRow) -> str:
    wrapped = "".join(f"+{name}" for name in r.configuration.wrapped)
    return f"{_worded(r.configuration.task)}/{r.configuration.defense}{wrapped}"


def _differing(rows: Sequence[GateRow]) -> set[tuple[str, str]]:
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    every = [all_parameters(r) for r in rows]
    for key in {k for one in every for k in one}:
        values[key] = {canonical(one.get(key)) for one in every}
    return {key for key, found in values.items() if len(found) > 1}


def _worded(value: Any) -> str:
    """A value as a part of a name: short, and without what would have to be quoted."""
    return re.sub(r"[^\w.=+-]+", "_", plain_value(value))[:_MOST]


def _tags(rows: Rows) -> dict[str, str]:
    """The attack's folder -> its name in one setting: with parameters where it ran with several."""
    kinds: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for r in rows:
        kinds[r.attacker.name][r.attacked_by] = r.attacker.params
    out: dict[str, str] = {}
    for attack, ran in kinds.items():
        differ = []
        for key in sorted({k for params in ran.values() for k in params}):
            if len({canonical(params.get(key)) for params in ran.values()}) > 1:
                differ.append(key)
        for folder, params in sorted(ran.items()):
            told = ",".join(f"{k}={_worded(params.get(k))}" for k in differ)
            out[folder] = _free(f"{attack}:{told}" if told else attack, out)
    return out


def _paired(now: Mapping[str, GateRow], then: Mapping[str, GateRow]) -> dict[str, str]:
    """Key of a setting now -> key of the same setting then."""
    mine, theirs, out = dict(now), dict(then), dict[str, str]()

    def pair(same: Any, *, loose: bool = False) -> None:
        """Those that are alone on both sides with what ``same`` says of them.

        ``loose``: but not two to which their user gave different names.
        """
        for key, r in list(mine.items()):
            said = same(r)
            near = [k for k, o in theirs.items() if same(o) == said]
            rivals = [k for k, o in mine.items() if same(o) == said]
            if not said or not len(near) == len(rivals) == 1:
                continue
            if not (loose and r.training.called and theirs[near[0]].training.called):
                out[key] = near[0]
                del mine[key], theirs[near[0]]

    pair(lambda r: r.training.called)
    pair(lambda r: [r.configuration.key])
    pair(lambda r: [*_parameters(r), r.training.setting, r.training.record])
    pair(_parameters)
    pair(lambda r: [_plainly(r), r.configuration.wrapped], loose=True)
    pair(_plainly, loose=True)
    return out


def _parameters(r: GateRow) -> list[Any]:
    return [_plainly(r), r.configuration.params, r.configuration.wrappers]


def _plainly(r: GateRow) -> tuple[str, str]:
    """Task and method."""
    return r.configuration.plain_task, r.configuration.defense


def _same_attacks(mine: Rows, theirs: Rows) -> tuple[dict[str, str], dict[str, str]]:
    """(folder now -> the attack's name then, folder then -> folder now where parameters changed)"""
    now = {r.attacked_by: r for r in mine if r.attacks}
    then = {r.attacked_by: r for r in theirs if r.attacks}
    tags = {folder: then[folder].tag for folder in now.keys() & then.keys()}
    gone = [f for f in then if f not in now]
    fresh = [f for f in now if f not in then]
    swapped = {}
    for old in gone:
        alike = [f for f in fresh if now[f].attacker.name == then[old].attacker.name]
        rivals = [f for f in gone if then[f].attacker.name == then[old].attacker.name]
        if len(alike) == len(rivals) == 1:
            tags[alike[0]], swapped[old] = then[old].tag, alike[0]
    return tags, swapped
