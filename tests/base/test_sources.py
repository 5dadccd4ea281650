"""The digest of sources notices every change of what was run, and of nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakbench.base import sources
from leakbench.base.errors import UsageError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with an attack, what it imports, and what it does not."""
    folder = tmp_path / "somebodys"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "attack.py").write_text("import torch\nfrom somebodys._steps import steps\n")
    (folder / "_steps.py").write_text("def steps():\n    from . import _deep\n    return _deep\n")
    (folder / "_deep.py").write_text("RATE = 1\n")
    (folder / "other.py").write_text("RATE = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [m for m in sys.modules if m.split(".")[0] == "somebodys"]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["attack.py", "_steps.py", "_deep.py", "__init__.py"])
def test_a_change_of_what_is_imported_is_noticed(package: Path, name: str) -> None:
    before = sources.sources_digest(["somebodys.attack"])
    file = package / name
    file.write_text(file.read_text() + "# a word more\n")
    assert sources.sources_digest(["somebodys.attack"]) != before


def test_a_change_of_another_file_is_not(package: Path) -> None:
    before = sources.sources_digest(["somebodys.attack"])
    (package / "other.py").write_text("RATE = 3\n")
    (package / "new.py").write_text("")
    assert sources.sources_digest(["somebodys.attack"]) == before


def test_line_ends_are_of_the_checkout(package: Path) -> None:
    before = sources.sources_digest(["somebodys.attack"])
    file = package / "_steps.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert sources.sources_digest(["somebodys.attack"]) == before


def test_a_package_stands_for_every_module_in_it(package: Path) -> None:
    before = sources.sources_digest(["somebodys"])
    (package / "other.py").write_text("RATE = 3\n")
    assert sources.sources_digest(["somebodys"]) != before


def test_a_module_without_source_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="'no_such_module' has no source file"):
        sources.sources_digest(["no_such_module"])
