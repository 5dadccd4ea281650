"""How often is the gate wrong, and how many seeds settle a row? By simulation, with its own code.

    python benchmarks/gate.py --baselines 2000 --jobs 2        # about half an hour on two cores

Every baseline has 20 mixed rows, which `leakbench.gate.gate.check` compares as it does in a build.
Once nothing changed, and once four of the twenty rows, one of each kind, are worse by two margins.
"Paired": the same seeds on both sides, with everything drawn anew but the clients; "other": other
seeds. With looks half as many baselines. Writes results/gate-simulation.csv, of which
gate_tables.py makes tables and figures.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from scipy.stats import beta

from leakbench.base.meaning import Meaning
from leakbench.federation.utility import METRICS
from leakbench.gate.baseline import Baseline
from leakbench.gate.gate import check
from leakbench.gate.row import GateRow, SeedUnits, TrainingRecord
from leakbench.metrics import P_LEAK, PSNR
from leakbench.results.number import Attacker, Configuration
from leakbench.statistics.intervals import Estimate

SEEDS = (3, 5, 8, 12, 20)
SPREADS = (0.0, 0.3, 0.8)  # sd between seeds, on the logit scale
LOOKS = (5, 8, 12, 20)
RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Kind:
    """A kind of row: what it measures, of how many units, and how many of them a baseline has."""

    name: str
    meaning: Meaning
    units: int
    rows: int
    clustered: bool = False


KINDS = (
    Kind("share of 100 clients", P_LEAK.meaning, 100, 7),
    Kind("share of 10 clients", P_LEAK.meaning, 10, 5),
    Kind("PSNR, 5 clients of 4 images", PSNR.meaning, 20, 5, clustered=True),
    Kind("accuracy, 400 test images", METRICS["accuracy"].meaning, 400, 3),
)
NAMES = (*(k.name for k in KINDS), "all")


@dataclass(frozen=True)
class Case:
    """What a build is like: seeds then and now, how they differ, and what the baseline allows."""

    seeds: int
    spread: float
    paired: bool
    worse: bool
    looks: tuple[int, ...] = ()


def stream(case: Case, number: int) -> np.random.Generator:
    """Its own dice for every baseline of every case."""
    name = hashlib.sha256(f"{case}|{number}".encode()).digest()[:8]
    return np.random.default_rng(int.from_bytes(name, "big"))


def logistic(x: np.ndarray) -> np.ndarray:
    """From the logit scale."""
    return 1 / (1 + np.exp(-x))


def both(
    rng: np.random.Generator, kind: Kind, case: Case, stage: str, shift: float
) -> list[GateRow]:
    """A row then and now, worse by ``shift`` margins."""
    utility = kind.name.startswith("accuracy")
    p = 0.8 if utility else rng.choice([0.05, 0.1, 0.3, 0.5])
    clusters = {f"u{i}": f"c{i // 4}" for i in range(kind.units)} if kind.clustered else {}
    size = kind.units // 4 if kind.clustered else kind.units
    own = 0.5 * rng.standard_normal(size)
    moved = shift * kind.meaning.matters * (-1 if utility else 1)
    out = []
    for side, begin in (("then", 0), ("now", 0 if case.paired else 1000)):
        units = np.repeat(own, 4) if kind.clustered else own
        scores = {}
        for seed in range(begin, begin + case.seeds):
            level = case.spread * rng.standard_normal() + units
            if kind.clustered:
                values = 12 + 2 * level + 2 * rng.gamma(2, size=kind.units)
                values = values + (moved if side == "now" else 0)
            else:
                chance = logistic(math.log(p / (1 - p)) + level)
                chance = chance + (moved if side == "now" else 0)
                values = (rng.random(kind.units) < chance).astype(float)
            scores[seed] = {f"u{i}": float(x) for i, x in enumerate(values)}
        out.append(row(kind, stage, scores, clusters, utility, side))
    return out


def row(kind, stage, scores, clusters, utility, side) -> GateRow:
    """A row of the gate as a run's would be; every guess is another one than before."""
    m = kind.meaning
    value = float(np.mean([x for of in scores.values() for x in of.values()]))
    n = sum(map(len, scores.values()))
    return GateRow(
        configuration=Configuration(task="simulated", defense="simulated", params={}),
        attacker=Attacker(name="utility", rung="")
        if utility
        else Attacker(name="cascade", rung="method"),
        meaning=m.model_copy(update={"name": f"accuracy{stage}"}) if utility else m,
        stage=stage,
        probe=False,
        value=Estimate(value, value, value, n, m.unit, ""),
        flags=frozenset(),
        training=TrainingRecord(record={"name": "standard"}, engine="fused", dtype="float32"),
        units=SeedUnits(
            scores=scores,
            clusters=clusters,
            entered={seed: [] for seed in scores},
            guesses={seed: [f"{side} {seed}"] for seed in scores},
            truths={seed: [f"{side} {seed}"] for seed in scores},
        ),
        control=1.0,
    )


