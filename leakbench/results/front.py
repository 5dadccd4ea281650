"""The front: the one rule for which settings no other one beats in both leakage and utility."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from leakbench.results.number import ANY, Number


def mark(numbers: Sequence[Number], about: Mapping[str, str]) -> list[Number]:
    """The same numbers with ``on_front``: not dominated by another live configuration.

    Compared is who was asked the same question by the same attacker; the papers' own attacks count
    as one attacker, for each method has its own. A configuration attacked with several parameters
    is represented by the number that leaks most. On no front is a dead run, a number of an attack
    too weak to judge, and the worst case of a configuration that only the paper's own attack
    tried: nobody else looked.

    Args:
        numbers: of all configurations.
        about: ``Configuration.key`` -> the data and the model: only those that agree are compared.
    """
    groups: dict[tuple[object, ...], dict[str, Number]] = defaultdict(dict)
    for n in numbers:
        if fit(n):
            attacker = "paper" if n.attacker.paper else n.attacker.name
            asked = (about[n.configuration.key], n.asked, attacker, n.utility.meaning.name)
            worst = groups[asked].get(n.configuration.key)
            if worst is None or n.leak > worst.leak:
                groups[asked][n.configuration.key] = n
    chosen = {n.key for group in groups.values() for n in _front(list(group.values()))}
    return [n.model_copy(update={"on_front": n.key in chosen}) for n in numbers]


def fit(n: Number) -> bool:
    """May it lie on a front at all?"""
    alone = n.attacker.name == ANY and n.attacker.rung == "paper"
    return "dead_run" not in n.flags and not n.weak and not alone


def _front(group: Sequence[Number]) -> list[Number]:
    return [n for n in group if not any(_beats(other, n) for other in group)]


def _beats(a: Number, b: Number) -> bool:
    """At least as good in both, and better in one."""
    gain, leak = a.utility.gain - b.utility.gain, b.leak - a.leak
    return gain >= 0 and leak >= 0 and (gain > 0 or leak > 0)
