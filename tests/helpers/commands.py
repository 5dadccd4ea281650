"""Commands as a shell would have them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from helpers.small_runs import ON_THE_LINE


def apart(*argv, cwd=None, **kept):
    """The same in a process of its own, which Ctrl-C reaches: a child inherits that it is ignored,
    as a shell has it of what it runs in the background.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "leakbench", *map(str, argv)],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **kept,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def gone(group):
    """Is nobody left of a group of processes, soon?"""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def small(*more, d="fedgn", rounds=3):
    return ["train", "-d", d, *ON_THE_LINE, "--rounds", rounds, *more]
