"""FedAA's recipes: what is run and how, the paper's numbers, Figure 5's and Figure 8's numbers
against the files and a few lines.
"""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace

import pytest
import torch
from helpers.differences import texts

from leakbench.base import plots
from leakbench.base.errors import NotMeasured
from leakbench.data.sklearn_digits import split
from leakbench.record.folders import load
from leakbench.reproduce import (
    catalogue,
    diagnostics,
    name_correlations,
    plan,
    rows,
    statements,
    sweeps,
    write,
)
from leakbench.reproduce.orders import Equals, Falls, Less
from leakbench.reproduce.pooling import pooled
from leakbench.reproduce.recipe import SCALES, Scale
from leakbench.reproduce.row import Measurement, Row
from leakbench.results import claims

TABLES = ("fedaa-table1", "fedaa-table2", "fedaa-table3", "fedaa-table5")
TRAINED = (*TABLES, "fedaa-figure5")
COMPARED = ["FedAvg", "FedProx", "FedBN", "MOON", "FedAA"]
OURS = ["Non-I", "Non-F", "Neither"]
NETWORK = "FedAvg+BN"  # FedAvg on FedBN's network


def at(method, fraction):
    """A row's label."""
    return f"{method}, C = {fraction:g}"


def planned(name, scale):
    return plan.plan(catalogue.find_recipe(name), scale, data=False)


def folders(name, scale):
    return {s.folder() for p in planned(name, scale) for s in p.specs}


def measured(value, low, high):
    return Measurement(value=value, low=low, high=high, n=1, unit="run")


def lines_of(name, scale):
    recipe, cases = catalogue.find_recipe(name), planned(name, scale)
    return sweeps.with_best(recipe, scale, cases, rows.table_rows(recipe, scale, cases, {}))


def rows_of(found):
    """The paper's rows: a value of a sweep counts as the row whose best it may be."""
    return list(dict.fromkeys((p.setup.column, p.case.of or p.case.label) for p in found))


