"""The fastest way to train several steps, where it was measured on this machine and kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base import provenance, terminal
from leakbench.base.errors import BrokenFile
from leakbench.base.files import read_json, write_json
from leakbench.base.lazy import torch
from leakbench.federation.engines import LocalTraining
from leakbench.federation.task_data import TaskData

if TYPE_CHECKING:
    from torch import nn


def ways_table() -> Path:
    """$LEAKBENCH_WAYS, or `ways.json` in leakbench's folder of the user's cache."""
    chosen = os.environ.get("LEAKBENCH_WAYS")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("leakbench") / "ways.json"


@dataclass(frozen=True)
class Work:
    """A round's training: all that its time depends on, whoever takes part."""

    loss: str
    network: str  # its layers and their sizes, in twelve hexadecimal digits
    weights: int
    clients: int  # in a round
    examples: int  # of the client that has most
    local: str  # how many steps
    numbers: int  # that a step reads at most
    precision: str
    machine: str  # device, threads, torch

    @classmethod
    def of(cls, local: LocalTraining, clients: int, data: TaskData) -> Work:
        """What the training ``local`` asks of so many clients."""
        runner, method = local.runner, local.runner.method
        most = max(data.sizes)
        steps, epochs = f"{method.steps} steps", f"{method.epochs} epochs"
        device = provenance.device_name(data.counts.device.type)
        return cls(
            f"{type(method).__name__}.{local.name}",
            _digest(runner.module),
            sum(v.numel() for v in runner.module.parameters()),
            clients,
            most,
            f"{steps if method.steps else epochs} of {method.batch}",
            min(method.batch, most) * data.train.stored[0].numel(),
            str(runner.low or runner.dtype).removeprefix("torch."),
            f"{device}, {torch.get_num_threads()} threads, torch {torch.__version__}",
        )

    @property
    def key(self) -> str:
        """As the table has it, to be read by people, too."""
        return (
            f"{self.loss}; network {self.network} of {self.weights} weights; {self.clients} clients"
            f" of at most {self.examples} examples; {self.local}; {self.numbers} numbers a step;"
            f" {self.precision}; {self.machine}"
        )


def fastest(work: Work) -> str:
    """The way that was the fastest, or "" if nobody measured it here."""
    return str(_read(str(ways_table())).get(work.key, {}).get("way", ""))


def keep(work: Work, way: str, seconds: Mapping[str, float]) -> None:
    """Into the table: ``way``, and the ``seconds`` a round that each took."""
    path = ways_table()
    _read.cache_clear()
    found = dict(_read(str(path)))
    found[work.key] = {"way": way, "seconds": dict(seconds)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, found)
    _read.cache_clear()


@lru_cache(maxsize=1)
def _read(path: str) -> Mapping[str, Any]:
    if not Path(path).exists():
        return {}
    try:
        found = read_json(Path(path))
        if all(isinstance(v, dict) for v in found.values()):
            return dict(found)
        raise BrokenFile(f"{path} is no table of ways.")
    except (BrokenFile, AttributeError):
        terminal.say(f"{path} cannot be read and is passed over: run leakbench tune again.")
        return {}


def _digest(module: nn.Module) -> str:
    layers = [f"{name} {m.extra_repr()} {type(m).__name__}" for name, m in module.named_modules()]
    sizes = [f"{k} {tuple(v.shape)}" for k, v in module.named_parameters()]
    return hashlib.sha256("\n".join([*layers, *sizes]).encode()).hexdigest()[:12]
