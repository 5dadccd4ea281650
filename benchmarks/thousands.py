"""As many clients as VGGFace2 has, 8,631, the whole way: time and memory of every step.

python benchmarks/thousands.py [results/thousands-of-clients.md] [--clients 8631] [--folder DIR]

Faces are made up (a random pattern for each person, noise in each image) and lie in VGGFace2's own
layout, so they are read as the official set would be. What is trained is far too little to learn
from: this is about what it costs, and whether the attacks still find who is who. Each step is a
process of its own; its memory is the most that it held at once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from leakbench import api
from leakbench.base import provenance

EACH, SIDE, COARSE = 4, 64, 8  # images of a person, their pixels, those of the pattern
TEST_PEOPLE = 60
TASK = ("boxes=false", f"per_client={EACH}", "width=4", "aux_people=30", "evaluations=10")
FEW, MANY = "0.001", "0.02"  # of the clients in a round: FedHide's own, and twenty times as many
ATTACKS = (
    *("prototype_leakage", "prototype_averaging", "prototype_centring", "prototype_unmixing"),
    "prototype_from_update",
)


@dataclass(frozen=True)
class Step:
    """A command, how long it took, seconds, and the most memory it held, MiB."""

    title: str
    seconds: float
    memory: float


def faces(folder: Path, clients: int) -> None:
    """Write VGGFace2's layout with ``clients`` people to train on and others to test."""
    rng = np.random.default_rng(0)
    lines = ["Class_ID, Name, Sample_Num, Flag, Gender"]
    for person in range(clients + TEST_PEOPLE):
        who, part = f"n{person:06d}", "train" if person < clients else "test"
        lines.append(f"{who}, made up, {EACH}, {int(part == 'train')}, f")
        home = folder / "VGGFace2" / part / who
        home.mkdir(parents=True)
        pattern = rng.integers(0, 256, (COARSE, COARSE, 3)).repeat(SIDE // COARSE, 0)
        pattern = pattern.repeat(SIDE // COARSE, 1)
        for i in range(EACH):
            noisy = pattern + rng.normal(0, 20, pattern.shape)
            image = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
            image.save(home / f"{i + 1:04d}_01.jpg")
    (folder / "VGGFace2" / "identity_meta.csv").write_text("\n".join(lines) + "\n", "utf-8")


def run(title: str, folder: Path, *words: str) -> Step:
    """One command of leakbench, in a process of its own.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-m", "leakbench", *words, "-q"]
    env = {**os.environ, "LEAKBENCH_DATA": str(folder)}
    begun = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{title} ended with {process.returncode}: {' '.join(words)}")
    step = Step(title, time.perf_counter() - begun, used.ru_maxrss / 1024)
    print(f"{step.title}: {step.seconds:.0f} s, {step.memory:.0f} MiB", flush=True)
    return step


def steps(folder: Path, clients: int) -> Iterable[tuple[Step, Path]]:
    """Train, attack and report; each step with the folder of its run."""
    task = [word for given in (*TASK, f"clients={clients}") for word in ("-s", f"task.{given}")]
    settings = (
        ("FedHide, a thousandth", "fedhide", FEW, 30),
        ("FedAwS, a thousandth", "fedaws", FEW, 10),
        ("FedHide, a fiftieth", "fedhide", MANY, 10),
    )
    for title, method, fraction, rounds in settings:
        out = folder / "runs" / f"{method}-{fraction}"
        words = ["train", "-t", "vggface2", "-d", method, "--rounds", str(rounds), "-o", str(out)]
        given = [*task, "-s", f"{method}.fraction={fraction}"]
        yield run(f"{title}: train, {rounds} rounds", folder, *words, *given), out
        (made,) = out.glob("vggface2-*")
        for attack in ATTACKS:
            if attack == "prototype_unmixing" and method == "fedaws":
                continue  # nothing is mixed
            yield run(f"{title}: {attack}", folder, "attack", str(made), "-a", attack), out
        page = ["report", str(out), "-o", str(out) + "-report"]
        yield run(f"{title}: report", folder, *page), out


def found(runs: Sequence[Path]) -> Iterable[str]:
    """A line for each attack: the share of clients that it named."""
    yield "| method | fraction | attack | P_leak [95 %] | n | floor |"
    yield "|---|---|---|---|---|---|"
    for out in runs:
        method, _, fraction = out.name.partition("-")
        for row in api.tables([*out.glob("vggface2-*")]).rows("tradeoff"):
            last = row["stage"] in ("final", "all") and not row["probe"]
            if row["metric"] == "p_leak" and row["attack"] in ATTACKS and last:
                span = f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
                cells = [method, fraction, row["attack"], span, str(row["n"])]
                yield f"| {' | '.join(cells)} | {row['floor']:.5f} |"


def main(to: Path | None, clients: int, folder: Path) -> None:
    """Make the faces, run every step, print; and write where asked."""
    begun = time.perf_counter()
    faces(folder, clients)
    print(f"{clients} people drawn: {time.perf_counter() - begun:.0f} s", flush=True)
    done = list(steps(folder, clients))
    commit, dirty = provenance.source()
    lines = [
        "# Thousands of clients",
        "",
        f"`python benchmarks/thousands.py {to} --clients {clients}`, commit {commit}"
        f"{' with changes' if dirty else ''}. {__doc__.split(chr(10) * 2)[2]}",
        "",
        f"{clients:,} clients with {EACH} images of {SIDE} pixels, MobileFaceNet of 4 channels,"
        " embeddings of 512 numbers; one core that others shared.",
        "",
        "| step | s | MiB |",
        "|---|---|---|",
        *(f"| {s.title} | {s.seconds:.0f} | {s.memory:.0f} |" for s, _ in done),
        "",
        *found(list(dict.fromkeys(out for _, out in done))),
        "",
    ]
    print("\n".join(lines))
    if to:
        to.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", nargs="?", type=Path)
    parser.add_argument("--clients", type=int, default=8631)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as fresh:
        main(asked.to, asked.clients, asked.folder or Path(fresh))
