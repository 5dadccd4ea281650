"""What happens to a project's build: real runs, a changed project, and what the gate says of it."""

import shutil
import subprocess
import sys

import pytest

from defenses.fedgn import FedGN
from defenses.wrappers.clip_noise import ClipNoise
from leakbench.base.files import read_sealed, write_sealed
from leakbench.cli import run
from leakbench.federation import federation

pytestmark = pytest.mark.slow

SPEC = """
task = {{ name = "digits", model = "mlp", width = 32, dim = 32, evaluations = 10 }}
rounds = {rounds}
seeds = [0, 1, 2, 3, 4]
{top}
[[defense]]
name = "{defense}"
{params}
{wrapper}
[[attack]]
name = "prototype_leakage"
[[attack]]
name = "prototype_averaging"
window = {window}
"""
DEFAULTS = {
    "rounds": 20,
    "top": 'name = "release"',
    "defense": "fedgn",
    "params": "sigma = 0.5",
    "wrapper": "",
    "window": 5,
}


class Project:
    """A folder with a SPEC.toml, its runs and a baseline."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys

    def spec(self, **changed):
        path = self.folder / "ci.toml"
        path.write_text(SPEC.format(**{**DEFAULTS, **changed}))
        return path

    def ci(self, *options, **changed):
        """(exit code, lines) of `leakbench ci`."""
        runs = self.folder / "runs"
        return self("ci", self.spec(**changed), "-o", runs, *options)

    def check(self, *options, runs="runs"):
        at = self.folder / runs
        return self("check", at, "--baseline", self.folder / "leakage.json", *options)

    def __call__(self, *words):
        self.capsys.readouterr()
        code = run([str(w) for w in words])
        said = self.capsys.readouterr()
        assert "Traceback" not in said.err
        self.err = said.err
        return code, [line for line in said.out.splitlines() if not line.startswith("  ")]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The project as it was when somebody last looked: five seeds and their baseline."""
    folder = tmp_path_factory.mktemp("released")
    spec = folder / "ci.toml"
    spec.write_text(SPEC.format(**DEFAULTS))
    assert run(["ci", str(spec), "-o", str(folder / "runs"), "--update", "-q"]) == 0
    return folder


@pytest.fixture
def project(released, tmp_path, capsys):
    shutil.copytree(released, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, capsys)


@pytest.fixture(scope="module")
def lowered(released, tmp_path_factory):
    """The same beside runs of a lower noise, which the build has just refused."""
    folder = tmp_path_factory.mktemp("lowered")
    shutil.copytree(released, folder, dirs_exist_ok=True)
    spec = folder / "ci.toml"
    spec.write_text(SPEC.format(**{**DEFAULTS, "params": "sigma = 0.1"}))
    assert run(["ci", str(spec), "-o", str(folder / "runs"), "-q"]) == 1
    return folder


@pytest.fixture
def beside(lowered, tmp_path, capsys):
    shutil.copytree(lowered, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, capsys)


def test_nothing_changed_is_fine_and_trains_nothing(project):
    code, lines = project.ci()
    assert code == 0
    assert lines[-1].startswith("Check passed: all ")
    assert "10 attacks reused" in project.err
    assert "trained" not in project.err


def test_a_lower_noise_in_the_spec_is_one_line_and_exit_1(beside):
    project = beside
    code, lines = project.ci(params="sigma = 0.1")
    assert code == 1
    (leaks,) = [line for line in lines if line.startswith("leaks more")]
    assert leaks.startswith("leaks more: release (σ 0.5 -> 0.1): ")
    assert " → " in leaks
    # Taken as meant, it is fine; and more noise than that leaks no more.
    assert project.ci("--update", "--accept", "release/*", params="sigma = 0.1")[0] == 0
    assert project.ci(params="sigma = 0.1")[0] == 0
    assert not any(line.startswith("leaks more") for line in project.ci()[1])


def test_so_it_is_without_a_name(project):
    project.ci("--update", top="")
    code, lines = project.ci(params="sigma = 0.1", top="")
    assert code == 1
    assert lines[0].startswith("leaks more: ")
    assert "σ 0.5 -> 0.1" in lines[0]


def test_both_settings_in_the_folder_are_not_passed_by(project):
    project.ci("--update", top="")
    project("train", project.spec(params="sigma = 0.1", top=""), "-o", project.folder / "runs")
    project("attack", project.folder / "runs")
    code, lines = project.check()
    assert code == 3
    assert lines[0].startswith("new: ")
    assert project.check("--allow-new")[0] == 0


def test_one_name_for_both_is_refused(beside):
    code, _ = beside.check()
    assert code == 2
    assert "two settings are called 'release' (sigma 0.1 -> 0.5)" in beside.err


def test_a_bug_that_sends_the_raw_prototype(project, monkeypatch):
    monkeypatch.setattr(FedGN, "proxy", lambda self, w, me: w)
    shutil.rmtree(project.folder / "runs")
    code, lines = project.ci("-v")
    assert code == 1
    assert lines[0].startswith("leaks more: release: ")


