"""Which tests run every time, and which of the slow ones `.ci/run` leaves to other commits."""

import subprocess
import sys
from collections import Counter

import pytest
from helpers.tiers import PARTS, chosen, drawn_as, measured, named, part_of, slow

FILE = """
import pytest

def test_fast():
    pass

@pytest.mark.slow
@pytest.mark.parametrize("i", range(40))
def test_slow(i):
    pass
"""


WHOLE = """
import pytest

pytestmark = pytest.mark.slow

@pytest.mark.parametrize("i", range(9))
def test_whole(i):
    pass
"""


LOG = """
12.00s setup    tests/a.py::test_one
0.50s call     tests/a.py::test_two[x]
0.80s call     tests/b.py::Kind::test_three[a b]
0.81s call     tests/b.py::Kind::test_three[c]
0.90s call     tests/b.py::test_four
1.00s setup    tests/b.py::test_four
9.00s call     tests/test_layers.py::test_five
9.00s call     elsewhere.py::test_six
"""


def test_slow_is_what_takes_long_and_whoever_shares_its_fixtures():
    names = chosen(measured(LOG.splitlines()))
    assert names == ["tests/a.py", "tests/b.py::Kind::test_three"]
    told = frozenset(names)
    assert slow("tests/a.py::test_two[x]", told)
    assert slow("tests/b.py::Kind::test_three[new]", told)
    assert not slow("tests/b.py::test_four", told)
    assert not slow("tests/b.py::Kind::test_three_and_more", told)


def test_every_name_of_the_list_is_there(pytestconfig):
    """One that nobody has any more would hide nothing, and mislead whoever reads it."""
    for name in named():
        file, _, test = name.partition("::")
        text = (pytestconfig.rootpath / file).read_text(encoding="utf-8")
        assert not test or f"def {test.rpartition('::')[2]}(" in text, name


def test_quarters_are_about_as_large():
    count = Counter(part_of(f"tests/test_x.py::test_y[{i}]") for i in range(4000))
    assert sorted(count) == list(range(PARTS))
    assert min(count.values()) > 900


def test_who_shares_slow_fixtures_is_drawn_together():
    names = frozenset({"tests/a.py", "tests/b.py::test_three"})
    assert drawn_as("tests/a.py::test_one[x]", names, whole=False) == "tests/a.py"
    assert (
        drawn_as("tests/b.py::test_three[a b]", names, whole=False) == "tests/b.py::test_three[a b]"
    )
    assert drawn_as("tests/c.py::test_four", names, whole=True) == "tests/c.py"


@pytest.mark.slow
def test_every_slow_test_runs_in_one_quarter_and_the_fast_ones_in_all(tmp_path, pytestconfig):
    (tmp_path / "test_some.py").write_text(FILE)
    (tmp_path / "test_all.py").write_text(WHOLE)
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
    whole = {f"test_whole[{i}]" for i in range(9)}
    assert count == {**{f"test_slow[{i}]": 1 for i in range(40)}, **dict.fromkeys(whole, 1)}
    assert any(whole <= names for names in ran)  # all of a slow file in one