class TestWhatIsRun:
    @pytest.mark.parametrize("scale", SCALES)
    @pytest.mark.parametrize("name", TRAINED)
    def test_all_methods_train_alike_but_for_their_own(self, name, scale):
        for p in planned(name, scale):
            for spec in p.specs:
                own, task = spec.defense.params, spec.task.params
                assert (own["average"], own["steps"]) == ("weighted", 0)
                assert own["epochs"] + own.get("second_epochs", 0) == 11
                assert (p.case.of or p.case.label).endswith(f", C = {own['fraction']:g}")
                assert own.get("temperature", 0.5) == 0.5
                assert not task.get("flip")
                assert not task.get("rotation")
                assert task["utility"] == "accuracy"
        assert (
            len(
                {
                    (s.defense.params["lr"], s.defense.params["batch"])
                    for p in planned(name, scale)
                    for s in p.specs
                }
            )
            == 1
        )

    @pytest.mark.parametrize("scale", SCALES)
    @pytest.mark.parametrize("name", [*TRAINED, "fedaa-figure4"])
    def test_mu_is_the_best_of_what_its_own_paper_tried(self, name, scale):
        tried = {"FedProx": [0.001, 0.01, 0.1, 1.0], "MOON": [0.1, 1.0, 5.0, 10.0]}
        tried["FedProxAA"] = tried["FedProx"]
        found = {}
        for p in planned(name, scale):
            method = p.case.label.partition(",")[0]
            if method in tried:
                found.setdefault((p.setup.column, p.case.of), []).append(p.case.params["mu"])
        wanted = [row for row in rows_of(planned(name, scale)) if row[1].split(",")[0] in tried]
        assert found == {row: tried[row[1].split(",")[0]] for row in wanted}

    @pytest.mark.parametrize("name", TRAINED)
    def test_full_is_the_papers(self, name):
        clients = 10 if name in ("fedaa-table1", "fedaa-figure5") else 100
        for p in planned(name, "full"):
            for spec in p.specs:
                own, task = spec.defense.params, spec.task.params
                assert (own["lr"], own["batch"], spec.rounds, task["evaluations"]) == (
                    0.0025,
                    256,
                    100,
                    100,
                )
                assert (task["model"], task["width"], task["clients"]) == ("cnn", 64, clients)
                assert own.get("hidden", 512) == 512
            said = texts("fedaa", p.setup, p.specs, p.case.params)
            # Of which the paper is silent.
            assert [s for s in said if s not in p.setup.differs] == []

    def test_rows_are_those_of_the_tables(self):
        def columns(name, fraction):
            found = [p for p in planned(name, "full") if p.case.params["fraction"] == fraction]
            return [label.partition(",")[0] for _, label in rows_of(found)]

        for fraction in (0.5, 0.8, 1.0):
            assert columns("fedaa-table1", fraction) == 2 * [*COMPARED, *OURS, NETWORK]
        for fraction in (0.1, 0.2, 0.3):
            assert columns("fedaa-table2", fraction) == 2 * COMPARED
            assert columns("fedaa-table3", fraction) == [
                "Non-I",
                "Non-F",
                "FedAvg",
                "FedAA",
                "Neither",
            ]
        assert columns("fedaa-table5", 0.3) == ["FedAvg", "FedAA", "FedProx", "FedProxAA"]
        ablations = {
            p.case.label: p.specs[0].defense.params
            for p in planned("fedaa-table3", "full")
            if "0.1" in p.case.label
        }
        assert [ablations[at(m, 0.1)]["identifier"] for m in (*OURS, "FedAA")] == [
            False,
            True,
            False,
            True,
        ]
        assert [ablations[at(m, 0.1)]["fine_tune"] for m in (*OURS, "FedAA")] == [
            True,
            False,
            False,
            True,
        ]
        both = next(p for p in planned("fedaa-table5", "full") if "ProxAA" in p.case.label)
        assert both.specs[0].defense.params["local"] == "fedprox"

    def test_smoke_of_table_1_is_everyone_three_times_at_c_of_1(self):
        found = planned("fedaa-table1", "smoke")
        labels = [at(m, 1.0) for m in (*COMPARED, *OURS, NETWORK)]
        assert rows_of(found) == [("cifar10", label) for label in labels]
        assert {p.seeds for p in found} == {(0, 1, 2)}

    @pytest.mark.parametrize("scale", SCALES)
    def test_recipes_share_their_runs(self, scale):
        assert folders("fedaa-figure5", scale) <= folders("fedaa-table1", scale)
        shared = folders("fedaa-table2", scale) & folders("fedaa-table3", scale)
        assert len({f.rpartition("-s")[0] for f in shared}) == 6  # FedAvg and FedAA, three C
        alone = folders("fedaa-table5", scale) - folders("fedaa-table2", scale)
        assert len({f.rpartition("-s")[0] for f in alone}) == 4  # FedProxAA, four values of mu

    def test_stand_ins_and_what_is_smaller_are_said(self):
        for p in planned("fedaa-table2", "smoke"):
            said = texts("fedaa", p.setup, p.specs, p.case.params)
            assert (
                said[0]
                == "stand-in data: scikit-learn's 8x8 digits, 11 a client, in place of CIFAR-10"
            )
            assert not any(s.startswith("rounds") for s in said)
            assert "batch 32, not 256" in said
            assert any(x.startswith("lr 0.02, not 0.0025: ") for x in said)
            assert any("LeNet" in s for s in said)
            assert not any(
                s.startswith(("own_lr", "average", "steps", "epochs", "mu")) for s in said
            )
        for p in planned("fedaa-table1", "small"):
            assert any("8 and 32 filters, not 64 and 256" in s for s in p.setup.differs)


