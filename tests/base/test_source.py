"""What counts as changed code is code."""

from __future__ import annotations

import subprocess

import pytest

from leakbench.base import provenance


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout from which leakbench seems to run."""
    for place in ("leakbench/base/provenance.py", "results/table.csv"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("as committed")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "leakbench/base/provenance.py"))
    provenance.source.cache_clear()
    yield tmp_path
    provenance.source.cache_clear()


@pytest.mark.parametrize(
    ("place", "dirty"),
    [
        ("results/table.csv", False),
        ("leakbench/base/provenance.py", True),
        ("leakbench/base/never_committed.py", True),
        ("results/never_committed.csv", False),
    ],
)
def test_a_table_written_beside_the_code_is_no_change_of_it(checkout, place, dirty):
    (checkout / place).write_text("changed")
    commit, found = provenance.source()
    assert len(commit) == 40
    assert found is dirty
    assert provenance.commit() == commit + "-dirty" * dirty


def test_what_git_cannot_tell_is_not_called_clean(checkout):
    (checkout / ".git" / "index").write_bytes(b"broken")
    assert provenance.source()[1]
