"""What was not looked at: runs that are not complete, seeds that an attack has no number in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from leakbench.base.meaning import Topic
from leakbench.judging.wording import kinds_of
from leakbench.results.number import Number
from leakbench.results.settings import Setting


def gaps(setting: Setting, attacks: Sequence[Number]) -> tuple[str, ...]:
    """A clause for each thing that an acquittal would pass over; none where all was looked at.

    Args:
        setting: with all its runs, complete or not.
        attacks: its numbers on one question, none of them made of several.
    """
    if not attacks:
        return ()
    out, complete = [], set(setting.seeds)
    every = {r.seed for r in setting.every} | complete
    if complete < every:
        out.append(f"{len(complete)} of {len(every)} runs are complete")
    own: dict[tuple[str, str], set[int]] = defaultdict(set)
    for n in attacks:
        own[n.attacker.key].update(n.seeds)
    attacked = set[int]().union(*own.values())
    if attacked < complete:
        out.append(f"attacked in {len(attacked)} of {len(complete)} seeds")
    for (name, _), seeds in own.items():
        if attacked - seeds:
            out.append(f"{name} has no number in seed {_listed(attacked - seeds)}")
    return tuple(dict.fromkeys(out))


def unread(topic: Topic, setting: Setting, attacks: Sequence[Number]) -> tuple[str, ...]:
    """A clause where the server receives what may tell the same, and nobody looked into it.

    A prototype is in a proxy, and in the update that was made with it.
    """
    if not attacks or not topic.contents:
        return ()
    read = {kind for n in attacks for kind in n.attacker.reads}
    left = sorted(setting.received & {*topic.kinds} - read)
    names = [f"its {kinds_of(kind)}" for kind in left]
    return (f"{' and '.join(names)} were not attacked for this",) if left else ()


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))
