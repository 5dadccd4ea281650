"""The fixture `leakage` in a project's own tests, as pytest loads it."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from helpers.check_results import compared, fine, found, limited, undecided
from helpers.run_folders import add_attack, make_run, measure

from leakbench import api
from leakbench.record import folders
from leakbench.reporting.check import check_of

pytest_plugins = ["pytester"]
# Without the filters of the session around it.
QUIET = ("-p", "no:xdist", "-p", "no:cacheprovider", "-W", "default")
TEST = """
def test_leakage(leakage):
    assert leakage.check({}).exit_code in {}
"""


def made(folder, hits):
    for seed in range(8):
        run = make_run(folder, params={"sigma": 0.1}, seed=seed)
        shares = [1] * (hits + seed % 2) + [0] * (10 - hits - seed % 2)
        add_attack(run, "averaging", [measure("p_leak", shares, 0.1, [1] * 10)])
    return folders.find([folder])


@pytest.fixture(scope="module", autouse=True)
def runs(tmp_path_factory):
    """Folders of runs that leak as much and more, and a baseline; and all is imported that the
    tests need: a session inside one forgets what it imported, and numpy cannot be imported twice.
    """
    folder = tmp_path_factory.mktemp("runs")
    now = made(folder / "same", 2)
    made(folder / "more", 7)
    api.update(now, baseline=folder / "leakage.json")
    tables = api.tables(now)
    check_of(api.check(tables, baseline=folder / "leakage.json"), tables.settings)
    return folder


@pytest.fixture
def project(pytester, runs):
    """A project with a baseline, runs and tests, in a folder of their own."""
    shutil.copytree(runs, pytester.path, dirs_exist_ok=True)

    def run(arguments, *options, codes=(0,)):
        pytester.makepyfile(TEST.format(arguments, codes))
        return pytester.runpytest_inprocess(*QUIET, *options)

    return run


@pytest.fixture
def says(monkeypatch):
    """Let the gate say what a test wants to hear; what it was asked."""
    asked = []

    def put(result):
        def check(runs, **given):
            asked.append(given)
            return result

        monkeypatch.setattr(api, "check", check)
        return asked

    return put


def test_pytest_finds_it_by_itself():
    named = {e.name: e.value for e in entry_points(group="pytest11")}
    assert named["leakbench"] == "leakbench.pytest_plugin"


def test_a_session_that_does_not_ask_for_it_loads_nothing_heavy():
    code = (
        "import sys, leakbench.pytest_plugin as p; print([m for m in ('torch', 'numpy', 'pydantic',"
        " 'leakbench.api') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_fine_passes(project):
    project("'same'").assert_outcomes(passed=1)


def test_what_leaks_more_fails_with_its_line_and_no_traceback(project):
    result = project("'more', baseline='leakage.json'", "-rf")
    result.assert_outcomes(failed=1)
    told = result.stdout.str()
    assert "leaks more: digits: FedGN σ 0.1: best real attacker: P_leak 0.25 → 0.75" in told
    assert "Check failed (exit 1): 2 rows leak more, 1 fine." in told
    assert "Traceback" not in told
    assert "leakbench/" not in told.split("FAILURES")[1].split("short test summary")[0]


def test_runs_are_taken_as_paths_and_as_runs(project, pytester):
    pytester.makepyfile(
        """
        from pathlib import Path
        import leakbench

        def test_leakage(leakage):
            one = sorted(Path("same").iterdir())
            for runs in (Path("same"), one, [leakbench.load(p) for p in one]):
                assert leakage.check(runs).exit_code == 0
        """
    )
    pytester.runpytest_inprocess(*QUIET).assert_outcomes(passed=1)


def test_a_path_begins_at_the_root_of_the_tests(project, pytester, monkeypatch):
    (pytester.path / "deep").mkdir()
    monkeypatch.chdir(pytester.path / "deep")
    project("'same'", "--rootdir", str(pytester.path), str(pytester.path)).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("'no'", "leakbench: *no*"),
        ("'same', baseline='other.json'", "leakbench: *other.json*"),
        ("'same', undecided='maybe'", "undecided: expected one of fail, skip, warn, got 'maybe'."),
    ],
)
def test_what_is_given_wrong_is_one_sentence(project, arguments, said):
    result = project(arguments)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([said])
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("how", "outcome"),
    [("fail", {"failed": 1}), ("skip", {"skipped": 1}), ("warn", {"passed": 1, "warnings": 1})],
)
def test_what_cannot_be_told_fails_skips_or_warns(project, says, how, outcome):
    says(found(undecided(), fine()))
    result = project(f"'same', undecided={how!r}", "-rs", codes=(3,))
    result.assert_outcomes(**outcome)
    assert "Check undecided (exit 3): 1 cannot tell, 1 fine" in result.stdout.str()


@pytest.mark.parametrize("how", ["skip", "warn"])
def test_what_is_sure_fails_whatever_is_said_of_the_rest(project, says, how):
    says(found(undecided(), compared(), limits=[limited()]))
    result = project(f"'same', undecided={how!r}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*breached: release: p_leak<=0.2: *: 0.53 (at least 0.41)"])


def test_limits_and_names_reach_the_gate(project, pytester, says):
    asked = says(found(limits=[limited("kept")]))
    told = "limits=['p_leak<=0.2'], named=['release/*'], allow_new=True"
    project(f"'same', {told}").assert_outcomes(passed=1)
    (pytester.path / "leakage.json").unlink()
    project(f"'same', {told}").assert_outcomes(passed=1)
    given = {"limits": ["p_leak<=0.2"], "named": ["release/*"], "allow_new": True}
    # Without a baseline of that name limits alone are held.
    there = {"baseline": pytester.path / "leakage.json"}
    assert asked == [{**given, **there}, {**given, "baseline": None}]


def test_limits_alone_need_no_baseline(project, pytester):
    (pytester.path / "leakage.json").unlink()
    project("'more', limits=['p_leak<=1']").assert_outcomes(passed=1)
    result = project("'more', limits=['p_leak<=0.2']")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["breached: digits: FedGN σ 0.1: p_leak<=0.2: *: 0.75 (at least 0.*"]
    )
    project("'more'").assert_outcomes(failed=1)


RUNS = """
import pytest

RUN = {"defense": "fedgn", "task": "digits", "rounds": 12}
SMALL = {"model": "mlp", "width": 8, "dim": 4, "evaluations": 10}
ATTACKS = [("prototype_leakage", {})]

@pytest.mark.parametrize("sigma", [0.1, -1.0])
def test_build(leakage, sigma):
    given = {**RUN, "params": {"sigma": sigma}, "task_params": SMALL, "attacks": ATTACKS}
    leakage.ci([{**given, "seed": s} for s in (0, 1)], out="made", limits=["prototype_cosine<=0.1"])
"""


@pytest.mark.slow
def test_a_build_in_a_test_makes_its_runs(pytester):
    """A limit that is breached fails it, and so does what is given wrong: in one sentence each."""
    pytester.makepyfile(RUNS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *QUIET, str(pytester.path)],
        capture_output=True,
        text=True,
        cwd=pytester.path,
    )
    assert done.returncode == 1
    assert "2 failed" in done.stdout
    first, second = re.split(r"_+ test_build\[-1\.0\] _+", done.stdout)
    assert "\nbreached: " in first
    assert "leakbench: " in second.partition("short test summary")[0]
    assert "Traceback" not in done.stdout
