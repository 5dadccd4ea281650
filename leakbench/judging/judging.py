"""From the tables of a report to verdicts: every question that its numbers can answer, every
setting judged on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from leakbench.base.spec import canonical
from leakbench.judging.questions import TOPICS, Topic, topic
from leakbench.judging.sentences import sentence
from leakbench.judging.settings import Judged, Question, Setting, find_settings, flags_of
from leakbench.judging.verdict import Case, Number, judge
from leakbench.results.keys import Row, params, setting_key
from leakbench.results.numbers import Numbers

END = ("final", "all")
# The end of training is what is judged; before it in their order.
STAGES = ("final", "untrained", "early", "middle")
# Rows made from the others' units.
MADE = ("cascade", "any_attack")


@lru_cache(maxsize=1)
def all_judged(data: Numbers) -> tuple[list[Setting], list[Question]]:
    """Settings and questions of a report, found once for all its formats."""
    settings = find_settings(data)
    return settings, find_questions(data, settings)


def find_questions(data: Numbers, settings: Sequence[Setting]) -> list[Question]:
    """Every question that some number of the trade-off table can answer, by task.

    The task with most judged settings comes first, and within a task the question for the headline.
    """
    asked: dict[tuple[str, str, bool, str], set[str]] = defaultdict(set)
    for row in data.tradeoff:
        asked[row["task"], topic(row["metric"]).name, bool(row["probe"]), _stage(row)].add(
            row["metric"]
        )
    questions, index = [], Index(data)
    leaks = {r["metric"]: r["leaks"] for r in data.tradeoff}
    for (task, name, probe, stage), metrics in asked.items():
        about = next((t for t in TOPICS if t.name == name), None) or topic(name)
        metric = next(m for m in about.metrics if m in metrics)
        empty = Question(task, about, metric, probe, stage, leaks[metric])
        questions.append(
            replace(
                empty, judged=tuple(_judged(index, empty, s) for s in settings if s.task == task)
            )
        )
    order = [t.name for t in TOPICS]
    most: dict[str, int] = defaultdict(int)
    for q in questions:
        if q.stage == "final":
            most[q.task] = max(most[q.task], sum(j.verdict.judged for j in q.judged))
    return sorted(
        questions,
        key=lambda q: (
            -most[q.task],
            q.task,
            STAGES.index(q.stage) if q.stage in STAGES else len(STAGES),
            not any(j.verdict.judged for j in q.judged),
            q.probe,  # what nobody sends is never the headline while real messages were judged
            -sum(j.verdict.judged for j in q.judged),
            order.index(q.topic.name) if q.topic.name in order else len(order),
        ),
    )


class Index:
    """The rows of the trade-off table by (setting, metric, probe, stage), and how many units failed
    in each.
    """

    def __init__(self, data: Numbers) -> None:
        self.rows: dict[tuple[str, str, bool, str], list[Row]] = defaultdict(list)
        self.attacks: dict[str, set[str]] = defaultdict(set)  # metric -> attacks that measure it
        for r in data.tradeoff:
            self.rows[_place(r)].append(r)
            self.attacks[r["metric"]].add(r["attack"])
        self.failed: dict[tuple[Any, ...], tuple[int, int]] = {}
        for r in data.results:
            key = (*_place(r), r["attack"], canonical(params(r["attack_params"])))
            failed, tried = self.failed.get(key, (0, 0))
            self.failed[key] = (failed + int(r["failed"]), tried + int(r["n"]))
        self.reasons: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for m in data.missing:
            self.reasons[m["task"], m["defense"], canonical(params(m["defense_params"]))].append(m)

    def numbers(self, setting: Setting, metric: str, probe: bool, stage: str) -> list[Number]:
        """The numbers of one setting in one metric, rows over all rounds last."""
        place = (setting.key, metric, probe, stage)
        found = sorted(self.rows[place], key=lambda r: r["stage"] == "all")
        return [
            number(
                r,
                *self.failed.get(
                    (*place, r["attack"], canonical(params(r["attack_params"]))), (0, 0)
                ),
            )
            for r in found
        ]

    def on_front(self, setting: Setting, metric: str, probe: bool, stage: str) -> bool:
        """Whether the table puts the setting's worst case on the front."""
        return any(
            r["attack"] == "any_attack" and r["on_front"]
            for r in self.rows[setting.key, metric, probe, stage]
        )

    def why_missing(self, setting: Setting, about: Topic) -> dict[str, str]:
        """Metric -> why it is not there, of missing.csv (which does not know wrappers)."""
        found = self.reasons[setting.task, setting.family, canonical(setting.params)]
        fits = {a for m in about.metrics for a in self.attacks[m]}
        return {
            str(m["metric"]): str(m["reason"])
            for m in found
            if m["metric"] in about.metrics or (not m["metric"] and m["attack"] in fits)
        }


def number(row: Row, failed: int = 0, tried: int = 0) -> Number:
    """A row of the trade-off table as a verdict reads it."""
    names = [
        "value",
        "low",
        "high",
        "floor",
        "floor_low",
        "floor_high",
        "control",
        "control_low",
        "control_high",
    ]
    return Number(
        attack=row["attack"],
        rung=row["rung"],
        n=int(row["n"]),
        interval=row["interval"],
        flags=flags_of(row),
        failed=failed,
        tried=tried,
        attack_params=str(row["attack_params"]),
        **{n: float(row[n]) for n in names},
    )


def _judged(index: Index, question: Question, setting: Setting) -> Judged:
    at = (setting, question.metric, question.probe, question.stage)
    numbers = index.numbers(*at)
    special = {n.attack: n for n in numbers if n.attack in MADE}
    reasons = index.why_missing(setting, question.topic)
    public = (
        index.numbers(setting, "p_leak_public", question.probe, question.stage)
        if question.metric == "p_leak"
        else []
    )
    case = Case(
        metric=question.metric,
        leaks=question.leaks,
        attacks=tuple(n for n in numbers if n.attack not in MADE),
        cascade=special.get("cascade"),
        any_attack=special.get("any_attack"),
        seeds=setting.seeds,
        dead_seeds=setting.dead_seeds,
        dead_because=setting.dead_because,
        kind=question.topic.kind,
        sends=tuple(sorted(setting.kinds - {"model"})),
        sends_kind=not setting.runs
        or not question.topic.kinds
        or bool(setting.kinds & question.topic.kinds),
        reason=" ".join(list(dict.fromkeys(reasons.values()))[:2]) or "no attack that fits was run",
        public=max(
            (n for n in public if n.attack not in MADE), key=lambda n: n.value, default=None
        ),
        no_lpips="lpips" in reasons and "weight" in reasons["lpips"].lower(),
    )
    verdict = judge(case)
    live = not setting.dead and "control_failed" not in (
        verdict.worst.flags if verdict.worst else frozenset()
    )
    return Judged(setting, case, verdict, sentence(case, verdict), live and index.on_front(*at))


def _place(row: Row) -> tuple[str, str, bool, str]:
    return setting_key(row), row["metric"], bool(row["probe"]), _stage(row)


def _stage(row: Row) -> str:
    return "final" if row["stage"] in END else str(row["stage"])
