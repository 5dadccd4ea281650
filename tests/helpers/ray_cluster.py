"""A Ray cluster of two nodes on this machine, in processes that know nothing of a test's folder."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TESTS = Path(__file__).parents[1]
LONGEST = 120  # seconds


class NoCluster(Exception):
    """The machine, not the code under test, is to blame."""


# Its standard input is closed when the test ends, however it ends.
CODE = """
import signal, sys, warnings
warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a script
from ray.cluster_utils import Cluster
node = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
second = cluster.add_node(**node)
print(cluster.address, second.all_processes["raylet"][0].process.pid, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
QUIET = {
    "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),  # the code under test
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextmanager
def two_nodes() -> Iterator[tuple[str, int]]:
    """Its address, and the process of the node on which nobody but tasks depends."""
    folder = tempfile.mkdtemp(prefix="lb", dir="/tmp")  # sockets have short names
    process = subprocess.Popen(
        [sys.executable, "-c", CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd="/",
        env={**os.environ, **QUIET, "RAY_TMPDIR": folder},
    )
    try:
        ready, _, _ = select.select([process.stdout], [], [], LONGEST)
        told = process.stdout.readline().split() if ready else []
        if len(told) != 2:
            raise NoCluster(f"no cluster of Ray starts on this machine within {LONGEST} s")
        yield told[0], int(told[1])
    finally:
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        process.kill()
        process.stdout.close()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def kill_machine(node: int) -> None:
    """As if its power were cut: the node's process and all that it began."""
    children = Path(f"/proc/{node}/task/{node}/children").read_text().split()
    for pid in [node, *map(int, children)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
