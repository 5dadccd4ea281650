"""The examples run as they stand, are as short as they are said to be, and come out."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
import yaml

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BENCHMARKS = EXAMPLES.parent / "benchmarks"


def run(name):
    """What a script leaves behind; it may throw torch's own dice, which are put back."""
    with torch.random.fork_rng():
        return runpy.run_path(str(EXAMPLES / name))


def test_every_example_is_tested():
    assert [p.name for p in sorted(EXAMPLES.glob("*.py"))] == ["attack_in_memory.py"]


@pytest.fixture(scope="module")
def left():
    return run("attack_in_memory.py")


def test_an_attack_in_memory_comes_out(left):
    shares = left["classes"].tensors["shares"]
    assert int(shares.argmax()) == int(left["y"]) == 7
    assert float(shares.max()) > 0.99
    found, x = left["image"], left["x"]
    assert found.accepted
    by_hand = float(-10 * (found.tensors["x"].clamp(0, 1) - x).square().mean().log10())
    assert by_hand > 30
    assert left["psnr"] == pytest.approx(min(by_hand, 100), abs=0.1)
    true = left["secret"]
    for i, guess in enumerate(left["averages"]):
        assert guess.unit == f"client/{i}"
        assert int(torch.cosine_similarity(guess.tensors["prototype"][None], true).argmax()) == i
    assert left["named"][1] == 1 >= left["named"][0]


def test_an_attack_in_memory_takes_ten_lines():
    text = (EXAMPLES / "attack_in_memory.py").read_text(encoding="utf-8")
    (part,) = re.findall(r"# What the server makes of that\.\n(.*?)\n# ", text, re.DOTALL)
    lines = [line for line in part.splitlines() if line.strip()]
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 100


FETCHED = {"peers_flower": "flwr", "peers_pfl": "pfl"}  # for these scripts alone


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda p: p.stem)
def test_a_benchmark_finds_all_that_it_names(path, monkeypatch):
    """They are run by hand and seldom: what they import may be gone by then."""
    if path.stem in FETCHED:
        pytest.importorskip(FETCHED[path.stem], reason="it is fetched when the script is run")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = runpy.run_path(str(path), run_name="benchmark")
    others = [p.read_text(encoding="utf-8") for p in BENCHMARKS.glob("*.py") if p != path]
    part = any(f"from {path.stem} import" in text or path.name in text for text in others)
    assert part or callable(found["main"])


PROJECT = EXAMPLES / "ci"


class Copy:
    """The project of examples/ci elsewhere, as if it were installed."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("runs", "__pycache__"))
        told = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        info = folder / f"{told['name']}-{told['version']}.dist-info"
        info.mkdir()
        about = f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n"
        (info / "METADATA").write_text(about, encoding="utf-8")
        lines = []
        for group, points in told["entry-points"].items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")

    def ci(self, *words):
        """`leakbench ci ci.toml WORDS`: (exit code, stdout, stderr). One job at a time: a second
        process takes longer to begin than it would save.
        """
        quiet = ("GITHUB_", "GITLAB_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(quiet)}
        env |= {"PYTHONPATH": str(self.folder)}
        done = subprocess.run(
            [sys.executable, "-m", "leakbench", "ci", "ci.toml", *words],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_the_pull_request_of_the_project_leaks_more(tmp_path):
    """The README's walk: green, nothing to be done, red; with what it says is printed."""
    project = Copy(tmp_path / "project")
    said = (PROJECT / "README.md").read_text(encoding="utf-8")
    shown = [line.strip() for line in re.findall(r"^    (\S+:? .*)", said, re.MULTILINE)]
    code, out, err = project.ci()
    assert (code, "trained: not there yet" in err) == (0, True), out + err
    assert set(out.splitlines()) <= set(shown)
    code, out, err = project.ci()
    assert (code, err) == (0, "release, seeds 0, 1, 2, 3, 4: reused\n10 attacks reused\n")
    # As who upgrades leakbench would: by another attack's code a changed number says nothing.
    assert project.ci("--update", "--seeds", "0-7", "-q")[0] == 0
    subprocess.run(["git", "apply", "pull-request.patch"], cwd=project.folder, check=True)
    code, out, err = project.ci("--junit", "leakage.xml")
    assert code == 1, out + err
    (breached,) = [line for line in out.splitlines() if line.startswith("breached: ")]
    assert breached in shown
    (leaks,) = [line for line in out.splitlines() if line.startswith("leaks more: ")]
    assert leaks.split(", allowed")[0] in [line.split(", allowed")[0] for line in shown]
    (why,) = [line for line in err.splitlines() if "trained anew" in line]
    assert why in shown
    assert "<failure" in (project.folder / "leakage.xml").read_text(encoding="utf-8")


def test_the_project_is_set_up_as_its_files_say():
    """What the build's files ask of one another and of the command line is there."""
    import typer.main

    from leakbench.cli.app import app

    def read(name):
        return (PROJECT / name).read_text(encoding="utf-8")

    action = yaml.safe_load(read("action.yml"))
    workflow = yaml.safe_load(read(".github/workflows/leakage.yml"))
    ours = [s for s in workflow["jobs"]["leakage"]["steps"] if s["uses"] == "./"]
    assert len(ours) == 1
    assert set(ours[0]["with"]) <= set(action["inputs"])
    used = set(re.findall(r"inputs\.(\w+)", read("action.yml")))
    assert used == set(action["inputs"])
    gitlab = yaml.safe_load(read(".gitlab-ci.yml"))
    lines = [*gitlab["leakage"]["script"], *(s.get("run", "") for s in action["runs"]["steps"])]
    asked = [
        line for text in lines for line in text.splitlines() if line.startswith("leakbench ci")
    ]
    assert len(asked) == 2
    known = {o for p in typer.main.get_command(app).commands["ci"].params for o in p.opts}
    for line in asked:
        assert {w for w in shlex.split(line) if w.startswith("--")} <= known
    project = tomllib.loads(read("pyproject.toml"))["project"]
    (package,) = project["entry-points"]["leakbench.defenses"].values()
    spec = tomllib.loads(read("ci.toml"))
    assert (PROJECT / package / f"{spec['defense'][0]['name']}.py").is_file()
    assert {"leakage.json", "leakage.units.json"} <= {p.name for p in PROJECT.iterdir()}