def test_other_seeds_of_the_same_code_are_settled_within_five(project):
    shutil.rmtree(project.folder / "runs")
    other = project.folder / "other"
    spec = project.spec()
    project("train", spec, "--seeds", "10-14", "-o", other)
    project("attack", other)
    code, lines = project.check(runs="other")
    assert code in (0, 3)
    code, lines = project.check("--spend", "5", runs="other")
    assert code == 0
    assert lines[-1].startswith("Check passed")
    assert "unchanged" in "".join(project.check("-v", runs="other")[1])


def test_another_instruction_set_is_unchanged_up_to_rounding(project, monkeypatch):
    """The same seeds, summed in another order."""
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    words = ["ci", project.spec(), "-o", project.folder / "elsewhere", "-v"]
    done = subprocess.run(
        [sys.executable, "-m", "leakbench", *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if "byte for byte" in done.stdout:
        pytest.skip("this machine has one instruction set: nothing is rounded otherwise")
    assert "unchanged; up to rounding: the same guesses and scores" in done.stdout


CLIPPED = """
[[wrapper]]
name = "clip_noise"
clip = 0.5
noise = 0.1
kinds = [["prototype"]]
"""


def test_a_clip_that_is_not_applied_any_more(project, monkeypatch):
    how = {"wrapper": CLIPPED, "defense": "fedaws", "params": ""}
    assert project.ci("--update", "--accept", "release/*", **how)[0] == 0
    before = ClipNoise.uplink

    def without(self, payload, me):
        loose = self.model_copy(update={"clip": 1e9, "noise": self.noise * self.clip / 1e9})
        return before(loose, payload, me)

    monkeypatch.setattr(ClipNoise, "uplink", without)
    shutil.rmtree(project.folder / "runs")
    code, lines = project.ci(**how)
    assert code == 1
    assert lines[0].startswith("leaks more: release: ")


def test_a_clip_that_is_dropped_from_the_spec(project):
    how = {"defense": "fedaws", "params": ""}
    assert project.ci("--update", "--accept", "release/*", wrapper=CLIPPED, **how)[0] == 0
    code, lines = project.ci(**how)
    assert code == 1
    assert lines[0].startswith("leaks more: release (clip_noise dropped): ")


def test_a_stronger_attack_says_nothing_of_the_method(project):
    code, lines = project.ci(window=0)
    assert code == 3
    (told,) = [line for line in lines if "prototype_averaging ran with window 5 -> 0" in line]
    assert told.startswith("cannot tell: release: ")


def test_a_client_that_is_chosen_twice(project, monkeypatch):
    chosen = federation.select

    def twice(*args, **kept):
        clients = list(chosen(*args, **kept))
        clients[-1] = clients[0]
        return clients

    how = {"params": "sigma = 0.5\nfraction = 0.5"}
    assert project.ci("--update", "--accept", "release/*", **how)[0] == 0
    monkeypatch.setattr(federation, "select", twice)
    shutil.rmtree(project.folder / "runs")
    code, lines = project.ci(**how)
    assert code == 2
    assert "is damaged (a message is there twice)" in project.err
    assert all(line.startswith(("cannot tell: ", "Check ended")) for line in lines)


def test_a_run_that_was_killed(project):
    folder = next((project.folder / "runs").glob("*-s3"))
    meta = read_sealed(folder / "run.json")
    write_sealed(folder / "run.json", {**meta, "status": "running"})
    code, lines = project.check()
    assert code == 3
    assert any("not finished" in line for line in lines)


def test_a_run_that_died(project, monkeypatch):
    """It does not learn any more: what it leaks says nothing, and its utility is gone."""
    shutil.rmtree(project.folder / "runs")
    code, lines = project.ci(params="sigma = 0.5\nlr = 1e-9\nown_lr = 1e-9")
    assert code in (1, 3)
    assert any("dead run" in line or line.startswith("loses utility") for line in lines)


@pytest.mark.parametrize("name", ["leakage.json", "leakage.units.json"])
def test_a_damaged_baseline_is_one_sentence(project, name):
    path = project.folder / name
    path.write_bytes(path.read_bytes()[:-40])
    code, lines = project.ci()
    assert (code, lines) == (2, [])
    assert name in project.err
    assert project.err.splitlines()[-1].startswith("leakbench: ")


def test_undecided_and_its_warning(beside):
    project = beside
    assert project.ci(window=0)[0] == 3
    assert project.ci("--undecided", "warn", window=0)[0] == 0
    assert project.ci("--undecided", "warn", params="sigma = 0.1")[0] == 1


def test_a_limit_in_the_spec_holds_without_a_baseline(project):
    for name in ("leakage.json", "leakage.units.json"):
        (project.folder / name).unlink()
    code, _ = project.ci()
    assert code == 2
    assert "--update" in project.err
    top = 'name = "release"\n[ci]\nbaseline = "none"\nlimits = ["prototype_cosine<={}"]'
    assert project.ci(top=top.format(0.999))[0] == 0
    code, lines = project.ci(top=top.format(0.01))
    assert code == 1
    assert lines[1].startswith("breached: release: prototype_cosine<=0.01: ")
