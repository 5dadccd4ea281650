"""What a server reads that plants models: every way, beside a passive one, and what it gives away.

python benchmarks/active_server.py RUNS [results/active-server.md] [--seeds 3] [--only WAY,WAY]
    [--nets NET,NET] [--cifar]

FedAvg on `digits`, ten clients of all classes, one step of SGD a round, ten rounds, of which rounds
1, 5 and 10 are attacked: of every batch size, with and without `secure_sum`. Runs and attacks lie
in RUNS and are made where they are not there yet. With a file the tables are also written there,
with command and commit.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from leakbench import Run, api
from leakbench.base import LeakbenchError, provenance
from leakbench.record.columns import RUN_DIAGNOSTICS
from leakbench.record.policy import Policy

BATCHES = (1, 4, 16, 64)
GOOD = 30.0  # dB, from which on it looks like the original
VICTIM, LABEL = 3, 3
SGD = {"optimizer": "sgd", "steps": 1, "epochs": 0, "lr": 0.1, "decay": 1.0, "fraction": 1.0}
DIGITS = {"split": "iid", "evaluations": 10}
NETS = {"mlp_relu": {"model": "mlp_relu", "width": 256}, "lenet": {"model": "lenet"}}
CASES = (
    *(("mlp_relu", way) for way in ("passive", "class", "feature", "imprint", "trap")),
    *(("lenet", way) for way in ("passive", "class")),
)
NOTICED = ("loss", "update_norm", "distance", "dead_units")
# What a passive server searches; more takes longer, and of batches of 64 finds no more.
PASSIVE = {"message": "update", "targets": 2, "restarts": 1, "at": ["final"]}


@dataclass
class Cell:
    """What came of one way, net and batch size, over seeds."""

    psnr: list[float] = field(default_factory=list)
    identified: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    best: dict[tuple[str, ...], float] = field(default_factory=dict)  # batch -> its best image
    nothing: set[tuple[str, ...]] = field(default_factory=set)  # batches of which none was read
    noticed: dict[str, list[float]] = field(default_factory=dict)
    utility: list[float] = field(default_factory=list)

    def add(self, run: Run, attack: str, seed: int) -> None:
        """What ``attack`` came to on ``run``."""
        (folder,) = (run.path / "attacks").glob(f"{attack}-*")
        for u in _lines(folder / "units.csv"):
            value, place = float(u["score"]), (str(seed), u["round"], u["cluster"])
            if (u["role"], u["metric"]) == ("floor", "psnr"):
                self.floor.append(value)
            if u["role"] != "attack":
                continue
            if u["metric"] == "identification":
                self.identified.append(value)
            if u["metric"] == "psnr":
                self.psnr.append(value)
                self.best[place] = max(value, self.best.get(place, 0.0))
                self.nothing |= {place} if u["failed"] == "true" else set()

    def note(self, run: Run) -> None:
        """What clients could notice, of the last round, and the utility."""
        last = str(run.spec["rounds"])
        for d in run.table("diagnostics.csv", RUN_DIAGNOSTICS):
            if str(d["round"]) == last and d["name"].startswith("noticed"):
                self.noticed.setdefault(d["name"], []).append(float(d["value"]))
        self.utility.append(float(_lines(run.path / "utility.csv")[-1]["value"]))

    @property
    def cells(self) -> list[str]:
        """Batches read of all, PSNR of their best image, of all images; shares."""
        read = [v for place, v in self.best.items() if place not in self.nothing]
        if not self.psnr:
            return ["-"] * 6
        good = fmean(float(v >= GOOD) for v in self.psnr)
        best = f"{fmean(read):.1f}" if read else "-"
        return [
            f"{len(read)} of {len(self.best)}",
            best,
            f"{fmean(self.psnr):.1f}",
            f"{fmean(self.floor):.1f}",
            f"{good:.2f}",
            f"{fmean(self.identified):.2f}",
        ]


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def planted(way: str, batch: int, *, summed: bool) -> list[tuple[str, dict[str, Any]]]:
    """The wrappers of a run."""
    share = min(0.9, 10 / batch) if way == "feature" else min(0.5, 2 / batch)
    share = min(0.1, 1 / batch) if way == "trap" else share
    how: dict[str, Any] = {"way": way, "label": LABEL, "share": share}
    how |= {"clients": [VICTIM]} if summed else {}
    wrappers = [] if way == "passive" else [("active_server", how)]
    return [*wrappers, *([("secure_sum", {})] if summed else [])]


def measured(
    runs: Path, task: str, net: Mapping[str, Any], way: str, batch: int, seeds: int, *, summed: bool
) -> Cell | str:
    """A cell; or why there is none."""
    cell, attack = Cell(), "gradient_inversion" if way == "passive" else "planted_model"
    params = PASSIVE if way == "passive" else {}
    for seed in range(seeds):
        run = api.train(
            "fedavg",
            task=task,
            params={**SGD, "average": "plain", "batch": batch},
            task_params={**DIGITS, **net},
            rounds=10,
            seed=seed,
            wrappers=planted(way, batch, summed=summed),
            out=runs,
            device="cpu",
            record=Policy(probes=0),  # type: ignore[arg-type]
        )
        cell.note(run)
        try:
            api.attack(run, attack, **params)
        except LeakbenchError as error:
            return str(error)
        cell.add(run, attack, seed)
    return cell


def noticed_line(net: str, way: str, batch: int, cell: Cell) -> str:
    """A line of what clients could notice: planted / usual."""
    told = []
    for name in NOTICED:
        pair = [fmean(cell.noticed[f"noticed_{name}{end}"]) for end in ("", "_usual")]
        told.append(" / ".join(f"{v:.3g}" for v in pair))
    return f"| {net} | {way} | {batch} | {' | '.join(told)} |"


READ = (
    "| net | way | batch | sum | batches read | best image of these, dB | all images, dB | blind,"
    " dB | images of 30 dB | identification | accuracy |",
    "|" + "---|" * 11,
)
SEEN = ("| net | way | batch | loss | update's norm | distance | dead units |", "|" + "---|" * 7)


def tables(
    runs: Path,
    task: str,
    nets: Mapping[str, Mapping[str, Any]],
    cases: Sequence[tuple[str, str]],
    batches: Sequence[int],
    seeds: int,
) -> tuple[list[str], list[str]]:
    """The lines of what was read, and of what could be noticed."""
    read, seen = [*READ], [*SEEN]
    for net, way in cases:
        for batch in batches:
            for summed in (False, True):
                if summed and way == "passive":
                    continue
                cell = measured(runs, task, nets[net], way, batch, seeds, summed=summed)
                if isinstance(cell, str):
                    print(net, way, batch, summed, cell, flush=True)
                    continue
                kind = "sum" if summed else ""
                told = [*cell.cells, f"{fmean(cell.utility):.2f}"]
                read.append(f"| {net} | {way} | {batch} | {kind} | {' | '.join(told)} |")
                print(read[-1], flush=True)
                if cell.noticed and not summed:
                    seen.append(noticed_line(net, way, batch, cell))
                    print(seen[-1], flush=True)
    return read, seen


ABOUT = f"""FedAvg, ten clients of all classes, one step of SGD (0.1) a round, ten rounds; rounds
1, 5 and 10 are attacked, five clients' batches in each (under `secure_sum` client {VICTIM}'s alone,
the others silenced). `class` and `feature` fish for class {LABEL}: a batch without it is not read,
and counts like a blind guess. *Passive* is `gradient_inversion` of real updates of an honest
server, labels given, two clients, round 10. *Best image*: of each batch that was read the
image that came back best, mean over batches. *Accuracy* is after ten rounds, of which an active
server has thrown three away.
"""
NOTE = """## What clients could notice

