"""Everything worth measuring on a GPU, the surest first, within a given time.

python benchmarks/gpu.py [results/gpu] [--minutes 25] [--device cuda] [--smoke]

Every part writes its own file when it is done, so that whatever ends the script loses one part.
Images are made up: this is about time and sameness. ``--smoke --device cpu`` tries all of it on a
processor in a minute.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakbench.base import provenance, registry
from leakbench.base.tree import flat
from leakbench.federation import Examples
from leakbench.federation.federation import Federation
from leakbench.federation.task_data import TaskData, one_class_each, padded

Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """Where, and how much."""

    device: str
    smoke: bool
    end: float

    @property
    def over(self) -> bool:
        return time.monotonic() > self.end

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def images(clients: int, each: int, classes: int, *, own_class: bool) -> TaskData:
    """Made-up CIFAR: ``each`` images of a client, of its own class or of all."""
    rng = torch.Generator().manual_seed(0)
    n = clients * each
    y = torch.arange(clients).repeat_interleave(each) if own_class else torch.arange(n) % classes
    x = torch.randint(0, 256, (n, 3, 32, 32), generator=rng, dtype=torch.uint8)
    few = min(n, 200)
    others = torch.randint(0, 256, (2 * few, 3, 32, 32), generator=rng, dtype=torch.uint8)
    train, (test, aux) = Examples(x, y), (Examples(o, y[:few]) for o in others.split(few))
    if own_class:
        return one_class_each(train, test, aux, clients)
    rows, counts = padded(list(torch.arange(n).split(each)))
    return TaskData(train, test, aux, rows, counts, torch.full((clients,), -1))


def federation(
    name: str, task: str, b: Bench, data: TaskData | None = None, **how: Any
) -> Federation:
    """``how``: engine, dtype, and the method's ``params`` and the task's."""
    made = registry.load_plugin("tasks", task).build(how.pop("task_params", {}), task)
    params = {**made.defaults(name), **how.pop("params", {})}
    method = registry.load_plugin("defenses", name).build(params, name)
    how = {"device": b.device, **how}
    return Federation(method, made, data or made.load(), **how)


def seconds(fed: Federation, b: Bench, rounds: int) -> float:
    """Of a round, the median; the first two warm up."""
    fed.begin()
    took = []
    for _ in range(rounds + 2):
        b.wait()
        begun = time.perf_counter()
        fed.step()
        b.wait()
        took.append(time.perf_counter() - begun)
    return statistics.median(took[2:])


def state(fed: Federation, rounds: int) -> dict[str, Tensor]:
    fed.begin()
    for _ in range(rounds):
        fed.step()
    return {k: v.double().cpu() for k, v in flat(fed.snapshot()).items()}


def gap(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    return max(float((a[k] - b[k]).abs().max()) for k in a if a[k].numel())


def sameness(b: Bench) -> Iterator[Row]:
    """Every method, two rounds in float64: this device against the loop on a processor."""
    for name in ("fedavg", "fedhide") if b.smoke else registry.names("defenses"):
        how: Row = {"dtype": torch.float64, "task_params": {"width": 8}}
        slow = state(federation(name, "digits", b, engine="loop", device="cpu", **how), 2)
        fast = federation(name, "digits", b, **how)
        yield {"method": name, "gap": f"{gap(state(fast, 2), slow):.1e}", "ways": fast.phases}


def waiting(b: Bench) -> Iterator[Row]:
    """Does a round wait for the device? The driver says so itself."""
    for name in ("fedavg", "moon") if b.smoke else registry.names("defenses"):
        fed, why = federation(name, "digits", b), "never"
        fed.begin()
        fed.step()
        if b.device == "cuda":
            torch.cuda.set_sync_debug_mode("error")
        try:
            fed.step()
        except RuntimeError as error:
            why = str(error).splitlines()[0]
        if b.device == "cuda":
            torch.cuda.set_sync_debug_mode("default")
        yield {"method": name, "waits": why}


def rounds(b: Bench) -> Iterator[Row]:
    """FedHide's round at its paper's size, FedAvg's and MOON's; 100,000 rounds in hours."""
    models = [("resnet8", 4)] if b.smoke else [("resnet8", 64), ("resnet18", 64)]
    hide = images(100, 20 if b.smoke else 500, 100, own_class=True)
    for model, width in models:
        for dtype in (torch.float32, torch.bfloat16):
            for engine in ("fused", "loop"):
                net = {"model": model, "width": width, "clients": len(hide.counts)}
                how: Row = {"engine": engine, "dtype": dtype, "task_params": net}
                took = seconds(federation("fedhide", "cifar100", b, hide, **how), b, 5)
                yield _row(f"FedHide, {model} ({width})", engine, dtype, took)
    many = images(100, 60 if b.smoke else 500, 10, own_class=False)
    local = {"fraction": 0.05 if b.smoke else 0.2, "steps": 0, "epochs": 1, "batch": 50, "lr": 0.1}
    for dtype in (torch.float32, torch.bfloat16):
        for engine in ("loop", "stacked", "threads"):
            how = {"engine": engine, "dtype": dtype, "params": local}
            net = {"model": "cnn", "width": 8, "clients": len(many.counts), "split": "iid"}
            how["task_params"] = net
            took = seconds(federation("fedavg", "cifar10", b, many, **how), b, 3)
            yield _row("FedAvg, CNN", engine, dtype, took)


def _row(what: str, engine: str, dtype: torch.dtype, took: float) -> Row:
    precision = str(dtype).removeprefix("torch.")
    hours = f"{took * 100_000 / 3600:.1f}"
    row = {"round": what, "engine": engine, "precision": precision, "ms": f"{1e3 * took:.1f}"}
    return {**row, "hours for 100,000": hours}


def going_on(b: Bench) -> Iterator[Row]:
    """Do four rounds end in the same bits as two and two, with deterministic kernels?"""
    torch.use_deterministic_algorithms(True, warn_only=False)
    try:
        for name in ("fedhide", "moon", "scaffold"):
            whole, half = federation(name, "digits", b), federation(name, "digits", b)
            end = state(whole, 4)
            state(half, 2)
            again = federation(name, "digits", b)
            again.restore(half.snapshot())
            again.step()
            again.step()
            found = {k: v.double().cpu() for k, v in flat(again.snapshot()).items()}
            yield {"method": name, "gap": gap(end, found)}
    finally:
        torch.use_deterministic_algorithms(False)


PARTS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "sameness": sameness,
    "waiting": waiting,
    "rounds": rounds,
    "going-on": going_on,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", nargs="?", default="results/gpu", type=Path)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="these parts alone")
    asked = parser.parse_args()
    b = Bench(asked.device, asked.smoke, time.monotonic() + 60 * asked.minutes)
    asked.to.mkdir(parents=True, exist_ok=True)
    for name in asked.only or PARTS:
        part = PARTS[name]
        begun, rows = time.monotonic(), []
        try:
            for row in part(b):
                rows.append(row)
                print(name, *row.values(), flush=True)
                if b.over:
                    rows.append(dict.fromkeys(row, "time was over"))
                    break
        except Exception as error:  # the other parts are worth their time
            print(f"{name} failed: {type(error).__name__}: {error}", flush=True)
            rows.append({"failed": f"{type(error).__name__}: {error}"})
        took = time.monotonic() - begun
        (asked.to / f"{name}.md").write_text(_page(part, rows, b, took), encoding="utf-8")


def _page(part: Callable[[Bench], Iterator[Row]], rows: list[Row], b: Bench, took: float) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(str(row.get(c, "")) for c in columns) + " |")
    where = f"{provenance.device_name(b.device)}, torch {torch.__version__}, {took:.0f} s"
    title = (part.__doc__ or "").splitlines()[0]
    return "\n".join([f"# {title}", "", f"`python benchmarks/gpu.py`, {where}.", "", *lines, ""])


if __name__ == "__main__":
    main()
