"""A metric states all that a table, a verdict or the gate needs to know of it; what ours state is
what stood in tables beside them before, to the letter (facts.json).
"""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest

from leakbench.attacking.metric import Metric
from leakbench.base import registry
from leakbench.federation.utility import METRICS, meanings
from leakbench.metrics import topics
from leakbench.metrics.prototypes import RECOVERED, RECOVERY_PRECISION

BEFORE = json.loads(Path(__file__).with_name("facts.json").read_text(encoding="utf-8"))
# What was not known yet when these facts stood in tables.
SINCE = {"image_found", "word_precision", "word_recall", "features_within", "own_classes"} | {
    *("membership_auc", "membership_tpr", "membership_tpr_low"),
    *("attribute_auc", "attribute_accuracy", "user_auc"),
}
OF_ATTACKS = [
    pytest.param(m, id=f"{name}-{m.name}")
    for name in registry.names("attacks")
    for m in registry.load_plugin("attacks", name).metrics
]
STATED = {p.values[0].name: p.values[0].meaning for p in OF_ATTACKS} | {
    m.name: m for m in (RECOVERED.meaning, RECOVERY_PRECISION.meaning, *meanings().values())
}


def test_there_is_no_metric_more_and_none_less():
    assert set(STATED) == set(BEFORE["metrics"]) | SINCE


@pytest.mark.parametrize("name", BEFORE["metrics"])
def test_what_a_metric_states_is_what_stood_beside_it(name):
    meaning, before = STATED[name], BEFORE["usual"] | BEFORE["metrics"][name]
    assert meaning.name == name
    assert meaning.matters == before.pop("margin")
    assert meaning.heading == before["title"]
    assert meaning.label == before.pop("short", before.pop("title"))
    assert meaning.does == before.pop("verb")
    assert (meaning.topic.name if meaning.topic else None) == before.pop("topic")
    # Of what was never measured here no unit was stated.
    assert before.pop("unit", meaning.unit) == meaning.unit
    if name.startswith("recover"):
        before["share"] = True
    assert {key: getattr(meaning, key) for key in before} == before


@pytest.mark.parametrize("name", BEFORE["topics"])
def test_what_a_topic_states_is_what_stood_in_a_table(name):
    found = {t.name: t for t in vars(topics).values() if isinstance(t, topics.Topic)}
    assert set(found) == {
        *BEFORE["topics"],
        "captions",
        "examples",
        "members",
        "attributes",
        "users",
    }
    stated = found[name].parameters()
    # Later than that table.
    assert stated.pop("contents") is (name != "exposure")
    assert stated.pop("listens") is False
    assert stated.pop("secrets") == (["prototype", "codeword"] if name == "prototypes" else [])
    since = {"statistics"} if name == "labels" else set()
    assert {*stated.pop("kinds")} - since == {*BEFORE["topics"][name].pop("kinds")}
    assert stated == {"name": name, **BEFORE["topics"][name]}


def test_no_two_metrics_of_a_topic_have_one_rank():
    places = [(m.topic.name, m.rank) for m in STATED.values() if m.topic]
    assert len(places) == len(set(places)) == 38


@pytest.mark.parametrize("metric", OF_ATTACKS)
def test_every_metric_of_every_attack_says_all_of_itself(metric):
    m = metric.meaning
    assert "" not in (m.title, m.verb, m.about, m.unit)
    assert m.topic is not None
    assert m.matters > 0
    assert m.about.endswith(".")
    assert m.noun == "" or m.share, "only a share is told as a count"
    assert metric.needs


@pytest.mark.parametrize("metric", OF_ATTACKS)
def test_a_clone_under_another_name_means_the_same(metric):
    """What is known of a metric hangs on what it states, and on its name nowhere."""
    clone = replace(metric, meaning=metric.meaning.model_copy(update={"name": "my_own"}))
    mine, ours = clone.meaning.parameters(), metric.meaning.parameters()
    assert (mine.pop("name"), ours.pop("name")) == ("my_own", metric.name)
    assert mine == ours
    for fact in ("matters", "ends", "heading", "label", "does", "question", "drawn"):
        assert getattr(clone.meaning, fact) == getattr(metric.meaning, fact)
    assert (clone.leaks, clone.low, clone.high) == (metric.leaks, metric.low, metric.high)
    assert clone.meaning.text(0.5) == metric.meaning.text(0.5)


@pytest.mark.parametrize("name", meanings())
def test_a_utility_metric_says_all_of_itself(name):
    m = meanings()[name]
    assert "" not in (m.verb, m.about)
    assert m.margin
    assert (m.low, m.high, m.topic) == (0, 1, None)
    assert name not in METRICS or METRICS[name].meaning is m


def test_a_metric_has_no_facts_beside_its_meaning():
    """Else they could disagree."""
    fields = set(inspect.signature(Metric).parameters)
    assert "meaning" in fields
    assert not fields & set(STATED["psnr"].parameters())
