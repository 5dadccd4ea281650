"""Our inversion engine and the package `breaching` side by side, on the same gradients.

    python benchmarks/inversion.py speed [file.md]
        PSNR over evaluations; images an hour at equal PSNR, one victim and 16 (64 on a GPU)
    python benchmarks/inversion.py sides [file.md]
        how many victims side by side pay
    python benchmarks/inversion.py engines [file.md]
        every engine at equal processor time, ten seeds of images and weights; LeakPro's, too, where
        it can be imported
    python benchmarks/inversion.py others [file.md]
        the package's other attacks beside the two that can be chosen

Images are CIFAR-100's where LEAKBENCH_DATA holds them, else scikit-learn's digits; nets are
untrained, labels given, updates of one step. Engines take turns victim by victim, so that what else
runs on the machine meets all alike; times are of the processor, with wall time beside them.
"""

from __future__ import annotations

import copy
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch
from leakpro_inversion import LEAKPRO, has_leakpro, leakpro_images
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional as F

from attacks import _updates
from attacks._inversion import breaching, check, engines, signed_adam
from attacks._inversion.ends import measured
from attacks._inversion.stack import Stack
from attacks._inversion.victims import Candidate, Victim
from attacks.gradient_inversion import GradientInversion
from leakbench.attacking import View
from leakbench.attacking.transcript import Transcript
from leakbench.base.streams import Rng
from leakbench.data import image_sets
from leakbench.models.networks import MODELS, initialise
from leakbench.scoring.image_distances import psnr
from leakbench.statistics.intervals import pool

OURS = "signed_adam"
PACKAGES = ("invertinggradients", "modern")
OTHERS = {  # with a number of steps
    "invertinggradients": 150,
    "modern": 150,
    "wei": 15,
    "seethroughgradients": 150,
    "deepleakage": 15,
    "tag": 150,
}
BUDGETS = (50, 100, 200)
AIM = 200  # evaluations of the package, whose PSNR ours is to reach
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MANY = 64 if DEVICE == "cuda" else 16
CURVES = (("lenet", 12, 1), ("cnn", 8, 1))
ALONE = 2  # victims of a curve
ABREAST = (("lenet", 12, 1), ("cnn", 8, 1), ("resnet8", 16, 1), ("resnet18", 64, 1))
SIDES = (1, 4, 16, 64)
MOST = 2_000_000 if DEVICE == "cpu" else 10**12  # weights beyond which two sides are enough
# Net, width, batch, steps of `auto`.
ROWS = (
    ("lenet", 12, 1, 200),
    ("cnn", 8, 1, 200),
    ("lenet", 12, 4, 300),
    ("lenet", 12, 8, 200),
    ("lenet", 12, 16, 200),
    ("cnn", 8, 4, 200),
    ("resnet8", 16, 1, 150),
    ("resnet8", 16, 4, 150),
    ("resnet18", 64, 1, 100),
)
SEEDS = range(10)


@dataclass(frozen=True)
class How:
    """The settings that the searches read."""

    steps: int
    restarts: int = 1
    total_variation: float = GradientInversion.model_fields["total_variation"].default
    side_by_side: int = 0
    package: str = ""


@dataclass
class Spent:
    """What an engine took and found."""

    processor: float  # seconds
    wall: float
    found: list[float]  # PSNR of each image, dB


@cache
def pictures(seed: int) -> tuple[Tensor, Tensor, int]:
    """Test images on [0, 1] in a drawn order, their labels, how many labels there are."""
    if image_sets.found("cifar100"):
        _, (raw, y) = image_sets.load_images("cifar100")
        x, many = raw.float() / 255, 100
    else:
        digits = load_digits()
        x = torch.tensor(digits.images).float()[:, None] / 16
        y, many = torch.tensor(digits.target), 10
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    return x[order], y[order], many


