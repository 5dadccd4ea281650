"""The vocabulary: all that a defense, an attack, a task or a report imports; and the commands as functions."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakbench.api import Results, attack, check, export, load, report, score, train, update
    from leakbench.attacker import Attack
    from leakbench.defense import Defense, Sent, Wrapper, others, unit
    from leakbench.errors import LeakbenchError, ThreatViolation, UsageError
    from leakbench.guess import Guess
    from leakbench.metrics import Metric, Score
    from leakbench.parties import Batch, Client, Each, Facts, Net, Server
    from leakbench.report_data import Report, ReportData
    from leakbench.runs import Run
    from leakbench.spec import Spec
    from leakbench.task import Examples, Task, TaskData
    from leakbench.tree import Tree
    from leakbench.view import ThreatModel, View

__version__ = "0.1.0"

# Loaded when first used: torch takes two seconds, and `leakbench --help` needs none of it.
_COMMANDS = ("attack", "check", "export", "load", "report", "score", "train", "update")
_HOME = {
    **dict.fromkeys((*_COMMANDS, "Results"), "api"),
    "Attack": "attacker",
    **dict.fromkeys(("Defense", "Sent", "Wrapper", "others", "unit"), "defense"),
    **dict.fromkeys(("LeakbenchError", "ThreatViolation", "UsageError"), "errors"),
    "Guess": "guess",
    **dict.fromkeys(("Metric", "Score"), "metrics"),
    **dict.fromkeys(("Batch", "Client", "Each", "Facts", "Net", "Server"), "parties"),
    **dict.fromkeys(("Report", "ReportData"), "report_data"),
    "Run": "runs",
    "Spec": "spec",
    **dict.fromkeys(("Examples", "Task", "TaskData"), "task"),
    "Tree": "tree",
    **dict.fromkeys(("ThreatModel", "View"), "view"),
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