def baseline(case: Case, number: int) -> tuple[bool, Counter[tuple[str, str, str]], Counter[int]]:
    """One baseline: a false alarm?, {(kind, changed or not, state)}, seeds at which it settled."""
    rng, then, now, of = stream(case, number), [], [], {}
    for kind in KINDS:
        for i in range(kind.rows):
            worse = case.worse and i == 0
            stage = f"{kind.units}-{i}"
            a, b = both(rng, kind, case, stage, 2.0 if worse else 0.0)
            then.append(a)
            now.append(b)
            of[a.metric, a.stage] = kind, worse
    result = check(now, Baseline.of(then, looks=case.looks))
    states: Counter[tuple[str, str, str]] = Counter()
    settled: Counter[int] = Counter()
    alarm = False
    for r in result.rows:
        assert r.then is not None
        kind, worse = of[r.then.metric, r.then.stage]
        state = "leaks more" if r.state == "loses utility" else r.state
        states[kind.name, "worse" if worse else "same", state] += 1
        alarm = alarm or (state == "leaks more" and not worse)
        settled[r.look or 0] += state != "cannot tell"
    return alarm, states, settled


def _one(given: tuple[Case, int]) -> tuple[bool, Counter, Counter]:
    return baseline(*given)


def interval(hits: int, n: int) -> tuple[float, float]:
    """Clopper-Pearson, 95 %."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.ppf(0.975, hits + 1, n - hits))
    return low, high


def cases() -> Iterator[Case]:
    """Every case: one look first, then with looks."""
    for worse in (False, True):
        for spread in SPREADS:
            for paired in (True, False):
                for seeds in SEEDS:
                    yield Case(seeds, spread, paired, worse)
            yield Case(20, spread, True, worse, LOOKS)


def rows_of(case: Case, found: Sequence[tuple[bool, Counter, Counter]]) -> Iterator[dict]:
    """The table's lines of one case."""
    about = {
        "seeds": case.seeds,
        "looks": " ".join(map(str, case.looks)),
        "spread": case.spread,
        "sides": "paired" if case.paired else "other",
        "baselines": len(found),
    }
    states = sum((s for _, s, _ in found), Counter())
    alarms = sum(a for a, _, _ in found)
    yield told(about, "baselines", "false alarm", alarms, len(found))
    for changed in ("same", "worse"):
        for kind in NAMES:
            own = Counter()
            for (name, what, state), n in states.items():
                if what == changed and kind in (name, "all"):
                    own[state] += n
            n = sum(own.values())
            if n:
                for state in ("fine", "leaks more"):
                    yield told({**about, "kind": kind}, changed, state, own[state], n)
    if case.looks:
        settled = sum((s for _, _, s in found), Counter())
        whole = sum(sum(s.values()) for _, s, _ in found)
        for look in case.looks:
            yield told({**about, "kind": "all"}, f"settled at {look}", "", settled[look], whole)


def told(about: dict, of: str, state: str, hits: int, n: int) -> dict:
    """A line of the table."""
    low, high = interval(hits, n)
    return {
        "kind": "",
        **about,
        "worse": of,
        "state": state,
        "share": hits / n,
        "low": low,
        "high": high,
        "n": n,
    }


def main() -> None:
    """Simulate, and write the table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--baselines", type=int, default=2000, help="of each group of cases")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    every = list(cases())
    groups = Counter((c.worse, c.spread, c.paired, c.looks) for c in every)
    lines = []
    with Pool(args.jobs) as pool:
        for case in every:
            count = args.baselines // groups[case.worse, case.spread, case.paired, case.looks]
            count = count // 2 if case.looks else count
            found = pool.map(_one, [(case, i) for i in range(count)], chunksize=20)
            lines += rows_of(case, found)
            print(case, lines and f"{sum(a for a, _, _ in found) / count:.4f}", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "gate-simulation.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
