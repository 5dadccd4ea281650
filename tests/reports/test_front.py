"""One front: tradeoff.csv, report.json and the page name the same settings on every question."""

from __future__ import annotations

import csv
import json
import re

import pytest
from helpers.run_folders import add_attack, make_run, measure

from leakbench.base.spec import canonical
from leakbench.record.folders import find
from leakbench.reporting import write
from leakbench.results.number import when

ALL = [1.0] * 10
STAGES = {"early": 10, "middle": 50, "final": 100}


def hits(count):
    return [1.0] * count + [0.0] * (10 - count)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Four settings, the third useless and the fourth dead. Early in training only their papers'
    own attack ran, half way one setting was attacked by another.
    """
    runs, out = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("out")
    for sigma, right, own, real in ((1, 9, 4, 7), (2, 7, 2, 5), (3, 5, 3, 6), (4, 1, 0, 0)):
        run = make_run(runs, params={"sigma": float(sigma)}, right=[right])
        rows, more = [], []
        for stage, at in STAGES.items():
            place = {"stage": stage, "round": at}
            rows.append(measure("p_leak", hits(own), 0.1, ALL, **place))
            if stage == "final" or (stage, sigma) == ("middle", 2):
                more.append(measure("p_leak", hits(real), 0.1, ALL, **place))
        add_attack(run, "nearest", rows, rung="paper")
        if more:
            add_attack(run, "unmix", more, rung="method")
    tables = write.read_tables(find([runs]))
    return write.write_report(tables, out, title="x", formats=("json", "html"))


def test_the_table_the_file_and_the_page_name_the_same_settings(out):
    file = json.loads((out / "report.json").read_text())
    settings = {s["id"]: s["configuration"] for s in file["settings"]}
    params = {i: canonical(c["params"]) for i, c in settings.items()}
    with (out / "tradeoff.csv").open(newline="") as lines:
        rows = [r for r in csv.DictReader(lines) if r["attack"] == "any_attack"]
    block = r'<script type="application/json" id="charts">(.*?)</script>'
    page = json.loads(re.search(block, (out / "index.html").read_text(), re.DOTALL).group(1))
    told = {}
    for i, question in enumerate(file["questions"]):
        asked = (question["metric"], str(question["probe"]).lower(), question["stage"])
        mine = [r for r in rows if (r["metric"], r["probe"], when(r["stage"])) == asked]
        table = {r["defense_params"] for r in mine if r["on_front"] == "true"}
        named = {params[s] for s in question["fronts"].get("any_attack", [])}
        drawn = {params[f"r{at}"] for at in page["charts"][f"q{i}"]["by"]["any_attack"]["on"]}
        assert table == named == drawn, question["label"]
        told[question["stage"]] = sorted(json.loads(p)["sigma"] for p in named)
    # Where nobody but the paper's own attack looked there is no worst case to lie on a front.
    assert told == {"final": [1.0, 2.0], "early": [], "middle": [2.0]}


def test_by_their_own_papers_attacks_every_question_has_a_front(out):
    file = json.loads((out / "report.json").read_text())
    names = {s["id"]: s["configuration"]["params"]["sigma"] for s in file["settings"]}
    for question in file["questions"]:
        assert sorted(names[i] for i in question["fronts"]["paper"]) == [1.0, 2.0]
