"""What one paper's tables have taught: what leaks, what holds, what does not, what stays open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from leakbench.reproduce import overview, power, write
from leakbench.reproduce.catalogue import RECIPES
from leakbench.reproduce.leaderboard.entry import STANDINGS, Standing, standing
from leakbench.reproduce.needs import Needs
from leakbench.reproduce.recipe import SCALES
from leakbench.reproduce.row import Measurement, Row
from leakbench.reproduce.statements import FAILS, HOLDS, OPEN, Statement
from leakbench.reproduce.strongest import Rivals, number_of_row, rivals, spelled, worst

SHOWN = 4  # numbers of a statement
# What a reader of a verdict must know of its rows; what stands in for the data is in its place.
MARKS = ("unofficial_data", "mixed_code", "stale_run", "stale_attack")
_STANDINGS: Mapping[Standing, str] = {
    "leaks": "give at least half of what there is to the strongest attack tried",
    "leaks_in_part": "give more than a blind guess, and not surely half",
    "cannot_tell": "cannot be told from a blind guess, which acquits nobody",
    "too_weak": "were attacked too weakly, or have too few units, to judge",
    "dead_run": "learnt nothing",
}


@dataclass(frozen=True)
class JudgedStatement:
    """A statement, and where it was judged."""

    statement: Statement
    place: str  # the column, what stands in for its data, its table, its seeds


def learnt(rows: Sequence[Row]) -> list[str]:
    """The lines of Markdown on one paper's ``rows``, which are marked as they are today."""
    said = list(statements(rows))
    out = [_leaks(rows)]
    held = [j for j in said if j.statement.verdict == HOLDS]
    weak = [j for j in held if j.statement.of_weak_attack]
    decided = [("Holds", [j for j in held if not j.statement.of_weak_attack])]
    decided += [("Holds by the paper's own attack, not by the strongest tried", weak)] * bool(weak)
    decided += [("Does not hold", [j for j in said if j.statement.verdict == FAILS])]
    for head, mine in decided:
        out += [f"**{head}** ({len(mine)} of {len(said)} statements):" + " none." * (not mine)]
        out += ["", *(_decided(text, list(of)) for text, of in _by_text(mine))]
        out += [""] if mine else []
    still = [j for j in said if j.statement.verdict not in (HOLDS, FAILS)]
    out += [f"**Nobody can tell yet** ({len(still)} of {len(said)}), and what it would take:"]
    return [*out, "", *_open(still)]


def statements(rows: Sequence[Row]) -> Iterator[JudgedStatement]:
    """Every statement on a recipe's column, by the largest scale on which it can be judged.

    What stands in for the paper's data is another column.
    """
    columns = dict.fromkeys((r.recipe, r.dataset, r.task) for r in rows if r.ours)
    for name, column, task in sorted(columns):
        found: dict[str, JudgedStatement] = {}
        for scale in reversed(SCALES):
            here = [r for r in rows if (r.recipe, r.scale, r.dataset) == (name, scale, column)]
            if any(r.ours and r.task == task for r in here):
                for said in _judged(here, scale):
                    before = found.setdefault(said.statement.text, said)
                    if OPEN == before.statement.verdict != said.statement.verdict:
                        found[said.statement.text] = said
        yield from found.values()


def _judged(rows: Sequence[Row], scale: str) -> Iterator[JudgedStatement]:
    """The statements on the rows of one column of one table."""
    made, name = [r for r in rows if r.ours], rows[0].recipe
    seeds = overview.span(len(r.seeds) for r in made)
    link = f"[{name}, {scale}](../../results/{name}/{scale}.md)"
    where = f"{write.title(made)}, {link}, {seeds} seed{'s' * (seeds != '1')}"
    for found in overview.judged(RECIPES[name], scale, rows, rows[0].dataset):
        yield JudgedStatement(found, where)


def _leaks(rows: Sequence[Row]) -> str:
    """How many cases give how much, and where the paper's measure sees least of it."""
    asked = worst(list(rivals(rows)))
    if not asked:
        return "**Leaks**: no attack has a number in these tables."
    counts = Counter(standing(q) for q in asked)
    told = "; ".join(f"{counts[s]} {_STANDINGS[s]}" for s in STANDINGS if counts[s])
    text = f"**Leaks**: of {len(asked)} cases (a setting, a task, a measure) {told}."
    gap = max(asked, key=_unseen)
    if _unseen(gap) > 0 and gap.paper:
        best, seen = gap.telling, gap.paper
        text += (
            f" Widest apart is {best.label} on {best.task}, `{best.metric}`:"
            f" {_value(seen)} by the paper's measure, {_value(best)} by `{spelled(best)}`."
        )
    return f"{text}\n"


def _unseen(q: Rivals) -> float:
    """How much more of a share the strongest attack names than the paper's own; 0 of others."""
    if q.dead or q.paper is None or standing(q) != "leaks":
        return 0.0
    of_shares = 0 <= number_of_row(q.paper) <= 1 and 0 <= number_of_row(q.telling) <= 1
    return abs(number_of_row(q.telling) - number_of_row(q.paper)) if of_shares else 0.0


def _value(r: Row) -> str:
    return "-" if r.ours is None else r.ours.text()


def _by_text(found: Sequence[JudgedStatement]) -> Iterator[tuple[str, Iterator[JudgedStatement]]]:
    return groupby(sorted(found, key=lambda j: j.statement.text), lambda j: j.statement.text)


def _decided(text: str, found: Sequence[JudgedStatement]) -> str:
    """One statement, with its numbers wherever it was decided the same way."""
    return f"* {text}: {'; '.join(map(_told, found))}"


def _told(j: JudgedStatement) -> str:
    """Its numbers, why it was decided so, and where."""
    s = j.statement
    told = [_numbers(s.live), s.why]
    if s.of_weak_attack and s.strongest:
        told += [f"by the strongest {_numbers(s.strongest.live)}", s.strongest.why]
    told += [mark.replace("_", " ") for mark in MARKS if mark in s.marks]
    return f"{'; '.join(filter(None, told))} ({j.place})".lstrip()


def _numbers(live: Mapping[str, Measurement]) -> str:
    """The first and the last of many."""
    told = [f"{label} {m.text()}" for label, m in live.items()]
    if len(told) <= SHOWN:
        return ", ".join(told)
    return f"{told[0]} ... {told[-1]}, {len(told)} in all"


def _open(found: Sequence[JudgedStatement]) -> Iterator[str]:
    """A line of each table, and of what it takes there."""
    for place in sorted({j.place for j in found}):
        wants = Counter[str]()
        seeds = []
        for needs in (j.statement.needs for j in found if j.place == place):
            seeds += [needs.seeds] if needs and needs.seeds else []
            wants[_want(needs)] += 1
        told = [f"{what} ({n})" for what, n in wants.items() if what]
        told += [f"{overview.span(seeds)} seeds ({len(seeds)})"] if seeds else []
        yield f"* {place}: {', '.join(told)}"


def _want(needs: Needs | None) -> str:
    """What it takes, without whose; "" of seeds, which are counted."""
    if needs is None:
        return "more than runs"
    if needs.seeds:
        return ""
    if needs.labels:
        return f"more than {power.MOST} seeds"
    return " and ".join(needs.kinds)
