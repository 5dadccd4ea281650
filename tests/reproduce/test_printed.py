"""Every table and figure of the papers is known: a recipe makes it, or it is said why none does."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import groupby
from pathlib import Path

import pytest
import torch
from torch import nn

from attacks import _decoder_nets
from leakbench.base import registry
from leakbench.base.files import read_csv
from leakbench.data import sets
from leakbench.models.networks import MODELS
from leakbench.record.runspec import make_spec
from leakbench.reproduce import history, overview, printed
from leakbench.reproduce.catalogue import RECIPES
from leakbench.reproduce.printed import COMING, EVERYTHING, PRINTED, TOLD
from leakbench.results import claims

ROOT = Path(__file__).parents[2]
SETUPS = [(p, c) for p in PRINTED for c in p.carried]
NETWORKS = [(p, c) for p, c in SETUPS if set(c.places.values()) == {"network"}]
TASKS = [(p, c) for p, c in SETUPS if (p, c) not in NETWORKS]
CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)


def stories():
    """What docs/reproduce.md says of each result, from its bold heading on."""
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    return re.split(r"\n(?=\*\*)", text.partition("## What came out")[2])[1:]


def name_of(entry):
    return f"{entry[0].name} {entry[1].shown}" if isinstance(entry, tuple) else entry.name


def numbers(p, dataset):
    """The records of a setup's table about one data set."""
    return [r for r in claims.published() if at(r) == at_of(p) and r["dataset"] == dataset]


def at(record):
    return record["paper"], record["table"]


def at_of(p):
    return p.paper, p.where.removeprefix("Table ")


def test_every_table_with_numbers_has_a_recipe_or_is_a_setup_that_something_shows():
    known = {(p.paper, p.where.removeprefix("Table ")): p for p in PRINTED}
    tables = {(r["paper"], r["table"]): r["method"] for r in claims.published() if r["table"]}
    assert tables
    for key in tables:
        assert known[key].kind in ("result", "setup"), key
    of_methods = {
        (r["paper"], r["table"]) for r in claims.published() if r["table"] and r["method"]
    }
    assert all(known[key].kind == "result" for key in of_methods)


@pytest.mark.parametrize(
    ("paper", "tables", "figures", "more"),
    [("fedhide", 4, 4, 3), ("fedmetric", 2, 3, 0), ("flea", 6, 13, 0), ("fedaa", 5, 9, 0)],
)
def test_none_of_a_papers_tables_and_figures_is_left_out(paper, tables, figures, more):
    wanted = [f"Table {i}" for i in range(1, tables + 1)]
    wanted += [f"Figure {i}" for i in range(1, figures + 1)]
    wanted += [f"supplement, Figure {i}" for i in range(1, more + 1)]
    assert [p.where for p in PRINTED if p.paper == paper] == wanted


def test_every_number_of_the_text_alone_has_a_place_and_no_place_is_made_up():
    asked = {(r["paper"], r["source"]) for r in claims.published() if not r["table"]}
    assert asked
    assert asked == {(p.paper, source) for p in EVERYTHING for source in p.sources}


def test_the_table_of_what_is_left_out_has_all_that_no_recipe_makes():
    head, rule, *lines = overview.left_out()
    assert head.count("|") == rule.count("|") == 5
    names = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    assert names == [p.name for p in EVERYTHING if not any(n in RECIPES for n in p.recipes)]
    assert {p.kind for p in TOLD} <= {"result", "text"}
    assert len({p.name for p in EVERYTHING}) == len(EVERYTHING)


@pytest.mark.parametrize("p", EVERYTHING, ids=name_of)
def test_a_recipe_makes_it_or_it_is_said_in_a_clause_why_there_is_nothing_to_run(p):
    assert bool(p.recipes) != bool(p.aside or p.carried)
    for name in p.recipes:
        assert name in RECIPES or COMING[name]
        assert name not in RECIPES or RECIPES[name].paper == p.paper
    assert p.answer
    assert "." not in p.aside


def test_what_is_coming_is_not_here_and_every_recipe_makes_something():
    here = {*RECIPES, *registry.names("tasks"), *registry.names("defenses"), *MODELS}
    assert not here & set(COMING), "switch it on: take it out of COMING"
    assert all(
        printed.printed_numbers(name) for name in RECIPES if not name.startswith("findings-")
    )


