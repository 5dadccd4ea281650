"""The vocabulary: all that a defense, an attack, a task or a report imports; and the commands as functions."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakbench.defense import Defense, Sent, Wrapper, others, unit
    from leakbench.errors import LeakbenchError, ThreatViolation, UsageError
    from leakbench.guess import Guess
    from leakbench.metrics import Metric, Score
    from leakbench.parties import Batch, Client, Each, Facts, Net, Server
    from leakbench.spec import Spec
    from leakbench.task import Examples, Task, TaskData
    from leakbench.tree import Tree

__version__ = "0.1.0"

# Loaded when first used: torch takes two seconds, and `leakbench --help` needs none of it.
_HOME = {
    **dict.fromkeys(("Defense", "Sent", "Wrapper", "others", "unit"), "defense"),
    **dict.fromkeys(("LeakbenchError", "ThreatViolation", "UsageError"), "errors"),
    "Guess": "guess",
    **dict.fromkeys(("Metric", "Score"), "metrics"),
    **dict.fromkeys(("Batch", "Client", "Each", "Facts", "Net", "Server"), "parties"),
    "Spec": "spec",
    **dict.fromkeys(("Examples", "Task", "TaskData"), "task"),
    "Tree": "tree",
}

__all__ = [
    "Batch",
    "Client",
    "Defense",
    "Each",
    "Examples",
    "Facts",
    "Guess",
    "LeakbenchError",
    "Metric",
    "Net",
    "Score",
    "Sent",
    "Server",
    "Spec",
    "Task",
    "TaskData",
    "ThreatViolation",
    "Tree",
    "UsageError",
    "Wrapper",
    "others",
    "unit",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'leakbench' has no attribute {name!r}")
    return getattr(importlib.import_module(f"leakbench.{_HOME[name]}"), name)
