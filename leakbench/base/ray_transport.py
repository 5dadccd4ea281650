"""Folders of jobs in a cluster's memory: sent once for all that want them, and brought back."""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbench.base import parcels
from leakbench.base.errors import BrokenFile, LeakbenchError, UsageError
from leakbench.base.folder_job import FolderJob
from leakbench.base.jobs import Job, Outcome
from leakbench.base.ray_worker import Ended


@dataclass
class SentFolders:
    """References to the pieces of folders, kept for as long as a job needs them."""

    ray: Any
    pieces: dict[str, list[Any]] = field(default_factory=dict)
    users: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def of(self, i: int, job: Job) -> list[Any]:
        """What the job of the place ``i`` gets, put once for all jobs that want the same."""
        names = parcels.names(job) if isinstance(job, FolderJob) else []
        if not isinstance(job, FolderJob) or not names:
            return []
        key = "\0".join([str(job.around), *names])
        if key not in self.pieces:
            self.pieces[key] = [self.ray.put(p) for p in parcels.pieces(job.around, names)]
        self.users[key].add(i)
        return self.pieces[key]

    def forget(self, i: int) -> None:
        """That job has its outcome."""
        for key, users in list(self.users.items()):
            users.discard(i)
            if not users:
                del self.users[key], self.pieces[key]


@dataclass
class Going:
    """A job that was given out; what came back of it so far lies in the hidden folder ``fresh``."""

    place: int
    job: Job
    fresh: Path | None = None
    ended: Ended | None = None

    def keep(self, piece: parcels.Piece, marks: dict[str, str]) -> None:
        """Put a piece down, beside the mark, so that it goes if this process is killed."""
        if self.fresh is None and isinstance(self.job, FolderJob):
            around = self.job.around
            self.fresh = around / f"{marks[str(around)]}.{self.place}"
        if self.fresh is not None:
            parcels.unpack(piece, self.fresh)

    def settle(self, outcome: Outcome, brought: parcels.Brought | None) -> Outcome:
        """Put in its place what came back; the outcome, or why what was made is not kept."""
        if self.fresh is None or brought is None or not isinstance(self.job, FolderJob):
            return outcome
        try:
            why = parcels.place(self.job, self.fresh, brought)
            return Outcome(outcome.name, error=why) if why else outcome
        except LeakbenchError as error:
            wrong, damaged = isinstance(error, UsageError), isinstance(error, BrokenFile)
            return Outcome(outcome.name, error=str(error), wrong=wrong, damaged=damaged)
        finally:
            self.discard()

    def discard(self) -> None:
        """What came back so far is of no use."""
        if self.fresh is not None:
            shutil.rmtree(self.fresh, ignore_errors=True)
            self.fresh = None
