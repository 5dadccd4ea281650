"""A round of FedAvg by hand, in leakbench, in Flower and in pfl-research, side by side.

python benchmarks/peers.py [results/speed/peers.md] [--rounds 12] [--peers loop,leakbench]

All have the same first weights, clients and batches, and after the last round their weights are
compared: whoever is fast must also be right. Each is a process of its own, kept warm; they take
turns, a round each. Processor time is that of the process and of all that it started. The first
round of each warms up and is not counted. Flower and pfl-research are fetched by ``uv run --with``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Listener
from pathlib import Path

import torch
from peers_leakbench import BATCH, MARK, setting, spec
from peers_setting import Setting, put, write
from processor_time import of_tree
from safetensors.torch import load_file
from speed_page import head, written

HERE = Path(__file__).parent
UV = ("uv", "run", "--no-sync", "--with")


@dataclass(frozen=True)
class Contender:
    """Whom to start: a script of this folder, with what it is told after folder and name."""

    title: str
    script: str
    told: tuple[str, ...] = ()
    before: tuple[str, ...] = (sys.executable,)
    exact: bool = True  # does it compute in float64 if asked to?

    def words(self, folder: Path, name: str) -> list[str]:
        return [*self.before, str(HERE / self.script), str(folder), name, *self.told]


OURS = "peers_leakbench.py"
PEERS = {
    "loop": Contender("hand-written loop", "peers_loop.py"),
    "leakbench-loop": Contender("leakbench, engine loop", OURS, ("loop", "bare")),
    "leakbench": Contender("leakbench", OURS, ("auto", "bare")),
    "leakbench-recorded": Contender("leakbench, recorded", OURS, ("auto", "recorded")),
    "leakbench-bfloat16": Contender(
        "leakbench, bfloat16", OURS, ("auto", "bare", "bfloat16"), exact=False
    ),
    "flower": Contender(
        "Flower", "peers_flower.py", before=(*UV, "flwr[simulation]>=1.42", "python")
    ),
    # Its updates are float32 whatever is asked.
    "pfl": Contender(
        "pfl-research", "peers_pfl.py", before=(*UV, "pfl>=0.6", "python"), exact=False
    ),
}


@dataclass
class Peer:
    """A contender at work."""

    name: str
    process: subprocess.Popen[bytes]
    line: Connection
    versions: str
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def round(self) -> None:
        """One round, timed from outside.

        Raises:
            SystemExit: it ended.
        """
        used, begun = of_tree(self.process.pid), time.perf_counter()
        with contextlib.suppress(BrokenPipeError):
            self.line.send_bytes(b"go")
        self.heard()
        self.wall.append(time.perf_counter() - begun)
        self.processor.append(of_tree(self.process.pid) - used)

    def heard(self) -> None:
        try:
            self.line.recv_bytes()
        except EOFError:
            raise SystemExit(f"{self.name} ended before its last round") from None


def started(name: str, folder: Path) -> Peer:
    """The contender, ready for its first round."""
    words = PEERS[name].words(folder, name)
    with Listener(str(folder / f"{name}.line"), "AF_UNIX") as listener:
        log = (folder / f"{name}.log").open("wb")
        process = subprocess.Popen(words, cwd=HERE.parent, stdout=log, stderr=log)
        listener._listener._socket.settimeout(600)  # type: ignore[attr-defined]
        line = listener.accept()
    return Peer(name, process, line, line.recv_bytes().decode())


def measured(
    asked: argparse.Namespace, names: Sequence[str], folder: Path, rounds: int, dtype: str
) -> tuple[list[Peer], Setting]:
    """All contenders after ``rounds`` rounds, which they took in turns; and what they were given.

    Raises:
        SystemExit: one ended before its last round.
    """
    # The last measured round of a recorded run is its tenth part, which is audited.
    of = spec(asked.task, asked.clients, asked.fraction, asked.batch, 10 * rounds, dtype)
    given = setting(of, rounds, asked.threads)
    folder.mkdir()
    write(folder / "setting.safetensors", given)
    told = {"spec": of.model_dump(), "threads": asked.threads, "measured": rounds}
    (folder / MARK).write_text(json.dumps(told), "utf-8")
    try:
        peers = [started(name, folder) for name in names]
        for t in range(rounds):
            for peer in peers:
                peer.round()
            print(t + 1, *(f"{p.name} {p.wall[-1]:.2f}" for p in peers), flush=True)
        for peer in peers:
            peer.heard()
            peer.line.close()
    except BaseException:
        for log in sorted(folder.glob("*.log")):
            print(log.name, log.read_text("utf-8", "replace")[-3000:], file=sys.stderr)
        raise
    for peer in peers:
        peer.process.wait(60)
    return peers, given


def apart(folder: Path, name: str, other: str) -> float:
    """The largest difference between two contenders' last weights."""
    both = zip(weights_of(folder, name), weights_of(folder, other), strict=True)
    return max(float((a - b).abs().max()) for a, b in both)


