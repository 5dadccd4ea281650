"""FedHide's Table 2: whose images, whose numbers, and a tiny table from end to end."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from importlib.resources import files

import pytest
import torch

from leakbench.record import folders
from leakbench.record.policy import Policy
from leakbench.reproduce import catalogue, figure_data, figures, plan, rows
from leakbench.reproduce.between import Below
from leakbench.reproduce.recipe import Scale, Setup
from leakbench.reproduce.row import Measurement, Row
from leakbench.scoring.image_distances import psnr as psnr_of

RECIPE = catalogue.find_recipe("fedhide-table2")
BARE = "without perturbation"
IMAGES = (71, 20, 63, 70)  # sea, chair, porcupine, rose

TASK = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10}
TWO = (2, 7)


@pytest.mark.parametrize("scale", ["smoke", "small", "full"])
@pytest.mark.parametrize("stage", ["untrained", "trained"])
def test_each_printed_number_stands_beside_its_own_row_and_model(scale, stage):
    published = json.loads((files("leakbench") / "data_files" / "published.json").read_text())
    wanted = sorted(
        (r["value"], r["spread"])
        for r in published["records"]
        if (r["paper"], r["table"], r["metric"]) == ("fedhide", "2", "lpips")
        and r["setting"]["model_stage"] == stage
    )
    assert len(wanted) == 13
    lines = rows.table_rows(RECIPE, scale, plan.plan(RECIPE, scale, data=False), {})
    claims = [r.claim for r in lines if r.measure == f"naive_lpips_{stage}"]
    got = sorted((c.value, round((c.high - c.low) / 2, 9)) for c in claims)
    assert got == wanted
    bare = next(r.claim for r in lines if r.label == BARE and r.claim)
    assert bare.value == 0.48
    by_label = {r.label: r.claim.value for r in lines if r.measure == f"naive_lpips_{stage}"}
    assert by_label["FedHide(0.5, 1)"] == {"untrained": 0.73, "trained": 0.65}[stage]


def test_only_the_papers_own_attacker_stands_beside_its_numbers():
    lines = rows.table_rows(RECIPE, "small", plan.plan(RECIPE, "small", data=False), {})
    assert {r.measure for r in lines if r.claim} == {"naive_lpips_untrained", "naive_lpips_trained"}


@pytest.mark.parametrize("scale", ["smoke", "small", "full"])
def test_the_four_take_part_wherever_they_are_audited(scale):
    for p in plan.plan(RECIPE, scale, data=False):
        (spec,) = p.specs
        assert spec.record.clients == IMAGES
        assert spec.defense.params["fraction"] == 1.0
        assert {name for name, _ in p.attacks} == {"gradient_inversion"}
        assert [a["attacker"] for _, a in p.attacks] == ["naive", "joint"]


def test_a_scale_says_how_long_its_attacks_search():
    steps = {
        scale: {a["steps"] for p in plan.plan(RECIPE, scale, data=False) for _, a in p.attacks}
        for scale in RECIPE.scales
    }
    for scale, (given,) in steps.items():
        assert RECIPE.scales[scale].attacks["steps"] == given
        lines = rows.table_rows(RECIPE, scale, plan.plan(RECIPE, scale, data=False), {})
        assert {r.attack_params["steps"] for r in lines} == {given}


def two(label, untrained, trained, **more):
    """A row's two numbers, each (value, low, high)."""
    out = []
    for at, (value, low, high) in (("untrained", untrained), ("trained", trained)):
        ours = Measurement(value=value, low=low, high=high, n=4, unit="image")
        about = {"recipe": "r", "scale": "s", "dataset": "d", "task": "t", "metric": "lpips"}
        key = f"naive_lpips_{at}"
        out.append(Row(**about, label=label, measure=key, ours=ours, **more))
    return out


APART, SAME = ((0.4, 0.3, 0.45), (0.7, 0.6, 0.8)), ((0.4, 0.3, 0.65), (0.7, 0.6, 0.8))


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (two("a", *APART) + two("b", *APART), "holds"),
        (two("a", *APART) + two("b", *SAME), "neither shown nor contradicted"),
        (two("a", *APART) + two("b", *APART[::-1]), "does not hold here"),
        (two("a", *APART) + two("b", *APART, flags=frozenset({"dead_run"})), "neither shown"),
        ([], "cannot be judged here"),
    ],
)
def test_two_columns_are_compared_row_by_row(lines, verdict):
    order = Below(
        "first below second",
        "naive_lpips_untrained",
        than="naive_lpips_trained",
        words=("untrained", "trained"),
        those=("a", "b"),
    )
    found = order.judge(lines, "d")
    assert found.verdict.startswith(verdict)
    if lines:
        assert "a (untrained) 0.400" in found.sentence
    if any(r.dead for r in lines):
        assert "1 of 2 pairs cannot be judged" in found.sentence
        assert "dead runs support nothing: b (untrained)" in found.sentence


