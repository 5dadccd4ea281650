"""Trainings in processes of their own, to be killed; a script that imports once what they need and
forks each of them.

    python -m helpers.killing      reads lines of JSON: {"spec", "runs", "threads", "data"}

It answers with the process's number, each round as it is done, and "end" when the process is gone.
Itself it trains nothing: torch's gradients do not outlive a fork.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def train(spec: Any, runs: str, threads: int, data: str) -> None:
    """Train, with a line after every round, and a checkpoint: whoever listens can kill it wherever
    he likes.
    """
    import torch

    from leakbench.record import training
    from leakbench.record.runspec import RunSpec

    os.environ["LEAKBENCH_DATA"] = data
    # A convolution's sums depend on it in the last bit.
    torch.set_num_threads(threads)
    training.CHECKPOINT_SECONDS, training.CHECKPOINT_SHARE = 0.0, 0
    training.train_run(
        RunSpec.build(spec, "run"),
        Path(runs),
        device="cpu",
        progress=lambda t, *_: print(t, flush=True),
    )


def main() -> None:
    """Fork a training for each line, one after the other."""
    import sympy  # noqa: F401 (torch imports it in a fused round)

    from helpers.federations import digits

    digits().load()  # and with it what reads them
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                train(**json.loads(line))
            finally:
                os._exit(0)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("end", flush=True)


class Training:
    """One of them, begun (or resumed) and watched from here."""

    def __init__(self, process: subprocess.Popen[str], spec: Any, runs: Path):
        import torch

        self.process = process
        job = {
            "spec": spec,
            "runs": str(runs),
            "threads": torch.get_num_threads(),
            "data": os.environ.get("LEAKBENCH_DATA", ""),
        }
        print(json.dumps(job), file=process.stdin, flush=True)
        self.number = int(self._line())

    def round(self) -> int:
        """The next round that is done."""
        return int(self._line())

    def kill(self) -> None:
        """And wait until it is gone."""
        os.kill(self.number, signal.SIGKILL)
        while self._line() != "end\n":
            pass

    def _line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the process that forks them is gone"
        return line


def started() -> subprocess.Popen[str]:
    """The process that forks them."""
    return subprocess.Popen(
        [sys.executable, "-m", "helpers.killing"],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    main()
