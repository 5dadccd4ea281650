"""What repairs of the prototype methods cost and what the attacks that know them still find.

Each setting is trained on digit-pairs at the task's own values, then read by every attack on
prototypes that is installed and fits. What is complete below --runs is not made again.

python benchmarks/repairs.py [file.md] [--runs folder] [--jobs 2] [--rounds n]
[--seeds 3]     prints the table; with a file it is also written there, with command and commit
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from leakbench import api, unit
from leakbench.attacking import choices
from leakbench.base import jobs, provenance, registry, shared
from leakbench.base.files import read_tree
from leakbench.models.networks import initialise
from leakbench.record.recording import Recording

# Attack -> what heads its column. One that is not installed, or fits no setting, has no column.
ATTACKS = {
    "prototype_leakage": "newest proxy",
    "prototype_averaging": "averaged",
    "prototype_centring": "centred",
    "prototype_unmixing": "un-mixed",
    "prototype_from_update": "from updates",
}
HIDE, FAINT = {"alpha": 0.1, "k": 5}, {"alpha": 0.01, "k": 10}
LAYER = {**HIDE, "stays": "layer"}
PROXIES = {"kinds": ["prototype"]}


@dataclass(frozen=True)
class Setting:
    """A method, what covers it on the wire, and what that is meant to repair."""

    title: str
    defense: str
    repairs: str
    params: dict[str, Any] = field(default_factory=dict)
    wrappers: tuple[tuple[str, dict[str, Any]], ...] = ()


def _rounded(number: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    return (("quantise", {**PROXIES, "number": number}),)


def _noisy(noise: float) -> tuple[tuple[str, dict[str, Any]], ...]:
    return (("clip_noise", {**PROXIES, "clip": 1.0, "noise": noise}),)


SUMMED = (("secure_sum", {}),)
BIASLESS = (("without_bias", {}),)
SETTINGS = (
    Setting("FedAwS", "fedaws", "a reference: true prototypes are sent"),
    Setting("FedHide(0.1, 5)", "fedhide", "-", HIDE),
    Setting("FedHide(0.01, 10)", "fedhide", "-", FAINT),
    Setting("FedGN(0.5)", "fedgn", "-", {"sigma": 0.5}),
    Setting("FedCS(0.1)", "fedcs", "-", {"cos_theta": 0.1}),
    Setting("FedGN(0.5), one draw", "fedgn_once", "averaging", {"sigma": 0.5}),
    Setting("FedCS(0.1), one draw", "fedcs_once", "averaging", {"cos_theta": 0.1}),
    Setting("FedHide(0.01, 10), float16", "fedhide", "un-mixing", FAINT, _rounded("float16")),
    Setting("FedHide(0.01, 10), int8", "fedhide", "un-mixing", FAINT, _rounded("int8")),
    Setting("FedHide(0.01, 10), int4", "fedhide", "un-mixing", FAINT, _rounded("int4")),
    Setting("FedHide(0.1, 5), int8", "fedhide", "un-mixing", HIDE, _rounded("int8")),
    Setting("FedHide(0.01, 10), noise 0.001", "fedhide", "un-mixing", FAINT, _noisy(0.001)),
    Setting("FedHide(0.01, 10), noise 0.01", "fedhide", "un-mixing", FAINT, _noisy(0.01)),
    Setting("FedHide(0.1, 5), noise 0.001", "fedhide", "un-mixing", HIDE, _noisy(0.001)),
    Setting("FedHide(0.01 to 0.1, 5)", "fedhide_random", "un-mixing", {**HIDE, "alpha_low": 0.01}),
    Setting("FedHide(0.1, 5), no bias sent", "fedhide", "updates", HIDE, BIASLESS),
    Setting("FedHide(0.1, 5), own bias", "fedhide_own_layer", "updates", {**HIDE, "stays": "bias"}),
    Setting("FedHide(0.1, 5), own last layer", "fedhide_own_layer", "updates", LAYER),
    Setting("own prototypes, L_pos alone", "own_prototypes", "all attacks on proxies"),
    Setting("fixed random prototypes", "fixed_prototypes", "all attacks on proxies"),
    Setting("fixed, updates summed", "fixed_prototypes", "proxies and updates", {}, SUMMED),
)
MEANING = (
    "digit-pairs (100 clients, 100 classes), {rounds}, seeds: {seeds}. Accuracy on the test",
    "set; P_leak: share of clients named (Eq. 17; by luck 0.01), by an attacker who takes the",
    "newest proxy, averages what was sent, or knows the method. With 95 % intervals and, in",
    "parentheses, n: test images, and clients over all seeds. A dash: the attack finds nothing of",
    "its kind in what is sent. The attacks are those on the unrepaired methods: nobody looked for",
    "one that knows a repair better.",
)


def one(setting: Setting, seed: int, out: str, rounds: int | None, *, progress: Any) -> str:
    """Train and attack one seed of a setting; returns the run's folder."""
    run = api.train(
        setting.defense,
        task="digit-pairs",
        params=setting.params,
        wrappers=setting.wrappers,
        rounds=rounds,
        seed=seed,
        device="cpu",
        out=out,
        progress=progress,
    )
    fitting = choices.fitting(run)
    for name in (a for a in ATTACKS if a in fitting):
        api.attack(run, name, device="cpu")
    return str(run.path)


