"""A command begun in a stranger's folder, under a stranger's environment: the same bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.run_folders import add_attack, make_run, measure
from helpers.small_runs import ON_THE_LINE, tree_of

from leakbench.base import surroundings

# Files that some library, or Python, looks for where the user is.
BAIT = (
    "torch",
    "numpy",
    "random",
    "pickle",
    "sitecustomize",
    "usercustomize",
    "conftest",
    "typing",
)
RC = "text.usetex: True\nfont.size: 30\naxes.facecolor: red\nbackend: module://bait\n"
ENVIRONMENT = {
    "MPLBACKEND": "module://bait",
    "SOURCE_DATE_EPOCH": "1",
    "SCIPY_ARRAY_API": "1",
    "SYMPY_DEBUG": "True",
    "TORCH_LOGS": "+dynamo",
    "TORCH_LOGS_OUT": "torch.log",
    "TORCH_TRACE": "trace",
    "PYTORCH_JIT": "0",
    "EAGER_IMPORT": "1",
    "COLUMNS": "20",
    "FORCE_COLOR": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "TZ": "Pacific/Kiritimati",
    "LC_ALL": "C",
    "LANG": "tr_TR.UTF-8",
    "PYTHONHASHSEED": "7",
    "HYDRA_FULL_ERROR": "1",
    "TQDM_DISABLE": "1",
    "GIT_DIR": "/nowhere",
}
COMMANDS = (
    ("train", "-t", "digits", "-d", "fedgn", *ON_THE_LINE, "--rounds", "2", "--seeds", "0"),
    ("attack", "{out}/runs", "-a", "prototype_leakage"),
    ("report", "{out}/runs", "--format", "html,json,csv,figures,latex,markdown"),
)


def made(here: Path, out: Path, environment, commands=COMMANDS):
    """What the commands write, begun in the folder ``here``; without what tells the time."""
    here.mkdir(exist_ok=True)
    out.mkdir()
    for command in commands:
        words = [word.format(out=out) for word in command]
        place = out / {"report": "report"}.get(words[0], "runs")
        extra = () if words[0] == "attack" else ("-o", str(place))
        done = subprocess.run(
            [sys.executable, "-m", "leakbench", *words, *extra],
            cwd=here,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
            capture_output=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr.decode()
    return tree_of(out)


def hostile(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder and an environment that would have every library do something else."""
    here = tmp_path / "hostile"
    here.mkdir()
    for name in BAIT:
        (here / f"{name}.py").write_text("raise SystemExit('the stranger was here')\n")
    for name in ("leakbench_plugins", "hydra_plugins", "stylelib"):
        (here / name).mkdir()
        (here / name / "__init__.py").write_text("raise SystemExit('the stranger was here')\n")
    (here / "matplotlibrc").write_text(RC)
    (here / ".env").write_text("LEAKBENCH_DATA=/nowhere\n")
    (here / "pyproject.toml").write_text("[tool.leakbench]\nbroken = \n")
    rc = here / "other-rc"
    rc.write_text(RC)
    config = here / "config"
    (config / "matplotlib").mkdir(parents=True)
    (config / "matplotlib" / "matplotlibrc").write_text(RC)
    return here, {**ENVIRONMENT, "MATPLOTLIBRC": str(rc), "XDG_CONFIG_HOME": str(config)}


@pytest.fixture
def runs(tmp_path):
    """Two runs that need no training, with an attack each."""
    for name, given in (("fedgn", {"sigma": 0.1}), ("fedavg", {})):
        run = make_run(tmp_path / "made", task="digits", defense=name, params=given)
        add_attack(run, "nearest", [measure("p_leak", [1] * 10, 0.1, [1] * 10)])
    return tmp_path / "made"


def alike(files: dict[str, bytes], out: Path) -> dict[str, bytes]:
    """Without what tells the time, and the place of the report itself."""
    found = {}
    for name, data in files.items():
        timeless = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", b"NOW", data)
        found[name] = timeless.replace(str(out).encode(), b"OUT")
    return found


def test_a_report_is_the_same_in_a_hostile_folder(tmp_path, runs):
    report = [("report", str(runs), "--format", "html,json,csv,figures,latex,markdown")]
    plain = alike(made(tmp_path / "plain", tmp_path / "one", {}, report), tmp_path / "one")
    here, environment = hostile(tmp_path)
    before = tree_of(here)
    other = alike(made(here, tmp_path / "two", environment, report), tmp_path / "two")
    assert sorted(other) == sorted(plain)
    assert any(name.endswith(".svg") for name in plain)
    assert {n: d for n, d in other.items() if d != plain[n]} == {}
    assert tree_of(here) == before


@pytest.mark.slow
def test_a_run_and_an_attack_are_the_same_in_a_hostile_folder(tmp_path):
    plain = made(tmp_path / "plain", tmp_path / "one", {})
    here, environment = hostile(tmp_path)
    other = made(here, tmp_path / "two", environment)
    told = ("attack.json", "report/")  # how long it took, and the run's folder
    compared = [name for name in plain if not any(part in name for part in told)]
    assert len(compared) > 10
    assert [name for name in compared if plain[name] != other[name]] == []


def test_a_pipe_called_matplotlibrc_is_not_waited_for(tmp_path, runs):
    here = tmp_path / "piped"
    here.mkdir()
    os.mkfifo(here / "matplotlibrc")
    assert made(here, tmp_path / "out", {}, [("report", str(runs), "--format", "figures")])


def test_what_tells_machines_apart_is_kept(monkeypatch):
    kept = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "ATEN_CPU_CAPABILITY", "LEAKBENCH_DATA")
    for name in (*kept, *surroundings.FORGOTTEN, "SCIPY_ARRAY_API", "TORCH_LOGS_OUT"):
        monkeypatch.setenv(name, "1")
    surroundings.forget()
    assert set(kept) <= set(os.environ)
    assert not {n for n in os.environ if n.startswith(surroundings.PREFIXES)}
    assert not set(surroundings.FORGOTTEN) & set(os.environ)
