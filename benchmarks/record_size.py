"""How large the record of a full run becomes, from one round of each kind and how many there are.

Rounds are of one kind where the policy keeps the same of them. One of each is run with its own
number, and its files are weighed; none is trained towards. FLea's setting trains two epochs here in
place of ten: what is sent and kept is as large.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from leakbench.federation.federation import Federation
from leakbench.record import last_layers
from leakbench.record.budget import fitted, predicted, tried
from leakbench.record.policy import FIRST
from leakbench.record.recorder import Recorder
from leakbench.record.runspec import RunSpec, make_spec, parts

QUA = {"split": "qua", "split_param": 3, "clients": 500, "model": "mobilenetv2", "width": 32}
FEW = {"steps": 0, "epochs": 2}
FULL: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "FedHide, CIFAR-100, ResNet-8 (64)",
        {"defense": "fedhide", "task": "cifar100", "task_params": {"model": "resnet8"}}
        | {"rounds": 20_000},
    ),
    (
        "FedAvg, CIFAR-10, FLea's setting",
        {"defense": "fedavg", "task": "cifar10", "rounds": 100, "params": FEW}
        | {"task_params": {**QUA, "utility": "accuracy"}},
    ),
    (
        "FLea, CIFAR-10, its own setting",
        {"defense": "flea", "task": "cifar10", "rounds": 100, "params": FEW}
        | {"task_params": {**QUA, "utility": "accuracy"}},
    ),
)


def size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def kinds(fed: Federation, policy: Any, rounds: int) -> dict[int, tuple[bool, ...]]:
    """Of each round, what the policy decides about everything that may be kept."""
    sizes = []
    for (kind, sender, _), (_, messages, total, _) in fed.traffic.totals.items():
        sizes.append((kind, total // messages, sender == "client"))
    turns, out = last_layers.turns(fed), {}
    for t in range(1, rounds + 1):
        how = {"fraction": fed.method.fraction, "times": t}
        found = [policy.keeps(k, n, t, rounds, uplink=up, **how) for k, n, up in sizes]
        found += [policy.audits(t, rounds), policy.surveys(t, rounds)]
        out[t] = (*found, policy.keeps_last_layers(t, rounds, turns))
    return out


def weighed(spec: RunSpec) -> tuple[int, int, int, int]:
    """Bytes of the record, bytes predicted, rounds with a file, bytes of an audited round."""
    made = parts(spec)
    data = made.task.load()

    def make(recorder: Recorder | None = None) -> Federation:
        how: dict[str, Any] = {"seed": spec.seed, "engine": spec.engine, "recorder": recorder}
        return Federation(made.method, made.task, data, **how)

    policy = fitted(spec.record, make, spec.rounds, print)
    found = kinds(tried(make), policy, spec.rounds)
    many, one = Counter(found.values()), {kind: t for t, kind in reversed(found.items())}
    with tempfile.TemporaryDirectory() as made_here:
        folder = Path(made_here)
        fed = make(Recorder(folder, spec.rounds, policy))
        fed.begin()
        total, audited, files = size(folder), 0, 0
        for kind, t in sorted(one.items(), key=lambda item: item[1]):
            before, fed.t = size(folder), t - 1
            for sent in fed.traffic.totals.values():  # as if the rounds between had been
                sent[0] = max(sent[0], min(t - 1, FIRST + 1))
            fed.step()
            print(t, many[kind], size(folder) - before, flush=True)
            grown = size(folder) - before
            total += grown * many[kind]
            files += many[kind] if grown else 0
            audited = max(audited, grown)
        before, fed.t = size(folder), spec.rounds
        fed.end()
        total += size(folder) - before
    return total, predicted(policy, tried(make), spec.rounds), files, audited


def recorded(cases: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """A line for each of ``cases``: a title and what ``make_spec`` is told."""
    yield "Transcript, control, known and truth; private data and the last model come on top.\n"
    yield "| run | rounds | with a file | MiB of an audited one | MiB of the record | predicted |"
    yield "|---|---|---|---|---|---|"
    for title, given in cases:
        print(title, flush=True)
        spec = make_spec(**given)
        total, before, files, audited = weighed(spec)
        sizes = [f"{n / 1024**2:.0f}" for n in (audited, total, before)]
        yield f"| {title} | {spec.rounds:,} | {files:,} | {' | '.join(sizes)} |"
