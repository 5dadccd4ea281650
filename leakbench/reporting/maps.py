"""Maps for a report: prototypes in the plane, who was named for whom, who holds what. Read off the
runs' artifacts, bounded in cost.

They open the truth, as scoring does, and hold numbers and places only, never an example.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from leakbench.attacking import guessing
from leakbench.attacking.guess import Guess
from leakbench.base.streams import shared
from leakbench.metrics import prototype_pairs
from leakbench.metrics.prototypes import likeness, named
from leakbench.record.columns import Row
from leakbench.record.folders import AttackFolder, Run
from leakbench.reporting.curves import END, chosen, in_words
from leakbench.reporting.data import Embedding, Map, Naming, Place2, Split
from leakbench.results.cascade import ANY, KINDS
from leakbench.results.configurations import Configuration, group
from leakbench.results.keys import params, setting_key
from leakbench.scoring.truth import Truth

TASKS = 4  # of whose prototypes there are maps
PLACED = 150  # clients in one of them
METRIC = "p_leak"
GAP = 0.1  # a narrower one is no reason
WIDEST = "the widest gap between its paper's own attack and the worst case"
LEAST = "the live defense setting that leaks least"


def of(runs: Sequence[Run], tradeoff: Sequence[Row]) -> list[Map]:
    """For at most ``TASKS`` tasks two settings' prototypes; for every task its split."""
    configs = {setting_key(c.columns): c for c in group(runs) if c.runs}
    out: list[Map] = []
    for why, rows in _worth_it(tradeoff, configs):
        out += _of_setting(configs[setting_key(rows[0])], why, rows)
    labels = {c.label: c.runs[0] for c in reversed(configs.values())}
    return out + [Split(label, s) for label, run in reversed(labels.items()) if (s := _split(run))]


def _worth_it(
    tradeoff: Sequence[Row], configs: Mapping[str, Configuration]
) -> Iterator[tuple[str, list[Row]]]:
    """(why, its rows) of the settings worth a map: at most two a task, chosen by the table's
    numbers, dead ones never.
    """
    tasks: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in tradeoff:
        marks = set(row["flags"].split("|"))
        if (
            row["metric"] == METRIC
            and not row["probe"]
            and row["stage"] in END
            and not marks & {"dead_run", "control_failed"}
        ):
            tasks[row["task"]][setting_key(row)].append(row)
    for task in sorted(tasks)[:TASKS]:
        hiding = {
            k: rows
            for k, rows in tasks[task].items()
            if k in configs and configs[k].hides and _worst(rows) is not None
        }
        gaps = {
            k: (_worst(rows) or 0.0) - max(r["value"] for r in rows if r["rung"] == "paper")
            for k, rows in hiding.items()
            if _own(rows)
        }
        picked: dict[str, str] = {}
        if gaps and max(gaps.values()) > GAP:
            picked[max(gaps, key=lambda k: (gaps[k], k))] = WIDEST
        if hiding:
            picked.setdefault(min(hiding, key=lambda k: (_worst(hiding[k]), k)), LEAST)
        for key, why in picked.items():
            yield why, hiding[key]


def _worst(rows: Sequence[Row]) -> float | None:
    return next((float(r["value"]) for r in rows if r["attack"] == ANY), None)


def _own(rows: Sequence[Row]) -> bool:
    return any(r["rung"] == "paper" for r in rows)


def _of_setting(config: Configuration, why: str, rows: Sequence[Row]) -> Iterator[Map]:
    made = [r for r in rows if r["attack"] not in KINDS]
    for row in chosen(made):
        by = in_words(
            row, [params(r["attack_params"]) for r in made if r["attack"] == row["attack"]]
        )
        names = [
            _naming(run, folder, row)
            for run in config.runs
            if (folder := _folder(run, row)) and _recorded(run)
        ]
        if names:
            pairs: dict[tuple[int, int], float] = defaultdict(float)
            for found, _ in names:
                for pair, share in found.items():
                    pairs[pair] += share
            told = tuple((owner, who, share) for (owner, who), share in sorted(pairs.items()))
            count = int(config.one.meta["facts"]["clients"])
            yield Naming(
                setting_key(config.columns),
                why,
                by,
                row["rung"],
                count,
                told,
                sum(failed for _, failed in names),
            )
    run, best = config.runs[0], chosen(made)[-1]
    folder = _folder(run, best)
    if folder is not None and _recorded(run):
        by = in_words(
            best, [params(r["attack_params"]) for r in made if r["attack"] == best["attack"]]
        )
        yield replace(
            _embedding(run, folder, best), setting=setting_key(config.columns), why=why, by=by
        )