class TestThePapersNumbers:
    @pytest.mark.parametrize("name", TABLES)
    @pytest.mark.parametrize("scale", SCALES)
    def test_are_those_of_the_file(self, name, scale):
        """Each record of the table is shown once beside our best, and nothing else is (FedAA in
        Table 3: Table 2's).
        """
        records = json.loads((files("leakbench") / "data_files" / "published.json").read_text())[
            "records"
        ]
        number = name[-1]
        shown = {(p.setup.dataset, p.case.params["fraction"]) for p in planned(name, scale)}
        wanted = [
            r
            for r in records
            if r["paper"] == "fedaa" and r["metric"] == "accuracy" and r["table"] == number
        ]
        if number == "3":
            more = (
                r
                for r in records
                if r["paper"] == "fedaa"
                and (r["table"], r["dataset"], r["method"]) == ("2", "cifar100", "fedaa")
            )
            wanted += list(more)
        want = sorted(
            (r["dataset"], r["setting"]["fraction"], r["value"] / 100, round(r["spread"] / 100, 9))
            for r in wanted
            if (r["dataset"], r["setting"]["fraction"]) in shown
        )
        fraction = {c.label: c.params["fraction"] for c in catalogue.find_recipe(name).cases}
        assert (
            "".join(r.label for r in lines_of(name, scale) if "mu = " in r.label and r.claim) == ""
        )
        claimed = [(r, r.claim) for r in lines_of(name, scale) if r.claim]
        got = sorted(
            (r.dataset, fraction[r.label], c.value, round((c.high - c.low) / 2, 9))
            for r, c in claimed
        )
        assert got == want
        assert {r.measure for r, _ in claimed} == {"best"}

    def test_an_ablation_has_no_number_where_the_paper_has_none(self):
        islands = {"clients": 10, "fraction": 1.0, "rounds": 100}
        mobile = islands | {"clients": 100, "fraction": 0.1}

        def find(dataset, fields, **params):
            found = claims.find_claim(
                "fedaa",
                {"identifier": True, "fine_tune": True, "local": "fedavg", "sends": "names"}
                | params,
                dataset,
                "accuracy",
                fields,
            )
            return found and round(found.value, 4)

        assert find("cifar10", islands) == 0.4369
        for changed in (
            {"identifier": False},
            {"fine_tune": False},
            {"local": "fedprox"},
            {"local": "moon"},
            {"sends": "images"},
        ):
            assert find("cifar10", islands, **changed) is None
        assert find("cifar100", mobile) == 0.0485
        assert find("cifar100", mobile, identifier=False) == 0.0421
        assert find("cifar100", mobile, fine_tune=False) == 0.0412
        assert find("cifar100", mobile, identifier=False, fine_tune=False) is None
        assert find("cifar100", mobile | {"fraction": 0.3}, local="fedprox") == 0.1084
        assert (
            find("cifar100", mobile | {"fraction": 0.3}, local="fedprox", identifier=False) is None
        )

    @pytest.mark.parametrize("name", TABLES)
    def test_do_not_contradict_its_statements(self, name):
        lines = [
            r.model_copy(
                update={"ours": r.claim and measured(r.claim.value, r.claim.low, r.claim.high)}
            )
            for r in lines_of(name, "full")
        ]
        ours = {c.label for c in catalogue.find_recipe(name).cases if c.ours}
        judged = 0
        for order in catalogue.find_recipe(name).orders_of("full"):
            for dataset in order.datasets or {r.dataset for r in lines}:
                if not ours & set(order.labels()):
                    assert order.judge(lines, dataset).verdict in (
                        statements.HOLDS,
                        statements.WITHIN,
                    ), order.text
                    assert (
                        "the other way round" not in order.judge(lines, dataset).sentence
                        or name == "fedaa-table1"
                    ), order.text
                    judged += 1
        assert (
            judged
            == {"fedaa-table1": 9, "fedaa-table2": 8, "fedaa-table3": 4, "fedaa-table5": 3}[name]
        )

    def test_at_smoke_a_statement_speaks_of_what_is_run(self):
        orders = catalogue.find_recipe("fedaa-table1").orders_of("smoke")
        assert {label for o in orders for label in o.labels()} == {
            at(m, 1.0) for m in (*COMPARED, *OURS, NETWORK)
        }
        assert "FedAA beats FedProx, but at C = 1" not in [o.text for o in orders]
        assert "FedProx beats FedAA at C = 1 (the paper's own exception)" in [
            o.text for o in orders if "cifar10" in o.datasets
        ]


def test_what_is_left_of_a_statement():
    less = Less("less", "m", pairs=(("a", "b"), ("c", "d")))
    assert less.within({"a", "b", "c"}).pairs == (("a", "b"),)
    assert less.within({"a", "c"}) is None
    assert Equals("one", "m", values=(("a", 1.0), ("b", 2.0))).within({"b", "x"}).values == (
        ("b", 2.0),
    )
    assert Equals("one", "m", values=(("a", 1.0),)).within({"b"}) is None
    falls = Falls("falls", "m", along=("a", "b"))
    assert falls.within({"a", "x"}) is falls  # it says itself which are not there
    assert falls.within({"x"}) is None