class TestSetups:
    @pytest.mark.parametrize("entry", SETUPS, ids=name_of)
    def test_each_of_its_numbers_has_a_place(self, entry):
        p, carried = entry
        found = numbers(p, carried.dataset)
        assert found
        assert {r["metric"] for r in found} == set(carried.places)
        datasets = {r["dataset"] for r in claims.published() if at(r) == at_of(p)}
        assert datasets == {c.dataset for c in p.carried}

    @pytest.mark.parametrize("entry", TASKS, ids=name_of)
    def test_our_task_has_these_numbers(self, entry):
        p, carried = entry
        if carried.shown in COMING:
            pytest.skip(COMING[carried.shown])
        task = registry.load_plugin("tasks", carried.shown).build({}, "task")
        for r in numbers(p, carried.dataset):
            ours = declared(task, carried, carried.places[r["metric"]])
            assert ours in (None, r["value"]), r["metric"]

    @pytest.mark.slow
    @pytest.mark.parametrize("entry", TASKS, ids=name_of)
    def test_our_data_have_these_numbers(self, entry):
        p, carried = entry
        if carried.shown in COMING or not sets.found(carried.shown):
            pytest.skip(f"{carried.shown} is not here")
        task = registry.load_plugin("tasks", carried.shown).build({}, "task")
        data = task.load()
        for r in numbers(p, carried.dataset):
            ours = loaded(task, data, carried.places[r["metric"]])
            assert ours is None or ours == pytest.approx(r["value"], rel=0.005), r["metric"]

    @pytest.mark.parametrize("entry", NETWORKS, ids=name_of)
    def test_our_network_has_these_layers(self, entry):
        p, carried = entry
        if carried.shown in COMING:
            pytest.skip(COMING[carried.shown])
        for theirs, ours in zip(table_of(p, carried), network(carried), strict=True):
            found = {
                "out_channels": ours.out_channels,
                "kernel": ours.kernel_size[0],
                "stride": ours.stride[0],
            }
            assert theirs.items() <= found.items()


def declared(task, carried, place):
    """What the task says without its data; None where it takes them."""
    method, _, param = place.rpartition(".")
    if method:
        return make_spec(method, task=carried.shown).defense.params[param]
    stated = {
        "clients": lambda: task.clients,
        "rounds": lambda: task.rounds,
        "classes": lambda: task.classes,
        "height": lambda: task.shape[-2],
        "width": lambda: task.shape[-1],
    }
    return stated[place]() if place in stated else None


def loaded(task, data, place):
    """What its data say; None of what needs none."""
    tested = len(data.test) + len(data.aux)
    return {
        "train": len(data.train),
        "test": tested,
        "per client": len(data.train) / task.clients,
        "tested": len(data.test.y.unique()),
    }.get(place)


def table_of(p, carried):
    """The layers of a network as printed, one {out_channels, kernel, stride} for each."""
    blocks = defaultdict(lambda: defaultdict(dict))
    for r in numbers(p, carried.dataset):
        layer = blocks[r["params"]["block"]][r["params"]["conv"]]
        layer[r["metric"]] = r["value"]
    out = []
    for name, layers in blocks.items():
        for first, _ in enumerate(name.split(",")):
            each = [dict(layers[i]) for i in sorted(layers)]
            for layer in each if first else ():  # the second of two blocks: its side stays
                layer["stride"] = 1
            out += each
    return out


def network(carried):
    """Our convolutions in the table's order."""
    shapes = {"cifar10": (3, 32, 32), "urbansound8k": (2, 64, 344), "uci_har": (1, 128, 3)}
    shape = shapes[carried.dataset]
    if carried.shown == "decoder":
        made = _decoder_nets.table5((16, 32, 32), shape, torch.Generator(), relu=False)
        return [m for m in made.modules() if isinstance(m, CONVOLUTIONS)]
    net = MODELS[carried.shown](shape, 10, carried.width)
    found = [(n, m) for n, m in net.named_modules() if isinstance(m, CONVOLUTIONS)]
    # MobileNetV2's block 17 changes its width at stride 1 as others do; the table has no shortcut.
    return [m for n, m in found if "block17.shortcut" not in n]


