"""The connection to a Ray cluster, and whether its nodes are fit for our jobs.

Ray is an extra: it is imported here alone, once it was asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import math
import os
import signal
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from leakbench.base import nodes, terminal
from leakbench.base.errors import UsageError
from leakbench.base.interrupts import SIGNALS, heed
from leakbench.base.printable_text import one_line

LOCAL, FOUND = "local", "auto"
KNOCK = 10.0  # seconds in which a cluster must take a connection
ANSWER = 120.0  # seconds a node may take to begin a process and say what it has
# Ray reads these when it is imported. `uv run` shall not be repeated on every node, a job without
# GPUs is told so by its device, and nothing is reported to anybody.
_QUIET = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def imported() -> Any:
    """The package ray.

    Raises:
        UsageError: it is not installed.
    """
    for variable, value in _QUIET.items():
        os.environ.setdefault(variable, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("ray")
    except Exception as error:  # an installation that does not fit itself raises nearly anything
        heed()
        why = one_line(str(error) or type(error).__name__)[:200]
        raise UsageError(
            f"--on ray needs the package ray ({why}): pip install 'leakbench[ray]', here and on"
            " every node."
        ) from None


_ADDRESS = "RAY_ADDRESS"
# By these a cluster, or code for its jobs, comes in that the command does not name.
_JOINING = (_ADDRESS, "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_RUNTIME_ENV_HOOK", "RAY_NAMESPACE")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected for as long as this lasts; a connection that was there before is kept.

    Whoever may give tasks to a cluster runs code on all its nodes, this one among them, and what
    they return is unpickled here: so no cluster is joined that nobody named. Without an ``address``
    one is begun, which listens to this machine alone and ends with this process. "auto" is the one
    that RAY_ADDRESS names, else one that was begun on this machine, whoever began it.

    Raises:
        UsageError: Ray is not installed or does not start, or there is no cluster at that address.
    """
    ray = imported()
    if ray.is_initialized():
        yield ray
        return
    handlers = {s: signal.getsignal(s) for s in SIGNALS} if _main_thread() else {}
    try:
        _connect(ray, address)
    finally:
        for s, handler in handlers.items():
            signal.signal(s, handler)
    try:
        # Of lost nodes Ray tells pages, on stdout, where results go; we tell a line, on stderr.
        with contextlib.redirect_stdout(io.StringIO()):
            yield ray
    finally:
        ray.shutdown()


def _main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


def _connect(ray: Any, address: str) -> None:
    if address not in ("", LOCAL):
        _init(ray, address, {})
        return
    # Nobody else's: neither a cluster that is there nor one that the environment names.
    own = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    hidden = {name: os.environ.pop(name) for name in _JOINING if name in os.environ}
    try:
        _init(ray, LOCAL, own)
    finally:
        os.environ.update(hidden)
    cores = ray.cluster_resources().get("CPU", 0)
    terminal.say(f"a Ray cluster of {cores:g} cores is begun here, for this command alone")


def _init(ray: Any, address: str, how: Mapping[str, Any]) -> None:
    """Connect from a neutral folder: Ray would put ours before the packages of its workers.

    Raises:
        UsageError: whatever Ray raises, or ends the process for, in one sentence.
    """
    which = os.environ.get(_ADDRESS, "this machine") if address == FOUND else address
    try:
        host, _, port = which.rpartition(":")
        if port.isdecimal():  # Ray itself tries for two minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()
        with warnings.catch_warnings(), contextlib.chdir("/"):
            warnings.simplefilter("ignore")
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **how)
    except (Exception, SystemExit) as error:
        heed()
        why = one_line(str(error) or type(error).__name__)[:200]
        if address == LOCAL:
            raise UsageError(
                f"Ray cannot be started on this machine ({why}): mend that, or leave --on away to"
                " use --jobs."
            ) from None
        raise UsageError(
            f"no Ray cluster answers at {which} ({why}): begin one with ray start, or give --on"
            " ray alone to begin one for this command."
        ) from None


def alive(ray: Any) -> list[dict[str, Any]]:
    """The nodes that are there."""
    return [n for n in ray.nodes() if n["Alive"]]


def slots(node: Mapping[str, Any], cpus: int, gpus: float) -> int:
    """How many jobs a node has room for."""
    has = node["Resources"]
    room = has.get("CPU", 0.0) / cpus
    if gpus >= 1:
        room = min(room, has.get("GPU", 0.0) / gpus)
    elif gpus:  # no job has a share of two
        room = min(room, has.get("GPU", 0.0) * math.floor(1 / gpus + 1e-9))
    return int(room)


def fitting_nodes(ray: Any, cpus: int, gpus: float) -> list[dict[str, Any]]:
    """The nodes that have room for a job.

    Raises:
        UsageError: none has.
    """
    there = alive(ray)
    found = [n for n in there if slots(n, cpus, gpus)]
    if not found:
        have = []
        for n in there:
            of = n["Resources"]
            have.append(
                f"{n['NodeManagerHostname']}: {of.get('CPU', 0):g} and {of.get('GPU', 0):g}"
            )
        raise UsageError(
            f"no node of the cluster has {cpus} CPUs and {gpus:g} GPUs for one job (CPUs and GPUs"
            f" of each: {'; '.join(have)}). Give other --cpus and --gpus, or add a node."
        )
    return found


def want(ray: Any, wanted: nodes.Wanted, found: list[dict[str, Any]]) -> None:
    """Ask each of these nodes whether it has what is wanted.

    Raises:
        UsageError: one has not, or cannot run leakbench.
    """
    asked = {}
    for node in found:
        how = {"num_cpus": 0, "max_retries": 0, "runtime_env": runtime_env()}
        how["scheduling_strategy"] = on_node(node["NodeID"])
        task = ray.remote(nodes.Wanted.refused).options(**how)
        asked[node["NodeManagerHostname"]] = task.remote(wanted)
    for name, answer in asked.items():
        try:
            why = ray.get(answer, timeout=ANSWER)
        except ray.exceptions.RayError as error:
            heed()
            last = one_line(str(error).strip().splitlines()[-1])[:300]
            why = (
                f"node {name} cannot run leakbench ({last}): install the same leakbench there, with"
                " the same Python, and begin Ray from that environment."
            )
        if why:
            raise UsageError(why)


def on_node(node: str) -> Any:
    """There and nowhere else."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(node, soft=False)


def runtime_env() -> dict[str, Any]:
    """What workers are started with: our plugins and data, and no module of a working folder."""
    return {"env_vars": {**nodes.environment(), "PYTHONSAFEPATH": "1"}}
