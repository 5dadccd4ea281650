"""docs/cards: what each paper claims, the same measured here, and the strongest attacker's number.

Every number is read from the tables that `leakbench reproduce` left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from leakbench.base.errors import BrokenFile
from leakbench.reproduce import fitting, kept, learnt, marks
from leakbench.reproduce.catalogue import RECIPES
from leakbench.reproduce.fitting import Fits
from leakbench.reproduce.recipe import SCALES
from leakbench.reproduce.row import Row
from leakbench.reproduce.strongest import Rivals, number_of_row, rivals, share, spelled, worst
from leakbench.scoring import flags

FITTING = "fitting.csv"  # beside the tables
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
    " centre. It prints no measured leakage: by the paper's measure means here FedHide's P_leak.",
    "flea": "T. Xia, A. Ghosh, X. Qiu, C. Mascolo. *FLea.* KDD 2024. Claim: features that are"
    " augmented and decorrelated can be shared without giving the examples behind them away,"
    " measured by correlation, a decoder and a context classifier. Anybody can do what the paper"
    " does here, so these measures stand under the strongest tried.",
    "fedaa": "D. Chen et al. *FedAA: Using Non-sensitive Modalities to Improve Federated Learning"
    " while Preserving Image Privacy.* ACM MM 2023. Claim: label names and captions help, and no"
    " image can be rebuilt from what is shared.",
}
# One parameter moved by steps: on their paper's card, and too many lines for the list of methods.
SWEEPS = frozenset({"fedmetric-figure2", "fedmetric-figure3", "flea-figure11"})
READ = """\
*By the paper's measure* is what an attacker gets who does what the paper does, on our runs; *the
strongest tried* the best of all attacks on the same question in this table, in shares, dB or
whatever the measure has, with a 95 % interval, and *not run* where nobody did more than the paper.
*Blind* is the same guess without a message, *undefended* the same attack where nothing is hidden:
an attack that finds nothing there, either, acquits nobody. *More in another table* is what the same
method, so set, gave away on the same task in another table of any paper, trained for longer or
attacked by more. *digits for cifar100* is our digits
where the paper has CIFAR-100: its number there speaks of its own data. *Not tried* names attacks
that declare this measure and fit what is sent, or other settings that have a number in another
table. *Rounds* is how long it was trained, *to know* are the [flags](../formats.md#flags) of these
rows, as they are computed today: a row made before there was a flag has it all the same. Each table
says what differs from the paper. What was tried is a lower bound: others may find more.
"""
INDEX = """\
Made by `python benchmarks/cards.py` from the tables in `results/`; a test holds it against them.
*Leaked* is how far the strongest attack that was tried comes from a blind guess (0) to what it gets
with nothing defended (1), which chance may carry it past: it compares methods of one task and one
measure, and short of 1 it is a lower bound. An attack that with nothing defended is not told from a
blind guess is too weak, or has too few clients, to judge; what it gets, and what it gets undefended
where that is more than the blind guess, then stand there, and *more than a blind guess* says that
its interval lies beyond the blind guess's number. *The paper's own alone*: nobody did more than the
paper does. A dead run learnt nothing, so what it leaks says nothing. *Not tried* names attacks that
declare this measure and fit what the method sends, told from two rounds of it on `digits`, or other
settings that have a number in another table; on some of these cases they have one, on other
records, in the [findings](../findings.md). *Rounds* is how long it was trained. *To know* are the
[flags](../formats.md#flags) of the number, as they are computed today: a probe is a message that
nobody sends, oracles were told the truth, and an undertrained model still learnt fast when it was
attacked, or had barely begun. Where several tables have a case, the one that speaks worst of it
stands here. Each table says how far it is from its paper's scale; data that stand in for a paper's
say nothing of its numbers.

Tables that move one parameter by steps stand on their paper's card only: SWEPT.
"""
NONE = """\
*No attack has a number in the committed tables of this paper: what its methods leak is not known
from them.*"""


def pages(results: Path) -> dict[str, str]:
    """File name -> text of all cards.

    Raises:
        BrokenFile: a table is damaged.
    """
    rows = committed_rows(results)
    known = fitting.read_fits(results / FITTING)
    out = {"index.md": index(rows, known)}
    for paper in TITLES:
        mine = [r for r in rows if paper_of(r.recipe) == paper]
        out[f"{paper}.md"] = card(paper, mine, rows, known)
    return out


def committed_rows(results: Path) -> list[Row]:
    """All rows of the committed tables, with the flags that they have today.

    Raises:
        BrokenFile: a table is damaged, or an attack's number in it contradicts itself.
    """
    out: list[Row] = []
    for path in committed_tables(results):
        rows = marks.marked_rows(RECIPES.get(path.parent.name), path)
        wrong = next((r for r in rows if r.attack and not kept.agrees(r)), None)
        if wrong:
            where = f"{wrong.label}, {wrong.attack}, {wrong.metric}"
            raise BrokenFile(
                f"{path} is damaged ({where}: its numbers contradict each other, or the metric)."
                " Make it again."
            )
        out += rows
    return out


def committed_tables(results: Path) -> Iterator[Path]:
    """The committed tables, each recipe's larger scale first."""
    for folder in sorted(p for p in results.iterdir() if p.is_dir()):
        found = (folder / f"{scale}.csv" for scale in reversed(SCALES))
        yield from (p for p in found if p.is_file())


def paper_of(recipe: str) -> str:
    """The first word of a recipe; what we found of a paper's methods stands on its card."""
    ours = {"findings-fedhide": "fedhide", "findings-digits": "fedhide"}
    return ours.get(recipe) or recipe.removeprefix("findings-").split("-")[0]


def card(paper: str, rows: Sequence[Row], everywhere: Sequence[Row], known: Fits) -> str:
    """One paper's page; ``everywhere``: the rows of all papers."""
    out = [f"# {TITLES[paper]}", "", ABOUT[paper], "", "## What was learnt", ""]
    out += [*learnt.learnt(rows), "", "## What leaks", "", READ]
    asked = list(rivals(rows))
    if asked:
        out += _head(
            *("method", "task", "measure", "the paper", "by the paper's measure"),
            *("the strongest tried", "attack", "more in another table", "blind", "undefended"),
            *("not tried", "rounds", "to know", "table"),
        )
        tables = list(rivals(everywhere))
        out += [_leak(q, q.untried(everywhere, known), q.beaten_by(tables)) for q in asked]
    else:
        out.append(NONE)
    gains = [r for r in rows if not r.attack and r.claim and r.ours and r.ours.low is not None]
    if gains:
        out += ["", "## What is gained", ""]
        heads = ("method", "task", "measure", "the paper", "here", "rounds", "to know", "table")
        out += _head(*heads)
        out += [_gain(rows, r) for r in gains]
    ran = dict.fromkeys((r.recipe, r.scale) for r in rows if r.ours)
    out += ["", "## Run it again", ""]
    out += [f"    leakbench reproduce {name} --scale {scale} --jobs 2" for name, scale in ran]
    out += ["", "A stronger guess moves a number: [how](../../CONTRIBUTING.md#a-stronger-guess)."]
    return "\n".join([*out, ""])


def index(rows: Sequence[Row], known: Fits) -> str:
    """All methods that were attacked in a table, each by the table that speaks worst of it."""
    swept = ", ".join(f"`{name}`" for name in sorted(SWEEPS))
    out = ["# Methods by what they leak and what they gain", "", INDEX.replace("SWEPT", swept)]
    listed = worst([q for q in rivals(rows) if q.rows[0].recipe not in SWEEPS])
    for task in sorted({q.best.task for q in listed}):
        out += [f"## {task}", ""]
        out += _head("method", "measure", "leaked", "the strongest tried", "attack", "gained")
        out[-2] += " not tried | rounds | to know | table |"
        out[-1] += "---|---|---|---|"
        mine = [q for q in listed if q.best.task == task]
        out += [_listed(q, q.untried(rows, known)) for q in sorted(mine, key=_order)]
        out.append("")
    out += ["## By paper", ""]
    out += [f"* [{title}]({paper}.md)" for paper, title in TITLES.items()]
    out += ["", "## Not attacked", ""]
    lost = ", ".join(f"`{name}`" for name in unattacked(rows))
    out += [f"Trained for these tables, and attacked in none of them: {lost}.", ""]
    out += ["Attacked in some, and trained without a number of an attack here:", ""]
    out += [f"* {task}: {'; '.join(labels)}" for task, labels in partly(rows).items()]
    out += ["", "That is no sign of privacy: `leakbench attack` attacks a run of any of them."]
    return "\n".join([*out, ""])


def unattacked(rows: Sequence[Row]) -> list[str]:
    """Methods with a trained run and no attack's number."""
    there = {r.method for r in rows if r.ours and r.method}
    return sorted(there - {q.best.method for q in rivals(rows)})


def partly(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Of the other methods: task -> cases with a number and none of an attack."""
    done = {(q.best.task, q.best.label) for q in rivals(rows)}
    nowhere = set(unattacked(rows))
    out: dict[str, list[str]] = {}
    for r in rows:
        if not r.ours or not r.method or r.method in nowhere or (r.task, r.label) in done:
            continue
        said = out.setdefault(r.task, [])
        if r.label not in said:
            said.append(r.label)
    return dict(sorted(out.items()))


def _order(q: Rivals) -> tuple[str, float, str]:
    return q.best.metric, -(share(q.telling) or 0.0), q.best.label


def _listed(q: Rivals, untried: Sequence[str]) -> str:
    told, useful = q.telling, q.utility
    gained = f"{useful.metric} {_number(useful)}" if useful else "-"
    cells = [_method(told, dead=q.dead), f"`{told.metric}`", f"**{q.verdict()}**"]
    ours = f"the paper's own alone: {_number(told)}" if q.only_paper else _number(told)
    cells += [ours, f"`{spelled(told)}`", gained]
    return _line(*cells, _codes(untried), _rounds(told), _flags(told), _table(told))


def _leak(q: Rivals, untried: Sequence[str], elsewhere: Rivals | None) -> str:
    """Claimed, measured the same way, and the strongest, here and elsewhere: one line."""
    best, paper = q.best, q.paper
    claimed = next((r.claim for r in q.rows if r.claim), None)
    cells = [_method(best, dead=q.dead), _where(best), f"`{best.metric}`"]
    cells += [f"{claimed.value:.3g}" if claimed else "-"]
    cells += [_number(paper) if paper else "-"]
    cells += ["not run", "-"] if q.only_paper else [f"**{_number(best)}**", f"`{spelled(best)}`"]
    cells += [_elsewhere(elsewhere.best) if elsewhere else "-"]
    cells += [_side(best.floor), _side(best.control), _codes(untried)]
    known = (best, paper) if paper else (best,)
    return _line(*cells, _rounds(best), _flags(*known), _table(best))


def _elsewhere(best: Row) -> str:
    """What another table's strongest gets, and on which data where the method has several."""
    return f"**{_number(best)}** `{spelled(best)}`, {_where(best)}, {_table(best)}"


def _gain(rows: Sequence[Row], r: Row) -> str:
    """A utility beside the paper's."""
    where = (r.recipe, r.scale, r.dataset, r.label)
    same = [x for x in rows if (x.recipe, x.scale, x.dataset, x.label) == where]
    claimed = f"{r.claim.value:.3g}" if r.claim else "-"
    name = _method(r, dead=any(x.dead for x in same))
    cells = (name, _where(r), r.metric, claimed, _number(r))
    return _line(*cells, _rounds(r), _flags(r), _table(r))


def _head(*names: str) -> list[str]:
    """The two first lines of a table."""
    return [_line(*names), "|" + "---|" * len(names)]


def _line(*cells: str) -> str:
    """A line of a table; a bar inside a cell would split it, so it is escaped."""
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _method(r: Row, *, dead: bool) -> str:
    """Its name in the table; a run that learnt nothing says so, whichever row noted it."""
    return r.label + (" (dead run)" if dead else "")


def _where(r: Row) -> str:
    """Our task, and the paper's data where these are others or divided in some way."""
    if r.dataset == r.task or r.dataset.startswith(f"{r.task}, "):
        return r.dataset
    return f"{r.task} for {r.dataset}"


def _short(value: float) -> str:
    """Three digits, and no powers of ten."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _number(r: Row) -> str:
    """0.98 [0.93, 1.00]."""
    if r.ours is None:
        return "-"
    low, high = _short(r.ours.lowest), _short(r.ours.highest)
    return _short(number_of_row(r)) + ("" if r.ours.low is None else f" [{low}, {high}]")


def _side(value: float | None) -> str:
    """A floor or a control."""
    return "-" if value is None else _short(value)


def _rounds(r: Row) -> str:
    """How long it was trained; a study trains nothing."""
    return "-" if r.rounds is None else f"{r.rounds:,}"


def _codes(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "-"


def _flags(*rows: Row) -> str:
    """In words, without the one that stands at the method's name."""
    found = frozenset[str]().union(*(r.flags for r in rows)) - {"dead_run"}
    return ", ".join(flag.replace("_", " ") for flag in flags.ordered(found)) or "-"


def _table(r: Row) -> str:
    """A link to the committed table."""
    return f"[{r.recipe}, {r.scale}](../../results/{r.recipe}/{r.scale}.md)"
