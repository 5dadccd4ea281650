"""Broken messages of a loop of one's own: one sentence each, and what was whole stays whole."""

import numpy as np
import pytest
import torch
from helpers.own_loops import (
    CLIENTS,
    DATA,
    Killed,
    X,
    Y,
    content,
    killed,
    loop,
    model,
    net,
    observe,
    step,
    watched,
    weights,
)
from torch import nn

import leakbench as lb

WHOLE = 2  # rounds on the disk before what is broken


def told(**how):
    """An update of client 0 in the round that is open, but for ``how``."""

    def tell(seen, t):
        message = {"tensors": weights(t, 0), "client": 0, "round": t, **how}
        seen.update(message.pop("tensors"), **message)

    return tell


def of(tensors, **how):
    """An update of what a function of the round gives."""
    return lambda seen, t: seen.update(tensors(t), client=0, round=t, **how)


def put(key, value):
    return lambda t: {**weights(t, 0), key: value}


def but(key):
    return lambda t: {k: v for k, v in weights(t, 0).items() if k != key}


def scored(*said, **how):
    return lambda seen, t: seen.utility(*said, **{"round": t, **how})


def sent(after=0, kind="model", **how):
    """The model of a round so many after the open one."""
    return lambda seen, t: seen.sent(kind, model(9), **{"round": t + after, **how})


def both(*steps):
    def tell(seen, t):
        for one in steps:
            one(seen, t)

    return tell


# in round 3, whose model was sent: what is told, and parts of the sentence
BROKEN = {
    "unknown client": (told(client=9), "client 9: expected a number from 0 to 2"),
    "true client": (told(client=True), "client True: expected a number from 0 to 2"),
    "client's name": (told(client="ann"), "client 'ann': expected a number"),
    "twice": (both(told(), told()), "client 0 sent an update in round 3 already"),
    "what": (told(what="weight"), "what = 'weight': expected one of", "Did you mean 'weights'?"),
    "what of nothing": (told(what=None), "what = None: expected one of weights, difference"),
    "a network": (told(tensors=net(2)), "came as Sequential: expected tensors by name"),
    "a list": (told(tensors=[1]), "the weights of client 0 in round 3 came as list"),
    "unknown tensor": (
        of(put("0.wieght", torch.ones(1))),
        "in the weights of client 0 in round 3 there is a tensor '0.wieght'",
        "Did you mean '0.weight'?",
    ),
    "missing": (of(but("2.bias")), "the tensor '2.bias' is missing: give all"),
    "missing of a difference": (
        of(lambda t: {"0.bias": step(t, 0)["0.bias"]}, what="difference"),
        "in the difference of client 0 in round 3 the tensor '0.weight' is missing",
    ),
    "nothing": (of(lambda t: {}, what="gradient"), "the tensor '0.weight' is missing"),
    "shape": (of(put("0.bias", torch.ones(3))), "'0.bias' is of shape (3,): expected (4,)"),
    "whole numbers": (of(put("0.bias", torch.ones(4).long())), "'0.bias' is torch.int64: expected"),
    "complex": (of(put("0.bias", torch.ones(4) * 1j)), "'0.bias' is torch.complex64: expected"),
    "a text": (of(put("0.bias", "a")), "'0.bias' is str: expected torch.float32"),
    "no tensor": (of(put("0.bias", None)), "'0.bias' is NoneType: expected torch.float32"),
    "nan": (of(put("0.bias", torch.full((4,), torch.nan))), "'0.bias' is not finite: the training"),
    "inf": (of(put("0.bias", torch.full((4,), torch.inf))), "'0.bias' is not finite"),
    "difference as weights": (of(lambda t: step(t, 0)), "say what='difference'"),
    "weights as difference": (told(what="difference"), "say what='weights'"),
    "no step": (of(model), "are those of the model that was sent: give what the client has after"),
    "no difference": (of(lambda t: step(t, 0, 0.0), what="difference"), "is zero everywhere"),
    "no gradient": (of(lambda t: step(t, 0, 0.0), what="gradient"), "is zero everywhere"),
    "row beyond": (told(rows=[0, 99]), "client 0 trained on its row 99, and it holds 11"),
    "row below": (told(rows=[-1]), "client 0 trained on its row -1", "from 0 to 10"),
    "row of a float": (
        told(rows=[1.0]),
        "its row 1.0: expected whole numbers, places in",
        "rows.long()",
    ),
    "rows of floats": (told(rows=torch.tensor([0.0, 1.0])), "its row 0.0: expected whole numbers"),
    "row of a truth": (told(rows=[True]), "client 0 trained on its row True"),
    "no rows": (told(rows=[]), "client 0 trained on no row: give those"),
    "steps of no rows": (told(rows=[[], []]), "client 0 trained on no row: give those"),
    "a number of rows": (told(rows=3), "rows of client 0 is 3: expected a list of places"),
    "other round": (told(round=4), "round 4 was told of, and round 3 is open"),
    "true round": (told(round=True), "round True was told of"),
    "float round": (told(round=3.0), "round 3.0 was told of, and round 3 is open"),
    "kind": (sent(kind="modl"), "the server sent 'modl': expected 'model'"),
    "second model": (sent(), "the model of round 3 was recorded already: send it once"),
    "no update": (sent(1), "no client sent an update in round 3: record one at least"),
    "skipped": (both(told(), sent(2)), "round 5 begins after 3 rounds: expected round=4"),
    "back": (both(told(), sent(-1)), "round 2 begins after 3 rounds: expected round=4"),
    "round 0": (both(told(), sent(-3)), "round 0 begins after 3 rounds: expected round=4"),
    "round of a truth": (both(told(), sent(round=True)), "round True begins after 3 rounds"),
    "unknown receiver": (both(told(), sent(1, clients=[7])), "client 7: expected a number from 0"),
    "a number of receivers": (both(told(), sent(1, clients=3)), "clients is 3: expected a list"),
    "other metric": (scored("auroc", [1] * 4), "utility 'auroc': this record's is 'accuracy'"),
    "few scores": (
        scored("accuracy", [1] * 3),
        "has 3 scores: expected a finite one for each of 4",
    ),
    "a mean score": (scored("accuracy", 0.9), "has 1 scores: expected a finite one for each of 4"),
    "scores beyond": (scored("accuracy", [2] * 4), "lies between 2 and 2: expected 0 to 1"),
    "scores below": (scored("accuracy", [-1, 0, 0, 0]), "lies between -1 and 0: expected 0 to 1"),
    "nan scores": (scored("accuracy", [np.nan] * 4), "expected a finite one"),
    "no scores": (
        scored("accuracy", None),
        "is NoneType of no numbers: expected one for each of 4",
    ),
    "texts for scores": (scored("accuracy", ["a"] * 4), "is list of no numbers"),
    "scores of another round": (scored("accuracy", [1] * 4, round=2), "round 2 was told of"),
    "the run": (lambda seen, t: seen.run, "is still being recorded: ask for .run after"),
    "the end": (lambda seen, t: None, "no client sent an update in round 3: record one at least"),
}


