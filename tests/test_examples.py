"""The examples run as they stand, are as short as they are said to be, and come out."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch

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
    by_hand = float(-10 * (found.tensors["x"] - x).square().mean().log10())
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


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda p: p.stem)
def test_a_benchmark_finds_all_that_it_names(path):
    """They are run by hand and seldom: what they import may be gone by then."""
    found = runpy.run_path(str(path), run_name="benchmark")
    assert callable(found["main"])
