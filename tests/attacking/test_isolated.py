"""Guesses made in a process that has what the threat model grants: the same, and marked as such."""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import TASK, Lazily, again, build, copied, obstacle, results, trained

from attacks.prototype_leakage import PrototypeLeakage
from leakbench import api
from leakbench.attacking import guessing, isolated
from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import MethodError
from leakbench.base.files import read_json, read_sealed

FLEA = {"layer": "first", "fraction": 1.0, "epochs": 1}
FEDAA = {"epochs": 1, "examples": 2, "hidden": 4, "search_steps": 2, "identifier_epochs": 1}
# The attack, its parameters, the run.
EVERY = [
    ("prototype_leakage", {}, "fedgn"),
    ("prototype_leakage", {"candidates": "public"}, "fedgn"),
    ("prototype_averaging", {}, "fedgn"),
    (
        "gradient_inversion",
        {"targets": 2, "at": ["final"], "steps": 8, "restarts": 1, "attacker": "naive"},
        "fedgn",
    ),
    ("label_inference", {"source": "message"}, "flea"),
    ("label_inference", {"source": "update"}, "flea"),
    ("label_inference", {"source": "calibrated"}, "fedavg"),
    ("context", {"samples": 30, "draws": 2, "at": ["final"]}, "flea"),
    ("distance_correlation", {}, "flea"),
    ("exposure", {}, "flea"),
    ("reidentification", {}, "flea"),
    ("decoder", {"epochs": 1, "steps": 4}, "flea"),
    ("feature_inversion", {"epochs": 1, "steps": 4, "iterations": 1}, "flea"),
    ("adversarial_examples", {}, "fedaa"),
]
STEPS = {"params": {"steps": 1, "batch": 2}, "dtype": "float64"}
NOISED = [("clip_noise", {"kinds": ["variate"]})]
KNOWS = ("method", "facts", "labels", "sizes", "aux_data")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return Lazily(
        fedgn=lambda: trained(out, "fedgn", 2, params={"sigma": 0.5}, seed=3),
        fedavg=lambda: trained(out, "fedavg", 2),
        flea=lambda: api.train(
            "flea",
            task_params={**TASK, "context": "square"},
            rounds=2,
            out=out,
            device="cpu",
            params=FLEA,
        ),
        fedaa=lambda: trained(out, "fedaa", 2, params=FEDAA),
        scaffold=lambda: trained(out, "scaffold", 3, **STEPS),
        hidden=lambda: trained(out, "scaffold", 3, wrappers=NOISED, **STEPS),
    )


def same(one, two):
    assert [(g.unit, g.round, g.probe, g.accepted, g.failed, g.flags) for g in one] == [
        (g.unit, g.round, g.probe, g.accepted, g.failed, g.flags) for g in two
    ]
    for a, b in zip(one, two, strict=True):
        assert a.tensors.keys() == b.tensors.keys()
        assert all(torch.equal(a.tensors[k], b.tensors[k]) for k in a.tensors)


@pytest.mark.parametrize(("name", "params", "of"), EVERY, ids=str)
@pytest.mark.parametrize("role", guessing.ROLES)
def test_a_handout_gives_the_guesses_that_the_run_gives(runs, tmp_path, name, params, of, role):
    """In this process, read from files alone."""
    recording, attack = again(runs[of]), build(name, **params)
    assert obstacle(attack, recording) == ""
    threat = attack.floor_threat if role == "floor" else attack.threat
    view = View(threat, recording, 2, control=role == "control")
    isolated.write_handout(view, recording.spec, tmp_path)
    handed = isolated.handed(tmp_path)
    here, there = (attack(v, blind=role == "floor") for v in (view, handed))
    assert here
    same(here, there)


@pytest.mark.parametrize("observer", ["server", "client/3", "outsider"])
@pytest.mark.parametrize("rounds", ["all", "audited", "last"])
def test_a_handout_grants_what_the_view_grants(runs, tmp_path, observer, rounds):
    kinds = ("prototype", "update", "model")
    threat = ThreatModel(observer=observer, kinds=kinds, rounds=rounds, knows=KNOWS)
    view = View(threat, again(runs["fedgn"]), 2)
    isolated.write_handout(view, again(runs["fedgn"]).spec, tmp_path)
    handed = isolated.handed(tmp_path)
    for kind in kinds:
        for probe in (False, True):
            names = [[m.name for m in v.messages(kind, probe=probe)] for v in (view, handed)]
            assert names[0] == names[1]
        assert torch.equal(view.traffic(kind), handed.traffic(kind))
    assert view.know("labels").keys() == handed.know("labels").keys()
    assert view.know("sizes") == handed.know("sizes")
    assert torch.equal(view.know("aux_data").x, handed.know("aux_data").x)
    assert (view.facts, view.method) == (handed.facts, handed.method)


