"""Processor time and memory of processes, and which processor it is; from /proc."""

from __future__ import annotations

import os
import platform
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def _stat(pid: str) -> list[str]:
    """What follows the name in /proc/PID/stat; nothing if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def of_tree(root: int) -> float:
    """Seconds of user and system time of a process, its descendants, and those that ended."""
    found = {int(p.name): _stat(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()}
    parents = {pid: int(stat[1]) for pid, stat in found.items() if stat}
    total = 0
    for pid in parents:
        up = pid
        while up not in (0, root):
            up = parents.get(up, 0)
        if up == root:
            total += sum(map(int, found[pid][11:15]))
    return total / TICKS


def processor() -> str:
    """The name of the processor."""
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
