"""Every method's accuracy beside that of a loop that was written from its paper alone.

python benchmarks/by_hand.py [file.md]

The loops are those of tests/defenses/independent, the settings each method's first there; but where
clients have several classes nothing holds training back (``DRIVEN``), or methods would end alike.
Five clients with up to twenty digits each, all methods on the same. A loop takes the data, first
numbers and dice of leakbench, in float64; leakbench trains in the same format, and in float32 as it
does by default. Rows are printed as they are done.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from leakbench.base import provenance, registry
from leakbench.federation import Federation
from leakbench.federation.evaluate import utility_scores

TESTS = Path(__file__).resolve().parents[1] / "tests"
LOOPS = TESTS / "defenses" / "independent"
sys.path.insert(0, str(TESTS))

from helpers import by_hand  # noqa: E402  the folder is not installed

COMPARED = ("name", "loop", "params")  # how a test's cases are called
SEEDS = (0, 1, 2)
ROUNDS = 30
TESTED = 400  # images
DRIVEN = {"decay": 1.0, "clip_norm": 0.5}  # in the place of a test's own
Case = tuple[type[by_hand.Loop], by_hand.Few, Mapping[str, Any]]


def main() -> int:
    """Prints a row per method, and writes them."""
    torch.set_num_threads(1)  # nets of some thousand weights
    lines = [HEAD]
    print(HEAD)
    for name, case in sorted(cases().items()):
        lines.append(line(name, [accuracies(name, case, seed) for seed in SEEDS]))
        print(lines[-1], flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return 0


def cases() -> dict[str, Case]:
    """The first setting of each method for which a test has a loop."""
    found: dict[str, Case] = {}

    def noted(loop: type[by_hand.Loop], name: str, task: by_hand.Few, **params: Any) -> None:
        driven = params if task.alone else {k: DRIVEN.get(k, v) for k, v in params.items()}
        found.setdefault(name, (loop, task.model_copy(update={"tested": TESTED}), driven))

    for path in sorted(LOOPS.glob("test_*.py")):
        for test, cases in compared(path):
            test.__globals__["compare"] = noted  # what a test would run is only noted
            for name, loop, params in cases:
                test(net="plain", name=name, loop=loop, params=params)
    return found


def compared(path: Path) -> Iterator[tuple[Callable[..., None], Any]]:
    """The tests of a file that compare a method with a loop, and their cases."""
    for test in runpy.run_path(str(path)).values():
        for mark in getattr(test, "pytestmark", []):
            if mark.name == "parametrize" and mark.args[0] == COMPARED:
                yield test, mark.args[1]


def accuracies(name: str, case: Case, seed: int) -> tuple[float, float, float]:
    """What leakbench ends with in float32 and in float64, and what the loop ends with."""
    loop, task, params = case
    hand = by_hand.run_both(loop, by_hand.built(name, task, seed=seed, **params), ROUNDS)
    single, double = (trained(name, case, seed, t) for t in (torch.float32, torch.float64))
    return single, double, by_hand.utilities(hand)["accuracy"]


def trained(name: str, case: Case, seed: int, dtype: torch.dtype) -> float:
    """The accuracy after a run with the quickest engine."""
    _, task, params = case
    defense = registry.load_plugin("defenses", name).build(params, f"defense {name}")
    scored = task.model_copy(update={"utility": "accuracy"})
    fed = Federation(defense, scored, task.load(), seed=seed, dtype=dtype)
    fed.begin()
    for _ in range(ROUNDS):
        fed.step()
    fed.end()
    return float(utility_scores(fed).mean())


def line(name: str, found: Sequence[tuple[float, float, float]]) -> str:
    """A row of the table."""
    cells = [_three(values) for values in zip(*found, strict=True)]
    gap = max(abs(double - loop) for _, double, loop in found)
    return f"| `{name}` | {' | '.join(cells)} | {gap:.3f} |"


def _three(values: Iterable[float]) -> str:
    return ", ".join(f"{v:.3f}" for v in values)


HEAD = f"""\
# Every method beside a loop written from its paper

Made by `python benchmarks/by_hand.py`, commit {provenance.commit()}, torch {torch.__version__}:
the accuracy after {ROUNDS} rounds, with seeds {", ".join(map(str, SEEDS))}, of leakbench's quickest
engine and of the loops of tests/defenses/independent (float64), which take the same data, first
numbers and dice. Five clients with up to twenty of scikit-learn's digits each (of one class where
prototypes are of classes, then chance is 0.2, or of three, then it is 0.1): too few to compare
methods by, and a method whose own term is small ends near others. That each step is right is what
the tests hold: every message, state and utility of five rounds against these loops, to a few
billionths. In float32 a network with BatchNorm over a handful of examples drifts away from itself.
FedBR, undamped at its test's rate, is chaotic in float64 as well: the largest weight that differs
does so by 1e-15 after two rounds, ten times as much after each further one, and by 0.1 after
fifteen.

| method | leakbench, float32 | leakbench, float64 | by hand | the last two apart, at most |
|---|---|---|---|---|"""


if __name__ == "__main__":
    sys.exit(main())
