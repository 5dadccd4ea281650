"""docs/cards: what each paper claims, the same measured here, and the strongest attacker's number.

Nothing is run: every number is read from the tables in results/, which `leakbench reproduce` makes.

    python benchmarks/cards.py [RESULTS [FOLDER]]      writes FOLDER, docs/cards unless given
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from leakbench.base import registry
from leakbench.reproduce import row
from leakbench.reproduce.row import Row

ROOT = Path(__file__).parents[1]
SCALES = ("small", "smoke")
TITLES = {
    "fedhide": "FedHide: hiding a prototype among its neighbours",
    "fedmetric": "FedMetric: metric losses, with one class per client",
    "flea": "FLea: sharing obfuscated features",
    "fedaa": "FedAA: sharing other modalities in place of images",
}
ABOUT = {
    "fedhide": "H. Park, S. Yun. *FedHide: Federated Learning by Hiding in the Neighbors.* ECCV"
    " 2024. Claim: a proxy mixed with its neighbours' gives little of a client's prototype away,"
    " measured as P_leak, and costs little accuracy.",
    "fedmetric": "H. Park, H. Hosseini, S. Yun. *Federated Learning with Metric Loss.* FL-ICML"
    " workshop, 2021. Claim: clients of one class each learn an embedding without showing their"
    " centre. It prints no measured leakage.",
    "flea": "T. Xia, A. Ghosh, X. Qiu, C. Mascolo. *FLea.* KDD 2024. Claim: features that are"
    " augmented and decorrelated can be shared without giving the examples behind them away,"
    " measured by correlation, a decoder and a context classifier.",
    "fedaa": "D. Chen et al. *FedAA: Using Non-sensitive Modalities to Improve Federated Learning"
    " while Preserving Image Privacy.* ACM MM 2023. Claim: label names and captions help, and no"
    " image can be rebuilt from what is shared.",
}
READ = """\
*By the paper's measure* is what an attacker gets who does what the paper does, on our runs; *the
strongest tried* the best of all attacks on the same question in this table, in shares, dB or
whatever the measure has, with a 95 % interval. *Blind* is the same guess without a message,
*undefended* the same attack where nothing is hidden: an attack that finds nothing there, either,
acquits nobody. No row is at the paper's scale; each table says what differs. What was tried is a
lower bound: others may find more.
"""
INDEX = """\
Made by `python benchmarks/cards.py` from the tables in `results/`; a test holds it against them.
*Leaked* is how far the strongest attack that was tried comes from a blind guess (0) to what it gets
with nothing defended (1): it compares methods of one task and one measure, and short of 1 it is a
lower bound. *Not tried there* names attacks that have a number on the same method elsewhere; on
some of these settings they have one, on other records, in the [findings](../findings.md). A dead
run learnt nothing, so what it leaks says nothing. Left out is where the attack gets no more than a
blind guess with nothing defended, either. None is at the papers' scale.
"""
NONE = """\
*No attack has a number in the committed tables of this paper: what its methods leak is not known
from them.*"""
Group = tuple[str, str, str, str, str]  # recipe, scale, dataset, label, metric


def pages(results: Path) -> dict[str, str]:
    """File name -> text of all cards."""
    rows = [r for path in tables(results) for r in row.read(path)]
    out = {"index.md": index(rows)}
    for paper in TITLES:
        mine = [r for r in rows if paper_of(r.recipe) == paper]
        out[f"{paper}.md"] = card(paper, mine)
    return out


def tables(results: Path) -> Iterator[Path]:
    """The committed tables, each recipe's larger scale first."""
    for folder in sorted(p for p in results.iterdir() if p.is_dir()):
        found = (folder / f"{scale}.csv" for scale in SCALES)
        yield from (p for p in found if p.is_file())


def paper_of(recipe: str) -> str:
    """fedhide of fedhide-table4; what we found of a paper's methods stands on its card."""
    ours = {"findings-fedhide": "fedhide", "findings-digits": "fedhide"}
    return ours.get(recipe) or recipe.removeprefix("findings-").split("-")[0]


