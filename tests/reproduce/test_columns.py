"""Recipes with several columns of a data set; stand-ins; the newer recipes' own parts."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.differences import texts

from leakbench.base.errors import UnknownName
from leakbench.federation.utility import METRICS
from leakbench.record.columns import RUN_DIAGNOSTICS
from leakbench.reproduce import catalogue, diagnostics, differs, figures, orders, plan, write
from leakbench.reproduce.client_sizes import client_sizes
from leakbench.reproduce.recipe import UTILITY, Case, Measure, Recipe, Scale, Setup
from leakbench.reproduce.row import Measurement, Row, read_rows

RESULTS = Path(__file__).parents[2] / "results"
TASK = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10}
FEW = {"epochs": 1, "fraction": 0.2, "batch": 100}
QUICK = {"fedavg": FEW, "fedprox": FEW}
_QUA = {**TASK, "split": "qua", "split_param": 2.0}
QUA = Setup("uci-har", "digits", 3, _QUA, QUICK, split="Qua(2)")
DIR = replace(QUA, task_params={**TASK, "split": "dir", "split_param": 1.0}, split="Dir(1)")
ONE = replace(DIR, split="Dir(1), |D| = 50", seeds=(7,), rounds=4)
CASES = (Case("FedAvg", "fedavg"), Case("FedProx", "fedprox", columns=("uci-har, Qua(2)",)))
RECIPE = Recipe(
    "tiny-columns",
    "flea",
    "Two splits.",
    CASES,
    (Measure(UTILITY, "accuracy"),),
    {s: Scale("no time", (QUA, DIR, ONE), seeds=(0, 1)) for s in ("smoke", "small")},
)


def planned(**more):
    return {(p.case.label, p.setup.column): p for p in plan.plan(RECIPE, "smoke", **more)}


def test_a_column_is_a_data_set_with_its_split_and_may_have_rows_and_seeds_of_its_own():
    found = planned()
    assert list(found) == [
        ("FedAvg", "uci-har, Qua(2)"),
        ("FedProx", "uci-har, Qua(2)"),
        ("FedAvg", "uci-har, Dir(1)"),
        ("FedAvg", "uci-har, Dir(1), |D| = 50"),
    ]
    assert all(p.key == key for key, p in found.items())
    assert [p.seeds for p in found.values()] == [(0, 1), (0, 1), (0, 1), (7,)]
    assert [s.seed for s in found["FedAvg", ONE.column].specs] == [7]
    assert {p.seeds for p in planned(seeds=[3]).values()} == {(3,)}


@pytest.mark.parametrize(
    ("only", "columns"),
    [
        (["uci-har"], {QUA.column, DIR.column, ONE.column}),
        (["UCI-HAR, dir(1)"], {DIR.column}),
        (["fedavg", "uci-har,Qua(2)"], {QUA.column}),
    ],
)
def test_only_names_a_data_set_or_one_of_its_columns(only, columns):
    wanted = {p.setup.column for p in planned(only=only).values() if p.wanted}
    assert wanted == columns
    with pytest.raises(UnknownName, match=r"Did you mean 'uci-har, Dir\(1\)'"):
        planned(only=["uci-har, Dir(2)"])


def test_the_table_has_a_part_for_each_column(reproduce_cli, monkeypatch, tmp_path):
    monkeypatch.setitem(catalogue.RECIPES, RECIPE.name, RECIPE)
    code, out, _ = reproduce_cli(RECIPE.name, "--seeds", "0")
    assert code == 0
    page = (tmp_path / "results" / RECIPE.name / "smoke.md").read_text(encoding="utf-8")
    for setup in (QUA, DIR, ONE):
        assert f"## {setup.column}\n" in page
        assert f"{setup.column}, smoke; the paper's number" in out
    assert page.count("| FedProx |") == 1


@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_what_cannot_be_fetched_has_its_stand_in(scale, monkeypatch, tmp_path):
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    digits = replace(QUA, stand_in="digits")
    setup = Setup("urbansound8k", "urbansound8k", 3, needs="urbansound8k", otherwise=digits)
    recipe = replace(RECIPE, cases=CASES[:1], scales={scale: Scale("", (setup,))})
    (p,) = plan.plan(recipe, scale)
    assert (p.setup.task, p.lacking) == ("digits", "")
    (p,) = plan.plan(replace(recipe, scales={scale: Scale("", (QUA, setup))}), scale)[1:]
    lost = replace(
        setup, otherwise=replace(setup, task="spoken-digits", needs="fsdd", otherwise=None)
    )
    p = plan.plan(replace(recipe, scales={scale: Scale("", (QUA, lost))}), scale)[1]
    assert "LEAKBENCH_DATA" in p.lacking
    assert p.setup.task == "spoken-digits"


def test_what_differs_from_flea_is_read_off_its_setup():
    setup = replace(QUA, params={"fedavg": {"epochs": 2, "fraction": 0.5}})
    p = plan.plan(replace(RECIPE, scales={"smoke": Scale("", (setup,))}), "smoke")[0]
    said = texts("flea", setup, p.specs)
    assert {"local epochs 2, not 5", "fraction 0.5, not 0.1", "rounds 3, not 100"} <= set(said)
    assert "1 seed, not 5" in said
    assert not any(s.startswith("lr ") for s in said)
    # Not those of one figure's study, and a data set's own before those of all.
    assert differs.printed("flea", "cifar10")["batch_size"] == 32
    assert differs.printed("fedaa", "coco-captions")["rounds"] == 50
    assert differs.printed("fedaa", "cifar10")["rounds"] == 100


def test_feddatas_batch_is_of_own_and_shared_examples():
    recipe = catalogue.find_recipe("flea-table1")
    for p in plan.plan(recipe, "full", data=False):
        said = texts("flea", p.setup, p.specs, p.case.params)
        assert not any(s.startswith(("batch", "fraction", "rounds")) for s in said), p.key


def row(label, value, width, metric="eer", measure=UTILITY, dataset="d", **more):
    ours = Measurement(
        value=value,
        low=value - width,
        high=value + width,
        n=10,
        unit="identity",
        meaning=METRICS[metric].meaning if metric in METRICS else None,
    )
    about = {"recipe": "r", "scale": "smoke", "task": "t", "dataset": dataset}
    return Row(**about, label=label, measure=measure, metric=metric, ours=ours, **more)


@pytest.mark.parametrize(
    ("reference", "value", "width", "verdict"),
    [
        (0.10, 0.10, 0.01, "holds"),
        (0.10, 0.05, 0.03, "holds"),  # lower is better
        (0.10, 0.11, 0.02, "neither shown nor contradicted"),
        (0.10, 0.20, 0.15, "neither shown nor contradicted"),
        (0.10, 0.30, 0.01, "does not hold here"),
    ],
)
def test_an_error_is_kept_where_it_does_not_rise(reference, value, width, verdict):
    keeps = orders.Keeps("kept", UTILITY, those=("a",), reference="r")
    rows = [row("r", reference, 0.005), row("a", value, width)]
    assert keeps.judge(rows, "d").verdict == verdict
    mirrored = [
        row(r.label, 1 - r.ours.value, r.ours.highest - r.ours.value, "accuracy") for r in rows
    ]
    if METRICS["accuracy"].meaning.matters >= METRICS["eer"].meaning.matters:
        known = {"holds": 0, "neither shown nor contradicted": 1, "does not hold here": 2}
        assert known[keeps.judge(mirrored, "d").verdict] <= known[verdict]


def test_sizes_of_clients_are_those_of_the_deal():
    setup = catalogue.find_recipe("flea-figure13").scales["smoke"].setups[0]
    even = client_sizes(setup, {"clients": 7, "split": "iid", "split_param": 1.0}, 0)
    counts = [50_000 // 7 + (i < 50_000 % 7) for i in range(7)]
    assert even["least"], even["most"] == (min(counts), max(counts))
    assert even["median"] == statistics.median_low(counts)
    params = {"clients": 10, "split": "dir", "split_param": 0.1}
    one, two, other = (client_sizes(setup, params, seed) for seed in (0, 0, 1))
    assert one == two != other
    assert 2 <= one["least"] < one["median"] < one["most"] < 50_000


class Diary:
    """A run of which only the diagnostics are asked."""

    id = "r"

    def __init__(self, *rows):
        self.rows = [dict(zip(("round", "name", "value"), r, strict=True)) for r in rows]

    def table(self, name, columns):
        assert (name, tuple(columns)) == ("diagnostics.csv", tuple(RUN_DIAGNOSTICS))
        return self.rows


def test_the_loss_is_the_mean_of_the_last_ten_evaluations():
    run = Diary(*((t, "global_loss", float(t)) for t in range(12, 0, -1)), (3, "loss", 9.0))
    assert diagnostics.late_loss(run) == [sum(range(3, 13)) / 10]
    with pytest.raises(diagnostics.NotMeasured):
        diagnostics.late_loss(Diary((1, "update_norm", 2.0)))


@pytest.fixture
def drawn(monkeypatch):
    kept = []
    monkeypatch.setattr(figures.plots, "save", lambda f, *_: kept.append(f) or [])
    return kept


def test_local_sizes_are_drawn_column_by_column(drawn, tmp_path):
    recipe = catalogue.find_recipe("flea-figure2")
    columns = [s.column for s in recipe.scales["smoke"].setups]
    rows = [
        row(c.label, 0.1 * (i + j), 0.01, "accuracy", "best", column)
        for i, c in enumerate(recipe.cases)
        for j, column in enumerate(columns)
    ]
    figures.FIGURES["sizes"](figures.PaperFigure(recipe, "smoke", rows, {}, tmp_path))
    (axes,) = drawn[0].axes
    assert [t.get_text() for t in axes.get_xticklabels()] == columns
    assert [bars[0].get_ydata()[2] for bars in axes.containers] == pytest.approx(
        [0.2, 0.3, 0.4, 0.5, 0.6]
    )


def test_voices_and_faces_have_a_panel_each(drawn, tmp_path):
    recipe, rows = catalogue.find_recipe("fedhide-figure4"), []
    for dataset, value in (("voxceleb1", 0.2), ("vggface2", 0.4)):
        about = {"dataset": dataset, "flags": frozenset({"stand_in_data"})}
        rows.append(row("FedAwS", value, 0.1, **about))
        rows.append(row("FedAwS", 1.0, 0.0, "p_leak", "p_leak", **about))
    figures.FIGURES["identities"](figures.PaperFigure(recipe, "smoke", rows, {}, tmp_path))
    found = {a.get_title(): [list(x.get_ydata()) for x in a.lines] for a in drawn[0].axes}
    assert list(found) == [f"{d}, in its place t" for d in ("voxceleb1", "vggface2")]
    assert [0.2] in found["voxceleb1, in its place t"]
    assert [0.4] in found["vggface2, in its place t"]
    assert {a.get_ylabel() for a in drawn[0].axes} == {"eer"}
    assert write.title(rows[:2]) == "voxceleb1, in its place t"


RATES = ("lr", "own_lr", "tune_lr")


@pytest.mark.parametrize("name", [n for n, r in catalogue.RECIPES.items() if not r.study])
def test_a_rate_that_is_not_the_papers_says_how_it_was_chosen(name):
    """In every column of every scale, beside the parameter."""
    recipe = catalogue.RECIPES[name]
    for scale in recipe.scales:
        for p in plan.plan(recipe, scale, data=False):
            bare = replace(p.setup, why={})
            given = (p.specs, p.case.params)
            plain = texts(recipe.paper, bare, *given)
            told = texts(recipe.paper, p.setup, *given)
            for one, other in zip(plain, told, strict=True):
                if one.split()[0] in RATES and one not in p.setup.differs:
                    assert other.startswith(f"{one}: "), (scale, p.key)
                    assert ";" not in other


def test_a_reason_stands_beside_its_parameter_alone():
    """Of another method's, and of one that is the paper's, nothing is said."""
    recipe = catalogue.find_recipe("fedmetric-table2")
    said = {
        p.case.label: texts(recipe.paper, p.setup, p.specs)
        for p in plan.plan(recipe, "smoke", data=False)
        if p.setup.dataset == "mnist"
    }
    (one,) = [x for x in said["FedMetric pos"] if x.startswith("lr ")]
    assert one.startswith("lr 0.03, not 0.1: at the paper's, ")
    assert one.endswith("no sweep was made")
    assert not [x for x in said["FedAwS"] if x.startswith("lr ")]


def test_committed_rows_say_how_their_rates_were_chosen():
    """Those of before, too."""
    seen = 0
    for name in catalogue.RECIPES:
        for path in (RESULTS / name).glob("s*.csv"):
            if not path.name.endswith("-curves.csv"):
                told = {x for r in read_rows(path) for x in r.differs if x.split()[0] in RATES}
                assert all(": " in x for x in told if "(by default" not in x), path
                seen += len(told)
    assert seen > 20
