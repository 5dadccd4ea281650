"""Many jobs: in order, side by side, with one's failure being its own."""

from __future__ import annotations

import os
import signal

import pytest

from leakbench.errors import BrokenFile, MethodError, UsageError
from leakbench.jobs import Job, Outcome, run


def double(x, *, progress):
    progress(0, 2, "begin")
    progress(2, 2, "end")
    return 2 * x


def pid(x, *, progress):
    import torch

    return (
        os.getpid(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    )


def many(x, *, progress):
    for i in range(1000):
        progress(i + 1, 1000, "step")
    return x


def wrong(kind, *, progress):
    raise {"usage": UsageError, "broken": BrokenFile, "method": MethodError}[kind](f"{kind} is wrong.")


def fault(x, *, progress):
    return {}["a fault of ours"]


def jobs(work, *values):
    return [Job(f"job {v}", work, (v,)) for v in values]


ALL = [*jobs(double, 1), *jobs(wrong, "usage", "broken", "method"), *jobs(many, 2), *jobs(pid, 3, 4)]


def all_of(workers):
    """Outcomes and news of every kind of job at once, with deterministic kernels asked for."""
    import torch

    told = []
    torch.use_deterministic_algorithms(True)
    try:
        return run(ALL, workers=workers, tell=lambda *news: told.append(news)), told
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def found():
    """By workers: 1 and 2. (Processes cost seconds: started once.)"""
    return {n: all_of(n) for n in (1, 2)}


@pytest.mark.parametrize("workers", [1, 2])
def test_outcomes_come_in_the_order_of_the_jobs_and_a_failure_stops_nobody(found, workers):
    outcomes, _ = found[workers]
    assert [o.name for o in outcomes] == [j.name for j in ALL]
    assert outcomes[:5] == [
        Outcome("job 1", 2),
        Outcome("job usage", error="usage is wrong.", wrong=True),
        Outcome("job broken", error="broken is wrong.", wrong=True, damaged=True),
        Outcome("job method", error="method is wrong."),
        Outcome("job 2", 2),
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_is_told_by_job(found, workers):
    _, told = found[workers]
    assert [t for t in told if t[0] == "job 1"] == [("job 1", 0, 2, "begin"), ("job 1", 2, 2, "end")]
    steps = [t[1] for t in told if t[0] == "job 2"]
    assert steps == sorted(steps)
    assert steps[-1] == 1000
    assert len(steps) == 1000 if workers == 1 else len(steps) <= 110  # from elsewhere a hundred lines, not one a step


def test_workers_share_the_cores_leave_ctrl_c_to_us_and_are_as_deterministic_as_we(found):
    workers = [o.value for o in found[2][0][5:]]
    assert os.getpid() not in {w[0] for w in workers}
    assert {w[1:] for w in workers} == {(max(1, (os.cpu_count() or 1) // 2), True, True)}
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert {o.value[0] for o in found[1][0][5:]} == {os.getpid()}


def test_a_fault_of_ours_is_not_taken_for_a_failed_job():
    with pytest.raises(KeyError, match="a fault of ours"):
        run(jobs(fault, 1))


def test_a_single_job_needs_no_process():
    ((mine, *_),) = [o.value for o in run(jobs(pid, 1), workers=4)]
    assert mine == os.getpid()


def test_no_jobs_are_no_outcomes():
    assert run([], workers=2) == []
