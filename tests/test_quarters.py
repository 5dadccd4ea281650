"""What `.ci/run` leaves to other commits: each slow test is in one quarter, fast ones in all."""

import subprocess
import sys
from collections import Counter

import pytest
from helpers.quarters import PARTS, part_of

FILE = """
import pytest

def test_fast():
    pass

@pytest.mark.slow
@pytest.mark.parametrize("i", range(40))
def test_slow(i):
    pass
"""


def test_quarters_are_about_as_large():
    count = Counter(part_of(f"tests/test_x.py::test_y[{i}]") for i in range(4000))
    assert sorted(count) == list(range(PARTS))
    assert min(count.values()) > 900


@pytest.mark.slow
def test_every_slow_test_runs_in_one_quarter_and_the_fast_ones_in_all(tmp_path, pytestconfig):
    (tmp_path / "test_some.py").write_text(FILE)
    conftest = pytestconfig.rootpath / "tests" / "conftest.py"
    (tmp_path / "conftest.py").write_text(conftest.read_text(encoding="utf-8"))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: long\n")
    helpers = {"PYTHONPATH": str(conftest.parent)}
    ran = []
    for part in range(PARTS):
        asked = ["-p", "no:cacheprovider", "-q", "-rA", "--slow-part", str(part)]
        line = [sys.executable, "-m", "pytest", *asked]
        done = subprocess.run(
            line, cwd=tmp_path, env=helpers, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        ran.append({x.split("::")[1] for x in done.stdout.splitlines() if x.startswith("PASSED")})
    assert all("test_fast" in names for names in ran)
    count = Counter(name for names in ran for name in names - {"test_fast"})
    assert count == {f"test_slow[{i}]": 1 for i in range(40)}