def victims(
    name: str, width: int, batch: int, count: int, seed: int = 0
) -> tuple[list[Victim], list[Tensor]]:
    """Updates of one step of an untrained net, and the images behind each."""
    x, y, many = pictures(seed)
    net = MODELS[name](tuple(x.shape[1:]), many, width)
    net.load_state_dict(initialise(net, Rng(seed, "x", torch.tensor(0), torch.float32)))
    net = net.to(DEVICE)
    said = Transcript(net, F.cross_entropy, shape=tuple(x.shape[1:]), batch=batch, lr=0.1)
    truth = []
    for v in range(count):
        part = slice(v * batch, (v + 1) * batch)
        loss = F.cross_entropy(net(x[part].to(DEVICE)), y[part].to(DEVICE))
        slopes = torch.autograd.grad(loss, list(net.parameters()))
        update = [-0.1 * g for g in slopes]
        said.add("update", update, sender=f"client/{v}", labels=y[part])
        truth.append(x[part])
    view = View(GradientInversion(message="update").threat, said, 1)
    behind = _updates.shortest(view, probe=False, most=1)
    return [Victim(view, b, b.labels, {}, (), i) for i, b in enumerate(behind)], truth


def search(
    engine: str, some: Sequence[Victim], truth: Sequence[Tensor], how: How
) -> list[list[Candidate]]:
    """Candidates of ``some`` victims by one of our engines or of a package's attacks."""
    dice = torch.Generator().manual_seed(0)
    if engine in LEAKPRO:
        return [[by_leakpro(engine, v, x, how)] for v, x in zip(some, truth, strict=True)]
    if engine in PACKAGES:
        return breaching.search(some, replace(how, package=engine), dice)
    return engines.search(some, how, engine, dice)


def by_leakpro(engine: str, victim: Victim, true: Tensor, how: How) -> Candidate:
    """Where its search ended, which makes the update of the ``true`` images itself."""
    replay = victim.replay(torch.float32)
    net = copy.deepcopy(replay.module)
    net.load_state_dict(replay.inbox["model"], strict=False)
    x = leakpro_images(engine, net, true, victim.labels, how.steps)
    return measured(victim, x, {}, engine, 0)


def timed(engine: str, some: Sequence[Victim], truth: Sequence[Tensor], how: How) -> Spent:
    """One search of ``some`` victims, timed; kept is what the attack keeps."""
    wall, processor = time.perf_counter(), time.process_time()
    found = search(engine, some, truth, how)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    spent = Spent(time.process_time() - processor, time.perf_counter() - wall, [])
    for victim, candidates, true in zip(some, found, truth, strict=True):
        spent.found += matched(check.judge(victim, candidates, how).best.x, true)
    return spent


def matched(found: Tensor, true: Tensor) -> list[float]:
    """PSNR (dB) of each image of a batch that may be in another order."""
    from scipy.optimize import linear_sum_assignment

    x = found.clamp(0, 1).float().cpu()
    table = (x[:, None] - true[None]).square().flatten(2).mean(2)
    rows, columns = linear_sum_assignment(table.nan_to_num(nan=1e9).numpy())
    return psnr(x[rows], true[columns]).tolist()


def together(parts: Sequence[Spent]) -> Spent:
    """The sum of several."""
    found = [f for p in parts for f in p.found]
    return Spent(sum(p.processor for p in parts), sum(p.wall for p in parts), found)


def turns(makers: dict[str, Callable[[int], Spent]], count: int) -> dict[str, Spent]:
    """What each maker spends on ``count`` pieces of work, taking turns."""
    parts: dict[str, list[Spent]] = {name: [] for name in makers}
    for i in range(count):
        for name, make in makers.items():
            parts[name].append(make(i))
    return {name: together(p) for name, p in parts.items()}


def curve(case: tuple[str, int, int], count: int) -> tuple[list[str], dict[str, list[Spent]]]:
    """Rows of PSNR over evaluations; and what every engine spent at each budget."""
    some, truth = victims(*case, count)
    names = (*PACKAGES, OURS)
    spent: dict[str, list[Spent]] = {n: [] for n in names}
    for budget in BUDGETS:
        how = How(budget)

        def one(name: str, how: How = how) -> Callable[[int], Spent]:
            return lambda i: timed(name, some[i : i + 1], truth[i : i + 1], how)

        got = turns({n: one(n) for n in names}, count)
        for n in names:
            spent[n].append(got[n])
    title = f"{case[0]}, batch {case[2]}"
    rows = []
    for n in names:
        cells = [f"{statistics.fmean(s.found):.1f}" for s in spent[n]]
        each = 1e3 * spent[n][-1].processor / BUDGETS[-1] / count
        label = "ours" if n == OURS else n
        rows.append(f"| {title} | {label} | " + " | ".join(cells) + f" | {each:.1f} |")
    return rows, spent


