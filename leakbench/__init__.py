"""The vocabulary: all that a defense, an attack, a task or a report imports; and the commands as
functions.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from leakbench.base.version import __version__ as __version__

if TYPE_CHECKING:
    from leakbench.api import Results, attack, check, export, load, report, score, train, update
    from leakbench.attacking.attack import Attack
    from leakbench.attacking.guess import Guess
    from leakbench.attacking.metric import Metric, Score
    from leakbench.attacking.view import ThreatModel, View
    from leakbench.base.errors import LeakbenchError, ThreatViolation, UsageError
    from leakbench.base.spec import Spec
    from leakbench.base.tree import Tree
    from leakbench.federation.defense import Defense, Sent, Wrapper, others, unit
    from leakbench.federation.parties import Batch, Client, Each, Facts, Net, Server
    from leakbench.federation.task import Examples, Task, TaskData
    from leakbench.record.folders import Run
    from leakbench.reporting.data import Report, ReportData

# Loaded when first used: torch takes two seconds, and `leakbench --help` needs none of it.
_COMMANDS = ("attack", "check", "export", "load", "report", "score", "train", "update")
_HOME = {
    **dict.fromkeys((*_COMMANDS, "Results"), "api"),
    "Attack": "attacking.attack",
    **dict.fromkeys(("Defense", "Sent", "Wrapper", "others", "unit"), "federation.defense"),
    **dict.fromkeys(("LeakbenchError", "ThreatViolation", "UsageError"), "base.errors"),
    "Guess": "attacking.guess",
    **dict.fromkeys(("Metric", "Score"), "attacking.metric"),
    **dict.fromkeys(("Batch", "Client", "Each", "Facts", "Net", "Server"), "federation.parties"),
    **dict.fromkeys(("Report", "ReportData"), "reporting.data"),
    "Run": "record.folders",
    "Spec": "base.spec",
    **dict.fromkeys(("Examples", "Task", "TaskData"), "federation.task"),
    "Tree": "base.tree",
    **dict.fromkeys(("ThreatModel", "View"), "attacking.view"),
}

__all__ = [
    "Attack",
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
    "Report",
    "ReportData",
    "Results",
    "Run",
    "Score",
    "Sent",
    "Server",
    "Spec",
    "Task",
    "TaskData",
    "ThreatModel",
    "ThreatViolation",
    "Tree",
    "UsageError",
    "View",
    "Wrapper",
    "attack",
    "check",
    "export",
    "load",
    "others",
    "report",
    "score",
    "train",
    "unit",
    "update",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'leakbench' has no attribute {name!r}")
    return getattr(importlib.import_module(f"leakbench.{_HOME[name]}"), name)
