"""Updates of which a part was sent: what was not is no data to any attack that reads them.

Masks by size and at random (``top_k``), of rows, and of a layer; the same of an update that is
noise, and of one of which nothing was sent, which must say nothing, and never raise.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from helpers.small_runs import FEW_PROBES, Lazily, again, build, plugged

import leakbench
from attacks._low_rank import completed
from attacks._output_moves import bias_of, doubts, filled, moved
from leakbench import api
from leakbench.attacking.view import View
from leakbench.base.files import read_tree
from leakbench.record.messages import Message, round_file

PARTLY = '''
"""Parts of an update, for tests."""

from typing import ClassVar, Literal

import torch

from leakbench import Wrapper


class Partly(Wrapper):
    """Half of the rows of each tensor; all but one layer; noise on a tenth; or nothing."""

    masks: ClassVar[bool | None] = True

    way: Literal["rows", "layer", "noise", "nothing"] = "rows"
    layer: str = "head"

    def uplink(self, payload, me):
        return {k: self.part(k, v, me.rng) for k, v in payload.items()}

    def part(self, name, v, rng):
        if self.way == "rows":
            kept = rng.uniform(name, len(v)) < 0.5
            return v * kept.view(-1, *[1] * (v.dim() - 1))
        if self.way == "layer":
            return v * (name.split(".")[0] != self.layer)
        if self.way == "noise":
            there = rng.uniform(name + "/kept", v.numel()).view(v.shape) < 0.1
            return there * rng.normal(name, v.numel()).view(v.shape).to(v)
        return torch.zeros_like(v)
'''
LARGEST = [("top_k", {"share": 0.1})]
RANDOM = [("top_k", {"share": 0.1, "choose": "random"})]
ROWS = [("partly", {"way": "rows"})]
HEADLESS = [("partly", {"way": "layer", "layer": "head"})]
CODELESS = [("partly", {"way": "layer", "layer": "code"})]
NOISE = [("partly", {"way": "noise"})]
NOTHING = [("partly", {"way": "nothing"})]
WIDE = {"model": "mlp", "width": 32, "dim": 32, "evaluations": 10}
MIXED = {"split": "dir", "split_param": 0.3}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("masked")

    def run(method, cover, rounds=2, params=None, **task):
        how = {"task_params": {**WIDE, **task}, "device": "cpu", "record": FEW_PROBES}
        how |= {"wrappers": cover, "params": params or {}}
        return again(api.train(method, rounds=rounds, out=out, **how))

    single = {"width": 64}
    covers = {"largest": LARGEST, "random": RANDOM, "rows": ROWS, "headless": HEADLESS}
    covers |= {"noise": NOISE, "nothing": NOTHING}
    make = {}
    for name, cover in covers.items():
        make[name] = lambda cover=cover: run("fedavg", cover, **single)
        mixed = {**MIXED, "rounds": 8}
        make[f"{name} labels"] = lambda cover=cover, m=mixed: run("fedavg", cover, **m)
        make[f"{name} prototypes"] = lambda cover=cover: run(
            "fedgn", cover, 4, {"sigma": 0.5, "batch": 1}
        )
        ends = CODELESS if name == "headless" else cover
        make[f"{name} codewords"] = lambda cover=ends: run("feduv", cover, 3)
        make[f"{name} margins"] = lambda cover=cover: run(
            "fedlc", cover, params={"fraction": 1.0}, split="qua", split_param=3
        )
    with plugged("defenses.wrappers", out, partly=PARTLY):
        yield Lazily(**make)


def guessed(recording, name, after=None, **params):
    """What an attack guesses after a round, the first audited one unless said otherwise."""
    attack = build(name, **params)
    t = min(recording.stages.values()) if after is None else after
    return attack.run(View(attack.threat, recording, t), torch.Generator().manual_seed(0))


def inverted(recording, **params):
    how = {"attacker": "naive", "targets": 2, "at": ["untrained"], "steps": 200, **params}
    return guessed(recording, "gradient_inversion", **how)


def truth(recording, t, client):
    tree = read_tree(recording.run.path / "truth" / round_file(t))[0]["client"]
    return next(v for v in tree[client.split("/")[1]].values() if "y" in v)


def psnr(recording, guess):
    behind = truth(recording, guess.round, guess.unit)["probe"][str(guess.probe)]["x"]
    error = (guess.tensors["x"].clamp(0, 1) - behind).double().square().mean()
    return -10 * math.log10(max(float(error), 1e-20))


# images -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mask", ["largest", "random", "rows", "headless"])
def test_the_rest_tells_a_single_image_exactly(runs, mask):
    found = inverted(runs[mask])
    assert [g.failed for g in found] == ["", ""]
    assert min(psnr(runs[mask], g) for g in found) > 60
    assert all(g.accepted for g in found)


@pytest.mark.parametrize(("mask", "labels"), [("largest", "inferred"), ("random", "solved")])
def test_so_it_does_where_labels_are_read_off_what_was_sent(runs, mask, labels):
    found = inverted(runs[mask], labels=labels)
    assert min(psnr(runs[mask], g) for g in found) > 60


def test_of_a_layer_that_was_not_sent_no_label_is_read(runs):
    found = inverted(runs["headless"], labels="inferred")
    assert [g.failed for g in found] == ["nothing was sent that tells its labels"] * 2


@pytest.mark.parametrize("labels", ["given", "inferred"])
@pytest.mark.parametrize("engine", ["auto", "signed_adam"])
def test_noise_alone_is_not_believed(runs, engine, labels):
    found = inverted(runs["noise"], engine=engine, labels=labels, steps=100)
    assert len(found) == 2
    assert not any(g.accepted for g in found)
    assert max(psnr(runs["noise"], g) for g in found) < 20
    assert all({"restarts_disagree", "loss_did_not_fall"} & {*g.flags} for g in found)


@pytest.mark.parametrize(
    "how", [{}, {"labels": "inferred"}, {"prior": "decoder"}, {"engine": "breaching"}], ids=str
)
def test_of_nothing_there_is_no_guess(runs, how):
    found = inverted(runs["nothing"], **how)
    assert [g.failed for g in found] == ["the update is zero"] * 2


def test_a_decoder_reads_what_was_sent(runs):
    """It alone, with no search after: nearer than the blind guess."""
    attack = build("gradient_inversion", attacker="naive", targets=2, at=["untrained"])
    recording = runs["random"]
    view = View(attack.floor_threat, recording, min(recording.stages.values()))
    blind = [psnr(recording, g) for g in attack.blind(view, torch.Generator().manual_seed(0))]
    found = inverted(recording, prior="decoder", engine="signed_adam", steps=1, restarts=1)
    assert sum(psnr(recording, g) for g in found) > sum(blind) + 2


def test_the_package_matches_what_was_sent_alone(runs):
    pytest.importorskip("breaching")
    found = inverted(runs["random"], engine="breaching", steps=300, package="invertinggradients")
    assert min(psnr(runs["random"], g) for g in found) > 18


# labels -------------------------------------------------------------------------------------------
def overlap(recording, guess, everything=False):
    shares = guess.tensors["shares"].double()
    if not everything:
        y = truth(recording, guess.round, guess.unit)["y"]
    else:
        data = recording.parts.task.load()
        i = int(guess.unit.split("/")[1])
        y = data.train.y[data.rows[i, : data.sizes[i]]]
    true = y.bincount(minlength=len(shares)).double() / len(y)
    return float(torch.minimum(shares, true).sum())


def overlaps(recording, **params):
    at = max(recording.stages.values())
    found = [g for g in guessed(recording, "label_inference", at, **params) if not g.failed]
    everything = params["source"] == "pooled"
    return sum(overlap(recording, g, everything) for g in found) / len(found)


@pytest.mark.parametrize(
    ("mask", "source", "least"),
    [
        ("largest", "update", 0.5),
        ("largest", "calibrated", 0.45),  # the blind guess is .38
        ("random", "calibrated", 0.45),
        ("largest", "pooled", 0.7),
        ("random", "pooled", 0.7),
    ],
)
def test_labels_are_read_off_what_was_sent(runs, mask, source, least):
    assert overlaps(runs[f"{mask} labels"], source=source) > least


@pytest.mark.parametrize("source", ["update", "calibrated", "moved"])
def test_of_no_output_nothing_is_told(runs, source):
    for name in ("headless labels", "nothing labels"):
        found = guessed(runs[name], "label_inference", source=source)
        assert found
        assert all(g.failed for g in found)


def test_nor_of_all_rounds_together(runs):
    found = guessed(runs["nothing labels"], "label_inference", 8, source="pooled")
    assert found
    assert all(g.failed for g in found)


@pytest.mark.parametrize("source", ["update", "calibrated", "pooled"])
def test_noise_tells_no_labels(runs, source):
    attack = build("label_inference", source=source)
    recording = runs["noise labels"]
    view = View(attack.floor_threat, recording, max(recording.stages.values()))
    everything = source == "pooled"
    blind = attack.blind(view, torch.Generator().manual_seed(0))
    usual = sum(overlap(recording, g, everything) for g in blind) / len(blind)
    assert overlaps(recording, source=source) < usual + 0.15


def test_an_output_of_which_nothing_was_sent_is_not_said_to_stand_still():
    update = {
        "head.weight": torch.tensor([[1.0, 0], [0, 0], [0, 2.0]]),
        "head.bias": torch.zeros(3),
    }
    told = {k: v != 0 for k, v in update.items()}
    assert moved(update, "head", 3, told).tolist() == [0.5, 0, 0.5]
    # As long a row as the others, in so far as it was sent: 30 times shorter it would be left out.
    update["head.weight"] = torch.cat([torch.ones(2, 2000), torch.zeros(1, 2000)])
    update["head.weight"][2, 0] = 1.0
    told = {k: v != 0 for k, v in update.items()}
    assert moved(update, "head", 3, told).tolist() == [1 / 3] * 3
    assert moved(update, "head", 3).tolist() == [0.5, 0.5, 0]
    nothing = {k: torch.zeros_like(v) for k, v in update.items()}
    assert not moved(nothing, "head", 3, {k: v != 0 for k, v in nothing.items()}).any()


@pytest.mark.parametrize("mask", ["largest", "rows"])
def test_named_are_classes_that_are_known_to_have_moved(runs, mask):
    recording = runs[f"{mask} margins"]
    data = recording.parts.task.load()
    found = guessed(recording, "label_inference", source="moved")
    assert found
    assert not any(g.failed for g in found)
    for g in found:
        i = int(g.unit.split("/")[1])
        own = set(data.train.y[data.rows[i, : data.sizes[i]]].tolist())
        assert set(g.tensors["shares"].nonzero().flatten().tolist()) <= own


def test_a_bias_that_was_not_sent_is_told_by_its_row():
    features, bias = torch.tensor([1.0, 2.0, 0.5]).double(), torch.tensor([0.2, -0.5, 0.3]).double()
    rows = bias[:, None] * features
    told = torch.tensor([[True, True, True], [False, True, False], [False, False, False]])
    known = torch.tensor([True, False, False])
    found, which = filled(rows * told, bias * known, told, known)
    assert which.tolist() == [True, True, False]
    assert torch.allclose(found[:2], bias[:2])
    payload = {"head.weight": (rows * told).float(), "head.bias": (bias * known).float()}
    m = Message(1, 0, "client/0", "server", "update", payload, sparse=True)
    again_, also = bias_of(m, "head")
    assert torch.allclose(again_, found, atol=1e-6)
    assert also.tolist() == which.tolist()


@pytest.mark.parametrize(("outputs", "flags"), [(1, ("gradient_vanished",)), (3, ())])
def test_what_is_read_of_few_outputs_acquits_nobody(outputs, flags):
    update = {"head.weight": torch.zeros(5, 2), "head.bias": torch.ones(5)}
    update["head.bias"][outputs:] = 0
    m = Message(1, 0, "client/0", "server", "update", update, sparse=True)
    assert doubts([m], "head") == flags
    assert doubts([replace(m, sparse=False)], "head") == ()


# the last layer -----------------------------------------------------------------------------------
@pytest.mark.parametrize(("rank", "share"), [(1, 0.15), (3, 0.4)])
def test_a_matrix_of_low_rank_is_completed(rank, share):
    dice = torch.Generator().manual_seed(0)
    a, b = (torch.randn(40, rank, generator=dice).double() for _ in range(2))
    told = torch.rand(40, 40, generator=dice) < share
    found = completed((a @ b.T) * told, told)
    assert float((found - a @ b.T).norm() / (a @ b.T).norm()) < 1e-4


def test_of_rows_that_are_not_told_nothing_is_made_up():
    told = torch.ones(6, 5, dtype=torch.bool)
    told[2], told[:, 3] = False, False
    whole = torch.outer(torch.arange(1, 7).double(), torch.arange(1, 6).double())
    found = completed(whole * told, told)
    assert torch.equal(found, torch.where(told, whole, 0.0))
    assert not completed(torch.zeros(3, 3), torch.zeros(3, 3, dtype=torch.bool)).any()


def cosines(recording, found):
    last = recording.rounds
    tree = read_tree(recording.run.path / "truth" / round_file(last))[0]["everyone"]["prototype"]
    out = []
    for g in found:
        w = tree[int(g.unit.split("/")[1])].double()
        p = g.tensors["prototype"].double()
        out.append(abs(float(w @ p / w.norm() / p.norm().clamp(min=1e-30))))
    return out


@pytest.mark.parametrize(("mask", "least"), [("largest", 0.8), ("random", 0.5)])
def test_a_prototype_is_solved_from_what_was_sent(runs, mask, least):
    recording = runs[f"{mask} prototypes"]
    found = guessed(recording, "prototype_from_update", 4)
    assert not any(g.failed for g in found)
    known = cosines(recording, found)
    assert sum(known) / len(known) > least


@pytest.mark.parametrize("name", ["prototype_from_update", "codeword_from_update"])
@pytest.mark.parametrize("mask", ["headless", "nothing"])
def test_a_last_layer_that_was_not_sent_says_nothing(runs, name, mask):
    kind = "prototypes" if name.startswith("prototype") else "codewords"
    recording = runs[f"{mask} {kind}"]
    found = guessed(recording, name, recording.rounds)
    assert found
    assert all(g.failed for g in found)


def test_noise_in_the_last_layer_is_not_believed(runs):
    recording = runs["noise prototypes"]
    found = guessed(recording, "prototype_from_update", 4)
    assert not any(g.accepted for g in found)
    known = cosines(recording, [g for g in found if not g.failed])
    assert sum(known) / max(len(known), 1) < 0.5
    words = guessed(runs["noise codewords"], "codeword_from_update", 3)
    assert not any(g.accepted for g in words)


@pytest.mark.parametrize("mask", ["largest", "random", "rows"])
def test_codewords_are_read_off_what_was_sent(runs, mask):
    recording = runs[f"{mask} codewords"]
    found = guessed(recording, "codeword_from_update", 3)
    assert not any(g.failed for g in found)
    tree = read_tree(recording.run.path / "truth" / round_file(3))[0]["everyone"]["codeword"]
    for g in (g for g in found if g.accepted):
        w = tree[int(g.unit.split("/")[1])]
        assert torch.equal(g.tensors["prototype"] > 0, w > 0)
    assert sum(g.accepted for g in found) > len(found) / 2


# messages in memory -------------------------------------------------------------------------------
def test_of_messages_in_memory_it_is_said_as_well():
    """Half of the rows are not sent, the victim's class among them: its bias is no 0."""
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    loss = torch.nn.functional.cross_entropy
    update = {"1.weight": torch.zeros(3, 4), "1.bias": torch.tensor([-0.2, 0.0, 0.0])}
    failed = []
    for sparse in (True, False):
        seen = leakbench.Transcript(net, loss, shape=(4,), batch=1, steps=1)
        seen.add("update", {k: 0 * v for k, v in update.items()}, labels=[1], sparse=sparse)
        (m,) = seen.transcript[-1:]
        failed.append((m.sparse, bool(m.told()["1.bias"].any())))
    assert failed == [(True, False), (False, True)]
