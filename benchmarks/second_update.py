"""What FedAA's second update gives away, on digits: gradient inversion of what clients send after
the server's average.

A client trains ten epochs, the server averages, the client trains one epoch more and sends that,
too. The second training starts from a model, and runs on a loss, that the server knows; where a
client's data fit into a batch it is a single step.

python benchmarks/second_update.py [file.md]      prints the table; with a file it is also written
there, with command and commit
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakbench import api
from leakbench.base import provenance

TERMINALS = {"split": "shards", "split_param": 1.0, "clients": 100}
TRAINING = {"lr": 0.02, "tune_lr": 0.02, "batch": 32, "examples": 16, "hidden": 64}
ROUNDS = 20
FEDERATIONS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    (
        "mobile terminals: 100 clients, 11 images each, C = 0.1",
        TERMINALS,
        {**TRAINING, "fraction": 0.1},
    ),
    (
        "data islands: 10 clients, 104 to 113 images each, C = 1",
        {},
        {**TRAINING, "fraction": 1.0, "lr": 0.0025, "tune_lr": 0.0025},
    ),
)
READ = (("a client of one image", "probe"), ("the real update", "update"))
MEANING = (
    (
        "FedAA on digits, 20 rounds, seed 0; the second update of five clients at the first and the"
        " last round, attacked by"
    ),
    (
        "`gradient_inversion` (L-BFGS, labels known). Found: share of images nearer to their"
        " reconstruction than 99 others of their class"
    ),
    (
        "are (`identification`), with its 95 % interval over clients; by luck: the floor, of a"
        " batch what auxiliary images of the same"
    ),
    (
        "labels reach, matched to the client's as the reconstructions are. PSNR: mean in dB; blind:"
        " the class mean of auxiliary images."
    ),
)


def rows(out: Path) -> Iterator[str]:
    """A line of the table for each federation, message and stage."""
    for title, task, params in FEDERATIONS:
        run = api.train(
            "fedaa", task_params=task, params=params, rounds=ROUNDS, out=out, device="cpu"
        )
        for what, message in READ:
            found = {
                (r["stage"], r["metric"]): r
                for r in api.attack(run, "gradient_inversion", message=message).rows
            }
            for stage in ("untrained", "final"):
                one, psnr = found[stage, "identification"], found[stage, "psnr"]
                luck = f"{one['floor']:.2f} [{one['floor_low']:.2f}, {one['floor_high']:.2f}]"
                share = f"{one['value']:.2f} [{one['low']:.2f}, {one['high']:.2f}] | {luck}"
                yield (
                    f"| {title} | {what} | {stage} | {one['n']} | {share} | {psnr['value']:.1f} |"
                    f" {psnr['floor']:.1f} |"
                )


def main(out: Path | None) -> None:
    lines = [
        "| federation | read | round | images | found | by luck | PSNR | blind |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    with tempfile.TemporaryDirectory() as folder:
        for line in rows(Path(folder)):
            print(line, flush=True)
            lines.append(line)
    if out:
        commit, dirty = provenance.source()
        made = (
            f"`python benchmarks/second_update.py {out}`, commit"
            f" {commit}{' with changes' if dirty else ''}."
        )
        out.write_text(
            "\n".join(
                [
                    "# What FedAA's second update gives away, on digits",
                    "",
                    made,
                    "",
                    *MEANING,
                    "",
                    *lines,
                    "",
                ]
            ),
            encoding="utf-8",
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
