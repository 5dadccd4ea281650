"""`--spend`: further seeds are made as the others were, up to the budget, and only if they help."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from helpers.small_runs import trained

from leakbench import api
from leakbench.base.files import read_sealed, write_sealed
from leakbench.base.jobs import Outcome
from leakbench.base.jobs import run_jobs as run_jobs
from leakbench.gate.outcome import CheckResult, Comparison
from leakbench.gate.rows import gate_rows
from leakbench.record import folders
from leakbench.results.tables import collect
from leakbench.work import further_seeds
from leakbench.work.wanted_run import Made


@pytest.fixture
def runs(tmp_path):
    """Two seeds, attacked with a parameter of its own."""
    for seed in range(2):
        run = trained(tmp_path / "runs", rounds=2, seed=seed, params={"sigma": 0.5})
        api.attack(run, "prototype_averaging", window=1)
    return folders.find([tmp_path / "runs"])


class Check:
    """Says that a row is open until it has so many seeds, one after the other of ``looks``."""

    def __init__(self, *looks, code=3):
        self.looks, self.code, self.seen = looks, code, []

    def __call__(self, runs):
        row = gate_rows(collect(runs).settings)[0]
        seeds = sorted(r.seed for r in runs)
        self.seen.append(seeds)
        ahead = [look for look in self.looks if look > len(seeds)]
        more = tuple(range(len(seeds), ahead[0])) if ahead else ()
        state = "cannot tell" if ahead else "fine"
        one = Comparison(row.name, state, (), now=row, then=row, more=more)
        return CheckResult(self.code if ahead else 0, (one,))


def spend(runs, check, budget, do=None):
    """(result, all runs, the lines that were said)."""
    said = []
    how = do or partial(run_jobs, workers=1)
    result, made = further_seeds.spend(Made(tuple(runs)), check, budget, do=how, say=said.append)
    return result, made.runs, said


def test_further_seeds_are_made_as_the_others_were(runs):
    check = Check(3)
    result, every, said = spend(runs, check, 5)
    assert (result.exit_code, check.seen) == (0, [[0, 1], [0, 1, 2]])
    old, new = every[0], every[-1]
    assert new.path.parent == old.path.parent
    assert new.spec == {**old.spec, "seed": 2}
    assert [a.path.name for a in new.attacks] == [a.path.name for a in old.attacks]
    assert new.attacks[0].meta["params"]["window"] == 1
    assert said[0].endswith("1 row cannot be told; seeds 2 are added (1 of at most 5)")
    assert said[-1] == "1 further seed spent: all can be told"


def test_the_budget_holds_over_all_looks_and_is_not_spent_short_of_one(runs):
    check = Check(3, 5)
    result, every, said = spend(runs, check, 2)
    assert (result.exit_code, check.seen) == (3, [[0, 1], [0, 1, 2]])
    assert len(every) == 3
    assert said[-2].endswith(
        "no further seeds: the next look takes 2 more seeds, and 1 of 2 are left"
    )
    assert said[-1] == "1 further seed spent: 1 row still cannot be told"


def test_what_is_there_already_is_not_trained_again(runs):
    """As after an interruption: the seed is there, and was not among what was checked."""
    spend(runs, Check(3), 5)
    jobs = []

    def do(todo):
        jobs.extend(job.name for job in todo)
        return run_jobs(todo)

    _, every, said = spend(runs, Check(3), 5, do)
    assert len(every) == 3
    assert [line for line in said if "reused" in line] == [
        "digits: FedGN σ 0.5, seed 2: reused",
        "1 attack reused",
    ]
    assert jobs == ["digits: FedGN σ 0.5, seed 2"]


def test_nothing_is_spent_where_something_leaks_more(runs):
    check = Check(3, code=1)
    result, every, said = spend(runs, check, 5)
    assert (result.exit_code, len(every), said) == (1, 2, [])


@pytest.mark.parametrize("what", ["run", "attack"])
def test_nothing_is_spent_on_runs_of_other_code(runs, what):
    for run in runs:
        path = run.path / "run.json"
        if what == "attack":
            path = run.attacks[0].path / "attack.json"
        meta = read_sealed(path)
        meta["sources"]["core"] = "0" * 64
        write_sealed(path, meta)
    _, every, said = spend([folders.load(r.path) for r in runs], Check(3), 5)
    assert len(every) == 2
    (why,) = said
    assert "by other code than is installed" in why
    assert why.endswith("makes it again" if what == "attack" else "makes them anew")


def test_a_seed_that_fails_is_exit_4_and_loses_nothing(runs):
    def do(todo):
        return [Outcome(job.name, error="no room") for job in todo]

    result, every, _ = spend(runs, Check(3), 5, do)
    assert (result.exit_code, len(every)) == (4, 2)


def test_what_failed_before_is_counted_and_stops_no_spending(runs):
    before, do = Outcome("one", error="it failed"), partial(run_jobs, workers=1)
    made, check = Made(tuple(runs), (before,)), Check(3, 4)
    result, made = further_seeds.spend(made, check, 5, do=do, say=lambda _: None)
    assert (result.exit_code, made.failed) == (4, (before,))
    assert check.seen == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_no_budget_is_one_check(runs):
    check = Check(3)
    result, every, said = spend(runs, check, 0)
    assert (result.exit_code, len(check.seen), len(every), said) == (3, 1, 2, [])


@pytest.mark.parametrize(
    ("code", "damaged", "expected"), [(0, False, 4), (3, False, 4), (1, False, 1), (3, True, 2)]
)
def test_the_order_of_exit_codes(code, damaged, expected):
    from leakbench.gate.outcome import concluded

    failed = [Outcome("one", error="it failed", damaged=damaged)]
    result = CheckResult(code)
    assert concluded(result, failed) == replace(result, exit_code=expected)
    assert concluded(result, []) is result
