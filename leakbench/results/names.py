"""Names that people read: "FedHide α 0.01, K 20 + clip_noise" from a configuration's parameters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
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


def setting_names(every: Sequence[Configuration], methods: Mapping[str, Method]) -> dict[str, str]:
    """``Configuration.key`` -> name.

    The method, its principal parameters and those that differ between its settings of a task, the
    wrappers.

    Args:
        every: the configurations that are shown together.
        methods: the defense's name -> what it calls itself.
    """
    values: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for c in every:
        for name, value in c.params.items():
            values[c.task, c.defense, name].add(canonical(value))
    names = {}
    for c in every:
        method = methods.get(c.defense) or Method(c.defense)
        told = []
        for name, value in c.params.items():
            if name in method.principal or len(values[c.task, c.defense, name]) > 1:
                told.append(f"{method.letter(name)} {_value(value)}")
        wrapped = "".join(f" + {w['name']}" for w in c.wrappers)
        names[c.key] = _short(f"{method.title} {', '.join(told)}".strip() + wrapped, LONGEST)
    twice = Counter((c.task, names[c.key]) for c in every)
    for c in every:
        if twice[c.task, names[c.key]] > 1:
            names[c.key] += f" #{fingerprint(c.key)[:4]}"
    return names


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return _short(value if isinstance(value, str) else canonical(value), MOST)


def _short(text: str, most: int) -> str:
    """On one line, cut where it is too long to be read as a name."""
    shown = one_line(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
