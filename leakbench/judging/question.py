"""One question of a report, and every setting's verdict on it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainSerializer, computed_field

from leakbench.base.meaning import Topic
from leakbench.base.part import Part
from leakbench.judging.evidence import Evidence
from leakbench.judging.verdict import Verdict
from leakbench.results.listener import Listener
from leakbench.results.number import ByName
from leakbench.results.settings import Setting

TO: dict[Listener, str] = {
    "server+": "an active server",
    "aggregator": "the aggregator",
    "server": "the server",
    "coalition": "several clients",
    "client": "one client",
    "outsider": "an outsider",
}
WHEN = {
    "untrained": "before training",
    "early": "early in training",
    "middle": "half way through training",
}


ById = Annotated[Setting, PlainSerializer(lambda setting: setting.id, return_type=str)]


class Span(Part):
    """A piece of text; ``tone``: leak, part, held, strong or none."""

    text: str
    tone: str = ""


class Judged(Part):
    """A setting with its verdict on one question.

    ``by``: what the verdict's rule saw, where its numbers have no place on the question's scale.
    Words are added by ``leakbench.words``: the verdict's ``sentence``, and ``also``, what the
    task's other questions say of the setting where they are worse, or open.
    """

    setting: ById
    evidence: Evidence = Field(exclude=True)
    verdict: Verdict
    by: tuple[Evidence, Verdict] | None = Field(None, exclude=True)
    sentence: str = ""
    also: tuple[str, ...] = ()

    @property
    def basis(self) -> tuple[Evidence, Verdict]:
        """What the verdict's rule saw, on whatever scale."""
        return self.by or (self.evidence, self.verdict)

    def off_scale(self) -> Judged:
        """The same verdict, without numbers on the question's scale: they are of another metric."""
        none = {"attacks": (), "cascade": None, "any_attack": None, "beside": ()}
        bare = {**dict.fromkeys(("reached", "worst", "paper", "copied")), "counting": ()}
        return self.model_copy(
            update={
                "evidence": self.evidence.model_copy(update=none),
                "verdict": self.verdict.model_copy(update=bare),
                "by": (self.evidence, self.verdict),
            }
        )


class Question(Part):
    """One task, one topic, judged by one metric.

    Probes and stages of training before the end are questions of their own. ``listener``: of whose
    attacks alone it is told; None: of anyone's. ``heard``: the same question by each kind of
    listener, where several attacked. ``fronts``: attacker -> ids of the settings on its best
    trade-off. ``headline`` and ``lede`` are added by ``leakbench.words``.
    """

    task: str
    topic: Topic
    meaning: ByName = Field(serialization_alias="metric")
    probe: bool
    stage: str
    listener: Listener | None = None
    heard: tuple[Question, ...] = ()
    judged: tuple[Judged, ...] = ()
    headline: tuple[Span, ...] = ()
    lede: tuple[Span, ...] = ()
    fronts: dict[str, list[str]] = {}

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.meaning.name

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        """What sets it apart from the task's other questions: "images, on probes, to a client"."""
        early = "" if self.stage == "final" else f", {WHEN.get(self.stage, self.stage)}"
        to = f", to {TO[self.listener]}" if self.listener else ""
        return self.topic.name + (", on probes" if self.probe else "") + early + to
