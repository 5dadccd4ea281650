"""What moved between two reports: joined by the name of the number, compared like `check` compares,
unlike things said.
"""

import json
import re

import pytest
import torch
from helpers.report_data import report_data
from helpers.run_folders import add_attack, edited, make_run, measure

from leakbench import api
from leakbench.base.errors import UsageError
from leakbench.base.files import file_digest, write_tree
from leakbench.cli import run as cli
from leakbench.federation.utility import METRICS
from leakbench.gate.rows import gate_rows
from leakbench.metrics import P_LEAK
from leakbench.metrics.context import SAMPLES_TO_90
from leakbench.record import folders
from leakbench.reporting import other
from leakbench.reporting.moved import Moved, against
from leakbench.results.tables import collect
from leakbench.statistics.intervals import Estimate
from reports._page import moved as _against
from reports.html import render

SEEDS = range(8)
MODEL = "checkpoint/model.safetensors"


def made(folder, hits, *, seeds=SEEDS, sigma=0.1, right=8, metric="p_leak", value=None, **more):
    """Runs of one setting in which so many of ten clients are named."""
    for seed in seeds:
        run = make_run(folder, params={"sigma": sigma}, seed=seed, right=(right,), **more)
        # By its hash the gate knows an unchanged utility.
        model = {"w": torch.tensor([float(right), float(seed)])}
        write_tree(run / MODEL, model, {"round": 100})
        sha = file_digest(run / MODEL)
        edited(run / "run.json", lambda m, sha=sha: m["files"].update({MODEL: sha}))
        count = hits(seed) if callable(hits) else hits
        scores = [value] * 10 if value is not None else [1] * count + [0] * (10 - count)
        floor, control = (0.1, [1] * 10) if metric == "p_leak" else ([0.9] * 10, [0.0] * 10)
        add_attack(run, "averaging", [measure(metric, scores, floor, control)])
    return folders.find([folder])


def moved(now, then):
    found = against("there", rows_of(now), rows_of(then), {})
    return found, {(r.attack, r.metric): r for r in found.rows}


def rows_of(runs):
    return gate_rows(collect(runs).settings)


def test_rows_are_joined_and_the_difference_is_the_gates(tmp_path):
    then, now = made(tmp_path / "a", 2), made(tmp_path / "b", lambda s: 7 + s % 2)
    found, rows = moved(now, then)
    assert set(rows) == {
        ("averaging", "p_leak"),
        ("cascade", "p_leak"),
        ("any_attack", "p_leak"),
        ("utility", "accuracy"),
    }
    row = rows["averaging", "p_leak"]
    assert (row.old.value, row.new.value, row.difference) == (
        pytest.approx(0.2),
        pytest.approx(0.75),
        pytest.approx(0.55),
    )
    assert row.word == "leaks more"
    assert 0.3 < row.low < 0.55 < row.high < 0.8
    from leakbench.gate.comparison import difference

    sides = [next(s for s in rows_of(r) if s.attacker.name == "averaging") for r in (now, then)]
    d = difference(*sides)
    assert (row.low, row.high) == (d.lower(0.025), d.upper(0.025))
    assert found.only_now == found.only_then == ()
    assert found.rows[0].word == "leaks more"  # the most urgent first


def test_the_other_way_round_is_the_mirror_image(tmp_path):
    a, b = made(tmp_path / "a", 2), made(tmp_path / "b", lambda s: 7 + s % 2)
    there, back = moved(b, a)[1]["averaging", "p_leak"], moved(a, b)[1]["averaging", "p_leak"]
    assert (back.difference, back.low, back.high) == tuple(
        pytest.approx(-x) for x in (there.difference, there.high, there.low)
    )
    assert (there.word, back.word) == ("leaks more", "leaks less")


def test_where_less_leaks_more_the_sign_stays_the_metrics_own(tmp_path):
    then = made(tmp_path / "a", 0, metric="mse", value=0.5)
    now = made(tmp_path / "b", 0, metric="mse", value=0.1)
    row = moved(now, then)[1]["averaging", "mse"]
    assert row.difference == pytest.approx(-0.4)
    assert row.worse == "down"
    assert row.word == "leaks more"  # a smaller error is a better reconstruction


def test_utility_has_words_of_its_own(tmp_path):
    then, now = (
        made(tmp_path / "a", 3, right=90, test=100),
        made(tmp_path / "b", 3, right=50, test=100),
    )
    row = moved(now, then)[1]["utility", "accuracy"]
    assert (row.word, row.worse) == ("loses utility", "down")
    assert moved(then, now)[1]["utility", "accuracy"].word == "more useful"