class TestHistory:
    def test_the_shipped_file_says_what_the_committed_tables_say(self):
        found = history.below(RECIPES.values(), ROOT / "results")
        wanted = "run: python benchmarks/reproduced.py"
        assert history.packed(found) == history.packed(history.shipped()), wanted

    def test_the_page_is_made_of_the_committed_tables(self):
        text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
        wanted = "run: python benchmarks/reproduced.py"
        assert text == overview.inserted(text, ROOT / "results"), wanted

    def test_the_list_says_which_scales_were_run(self, reproduce_cli, tmp_path):
        code, out, _ = reproduce_cli("--list")
        assert code == 0
        told = dict(sections(out))
        assert (
            "--scale smoke: 5 minutes on two cores; run: cifar100 on digit-pairs (3 seeds)"
            in (told["fedhide-table4"])
        )
        assert "three seeds; never run" in told["fedhide-table4"]
        assert "FedHide, Figure 1 (the algorithm): a drawing" in out
        found = json.loads(reproduce_cli("--list", "--json")[1])
        (column,) = found["recipes"]["fedhide-table4"]["scales"]["smoke"]["run"]
        assert (column["name"], column["task"], column["seeds"]) == ("cifar100", "digit-pairs", 3)
        assert found["recipes"]["fedhide-table4"]["scales"]["full"]["run"] == []
        assert found["recipes"]["fedhide-tsne"]["shows"] == [
            f"FedHide, supplement, Figure {i}" for i in (1, 2, 3)
        ]

    def test_results_that_lie_there_are_read_instead(self, reproduce_cli, tmp_path):
        (tmp_path / "results" / "fedhide-table4").mkdir(parents=True)
        text = (ROOT / "results" / "fedhide-table4" / "small.csv").read_text(encoding="utf-8")
        path = tmp_path / "results" / "fedhide-table4" / "small.csv"
        path.write_text(text, encoding="utf-8")
        told = dict(sections(reproduce_cli("--list")[1]))
        assert "never run" in told["fedhide-table4"].splitlines()[1]
        assert "run: cifar100 (5 of 18 rows, 1 seed)" in told["fedhide-table4"]
        assert told["fedaa-figure8"].count("never run") == 3
        path.write_text(text.replace(",task,", ",tusk,"), encoding="utf-8")
        code, _, err = reproduce_cli("--list")
        assert code != 0
        assert "no column task" in err


def sections(out):
    """(recipe, its lines) of the list."""
    lines = out.splitlines()
    heads = [i for i, line in enumerate(lines) if line and not line.startswith(" ")]
    for key, group in groupby(range(len(lines)), lambda i: max(h for h in heads if h <= i)):
        yield lines[key].partition(":")[0], "\n".join(lines[i] for i in group)


NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\d,])")
CELLS = ("value", "low", "high", "claimed", "floor", "control", "chance", "std")


class TestPage:
    """The tables of docs/reproduce.md, What came out."""

    @pytest.mark.parametrize("told", [t for t in stories() if "\n|" in t], ids=lambda t: t[2:40])
    def test_the_numbers_of_a_table_stand_in_the_results_that_are_named(self, told):
        named = re.findall(r"`(results/[\w/-]+)\.md`", told)
        assert named, "name the file: `results/...md`"
        known = [x for name in named for x in written(ROOT / name)]
        lines = [line for line in told.splitlines() if line.startswith("|")]
        cells = "\n".join(line.split("|", 2)[2] for line in lines if "---" not in line)
        for number in NUMBER.findall(cells.split("\n", 1)[1]):
            half = 0.5 * 10.0 ** -len(number.partition(".")[2]) + 1e-9
            assert any(abs(float(number) - x) <= half for x in known), number


def written(stem):
    """All numbers of a table of ours, and half of what a paper's goes up and down."""
    path = stem.with_suffix(".csv")
    if not path.is_file():
        text = stem.with_suffix(".md").read_text(encoding="utf-8")
        yield from map(float, NUMBER.findall(text))
        return
    for r in read_csv(path, CELLS):
        yield from (float(r[c]) for c in CELLS if r[c])
        for low, high in (("claimed_low", "claimed_high"), ("low", "high")):
            if r[low]:
                yield (float(r[high]) - float(r[low])) / 2
