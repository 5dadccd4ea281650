"""How many settings have which verdict, counted as the headline counts them.

The defenses that were judged are counted. References and settings with a dead seed, which are in
no headline, are named beside the count: the same in the bar and above the list.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from leakbench.base.meaning import Meaning
from leakbench.judging.praise import candidate
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
    "cannot tell": "cannot tell",
}


def unjudged(judged: Sequence[Judged]) -> str:
    """Why settings were not judged, as in "1 dead, 2 cannot tell"."""
    counts = Counter(j.verdict.word for j in judged if not j.verdict.judged)
    return ", ".join(f"{counts[w]} {t}" for w, t in UNJUDGED.items() if counts[w])


def tally(judged: Sequence[Judged]) -> tuple[int, str]:
    """Of settings with one verdict: how many the headline counts, and who is there besides.

    As in (5, "and the reference").
    """
    count = sum(_counted(j) for j in judged)
    references = sum(j.setting.reference for j in judged)
    dead = len(judged) - count - references
    more = []
    if references:
        more.append("the reference" if references == 1 else f"{references} references")
    if dead:
        more.append(f"{dead} with a dead seed")
    return count, f"and {' and '.join(more)}" if more else ""


def _counted(judged: Judged) -> bool:
    """In the headline, or where it says who could not be judged."""
    return candidate(judged) or not (judged.verdict.judged or judged.setting.reference)


def counts(question: Question) -> list[tuple[str, int, str, str]]:
    """(tone, count, word, meaning) of the verdict bar."""
    why = unjudged(question.judged) or "none of the settings"
    told = (
        ("leak", "leaks", "leak", "at least half of all there is to get"),
        ("part", "leaks in part", "leak in part", "more than a blind guess"),
        ("held", "held", "held", f"within {_small(question.meaning)} of a blind guess"),
        ("none", "cannot be judged", "cannot be judged", why),
    )
    out = []
    for tone, one, many, meaning in told:
        mine = [j for j in question.judged if j.verdict.tone == tone]
        count, more = tally(mine)
        verb = one if len(mine) == 1 else many
        out.append((tone, count, f"{more} {verb}".strip(), meaning))
    return out


def _small(meaning: Meaning) -> str:
    """The margin, as people read it."""
    if meaning.scale == "log":
        return f"a factor of {math.exp(meaning.matters):g}"
    return f"{meaning.matters:g}{meaning.suffix}"