@torch.no_grad()
def accuracy(given: Setting, weights: list[torch.Tensor]) -> float:
    net = given.network()
    put(net, weights)
    parts = zip(given.x_test.split(500), given.y_test.split(500), strict=True)
    right = sum(int((net(given.floats(x)).argmax(1) == y).sum()) for x, y in parts)
    return right / len(given.y_test)


def weights_of(folder: Path, name: str) -> list[torch.Tensor]:
    found = load_file(folder / f"{name}.safetensors")
    return [found[str(i)] for i in range(len(found))]


def table(peers: Sequence[Peer], given: Setting, folder: Path) -> Iterator[str]:
    """A line for each contender; the first is what the others are compared with."""
    yield (
        "| | wall, s | processor, s | wall / first | processor / first | accuracy"
        " | weights differ by |"
    )
    yield "|---|---|---|---|---|---|---|"
    first = peers[0]
    by_hand = weights_of(folder, first.name)
    moved = max(float((a - b).abs().max()) for a, b in zip(by_hand, given.start, strict=True))
    for peer in peers:
        cells = [f"{statistics.median(v[1:]):.2f}" for v in (peer.wall, peer.processor)]
        for own, other in ((peer.wall, first.wall), (peer.processor, first.processor)):
            cells.append(times(own[1:], other[1:]))
        cells += [f"{accuracy(given, weights_of(folder, peer.name)):.4f}"]
        cells.append(f"{apart(folder, peer.name, first.name):.1e}")
        yield f"| {PEERS[peer.name].title} | {' | '.join(cells)} |"
    yield ""
    yield f"Weights moved by up to {moved:.2f} in these rounds."


def times(own: Sequence[float], other: Sequence[float]) -> str:
    """How many times ``other`` each of ``own`` is: median and range, of those that took any time.

    The system counts processor time in ticks, and a round of few images may take none.
    """
    ratios = [a / b for a, b in zip(own, other, strict=True) if b > 0]
    if not ratios:
        return "too short to tell"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def page(
    words: Sequence[str], peers: Sequence[Peer], given: Setting, folder: Path
) -> Iterator[str]:
    versions = dict.fromkeys(v for p in peers for v in p.versions.split(", "))
    many, steps, batch = given.rows.shape[1:]
    weights = sum(w.numel() for w in given.start)
    how = f"{given.threads} threads; {', '.join(versions)}"
    yield head("A round beside the peers'", "peers.py", words, how)
    yield (
        f"{given.rounds} rounds each, the first not counted. FedAvg, {many} clients a round, each"
        f" {steps} steps of {batch} images of {'x'.join(map(str, given.x.shape[1:]))}, a network of"
        f" {weights:,} weights, float32. {__doc__.split(chr(10) * 2)[2]}".replace("\n", " ")
        + "\n"
    )
    yield from table(peers, given, folder)
    for peer in peers:
        if peer.name.endswith("recorded"):
            usual = statistics.median(peer.processor[1:-1])
            yield (
                f"\nOf the recorded run's {given.rounds} rounds the first and the last are audited"
                " (five updates again and up to 80 probes): the last took"
                f" {peer.processor[-1]:.2f} s of processor time where others took {usual:.2f}. A"
                " run has six of them."
            )


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--task", default="cifar10")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--fraction", type=float, default=0.2)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", default=",".join(PEERS))
    asked = parser.parse_args(argv)
    names = asked.peers.split(",")
    if set(names) - set(PEERS):
        parser.error(f"--peers: expected some of {', '.join(PEERS)}, not {asked.peers}")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "float32"
        peers, given = measured(asked, names, folder, asked.rounds, "float32")
        text = "\n".join(page(argv, peers, given, folder)) + "\n"
        exact = [n for n in names if PEERS[n].exact]
        if len(exact) > 1:
            folder = Path(made) / "float64"
            measured(asked, exact, folder, 2, "float64")
            most = {n: apart(folder, n, exact[0]) for n in exact[1:]}
            told = ", ".join(f"{PEERS[n].title} {v:.0e}" for n, v in most.items())
            text += f"\nAfter two rounds in float64 weights differ from the first's by: {told}.\n"
    written(text, asked.to)


if __name__ == "__main__":
    main(sys.argv[1:])
