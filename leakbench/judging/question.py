"""One question of a report, and every setting's verdict on it."""

from __future__ import annotations

from dataclasses import dataclass

from leakbench.base.meaning import Meaning, Topic
from leakbench.judging.verdict import Case, Verdict
from leakbench.results.number import ANY, Number
from leakbench.results.settings import Setting

WHEN = {
    "untrained": "before training",
    "early": "early in training",
    "middle": "half way through training",
}


@dataclass(frozen=True, eq=False)
class Judged:
    """A setting with its verdict on one question."""

    setting: Setting
    case: Case
    verdict: Verdict
    sentence: str

    def of(self, attacker: str) -> Number | None:
        """Its number by an attacker: "cascade", "any_attack", or "paper" for the strongest that
        its own paper measures.
        """
        if attacker == "paper":
            return self.verdict.paper
        return self.case.any_attack if attacker == ANY else self.case.cascade

    def on_front(self, attacker: str = ANY) -> bool:
        """Does its number by this attacker lie on the front, as the table has it?"""
        number = self.of(attacker)
        return number is not None and number.on_front


@dataclass(frozen=True, eq=False)
class Question:
    """One task, one topic, judged by one metric; probes and stages of training before the end are
    questions of their own.
    """

    task: str
    topic: Topic
    meaning: Meaning
    probe: bool
    stage: str
    judged: tuple[Judged, ...] = ()

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.meaning.name

    @property
    def label(self) -> str:
        """What sets it apart from the task's other questions: "images, on probes"."""
        early = "" if self.stage == "final" else f", {WHEN.get(self.stage, self.stage)}"
        return self.topic.name + (", on probes" if self.probe else "") + early
