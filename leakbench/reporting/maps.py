"""Maps for a report: prototypes in the plane, who was named for whom, who holds what.

They are read off the runs' artifacts, bounded in cost.

They open the truth, as scoring does, and hold numbers and places only, never an example.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from leakbench.attacking import guessing
from leakbench.attacking.guess import Guess
from leakbench.base.streams import shared
from leakbench.judging.leaders import leaks_least
from leakbench.judging.question import Judged, Question
from leakbench.metrics import prototype_pairs
from leakbench.metrics.prototypes import P_LEAK, nearness, share_named
from leakbench.record.folders import AttackFolder, Run
from leakbench.reporting.curves import attacker_in_words, chosen_numbers
from leakbench.reporting.data import Embedding, Map, Naming, Position, Split
from leakbench.results import front as _front
from leakbench.results.number import ANY, END, Number
from leakbench.results.settings import Setting
from leakbench.scoring.truth import Truth

TASKS = 4  # of whose prototypes there are maps
PLACED = 150  # clients in one of them
CELLS = 100_000  # clients times classes: nobody reads a larger split, and of 8,631 it takes 7 GB
GAP = 0.1  # a narrower one is no reason
WIDEST = "the widest gap between its paper's own attack and the worst case"
LEAST = "the live defense setting that leaks least"
ALIKE = "one of {} that leak least, alike"
LOWEST = "the lowest worst case of the live defense settings; verdict: {}"


def maps_of(settings: Sequence[Setting], questions: Sequence[Question]) -> list[Map]:
    """For at most ``TASKS`` tasks two settings' prototypes; for every task its split.

    ``questions``: what was found of the settings, which says who may be praised.
    """
    out: list[Map] = []
    for why, setting, numbers in _worth_it(settings, questions):
        out += _of_setting(setting, why, numbers)
    first = {s.task: s.runs[0] for s in reversed(settings) if s.runs}
    for task, run in reversed(first.items()):
        counts = _split(run)
        out += [Split(task=task, counts=counts)] if counts else []
    return out


def _worth_it(
    settings: Sequence[Setting], questions: Sequence[Question]
) -> Iterator[tuple[str, Setting, list[Number]]]:
    """(why, setting, its numbers) of the settings worth a map.

    At most two a task, chosen by their numbers; never dead ones.
    """
    tasks: dict[str, dict[str, list[Number]]] = defaultdict(dict)
    for s in settings:
        found = [n for n in s.numbers if n.metric == P_LEAK.name and not n.probe]
        found = [n for n in found if n.stage in END and _front.fits_front(n)]
        if found:
            tasks[s.task][s.key] = found
    known = {s.key: s for s in settings}
    for task in sorted(tasks)[:TASKS]:
        hiding = {k: ns for k, ns in tasks[task].items() if not known[k].reference and _worst(ns)}
        gaps = {k: gap for k, ns in hiding.items() if (gap := _gap(ns)) is not None}
        picked: dict[str, str] = {}
        if gaps and max(gaps.values()) > GAP:
            picked[max(gaps, key=lambda k: (gaps[k], k))] = WIDEST
        if hiding:
            judged = _judged(questions, task, hiding)
            least = min(hiding, key=lambda k: (_reached(hiding[k]), k))
            best = [j.setting.key for j in leaks_least(judged.values())]
            picked.setdefault(best[0] if best else least, _praised(least, best, judged))
        for key, why in picked.items():
            yield why, known[key], hiding[key]


def _judged(questions: Sequence[Question], task: str, keys: Container[str]) -> dict[str, Judged]:
    """What was found of these settings' prototypes after training."""
    mine = [q for q in questions if q.task == task and q.metric == P_LEAK.name]
    asked = [j for q in mine if q.stage == "final" and not q.probe for j in q.judged]
    return {j.setting.key: j for j in asked if j.setting.key in keys}


def _praised(least: str, best: Sequence[str], judged: Mapping[str, Judged]) -> str:
    """Why a setting with the lowest worst case is shown: praise only where it may be praised."""
    if best:
        return LEAST if len(best) == 1 else ALIKE.format(len(best))
    return LOWEST.format(judged[least].verdict.word if least in judged else "not attacked")


def _worst(numbers: Sequence[Number]) -> Number | None:
    return next((n for n in numbers if n.attacker.name == ANY), None)


def _reached(numbers: Sequence[Number]) -> float:
    worst = _worst(numbers)
    return worst.leak if worst else 0.0


def _gap(numbers: Sequence[Number]) -> float | None:
    """Between the paper's own attack and the worst case; None where the former did not run."""
    own = [n.leak for n in numbers if n.attacker.rung == "paper"]
    return _reached(numbers) - max(own) if own else None