def reached(
    engine: str, aim: float, spent: Sequence[Spent], make: Callable[[str, int], Spent]
) -> tuple[int, bool]:
    """The smallest budget tried whose mean PSNR is ``aim`` at least; was there one?

    Those of the curve, and one halfway below the first that is enough.
    """
    for budget, s in zip(BUDGETS, spent, strict=True):
        if statistics.fmean(s.found) >= aim:
            below = max((b for b in BUDGETS if b < budget), default=0)
            middle = (below + budget) // 2
            less = statistics.fmean(make(engine, middle).found) >= aim
            return middle if less else budget, True
    return BUDGETS[-1], False


def rates(case: tuple[str, int, int], spent: dict[str, list[Spent]], count: int) -> list[str]:
    """Rows of images an hour at the PSNR of the package's better attack after AIM evaluations."""
    at = BUDGETS.index(AIM)
    rival = max(PACKAGES, key=lambda n: statistics.fmean(spent[n][at].found))
    aim = statistics.fmean(spent[rival][at].found)

    def make(engine: str, budget: int) -> Spent:
        some, truth = victims(*case, count)
        parts = []
        for i in range(count):
            parts.append(timed(engine, some[i : i + 1], truth[i : i + 1], How(budget)))
        return together(parts)

    theirs, _ = reached(rival, aim, spent[rival], make)
    budget, there = reached(OURS, aim, spent[OURS], make)
    rows = []
    for many in (1, MANY):
        got = raced(victims(*case, max(many, count)), rival, (theirs, budget), many)
        images = len(got["ours"].found)
        hour = {k: 3600 * images / s.processor for k, s in got.items()}
        level = {k: statistics.fmean(s.found) for k, s in got.items()}
        gain = got["package"].processor / got["ours"].processor
        wall = got["package"].wall / got["ours"].wall
        short = "" if there else " (not reached)"
        rows.append(
            f"| {case[0]}, batch {case[2]} | {many} | {rival}, {theirs} | {level['package']:.1f} |"
            f" {hour['package']:.0f} | {budget}{short} | {level['ours']:.1f} | {hour['ours']:.0f} |"
            f" {gain:.1f} | {wall:.1f} |"
        )
    return rows


