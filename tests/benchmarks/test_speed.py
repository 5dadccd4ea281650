"""The smallest size of the benchmarks of speed: they run, and who is compared is equal."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEAST = 0.25  # seconds of 0.3: the system counts in ticks


def ran(script, *words):
    """What a benchmark of so few rounds wrote."""
    command = [sys.executable, str(ROOT / "benchmarks" / script), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_loop_by_hand_and_leakbench_train_the_same_network(tmp_path):
    size = ["--task", "digits", "--clients", "4", "--fraction", "0.5", "--batch", "50"]
    page = tmp_path / "peers.md"
    few = [
        "--rounds",
        "4",
        "--threads",
        "1",
        "--peers",
        "loop,leakbench,leakbench-recorded,leakbench-bfloat16",
    ]
    printed = ran("peers.py", str(page), *size, *few)
    assert page.read_text(encoding="utf-8") in printed
    (told,) = re.findall(r"After two rounds in float64 .* by: (.*)\.", printed)
    differences = dict(re.findall(r"(leakbench(?:, recorded)?) (\d+e-?\d+)", told))
    assert len(differences) == 2  # bfloat16 is not asked for float64
    assert re.search(r"\| leakbench, bfloat16 \|", printed)
    assert all(float(v) < 1e-14 for v in differences.values())
    (moved,) = re.findall(r"Weights moved by up to (\S+) ", printed)
    assert float(moved) > 0  # or they would be equal whatever was trained


def test_a_round_that_took_no_tick_is_no_divisor():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from peers import times
    finally:
        sys.path.pop(0)
    assert times([0.02, 0.03], [0.0, 0.01]) == "3.00 (3.00–3.00)"
    assert times([0.02], [0.0]) == "too short to tell"


@pytest.mark.slow
def test_an_unknown_peer_is_named():
    command = [sys.executable, str(ROOT / "benchmarks" / "peers.py"), "--peers", "nobody"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "expected some of loop" in done.stderr


@pytest.mark.slow
def test_growth_has_a_line_for_every_case(tmp_path):
    printed = ran("growth.py", "--clients", "8,16", "--rounds", "10", "--repeats", "1")
    rows = [
        line for line in printed.splitlines() if re.match(r"\| (FedAvg|FedHide|SCAFFOLD)", line)
    ]
    assert len(rows) == 3 * 2 + 3 * 1 + 3 * 3
    for row in rows:
        *_, memory, record = (cell.strip() for cell in row.strip("| ").split("|"))
        assert float(record) > 0
        assert float(memory) >= 0


@pytest.mark.slow
def test_rounds_are_timed_by_every_way_and_part_by_part():
    printed = ran("rounds.py", "--smoke", "--pairs", "1", "--threads", "1")
    ways, parts = re.findall(r"\| FedGN, digit-pairs \| (.*) \|", printed)
    loop, *times, auto = ways.split(" | ")
    assert auto == "fused"
    assert all(float(v) > 0 for v in (loop, *times))
    whole, *shares = map(float, parts.split(" | "))
    assert sum(shares) == pytest.approx(whole, abs=0.5)
    assert min(shares) >= 0


@pytest.mark.slow
def test_all_that_a_gpu_would_be_asked_works_on_a_processor(tmp_path):
    ran("gpu.py", str(tmp_path), "--device", "cpu", "--smoke")
    pages = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.md")}
    assert pages.keys() == {"sameness", "waiting", "rounds", "going-on"}
    assert not any("failed" in page for page in pages.values())
    assert pages["waiting"].count("| never |") == 2
    assert pages["rounds"].count("bfloat16") == 5
    assert pages["going-on"].count("| 0.0 |") == 3


def test_processor_time_is_that_of_the_children_too():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from processor_time import of_tree
    finally:
        sys.path.pop(0)
    spin = "import time\nwhile time.process_time() < .3: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '''{spin}''']); input()"
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        spent, end = 0.0, time.monotonic() + 60
        while spent < LEAST and time.monotonic() < end:
            spent = of_tree(process.pid)
            time.sleep(0.02)
        process.communicate(b"\n")
    assert spent >= LEAST
