"""Commands that need no torch load none: it takes seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def asked(*words: object, where: Path, lines: int = 1) -> tuple[Any, ...]:
    """Exit code, stdout, and stderr's last lines: whether torch was loaded; of its own process."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=where,
        check=False,
    )
    return done.returncode, done.stdout, *done.stderr.strip().splitlines()[-lines:]


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


SPECS = {
    "method.toml": 'defense = [{ name = "fedagv" }]',
    "attack.toml": 'defense = [{ name = "fedavg" }]\nattack = [{ name = "labl_inference" }]',
    "value.toml": 'defense = [{ name = "fedavg" }]\nattack = [{ name = "decoder", sed = 1 }]',
    "ci.toml": 'defense = [{ name = "fedagv" }]\nci = { baseline = "none", limits = ["mse>=1"] }',
    "table.toml": 'defense = [{ name = "fedavg" }]\nci = { baselin = "none" }',
}
MISSPELT = [
    ("train -d fedagv", "fedavg"),
    ("train -d fedavg -t digit", "digits"),
    ("train -d fedgn -s sgima=1", "sigma"),
    ("train -d fedavg -s task.clints=5", "clients"),
    ("train -d fedavg -s model.model=mpl", "mlp"),
    ("train -d fedavg -s task.utility=acuracy", "accuracy"),
    ("train -d fedavg -w clip_nois", "clip_noise"),
    ("train -d fedavg -w clip_noise -s clip_noise.clp=1", "clip"),
    ("train -d fedavg --record al", "'standard' or 'all'"),
    ("train -d fedavg -s record.prbes=1", "probes"),
    ("train -d fedavg --engine fuzed", "fused"),
    ("train -d fedavg --dtype float31", "float32"),
    ("train -d fedavg --device gpu", "cuda"),
    ("train method.toml", "fedavg"),
    ("train attack.toml", "label_inference"),
    ("train value.toml", "seed"),
    ("ci ci.toml", "fedavg"),
    ("ci table.toml", "baseline"),
    ("attack runs -a prototype_leekage", "prototype_leakage"),
    ("attack runs -a decoder -s sed=1", "seed"),
    ("attack runs --device gpu", "cuda"),
    ("attack rums", "rums"),
    ("score runs -a prototype_leekage", "prototype_leakage"),
    ("report runs --format htm", "html"),
    ("verify rums", "rums"),
    ("show fedagv", "fedavg"),
    ("list defense", "defenses"),
    ("reproduce fedhide-tabel2", "fedhide-table2"),
    ("reproduce fedhide-table2 --scale smal", "small"),
]


@pytest.mark.parametrize(("words", "meant"), MISSPELT)
def test_what_is_misspelt_is_said_without_it(gated: Path, words: str, meant: str) -> None:
    """Somebody waits for the sentence, and loading torch takes seconds."""
    for name, text in SPECS.items():
        (gated / name).write_text(text)
    code, _, *said = asked(*words.split(), where=gated, lines=2)
    assert (code, said[-1]) == (2, "no torch")
    assert meant in said[0]


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
