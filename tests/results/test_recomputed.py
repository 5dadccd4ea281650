"""What is sealed again after an edit is found by what can be computed a second time."""

import importlib.util
import shutil
from functools import partial
from pathlib import Path

import pytest
from helpers.run_folders import called, edited
from helpers.small_runs import attacked, copied

from leakbench.base.errors import BrokenFile, LeakbenchError
from leakbench.base.files import file_digest, read_csv, write_csv
from leakbench.record.columns import RESULTS, RUN_UTILITY
from leakbench.record.folders import find, load
from leakbench.results.tables import collect

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return attacked(tmp_path_factory.mktemp("runs"), rounds=3)


@pytest.fixture
def run(made, tmp_path):
    return copied(made, tmp_path)


def put(*keys, value):
    """A change of one value of a JSON."""

    def change(meta):
        at = meta
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("spec", "defense", "params", "sigma", value=0.001), "its spec makes it"),
        (put("spec", "rounds", value=300), "its spec makes it"),
        (put("hides", value=False), "says hides is False, but it is True"),
        (put("distance", value="euclidean"), "says distance is 'euclidean', but it is 'cosine'"),
        (put("stand_in", value="digits"), "says stand_in is 'digits'"),
        (put("facts", "clients", value=1000), "says facts is .*1000"),
        (put("utility", "chance", value=0.5), "utility.chance is 0.5, but it is 0.1"),
        (put("utility", "better", value="down"), "utility.better is 'down'"),
        (put("utility", "meaning", "margin", value=0.9), "accuracy.margin is 0.9, but it is 0.02"),
        (put("stages", value={"untrained": 1, "final": 2}), "says stages is"),
        (lambda meta: meta["stages"].pop("untrained"), "says stages is"),  # only an excerpt may
        (put("sent", 1, "messages", value=7), "messages is 7, but it is 30"),
        (put("sent", 0, "rounds", value=9), "rounds is 9, but it is 3"),
        (put("sent", value=[]), "its kinds is"),
    ],
)
def test_a_run_that_contradicts_itself_is_refused_in_one_sentence(run, change, said):
    collect([run])
    edited(run.path / "run.json", change)
    with pytest.raises(BrokenFile, match=said):
        collect([load(run.path)])


def test_a_spec_with_the_name_that_fits_is_found_by_the_rounds_that_are_there(run):
    shutil.rmtree(run.path / "attacks")

    def change(meta):
        meta["spec"]["rounds"] = 30
        meta["id"] = called(meta["spec"])
        meta["stages"] = {"untrained": 1, "early": 3, "middle": 15, "final": 30}

    edited(run.path / "run.json", change)
    with pytest.raises(BrokenFile, match=r"utility\.csv is damaged \(it has rounds 1, 2, 3"):
        collect([load(run.path)])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("order", value=99), "says order is 99"),
        (put("threat", "rung", value="public"), "says threat is"),
        (put("threat", "knows", value=["labels"]), "says threat is"),
        (put("metrics", "p_leak", "share", value=False), "p_leak.share is False, but it is True"),
        (put("metrics", "p_leak", "low", value=-1.0), "a share, so its units score from 0 to 1"),
        (put("metrics", "p_leak", "margin", value=0.9), "p_leak.margin is 0.9, but it is"),
        (put("params", "seed", value=5), "holds the attack prototype_leakage-"),
        (put("status", value="complete"), "status: string should match"),
    ],
)
def test_an_attack_that_contradicts_the_installed_one_is_refused(run, change, said):
    (path,) = run.path.glob("attacks/*/attack.json")
    edited(path, change)
    with pytest.raises(BrokenFile, match=said):
        collect([load(run.path)])


def rewritten(folder, name, columns, holder, change):
    """One cell of a CSV changed, its hash and the seal with it."""
    rows = read_csv(folder / name, columns)
    change(rows[-1])
    write_csv(folder / name, columns, rows)
    edited(folder / holder, lambda meta: meta["files"].update({name: file_digest(folder / name)}))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *[("value", "0.0"), ("low", "0.0"), ("high", "0.1"), ("floor", "0.9"), ("floor_high", "1")],
        *[("control", "0.0"), ("control_low", "0.01"), ("n", "1000"), ("failed", "3")],
        *[("interval", "exact"), ("run", "another"), ("seed", "7"), ("rung", "public")],
        *[("attack_params", "{}"), ("knowledge", "labels"), ("flags", "")],
    ],
)
def test_a_number_that_its_units_do_not_give_is_refused(run, column, value):
    (folder,) = run.path.glob("attacks/*")
    change = partial(dict.update, **{column: value})
    rewritten(folder, "results.csv", RESULTS, "attack.json", change)
    with pytest.raises(BrokenFile, match=r"results\.csv is damaged"):
        collect([load(run.path)])


@pytest.mark.parametrize(("column", "value"), [("value", "0.99"), ("low", "0.0"), ("n", "7")])
def test_a_utility_that_its_test_units_do_not_give_is_refused(run, column, value):
    shutil.rmtree(run.path / "attacks")  # they name the run's content
    change = partial(dict.update, **{column: value})
    rewritten(run.path, "utility.csv", RUN_UTILITY, "run.json", change)
    with pytest.raises(BrokenFile, match=rf"utility\.csv is damaged \({column} of round 3 is"):
        collect([load(run.path)])


def test_the_excerpts_in_the_repository_contradict_nothing():
    assert len(collect(find([ROOT / "results" / "runs"])).settings) == 5


def test_of_wrong_json_nothing_comes_but_the_same_tables_or_a_sentence(tmp_path):
    """A few of the mutants of ``benchmarks/campaigns/json_mutants.py``."""
    where = ROOT / "benchmarks" / "campaigns" / "json_mutants.py"
    spec = importlib.util.spec_from_file_location("json_mutants", where)
    mutants = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutants)
    found = mutants.campaign(seed=1, count=40)
    assert set(found) <= {"same", "refused"}, found
    assert found["refused"] > 20
    assert issubclass(BrokenFile, LeakbenchError)
