"""docs/findings.md: what the prototype papers claim, and what attackers who know the methods find.

Nothing is run: every number is read from the tables in results/. Make those first:

    leakbench reproduce findings-fedhide --scale smoke --jobs 2
    leakbench reproduce findings-digits --scale smoke --jobs 2
    leakbench reproduce findings-fedmetric --scale smoke --jobs 2

python benchmarks/findings.py [RESULTS [FILE]]      writes FILE, docs/findings.md unless given
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from membership_summary import summary as of_members

from leakbench.base import registry
from leakbench.base.files import read_csv
from leakbench.base.spec import canonical
from leakbench.record.columns import TABLES as TABLES_OF_REPORTS
from leakbench.reproduce import cards, fitting, marks
from leakbench.reproduce.catalogue import RECIPES
from leakbench.reproduce.fitting import Fits
from leakbench.reproduce.row import Measurement, Row
from leakbench.reproduce.strongest import case, rivals
from leakbench.results.number import Claim

# Of a case, as ``case`` has it, the row of another table in which it gives more away.
Elsewhere = Mapping[tuple[str, ...], Row]
Tables = Mapping[tuple[str, str], Sequence[Row]]  # by recipe and scale


class Known(NamedTuple):
    """What is known beside a table."""

    elsewhere: Elsewhere
    fits: Fits  # which attacks fit which methods


ROOT = Path(__file__).parents[1]
TABLES = (
    ("findings-fedhide", "smoke"),
    ("findings-digits", "smoke"),
    ("findings-fedmetric", "smoke"),
    ("fedhide-table4", "small"),
    ("fedhide-table4", "smoke"),
    ("fedmetric-table2", "smoke"),
)
MORE = (
    "unmixing.md",
    "attack-budgets.md",
    "repairs.md",
    "pooled-updates.md",
    "noised-images.md",
    "active-server.md",
    "curious-clients.md",
    "epsilon-audit.md",
    "membership-elsewhere.md",
    "membership-null.md",
)  # other results that say more of one attack, where they are there
PAPERS = "prototype_leakage"
# How the page calls who attacks, the papers' own first, and what is measured.
ATTACKERS = {
    PAPERS: "the newest message",
    "prototype_averaging": "averaging",
    "prototype_centring": "centring",
    "prototype_unmixing": "un-mixing",
    "prototype_spheres": "the known spheres",
    "prototype_from_update": "one update",
    "codeword_from_update": "one update, decoded",
}
METRICS = {
    "p_leak": "clients named",
    "recovered": "prototypes recovered",
    "codeword_bits": "bits right",
    "centre_error": "error in radii",
}
EXCERPTS = """\
Small ResNets after 3,000 rounds (accuracy .04 to .07, far from the paper's .58), 100 clients, one
seed; the last 5 messages of each client, with the banks that they were mixed with, and no update.
An attacker on updates has nothing to read there, and says so."""
TITLES = {
    ("findings-fedhide", "cifar100"): "FedHide's methods, 100 clients (`digit-pairs`)",
    ("findings-digits", "digits"): "FedHide's methods, ten clients (`digits`)",
    ("findings-fedmetric", "mnist"): "The methods of FedMetric's Table 2, ten clients (`digits`)",
}
HEAD = """\
# Findings: what P_leak is worth against attackers who know the method

Made by `python benchmarks/findings.py` from the tables in `results/`; a test holds it against them.

FedHide (Park and Yun, ECCV 2024) and FedMetric (Park, Hosseini and Yun, FL-ICML 2021) train
embeddings over clients of one class each. What a client must not give away is its prototype, one
vector for all its data: FedMetric shows a centre moved away from the true one, FedGN, FedCS and
FedHide show a proxy that is noised, turned, or mixed with other clients' proxies, and FedUV and
DeepSVDD send none, only their updates. FedHide measures leakage as P_leak, the share of clients
whose own true prototype is the nearest to their newest proxy. Its Section 4.3 names attackers who
know more and claims nothing against them: what follows contradicts no sentence there, it measures
what the paper leaves open. FedMetric prints no measured leakage, only the chance of a uniform
guess.

"The paper's attacker" is P_leak as printed. All others know the method and its public parameters,
and read what the server receives: no auxiliary data, no labels, no true prototypes. Numbers are
shares (an error is in radii of the client's true sphere), with 95 % intervals over units and seeds.
*Blind* is the same guess without a message, *undefended* the same attack where nothing is hidden. A
prototype counts as recovered with a cosine above 0.99, or, where prototypes are compared by
distance, nearer than a tenth of how far they lie from their mean.

What all tables of a paper have taught, this and the rest, stands at the head of its card:
[FedHide](cards/fedhide.md#what-was-learnt), [FedMetric](cards/fedmetric.md#what-was-learnt),
[FLea](cards/flea.md#what-was-learnt), [FedAA](cards/fedaa.md#what-was-learnt).
"""
TAIL = """\
## What was not tested

* The papers' own scale. FedHide has ResNet-18 on CIFAR-100 over 100,000 rounds, and faces and
  voices of up to 8,631 people; here are digits for some hundred rounds, and two cores' worth of
  CIFAR-100. Whether a proxy is as easy to solve after 100,000 rounds is not known from this.
* Active attackers in these tables: a server that changes a bank, or leaves clients out. What one
  reads that plants models is in [active-server.md](../results/active-server.md).
* What a recovered prototype tells of a person beyond whose it is, but for what
  `prototype_picture` says where it was run.
* Clients with several classes, and clients that differ in how many images they have.
* Secure aggregation in these tables: under `secure_sum` no attack on single updates fits. That is
  no shelter where cohorts change: sums of many rounds, solved for who took part, named every client
  ([pooled-updates.md](../results/pooled-updates.md)).
* Attacks that nobody here thought of. A row that no attacker beats is a row that these attackers
  did not beat.
"""


def page(results: Path) -> str:
    """The whole text, from the tables below ``results``."""
    tables = {}
    for name, scale in TABLES:
        path = results / name / f"{scale}.csv"
        if path.is_file():
            tables[name, scale] = marks.marked_rows(RECIPES.get(name), path)
    known = Known(beaten(results), fitting.read_fits(results / cards.FITTING))
    out = [HEAD, *summary(tables, known), *of_excerpts(results / "excerpts.csv")]
    for (name, scale), rows in tables.items():
        out += section(name, scale, rows, known)
    out += of_members(results / "membership")
    return "\n".join([*out, TAIL + missing(tables, results / "excerpts.csv") + more(results)])


def of_excerpts(path: Path) -> list[str]:
    """The committed CIFAR-100 records, a line per setting and attack; none where they lack."""
    if not path.is_file():
        return []
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for r in read_csv(path, TABLES_OF_REPORTS["tradeoff"]):
        found.setdefault((_setting(r), r["attack"]), {})[r["metric"]] = r
    lines = [
        "## Records of CIFAR-100 that are committed here",
        "",
        "    python benchmarks/excerpts.py",
    ]
    lines += ["", EXCERPTS, "", "| setting | attacker | clients named | recovered | of what it"]
    lines[-1] += " calls recovered, right | cosine | n | blind | undefended |"
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for (setting, attack), by_metric in found.items():
        named = by_metric["p_leak"]
        shown = [setting, "the paper's" if attack == PAPERS else ATTACKERS[attack]]
        shown += [_cell(by_metric.get(m)) for m in ("p_leak", "recovered", "recovery_precision")]
        shown += [_cell(by_metric.get("prototype_cosine")), str(named["n"])]
        shown += [_side(float(named["floor"])), _side(float(named["control"]))]
        lines.append("| " + " | ".join(shown) + " |")
    return [*lines, ""]


def _setting(r: Mapping[str, Any]) -> str:
    method = registry.load_plugin("defenses", r["defense"])
    given = json.loads(r["defense_params"])
    told = ", ".join(str(given[name]) for name in method.principal)
    return f"{method.title}({told})" if told else str(method.title)


def _cell(r: Mapping[str, Any] | None) -> str:
    if r is None:
        return "-"
    value, low, high = (float(r[c]) for c in ("value", "low", "high"))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def missing(tables: Tables, excerpts: Path) -> str:
    """The attackers who have no number anywhere, a line each."""
    gone = lost([r for rows in tables.values() for r in rows])
    if excerpts.is_file():
        there = {r["attack"] for r in read_csv(excerpts, TABLES_OF_REPORTS["tradeoff"])}
        gone = [a for a in gone if a not in there]
    return "".join(f"* `{a}` ({ATTACKERS[a]}): no number of it is in these tables.\n" for a in gone)


def more(results: Path) -> str:
    """Links to what else is there."""
    there = [name for name in MORE if (results / name).is_file()]
    return "".join(f"\nMore: [{n}](../results/{n}).\n" for n in there)


def beaten(results: Path) -> Elsewhere:
    """The cases of which another committed table says worse."""
    asked = [q for q in rivals(cards.committed_rows(results)) if q.rows[0].metric == "p_leak"]
    found = {case(q.rows[0]): q.beaten_by(asked) for q in asked}
    return {key: q.best for key, q in found.items() if q}


def summary(tables: Tables, known: Known) -> list[str]:
    """One line per method and table: claimed, the same measure, the strongest attacker."""
    out = ["## In one look", "", "Shares of clients named.", ""]
    out += ["| method | table | the paper | its attacker, here | who knows the method | attack"]
    out[-1] += " | more in another table |"
    out += ["|---|---|---|---|---|---|---|"]
    for (name, scale), rows in tables.items():
        for key in dict.fromkeys((r.dataset, r.label) for r in rows):
            mine = [r for r in rows if (r.dataset, r.label) == key]
            best = strongest([r for r in mine if r.metric == "p_leak" and r.ours])
            claimed, papers = beside(mine)
            if best or papers:
                ill = " (dead run)" if any(r.dead for r in mine) else ""
                ill += " (undertrained)" if any(r.undertrained for r in mine) else ""
                data = " and ".join(dict.fromkeys(r.task for r in mine))
                cells = [key[1] + ill, f"`{name}`, {scale}, {data}"]
                cells += ["-" if claimed is None else f"{claimed.value:.3f}"]
                cells += [_text(papers) if papers else "-"]
                cells += [least(best, mine, known.fits) + _text(best) if best else "not run"]
                cells += [f"`{best.attack}`" if best else "-"]
                cells += [_elsewhere(known.elsewhere.get(case(mine[0])))]
                out.append("| " + " | ".join(cells) + " |")
    gone = {key: untried(rows, known.fits) for key, rows in tables.items()}
    return [*out, "", *(unrun(*key, names) for key, names in gone.items() if names), ""]


def least(best: Row, rows: Sequence[Row], fits: Fits) -> str:
    """ "at least " where some who know the method were not even tried on it, and may find more."""
    whole = best.ours is not None and best.ours.value >= 1
    return "" if whole or not untried(rows, fits) else "at least "


def untried(rows: Sequence[Row], fits: Fits) -> list[str]:
    """The attackers who have no number in ``rows``, and fit what an attacked method sends.

    All of them where nobody knows which fit it.
    """
    ways = {fitting.way(r) for r in rows if r.attack and r.ours}
    fit = {name for way in ways for name in fits.get(way, ATTACKERS)}
    return [name for name in lost(rows) if name in fit]


def lost(rows: Sequence[Row]) -> list[str]:
    """The attackers who have no number in a table."""
    found = {r.attack for r in rows if r.ours}
    return [name for name in ATTACKERS if name not in found]


def unrun(name: str, scale: str, attackers: Sequence[str]) -> str:
    """That a table says less than it seems to, where attackers were not asked there."""
    who = ", ".join(f"`{a}`" for a in attackers)
    return f"* `{name}`, {scale}, has no number of {who}: others may find more there."


def section(name: str, scale: str, rows: Sequence[Row], known: Known) -> list[str]:
    """One table's methods, each in a sentence and a small table; the command first."""
    out = []
    for dataset in dict.fromkeys(r.dataset for r in rows):
        by_label: dict[str, list[Row]] = {}
        for r in rows:
            if r.dataset == dataset:
                by_label.setdefault(r.label, []).append(r)
        methods = [text for mine in by_label.values() if (text := method(mine, known))]
        if methods:
            title = TITLES.get((name, dataset), f"`{name}` at scale {scale}, {dataset}")
            command = f"    leakbench reproduce {name} --scale {scale}"
            out += [f"## {title}", "", command, "", about(rows, dataset), "", *methods]
    return out


def about(rows: Sequence[Row], dataset: str) -> str:
    """Seeds, rounds and where the runs were made."""
    made = [r for r in rows if r.dataset == dataset and r.ours]
    seeds = max((len(r.seeds) for r in made), default=0)
    word = "seed" if seeds == 1 else "seeds"
    rounds = ", ".join(dict.fromkeys(f"{r.rounds:,}" for r in made if r.rounds))
    where = ", ".join(dict.fromkeys(d for r in made for d in r.device))
    stands = " Data stand in for the paper's." if any(r.stand_in for r in made) else ""
    return f"{seeds} {word}, {rounds} rounds, {where}.{stands}"


def method(rows: Sequence[Row], known: Known) -> str:
    """What was claimed of one method, by the same measure here, and by each attacker.

    Empty where nothing was attacked.
    """
    named = [r for r in rows if r.metric == "p_leak" and r.ours]
    if not named:
        return ""
    lines = [f"### {rows[0].label}", "", " ".join(sentences(rows, named, known)), ""]
    lines += ["| attacker | measure | value | n | blind | undefended | attack |"]
    lines += ["|---|---|---|---|---|---|---|"]
    lines += [line(r) for r in rows if r.attack and r.ours and r.metric in METRICS]
    left = [f"* {note}" for note in refusals(rows)]
    return "\n".join([*lines, *([""] if left else []), *left, ""])


def sentences(rows: Sequence[Row], named: Sequence[Row], known: Known) -> list[str]:
    """The claim, our number by the same measure, and the strongest attackers'."""
    more = known.elsewhere.get(case(rows[0]))
    out = [_utility(r) for r in rows if r.measure == "utility" and r.ours]
    claimed, papers = beside(rows)
    if claimed:
        out.append(f"The paper's P_leak is {claimed.value:.3f}.")
    if papers:
        out.append(f"By the same measure, here: {_text(papers)}.")
    best = strongest(named)
    if best:
        how = ATTACKERS.get(best.attack, best.attack)
        share = f"names a share of {least(best, rows, known.fits)}{_text(best)} of the clients"
        out.append(f"The strongest attacker run for this table ({how}) {share}.")
    if more:
        out.append(f"In another table it gives more away: {_elsewhere(more)}.")
    if any(r.dead for r in rows):
        out.append("The run is dead: it does no better than chance, so its numbers say little.")
    if any(r.undertrained for r in rows):
        out.append("It is undertrained: its utility still rose steeply, or it had barely begun.")
    return out


def beside(rows: Sequence[Row]) -> tuple[Claim | None, Row | None]:
    """The paper's P_leak of one method, and ours by the same measure."""
    same = [r for r in rows if r.measure == "p_leak"]
    claimed = next((r.claim for r in same if r.claim), None)
    return claimed, next((r for r in same if r.ours), None)


def strongest(named: Sequence[Row]) -> Row | None:
    """The attacker who knows the method and names most clients; None where none ran."""
    others = [r for r in named if r.attack != PAPERS]
    return max(others, key=lambda r: r.ours.value if r.ours else 0.0, default=None)


def _elsewhere(r: Row | None) -> str:
    return f"{_text(r)} by `{r.attack}`, `{r.recipe}`, {r.scale}" if r else "-"


def _utility(r: Row) -> str:
    claim = f" (the paper: {r.claim.value:.3f})" if r.claim else ""
    name = "AUROC" if r.metric == "auroc" else r.metric.capitalize()
    return f"{name} {_text(r)}{claim}."


def _text(r: Row) -> str:
    return _value(r.ours) if r.ours else "-"


def _value(m: Measurement) -> str:
    """0.98 [0.93, 1.00]."""
    width = "" if m.low is None else f" [{m.lowest:.2f}, {m.highest:.2f}]"
    return f"{m.value:.2f}{width}"


def line(r: Row) -> str:
    """One attacker's number."""
    who = ATTACKERS.get(r.attack, r.attack)
    who = "the paper's" if r.measure == "p_leak" else who
    sides = [_side(x) for x in (r.floor, r.control)]
    given = {k: v for k, v in (r.attack_params or {}).items() if v != _usual(r.attack).get(k)}
    params = "".join(f", {k}={v if isinstance(v, str) else canonical(v)}" for k, v in given.items())
    n = r.ours.n if r.ours else 0
    cells = [who, METRICS[r.metric], _text(r), str(n), *sides, f"`{r.attack}`{params}"]
    return "| " + " | ".join(cells) + " |"


def _usual(attack: str) -> dict[str, object]:
    """The parameters that an attack has unless they are given."""
    if attack not in registry.names("attacks"):
        return {}
    usual: dict[str, object] = (
        registry.load_plugin("attacks", attack).build({}, attack).parameters()
    )
    return usual


def _side(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def refusals(rows: Sequence[Row]) -> list[str]:
    """Why attackers have no number, each reason once."""
    said = [r.note for r in rows if r.attack and not r.ours and r.note and asked(r)]
    return list(dict.fromkeys(said))


def asked(r: Row) -> bool:
    """Does its recipe ask the measure of the method?"""
    recipe = RECIPES.get(r.recipe)
    known = {m.key: m for m in recipe.measures} if recipe else {}
    return r.measure not in known or known[r.measure].asks(r.method)


def main(words: Sequence[str]) -> int:
    """Write the page."""
    results = Path(words[0]) if words else ROOT / "results"
    target = Path(words[1]) if len(words) > 1 else ROOT / "docs" / "findings.md"
    target.write_text(page(results), encoding="utf-8")
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