@pytest.mark.parametrize("of", ["scaffold", "hidden"])
@pytest.mark.parametrize("knows", [("method", "labels"), ("labels",), ()], ids=str)
def test_updates_that_were_read_off_other_messages_are_not_read_again(runs, tmp_path, of, knows):
    """Where variates are noised, what they tell is less than what the view had worked out."""
    threat = ThreatModel(kinds=("update", "variate"), rounds="audited", knows=knows)
    for control in (False, True):
        view = View(threat, again(runs[of]), 3, control=control)
        isolated.write_handout(view, again(runs[of]).spec, tmp_path / str(control))
        handed = isolated.handed(tmp_path / str(control))
        for probe in (False, True):
            here, there = (v.messages("update", probe=probe) for v in (view, handed))
            assert [m.name for m in here] == [m.name for m in there] != []
            for one, two in zip(here, there, strict=True):
                assert one.loss == two.loss == "uncorrected_loss"
                assert one.payload.keys() == two.payload.keys()
                assert all(torch.equal(one.payload[k], two.payload[k]) for k in one.payload)


def test_a_handout_holds_nothing_else_and_does_not_say_which_it_is(runs, tmp_path):
    recording, found = again(runs["fedgn"]), []
    threat = ThreatModel(kinds=("prototype",), rounds="last", knows=("facts",))
    for control in (False, True):
        place = tmp_path / str(control)
        isolated.write_handout(View(threat, recording, 2, control=control), recording.spec, place)
        names = {p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file()}
        file = "messages.safetensors"
        assert names == {"about.json", "traffic.safetensors", file}
        texts = b"".join((place / n).read_bytes() for n in names)
        for secret in (str(recording.run.path), recording.run.id, "control", "seed"):
            assert secret.encode() not in texts
        found.append(read_json(place / "about.json"))
    assert found[0] == found[1]
    assert found[0].keys() == {"threat", "round", "last", "dtype", "facts"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params", "of"), [EVERY[3], EVERY[7]], ids=lambda v: str(v)[:30])
def test_isolated_guesses_are_the_same_bytes_and_their_rows_say_so(
    runs, tmp_path, name, params, of
):
    one, two = (copied(runs[of], tmp_path / where) for where in ("one", "two"))
    here = api.attack(one, name, **params).path
    there = api.attack(two, name, isolated=True, **params).path
    tables = [(p / "guess.safetensors").read_bytes() for p in (here, there)]
    assert tables[0] == tables[1]
    assert [read_sealed(p / "attack.json")["isolated"] for p in (here, there)] == [False, True]
    assert all("isolated" in r["flags"].split("|") for r in api.Results(there).rows)
    assert not any("isolated" in r["flags"].split("|") for r in api.Results(here).rows)


@pytest.mark.slow
def test_what_is_there_is_made_again_where_it_was_not_made_in_isolation(
    runs, tmp_path, monkeypatch
):
    run = copied(runs["fedgn"], tmp_path)
    api.attack(run, "prototype_leakage")
    path = api.attack(run, "prototype_leakage", isolated=True).path
    assert "isolated" in results(path, "p_leak")["flags"]
    monkeypatch.setattr(guessing, "guessed", lambda *a, **k: pytest.fail("ran again"))
    for how in (True, False):  # what was isolated will do for both
        api.attack(run, "prototype_leakage", isolated=how)


@pytest.mark.slow
def test_the_process_knows_no_path_of_the_run(runs, monkeypatch):
    """Its arguments, environment and working folder are looked at from within."""
    monkeypatch.setenv("LEAKBENCH_DATA", str(runs["fedgn"].path))
    monkeypatch.setenv("OLDPWD", str(runs["fedgn"].path))
    look = (
        "import os, sys, json; from pathlib import Path;"
        "text = json.dumps([dict(os.environ), sys.argv, os.getcwd()]);"
        "text += ' '.join(p.read_text() for p in Path().glob('*.json'));"
        "Path('error.json').write_text(json.dumps({'error': text}))"
    )
    monkeypatch.setattr(isolated, "START", look)
    recording = again(runs["fedgn"])
    with pytest.raises(MethodError) as told:
        seen(recording)
    text = str(told.value)
    assert "leakbench-" in text
    assert str(recording.run.path) not in text
    assert recording.run.id not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import os; os._exit(3)", "ended with exit status 3 in its own process: it said nothing"),
        ("raise SystemExit('so \\x1b[31mred')", "ended with exit status 1.*so .?\\[31mred"),
        ("open('guess.safetensors', 'wb').write(b'12345')", "is damaged"),
        ("open('guess.safetensors', 'wb').truncate(2**32)", "larger than 2 GiB"),
        ("import os; os.symlink('/etc/passwd', 'guess.safetensors')", "is not a file"),
    ],
)
def test_what_the_process_leaves_is_not_believed(runs, monkeypatch, body, why):
    monkeypatch.setattr(isolated, "START", body)
    with pytest.raises(Exception, match=why) as told:
        seen(again(runs["fedgn"]))
    assert "\x1b" not in str(told.value)


def seen(recording):
    attack = PrototypeLeakage()
    view = View(attack.threat, recording, 2)
    return isolated.guesses("prototype_leakage", attack, view, recording.spec, blind=False)


@pytest.mark.slow
def test_what_an_attack_does_wrong_there_is_said_here(runs, monkeypatch):
    wrong = ThreatModel(kinds=("model",))
    monkeypatch.setattr(PrototypeLeakage, "threat", wrong)
    with pytest.raises(MethodError, match="'prototype' messages are not among the declared kinds"):
        seen(again(runs["fedgn"]))