def card(paper: str, rows: Sequence[Row]) -> str:
    """One paper's page."""
    out = [f"# {TITLES[paper]}", "", ABOUT[paper], "", "## What leaks", "", READ]
    leaks = list(groups(rows))
    if leaks:
        out += head("method", "task", "measure", "the paper", "by the paper's measure")
        out[-2] += " the strongest tried | attack | blind | undefended | table |"
        out[-1] += "---|---|---|---|---|"
        out += [leak(rows, mine) for mine in leaks]
    else:
        out.append(NONE)
    gains = [r for r in rows if not r.attack and r.claim and r.ours and r.ours.low is not None]
    if gains:
        out += [
            "",
            "## What is gained",
            "",
            *head("method", "task", "measure", "the paper", "here"),
        ]
        out[-2] += " table |"
        out[-1] += "---|"
        out += [gain(rows, r) for r in gains]
    ran = dict.fromkeys((r.recipe, r.scale) for r in rows if r.ours)
    out += ["", "## Run it again", ""]
    out += [f"    leakbench reproduce {name} --scale {scale} --jobs 2" for name, scale in ran]
    out += ["", "A stronger guess moves a number: [how](../../CONTRIBUTING.md#a-stronger-guess)."]
    return "\n".join([*out, ""])


def head(*names: str) -> list[str]:
    """The two first lines of a table."""
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The attacks on one question about one method in one table; those with a number."""
    found: dict[Group, list[Row]] = {}
    for r in rows:
        if r.attack and r.ours and r.ours.n:
            found.setdefault((r.recipe, r.scale, r.dataset, r.label, r.metric), []).append(r)
    yield from found.values()


def leak(rows: Sequence[Row], mine: Sequence[Row]) -> str:
    """Claimed, measured the same way, and the strongest: one line."""
    first, best, same = mine[0], strongest(mine), papers(mine)
    claimed = next((r.claim for r in mine if r.claim), None)
    cells = [method(setting(rows, first)), first.task, f"`{first.metric}`"]
    cells += [f"{claimed.value:.3g}" if claimed else "-"]
    cells += [number(same) if same else "-"]
    cells += [f"**{number(best)}**", f"`{best.attack}`"]
    cells += [side(best.floor), side(best.control), table_of(first)]
    return "| " + " | ".join(cells) + " |"


def gain(rows: Sequence[Row], r: Row) -> str:
    """A utility beside the paper's."""
    claimed = f"{r.claim.value:.3g}" if r.claim else "-"
    cells = [method(setting(rows, r)), r.task, r.metric, claimed, number(r), table_of(r)]
    return "| " + " | ".join(cells) + " |"


def strongest(mine: Sequence[Row]) -> Row:
    """The attack that gets most, by the direction in which its metric leaks.

    Of equals one that is more than the paper's own measure, which may use the truth.
    """
    sign = -1.0 if direction(mine[0]) == "down" else 1.0
    return max(mine, key=lambda r: (sign * r.ours.value, rung(r) != "paper") if r.ours else (0, 0))


def papers(mine: Sequence[Row]) -> Row | None:
    """What stands for the paper's own measure: the row with its number, or its kind of attack."""
    claimed = next((r for r in mine if r.claim), None)
    return claimed or next((r for r in mine if rung(r) == "paper"), None)


def rung(r: Row) -> str:
    """How much the attack of a row uses."""
    return str(_attack(r).build(r.attack_params or {}, r.attack).threat.rung)


def direction(r: Row) -> str:
    """Where more leaks: `up` or `down`."""
    (found,) = [m.meaning.direction for m in _attack(r).metrics if m.name == r.metric]
    return str(found)


def _attack(r: Row) -> type:
    return registry.load("attacks", r.attack)


def method(mine: Sequence[Row]) -> str:
    """Its name in the table; a run that learnt nothing says so, whichever row noted it."""
    return mine[0].label.replace("|", "/") + (" (dead run)" if dead(mine) else "")


def dead(mine: Sequence[Row]) -> bool:
    """Did any row find that the model learnt nothing?"""
    return any(r.dead for r in mine)


def setting(rows: Sequence[Row], of: Row) -> list[Row]:
    """All rows of one method in one table."""
    where = (of.recipe, of.scale, of.dataset, of.label)
    return [r for r in rows if (r.recipe, r.scale, r.dataset, r.label) == where]


