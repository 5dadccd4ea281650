"""What was worse before the end of training than at it: said before anything is opened."""

from __future__ import annotations

from collections.abc import Sequence

from leakbench.judging import Question
from reports._words import several

RANK = {"held": 0, "none": 1, "part": 2, "leak": 3}
FEW = 4  # names in a sentence


def worse_before(questions: Sequence[Question]) -> str:
    """Who had a worse verdict at an earlier stage, or has no verdict at the end to compare."""
    end: dict[tuple[str, str, bool, int], int] = {}
    for q in questions:
        if q.stage == "final":
            for j in q.judged:
                end[q.task, q.topic.name, q.probe, j.setting.index] = RANK[j.verdict.tone]
    found: dict[str, None] = {}
    for q in questions:
        for j in q.judged:
            at = (q.task, q.topic.name, q.probe, j.setting.index)
            accused = j.verdict.tone in ("leak", "part")
            if q.stage != "final" and accused and RANK[j.verdict.tone] > end.get(at, -1):
                found[f"{j.setting.name} ({q.label}: {j.verdict.word})"] = None
    return f"Worse before the end than at it: {several(list(found), FEW)}." if found else ""
