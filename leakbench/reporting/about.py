"""What methods, wrappers and attacks say of themselves: a report quotes them, and adds nothing of
its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from leakbench.base import registry
from leakbench.base.errors import UnknownName
from leakbench.record.folders import Run
from leakbench.reporting.data import About
from leakbench.results.configurations import group
from leakbench.results.keys import setting_key


def of(runs: Sequence[Run]) -> dict[str, About]:
    """What each is called ("defenses/fedhide", "wrappers/…", "attacks/…") -> its own words; a
    method not installed here has none.
    """
    named = {
        (kind, str(name))
        for r in runs
        for kind, names in (
            ("defenses", [r.spec["defense"]["name"]]),
            ("wrappers", [w["name"] for w in r.spec["wrappers"]]),
            ("attacks", [a.name for a in r.attacks]),
        )
        for name in names
    }
    out = {}
    for kind, name in sorted(named):
        try:
            made = registry.load(kind, name)
        except UnknownName:
            continue
        out[f"{kind}/{name}"] = About(described(made), str(getattr(made, "paper", "")))
    return out


def guesses(runs: Sequence[Run]) -> dict[str, dict[str, str]]:
    """``setting_key`` -> {"<run>/<attack folder>": SHA-256 of the guesses that were
    scored there}.
    """
    out: dict[str, dict[str, str]] = {}
    for config in group(runs):
        folders = [(run, a) for run in config.runs for a in run.attacks if a.done]
        out[setting_key(config.columns)] = {
            f"{r.id}/{a.path.name}": str(a.meta["files"].get("guess.safetensors", ""))
            for r, a in folders
        }
    return out


def described(made: type) -> str:
    """The first paragraph of its module's documentation and of its own, on one line, without the
    marks of code.
    """
    module = inspect.getmodule(made)
    texts = [inspect.getdoc(module) or "", made.__doc__ or ""]
    return " ".join(" ".join(t.split("\n\n")[0].split()) for t in texts if t.strip()).replace(
        "``", ""
    )
