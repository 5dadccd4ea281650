"""A loop written twice, by leakbench's train and by hand under observe: the same comes out."""

import copy
import csv
import json

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import leakbench as lb
from leakbench.base.files import read_tree

ROUNDS, LR, BATCH = 3, 0.3, 8
OF_PLACE = ("run", "task", "defense_params", "flags", "commit", "engine")


def digits():
    found = load_digits()
    x = torch.tensor(found.images[:, None] / 16).float()
    return lb.clients(x, found.target, clients=5, split="dir", param=0.5)


def network(out):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, out))


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """The run that leakbench trained, and that of the same loop by hand."""
    place, data = tmp_path_factory.mktemp("twice"), digits()
    with torch.random.fork_rng():
        net = network(data.classes)
    how = {"lr": LR, "batch": BATCH}
    trained = lb.train(
        "fedavg",
        task=lb.task("by-leakbench", data, model=net, train=how),
        rounds=ROUNDS,
        out=place,
        engine="loop",
        record="all",
    )
    sgd = {**how, "steps": 1}
    with lb.observe(place, name="by-hand", model=net, data=data, sgd=sgd) as seen:
        for t in range(1, ROUNDS + 1):
            truth, _ = read_tree(trained.path / "truth" / f"round-{t:06d}.safetensors")
            seen.sent("model", net.state_dict(), round=t)
            after = []
            for c in range(len(data)):
                (entry,) = [e for e in truth["client"][str(c)].values() if "rows" in e]
                own = data.data.rows[c].tolist()
                rows = [own.index(r) for r in entry["rows"].tolist()]
                after.append(stepped(net, *data.client(c), rows))
                seen.update(after[-1], client=c, round=t, rows=rows)
            for name, weights in net.state_dict().items():
                moved = torch.stack([w[name] - weights for w in after])
                weights.copy_(weights + moved.mean(0))
    return trained, seen.run


def stepped(net, x, y, rows):
    local = copy.deepcopy(net)
    optimizer = torch.optim.SGD(local.parameters(), lr=LR)
    F.cross_entropy(local(x[rows]), y[rows]).backward()
    optimizer.step()
    return local.state_dict()


def messages(run, t):
    """{name: tensors} of a round, without probes, for which nobody trains by hand."""
    tree, meta = read_tree(run.path / "transcript" / f"round-{t:06d}.safetensors")
    told = enumerate(meta["messages"])
    return {
        (m["phase"], m["sender"], m["kind"]): tree[str(i)]["payload"]
        for i, m in told
        if m["probe"] is None
    }


def test_the_same_is_sent(twice):
    for t in range(1, ROUNDS + 1):
        one, other = (messages(run, t) for run in twice)
        assert one.keys() == other.keys()
        for name, tensors in one.items():
            for k, v in tensors.items():
                torch.testing.assert_close(other[name][k], v, rtol=1e-5, atol=1e-6)


def test_the_same_is_guessed_and_scored(twice):
    found = []
    for run in twice:
        result = lb.attack(run, "label_inference", source="calibrated")
        guess, meta = read_tree(result.path / "guess.safetensors")
        with (result.path / "results.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        found.append((guess, meta["guesses"], rows))
    (guess, told, rows), (guess_by_hand, told_by_hand, rows_by_hand) = found
    assert told == told_by_hand
    for i in guess:
        torch.testing.assert_close(
            guess_by_hand[i]["shares"], guess[i]["shares"], rtol=1e-3, atol=1e-3
        )
    assert len(rows) == len(rows_by_hand) > 0
    for row, by_hand in zip(rows, rows_by_hand, strict=True):
        assert "outside" in by_hand["flags"].split("|")
        assert "outside" not in row["flags"].split("|")
        of = [k for k in row if k not in OF_PLACE and not k.startswith("attack_params")]
        for k in of:
            if k in ("value", "low", "high", "floor", "control"):
                assert float(by_hand[k]) == pytest.approx(float(row[k]), abs=1e-4)


def test_the_same_is_the_verdict(twice, tmp_path):
    words = []
    for run in twice:
        lb.attack(run, "label_inference", source="calibrated")
        lb.report([run], tmp_path / run.path.name, formats=("json", "csv"))
        report = json.loads((tmp_path / run.path.name / "report.json").read_text())
        words.append([q["judged"][0]["verdict"] for q in report["questions"]])
    assert words[0] == words[1] != []


def test_what_was_trained_elsewhere_is_not_derived(twice):
    _, by_hand = twice
    found = lb.verify(by_hand)
    assert [f for f in found if f.outcome == "differs"] == []
    assert "trained elsewhere" in {f.detail for f in found if f.outcome == "not checked"}
    assert by_hand.meta["origin"] == "outside"
