"""The simulation of the gate as tables and figures.

    python benchmarks/gate_tables.py

Of results/gate-simulation.csv it makes gate-simulation.md and gate-seeds.svg and .png.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt

from leakbench.base import plots

RESULTS = Path(__file__).parents[1] / "results"
Line = dict[str, str]


def read(path: Path) -> list[Line]:
    """The lines of the simulation."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def of(lines: Sequence[Line], **fields: str) -> list[Line]:
    """The lines with these fields."""
    return [line for line in lines if fields.items() <= line.items()]


def cell(line: Line) -> str:
    """As in "2.1 % (1.5 to 2.8)"."""
    share, low, high = (100 * float(line[k]) for k in ("share", "low", "high"))
    return f"{share:.1f} % ({low:.1f} to {high:.1f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(r)} |" for r in rows)])


def alarms(lines: Sequence[Line]) -> str:
    """How often a baseline in which nothing changed raises an alarm."""
    rows = []
    for spread in values(lines, "spread"):
        for sides in values(lines, "sides"):
            found = of(lines, worse="baselines", spread=spread, sides=sides, looks="")
            found = [line for line in found if nothing(lines, line)]
            cells = [cell(line) for line in sorted(found, key=lambda x: int(x["seeds"]))]
            rows.append([spread, sides, *cells])
    return table(["sd between seeds", "sides", *(f"{k} seeds" for k in seeds(lines))], rows)


def nothing(lines: Sequence[Line], line: Line) -> bool:
    """Is it of the baselines in which no row changed? The first of two, in the file."""
    same = [x for x in lines if x["worse"] == "baselines" and case(x) == case(line)]
    return line is same[0]


def case(line: Line) -> tuple[str, ...]:
    """What the baseline was like."""
    return tuple(line[k] for k in ("seeds", "looks", "spread", "sides"))


def values(lines: Sequence[Line], key: str) -> list[str]:
    """Each once, in the order of the file."""
    return list(dict.fromkeys(line[key] for line in lines))


def seeds(lines: Sequence[Line]) -> list[str]:
    """The numbers of seeds."""
    return sorted(values(lines, "seeds"), key=int)


def kinds(lines: Sequence[Line], worse: str, state: str, spread: str) -> str:
    """What becomes of each kind of row, by seeds."""
    rows = []
    for kind in [k for k in values(lines, "kind") if k]:
        for sides in values(lines, "sides"):
            own = {"kind": kind, "worse": worse, "state": state, "spread": spread, "sides": sides}
            found = [x for x in of(lines, **own, looks="") if worse == "worse" or first(lines, x)]
            found.sort(key=lambda x: int(x["seeds"]))
            rows.append([kind, sides, *(f"{float(x['share']):.0%}" for x in found)])
    return table(["row", "sides", *(f"{k} seeds" for k in seeds(lines))], rows)


def first(lines: Sequence[Line], line: Line) -> bool:
    """Of unchanged rows: is it of the baselines in which no row changed?"""
    own = {"kind": line["kind"], "worse": line["worse"], "state": line["state"]}
    same = [x for x in of(lines, **own) if case(x) == case(line)]
    return line is same[0]


def looks(lines: Sequence[Line]) -> str:
    """False alarms over all looks, and where rows settle."""
    rows = []
    for spread in values(lines, "spread"):
        found = [x for x in lines if x["looks"] and x["spread"] == spread]
        null = next(x for x in found if x["worse"] == "baselines")
        begun = found[: len(found) // 2]
        settled = [x for x in begun if x["worse"].startswith("settled")]
        missed = of(found, kind="all", worse="worse", state="fine")[0]
        caught = of(found, kind="all", worse="worse", state="leaks more")[0]
        shares = [f"{float(x['share']):.0%}" for x in settled]
        rows.append([spread, cell(null), cell(missed), cell(caught), *shares])
    told = [x["worse"] for x in lines if x["worse"].startswith("settled")]
    heads = ["sd between seeds", "false alarms", "two margins worse: called fine", "found"]
    return table([*heads, *dict.fromkeys(told)], rows)


def figure(lines: Sequence[Line], out: Path) -> None:
    """Fine rows and found regressions by seeds, a panel for each kind."""
    named = [k for k in values(lines, "kind") if k and k != "all"]
    with plots.style():
        drawn, panels = plt.subplots(1, len(named), figsize=(3 * len(named), 3), sharey=True)
        for panel, kind in zip(panels, named, strict=True):
            for spread, shade in zip(values(lines, "spread"), ("0.75", "0.45", "0.1"), strict=True):
                for worse, state, dash in (("same", "fine", "-"), ("worse", "leaks more", "--")):
                    own = {"kind": kind, "worse": worse, "state": state, "spread": spread}
                    found = of(lines, **own, sides="other", looks="")
                    found = [x for x in found if worse == "worse" or first(lines, x)]
                    found.sort(key=lambda x: int(x["seeds"]))
                    k, share = [int(x["seeds"]) for x in found], [float(x["share"]) for x in found]
                    low = [float(x["low"]) for x in found]
                    high = [float(x["high"]) for x in found]
                    what = "unchanged, called fine" if worse == "same" else "two margins, found"
                    panel.plot(k, share, dash, color=shade, label=f"{what}, sd {spread}")
                    panel.fill_between(k, low, high, color=shade, alpha=0.15, linewidth=0)
            panel.set(title=kind, xlabel="seeds a side", ylim=(0, 1), xticks=[3, 5, 8, 12, 20])
        panels[0].set_ylabel("share of rows")
        panels[-1].legend(fontsize=6, loc="upper left", bbox_to_anchor=(1, 1))
        drawn.tight_layout()
        plots.save(drawn, out, "gate-seeds")
        plt.close(drawn)


def main() -> None:
    """Read, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    lines = read(args.out / "gate-simulation.csv")
    whole = [x for x in lines if x["worse"] == "baselines" and not x["looks"] and nothing(lines, x)]
    n = sum(int(x["n"]) for x in whole)
    hits = sum(round(float(x["share"]) * int(x["n"])) for x in whole)
    parts = [
        "# The gate, simulated",
        "Made by `python benchmarks/gate.py` and `gate_tables.py`: baselines of 20 mixed rows, each"
        " share with its 95 % Clopper-Pearson interval. " + f"Of all {n} baselines in which nothing"
        f" changed {hits} raised an alarm ({hits / n:.2%}).",
        "## Nothing changed: baselines with an alarm (at most 5 %)",
        alarms(lines),
    ]
    for spread in values(lines, "spread"):
        parts += [
            f"## sd {spread} between seeds",
            "Nothing changed: rows called fine.",
            kinds(lines, "same", "fine", spread),
            "Worse by two margins: rows found.",
            kinds(lines, "worse", "leaks more", spread),
            "Worse by two margins: rows called fine (at most 5 %).",
            kinds(lines, "worse", "fine", spread),
        ]
    parts += ["## With looks at 5, 8, 12 and 20 seeds", looks(lines)]
    (args.out / "gate-simulation.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    figure(lines, args.out)


if __name__ == "__main__":
    main()
