"""Is there room for torch? A process that is short of address space dies or hangs on loading it."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from leakbench.base.errors import UsageError

GIB = 2**30
# Measured with CUDA's build: so much of the libraries' bytes is mapped (2.7 of 3.8 GiB), and a
# small run takes so much beside them. With less it hangs, or its threads abort.
MAPPED, BESIDE = 0.7, 0.75 * GIB


class Room:
    """Asks when torch begins to load: only who needs it is refused."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Never finds a module.

        Raises:
            UsageError: it is one of torch's, and there is no room for them.
        """
        if name.startswith("torch."):
            if why := address_space_lacking():
                raise UsageError(why)
            sys.meta_path.remove(self)
        return None


def address_space_lacking() -> str:
    """Why torch's libraries do not fit below the limit (`ulimit -v`), a sentence, or ""."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return ""
    needed = MAPPED * _libraries() + BESIDE
    if limit >= needed:
        return ""
    return (
        f"a process may have {limit / GIB:.1f} GiB of addresses here (ulimit -v), and torch as it"
        f" is installed takes {needed / GIB:.1f} GiB: raise the limit, or install torch's build"
        " without CUDA, which is smaller."
    )


def _libraries() -> int:
    """Bytes of the libraries that are mapped when torch is loaded."""
    found = find_spec("torch")
    where = list(found.submodule_search_locations or ()) if found else []
    return sum(
        file.stat().st_size
        for root in map(Path, where)
        for folder in (root / "lib", root.parent / "nvidia")
        for file in folder.rglob("*.so*")
    )