def number(r: Row) -> str:
    """0.98 [0.93, 1.00]."""
    if r.ours is None:
        return "-"
    width = "" if r.ours.low is None else f" [{r.ours.lowest:.3g}, {r.ours.highest:.3g}]"
    return f"{r.ours.value:.3g}{width}"


def side(value: float | None) -> str:
    """A floor or a control."""
    return "-" if value is None else f"{value:.3g}"


def table_of(r: Row) -> str:
    """A link to the committed table."""
    return f"[{r.recipe}, {r.scale}](../../results/{r.recipe}/{r.scale}.md)"


def index(rows: Sequence[Row]) -> str:
    """All methods that were attacked in a table, each where most attacks were tried on it."""
    out = ["# Methods by what they leak and what they gain", "", INDEX]
    out += head("method", "task", "measure", "leaked", "the strongest tried", "gained", "attack")
    out[-2] += " not tried there | table |"
    out[-1] += "---|---|"
    lines = list(of_use(rows))
    for mine in sorted(lines, key=lambda m: (m[0].task, m[0].metric, -share(strongest(m)))):
        best, whole = strongest(mine), setting(rows, mine[0])
        useful = utility(whole)
        leaked = "-" if dead(whole) else f"**{bound(share(best))}**"
        cells = [method(whole), best.task, f"`{best.metric}`", leaked, number(best)]
        cells += [f"{useful.metric} {number(useful)}" if useful else "-", f"`{best.attack}`"]
        cells += [", ".join(f"`{name}`" for name in untried(rows, mine)) or "-", table_of(best)]
        out.append("| " + " | ".join(cells) + " |")
    out += ["", "## By paper", ""]
    out += [f"* [{title}]({paper}.md)" for paper, title in TITLES.items()]
    lost = ", ".join(f"`{name}`" for name in unattacked(rows))
    out += ["", "## Not attacked", ""]
    out += [f"Trained for these tables, and attacked in none of them: {lost}.", ""]
    out += ["That is no sign of privacy: `leakbench attack` attacks a run of any of them."]
    return "\n".join([*out, ""])


def of_use(rows: Sequence[Row]) -> list[list[Row]]:
    """Per method, task and metric the table with most attacks, where there was a thing to find.

    Figures are left out: they sweep one parameter.
    """
    found: dict[tuple[str, str, str], list[Row]] = {}
    for mine in groups([r for r in rows if "figure" not in r.recipe]):
        best = strongest(mine)
        if best.floor is None or best.control is None or best.floor == best.control:
            continue
        key = (best.label, best.task, best.metric)
        if len(tried(mine)) > len(tried(found.get(key, []))):
            found[key] = mine
    return list(found.values())


def tried(mine: Sequence[Row]) -> set[str]:
    """The attacks with a number."""
    return {r.attack for r in mine}


def untried(rows: Sequence[Row], mine: Sequence[Row]) -> list[str]:
    """Attacks that have a number on the same method and measure in another table, and not here."""
    same = [r for r in rows if (r.method, r.metric) == (mine[0].method, mine[0].metric)]
    return sorted({r.attack for r in same if r.attack and r.ours} - tried(mine))


def share(best: Row) -> float:
    """How far from the blind guess to nothing defended, 0 to 1 but for chance."""
    assert best.ours
    assert best.floor is not None
    assert best.control is not None
    return (best.ours.value - best.floor) / (best.control - best.floor)


def bound(leaked: float) -> str:
    """Whatever does not reach what is there to get is what nobody has got further than so far."""
    return f"{leaked:.2f}" if leaked >= 1 else f"at least {leaked:.2f}"


def utility(whole: Sequence[Row]) -> Row | None:
    """What the same runs were good for."""
    found = (r for r in whole if not r.attack and r.ours and r.measure == "utility")
    return next(found, None)


def unattacked(rows: Sequence[Row]) -> list[str]:
    """Methods with a trained run and no attack's number."""
    there = {r.method for r in rows if r.ours and r.method}
    return sorted(there - {r.method for r in rows if r.ours and r.attack})


def main(words: Sequence[str]) -> int:
    """Write the pages."""
    results = Path(words[0]) if words else ROOT / "results"
    folder = Path(words[1]) if len(words) > 1 else ROOT / "docs" / "cards"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(results).items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