def test_the_same_guesses_are_the_same(tmp_path):
    both = made(tmp_path / "a", 3)
    found, _ = moved(both, both)
    assert {r.word for r in found.rows} == {"much the same"}
    assert {(r.difference, r.low, r.high) for r in found.rows} == {(0.0, 0.0, 0.0)}
    assert found.differs == ()


def test_one_seed_cannot_tell_and_says_why(tmp_path):
    then, now = made(tmp_path / "a", 0, seeds=[0]), made(tmp_path / "b", 10, seeds=[0])
    row = moved(now, then)[1]["averaging", "p_leak"]
    assert row.word == "cannot tell"
    assert "one seed" in row.why
    assert row.low < 1.0 <= row.high + 1e-9  # still with an interval, over units alone


def test_what_is_not_like_with_like_is_said_and_not_judged(tmp_path):
    then = made(tmp_path / "a", 2)
    now = made(tmp_path / "b", 9, rounds=200, engine="loop", seeds=range(2, 10))
    found, rows = moved(now, then)
    row = rows["averaging", "p_leak"]
    assert row.word == "cannot tell"
    assert "another engine now (loop) than then (fused)" in row.why
    assert "another number of rounds now (200) than then (100)" in row.why
    said = " ".join(found.differs)
    assert "number of rounds: 100 then, 200 now (4 of 4 numbers)" in said
    assert "seeds: 0, 1, 2, 3, 4, 5, 6, 7 then, 2, 3, 4, 5, 6, 7, 8, 9 now" in said


def test_a_dead_run_is_never_leaks_less(tmp_path):
    then, now = made(tmp_path / "a", 9), made(tmp_path / "b", 1, right=0)
    row = moved(now, then)[1]["averaging", "p_leak"]
    assert row.word == "cannot tell"
    assert "dead run" in row.why


def test_settings_and_numbers_of_one_side_only(tmp_path):
    then = made(tmp_path / "a", 2, sigma=0.1) + made(tmp_path / "a2", 2, sigma=0.3)
    now = made(tmp_path / "b", 2, sigma=0.1) + made(tmp_path / "b2", 2, sigma=0.5)
    for run in now[:8]:
        add_attack(run.path, "median", [measure("p_leak", [1] * 10, 0.1, [1] * 10)])
    found, _ = moved([folders.load(r.path) for r in now], then)
    assert found.only_then == ("digits: FedGN σ 0.3 (the whole setting)",)
    assert found.only_now == (
        "digits: FedGN σ 0.1, median, p_leak, final",
        "digits: FedGN σ 0.5 (the whole setting)",
    )


# from a report's tables


def test_a_report_folder_gives_the_same_rows_with_limits_from_the_intervals(tmp_path):
    then, now = made(tmp_path / "a", 2), made(tmp_path / "b", lambda s: 7 + s % 2)
    api.report(then, tmp_path / "old", formats=[])
    sides = other.numbers_of_folder(tmp_path / "old", {"accuracy": METRICS["accuracy"].meaning})
    real = {s.key: s for s in rows_of(then)}
    assert {s.key for s in sides} == set(real)
    for s in sides:
        same = real[s.key]
        assert (s.estimate, s.worse, s.allowed) == (same.estimate, same.worse, same.allowed)
        assert s.units.scores.keys() == same.units.scores.keys()
        ran, really = s.training, same.training
        assert (ran.engine, ran.dtype, ran.setting["rounds"]) == (
            really.engine, really.dtype, really.setting["rounds"])  # fmt: skip
        assert s.estimate.n == same.estimate.n
    found = against("old", rows_of(now), sides, {})
    row = next(r for r in found.rows if r.attack == "averaging")
    assert row.word == "leaks more"
    assert "hold no units" in row.why
    exact = moved(now, then)[1]["averaging", "p_leak"]
    assert row.difference == pytest.approx(exact.difference)
    assert row.low <= 0.55 <= row.high


def test_an_error_rate_of_tables_alone_is_better_when_it_is_lower(tmp_path):
    """Where report.json is gone and these runs have another utility."""
    both = made(tmp_path / "a", 2, seeds=[0, 1])
    out = api.report(both, tmp_path / "old", formats=[])
    table = (out / "utility.csv").read_text().replace("accuracy", "eer")
    (out / "utility.csv").write_text(table)
    (row,) = [r for r in other.numbers_of_folder(out, {}) if r.attacker.name == "utility"]
    assert (row.metric, row.worse) == ("eer", "up")


def test_equal_tables_are_not_taken_for_the_same_guesses(tmp_path):
    both = made(tmp_path / "a", 3)
    api.report(both, tmp_path / "old", formats=[])
    found = against("old", rows_of(both), other.numbers_of_folder(tmp_path / "old", {}), {})
    assert {r.word for r in found.rows if r.attack != "utility"} <= {"cannot tell", "leaks no more"}


