"""Reports of runs that failed, died or are not finished: what they say first, of which seeds."""

from __future__ import annotations

from helpers.run_folders import make_run

from leakbench.record.folders import find
from leakbench.reporting import write
from reports._page.missing import _gaps


def test_a_report_of_runs_that_came_to_nothing_says_so_first(tmp_path):
    """To attack them would not help."""
    make_run(tmp_path, seed=0, status="failed: training diverged by round 3")
    report = write.report(write.read_tables(find([tmp_path])), "t")
    text = "".join(part.text for part in report.headline)
    assert text.startswith("None of these settings can be judged: 1 failed, FedGN σ 0.1 because: ")
    assert "training diverged by round 3" in text
    assert text.endswith("No attack has been run: this report says nothing about privacy.")


def test_what_one_seed_lacks_is_not_said_of_every_number(tmp_path):
    make_run(tmp_path, seed=0)
    make_run(tmp_path, seed=1, status="running")
    report = write.report(write.read_tables(find([tmp_path])), "t")
    gaps = [gap.what for gap in _gaps(report, report.missing)]
    assert "Seed 1 of FedGN" in gaps
    assert not [what for what in gaps if "very number" in what]
