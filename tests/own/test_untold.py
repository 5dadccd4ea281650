"""A record of which nobody tells the truth: it is attacked, not scored, and acquits nobody."""

import csv
import json

import pytest
import torch
from helpers.own_loops import CLIENTS, DATA, loop, model, net, observe, weights

import leakbench as lb
from leakbench.base.files import read_tree

X, Y = torch.randn(30, 5, generator=torch.Generator().manual_seed(7)), torch.arange(30) % 2
STEPS = {"lr": 0.1, "batch": 4, "steps": 1}


def nobody():
    return lb.clients.unknown(CLIENTS, public=(X, Y))


def told(seen, last=2, **how):
    for t in range(1, last + 1):
        seen.sent("model", model(t), round=t)
        for c in range(CLIENTS):
            seen.update(weights(t, c), client=c, round=t, **how)


def recorded(out, **how):
    with observe(out, **{"data": nobody(), **how}) as seen:
        told(seen)
    return seen.run


@pytest.mark.parametrize("data", [nobody, lambda: DATA])
def test_there_is_no_truth_in_the_folder(tmp_path, data):
    run = recorded(tmp_path, data=data(), truth=False, sgd=STEPS)
    names = {*run.meta["files"]}
    assert not any(n.startswith(("truth", "control")) for n in names)
    inputs = {n for n in names if n.endswith("safetensors") and "x" in run.tree(n)[0]}
    assert inputs == {"known/aux_data.safetensors"}
    run.check()
    assert [f.detail for f in lb.verify(run) if f.outcome == "differs"] == []


def test_guesses_are_made_and_not_scored(tmp_path):
    run = recorded(tmp_path, sgd=STEPS)
    made = lb.attack(run, "label_inference", source="update")
    assert not made.scored
    _, about = read_tree(made.path / "guess.safetensors")
    assert {g["unit"] for g in about["guesses"]} == {f"client/{c}" for c in range(CLIENTS)}
    with pytest.raises(lb.UsageError, match="cannot be scored"):
        _ = made.rows
    lb.report([run], tmp_path / "report", formats=("html", "csv", "json"))
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["questions"] == []
    with (tmp_path / "report" / "missing.csv").open(newline="") as file:
        lines = [r["reason"] for r in csv.DictReader(file) if r["attack"] == "label_inference"]
    assert lines[0].startswith("guessed but not scored")
    with (tmp_path / "report" / "tradeoff.csv").open(newline="") as file:
        assert not [r for r in csv.DictReader(file) if r.get("attack")]


@pytest.mark.parametrize(
    ("sgd", "how", "examples"),
    [
        (STEPS, {}, 4),
        (STEPS, {"examples": 3}, 3),
        ({"lr": 0.1, "batch": 4, "epochs": 1}, {"examples": 6}, 6),
    ],
)
def test_inputs_are_searched_where_their_number_is_known(tmp_path, sgd, how, examples):
    with observe(tmp_path, data=nobody(), sgd=sgd) as seen:
        told(seen, 1, **how)
    made = lb.attack(seen.run, "gradient_inversion", labels="inferred", steps=2, restarts=1)
    tree, _ = read_tree(made.path / "guess.safetensors")
    assert {len(guess["x"]) for guess in tree.values()} == {examples}


def test_what_nobody_told_is_not_known(tmp_path):
    with observe(tmp_path, data=nobody()) as seen:  # by epochs, of how many nobody says
        told(seen, 1)
    with pytest.raises(lb.UsageError, match="without the sizes of private batches, or recorded so"):
        lb.attack(seen.run, "gradient_inversion", labels="inferred")
    with pytest.raises(lb.UsageError, match="without the labels of private batches"):
        lb.attack(recorded(tmp_path / "other", sgd=STEPS), "gradient_inversion", labels="given")


def test_who_has_the_truth_scores_what_was_guessed_without(tmp_path):
    """The same loop, recorded by somebody who knows the rows: numbers as of an attack."""
    how = {"data": DATA, "sgd": {"lr": 0.1, "batch": 4, "epochs": 1}}
    blind = recorded(tmp_path / "blind", truth=False, **how)
    owner = recorded(tmp_path / "owner", **how)
    guessed = lb.attack(blind, "label_inference", source="update")
    rows = lb.submit(owner, guessed.path).rows
    assert all("submitted" in r["flags"].split("|") for r in rows)
    submitted = [(r["metric"], r["round"], r["value"], r["floor"]) for r in rows]
    again = lb.attack(owner, "label_inference", force=True, source="update").rows
    assert submitted == [(r["metric"], r["round"], r["value"], r["floor"]) for r in again] != []


def test_guesses_on_other_messages_are_refused(tmp_path):
    blind = recorded(tmp_path / "blind", data=DATA, truth=False)
    with observe(tmp_path / "owner") as seen:
        loop(seen, 1, 3)
    guessed = lb.attack(blind, "label_inference", source="update")
    with pytest.raises(lb.UsageError, match="was not made on an export"):
        lb.submit(seen.run, guessed.path)


WRONG = {
    "rows": (lambda seen: told(seen, rows=[0]), "this record has no truth"),
    "no number": (lambda seen: told(seen, examples="four"), "examples of client 0 = 'four'"),
    "none": (lambda seen: told(seen, examples=0), "examples of client 0 = 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused(tmp_path, what):
    tell, said = WRONG[what]
    with pytest.raises(lb.UsageError, match=said), observe(tmp_path, data=nobody()) as seen:
        tell(seen)


def test_a_record_with_truth_takes_no_number_for_rows(tmp_path):
    with pytest.raises(lb.UsageError, match="its rows say how many"), observe(tmp_path) as seen:
        told(seen, examples=4)


def test_a_client_that_nobody_knows_trains_nowhere():
    with pytest.raises(lb.UsageError, match="nobody knows what these clients hold"):
        lb.task("untold", nobody(), model=net)


@pytest.mark.parametrize(
    ("clients", "public", "said"),
    [
        (1, (X, Y), "clients = 1"),
        (3, X, "public is Tensor"),
        (3, (X[:1], Y[:1]), "public has 1"),
        (3, (X[:0], Y[:0]), "the public inputs"),
        (3, (X, Y[:5]), "labels"),
    ],
)
def test_wrong_public_data_are_refused(clients, public, said):
    with pytest.raises(lb.UsageError, match=said):
        lb.clients.unknown(clients, public=public)


def test_public_pictures_with_names():
    x = torch.rand(12, 1, 4, 4)
    data = lb.clients.unknown(4, public=(x, ["cat", "dog", "cow"] * 4))
    assert data.classes == 3
    assert len(data) == 4
    assert data.shape == (1, 4, 4)
