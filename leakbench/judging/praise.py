"""Who may be praised: the one rule behind every sentence that calls a setting the best of some.

Praised is who leaks least at worst, of the live settings that claim to hide something, were judged,
and do not give away most of what there is: neither by their verdict nor, where few units make it a
leak in part, by the number itself. Who cannot be judged is not praised for it, equals are
named as equals, and the best of settings that all leak is not praised at all.
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


def candidate(judged: Judged) -> bool:
    """Is it compared at all: judged, alive, and no reference?"""
    return judged.verdict.judged and not judged.setting.dead and not judged.setting.reference


def leaks_least(judged: Iterable[Judged]) -> tuple[Judged, ...]:
    """Those that leak least at worst, equals together, in the given order; none where none may be.

    Equal is what a reader sees as equal. A setting that leaks less but may not be praised, because
    it leaks most of its own control, does not pass the praise on to one that leaks more.
    """
    compared = [j for j in judged if candidate(j) and j.verdict.worst]
    if not compared:
        return ()
    least = min(compared, key=_leak)
    alike = [j for j in compared if _shown(j) == _shown(least)]
    return tuple(alike) if all(map(may_be, alike)) else ()


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