def _folder(run: Run, row: Row) -> AttackFolder | None:
    return next(
        (
            a
            for a in run.attacks
            if a.done and (a.name, a.params) == (row["attack"], row["attack_params"])
        ),
        None,
    )


def _recorded(run: Run) -> bool:
    """Does the folder hold every client's true prototype after the last round? (One that was passed
    on may lack the truth.)
    """
    names, last = run.meta["files"], int(run.spec["rounds"])
    if "truth/data.safetensors" not in names:
        return False
    truth = Truth(run)
    return last in truth.rounds and "prototype" in truth.round(last).get("everyone", {})


def _guesses(folder: AttackFolder, row: Row) -> list[Guess]:
    """What the attack made of each client's messages after the last round."""
    folder.check("guess.safetensors")
    found = [
        g.guess
        for g in guessing.saved(folder.path)
        if g.role == "attack" and g.stage == row["stage"] and g.guess.probe is None
    ]
    return [g for g in found if g.failed or "prototype" in g.tensors]


def _naming(run: Run, folder: AttackFolder, row: Row) -> tuple[dict[tuple[int, int], float], int]:
    truth, out, failed = Truth(run), dict[tuple[int, int], float](), 0
    for guess in _guesses(folder, row):
        answer = truth.answer(guess)
        if guess.failed:
            failed += 1
            continue
        shares = named(
            likeness(
                guess.tensors["prototype"].double().cpu(), answer.prototypes(), answer.distance
            )
        )
        for who in shares.nonzero().flatten().tolist():
            out[answer.client, who] = float(shares[who])
    return out, failed


def _embedding(run: Run, folder: AttackFolder, row: Row) -> Embedding:
    pairs = prototype_pairs.pairs(run)
    order = shared(0, "maps").permutation(run.id, len(pairs.clients))[:PLACED].sort().values
    clients = pairs.clients[order].tolist()
    made = {
        int(g.unit.split("/")[1]): g.tensors["prototype"].double().cpu()
        for g in _guesses(folder, row)
        if not g.failed
    }
    with_guess = [c for c in clients if c in made]
    stack = [
        pairs.true[order],
        pairs.proxy[order],
        *([torch.stack([made[c] for c in with_guess])] if with_guess else []),
    ]
    true, proxy, recovered = _sections(
        prototype_pairs.tsne_positions(torch.cat(stack)), len(clients)
    )
    where = dict(zip(with_guess, recovered, strict=True))
    return Embedding(
        setting="",
        why="",
        by="",
        seed=run.seed,
        clients=tuple(clients),
        true=tuple(true),
        shared=tuple(proxy),
        recovered=tuple(where.get(c) for c in clients),
        left_out=len(pairs.clients) - len(clients),
    )


def _sections(at: Tensor, n: int) -> tuple[list[Place2], list[Place2], list[Place2]]:
    pairs: list[Place2] = [(float(x), float(y)) for x, y in at]
    return pairs[:n], pairs[n : 2 * n], pairs[2 * n :]


def _split(run: Run) -> tuple[tuple[int, ...], ...]:
    if "truth/data.safetensors" not in run.meta["files"]:
        return ()
    tree, _ = run.tree("truth/data.safetensors")
    if not {"y", "rows", "counts"} <= set(tree):  # an excerpt holds them only where they fit
        return ()
    table = counted(tree["y"], tree["rows"], tree["counts"], int(run.meta["facts"]["classes"]))
    return tuple(tuple(int(n) for n in row) for row in table)


def counted(y: Tensor, rows: Tensor, held: Tensor, classes: int) -> Tensor:
    """(C, K) int64: examples of class k that client c holds, of labels y (n,), rows (C, n_max)
    padded and their counts ``held`` (C,).
    """
    return torch.stack(
        [y[r[:n]].bincount(minlength=classes) for r, n in zip(rows, held.tolist(), strict=True)]
    )
