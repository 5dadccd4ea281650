"""The front: the one rule for which settings no other one beats in both leakage and utility."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from leakbench.results.number import ANY, Number


def mark(numbers: Sequence[Number], about: Mapping[str, str]) -> list[Number]:
    """The same numbers with ``on_front``: not dominated by another live configuration of the task.

    Compared is who was asked the same question by the same attacker; the papers' own attacks count
    as one attacker, for each method has its own. A configuration attacked with several parameters
    is represented by the number that leaks most.

    Args:
        numbers: of all configurations.
        about: ``Configuration.key`` -> the data and the model: only those that agree are compared.
    """
    groups: dict[tuple[object, ...], dict[str, Number]] = defaultdict(dict)
    for n in numbers:
        attacker = "paper" if n.attacker.paper else n.attacker.name
        group = groups[n.configuration.task, n.asked, attacker, n.utility.meaning.name]
        worst = group.get(n.configuration.key)
        if fits_front(n) and (worst is None or n.leak > worst.leak):
            group[n.configuration.key] = n
    chosen = {n.key for group in groups.values() for n in best_numbers(list(group.values()), about)}
    return [n.model_copy(update={"on_front": n.key in chosen}) for n in numbers]


def fits_front(n: Number) -> bool:
    """May it lie on a front at all?

    Not a dead run, not a number of an attack whose control failed (though unit by unit it may be
    beyond its blind guess), that is too weak to judge, or of attacks that ran on unlike
    seeds, and not the worst case of a configuration that only the paper's own attack tried: there
    nobody else looked.
    """
    alone = n.attacker.name == ANY and n.attacker.rung == "paper"
    doubted = {"dead_run", "control_failed"} & {*n.flags}
    return not (doubted or n.weak or n.uneven or alone)


def best_numbers(numbers: Sequence[Number], about: Mapping[str, str]) -> list[Number]:
    """Those that no other one beats, of those about the same data and model."""
    by_data: dict[str, list[Number]] = defaultdict(list)
    for n in numbers:
        by_data[about[n.configuration.key]].append(n)
    return [n for group in by_data.values() for n in _unbeaten(group)]


def _unbeaten(numbers: Sequence[Number]) -> list[Number]:
    """Those that no other one beats; equals stand together.

    They leak less than all that are as useful, and are more useful than all that leak as little.
    """
    at = [(n.leak, -n.utility.gain) for n in numbers]
    kept, last = set[int](), (-math.inf, math.inf)
    for i in sorted(range(len(numbers)), key=lambda i: at[i]):
        if at[i][1] < last[1] or at[i] == last:
            kept.add(i)
            last = at[i]
    return [n for i, n in enumerate(numbers) if i in kept]