class TestFigure5:
    def run(self, found):
        def table(name, columns):
            assert name == "diagnostics.csv"
            return [
                {"round": t, "name": n, "value": v}
                for n, values in found.items()
                for t, v in enumerate(values, 1)
            ]

        return SimpleNamespace(id="r", table=table)

    def test_views_are_the_means_of_the_last_ten_evaluations(self):
        values = [100.0] * 5 + [float(i) for i in range(10)]
        one = self.run({"loss": [9.0] * 15, "local_variance": values})
        assert diagnostics.first_variance(one) == diagnostics.last_variance(one) == [4.5]
        two = self.run({"local_variance": values, "local_variance_second": [1.0] * 15})
        assert diagnostics.first_variance(two) == [4.5]
        assert diagnostics.last_variance(two) == [1.0]
        with pytest.raises(NotMeasured, match="how far apart"):
            diagnostics.first_variance(self.run({"loss": [1.0]}))

    def test_a_number_per_run_has_an_interval_over_seeds_alone(self):
        single = pooled({0: [2e-5]}, "run")
        assert single == Measurement(value=2e-5, low=None, high=None, n=1, unit="run")
        three = pooled({0: [1.0], 1: [2.0], 2: [3.0]}, "run")
        assert (three.value, three.n) == (2.0, 3)
        # Student, two degrees of freedom, sd 1.
        assert three.high - 2 == pytest.approx(4.302652729911275 / 3**0.5)
        about = {"recipe": "r", "scale": "s", "dataset": "d", "task": "t", "label": "a"}
        line = Row(**about, measure="m", metric="m", flags="one_seed", ours=single)
        assert (line.cells["low"], line.cells["high"]) == ("", "")
        assert write.ours(line, catalogue.find_recipe("fedaa-figure5").measures[0]) == "2.00e-05"
        assert measured(2e-4, -1e-4, 6e-3).text() == "0.000 [-0.000, 0.006]"
        assert measured(2e-4, 1e-4, 3e-4).text() == "2.00e-04 [1.00e-04, 3.00e-04]"
        assert measured(0.0, 0.0, 0.0).text() == "0.000 [0.000, 0.000]"


@pytest.fixture
def cli(reproduce_cli):
    return reproduce_cli


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def drawn(monkeypatch):
    """Figures as they are saved, which are saved nevertheless."""
    kept, save = [], plots.save
    monkeypatch.setattr(
        plots,
        "save",
        lambda figure, folder, stem: kept.append(figure) or save(figure, folder, stem),
    )
    return kept


def curves(axes):
    return {
        line.get_label(): dict(zip(*map(list, line.get_data()), strict=True))
        for line in axes.lines
        if line.get_label()[0] != "_"
    }


