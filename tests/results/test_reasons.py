"""Reasons are values: every code has its words, and no verdict rests on a word."""

from __future__ import annotations

from typing import get_args

import pytest
from helpers.report_data import report_data
from helpers.run_folders import add_attack, make_run, measure

from leakbench.base import reason_words
from leakbench.base.reason import GONE, Code, Reason, in_words, reason
from leakbench.base.reason_words import reason_text
from leakbench.judging.judging import find_questions
from leakbench.record.folders import load
from leakbench.results.number import Missing
from leakbench.results.tables import collect

# What the words of a code are made of.
FACTS = {
    "failed": {"text": "no memory"},
    "unfinished": {"status": "running"},
    "no_end": {"params": {"k": 2, "seed": 1}, "stages": ["early"], "seeds": [3]},
    "unfit": {"text": "no labels"},
    "not_heard": {"to": "one client"},
    "not_run": {"params": {"source": "pooled"}},
    "unknown_fit": {"text": "gone"},
    "no_weights": {"text": "not here"},
    "told": {"text": "mine"},
    "at": {"stages": ["early"], "probe": True, "of": in_words("mine")},
    "few_evaluations": {"some": 5, "all": 10},
    "not_beyond": {
        **{"metric": "accuracy", "value": "0.1", "low": "0.0", "high": "0.3", "n": "40"},
        **{"what": "raw", "level": "0.2"},
    },
    "one_direction": {"cosine": 0.999},
    "one_point": {"ratio": 0.001},
    "loss_ran_away": {"began": 2.3, "first": 1, "ended": 23.1, "last": 9},
    "loss_of_model": {"loss": 23.1, "alike": 2.3},
    "parts_changed": {"parts": ("torch", "numpy")},
    "was_submitted": {"attack": "unmix"},
    "other_messages": {"run": "runs/a"},
    "other_guesser": {"attack": "unmix"},
    "file_changed": {"file": "prior.bin"},
    "other_version": {"version": "0.0.9"},
    "other_scorer": {"attack": "unmix"},
    "seed_lacks": {"attack": "unmix", "seeds": [2, 0]},
    "incomplete": {"some": 1, "all": 3},
    "few_attacked": {"some": 1, "all": 3},
    "unread": {"kinds": ["update", "mean_data"], "by": "clients"},
    "found_beside": {"metric": "members found", "attack": "unmix"},
    "chosen": {"count": 2},
    "few_rounds": {"kept": 4, "all": 100},
    "few_updates": {"kept": 4, "all": 100},
    "not_listened": {},
    "not_added_up": {"kind": "update"},
    "not_covered": {"kinds": ("count", "prototype")},
    "reads_more": {"wrappers": ("Soteria",)},
    "claim_broken": {"claimed": 1.25, "proven": 3.5, "delta": 1e-5, "attack": "membership-1"},
    "gone": {"attack": "unmix", "of": reason("failed", text="one\ntwo")},
}


def test_every_code_has_words():
    said = {c: reason_text(Reason(code=c, facts=FACTS.get(c, {}))) for c in get_args(Code)}
    assert all(said.values())
    assert len(set(said.values())) == len(said)
    assert said["failed"] == "failed: no memory"
    assert "of the end of training with k=2 (seed 3), only early: " in said["no_end"]
    assert said["at"] == "stage early, probes: mine"
    assert said["seed_lacks"] == "unmix has no number in seed 0, 2"
    assert said["unread"].startswith("its updates and its mean data were attacked by clients alone")
    assert said["not_beyond"] == (
        "accuracy 0.1 (0.0 to 0.3, of 40 test units) is not beyond comparing the inputs themselves"
        " (0.2)"
    )
    assert said["one_point"].endswith("(their distance is 0.0010 of the embeddings')")
    assert said["gone"] == "unmix gave no number (failed: one)"
    assert set(GONE) <= set(said)
    some = reason("not_run", params={}).model_copy(update={"seeds": (1, 0)})
    assert reason_text(some).endswith(" (seed 0, 1)")


@pytest.fixture
def reworded(monkeypatch):
    """Every sentence of a reason becomes another."""
    for code in reason_words._SAID:
        monkeypatch.setitem(reason_words._SAID, code, lambda facts: "xyzzy")
    monkeypatch.setattr(reason_words, "_HEADS", {})
    monkeypatch.setattr(reason_words, "_at", lambda facts, stages: "xyzzy")


@pytest.fixture
def judged(tmp_path):
    """Of a setting that held, and then one more attack gave no number, for a reason: its word."""
    rows = measure("p_leak", [0.0] * 100, 0.01, [1.0] * 100)
    runs = [make_run(tmp_path, seed=seed) for seed in (0, 1)]
    for run in runs:
        add_attack(run, "unmix", [rows], rung="method")
    tables = collect(list(map(load, runs)))
    own = tables.settings[0].configuration

    def word(why):
        lack = Missing(configuration=own, attack="new", metric="", reason=why)
        return find_questions(tables.settings, [lack])[0].judged[0].verdict.word

    return word


def of(code):
    return Reason(code=code, facts=FACTS.get(code, {}))


def test_no_rewording_moves_a_verdict(judged, request):
    before = {code: judged(of(code)) for code in get_args(Code)}
    request.getfixturevalue("reworded")
    assert {code: judged(of(code)) for code in get_args(Code)} == before
    assert {code for code, word in before.items() if word == "cannot tell"} == set(GONE)
    assert {word for code, word in before.items() if code not in GONE} == {"held"}


def test_what_somebody_says_of_an_attack_decides_nothing(judged):
    assert judged(in_words("failed: in my words")) == "held"


def test_the_verdicts_of_a_whole_report_stand_whatever_its_reasons_say(request):
    data = report_data()
    before = [j.verdict for q in data.questions for j in q.judged]
    assert before
    request.getfixturevalue("reworded")
    found = find_questions(data.settings, data.missing)
    assert [j.verdict for q in found for j in q.judged] == before
