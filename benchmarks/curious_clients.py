"""What one client, and half of the clients together, read of the others, beside the server.

python benchmarks/curious_clients.py RUNS [results/curious-clients.md] [--seeds 3] [--rounds 6]

Runs on `digits` whose every message is kept: eight clients with about 40 examples each, of unlike
classes, one step of SGD in a round and all in each round (FedHide: its own ten clients of one digit
each). Runs lie in RUNS and are trained where they are not there yet. With a file the table is also
written there, with command and commit.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from leakbench import api
from leakbench.attacking import ThreatModel, View
from leakbench.base import UsageError, provenance
from leakbench.record.folders import Run, load
from leakbench.record.recording import Recording
from leakbench.scoring.truth import Truth

TASK = {"split": "dir", "split_param": 0.5, "clients": 8, "mean_local_size": 40}
PLAIN = {"fraction": 1.0, "average": "plain"}
STEP = {**PLAIN, "steps": 1, "epochs": 0, "optimizer": "sgd", "lr": 0.1}
LINEAR = {"network": "linear", "epochs": 10, "steps": 300}
POOLED = {"source": "pooled"}
UPDATES = (("membership", {}, "membership_auc"), ("label_inference", POOLED, "label_overlap"))
Attacks = Sequence[tuple[str, dict[str, Any], str]]
# As the table calls it: the method, its parameters, attacks with what is scored. No attack reads
# `data` as they are: of FedData it is counted here what comes as it was.
METHODS: dict[str, tuple[str, dict[str, Any], Attacks]] = {
    "FedAvg": ("fedavg", STEP, UPDATES),
    "FLea": ("flea", STEP, (("decoder", LINEAR, "psnr"), ("decoder", LINEAR, "identification"))),
    "FedData": ("feddata", {**STEP, "share": 0.2}, (("", {}, "psnr"),)),
    "FedMix": ("fedmix", STEP, (("mean_inversion", {"groups": 2, "steps": 20}, "psnr"),)),
    "FedHide": ("fedhide", PLAIN, (("prototype_averaging", {}, "p_leak"),)),
    "FedProto": ("fedproto", PLAIN, (("label_inference", {"source": "message"}, "label_overlap"),)),
    "FedGen": ("fedgen", {**STEP, "begin": 1, "generator_steps": 2}, UPDATES),
}
WAYS = ("server", "one", "half")


@dataclass(frozen=True)
class Cell:
    """What one observer reads, over seeds: or why it reads nothing."""

    value: float
    floor: float
    control: float
    units: int
    why: str = ""


def observer(way: str, clients: int) -> str:
    """Who it is of so many clients."""
    half = "clients/" + ",".join(map(str, range(clients // 2)))
    return {"server": "server", "one": "client/0", "half": half}[way]


def measured(
    runs: Sequence[Run], attack: str, params: dict[str, Any], metric: str, way: str
) -> Cell:
    """The mean over runs of the number at the last stage."""
    found = []
    for run in runs:
        who = observer(way, Recording(run).facts.clients)
        if not attack:
            found.append(shared(run, who))
            continue
        try:
            rows = api.attack(run, attack, observer=who, device="cpu", **params).rows
        except UsageError as error:
            return Cell(math.nan, math.nan, math.nan, 0, str(error).partition(": ")[2])
        row = [r for r in rows if r["metric"] == metric][-1]
        found.append(Cell(row["value"], row["floor"], row["control"], row["n"]))
    each = torch.tensor([(c.value, c.floor, c.control) for c in found], dtype=torch.float64)
    value, floor, control = each.mean(0).tolist()
    return Cell(value, floor, control, units=sum(c.units for c in found))


def shared(run: Run, who: str) -> Cell:
    """FedData's examples of others as they come, beside the mean auxiliary one: PSNR in dB."""
    recording = Recording(run)
    seen = View(ThreatModel(observer=who, kinds=("data",), knows=("aux_data",)), recording, 1)
    mean, got, blind = seen.know("aux_data").x.mean(0), [], []
    for m in seen.of_others(seen.messages("data")):
        tree = Truth(run).round(0)["client"][m.sender.removeprefix("client/")]
        true = next(e["inputs"]["data"] for e in tree.values() if "inputs" in e)
        got += [_psnr(m.payload[i], true[i]) for i in range(len(true))]
        blind += [_psnr(mean, one) for one in true]
    if not got:
        return Cell(math.nan, math.nan, math.nan, 0, "nothing was handed on")
    value = sum(got) / len(got)
    return Cell(value, sum(blind) / len(blind), value, len(got))


def _psnr(x: torch.Tensor, true: torch.Tensor) -> float:
    error = float((x.double() - true.double()).square().mean())
    return 100.0 if error <= 1e-10 else -10 * math.log10(error)


def table(out: Path, seeds: int, rounds: int) -> list[str]:
    """The lines of the page's table."""
    lines = [
        "| method | attack | metric | server | client 0 | half of the clients |",
        "|---|---|---|---|---|---|",
    ]
    for title, (method, params, attacks) in METHODS.items():
        task = {} if method == "fedhide" else TASK
        how: dict[str, Any] = {"task_params": task, "rounds": rounds, "record": "all"}
        runs = [
            load(api.train(method, params=params, seed=s, out=out, device="cpu", **how).path)
            for s in range(seeds)
        ]
        for attack, settings, metric in attacks:
            cells = [measured(runs, attack, settings, metric, way) for way in WAYS]
            said = " | ".join(map(_said, cells))
            lines.append(f"| {title} | `{attack or 'as it came'}` | {metric} | {said} |")
            print(lines[-1], flush=True)
    return lines


def _said(cell: Cell) -> str:
    if cell.why:
        return f"nothing: {cell.why.split('; what fits')[0].rstrip('.')}"
    return f"**{cell.value:.3g}** ({cell.floor:.3g} to {cell.control:.3g}, n {cell.units})"


def main() -> None:
    """Train what is not there, attack, print."""
    given = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given.add_argument("runs", type=Path)
    given.add_argument("page", type=Path, nargs="?")
    given.add_argument("--seeds", type=int, default=3)
    given.add_argument("--rounds", type=int, default=6)
    told = given.parse_args()
    lines = table(told.runs, told.seeds, told.rounds)
    if told.page:
        head = [
            "# What curious clients read of the others",
            "",
            f"Digits, {told.seeds} seeds, {told.rounds} rounds, every message kept. In brackets the"
            " blind guess and the control, and how many units in all seeds. Half of the clients:"
            " the first half by number, who tell each other. The server's last stage is the last"
            " round, a client's the round before, since nothing of the last one is handed on.",
            "",
        ]
        where = provenance.provenance("cpu", "float32")
        tail = [
            "",
            f"`python benchmarks/curious_clients.py RUNS {told.page} --seeds {told.seeds} --rounds"
            f" {told.rounds}`, leakbench {where['versions']['leakbench']}, commit"
            f" {where['commit']}.",
        ]
        told.page.write_text("\n".join([*head, *lines, *tail]) + "\n")


if __name__ == "__main__":
    main()
