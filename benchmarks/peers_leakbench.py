"""A round of FedAvg in leakbench: a contender of ``peers.py``. Also what all contenders are given.

argv[3] is the engine; argv[4] "recorded" or "bare"; argv[5] a precision, if not the setting's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from peers_setting import WIDTH, Desk, Setting

from leakbench.federation.batches import batch_plan
from leakbench.federation.federation import Federation
from leakbench.federation.selection import select
from leakbench.record.recorder import Recorder
from leakbench.record.runspec import RunSpec, make_spec, parts

BATCH, LR = 50, 0.1
MARK = "spec.json"  # in the setting's folder: the run, as leakbench spells it


def spec(task: str, clients: int, fraction: float, batch: int, rounds: int, dtype: str) -> RunSpec:
    """FedAvg, one epoch of SGD in every client."""
    given = {"split": "iid", "clients": clients, "model": "cnn", "width": WIDTH}
    if task == "cifar10":
        given["utility"] = "accuracy"
    else:
        given["mean_local_size"] = 100
    params = {"fraction": fraction, "epochs": 1, "steps": 0, "batch": batch, "lr": LR, "decay": 1.0}
    more = {"optimizer": "sgd"}
    how = {"task": task, "task_params": given, "rounds": rounds, "dtype": dtype}
    return make_spec("fedavg", params={**params, **more}, **how)


def setting(of: RunSpec, rounds: int, threads: int) -> Setting:
    """What leakbench would do in the first ``rounds`` rounds: who takes part, and their batches."""
    made = parts(of)
    how = {"seed": of.seed, "engine": "loop", "dtype": getattr(torch, of.dtype)}
    fed = Federation(made.method, made.task, made.task.load(), **how)
    method, where = made.method, {"seed": of.seed}
    chosen, rows = [], []
    for t in range(1, rounds + 1):
        who = select(method, fed.facts.clients, t=t, **where)
        # The server's word and what clients prepare come before the training.
        amount = {"batch": method.batch, "steps": method.steps, "epochs": method.epochs}
        todo = batch_plan(fed.data, who, round=t, phase=2, **amount, **where)
        if todo.even is None:
            raise SystemExit("clients have different numbers of batches: choose others")
        chosen.append(torch.tensor(who))
        rows.append(todo.even)
    train, test = fed.data.train, fed.data.test
    x, x_test = (e.stored if e.stored.dtype == torch.uint8 else e.x for e in (train, test))
    start = [fed.model[k] for k, _ in fed.module.named_parameters()]
    data = (x, train.y, x_test, test.y, torch.stack(chosen), torch.stack(rows))
    return Setting(*data, start=start, lr=method.lr, threads=threads)


def main(folder: str, name: str, engine: str, recorded: str, dtype: str = "") -> None:
    told = json.loads((Path(folder) / MARK).read_text("utf-8"))
    torch.set_num_threads(told["threads"])
    of = RunSpec.build(told["spec"], "run")
    made = parts(of)
    recorder = None
    if recorded == "recorded":
        recorder = Recorder(Path(folder) / "run" / name, of.rounds, of.record)
    how = {"seed": of.seed, "engine": engine, "recorder": recorder}
    how["dtype"] = getattr(torch, dtype or of.dtype)
    fed = Federation(made.method, made.task, made.task.load(), **how)
    fed.begin()
    desk = Desk(folder, name, f"torch {torch.__version__}")
    for _ in range(told["measured"]):
        desk.wait()
        fed.step()
        desk.done()
    desk.end([fed.model[k] for k, _ in fed.module.named_parameters()])


if __name__ == "__main__":
    main(*sys.argv[1:6])
