"""A table of one's own: what is said of its columns, and that it is called what it is."""

import json

import pytest
import torch
from torch import nn

import leakbench as lb

N = 120


def rows(*factors):
    x = torch.randn(N, len(factors), generator=torch.Generator().manual_seed(0))
    return x * torch.tensor(factors)


Y = torch.arange(N) % 2
PICTURES = torch.rand(N, 1, 8, 8, generator=torch.Generator().manual_seed(0))
NOTED = {
    "one column": (rows(1, 1, 1e6, 1), "column 2 of the inputs is large, and sizes go from"),
    "a mean": (rows(1, 1) + torch.tensor([0, 500]), "column 1 of the inputs is large"),
    "all columns": (rows(*[1e4] * 6), "columns 0, 1, 2 and 3 more of the inputs are large"),
    "pictures": (PICTURES * 255, "channel 0 of the inputs is large"),
}


@pytest.mark.parametrize("what", NOTED)
def test_columns_far_from_one_are_named_when_data_are_loaded(what, capsys):
    x, said = NOTED[what]
    lb.clients(x, Y, clients=3)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"leakbench: {said}")
    assert ("standardise each, (x - mean) / std" in line) == (what != "pictures")
    assert ("bring pictures to 0 to 1" in line) == (what == "pictures")


@pytest.mark.parametrize(
    "x",
    [rows(1, 50, 0.01), PICTURES, (PICTURES * 255).byte(), torch.arange(3 * N).reshape(N, 3)],
    ids=["table", "pictures", "bytes", "tokens"],
)
def test_of_others_nothing_is_said(x, capsys):
    lb.clients(x, Y, clients=3)
    assert not capsys.readouterr().err


def test_what_inputs_are_is_told():
    tokens = torch.arange(3 * N).reshape(N, 3) % 7
    assert "2 classes, tokens up to 6; " in repr(lb.clients(tokens, Y, clients=3))
    assert "2 classes, inputs without bounds; " in repr(lb.clients(rows(1, 1), Y, clients=3))
    assert "2 classes, inputs in [0, 1]; " in repr(lb.clients(PICTURES, Y, clients=3))


def asked(path, name, x):
    """How what gradient inversion finds of a run on ``x`` is read, and its report."""
    model = lambda out: nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), out))  # noqa: E731
    task = lb.task(name, lb.clients(x, Y, clients=3), model=model, train={"lr": 0.1, "batch": 4})
    run = lb.train("fedavg", task=task, rounds=2, out=path)
    made = lb.attack(run, "gradient_inversion", steps=20, targets=2, labels="inferred")
    metrics = json.loads((made.path / "attack.json").read_text())["metrics"]
    return metrics, json.loads(
        (lb.report([run], path / name, formats=["json"]) / "report.json").read_text()
    )


def test_rows_of_a_table_are_no_images(tmp_path):
    found = {
        "examples": asked(tmp_path, "rows-asked", rows(1, 1, 1, 1)),
        "images": asked(tmp_path, "pictures-asked", PICTURES),
    }
    for noun, (metrics, told) in found.items():
        other = ({*found} - {noun}).pop()
        of_contents = [q for q in told["questions"] if q["topic"]["name"] == noun]
        assert of_contents
        assert not [q for q in told["questions"] if q["topic"]["name"] == other]
        said = json.dumps(of_contents)
        assert f"rebuild the {noun} that" in said
        assert metrics["identification"]["title"] == f"share of {noun} found among look-alikes"
        assert metrics["label_accuracy"]["noun"] == metrics["identification"]["noun"] == noun
        assert f"rebuild the {other}" not in said
