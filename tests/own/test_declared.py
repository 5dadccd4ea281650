"""Who observes is declared: attacks are held to it, and a weak observer acquits nobody."""

import csv
import json

import pytest
from helpers.own_loops import CLIENTS, killed, loop, observe

import leakbench as lb
from leakbench.attacking.view import ThreatModel, View
from leakbench.own.declared import declared_observer
from leakbench.record.recording import Recording

FULL = ("server", {"who": "server"}, {"kinds": ["update", "model"], "rounds": "all"}, {})


def recorded(out, observer):
    with observe(out, observer=observer) as seen:
        loop(seen, 1, 3)
    return seen.run


@pytest.mark.parametrize("told", FULL)
def test_the_server_that_may_know_all_is_no_weaker_one(told):
    assert declared_observer(told, CLIENTS) is None


def test_a_record_of_it_is_as_it_was(tmp_path):
    runs = [recorded(tmp_path / str(i), told) for i, told in enumerate(FULL[:2])]
    assert runs[0].meta == runs[1].meta
    assert "declared" not in runs[0].meta


@pytest.mark.parametrize(
    ("observer", "attack", "params", "said"),
    [
        ("sum", "label_inference", {"source": "update"}, "takes update, too"),
        ("client/1", "label_inference", {"source": "update"}, "the attack is that of server"),
        ("outsider", "label_inference", {"source": "update"}, "who receives nothing"),
        ({"kinds": ["update"]}, "label_inference", {"source": "calibrated"}, "takes model, too"),
        ({"knows": ["facts"]}, "label_inference", {"source": "update"}, "takes method, too"),
        ({"knows": ["loss"]}, "label_inference", {"source": "update"}, "takes facts, too"),
        (
            {"knows": ["method", "facts", "sizes"]},
            "gradient_inversion",
            {"labels": "given"},
            "takes labels, too",
        ),
    ],
)
def test_who_takes_more_is_refused(tmp_path, observer, attack, params, said):
    run = recorded(tmp_path, observer)
    with pytest.raises(lb.UsageError) as error:
        lb.attack(run, attack, **params)
    assert "the declared observer is" in str(error.value)
    assert said in str(error.value)


def test_who_takes_no_more_attacks_and_acquits_nobody(tmp_path):
    told = {"kinds": ["update"], "rounds": "one", "knows": ["method", "facts"]}
    run = recorded(tmp_path / "runs", told)
    rows = lb.attack(run, "label_inference", source="update").rows
    assert rows
    assert all("weaker_observer" in r["flags"].split("|") for r in rows)
    same = lb.attack(recorded(tmp_path / "other", "server"), "label_inference", source="update")
    assert [r["value"] for r in rows] == [r["value"] for r in same.rows]
    lb.report([run], tmp_path / "report", formats=("html", "csv", "json"))
    with (tmp_path / "report" / "missing.csv").open(newline="") as file:
        lines = [row["reason"] for row in csv.DictReader(file)]
    words = "server, who receives update, sum of one round and knows method, facts"
    assert f"the observer is declared: {words}; of others nothing is said" in lines
    assert words in (tmp_path / "report" / "index.html").read_text()
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    verdicts = [j["verdict"]["word"] for q in report["questions"] for j in q["judged"]]
    assert verdicts
    assert "held" not in verdicts
    assert [f.detail for f in lb.verify(run) if f.outcome == "differs"] == []


@pytest.mark.parametrize(
    ("told", "rounds", "kinds"),
    [
        ("server", {1, 2, 3}, {"model", "update"}),
        ({"rounds": "one"}, {3}, {"model", "update"}),
        ({"kinds": ["model"]}, {1, 2, 3}, {"model"}),
        ("sum", {1, 2, 3}, {"model"}),
    ],
)
def test_a_view_shows_no_more(tmp_path, told, rounds, kinds):
    recording = Recording(recorded(tmp_path, told))
    view = View(ThreatModel(knows=("sizes",)), recording, 3)
    seen = [m for kind in ("model", "update") for m in view.messages(kind)]
    assert {m.round for m in seen} == rounds
    assert {m.kind for m in seen} == kinds
    assert {t for _, t, _, _ in view.know("sizes")} <= rounds


def test_another_observer_does_not_go_on(tmp_path):
    killed(tmp_path, lambda seen: loop(seen, 1, 2))
    with pytest.raises(lb.UsageError, match="another keep, truth or observer"):
        recorded(tmp_path, "sum")


WRONG = {
    "nobody": ("eve", "observer = 'eve'"),
    "a stranger": ("client/3", "the 3 clients are 0 to 2"),
    "a number": (3, "observer is int"),
    "another key": ({"observer": "server"}, "observer has 'observer'"),
    "another kind": ({"kinds": ["gradient"]}, "kinds with 'gradient'"),
    "a text": ({"kinds": "update"}, "kinds = 'update'"),
    "what it does not get": ({"who": "sum", "kinds": ["update"]}, "which sum does not receive"),
    "rounds": ({"rounds": 1}, "rounds = 1: expected 'all' or 'one'"),
    "knowledge": ({"knows": ["sises"]}, "did you mean 'sizes'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_observer_is_refused(tmp_path, what):
    told, said = WRONG[what]
    with pytest.raises(lb.UsageError) as error:
        observe(tmp_path, observer=told)
    assert said.lower() in str(error.value).lower()
