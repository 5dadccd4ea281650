"""Many jobs: in order, side by side, with one's failure being its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.jobs import double, fault, jobs, many, pid, wrong

from leakbench.base.executors import Executor
from leakbench.base.jobs import Job, Outcome, run_jobs
from leakbench.cli.commands import jobs_exit_code
from leakbench.cli.console import Console

pytestmark = pytest.mark.slow  # a worker imports torch
ALL = [
    *jobs(double, 1),
    *jobs(wrong, "usage", "broken", "method"),
    *jobs(many, 2),
    *jobs(pid, 3, 4),
]


def all_of(workers):
    """Outcomes and news of every kind of job at once, with deterministic kernels asked for."""
    import torch

    told = []
    torch.use_deterministic_algorithms(True)
    try:
        return run_jobs(ALL, workers=workers, tell=lambda *news: told.append(news)), told
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def found():
    """By workers: 1 and 2. (Processes cost seconds: started once.)"""
    before = signal.getsignal(signal.SIGINT)
    made = {n: all_of(n) for n in (1, 2)}
    return {**made, "ctrl-c": (before, signal.getsignal(signal.SIGINT))}


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
def test_what_would_end_after_the_budget_is_not_begun(workers):
    """Also the last of all, when nothing else is left to wait for."""
    long, short = (Job(f"{s}", double, (1,), seconds=s) for s in (600.0, 1.0))
    for order in ((short, long), (long, short), (long, long)):
        outcomes = run_jobs(order, workers=workers, budget=300.0)
        assert [o.left_out for o in outcomes] == [j is long for j in order]
        assert [o.value for o in outcomes] == [None if j is long else 2 for j in order]
    assert not any(o.left_out for o in run_jobs((long, short), workers=workers))


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_is_told_by_job(found, workers):
    _, told = found[workers]
    assert [t for t in told if t[0] == "job 1"] == [
        ("job 1", 0, 2, "begin"),
        ("job 1", 2, 2, "end"),
    ]
    steps = [t[1] for t in told if t[0] == "job 2"]
    assert steps == sorted(steps)
    assert steps[-1] == 1000
    # From elsewhere a hundred lines, not one a step.
    assert len(steps) == 1000 if workers == 1 else len(steps) <= 110


def test_workers_leave_ctrl_c_to_us_have_our_threads_and_are_as_deterministic_as_we(found):
    import torch

    workers = [o.value for o in found[2][0][5:]]
    assert os.getpid() not in {w[0] for w in workers}
    assert {w[1:] for w in workers} == {(torch.get_num_threads(), True, True)}
    before, after = found["ctrl-c"]
    assert after is before
    assert {o.value[0] for o in found[1][0][5:]} == {os.getpid()}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_fault_of_ours_stops_nobody_and_is_not_taken_for_a_failed_job(workers):
    failed, other = run_jobs([*jobs(fault, 1), *jobs(double, 1)], workers=workers)
    assert other == Outcome("job 1", 2)
    assert re.fullmatch(r"KeyError: 'a fault of ours' \(base/jobs\.py, line \d+\)", failed.error)
    assert failed.fault.startswith("Traceback")
    assert failed.fault.endswith("KeyError: 'a fault of ours'\n")
    assert jobs_exit_code([failed, other], Console()) == 70


def test_of_a_fault_of_ours_a_log_is_named():
    (failed,) = Executor().run(jobs(fault, 1))
    assert failed.error.startswith("a fault of leakbench itself: KeyError: 'a fault of ours' (")
    log = Path(failed.error.rpartition("the log ")[2].rstrip("."))
    assert log.read_text() == failed.fault
    log.unlink()


def test_a_single_job_needs_no_process():
    ((mine, *_),) = [o.value for o in run_jobs(jobs(pid, 1), workers=4)]
    assert mine == os.getpid()


def test_no_jobs_are_no_outcomes():
    assert run_jobs([], workers=2) == []


def elsewhere(code):
    """Jobs in a process of their own, so that what hangs does not hang the tests."""
    line = [
        sys.executable,
        "-c",
        f"from helpers import jobs as t\nif __name__ == '__main__':\n    {code}",
    ]
    return subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )


def test_a_worker_that_is_killed_fails_its_job_alone():
    process = elsewhere(
        "print(t.run_jobs([*t.jobs(t.killed, 1), *t.jobs(t.leaves, 3, 0),"
        " *t.jobs(t.double, 2, 3, 4)], workers=2))"
    )
    try:
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0, err
    outcomes = eval(out, {"Outcome": Outcome})
    assert [o.name for o in outcomes] == ["job 1", "job 3", "job 0", "job 2", "job 3", "job 4"]
    assert [o.value for o in outcomes[3:]] == [4, 6, 8]
    assert "its process was killed by signal 9 (" in outcomes[0].error
    assert "its process ended with exit status 3 before" in outcomes[1].error
    assert "its process ended with exit status 0 before" in outcomes[2].error
    assert not any(o.wrong or o.damaged for o in outcomes)
    assert jobs_exit_code(outcomes, Console(quiet=True)) == 4


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_began_them(how):
    process = elsewhere("t.run_jobs(t.jobs(t.dreams, 1, 2), workers=2)")
    workers = []
    try:
        workers = [int(process.stdout.readline()) for _ in range(2)]
        process.send_signal(how)
        # Its end of the pipe is theirs, too: it ends with the last of them.
        process.communicate(timeout=120)
    finally:
        for pid in [process.pid, *workers]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert process.returncode == -how


def test_no_file_of_the_working_folder_is_taken_for_a_module_of_pythons(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    for name in ("multiprocessing", "random", "signal"):
        (here / f"{name}.py").write_text(f"raise ImportError('{name}.py of the working folder')\n")
    script = there / "doubles.py"
    script.write_text(
        "from helpers import jobs as t\n"
        "if __name__ == '__main__':\n"
        "    print([o.value for o in t.run_jobs(t.jobs(t.double, 1, 2), workers=2)])\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2, 4]\n", "")


def test_what_is_set_for_workers_is_not_left_behind(found):
    assert "PYTHONSAFEPATH" not in os.environ
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
