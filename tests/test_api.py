"""The commands as functions: what `leakbench` itself offers to Python."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from helpers.small_runs import TASK, copied, tree_of

import leakbench
from leakbench import api
from leakbench.base import notebook
from leakbench.base.errors import BrokenFile, LeakbenchError, UsageError
from leakbench.base.files import read_sealed
from leakbench.record import columns, folders

COMMANDS = (
    *("train", "attack", "score", "tables", "plot", "plugin"),
    *("report", "check", "update", "load", "export"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    run = api.train("fedgn", params={"sigma": 0.5}, task_params=TASK, rounds=5, seed=2, out=out)
    api.attack(run, "prototype_leakage")
    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_the_package_itself_has_the_commands(name):
    assert getattr(leakbench, name) is getattr(api, name)


@pytest.mark.slow
def test_a_command_is_no_module_whatever_was_imported_before():
    """No module may have a command's name: importing it would put it in the function's place."""
    lines = [
        "import leakbench",
        "from leakbench.attacking.attack import Attack",
        "from leakbench.reporting.data import Report",
        "from leakbench import api, attacking",
    ]
    lines += [
        f"assert callable(leakbench.{n}) and leakbench.{n} is api.{n}"
        for n in ("train", "attack", "report", "check", "load")
    ]
    for order in (lines, [lines[0], *reversed(lines[1:4]), *lines[4:]]):
        subprocess.run([sys.executable, "-c", "\n".join(order)], check=True, timeout=60)


def test_importing_the_package_is_cheap():
    code = "import sys, leakbench; assert not {'torch', 'pandas', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_all_names_are_there():
    for name in leakbench.__all__:
        assert getattr(leakbench, name) is not None
    assert leakbench.__all__ == sorted(leakbench.__all__)
    with pytest.raises(AttributeError, match="attribute nothing"):
        leakbench.nothing  # noqa: B018


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_takes_and_raises(name):
    command = getattr(api, name)
    assert inspect.getdoc(command)
    assert "Raises:" in inspect.getdoc(command)
    assert all(
        p.annotation is not inspect.Parameter.empty
        for p in inspect.signature(command).parameters.values()
    )


def test_train_gives_a_run_and_does_not_train_it_again(made):
    assert made.done
    assert (made.seed, made.spec["rounds"], made.spec["defense"]["params"]["sigma"]) == (2, 5, 0.5)
    before, told = tree_of(made.path), []
    again = api.train(
        "fedgn",
        params={"sigma": 0.5},
        task_params=TASK,
        rounds=5,
        seed=2,
        out=made.path.parent,
        progress=lambda *a: told.append(a),
    )
    assert again == made
    assert told == []
    assert tree_of(made.path) == before


def test_train_tells_its_progress(tmp_path):
    told = []
    api.train(
        "fedavg", task_params=TASK, rounds=3, out=tmp_path, progress=lambda *a: told.append(a)
    )
    assert [t[:2] for t in told] == [(1, 3), (2, 3), (3, 3)]


def test_attack_gives_results_with_every_column(made):
    found = api.attack(made, "prototype_leakage")
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert tuple(frame.columns) == columns.RESULTS
    assert len(frame) == len(found.rows) > 0
    assert frame["value"].dtype == float
    assert set(frame["seed"]) == {2}
    assert set(frame["metric"]) == {"p_leak", "prototype_cosine"}


def test_a_run_may_be_named_by_its_path(made):
    for way in (made, made.path, str(made.path)):
        assert api.attack(way, "prototype_leakage").path.parent.parent == made.path
        assert api.score(way, "prototype_leakage").rows
    assert api.load(str(made.path)) == api.load(made.path) == folders.load(made.path)


def test_parameters_of_an_attack_are_keywords(made, tmp_path):
    run = copied(made, tmp_path)
    path = api.attack(run, "prototype_leakage", candidates="public", seed=3).path
    assert read_sealed(path / "attack.json")["params"] == {"candidates": "public", "seed": 3}
    with pytest.raises(
        UsageError, match=r"unknown parameter 'candidate'. Did you mean 'candidates'"
    ):
        api.attack(run, "prototype_leakage", candidate="public")


def test_report_writes_the_folder_it_returns(made, tmp_path):
    out = api.report([made], tmp_path / "rep", title="Hello", formats=["html"])
    assert out == tmp_path / "rep"
    assert {p.name for p in out.iterdir()} >= {
        "index.html",
        *(f"{t}.csv" for t in ("results", "tradeoff", "utility", "missing", "diagnostics")),
    }
    with pytest.raises(UsageError, match="there is no run to report"):
        api.report([], tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_many_runs_are_one_frame(made, tmp_path):
    """By folders that hold some, or globs; a run that is named twice counts once."""
    copied(made, tmp_path / "a")
    whole = leakbench.tables(made).to_frame()
    for way in (tmp_path, str(tmp_path / "*"), [tmp_path / "a", tmp_path]):
        assert leakbench.tables(way).to_frame().equals(whole)
    with pytest.raises(UsageError, match="holds no run"):
        leakbench.tables(Path(__file__).parent / "golden")


def test_a_notebook_shows_runs_and_numbers(made):
    shown = made._repr_html_()
    assert "fedgn" in shown
    assert "client to server: prototype" in shown
    results = leakbench.attack(made, "prototype_leakage")
    assert "p_leak" in results._repr_html_()
    tables = leakbench.tables(made)
    assert tables._repr_html_().count("<tr") >= 2
    assert "numbers are not there" in tables._repr_html_()


def test_what_a_notebook_shows_is_escaped():
    assert notebook.facts("<b>", {"<i>": "<script>"}).count("&lt;") == 3


def test_plot_draws_the_reports_own_figure(made):
    leakbench.attack(made, "prototype_leakage")
    figure = leakbench.plot(made)
    (axes,) = figure.axes
    assert axes.get_xlabel() == "leakage: P_leak, share of clients named"
    assert axes.get_title() == "digits, prototypes, worst case"
    assert figure._repr_png_().startswith(b"\x89PNG")  # so that a notebook shows it
    assert leakbench.plot(leakbench.tables(made), "prototypes").axes[0].get_title()
    with pytest.raises(UsageError, match="no question 'prototype' has a number: digits-proto"):
        leakbench.plot(made, "prototype")


def test_what_was_not_attacked_is_not_drawn(made, tmp_path):
    run = copied(made, tmp_path)
    shutil.rmtree(run.path / "attacks", ignore_errors=True)
    with pytest.raises(UsageError, match="there is no number to draw"):
        leakbench.plot(run)


def test_tables_stand_for_the_runs_that_they_were_read_of(made, tmp_path, monkeypatch):
    tables = leakbench.tables([made])
    frame = tables.to_frame("tradeoff")
    assert tuple(frame.columns) == columns.TRADEOFF
    assert set(frame["metric"]) == {"p_leak", "prototype_cosine"}
    baseline, sides = tmp_path / "leakage.json", {"runs": [made], "tables": tables}
    assert api.update(tables, baseline=baseline).exit_code == 0
    written = {}
    for name, side in sides.items():
        result = api.check(side, baseline=baseline)
        out = api.report(side, tmp_path / name, formats=[], check=result, baseline=baseline)
        written[name] = tree_of(out), result
    assert written["runs"] == written["tables"]
    monkeypatch.setattr(folders, "read_csv", lambda *_: pytest.fail("read again"))
    assert api.check(tables, baseline=baseline) == written["tables"][1]
    with pytest.raises(UsageError, match="there is no run"):
        leakbench.tables([])


def test_update_then_check(made, tmp_path):
    baseline = tmp_path / "leakage.json"
    with pytest.raises(UsageError, match="no baseline"):
        api.check([made], baseline=baseline)
    assert api.update([made], baseline=baseline).exit_code == 0
    verdict = api.check([made], baseline=baseline)
    assert verdict.exit_code in (0, 3)  # 3: a run of five rounds may be dead
    assert verdict.lines
    assert verdict.rows


def test_errors_are_of_one_family_and_a_sentence(tmp_path):
    with pytest.raises(LeakbenchError, match=r"^unknown defense 'fedgm'\. Did you mean 'fedgn'\?"):
        api.train("fedgm", out=tmp_path)
    with pytest.raises(BrokenFile, match=r"run.json is missing"):
        api.load(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("engine", "warp"),
        ("dtype", "int8"),
        ("record", "none"),
        ("device", "tpu"),
        ("rounds", 0),
        ("seed", -1),
    ],
)
def test_train_refuses_what_the_command_line_refuses(tmp_path, name, value):
    with pytest.raises(UsageError, match=name):
        api.train("fedavg", task_params=TASK, out=tmp_path, **{"rounds": 1, name: value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrappers", [["top_k"], {"top_k": {"share": 0.1}}, [("top_k",)]])
def test_wrappers_are_pairs(wrappers):
    with pytest.raises(leakbench.UsageError, match="expected pairs of a name and parameters"):
        leakbench.train("fedavg", task="digits", rounds=1, wrappers=wrappers)
