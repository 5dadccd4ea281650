"""How many settings have which verdict, counted as the headline counts them.

The defenses that were judged are counted, or the references where there is no defense. References
beside defenses and settings with a dead seed, which are in no headline, are named beside the count:
the same in the bar and above the list.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from leakbench.base.meaning import Meaning
from leakbench.judging.question import Judged, Question
from leakbench.judging.verdict import Word

# What a word counts as, where settings that cannot be judged are counted.
UNJUDGED: dict[Word, str] = {
    "dead run": "dead",
    "attack too weak": "attack too weak",
    "nothing to attack": "nothing to attack",
    "not attacked": "not attacked",
    "not finished": "not finished",
    "failed": "failed",
    "cannot tell": "undecided",
}


def unjudged(judged: Sequence[Judged]) -> str:
    """Why settings are in no headline, as in "1 dead, 2 undecided, 1 with a dead seed".

    What an attacker found in those with a dead seed is said: dead is not private either.
    """
    counts = Counter(j.verdict.word for j in judged if not j.verdict.judged)
    told = [f"{counts[w]} {t}" for w, t in UNJUDGED.items() if counts[w]]
    dead = [j for j in judged if not _counted(j)]
    found = sum(j.verdict.tone in ("leak", "part") for j in dead)
    leaks = ", which leaks" if len(dead) == 1 else f", of which {found} leak"
    more = f"{len(dead)} with a dead seed{leaks if found else ''}"
    return ", ".join([*told, more] if dead else told)


def tally(judged: Sequence[Judged], every: Sequence[Judged]) -> tuple[str, str]:
    """Of settings with one verdict: how many the headline counts, and who is there besides.

    As in ("5", "and the reference"), ("5,", "the reference and 1 with a dead seed"), or ("", "the
    reference") where it counts none of them. ``every``: all of the question; where none is a
    defense the references are counted.
    """
    apart = [j for j in judged if j.setting.reference and not alone(every)]
    count = sum(_counted(j) for j in judged if j not in apart)
    dead = len(judged) - count - len(apart)
    more = []
    if apart:
        more.append("the reference" if len(apart) == 1 else f"{len(apart)} references")
    if dead:
        more.append(f"{dead} with a dead seed")
    if not (count and more):
        return (str(count) if not more else ""), " and ".join(more)
    return (str(count), f"and {more[0]}") if len(more) == 1 else (f"{count},", " and ".join(more))


def alone(judged: Sequence[Judged]) -> bool:
    """Is there no defense among them?"""
    return all(j.setting.reference for j in judged)


def _counted(judged: Judged) -> bool:
    """In the headline, or where it says who could not be judged."""
    return not (judged.verdict.judged and judged.setting.dead)


def counts(question: Question) -> list[tuple[str, str, str, str]]:
    """(tone, count, word, meaning) of the verdict bar."""
    none = [j for j in question.judged if j.verdict.tone == "none"]
    why = unjudged(none) or "none of the settings"
    told = (
        ("leak", "leaks", "leak", "surely half of all there is to get, or more"),
        (
            "part",
            "leaks in part",
            "leak in part",
            "surely more than a blind guess, not surely half",
        ),
        ("held", "held", "held", f"within {_small(question.meaning)} of a blind guess"),
        ("none", "cannot be judged", "cannot be judged", why),
    )
    out = []
    for tone, one, many, meaning in told:
        mine = [j for j in question.judged if j.verdict.tone == tone]
        count, more = tally(mine, question.judged)
        verb = one if len(mine) == 1 else many
        out.append((tone, count, f"{more} {verb}".strip(), meaning))
    return out


def _small(meaning: Meaning) -> str:
    """The margin, as people read it."""
    if meaning.scale == "log":
        return f"a factor of {math.exp(meaning.matters):g}"
    return f"{meaning.matters:g}{meaning.suffix}"