@pytest.fixture
def table(monkeypatch, reproduce_cli, tmp_path):
    """Two rows of it on scikit-learn's digits: {(label, measure): the CSV's line}."""
    setup = Setup(
        "cifar100",
        "digits",
        3,
        TASK,
        {"fedhide": {"fraction": 1.0, "k": 2}, "fedgn": {"fraction": 1.0}},
        stand_in="digits",
    )
    record = Policy(clients=TWO, audited=2, probes=1, last=1, spaced=0)
    scale = Scale(
        "no time", (setup,), record=record, attacks={"engine": "lbfgs", "restarts": 1, "steps": 25}
    )
    cases = [c for c in RECIPE.cases if c.label in (BARE, "FedGN(0.1)")]
    tiny = replace(RECIPE, name="tiny-inversion", cases=tuple(cases), scales={"smoke": scale})
    monkeypatch.setitem(catalogue.RECIPES, tiny.name, tiny)
    code, out, err = reproduce_cli(tiny.name)
    assert code == 0, err
    with (tmp_path / "results" / tiny.name / "smoke.csv").open(newline="") as file:
        lines = {(r["label"], r["measure"]): r for r in csv.DictReader(file)}
    return lines, out, reproduce_cli, tiny.name, tmp_path


def test_a_table_from_end_to_end(table):
    lines, out, again, name, folder = table
    bare, hidden = BARE, "FedGN(0.1)"

    def psnr(label, who, stage):
        return float(lines[label, f"{who}_psnr_{stage}"]["value"])

    # The network's gradient does not know what the client will send.
    assert psnr(bare, "joint", "untrained") == psnr(hidden, "joint", "untrained")
    assert psnr(bare, "naive", "untrained") > psnr(hidden, "naive", "untrained")
    row = lines[hidden, "naive_psnr_trained"]
    assert row["unit"] == "image"
    assert row["n"] == str(len(TWO))
    assert row["claimed"] == ""
    perceptual = lines[hidden, "naive_lpips_trained"]
    assert perceptual["claimed"] == "0.79"
    assert "LPIPS needs images of at least 32 x 32 pixels" in perceptual["note"]
    assert "nothing leaks more than no perturbation, in PSNR (ours)" in out
    page = (folder / "results" / name / "smoke.md").read_text()
    assert "± of ours, where it stands, is the standard deviation over images." in page
    (run,) = (folder / "runs").glob("digits-fedgn-*")
    assert {u["unit"].split("/")[1] for u in units(run)} == {"2", "7"}
    for kind in ("svg", "png"):
        assert (folder / "results" / name / f"smoke.{kind}").stat().st_size > 1000
    # What is drawn is what was scored, at the model that its column names.
    recipe = catalogue.find_recipe(name)
    for m in (m for m in recipe.measures if m.metric == "psnr"):
        drawn = figure_data.rebuilt(folders.load(run), m, recipe.asked(m, "smoke"))
        assert set(drawn) == set(TWO)
        near = [float(psnr_of(found[None], true[None])[0]) for true, found in drawn.values()]
        assert sum(near) / 2 == pytest.approx(float(lines[hidden, m.key]["value"]))
    # What is complete is neither trained nor attacked again.
    before = {p: p.stat().st_mtime_ns for p in (folder / "runs").rglob("*") if p.is_file()}
    assert again(name)[0] == 0
    assert {p: p.stat().st_mtime_ns for p in (folder / "runs").rglob("*") if p.is_file()} == before


def test_images_stand_in_a_grid_with_wider_gaps_between_attacks():
    one, two = torch.zeros(1, 2, 3), torch.full((1, 2, 3), 0.5)
    out = figures._mosaic([[one, two, two, None]], 2, (1, 2, 3))
    assert out.shape == (2, 4 * 3 + 3 + figures.BLOCK, 3)
    grey = figures.EMPTY
    row = [0, 0, 0, 1, 0.5, 0.5, 0.5, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 1, grey, grey, grey]
    assert out[0, :, 0].tolist() == row
    colour = torch.rand(3, 2, 2)
    out = figures._mosaic([[colour], [None]], 1, (3, 2, 2))
    assert out[:2].tolist() == colour.permute(1, 2, 0).double().tolist()
    assert (out[3:] == grey).all()


def units(run):
    found = []
    for attacked in folders.load(run).attacks:
        with (attacked.path / "units.csv").open(newline="") as file:
            found += [u for u in csv.DictReader(file) if u["role"] == "attack"]
    return found
