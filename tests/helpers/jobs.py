"""Jobs for worker processes, which import them from here."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from leakbench.base import jobs as jobs_module
from leakbench.base.errors import BrokenFile, MethodError, UsageError
from leakbench.base.jobs import Job
from leakbench.base.jobs import run_jobs as run_jobs


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
    raise {"usage": UsageError, "broken": BrokenFile, "method": MethodError}[kind](
        f"{kind} is wrong."
    )


# A line of leakbench's own, as far as a traceback tells.
_OURS: dict[str, Any] = {"__name__": __name__}
_LINE = 'def fault(*_, **__): return {}["a fault of ours"]'
exec(compile(_LINE, jobs_module.__file__, "exec"), _OURS)
fault = _OURS["fault"]


def jobs(work, *values):
    return [Job(f"job {v}", work, (v,)) for v in values]


def killed(x, *, progress):
    progress(0, 1, "begin")
    os.kill(os.getpid(), signal.SIGKILL)


def leaves(code, *, progress):
    os._exit(code)


def dreams(x, *, progress):
    """Says who it is, and is not done before somebody ends it."""
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    time.sleep(600)


def speaks(x, *, progress):
    """Says something to people."""
    sys.stderr.write(f"{x} was said\n")
    return x


def lasts(folder, *, progress):
    """Is not done before somebody interrupts it, which it then notes."""
    progress(0, 1, "begin")
    try:
        while True:
            time.sleep(0.05)
    except KeyboardInterrupt:
        Path(folder, "interrupted").touch()
        raise


def waits(folder, name, *, progress):
    """Leaves a file of its parent's number, and is done as soon as `go` lies there."""
    with Path(folder, name).open("a") as file:
        file.write(f"{os.getppid()}\n")
    while not Path(folder, "go").exists():
        time.sleep(0.05)
    return name
