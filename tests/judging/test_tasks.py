"""Of several tasks that with most judged settings speaks first, of equals that which leaks."""

from __future__ import annotations

import pytest
from helpers.run_folders import add_attack, make_run, measure

from leakbench.judging.judging import find_questions
from leakbench.record.folders import load
from leakbench.results.tables import collect

RIGHT, WRONG = [1.0] * 60, [0.0] * 60


@pytest.mark.parametrize("leaking", ["digits", "digit-pairs"])
def test_what_leaks_is_not_behind_what_does_not(tmp_path, leaking):
    runs = []
    for task in ("digits", "digit-pairs"):
        for seed in (0, 1):
            run = make_run(tmp_path, task=task, seed=seed)
            found = RIGHT if task == leaking else WRONG
            add_attack(run, "prototype_averaging", [measure("p_leak", found, 0.01, RIGHT)])
            runs.append(load(run))
    first, second = find_questions(collect(runs).settings, [])
    assert (first.task, {j.verdict.tone for j in first.judged}) == (leaking, {"leak"})
    assert "leak" not in {j.verdict.tone for j in second.judged}
