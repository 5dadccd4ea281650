"""Sound, speech, faces and captions, each once the whole way: train, attack, report.

python benchmarks/modalities.py sound speech faces captions [--runs folder] [--jobs 1]
[--out results/modalities] [--pages folder]     writes OUT/<name>.md, and with --pages the report
of each

What is complete below --runs is not made again. Data are the stand-ins, found as `train`
finds them.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbench import api
from leakbench.attacking import choices
from leakbench.base import jobs, provenance

Params = dict[str, Any]


@dataclass(frozen=True)
class Modality:
    """A task, methods on it, and what reads their messages."""

    task: str
    methods: dict[str, Params]
    attacks: tuple[tuple[str, Params], ...]
    said: str
    rounds: int
    task_params: Params = field(default_factory=dict)


PROTOTYPES: tuple[tuple[str, Params], ...] = (
    ("prototype_leakage", {}),
    ("prototype_averaging", {}),
    ("prototype_centring", {}),
    ("prototype_unmixing", {}),
    ("prototype_from_update", {}),
    ("prototype_picture", {}),
)
FEDHIDE: dict[str, Params] = {
    "fedaws": {},
    "fedgn": {"sigma": 0.3},
    "fedhide": {"alpha": 0.1, "k": 10},
}
MODALITIES = {
    "sound": Modality(
        "spoken-digits",
        {"fedavg": {}, "flea": {}, "fedmix": {}, "feddata": {}},
        (
            ("label_inference", {"source": "message"}),
            ("label_inference", {"source": "update"}),
            ("distance_correlation", {}),
            ("exposure", {}),
            ("reidentification", {}),
            ("context", {"network": "linear"}),
            ("decoder", {"network": "relu", "steps": 200, "epochs": 1}),
        ),
        "FLea's family on log-mel spectrograms of spoken digits, some clients' marked by a whistle:"
        " what the buffers give away of words, of who sent them and of where they were recorded."
        " The inputs behind FedAvg's updates are not solved for: no gradient inversion here works"
        " on sound.",
        rounds=30,
        task_params={"context": "whistle"},
    ),
    "speech": Modality(
        "spoken-speakers",
        FEDHIDE,
        PROTOTYPES,
        "FedHide's family where a client is a voice saying a digit, tested on voices that are no"
        " clients.",
        rounds=60,
        task_params={"width": 4, "dim": 64},
    ),
    "faces": Modality(
        "orl-faces",
        FEDHIDE,
        PROTOTYPES,
        "The same where a client is a face.",
        rounds=60,
        task_params={"width": 16, "dim": 64},
    ),
    "captions": Modality(
        "flickr8k",
        {"fedavg": {}, "fedaa": {"search_steps": 10, "hidden": 64}},
        (
            ("caption_words", {"source": "message"}),
            ("caption_words", {"source": "update"}),
            ("caption_reidentification", {"model": "global"}),
            ("adversarial_examples", {}),
        ),
        "Captions in place of labels: FedAA shares one of them for each client.",
        rounds=15,
    ),
}


def one(modality: Modality, method: str, out: str, *, progress: Any) -> str:
    """Train and attack one method; returns the run's folder."""
    run = api.train(
        method,
        task=modality.task,
        params=modality.methods[method],
        task_params=modality.task_params,
        rounds=modality.rounds,
        device="cpu",
        out=out,
        progress=progress,
    )
    fitting = choices.fitting(run)
    for name, params in modality.attacks:
        if name in fitting:
            try:
                api.attack(run, name, device="cpu", **params)
            except api.UsageError as error:  # of this setting of the attack; the page says it, too
                print(f"{method}: {name} {params}: {error}", flush=True)
    return str(run.path)


def settings(params: Params) -> str:
    """What follows -s on the command line."""
    return "".join(f" -s {shlex.quote(f'{k}={v}')}" for k, v in params.items())


def commands(modality: Modality) -> Iterable[str]:
    """What makes the same from the command line, for the first method."""
    given = {f"task.{k}": v for k, v in modality.task_params.items()}
    for name, params in modality.methods.items():
        of = settings({**params, **given})
        yield f"leakbench train -t {modality.task} -d {name} --rounds {modality.rounds}{of}"
    for name, params in modality.attacks:
        yield f"leakbench attack 'runs/{modality.task}-*' -a {name}{settings(params)}"
    yield f"leakbench report 'runs/{modality.task}-*'"


def span(row: dict[str, Any]) -> str:
    """An estimate with its interval and n."""
    return f"{row['value']:.3g} [{row['low']:.3g}, {row['high']:.3g}] ({row['n']})"


def table(tables: api.Tables) -> Iterable[str]:
    """A line for each method's utility and each number of an attack on it, at the last stage."""
    yield "| method | attack | metric | value [95 %] (n) | floor | control | flags |"
    yield "|---|---|---|---|---|---|---|"
    for row in tables.rows("utility"):
        if row["statistic"] == "final":
            cells = [row["defense"], "-", row["metric"], span(row), f"{row['chance']:.3g}"]
            yield f"| {' | '.join(cells)} | | |"
    last = [r for r in tables.rows("tradeoff") if r["stage"] in ("final", "all")]
    rows = [r for r in last if not r["probe"] and r["attack"] != "cascade"]
    for row in sorted(rows, key=lambda r: (r["attack"], r["metric"], r["defense"])):
        cells = [row["defense"], row["attack"], row["metric"], span(row)]
        cells += [f"{row[k]:.3g}" if row[k] is not None else "-" for k in ("floor", "control")]
        yield f"| {' | '.join([*cells, row['flags'].replace('|', ', ')])} |"


def main(names: list[str], out: str, workers: int, to: Path, pages: Path | None) -> None:
    """Train, attack; write the tables and, where asked, the pages."""
    for name in names:
        modality = MODALITIES[name]
        todo = [jobs.Job(f"{name} {m}", one, (modality, m, out)) for m in modality.methods]
        outcomes = jobs.run(todo, workers=workers)
        for outcome in outcomes:
            if outcome.error:
                raise SystemExit(f"{outcome.name}: {outcome.error}")
        folders = [o.value for o in outcomes if o.value]
        commit, dirty = provenance.source()
        lines = [
            f"# {name.capitalize()}, the whole way",
            "",
            f"`python benchmarks/modalities.py {name}`, commit {commit}"
            f"{' with changes' if dirty else ''}. {modality.said}",
            f"Task {modality.task}, seed 0; a floor is a blind guess, a control the same attack"
            " where nothing is hidden.",
            "",
            *table(api.tables(folders)),
            "",
            "The same by hand:",
            "",
            *(f"    {c}" for c in commands(modality)),
            "",
        ]
        to.mkdir(parents=True, exist_ok=True)
        (to / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")
        print(f"{to / name}.md", flush=True)
        if pages:
            api.report(folders, pages / name, title=f"leakbench: {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=sorted(MODALITIES))
    parser.add_argument("--runs", default="runs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/modalities"))
    parser.add_argument("--pages", type=Path)
    asked = parser.parse_args()
    main(asked.names, asked.runs, asked.jobs, asked.out, asked.pages)
