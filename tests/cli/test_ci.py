"""`leakbench ci`: what a build types, and what it is told where that is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from helpers.small_runs import TASK, plugged

from leakbench import api
from leakbench.cli import ci, options
from leakbench.cli.check import Asked
from leakbench.record import folders
from leakbench.work.wanted_run import wanted_runs

SPEC = """
rounds = 12
seeds = [0, 1]
task = {name = "digits", model = "mlp", width = 8, dim = 8, evaluations = 10}
[[defense]]
name = "fedgn"
sigma = 0.5
as = "release"
[[attack]]
name = "prototype_averaging"
"""


@pytest.fixture
def cli(cli, tmp_path, monkeypatch):
    """`leakbench ARGV` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return cli


def spec(folder, more="", text=SPEC):
    (folder / "ci.toml").write_text(text + more, encoding="utf-8")
    return "ci.toml"


def test_a_baseline_is_made_and_then_held_to(cli, tmp_path):
    given = spec(tmp_path)
    code, _, err = cli("ci", given)
    assert (code, err) == (
        2,
        "leakbench: leakage.json does not exist. Write it with leakbench ci ci.toml --update,"
        " review and commit it.\n",
    )
    assert not (tmp_path / "runs").exists()
    assert cli("ci", given, "--update")[0] == 0
    code, out, err = cli("ci", given)
    assert (code, "Check passed" in out) == (0, True), out
    assert err == "release, seeds 0, 1: reused\n2 attacks reused\n"


def test_only_the_runs_of_the_spec_are_checked(cli, tmp_path):
    """What else lies in the cache is of an earlier SPEC."""
    cli("ci", spec(tmp_path), "--update")
    api.train("fedgn", params={"sigma": 0.0}, rounds=1, task_params={"model": "mlp"}, out="runs")
    code, out, _ = cli("ci", "ci.toml", "--json")
    assert code == 0
    assert {row["setting"] for row in json.loads(out)["rows"]} == {"release"}
    assert len(folders.find(["runs"])) == 3


def test_limits_alone_are_a_check(cli, tmp_path):
    table = '[ci]\nbaseline = "none"\n'
    code, _, err = cli("ci", spec(tmp_path, table))
    assert code == 2
    assert 'baseline = "none" leaves nothing to check' in err
    code, out, _ = cli("ci", spec(tmp_path, f'{table}limits = ["prototype_cosine<=0.01"]\n'))
    assert (code, "breached: release" in out) == (1, True), out
    assert cli("ci", spec(tmp_path, f'{table}limits = ["prototype_cosine<=1"]\n'))[0] == 0


FAULTY = '''
"""Fails in its first round with some seeds."""

from leakbench import Defense


class Faulty(Defense):
    """FedAvg until it fails."""

    def aggregate(self, server):
        raise ValueError("never")
'''


def test_a_run_that_fails_is_exit_4_and_1_comes_first(cli, tmp_path):
    both = SPEC + '[[defense]]\nname = "faulty"\n'
    with plugged("defenses", tmp_path, faulty=FAULTY):
        table = '[ci]\nbaseline = "none"\nlimits = ["prototype_cosine<={}"]\n'
        code, _, err = cli("ci", spec(tmp_path, table.format(1), both))
        assert code == 4
        assert "failed" in err
        assert cli("ci", spec(tmp_path, table.format(0.01), both))[0] == 1
        code, _, err = cli("ci", "ci.toml", "--update", "--baseline", "b.json")
    assert (code, (tmp_path / "b.json").exists()) == (4, False)
    assert "the baseline was not written, for it would lack what failed" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--accept", "x"], "--accept goes with --update"),
        (["--update", "--spend", "3"], "--spend and --update exclude each other"),
        (["--update", "--junit", "j.xml"], "--junit and --update exclude each other"),
        (["--update", "--undecided", "warn"], "--undecided and --update exclude each other"),
        (["--undecided", "wran"], "--undecided 'wran': expected fail or warn"),
        (["-q", "-v"], "-q and -v exclude each other"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
@pytest.mark.parametrize("command", ["ci", "check"])
def test_options_that_exclude_each_other_are_one_sentence(cli, tmp_path, command, words, said):
    code, out, err = cli(command, spec(tmp_path), *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("spent = 3", "unknown key 'spent'. Did you mean 'spend'?"),
        ("spend = true", "spend = True: expected a whole number from 0 on"),
        ("spend = -1", "spend = -1: expected a whole number from 0 on"),
        ('limits = "p_leak<=1"', "expected a list"),
        ("limits = [1]", "expected a list"),
        ("allow_new = 1", "allow_new = 1: expected true or false"),
        ('undecided = "never"', "--undecided 'never': expected fail or warn"),
    ],
)
def test_a_wrong_table_is_one_sentence_and_nothing_is_trained(cli, tmp_path, line, said):
    (tmp_path / "leakage.json").touch()
    code, _, err = cli("ci", spec(tmp_path, f"[ci]\n{line}\n"))
    assert (code, err.count("\n")) == (2, 1)
    assert said in err
    assert not (tmp_path / "runs").exists()