def test_figure_5_and_table_1_from_runs(cli, monkeypatch, drawn, tmp_path):
    smoke = catalogue.find_recipe("fedaa-table1").scales["smoke"]
    few = replace(
        smoke.setups[0], rounds=10, task_params={"evaluations": 10, "model": "mlp", "width": 8}
    )
    less = {
        "batch": 256,
        "examples": 1,
        "search_steps": 2,
        "tune_steps": 1,
        "identifier_epochs": 1,
        "hidden": 4,
    }
    quick = {"fedavg": {"batch": 256, "lr": 0.0025}, "fedaa": {**less, "lr": 0.0025}}
    scale = {"smoke": Scale("no time", (replace(few, params=quick),), record=smoke.record)}
    for name in ("fedaa-figure5", "fedaa-table1"):
        monkeypatch.setitem(
            catalogue.RECIPES, name, replace(catalogue.find_recipe(name), scales=scale)
        )
    some = [x for m in ("FedAvg", "FedAA", "Non-I") for x in ("--only", at(m, 1.0))]
    code, out, _ = cli("fedaa-figure5", *some)
    assert code == 0
    runs = {
        p.name.split("-")[1]: load(p)
        for p in sorted((tmp_path / "runs").iterdir())
        if "fedavg" in p.name
    }
    lines = {
        (r["label"], r["measure"]): r
        for r in table(tmp_path / "results" / "fedaa-figure5" / "smoke.csv")
    }
    avg = [
        float(r["value"])
        for r in table(runs["fedavg"].path / "diagnostics.csv")
        if r["name"] == "local_variance"
    ]
    assert len(avg) == 10
    row = lines[at("FedAvg", 1.0), "local_variance"]
    assert float(row["value"]) == pytest.approx(sum(avg) / 10)
    assert (row["low"], row["n"], row["unit"], row["claimed"]) == ("", "1", "run", "")
    assert lines[at("FedAvg", 1.0), "local_variance_last"]["value"] == row["value"]
    aa = {
        k: float(lines[at("FedAA", 1.0), k]["value"])
        for k in ("local_variance", "local_variance_last")
    }
    assert 0 < aa["local_variance_last"] < aa["local_variance"]
    assert "last upload, which its one epoch brings): neither shown" in out
    assert "but " + at("FedAA", 1.0) in out
    (axes,) = drawn[0].axes
    assert curves(axes).keys() == {
        "FedAvg",
        "FedAA",
        "FedAA, second upload",
        "Non-I",
        "Non-I, second upload",
    }
    assert list(curves(axes)["FedAvg"].values()) == avg
    assert axes.get_title() == "cifar10, in its place digits, C = 1"
    assert axes.get_yscale() == "log"

    code, _, err = cli("fedaa-table1", *some)
    assert code == 0
    assert err.count("is complete; it was not trained again.") == 3
    accuracy = [float(r["value"]) for r in table(runs["fedavg"].path / "utility.csv")]
    lines = {
        (r["label"], r["measure"]): r
        for r in table(tmp_path / "results" / "fedaa-table1" / "smoke.csv")
    }
    got = [float(lines[at("FedAvg", 1.0), m]["value"]) for m in ("best", "final", "last10")]
    assert got == pytest.approx([max(accuracy), accuracy[-1], sum(accuracy) / 10])
    assert float(lines[at("FedAvg", 1.0), "best"]["claimed"]) == 0.3909
    assert lines[at("Non-I", 1.0), "best"]["claimed"] == ""
    assert list(curves(drawn[1].axes[0])["FedAvg"].values()) == pytest.approx(accuracy)