@pytest.fixture(scope="module")
def through(tmp_path_factory):
    """The files of a loop of four rounds in which nothing was broken, but for run.json."""
    out = tmp_path_factory.mktemp("through")
    with observe(out) as seen:
        loop(seen, 1, 4)
    found = content(out / "own-s0")
    found.pop("run.json")
    return found


def sentence(error, *parts):
    said = str(error.value)
    for part in parts:
        assert part in said
    assert said.endswith((".", "?"))
    assert "\n" not in said
    assert len(said) < 500


@pytest.mark.parametrize("what", BROKEN)
def test_what_was_whole_stays_whole(what, tmp_path, through):
    tell, *parts = BROKEN[what]

    def go(seen):
        loop(seen, 1, WHOLE)
        seen.sent("model", model(3), round=3)
        tell(seen, 3)

    with pytest.raises(lb.UsageError) as error:
        watched(tmp_path, go)
    sentence(error, *parts)
    with observe(tmp_path) as seen:  # and it goes on
        begun = seen.begun
        loop(seen, begun + 1, 4)
    assert begun in (WHOLE, WHOLE + 1)  # the third was whole where what followed was broken
    found = content(tmp_path / "own-s0")
    found.pop("run.json")
    assert found == through


def before(tell, *parts):
    return tell, parts


FIRST = {
    "update": before(told(), "round 1 was told of, and none is open: begin a round with seen.sent"),
    "utility": before(scored("accuracy", [1] * 4), "round 1 was told of, and none is open"),
    "round 0": before(sent(round=0), "round 0 begins after 0 rounds: expected round=1"),
    "round 2": before(sent(round=2), "round 2 begins after 0 rounds: expected round=1"),
    "true": before(sent(round=True), "round True begins after 0 rounds: expected round=1"),
    "a text": before(sent(round="1"), "round '1' begins after 0 rounds: expected round=1"),
    "not received": before(
        both(
            sent(clients=[1, 2]),
            lambda s, t: s.update(step(9, 0), client=0, round=1, what="difference"),
        ),
        "client 0 sent an update of a model that it did not receive",
    ),
    "nothing": before(lambda seen, t: None, "nothing was recorded: call seen.sent and seen.update"),
}


@pytest.mark.parametrize("what", FIRST)
def test_nothing_is_written_before_a_round_is_whole(what, tmp_path):
    tell, parts = FIRST[what]
    with pytest.raises(lb.UsageError) as error:
        watched(tmp_path, lambda seen: tell(seen, 1))
    sentence(error, *parts)
    assert not list(tmp_path.iterdir())


