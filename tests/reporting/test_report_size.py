"""A page of a hundred runs with ten attacks each stays one that can be mailed and opened."""

import sys
from pathlib import Path

import pytest
from helpers.many_runs import many

from leakbench import api
from leakbench.record import folders

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MEGABYTES = 15
EACH = 50_000  # bytes that a setting with ten attacks adds, of three hundred in 15 MB


def test_made_runs_are_as_a_report_wants_them(tmp_path):
    """The small form of what is measured: folders that read, attacks that score, pictures that
    show.
    """
    assert len(list(many(tmp_path / "runs", 4, 4, 1))) == 4
    api.report(
        folders.find([tmp_path / "runs"]), tmp_path / "out", formats=["html", "json", "figures"]
    )
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert text.count("data:image/png") >= 8
    assert "reader 1" in text
    assert len(list((tmp_path / "out" / "figures").glob("pictures-*.png"))) == 4


def size(runs, out):
    """Bytes of the page of these runs."""
    api.report(folders.find([runs]), out, formats=["html"])
    return (out / "index.html").stat().st_size


def test_three_hundred_settings_keep_to_the_budget(tmp_path, monkeypatch):
    """By what a setting adds, as in a page of hundreds: one unit's pictures, of noise.

    From twenty settings on: what a page of few has once is not theirs.
    """
    monkeypatch.setattr("reports._page.records.DRAWN", 0)
    monkeypatch.setattr("reports._page.pictures.MOST_UNITS", 1)
    list(many(tmp_path / "few", 20))
    few = size(tmp_path / "few", tmp_path / "one")
    list(many(tmp_path / "more", 40))
    each = (size(tmp_path / "more", tmp_path / "two") - few) / 20
    assert each < EACH


@pytest.mark.slow
def test_the_page_of_many_runs_keeps_to_its_budget(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from report_size import GIB, measure

    assert len(list(many(tmp_path / "runs"))) == 100
    spent = measure(tmp_path / "runs", tmp_path / "out", ["html", "json"])
    assert (tmp_path / "out" / "index.html").stat().st_size < MEGABYTES * 1e6
    assert spent["gib"] < GIB
    assert sys.modules.pop("report_size")