def test_other_places_are_one_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    for place in ("empty", "nowhere"):
        with pytest.raises(UsageError, match="expected a report folder"):
            other.numbers_of_folder(tmp_path / place, {})
    both = made(tmp_path / "a", 3, seeds=[0])
    api.report(both, tmp_path / "old", formats=[])
    for content in ("[]", '{"metrics": []}', '{"metrics": {"p_leak": 3}}'):
        (tmp_path / "old" / "report.json").write_text(content)
        with pytest.raises(UsageError, match=r"report\.json is damaged"):
            other.numbers_of_folder(tmp_path / "old", {})
    (tmp_path / "old" / "report.json").unlink()
    (tmp_path / "old" / "tradeoff.csv").write_text("task\nx,y\n")
    with pytest.raises(UsageError, match="damaged"):
        other.numbers_of_folder(tmp_path / "old", {})


# in the formats


@pytest.fixture
def reported(tmp_path):
    made(tmp_path / "a", 2)
    made(tmp_path / "b", lambda s: 7 + s % 2)
    made(tmp_path / "b", 3, sigma=0.7)
    out = tmp_path / "out"
    assert (
        cli(
            [
                "report",
                str(tmp_path / "b"),
                "-o",
                str(out),
                "--against",
                str(tmp_path / "a"),
                "--format",
                "html,json,markdown",
            ]
        )
        == 0
    )
    return out


def test_page_json_and_markdown_say_what_moved(reported):
    page = re.sub(r"<[^>]+>", " ", (reported / "index.html").read_text(encoding="utf-8"))
    found = json.loads((reported / "report.json").read_text(encoding="utf-8"))["against"]
    text = (reported / "report.md").read_text(encoding="utf-8")
    assert "What moved" in page
    assert found["rows"][0]["word"] == "leaks more"
    ids = {
        s["id"]: s["name"]
        for s in json.loads((reported / "report.json").read_text(encoding="utf-8"))["settings"]
    }
    for row in found["rows"]:
        assert ids[row["setting"]] == row["name"]
    for shown in (
        "4 numbers in both: leaks more 3, ",
        "+0.55 (+0.",
        "0.20 (0.",
        "Only in this report",
        "FedGN σ 0.7 (the whole setting)",
    ):
        assert shown in " ".join(page.split()), shown
    assert "### What moved against" in text
    assert "| \\+0.55 (+0." in text
    order = [
        (reported / "index.html").read_text(encoding="utf-8").index(f'id="{name}"')
        for name in ("q0", "moved", "table", "methods")
    ]
    assert order == sorted(order)  # after the first screen, before all that is below


def test_against_its_own_folder(tmp_path, capsys):
    """The old tables are read before the new ones are written over them."""
    both = made(tmp_path / "a", 3)
    api.report(both, tmp_path / "out", formats=["json"])
    api.report(both, tmp_path / "out", formats=["json"], against=tmp_path / "out")
    found = json.loads((tmp_path / "out" / "report.json").read_text())["against"]
    assert all(r["difference"] == 0 for r in found["rows"])


def test_no_cell_of_what_moved_is_empty(reported):
    page = (reported / "index.html").read_text(encoding="utf-8")
    section = page[
        page.index('<section id="moved"') : page.index(
            "</section>", page.index('<section id="moved"')
        )
    ]
    cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", section)
    assert len(cells) > 20
    assert not [c for c in cells if c.strip() in ("", "-", "0", "nan", "None")]


def test_a_report_without_another_has_no_such_section():
    assert 'id="moved"' not in render(report_data())


def test_factors_where_samples_are_counted():
    row = Moved(
        setting="k",
        task="digits",
        name="FLea",
        attack="any_attack",
        rung="public",
        meaning=SAMPLES_TO_90.meaning,
        stage="final",
        probe=False,
        worse="down",
        old=Estimate(20, 15, 25, 10, "draw", ""),
        new=Estimate(10, 8, 12, 10, "draw", ""),
        difference=0.5,
        low=0.35,
        high=0.7,
        scale="factor",
        word="leaks more",
        why="",
    )
    assert _against.change(row) == "× 0.50 (× 0.35 to × 0.70)"
    small = {"difference": -0.001, "low": -0.04, "high": 0.001}
    other = row.model_copy(update={"scale": "difference", "meaning": P_LEAK.meaning} | small)
    assert _against.change(other) == "0.00 (-0.04 to 0.00)"


def test_keys_are_those_of_the_tables(tmp_path):
    both = made(tmp_path / "a", 3, seeds=[0, 1])
    data = api.report(both, tmp_path / "out", formats=[])
    table = folders.read_table(data / "tradeoff.csv", ())
    assert len(table) == len(rows_of(both)) - 1  # and the utility
    assert {s.key for s in other.numbers_of_folder(data, {})} == {s.key for s in rows_of(both)}
