"""What methods, wrappers and attacks say of themselves.

A report quotes them, and adds nothing of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from leakbench.base import registry
from leakbench.base.errors import UnknownName
from leakbench.reporting.data import About
from leakbench.results.settings import Setting


def abouts_of(settings: Sequence[Setting]) -> dict[str, About]:
    """{"defenses/fedhide", "wrappers/…" or "attacks/…": its own words}.

    A method that is not installed here has none.
    """
    named = {("defenses", s.family) for s in settings}
    named |= {("wrappers", str(w["name"])) for s in settings for w in s.configuration.wrappers}
    runs = [run for s in settings for run in s.every]
    named |= {("attacks", a.name) for run in runs for a in run.attacks}
    out = {}
    for kind, name in sorted(named):
        try:
            made = registry.load_plugin(kind, name)
        except UnknownName:
            continue
        out[f"{kind}/{name}"] = About(
            text=documentation_of(made),
            paper=str(getattr(made, "paper", "")),
            searches=bool(getattr(made, "searches", False)),
        )
    return out


def documentation_of(made: type) -> str:
    """The first paragraph of its module's documentation and of its own.

    On one line, without the marks of code.
    """
    module = inspect.getmodule(made)
    texts = [inspect.getdoc(module) or "", made.__doc__ or ""]
    first = [" ".join(t.split("\n\n")[0].split()) for t in texts if t.strip()]
    return " ".join(first).replace("``", "")