Planted / usual, in the last round: a client's loss at what it received and at the model that an
honest server would have sent; the norm of its update; how far what it received is from that model,
over its norm, beside how far a round moves it; the share of hidden units that no example of its
batch moves. Means over clients and seeds, without a sum.
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is not there, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--nets", default="", help="of digits; all unless named")
    parser.add_argument("--cifar", action="store_true")
    given: Any = parser.parse_args(argv)
    only = [w for w in given.only.split(",") if w]
    some_nets = [n for n in given.nets.split(",") if n] or [*NETS]
    cases = [c for c in CASES if c[0] in some_nets and (not only or c[1] in only)]
    read, seen = tables(given.runs, "digits", NETS, cases, BATCHES, given.seeds)
    parts = ["## digits\n", "\n".join(read), ""]
    if given.cifar:
        nets = {"mlp_relu": {"model": "mlp_relu", "width": 256}, "lenet": {"model": "lenet"}}
        some = [("mlp_relu", "imprint"), ("mlp_relu", "trap"), ("lenet", "class")]
        more, also = tables(given.runs, "cifar10", nets, some, (4, 16), 1)
        parts += ["## cifar10, one seed\n", "\n".join(more), ""]
        seen += [line.replace("| ", "| cifar10 ", 1) for line in also[2:]]
    if given.file:
        flags = f" --seeds {given.seeds}" + " --cifar" * given.cifar
        flags += f" --only {given.only}" if only else ""
        flags += f" --nets {given.nets}" if given.nets else ""
        command = f"python benchmarks/active_server.py RUNS {given.file}{flags}"
        head = f"# A server that plants models\n\n`{command}`, commit {provenance.commit()}.\n\n"
        text = "\n".join([head + ABOUT, *parts, NOTE, "\n".join(seen)])
        given.file.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
