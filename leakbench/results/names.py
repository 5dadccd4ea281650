"""Names that people read: "FedHide α 0.01, K 20 + clip_noise" from a configuration's parameters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.printable_text import one_line
from leakbench.base.spec import canonical, fingerprint
from leakbench.results.number import Configuration

LONGEST = 120  # characters of a setting's name
MOST = 24  # of a value in it


class Method:
    """What a method calls itself and its parameters, as run.json has it.

    Where that is silent (an older run, or none at all) the installed method says it, or else the
    names in the files stand for themselves.
    """

    def __init__(self, name: str, about: Any = None) -> None:
        told = about if isinstance(about, Mapping) else _installed(name)
        letters = told.get("letters")
        self.title = str(told.get("title") or name)
        self.principal = frozenset(map(str, told.get("principal") or ()))
        self._letters: Mapping[str, Any] = letters if isinstance(letters, Mapping) else {}

    def letter(self, parameter: str) -> str:
        """As the paper writes it: "α"."""
        return str(self._letters.get(parameter, parameter))


@lru_cache(maxsize=256)
def _installed(name: str) -> Mapping[str, Any]:
    try:
        return dict(registry.load_plugin("defenses", name).display())
    except UsageError:  # not installed here, or it cannot be imported
        return {}


@dataclass(frozen=True)
class SettingName:
    """What people call a setting, in its parts; its text is all of them.

    ``parameters``: (as the paper writes it, value); ``mark``: of one that would else look like
    another.
    """

    title: str
    parameters: tuple[tuple[str, str], ...]
    wrappers: tuple[str, ...]
    mark: str = ""

    def __str__(self) -> str:
        return self.first(len(self.parameters)) + f" #{self.mark}" * bool(self.mark)

    def first(self, count: int) -> str:
        """With its first ``count`` parameters and its wrappers, without the mark.

        A parameter that is the title's last word is not said twice: "FedAvg, momentum 0.9".
        """
        told = [" ".join(pair) for pair in self.parameters[:count]]
        if told and self.title.split()[-1:] == [self.parameters[0][0]]:
            told[0] = self.parameters[0][1]
        return self._text(told)

    @property
    def values(self) -> str:
        """As in "FedMetric 1.5, proxy" for "FedMetric scale 1.5, variant proxy"."""
        return self._text(value for _, value in self.parameters)

    def _text(self, told: Iterable[str]) -> str:
        wrapped = "".join(f" + {name}" for name in self.wrappers)
        return _short(f"{self.title} {', '.join(told)}".strip() + wrapped, LONGEST)


def setting_names(
    every: Sequence[Configuration], methods: Mapping[str, Method]
) -> dict[str, SettingName]:
    """``Configuration.key`` -> name.

    The method, its principal parameters and those that differ between its settings of a task, the
    wrappers with theirs that differ: "FedAvg + clip_noise 0.03".

    Args:
        every: the configurations that are shown together.
        methods: the defense's name -> what it calls itself.
    """
    values: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for c in every:
        for name, value in c.params.items():
            values[c.task, c.defense, name].add(canonical(value))
        for w in c.wrappers:
            for name, value in w.get("params", {}).items():
                values[c.task, c.defense, w["name"], name].add(canonical(value))
    names = {}
    for c in every:
        method = methods.get(c.defense) or Method(c.defense)
        told = []
        for name, value in c.params.items():
            if name in method.principal or len(values[c.task, c.defense, name]) > 1:
                told.append((method.letter(name), _value(value)))
        wrapped = []
        for w in c.wrappers:
            place = c.task, c.defense, w["name"]
            differ = {k: v for k, v in w.get("params", {}).items() if len(values[*place, k]) > 1}
            wrapped.append(_wrapper(w["name"], differ))
        names[c.key] = SettingName(method.title, tuple(told), tuple(wrapped))
    twice = Counter((c.task, str(names[c.key])) for c in every)
    for c in every:
        if twice[c.task, str(names[c.key])] > 1:
            names[c.key] = replace(names[c.key], mark=fingerprint(c.key)[:4])
    return names


def _wrapper(name: str, differ: Mapping[str, Any]) -> str:
    """As in "clip_noise 0.03", or "clip_noise clip 1, noise 0.03" where two parameters differ."""
    told = [_value(v) if len(differ) == 1 else f"{k} {_value(v)}" for k, v in differ.items()]
    return f"{name} {', '.join(told)}".strip()


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return _short(value if isinstance(value, str) else canonical(value), MOST)


def _short(text: str, most: int) -> str:
    """On one line, cut where it is too long to be read as a name."""
    shown = one_line(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