class TestFigure8:
    def ask(self, x, y, n=60, seed=0):
        setup = catalogue.find_recipe("fedaa-figure8").scales["smoke"].setups[0]
        return name_correlations.name_correlations(setup, {"x": x, "y": y, "n": n}, seed)

    def sets(self, n, seed):
        """Images and their labels, drawn as the recipe draws them."""
        from leakbench.base.streams import shared

        x, y = split()["train"]
        rows = shared(seed, "reproduce/fedaa-figure8").permutation("rows", len(y))[:n]
        return x[rows].flatten(1), torch.nn.functional.one_hot(y[rows], 10).double()

    def test_the_number_is_eq_13_of_images_and_names(self):
        x, y = self.sets(60, 3)

        def centred(z):
            d = (z[:, None] - z[None]).square().sum(-1).sqrt()
            return d - d.mean(0) - d.mean(1)[:, None] + d.mean()

        a, b = centred(x), centred(y)
        want = ((a * b).mean() / ((a * a).mean() * (b * b).mean()).sqrt()).item()
        found = self.ask("raw data", "own names", seed=3)
        assert found["r2"] == pytest.approx(want, abs=1e-9)
        assert found["r"] == pytest.approx(want**0.5, abs=1e-9)
        assert found == self.ask("raw data", "own names", seed=3)
        assert found["r2"] != self.ask("raw data", "own names", seed=4)["r2"]

    def test_only_what_belongs_to_the_images_is_above_chance(self):
        own = self.ask("raw data", "own names")
        assert own["corrected"] > 10 * own["corrected_high"] > 0
        assert own["r2"] > 2 * own["r2_null"]
        for name in ("all shared names", "Gaussian 1", "Gaussian 2"):
            each = [self.ask("raw data", name, seed=s) for s in range(6)]
            for found in each:
                assert found["r2"] == pytest.approx(found["r2_null"], rel=0.25)
                assert found["r2"] > 0.1  # by bias alone
            assert abs(sum(f["corrected"] for f in each)) / 6 < 0.03
        assert set(self.ask("raw data", "1 shared name").values()) == {0.0}

    def test_what_is_paired_does_not_depend_on_the_pair(self):
        """The same draw of noise, names and images for every cell of the map; two noises and
        shuffled names are others.
        """
        one, two = self.ask("Gaussian 1", "Gaussian 2"), self.ask("own names", "all shared names")
        assert one["r2"] < 0.9
        assert two["r2"] < 0.9
        assert self.ask("Gaussian 1", "Gaussian 1")["r2"] == pytest.approx(1)
        assert self.ask("all shared names", "all shared names")["r2"] == pytest.approx(1)
        assert self.ask("raw data", "raw data")["corrected"] == pytest.approx(1)

    def test_more_images_than_there_are(self):
        with pytest.raises(
            ValueError, match="at most the 1097 training images of digits, got n = 2000"
        ):
            self.ask("raw data", "own names", n=2000)

    def test_no_run_is_made_and_the_files_are_like_the_others(
        self, cli, monkeypatch, drawn, tmp_path
    ):
        recipe = catalogue.find_recipe("fedaa-figure8")
        monkeypatch.setattr(name_correlations, "PERMUTATIONS", 20)
        kept = tuple(
            c for c in recipe.cases if c.params["n"] in (100, 500) and c.params["x"] == "raw data"
        )
        monkeypatch.setitem(catalogue.RECIPES, recipe.name, replace(recipe, cases=kept))
        code, out, err = cli(recipe.name, "--seeds", "0-1")
        assert (code, "0 runs" in err) == (0, True)
        assert not (tmp_path / "runs").exists()
        lines = table(tmp_path / "results" / recipe.name / "smoke.csv")
        assert len(lines) == len(kept) * len(recipe.measures)
        by = {(r["label"], r["measure"]): r for r in lines}
        noise = by["raw data and Gaussian 1, n = 500", "r2"]
        each = [
            name_correlations.name_correlations(
                recipe.scales["smoke"].setups[0], {"x": "raw data", "y": "Gaussian 1", "n": 500}, s
            )
            for s in (0, 1)
        ]
        assert float(noise["value"]) == pytest.approx(sum(e["r2"] for e in each) / 2)
        assert (noise["n"], noise["unit"], noise["seeds"], noise["metric"], noise["runs"]) == (
            "2",
            "draw",
            "0|1",
            "dcor2",
            "",
        )
        assert set(noise["flags"].split("|")) == {"few_seeds", "stand_in_data"}
        assert noise["commit"]
        assert "no row of the paper" in by["raw data and own names, n = 100", "r2"]["differs"]
        page = (tmp_path / "results" / recipe.name / "smoke.md").read_text()
        assert "No run was made." in page
        assert "Number format: float64." in page
        assert "![FedAA, Figures 8 and 9" in page
        assert (
            "names correlate less with images than Gaussian noise does (R², as the paper has it):"
            " neither shown nor contradicted (" in out
        )
        assert "of fewer than three seeds)" in out
        assert (
            "without the bias noise correlates less with images than their own names do (ours):"
            " neither shown nor contradicted (" in out
        )
        heat = {t.get_text() for t in drawn[0].axes[0].texts}
        assert f"{float(noise['value']):.2f}" in heat
        over = curves(drawn[0].axes[2])
        assert list(over["Gaussian 1"].values())[1] == pytest.approx(float(noise["value"]))
        assert list(over["Gaussian 1"]) == [100, 500]

    def test_what_was_not_asked_for_and_a_set_that_is_not_there_are_said(
        self, cli, monkeypatch, tmp_path
    ):
        recipe, one = catalogue.find_recipe("fedaa-figure8"), "raw data and own names, n = 100"
        both = (*recipe.scales["smoke"].setups, replace(recipe.scales["small"].setups[1]))
        monkeypatch.setitem(
            catalogue.RECIPES,
            recipe.name,
            replace(recipe, scales={"smoke": replace(recipe.scales["smoke"], setups=both)}),
        )
        monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "nowhere"))
        code, _, err = cli(recipe.name, "--seeds", "0", "--only", one)
        assert code == 4
        assert "LEAKBENCH_DATA" in err
        lines = table(tmp_path / "results" / recipe.name / "smoke.csv")
        notes = {(r["dataset"], r["label"]): r["note"] for r in lines}
        assert notes.pop(("cifar10", one)) == ""
        assert {n for (d, _), n in notes.items() if d == "cifar10"} == {
            "not run: left out by --only"
        }
        assert all("LEAKBENCH_DATA" in n for (d, _), n in notes.items() if d == "cifar100")
        assert {r["value"] == "" for r in lines if r["note"]} == {True}
        assert {r["low"] == "" and r["value"] != "" for r in lines if not r["note"]} == {True}
