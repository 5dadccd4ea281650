"""What run.json says of a run: its spec, its facts, and the command that makes it again."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leakbench.base import provenance, registry
from leakbench.base.files import SEALED_SCHEMA
from leakbench.base.spec import option_text
from leakbench.federation.network import begun
from leakbench.federation.parties import Facts
from leakbench.federation.utility import METRICS
from leakbench.record.policy import Policy
from leakbench.record.runspec import Parts, RunSpec

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation.federation import Federation


def run_described(
    spec: RunSpec, made: Parts, fed: Federation, device: str, origin: Mapping[str, Any]
) -> dict[str, Any]:
    """run.json before the first round, without its status; ``origin``: of ``origin.facts``."""
    from leakbench.federation.evaluate import untaught  # with torch
    from leakbench.record.last_layers import pooled_rounds

    task, facts = made.task, fed.facts
    return {
        "schema": SEALED_SCHEMA,
        "id": spec.folder(),
        "spec": spec.model_dump(mode="json"),
        "method": made.method.display(),
        "hides": made.hides,
        "secrets": sorted(fed.secrets()),
        "distance": made.method.distance,
        "engine": fed.engine,
        "begins": begun(fed.module, fed.own, fed.data.pretrained),
        "utility": {
            "metric": task.metric,
            "better": task.better,
            "chance": task.chance,
            "meaning": METRICS[task.metric].meaning.parameters(),
            "untaught": {k: round(v, 6) for k, v in untaught(fed).items()},
        },
        "facts": facts_told(facts),
        "stages": spec.record.stages(spec.rounds),
        "pooled": pooled_rounds(fed, spec.record, spec.rounds),
        "stand_in": task.stand_in,
        "test_data": digest_of(*fed.data.tested),
        "sent": [],
        "missing": [],
        "files": {},
        "command": command(spec),
        **origin,
        **provenance.provenance(provenance.device_name(device), spec.dtype),
    }


def facts_told(facts: Facts) -> dict[str, Any]:
    """What run.json says of a task's facts; of sound where its inputs are, and of their range."""
    sound = {"sound": asdict(facts.sound)} if facts.sound else {}
    low, high = facts.input_range.low, facts.input_range.high
    lies = {"input_range": {"low": [*low], "high": [*high]}}
    return {
        "clients": facts.clients,
        "classes": facts.classes,
        "dim": facts.dim,
        "shape": list(facts.shape),
        **sound,
        **({} if facts.input_range.plain else lies),
    }


def digest_of(*tensors: Tensor) -> str:
    """SHA-256 of tensors' bytes, by which the gate knows that test data are the same."""
    sha = hashlib.sha256()
    for t in tensors:
        sha.update(t.detach().cpu().double().contiguous().numpy().tobytes())
    return sha.hexdigest()


def command(spec: RunSpec) -> str:
    """The command that makes this run again, from anywhere; "" of what was made in Python."""
    methods = [("tasks", spec.task.name), ("defenses", spec.defense.name)]
    found = registry.options([*methods, *(("wrappers", w.name) for w in spec.wrappers)])
    if found is None:
        return ""
    words = ["leakbench", "train", "-t", spec.task.name, "-d", spec.defense.name]
    words += [*_settings("", spec.defense.params), *_settings("task.", spec.task.params)]
    for w in spec.wrappers:
        words += ["-w", w.name, *_settings(f"{w.name}.", w.params)]
    usual = Policy().parameters()
    policy = {
        k: v for k, v in spec.record.parameters().items() if k != "name" and v != usual.get(k)
    }
    words += _settings("record.", policy)
    for option in ("rounds", "engine", "dtype"):
        words += [f"--{option}", str(getattr(spec, option))]
    words += ["--as", spec.name] if spec.name else []
    words += ["--seeds", str(spec.seed), "--record", spec.record.name]
    return shlex.join([*words, *found])


def _settings(prefix: str, params: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in params.items():
        words += ["-s", f"{prefix}{name}={option_text(value)}"]
    return words