def told_two_rounds_and_killed(seen):
    loop(seen, 1, 2)
    raise Killed


def test_outside_of_its_block_nothing_is_told(tmp_path):
    seen = observe(tmp_path)
    with pytest.raises(lb.UsageError, match=r"use `with leakbench\.observe"):
        seen.sent("model", model(1), round=1)
    assert not list(tmp_path.iterdir())
    with pytest.raises(Killed), seen:
        told_two_rounds_and_killed(seen)
    was = content(tmp_path)
    for late in (lambda: seen.sent("model", model(2), round=2), lambda: told()(seen, 2)):
        with pytest.raises(lb.UsageError):
            late()
    assert content(tmp_path) == was


SETTINGS = {
    "capitals": ({"name": "My-Faces"}, "name = 'My-Faces': expected small letters"),
    "no name": ({"name": 3}, "name = 3: expected"),
    "a name of ours": ({"name": "digits"}, "'digits'", "give yours another name"),
    "no lr": ({"sgd": {"batch": 4, "epochs": 1}}, "sgd says no lr: expected sgd=dict(lr="),
    "no sgd": ({"sgd": None}, "sgd says no lr"),
    "sgd of a number": ({"sgd": 0.1}, "sgd is float: expected dict(lr="),
    "unknown key": (
        {"sgd": {"lr": 0.1, "epocs": 1}},
        "sgd has 'epocs': expected lr, batch, epochs",
        "Did you mean 'epochs'?",
    ),
    "steps and epochs": ({"sgd": {"lr": 0.1, "steps": 1, "epochs": 1}}, "expected one of the two"),
    "neither": ({"sgd": {"lr": 0.1}}, "by steps or by epochs: expected one of the two"),
    "no steps": ({"sgd": {"lr": 0.1, "steps": 0}}, "sgd has steps = 0: expected a whole number"),
    "half an epoch": ({"sgd": {"lr": 0.1, "epochs": 0.5}}, "sgd has epochs = 0.5"),
    "no number": (
        {"sgd": {"lr": float("nan"), "steps": 1}},
        "sgd has lr = nan: expected finite numbers",
    ),
    "no numbers": (
        {"sgd": {"lr": 0.1, "steps": 1, "betas": (0.9, float("inf"))}, "optimizer": "adam"},
        "sgd has betas = (0.9, inf): expected finite",
    ),
    "nesterov alone": (
        {"sgd": {"lr": 0.1, "steps": 1, "nesterov": True}},
        "sgd has nesterov without momentum: give momentum",
    ),
    "eps 0": (
        {"sgd": {"lr": 0.1, "steps": 1, "eps": 0}, "optimizer": "adam"},
        "sgd has eps = 0: expected more",
    ),
    "lr of a tensor": ({"sgd": {"lr": torch.tensor(-1), "steps": 1}}, "lr = -1: input should"),
    "momentum of what": (
        {"sgd": {"lr": 0.1, "steps": 1, "momentum": object()}},
        "momentum is object: expected numbers",
    ),
    "lr": ({"sgd": {"lr": -1, "steps": 1}}, "sgd: lr = -1: input should be greater than 0"),
    "momentum": ({"sgd": {"lr": 0.1, "steps": 1, "momentum": 2}}, "sgd: momentum = 2"),
    "adam": (
        {"sgd": {"lr": 0.1, "steps": 1, "momentum": 0.9}, "optimizer": "adam"},
        "momentum goes",
    ),
    "optimizer": ({"optimizer": "adm"}, "optimizer = 'adm': expected one of sgd, adam, adamw"),
    "loss": ({"loss": nn.MSELoss()}, "loss is MSELoss: expected cross-entropy"),
    "own loss": ({"loss": lambda a, b: 0}, "loss is <lambda>: expected cross-entropy"),
    "smoothed": ({"loss": nn.CrossEntropyLoss(label_smoothing=0.1)}, "loss has label_smoothing"),
    "weighted": ({"loss": nn.CrossEntropyLoss(weight=torch.ones(2))}, "loss has class weights"),
    "summed": ({"loss": nn.CrossEntropyLoss(reduction="sum")}, "loss has a sum for a mean"),
    "observer": ({"observer": "client"}, "observer = 'client': expected 'server', 'sum'"),
    "covered": ({"covered": ["updat"]}, "covered has 'updat': expected ['update']"),
    "seed": ({"seed": -1}, "seed = -1"),
    "restart": ({"restart": "no"}, "restart = 'no': expected True or False"),
    "data": ({"data": X}, "data is Tensor: expected what leakbench.clients"),
    "model": ({"model": 3}, "model is int: expected a torch.nn.Module"),
    "no model": ({"model": lambda out: 3}, "model(2) made int: expected a torch.nn.Module"),
    "failing model": ({"model": lambda out: 1 / 0}, "model(2) failed (ZeroDivisionError"),
    "inputs of a model": ({"model": nn.Linear(4, 2)}, "the network takes no inputs of shape (5,)"),
    "outputs of a model": (
        {"model": nn.Linear(5, 3)},
        "gives (1, 3) of one input, and the task has 2",
    ),
}


