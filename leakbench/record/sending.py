"""What of the runs that are there a training needs on a machine which cannot see them."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from leakbench.base.errors import BrokenFile
from leakbench.base.files import read_sealed
from leakbench.base.folder_job import Needs
from leakbench.base.spec import canonical
from leakbench.record.runspec import RunSpec
from leakbench.record.setting_name import BESIDE

RUN = "run.json"


class Sending:
    """The runs below ``out``, each run.json read once, and only if somebody asks."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def of(self, spec: RunSpec, *, restart: bool = False) -> dict[str, Any]:
        """What a ``FolderJob`` that trains ``spec`` says of it."""
        needs = partial(self.needs, spec, restart=restart)
        return {"where": str(self.out), "folder": self.out / spec.folder(), "needs": needs}

    def needs(self, spec: RunSpec, *, restart: bool = False) -> Needs:
        """Of a run that is complete, or is begun anew, the run.json alone.

        Where the record has to be lowered the run has another name, and may be there under that.
        """
        name, (complete, alike) = spec.folder(), self._there
        others = alike.get(_but_for_the_record(spec.model_dump(mode="json")), [])
        only = (RUN,) if restart or name in complete else None
        return Needs(only, tuple(n for n in others if n != name))

    @cached_property
    def _there(self) -> tuple[set[str], dict[str, list[str]]]:
        """The names of complete runs, and those of runs that differ in their records alone."""
        complete, alike = set[str](), defaultdict[str, list[str]](list)
        for path in sorted(self.out.glob(f"[!.]*/{RUN}")):
            try:
                meta = read_sealed(path)
                alike[_but_for_the_record(meta["spec"])].append(path.parent.name)
            except (BrokenFile, KeyError, TypeError, AttributeError):
                continue  # whoever trains there says so
            if meta.get("status") == "done":
                complete.add(path.parent.name)
        return complete, alike


def _but_for_the_record(spec: dict[str, Any]) -> str:
    return canonical({k: v for k, v in spec.items() if k not in ("record", *BESIDE)})
