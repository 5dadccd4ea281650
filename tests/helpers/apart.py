"""Runs federations whose parties live in processes of their own; a script, so that nothing has run
before it forks.

    python -m helpers.apart JSON OUT      JSON: {"cases": [{"name", "defense", "params",
    "wrappers"}], "rounds", "plugins": folder or ""}

Every party's process is forked before any function of a method has run anywhere, and gets and gives
bytes alone: a tensor that is not in a parcel cannot be seen. Writes OUT/<name>.safetensors, the
state in which each federation ended.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from leakbench.base.files import write_tree
from leakbench.federation import federation as core
from leakbench.federation.parties import Batch
from leakbench.federation.party_runner import PartyRunner

fork = multiprocessing.get_context("fork")


def parcel(value: Any) -> bytes:
    """Anything made of dicts, lists, sets, tensors and plain values, as bytes: its shape as JSON,
    its tensors as safetensors.
    """
    tensors: dict[str, torch.Tensor] = {}

    def shape(v: Any) -> Any:
        if isinstance(v, torch.Tensor):
            tensors[str(len(tensors))] = v.detach().contiguous().clone()
            return ["tensor", str(len(tensors) - 1)]
        if isinstance(v, dict):
            return ["dict", [[k, shape(x)] for k, x in v.items()]]
        if isinstance(v, list | tuple | set):
            return ["set" if isinstance(v, set) else "list", [shape(x) for x in v]]
        return ["plain", v]

    head = json.dumps(shape(value)).encode()
    return len(head).to_bytes(8, "big") + head + (save(tensors) if tensors else b"")


def opened(data: bytes) -> Any:
    """Inverse of ``parcel``."""
    size = int.from_bytes(data[:8], "big")
    head, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    # Cloned: BLAS sums unaligned memory in another order.
    tensors = {k: v.clone() for k, v in load(rest).items()} if rest else {}

    def value(node: Any) -> Any:
        kind, inside = node
        if kind == "tensor":
            return tensors[inside]
        if kind == "dict":
            return {k: value(x) for k, x in inside}
        if kind == "plain":
            return inside
        return (set if kind == "set" else list)(value(x) for x in inside)

    return value(head)


def office(runner: PartyRunner, pipe: Connection) -> None:
    """One party's process: opens a parcel, runs a function with a runner of its own, sends a parcel
    back.
    """
    torch.set_num_threads(1)
    while True:
        what, given = opened(pipe.recv_bytes())
        if what == "close":
            return
        if "data" in given:
            batch = Batch(**given.pop("data"))
            given["data"] = lambda batch=batch: batch
        if "batches" in given:
            given["batches"] = [Batch(**b) for b in given["batches"]]
        pipe.send_bytes(parcel(getattr(runner, what)(**given)))


class Apart(PartyRunner):
    """A runner that sends everything to the party's own process; itself it runs nothing."""

    def __init__(self, *public: Any):
        super().__init__(*public)
        self.offices = {}
        for party in (-1, *range(self.facts.clients)):
            here, there = fork.Pipe()
            process = fork.Process(target=office, args=(PartyRunner(*public), there), daemon=True)
            process.start()
            self.offices[party] = (here, process)

    def _ask(self, party: int, what: str, given: dict[str, Any]) -> Any:
        pipe = self.offices[party][0]
        pipe.send_bytes(parcel([what, given]))
        return opened(pipe.recv_bytes())

    def server(self, name: str, t: int, tree: Any, means: Any) -> Any:
        sent, new, each, slower = self._ask(
            -1, "server", {"name": name, "t": t, "tree": tree, "means": means}
        )
        return sent, new, each, slower

    def client(
        self, name: str, t: int, each: Any, shared: Any, data: Any = None, log: Any = None
    ) -> Any:
        examples = {"data": vars(data())} if data else {}
        return self._ask(
            int(each["index"]),
            "client",
            {"name": name, "t": t, "each": each, "shared": shared, **examples},
        )

    def train(
        self,
        name: str,
        t: int,
        each: Any,
        shared: Any,
        batches: Any,
        *,
        path: str = "",
        log: Any = None,
    ) -> Any:
        parts = {
            "name": name,
            "t": t,
            "each": each,
            "shared": shared,
            "batches": [vars(b) for b in batches],
            "path": path,
        }
        return self._ask(int(each["index"]), "train", parts)

    def close(self) -> None:
        for pipe, process in self.offices.values():
            pipe.send_bytes(parcel(["close", {}]))
            process.join()


def build(case: dict[str, Any]) -> core.Federation:
    """The federation that a case describes, for here and for there."""
    from helpers.federations import federation, wrapper

    wraps = [wrapper(n, **p) for n, p in case.get("wrappers", [])]
    given = {"wrappers": wraps, "seed": 3, "clients": case.get("clients", 10)}
    return federation(case["defense"], "loop", **given, **case.get("params", {}))


def plug(folder: str) -> None:
    """Make the methods in ``folder`` known."""
    if folder:
        import defenses

        defenses.__path__ = [*defenses.__path__, folder]


def one(case: dict[str, Any], rounds: int, out: str) -> None:
    """Run one case apart and save how it ended."""
    from helpers.federations import run

    core.PartyRunner = Apart  # type: ignore[misc]
    fed = run(build(case), rounds)
    write_tree(
        Path(out) / f"{case['name']}.safetensors",
        fed.snapshot(),
        {"processes": len(fed.runner.offices), "pid": os.getpid()},
    )
    fed.runner.close()  # type: ignore[attr-defined]


def main() -> int:
    """A process for each case, which forks those of its parties."""
    from helpers.federations import first_digits

    torch.set_num_threads(1)
    job = json.loads(sys.argv[1])
    plug(job["plugins"])
    for clients in {c.get("clients", 10) for c in job["cases"]}:
        first_digits(clients)  # once for all
    failed = 0
    for case in job["cases"]:
        process = fork.Process(target=one, args=(case, job["rounds"], sys.argv[2]))
        process.start()
        process.join()
        failed += process.exitcode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