def raced(
    made: tuple[list[Victim], list[Tensor]], rival: str, budgets: tuple[int, int], many: int
) -> dict[str, Spent]:
    """The package, and ours with ``many`` side by side, on the same victims.

    One at a time in turns; of many the package has one half before ours, and the other after.
    """
    some, truth = made
    theirs, budget = budgets

    def alone(i: int) -> Spent:
        return timed(rival, some[i : i + 1], truth[i : i + 1], How(theirs))

    def ours(i: int) -> Spent:
        return timed(OURS, some[i : i + many], truth[i : i + many], How(budget, side_by_side=many))

    if many == 1:
        return turns({"package": alone, "ours": ours}, len(some))
    first = [alone(i) for i in range(many // 2)]
    mine = ours(0)
    rest = [alone(i) for i in range(many // 2, many)]
    return {"package": together([*first, *rest]), "ours": mine}


def abreast(case: tuple[str, int, int], laps: int = 3) -> str:
    """A row: milliseconds of a step and victim, by how many go side by side."""
    net = victims(*case, 1)[0][0].replay(torch.float32).module
    weights = sum(p.numel() for p in net.parameters())
    small = weights < 100_000
    most = 64 if small else 16
    if weights > MOST:
        most = 4
    sides = [s for s in SIDES if s <= most]
    some, _ = victims(*case, max(sides))
    best = dict.fromkeys(sides, math.inf)
    for _ in range(laps if small else 1):
        for s in sides:
            best[s] = min(best[s], step(some[:s], 8 if small else 2))
    cells = [f"{best[s]:.1f} ({best[1] / best[s]:.2f})" if s in best else "-" for s in SIDES]
    return f"| {case[0]}, width {case[1]} | {weights:,} | " + " | ".join(cells) + " |"


def step(some: Sequence[Victim], steps: int) -> float:
    """Milliseconds of a step and victim, searched side by side."""
    stack = Stack(some, torch.float32)
    dice = torch.Generator().manual_seed(0)
    x = torch.stack([signed_adam.patterned(v.shape, dice) for v in some]).to(DEVICE)
    signed_adam.descend(stack, x, {}, steps=1, weight=0.1, box=True)
    clock = time.perf_counter if DEVICE == "cuda" else time.process_time
    begun = clock()
    ended, _, _ = signed_adam.descend(stack, x, {}, steps=steps, weight=0.1, box=True)
    ended.sum().item()  # waits for the device
    return 1e3 * (clock() - begun) / steps / len(some)


def speed() -> list[str]:
    lines = ["# Image attacks: our engine and the package, speed", "", *stated("speed"), ""]
    lines += ["## PSNR over evaluations", ""]
    lines += [
        "Mean PSNR in dB of the kept images; every budget is a search of its own, as the rate"
    ]
    lines += ["falls to nothing at its end. Last column: processor, ms an evaluation.", ""]
    lines += ["| net | engine | " + " | ".join(map(str, BUDGETS)) + " | ms |"]
    lines += ["|" + "---|" * (len(BUDGETS) + 3)]
    hours: list[str] = []
    for case in CURVES:
        rows, spent = curve(case, ALONE)
        lines += rows
        print(*rows, sep="\n", flush=True)
        hours += rates(case, spent, ALONE)
        print(*hours[-2:], sep="\n", flush=True)
    lines += ["", "## Images an hour at equal PSNR", ""]
    lines += ["What both need to reach the PSNR that the package's better attack has after"]
    lines += [f"{AIM} evaluations, one victim after another and {MANY} side by side (the package"]
    lines += [
        "one after another). An hour of one processor; the last columns are package / ours.",
        "",
    ]
    lines += [
        "| net | victims | package, evaluations | dB | images an hour | ours, evaluations |"
        " dB | images an hour | gain, processor | gain, wall |",
        "|" + "---|" * 10,
    ]
    lines += hours
    return lines


def sides() -> list[str]:
    lines = ["# Image attacks: victims side by side", "", *stated("sides"), ""]
    of = "wall time" if DEVICE == "cuda" else "processor"
    lines += [
        f"Milliseconds ({of}) a step and victim, the least of up to three runs; in brackets how",
        "many times faster than one at a time. It is where MOST in",
        "`attacks/_inversion/engines.py` come from.",
        "",
    ]
    lines += ["| net | weights | " + " | ".join(map(str, SIDES)) + " |"]
    lines += ["|" + "---|" * (len(SIDES) + 2)]
    for case in ABREAST:
        lines.append(abreast(case))
        print(lines[-1], flush=True)
    return lines


def grey(true: Sequence[Tensor]) -> list[float]:
    """PSNR of an image of 0.5 for each."""
    return [float(p) for x in true for p in psnr(torch.full_like(x, 0.5), x)]


def table() -> list[str]:
    lines = ["# Image attacks: every engine at equal processor time", "", *stated("engines"), ""]
    lines += ["`auto` has one start and as many steps as said; the others have as many as take the"]
    lines += ["same time of the processor (seconds a victim in brackets). Mean PSNR in dB over ten"]
    lines += ["seeds of images and weights, with its 95 % interval. Grey: an image of 0.5.", ""]
    theirs = LEAKPRO if has_leakpro() else ()
    names = ("lbfgs", *PACKAGES, *theirs, "auto")
    lines += ["| net, batch | steps | victims | grey | " + " | ".join(names) + " |"]
    lines += ["|" + "---|" * (len(names) + 4)]
    for *case, steps in ROWS:
        lines.append(row(tuple(case), names, steps))
        print(lines[-1], flush=True)
    return lines


def row(case: tuple[str, int, int], names: Sequence[str], steps: int) -> str:
    """A net and batch size: every engine's PSNR and what it took."""
    count = 1
    scores: dict[str, dict[int, list[float]]] = {n: {} for n in ("grey", *names)}
    took: dict[str, float] = dict.fromkeys(names, 0.0)
    for seed in SEEDS:
        some, truth = victims(*case, count, seed)
        auto = timed("auto", some, truth, How(steps))
        for name in names:
            got = auto
            if name != "auto":
                many = affordable(name, some, truth, auto.processor)
                got = timed(name, some, truth, How(many))
            scores[name][seed] = got.found
            took[name] += got.processor / count / len(SEEDS)
        scores["grey"][seed] = grey(truth)
    cells = []
    for name in ("grey", *names):
        runs = {}
        for seed, found in scores[name].items():
            images = [f"{seed}/{i}" for i in range(len(found))]
            batches = [f"{seed}/{i // case[2]}" for i in range(len(found))]
            runs[seed] = (found, images, batches)
        e = pool(runs, share=False, low=-math.inf, high=math.inf, unit="image")
        cell = f"{e.value:.1f} [{e.low:.1f}, {e.high:.1f}]"
        cells.append(cell if name == "grey" else f"{cell} ({took[name]:.1f})")
    return f"| {case[0]}, {case[2]} | {steps} | {count * len(SEEDS)} | " + " | ".join(cells) + " |"


def others() -> list[str]:
    """The package's other attacks, labels given, without a total variation."""
    lines = ["# Image attacks: the package's other attacks", "", *stated("others"), ""]
    lines += ["PSNR in dB of one image a net, or the mean of a batch of four (evaluations in"]
    lines += ["brackets; a step of L-BFGS has up to 20). None is offered that wins nowhere.", ""]
    lines += ["| net, batch | " + " | ".join(OTHERS) + " |", "|" + "---|" * (len(OTHERS) + 1)]
    for case in (("lenet", 12, 1), ("lenet", 12, 4), ("cnn", 8, 1), ("resnet8", 16, 1)):
        some, truth = victims(*case, 1, 1)
        cells = []
        for name, steps in OTHERS.items():
            how, seen = How(steps, package=name), [0]
            found = breaching.search(
                some, how, torch.Generator().manual_seed(0), lambda _, seen=seen: add(seen)
            )
            best = check.judge(some[0], found[0], how).best
            level = statistics.fmean(matched(best.x, truth[0]))
            cells.append(f"{level:.1f} ({seen[0]})")
        lines.append(f"| {case[0]}, {case[2]} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def add(seen: list[int]) -> None:
    """One more."""
    seen[0] += 1


def affordable(name: str, some: Sequence[Victim], truth: Sequence[Tensor], seconds: float) -> int:
    """How many steps an engine has for so many seconds, by what 10 and 40 steps take."""
    few, more = (timed(name, some, truth, How(n)).processor for n in (10, 40))
    each = max((more - few) / 30, few / 100)
    return max(10 + int((seconds - few) / each), 10)


def stated(part: str) -> list[str]:
    """What a result has to say of itself."""
    images = "CIFAR-100" if pictures(0)[2] == 100 else "scikit-learn digits"
    cores = len(os.sched_getaffinity(0))
    return [
        f"Made by `python benchmarks/inversion.py {part}`: {images}, untrained nets, labels given,",
        f"updates of one step; {DEVICE}, {cores} cores, {torch.get_num_threads()} threads, torch"
        f" {torch.__version__}. Other work ran on the machine: trust ratios of processor time.",
    ]


def main(part: str = "speed", target: str = "") -> None:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    small, truth = victims("lenet", 4, 1, 1)
    for engine in (*PACKAGES, OURS):
        timed(engine, small, truth, How(2))  # what is loaded at first use is not timed
    lines = {"speed": speed, "sides": sides, "engines": table, "others": others}[part]()
    text = "\n".join(lines) + "\n"
    print(text)
    if target:
        Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
