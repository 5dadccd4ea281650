"""Who got a message is one question, what it gives away is another."""

from __future__ import annotations

import pytest
from helpers.run_folders import SCALES, add_attack, make_run, measure

from leakbench.judging.judging import find_questions
from leakbench.metrics import topics
from leakbench.metrics.exposure import EXPOSURE
from leakbench.record.folders import load
from leakbench.results.tables import collect
from leakbench.words.headlines import with_words


@pytest.fixture
def question(tmp_path, monkeypatch):
    """A setting that sends the server raw data, of which only the traffic was looked at."""
    told = {**EXPOSURE.meaning.parameters(), "leaks": EXPOSURE.leaks}
    monkeypatch.setitem(SCALES, "exposure", told)
    sent = {"kind": "data", "sender": "client", "receiver": "server", "rounds": 1}
    sent |= {"messages": 10, "bytes": 1000, "covered": False}
    runs = []
    for seed in (0, 1):
        run = make_run(tmp_path, seed=seed, sent=[sent])
        add_attack(run, "exposure", [measure("exposure", [0.0] * 60, 0.0, [1.0] * 60)])
        runs.append(load(run))
    return with_words(find_questions(collect(runs).settings, []))[0]


def test_only_exposure_is_about_who_got_it():
    assert not EXPOSURE.meaning.question.contents
    others = (topics.PROTOTYPES, topics.IMAGES, topics.LABELS, topics.CONTEXT, topics.RESEMBLANCE)
    assert all(topic.contents for topic in others)


def test_the_first_sentence_says_what_it_is_about(question):
    assert "not about what they give away" in "".join(s.text for s in question.lede)


def test_what_was_sent_is_still_said_to_be_unattacked(question):
    (judged,) = question.judged
    assert "Its data were not attacked." in judged.also
