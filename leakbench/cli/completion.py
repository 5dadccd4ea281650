"""What a shell offers after a few letters; `leakbench --install-completion` switches it on."""

from __future__ import annotations

from collections.abc import Callable

from leakbench.base import registry
from leakbench.base.errors import LeakbenchError

KINDS = registry.KINDS


def completion_of(*which: str) -> Callable[[str], list[str]]:
    """The names of methods of some kinds; after a comma the next one's."""

    def offered(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        try:
            known = [name for kind in which for name in registry.names(kind)]
        except LeakbenchError:  # a shell that waits for letters is no place to say it
            return []
        return [f"{before}{comma}{name}" for name in known if name.startswith(begun)]

    return offered


def kinds(incomplete: str) -> list[str]:
    """The lists of `leakbench list`."""
    known = (*KINDS, "metrics", "models")
    return [kind for kind in known if kind.startswith(incomplete)]