def _of_setting(setting: Setting, why: str, numbers: Sequence[Number]) -> Iterator[Map]:
    made = [n for n in numbers if not n.attacker.made]
    every, runs = [n.attacker for n in made], [r for r in setting.runs if _recorded(r)]
    for number in chosen_numbers(made):
        folders = [(r, f) for r in runs if (f := _folder(r, number))]
        names = [_naming(run, folder, number) for run, folder in folders]
        if names:
            pairs: dict[tuple[int, int], float] = defaultdict(float)
            for found, _ in names:
                for pair, share in found.items():
                    pairs[pair] += share
            yield Naming(
                setting=setting.id,
                why=why,
                by=attacker_in_words(number.attacker, every),
                rung=number.attacker.rung,
                clients=int(setting.one.meta["facts"]["clients"]),
                named=tuple((*pair, share) for pair, share in sorted(pairs.items())),
                failed=sum(failed for _, failed in names),
            )
    best = chosen_numbers(made)[-1]
    folder = _folder(setting.runs[0], best) if setting.runs[0] in runs else None
    if folder is not None:
        found_ = _embedding(setting.runs[0], folder, best)
        right, failed = _naming(setting.runs[0], folder, best)
        tried = failed + len({owner for owner, _ in right})
        named_right = math.fsum(share for (owner, who), share in right.items() if owner == who)
        about: dict[str, Any] = {"setting": setting.id, "why": why, "right": named_right}
        about |= {"by": attacker_in_words(best.attacker, every), "tried": tried}
        yield found_.model_copy(update=about)


def _folder(run: Run, number: Number) -> AttackFolder | None:
    found = [a for a in run.attacks if a.done and (a.name, a.params) == number.attacker.key]
    return found[0] if found else None


def _recorded(run: Run) -> bool:
    """Does the folder hold every client's true prototype after the last round?

    One that was passed on may lack the truth.
    """
    names, last = run.meta["files"], int(run.spec["rounds"])
    if "truth/data.safetensors" not in names:
        return False
    truth = Truth(run)
    return last in truth.rounds and "prototype" in truth.round(last).get("everyone", {})


def _guesses(folder: AttackFolder, number: Number) -> list[Guess]:
    """What the attack made of each client's messages after the last round."""
    folder.check("guess.safetensors")
    found = [
        g.guess
        for g in guessing.saved(folder.path)
        if g.role == "attack" and g.stage == number.stage and g.guess.probe is None
    ]
    return [g for g in found if g.failed or "prototype" in g.tensors]


def _naming(
    run: Run, folder: AttackFolder, number: Number
) -> tuple[dict[tuple[int, int], float], int]:
    truth, out, failed = Truth(run), dict[tuple[int, int], float](), 0
    for guess in _guesses(folder, number):
        answer = truth.answer(guess)
        if guess.failed:
            failed += 1
            continue
        shares = share_named(nearness(guess, answer))
        for who in shares.nonzero().flatten().tolist():
            out[answer.client, who] = float(shares[who])
    return out, failed


def _embedding(run: Run, folder: AttackFolder, number: Number) -> Embedding:
    pairs = prototype_pairs.pairs(run)
    drawn = shared(0, "maps").permutation(run.id, len(pairs.clients))[:PLACED]
    order = drawn.sort().values
    clients = pairs.clients[order].tolist()
    made = {}
    for g in _guesses(folder, number):
        if not g.failed:
            made[int(g.unit.split("/")[1])] = g.tensors["prototype"].double().cpu()
    with_guess = [c for c in clients if c in made]
    stack = [pairs.true[order], pairs.proxy[order]]
    if with_guess:
        stack.append(torch.stack([made[c] for c in with_guess]))
    positions = prototype_pairs.tsne_positions(torch.cat(stack))
    true, proxy, recovered = _sections(positions, len(clients))
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


def _sections(at: Tensor, n: int) -> tuple[list[Position], list[Position], list[Position]]:
    pairs: list[Position] = [(float(x), float(y)) for x, y in at]
    return pairs[:n], pairs[n : 2 * n], pairs[2 * n :]


def _split(run: Run) -> tuple[tuple[int, ...], ...]:
    facts = run.meta["facts"]
    large = int(facts["clients"]) * int(facts["classes"]) > CELLS
    if large or "truth/data.safetensors" not in run.meta["files"]:
        return ()
    tree, _ = run.tree("truth/data.safetensors")
    if not {"y", "rows", "counts"} <= set(tree):  # an excerpt holds them only where they fit
        return ()
    table = counted(tree["y"], tree["rows"], tree["counts"], int(run.meta["facts"]["classes"]))
    return tuple(tuple(row) for row in table.tolist())


def counted(y: Tensor, rows: Tensor, held: Tensor, classes: int) -> Tensor:
    """(C, K) int64: examples of class k that client c holds.

    They are of labels y (n,), rows (C, n_max) padded and their counts ``held`` (C,).
    """
    return torch.stack(
        [y[r[:n]].bincount(minlength=classes) for r, n in zip(rows, held.tolist(), strict=True)]
    )
