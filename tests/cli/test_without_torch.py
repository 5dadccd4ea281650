"""Commands that need no torch load none: it takes seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.small_runs import trained

from leakbench import api
from leakbench.cli import show

# torch itself may stand there unloaded, to be loaded when it is first used.
ASKED = """
import sys
from leakbench.cli import run
code = run(sys.argv[1:])
print("torch" if "torch._C" in sys.modules else "no torch", file=sys.stderr)
sys.exit(code)
"""


def asked(*words: object, where: Path) -> tuple[int, str, str]:
    """Exit code, stdout, and whether torch was loaded, of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=where,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two attacked runs and their baseline."""
    out = tmp_path_factory.mktemp("gated")
    for seed in (0, 1):
        run = trained(out / "runs", rounds=3, seed=seed)
        for attack in ("prototype_leakage", "prototype_averaging"):
            api.attack(run, attack, device="cpu")
    api.update([*(out / "runs").iterdir()], baseline=out / "leakage.json")
    return out


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["--help"]])
def test_what_there_is_is_said_without_it(tmp_path: Path, words: list[str]) -> None:
    code, out, torch = asked(*words, where=tmp_path)
    assert (code, torch) == (0, "no torch")
    if "--json" in words:
        found = json.loads(out)
        assert set(found) == set(show.KINDS)
        assert all(found.values())


def test_the_gate_compares_without_it(gated: Path) -> None:
    code, out, torch = asked("check", "runs", where=gated)
    assert torch == "no torch"
    assert code in (0, 3), out  # two seeds decide little
    assert "p_leak" in out or "rows gated" in out


def test_the_gate_writes_its_baseline_without_it(gated: Path) -> None:
    code, out, torch = asked("check", "runs", "--update", "--baseline", "new.json", where=gated)
    assert (code, torch) == (0, "no torch")
    assert (gated / "new.json").read_bytes() == (gated / "leakage.json").read_bytes(), out


def test_it_is_noticed_where_it_is_loaded(gated: Path) -> None:
    """Else the tests above would pass whatever is loaded."""
    code, _, torch = asked("show", "fedgn", where=gated)
    assert (code, torch) == (0, "torch")


def test_what_an_attack_declares_is_said_without_it() -> None:
    """Runs are checked against it: a gate of many attacks would else load it for the first."""
    code = """
import sys
from leakbench.base import registry
for name, attack in registry.every("attacks").items():
    for values in attack.variants:
        made = attack.build(values, name)
        assert made.threat and made.metrics
    heavy = {"torch._C", "scipy.optimize"} & {*sys.modules}
    assert not heavy, f"{name} loads {sorted(heavy)}"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.strip().splitlines()[-1]