def span(row: dict[str, Any] | None) -> str:
    """An estimate with its interval, and n where the row counts units."""
    if row is None:
        return "-"
    return f"{row['value']:.2f} [{row['low']:.2f}, {row['high']:.2f}] ({row['n']})"


def line(setting: Setting, folders: list[str], shown: list[str]) -> str:
    """The setting's line of the table."""
    tables = api.tables(folders)
    (utility,) = [r for r in tables.rows("utility") if r["statistic"] == "final"]
    found = {
        r["attack"]: r
        for r in tables.rows("tradeoff")
        if r["metric"] == "p_leak" and r["stage"] in ("final", "all") and not r["probe"]
    }
    cells = [span(utility), *(span(found.get(name)) for name in shown), setting.repairs]
    return f"| {setting.title} | {' | '.join(cells)} |"


def below(folder: str) -> dict[int, tuple[int, int]]:
    """{round: (clients named, clients)} of a run whose clients keep the last layer.

    By a reader who sees the layer below alone: its bias's step is what the last layer's step would
    be, seen through that layer, and the layer that all began with is public.
    """
    run = api.load(folder)
    recording = Recording(run)
    module = recording.parts.task.module(recording.parts.task.facts(recording.parts.method))
    seed = recording.spec.seed
    first = initialise(module, shared(seed, "init", torch.float32))["head.weight"].double()
    found: dict[int, tuple[int, int]] = {}
    for m in recording.transcript:
        if m.kind == "update" and m.probe is None and not m.part:
            truth = read_tree(run.path / "truth" / f"round-{m.round:06d}.safetensors")[0]
            true = unit(truth["everyone"]["prototype"].double())
            guess = true @ (first @ m.payload["second.0.bias"].double())
            named, n = found.get(m.round, (0, 0))
            right = int(guess.argmax()) == int(m.sender.removeprefix("client/"))
            found[m.round] = (named + right, n + 1)
    return found


def told_below(folders: list[str]) -> str:
    """The same of several runs, in a sentence."""
    each = [below(f) for f in folders]

    def of_round(t: int) -> str:
        counts = [e[t] for e in each]
        named, n = sum(c[0] for c in counts), sum(c[1] for c in counts)
        return f"{named} of {n} in round {t}"

    parts = [of_round(t) for t in each[0]]
    return (
        "With its own last layer a client's update still shows that layer's step, as the layer"
        f" below felt it. A reader who takes the public first numbers for it names"
        f" {', '.join(parts)}."
    )


def main(to: Path | None, out: str, workers: int, rounds: int | None, seeds: int) -> None:
    """Train, attack, print; and write where asked."""
    todo = [
        jobs.Job(f"{s.title} seed {seed}", one, (s, seed, out, rounds))
        for seed in range(seeds)
        for s in SETTINGS
    ]
    outcomes = jobs.run(todo, workers=workers)
    for outcome in outcomes:
        if outcome.error:
            print(f"{outcome.name}: {outcome.error}", file=sys.stderr)
    shown = [a for a in ATTACKS if a in registry.names("attacks")]
    after = ""
    heads = ["method", "accuracy", *(f"P_leak, {ATTACKS[a]}" for a in shown), "meant to repair"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for i, setting in enumerate(SETTINGS):
        made = [outcomes[i + len(SETTINGS) * s].value for s in range(seeds)]
        folders = [m for m in made if m]
        lines += [line(setting, folders, shown)] if folders else []
        if folders and setting.params.get("stays") == "layer":
            after = told_below(folders)
    lines += ["", after]
    print("\n".join(lines))
    if to:
        commit, dirty = provenance.source()
        command = f"`python benchmarks/repairs.py {to} --seeds {seeds}`"
        said = f"{command}, commit {commit}{' with changes' if dirty else ''}."
        many = "1000 rounds" if rounds is None else f"{rounds} rounds"
        meaning = [m.format(rounds=many, seeds=seeds) for m in MEANING]
        text = ["# Repairs of the prototype methods", "", said, "", *meaning, "", *lines, ""]
        to.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", nargs="?", type=Path)
    parser.add_argument("--runs", default="runs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    main(asked.to, asked.runs, asked.jobs, asked.rounds, asked.seeds)