def test_options_win_over_the_table_and_limits_of_both_count(tmp_path):
    path = tmp_path / "ci.toml"
    (tmp_path / "mine.json").touch()
    (tmp_path / "leakage.json").touch()
    table = {"baseline": "mine.json", "limits": ["a<=1"], "spend": 3, "undecided": "warn"}
    held = ci.settled(Asked(baseline=None), table, path)
    assert (held.baseline, held.limits) == (tmp_path / "mine.json", ("a<=1",))
    assert (held.spend, held.undecided, held.allow_new) == (3, "warn", False)
    typed = Asked(tmp_path / "leakage.json", limits=("b<=1",), spend=0, undecided="fail")
    held = ci.settled(typed, table, path)
    assert (held.baseline, held.limits) == (tmp_path / "leakage.json", ("a<=1", "b<=1"))
    assert (held.spend, held.undecided) == (0, "fail")
    assert ci.settled(Asked(baseline=None), {}, path).baseline == tmp_path / "leakage.json"
    # What stands in the SPEC is not written into the baseline as well.
    assert ci.settled(Asked(None, update=True), table, path).limits == ()


def test_in_python_it_is_a_function(tmp_path):
    one = {"defense": "fedgn", "params": {"sigma": 0.5}, "task_params": TASK, "rounds": 12}
    runs = [{**one, "seed": s, "attacks": [("prototype_averaging", {})]} for s in range(2)]
    said = []
    how = {"baseline": None, "out": tmp_path / "runs", "say": said.append}
    assert api.ci(runs, limits=["prototype_cosine<=1"], **how).exit_code == 0
    assert any("trained" in line for line in said)
    assert api.ci(runs, limits=["prototype_cosine<=0.01"], **how).exit_code == 1
    assert said[-1] == "2 attacks reused"


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")


def test_the_page_has_every_key_of_the_table_and_its_spec_is_read(tmp_path):
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(ci.KEYS)
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    plan = options.read_spec(tmp_path / spec(tmp_path, text=textwrap.dedent(text)))
    (tmp_path / "leakage.json").touch()
    held = ci.settled(Asked(baseline=None), plan.ci, tmp_path / "ci.toml")
    assert (held.limits, held.spend) == (("prototype_cosine<=0.95",), 3)
    assert len(wanted_runs(plan.specs())) == 5


@pytest.mark.slow
def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "docs/ci.md", "exec"), {})
    assert capsys.readouterr().out.startswith("0\nkept")


def test_a_spec_does_not_soften_its_own_check_unsaid(cli, tmp_path):
    """In the last line, first, whatever else the check says."""
    strict = '[ci]\nlimits = ["prototype_cosine<=1"]\nspend = 1\n'
    assert cli("ci", spec(tmp_path, strict), "--update")[0] == 0
    code, out, _ = cli("ci", spec(tmp_path, strict))
    assert (code, out.splitlines()[-1].startswith("Check passed")) == (0, True), out
    soft = '[ci]\nundecided = "warn"\nallow_new = true\n'
    code, out, _ = cli("ci", spec(tmp_path, soft))
    assert code == 0
    assert out.splitlines()[-1].startswith(
        "Held to less than the baseline was written for (undecided 'fail' -> 'warn'; allow_new"
        " false -> true; spend 1 -> 0; limit prototype_cosine<=1 dropped). Check passed"
    )
    fewer = spec(tmp_path, strict, SPEC.replace("[0, 1]", "[0]"))
    _, out, _ = cli("ci", fewer, "--json")
    assert json.loads(out)["softer"] == ["seeds 0, 1 -> 0"]
    (tmp_path / "other.json").write_bytes((tmp_path / "leakage.json").read_bytes())
    (tmp_path / "other.units.json").write_bytes((tmp_path / "leakage.units.json").read_bytes())
    _, out, _ = cli("ci", spec(tmp_path, f'{strict}baseline = "other.json"\n'))
    assert "(baseline 'leakage.json' -> 'other.json')" in out.splitlines()[-1]
    _, out, _ = cli("ci", spec(tmp_path, f'{strict}baseline = "none"\n'))
    assert "(baseline 'leakage.json' -> 'none')" in out.splitlines()[-1]


def test_runs_that_came_with_the_pull_request_are_said(cli, tmp_path):
    """Whoever sends them could have made them from others; unlike a cache they are in the index."""

    def git(*args):
        subprocess.run(["git", *args], cwd=tmp_path, check=True)

    git("init", "-q")
    (tmp_path / ".gitignore").write_text("/runs/\n")
    given = spec(tmp_path)
    assert cli("ci", given, "--update")[0] == 0
    git("add", ".")
    assert cli("ci", given)[1].splitlines()[-1].startswith("Check passed")
    git("add", "--force", "runs")
    code, out, _ = cli("ci", given)
    assert code == 0
    assert out.splitlines()[-1].startswith(
        "Held to less than the baseline was written for (runs is committed, so its runs may be"
        " anybody's). Check passed"
    )


@pytest.mark.parametrize(
    "name", ["../leakage.json", "/etc/leakage.json", "a/../../x.json", "out/x.json"]
)
def test_the_baseline_of_a_spec_stays_within_its_folder(cli, tmp_path, monkeypatch, name):
    project = tmp_path / "project"
    (tmp_path / "elsewhere").mkdir()
    project.mkdir()
    (project / "out").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(project)
    given = spec(project, f'[ci]\nbaseline = "{name}"\n')
    for command in (("ci", given), ("ci", given, "--update")):
        code, _, err = cli(*command)
        assert code == 2
        assert f"baseline = {name!r} leads out of the SPEC's folder" in err
    assert not (project / "runs").exists()