@pytest.mark.parametrize("what", SETTINGS)
def test_settings_are_told_before_anything_is_written(what, tmp_path):
    how, *parts = SETTINGS[what]
    with pytest.raises(lb.UsageError) as error:
        watched(tmp_path, lambda seen: loop(seen, 1, 1), **how)
    sentence(error, *parts)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", [b"runs", 3])
def test_a_place_is_a_path(out):
    with pytest.raises(lb.UsageError, match="expected the path of a folder"):
        observe(out)


ON = {
    "data": ({"data": lb.clients(X + 1, Y, clients=CLIENTS)}, "was begun with other data"),
    "clients": ({"data": lb.clients(X, Y, clients=4)}, "was begun with other data"),
    "model": ({"model": lambda out: nn.Linear(5, out)}, "was begun with another model"),
    "sgd": ({"sgd": {"lr": 0.2, "batch": 4, "epochs": 1}}, "was begun with another sgd"),
    "optimizer": ({"optimizer": "adam"}, "was begun with another sgd or optimizer"),
    "covered": ({"covered": ["update"]}, "was begun with another covered"),
}


@pytest.mark.parametrize("what", ON)
def test_nobody_goes_on_with_something_else(what, tmp_path, through):
    how, part = ON[what]
    killed(tmp_path, lambda seen: loop(seen, 1, 3))
    was = content(tmp_path)
    with pytest.raises(lb.UsageError) as error, observe(tmp_path, **how) as seen:
        loop(seen, 3, 4)
    sentence(error, part, "restart=True")
    assert content(tmp_path) == was
    with observe(tmp_path) as seen:
        loop(seen, seen.begun + 1, 4)
    found = content(tmp_path / "own-s0")
    found.pop("run.json")
    assert found == through


def test_a_finished_record_is_left_alone(tmp_path):
    with observe(tmp_path) as seen:
        loop(seen, 1, 2)
    was = content(tmp_path)
    with pytest.raises(lb.UsageError) as error, observe(tmp_path) as seen:
        loop(seen, 1, 2)
    sentence(error, "own-s0 is complete: give another name or seed, or restart=True")
    assert content(tmp_path) == was
    with observe(tmp_path) as seen:  # a script that is run again goes on to its attacks
        loop(seen, seen.begun + 1, 2)
    assert seen.run.meta["status"] == "done"
    assert content(tmp_path) == was
    with pytest.raises(lb.UsageError), observe(tmp_path, restart=True) as seen:
        seen.sent("model", model(1), round=1)  # and no update: the old one is not given up for it
    assert content(tmp_path) == was
    with observe(tmp_path, restart=True) as seen:
        loop(seen, 1, 1)
    assert "transcript/round-000002.safetensors" not in content(tmp_path / "own-s0")
    assert lb.load(tmp_path / "own-s0").spec["rounds"] == 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_run_of_leakbench_is_left_alone(tmp_path, restart):
    task = lb.task("own", DATA, model=net)
    run = lb.train("fedavg", task=task, rounds=2, params={"batch": 4}, out=tmp_path)
    run.path.rename(tmp_path / "own-s0")
    was = content(tmp_path / "own-s0")
    with pytest.raises(lb.UsageError) as error, observe(tmp_path, restart=restart) as seen:
        loop(seen, 1, 1)
    sentence(error, "own-s0 is a run that leakbench trained: give another name")
    assert content(tmp_path / "own-s0") == was


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "own-s0").mkdir()
    (tmp_path / "own-s0" / "thesis.tex").write_text("ten years")
    with pytest.raises(lb.UsageError) as error, observe(tmp_path) as seen:
        loop(seen, 1, 1)
    sentence(error, "own-s0 holds something else: give another name, or out")
    assert content(tmp_path) == {"own-s0/thesis.tex": b"ten years"}


def test_what_numpy_has_is_taken(tmp_path, through):
    with observe(tmp_path) as seen:
        for t in np.arange(1, 5):
            seen.sent("model", {k: v.numpy() for k, v in model(int(t)).items()}, round=t)
            for c in np.arange(CLIENTS):
                rows = np.arange(len(DATA.client(c)[0]))
                mine = {k: v.numpy() for k, v in weights(int(t), int(c)).items()}
                seen.update(mine, client=c, round=t, rows=rows)
    found = content(tmp_path / "own-s0")
    found.pop("run.json")
    assert found == through
