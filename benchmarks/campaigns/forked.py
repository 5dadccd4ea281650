"""The command line in processes that are forked from one that has imported everything.

A command then takes a tenth of a second instead of four, so that thousands can be tried. The parent
computes nothing: torch's gradients do not outlive a fork.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
GIB = 1024**3
ADDRESSES = 24 * GIB  # a wall for what runs away; what counts is the memory really used
TASK = ("model=mlp", "width=8", "dim=8", "evaluations=10")
TINY = [word for value in TASK for word in ("-s", f"task.{value}")]


def ready() -> None:
    """Import what commands import, once."""
    import attacks
    import defenses
    import leakbench
    import reports

    for name in ("matplotlib.figure", "jinja2", "sklearn.datasets", "sympy", "rich.progress"):
        importlib.import_module(name)
    for package in (leakbench, defenses, attacks, reports):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            # No command imports what needs Flower.
            if not module.name.endswith(("__main__", "leakbench.flower")):
                importlib.import_module(module.name)
    importlib.import_module("leakbench.base.provenance").source()  # as it is now, for all of them


@dataclass
class Ended:
    """How a command ended."""

    code: int  # as a shell says it: 128 and the signal's number for one that was killed
    out: str
    err: str
    seconds: float
    bytes: int  # of memory, at most
    hung: bool = False

    @property
    def said(self) -> list[str]:
        """What stands on stderr, without what tells how far it is."""
        lines = self.err.splitlines()
        return [s for s in lines if not s.startswith("[") and ": about " not in s]


class Command:
    """`leakbench WORDS` in a process of its own, in the folder ``where``."""

    def __init__(
        self, words: Sequence[object], where: Path, before: Callable[[], None] = lambda: None
    ) -> None:
        self.logs = [where.parent / f"{where.name}.{kind}" for kind in ("out", "err")]
        sys.stdout.flush()
        sys.stderr.flush()
        self.begun = time.monotonic()
        self.pid = os.fork()
        if not self.pid:
            self._live([str(w) for w in words], where, before)

    def _live(self, words: list[str], where: Path, before: Callable[[], None]) -> None:
        code = 71
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                # Who starts a campaign in the background has Ctrl-C ignored, and its children too.
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.chdir(where)
            for number, path in enumerate(self.logs, 1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            before()
            from leakbench.cli import main

            try:
                main(words)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:  # what Python itself would print, were this its main program
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
            code = 72
        finally:
            os._exit(code)

    def send(self, which: signal.Signals) -> None:
        os.kill(self.pid, which)

    def wait(self, seconds: float = 120) -> Ended:
        """Until it ends by itself, or was killed for taking too long."""
        hung = False
        while True:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                break
            if not hung and time.monotonic() - self.begun > seconds:
                hung = True
                os.killpg(self.pid, signal.SIGKILL)
            time.sleep(0.002)
        code = os.waitstatus_to_exitcode(status)
        out, err = (p.read_text(encoding="utf-8", errors="replace") for p in self.logs)
        took = time.monotonic() - self.begun
        return Ended(code if code >= 0 else 128 - code, out, err, took, used.ru_maxrss * 1024, hung)


def command(
    words: Sequence[object],
    where: Path,
    *,
    seconds: float = 120,
    before: Callable[[], None] = lambda: None,
) -> Ended:
    """Run it to its end."""
    return Command(words, where, before).wait(seconds)


def checkpoints() -> None:
    """A checkpoint after every round, so that trainings of a second have some."""
    from leakbench.record import training

    training.CHECKPOINT_SECONDS, training.CHECKPOINT_SHARE = 0.0, 0


def files(folder: Path) -> dict[str, bytes]:
    """{name: content} of every file below ``folder``, hidden ones too."""
    found = sorted(p for p in folder.rglob("*") if p.is_file() or p.is_symlink())
    return {p.relative_to(folder).as_posix(): _content(p) for p in found}


def _content(path: Path) -> bytes:
    return f"link to {path.readlink()}".encode() if path.is_symlink() else path.read_bytes()


def main(
    campaign: Callable[[int, int, Path], tuple[Mapping[str, int], Sequence[str]]],
    about: str | None,
    *,
    count: int,
) -> int:
    """Run a campaign as the command line asks, print its tally, and exit 1 where anything failed.

    ``campaign``: (how many, seed, folder) -> tally and failures; ``count``: how many unless asked.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for what is made, and what failed")
    given = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tally, wrong = campaign(given.count, given.seed, given.keep or Path(folder))
    for name, n in sorted(tally.items()):
        print(f"{n:5d}  {name}")
    print(f"{len(wrong)} failures, {time.monotonic() - begun:.0f} s")
    return int(bool(wrong))
