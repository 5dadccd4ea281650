"""Who may be praised: the one rule behind every sentence that calls a setting the best of some.

Praised is who leaks least at worst, of the live settings that claim to hide something, were judged,
and do not give away most of what there is: neither by their verdict nor, where few units make it a
leak in part, by the number itself. Who cannot be judged is not praised for it, equals are
named as equals, and the best of settings that all leak is not praised at all. Two or more are
compared, and only by what the same attacks found in as many units: who was attacked less leaks
less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leakbench.judging.question import Judged


def may_be(judged: Judged) -> bool:
    """May this setting be praised, if no other one is better?"""
    worst = judged.verdict.worst
    if not candidate(judged) or worst is None or judged.verdict.tone == "leak":
        return False
    return worst.leak < worst.half


def least_leaking(judged: Iterable[Judged]) -> Judged | None:
    """The one with the lowest worst case on the question's scale, whether or not it is praised."""
    found = [j for j in judged if j.verdict.worst]
    return min(found, key=_leak, default=None)


def candidate(judged: Judged) -> bool:
    """Is it counted at all: judged, alive, and no reference?"""
    return judged.verdict.judged and not judged.setting.dead and not judged.setting.reference


def leaks_least(judged: Iterable[Judged]) -> tuple[Judged, ...]:
    """Those that leak least at worst, equals together, in the given order; none where none may be.

    Equal is what a reader sees as equal. A setting that leaks less but may not be praised, because
    it leaks most of its own control, does not pass the praise on to one that leaks more.
    """
    compared = [j for j in judged if candidate(j)]
    if (
        len(compared) < 2
        or not attacked_alike(compared)
        or not all(j.verdict.worst for j in compared)
    ):
        return ()
    least = min(compared, key=_leak)
    equal = [j for j in compared if _shown(j) == _shown(least)]
    return tuple(equal) if all(map(may_be, equal)) else ()


def attacked_alike(judged: Iterable[Judged]) -> bool:
    """Were all attacked by the same attacks, with the same parameters, in as many units a seed?

    And is every number of theirs in the same metric, of attacks that ran on the same seeds? The
    papers' own attacks are not compared: each method has its own.
    """
    return len({_attacked(j) for j in judged}) == 1


def _attacked(judged: Judged) -> tuple[str, frozenset[tuple[str, str, str, float]], int]:
    tried = set()
    for n in judged.evidence.attacks:
        if not n.attacker.paper:
            tried.add((*n.attacker.key, n.stage, n.value.n / max(len(n.seeds), 1)))
    # No two with such a number are alike: what the missing part would have shown is unknown.
    worst = judged.verdict.worst
    lone = judged.setting.index + 1 if worst and worst.uneven else 0
    return judged.evidence.meaning.name, frozenset(tried), lone


def most_often(found: Sequence[Iterable[str]]) -> list[str]:
    """What is among the best of most cases, equals together; ``found``: the best of each case."""
    count: dict[str, int] = {}
    for names in found:
        for name in dict.fromkeys(names):
            count[name] = count.get(name, 0) + 1
    most = max(count.values(), default=0)
    return [name for name, times in count.items() if times == most]


def _leak(judged: Judged) -> float:
    worst = judged.verdict.worst
    assert worst  # noqa: S101 (only such are compared)
    return worst.leak


def _shown(judged: Judged) -> str:
    worst = judged.verdict.worst
    return worst.meaning.text(worst.value.value) if worst else ""
