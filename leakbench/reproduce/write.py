"""What a recipe leaves behind: `<scale>.csv` with every number, and `<scale>.md` for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leakbench.base.files import write_bytes
from leakbench.reproduce import row
from leakbench.reproduce.recipe import Measure, Recipe
from leakbench.reproduce.row import Row
from leakbench.reproduce.statements import Statement
from leakbench.scoring import flags

NONE = "-"


def write_paper_table(
    recipe: Recipe,
    scale: str,
    rows: Sequence[Row],
    statements: Sequence[Statement],
    figures: Sequence[Path],
    out: Path,
) -> list[Path]:
    """Both files below ``out``/<recipe>; returns their paths.

    Raises:
        UsageError: the place cannot be written.
    """
    folder = out / recipe.name
    row.write_rows(folder / f"{scale}.csv", rows)
    text = page(recipe, scale, rows, statements, [f.name for f in figures])
    write_bytes(folder / f"{scale}.md", text.encode())
    return [folder / f"{scale}.csv", folder / f"{scale}.md"]


def title(rows: Sequence[Row]) -> str:
    """Of one data set's ``rows``: the paper's data set, and what stands in for it."""
    first = rows[0]
    stands_in = any(r.stand_in for r in rows)
    return f"{first.dataset}, in its place {first.task}" if stands_in else first.dataset


def headings(recipe: Recipe, rows: Sequence[Row]) -> dict[str, str]:
    """{key: heading} of ``wide``'s columns.

    They are the label, the paper's and our cell of each measure, and the notes.
    """
    out = {"label": "method"}
    for m in _asked(recipe, rows):
        if any(r.claim for r in rows if r.measure == m.key):
            out[f"{m.key} paper"] = f"{m.title}, paper"
        out[m.key] = f"{m.title}, ours" if f"{m.key} paper" in out else m.title
    return out | {"note": "note"}


def wide(recipe: Recipe, rows: Sequence[Row]) -> list[dict[str, str]]:
    """One line per case of one data set's ``rows``: cells as text.

    A dead run is marked beside each of its numbers.
    """
    asked = _asked(recipe, rows)
    cases: dict[str, dict[str, Row]] = {}
    for r in rows:
        cases.setdefault(r.label, {})[r.measure] = r
    out = []
    for label, mine in cases.items():
        told = [mine[m.key] for m in asked if m.asks(mine[m.key].method)]
        notes = dict.fromkeys("; ".join(r.notes) for r in told if r.notes)
        line = {"label": label, "note": "; ".join(notes)}
        for m in asked:
            line[f"{m.key} paper"] = paper(mine[m.key])
            line[m.key] = ours(mine[m.key], m)
        out.append(line)
    return out


def _asked(recipe: Recipe, rows: Sequence[Row]) -> list[Measure]:
    """The recipe's measures that ``rows`` have; those that came later a table of before lacks."""
    there = {r.measure for r in rows}
    return [m for m in recipe.measures if m.key in there]


def paper(row: Row) -> str:
    """The paper's number with its spread."""
    claim = row.claim
    if claim is None:
        return NONE
    if claim.low is None or claim.high is None:
        return f"{claim.value:.3f}"
    return f"{claim.value:.3f} ± {(claim.high - claim.low) / 2:.3f}"


def ours(row: Row, m: Measure) -> str:
    """Our number with its interval, and what a reader must know with it."""
    if row.ours is None:
        return NONE
    spread = f" ± {row.std:.3f}" if m.over and row.std is not None else ""
    marks = ", dead run" * row.dead + ", untuned" * row.untuned
    marks += ", undertrained" * row.undertrained
    marks += ", unofficial data" * row.unofficial
    return row.ours.text(spread) + marks


def page(
    recipe: Recipe,
    scale: str,
    rows: Sequence[Row],
    statements: Sequence[Statement],
    figures: Sequence[str],
) -> str:
    """The page for people, as Markdown; ``figures``: names of files beside it."""
    out = [
        f"# {recipe.name}, {scale}",
        "",
        f"{recipe.about} Made by `leakbench reproduce {recipe.name} --scale {scale}`.",
        "",
        (
            "Proportions are 0 to 1. Ours: value [95 % interval]; ± of ours, where it stands, is"
            f" the standard deviation over {_over(recipe)}."
        ),
        "",
    ]
    asked = _asked(recipe, rows)
    for m in asked:
        if not m.printed:
            out += [f"The paper does not print *{m.title}*: only ours.", ""]
    later = [f"*{m.title}*" for m in recipe.measures if m not in asked]
    if later:
        out += [f"Not asked when this table was made: {'; '.join(later)}.", ""]
    columns = dict.fromkeys(r.dataset for r in rows)
    made = {r.dataset for r in rows if r.ours}
    there = [c for c in columns if c in made] or [*columns]
    never = "; ".join(c for c in columns if c not in there)
    out += [f"Columns of which nothing was run: {never}.", ""] if never else []
    for dataset in there:
        mine = [r for r in rows if r.dataset == dataset]
        out += [f"## {title(mine)}", "", *_markdown(headings(recipe, mine), wide(recipe, mine)), ""]
        out += _statements([s for s in statements if s.dataset == dataset])
        out += _differences(mine)
    out += [line for f in figures if f.endswith(".svg") for line in (f"![{recipe.about}]({f})", "")]
    if recipe.choices:
        choices = [f"* {c}" for c in recipe.choices]
        out += ["## What the paper leaves open, decided by us", "", *choices, ""]
    return "\n".join((*out, *_made(rows))) + "\n"


def _over(recipe: Recipe) -> str:
    return " or ".join(dict.fromkeys(m.over for m in recipe.measures if m.over)) or "prototypes"


def _markdown(heads: Mapping[str, str], lines: Sequence[Mapping[str, str]]) -> list[str]:
    out = ["| " + " | ".join(heads.values()) + " |", "|" + "---|" * len(heads)]
    for line in lines:
        cells = [line[k].replace("|", "/") for k in heads]
        out.append("| " + " | ".join(cells) + " |")
    return out


def _statements(found: Sequence[Statement]) -> list[str]:
    if not found:
        return []
    lines = [f"* {s.text}: **{s.verdict}**{s.beside}" for s in found]
    return ["What the paper says of the order, on our numbers:", "", *lines, ""]


def _differences(rows: Sequence[Row]) -> list[str]:
    """What differs in all rows once, then what differs in some."""
    each = {r.label: r.differs for r in rows}
    shared = set.intersection(*map(set, each.values()))
    common = [d for d in next(iter(each.values())) if d in shared]
    told = "; ".join(common) or "nothing that we know of"
    out = [f"What differs from the paper in all of these runs: {told}."]
    special: dict[str, list[str]] = {}
    for label, own in each.items():
        rest = "; ".join(d for d in own if d not in common)
        if rest:
            special.setdefault(rest, []).append(label)
    out.append("")
    out += [f"* {', '.join(labels)}: {rest}." for rest, labels in special.items()]
    return [*out, ""]


def _made(rows: Sequence[Row]) -> list[str]:
    """Where the numbers come from."""
    made = [r for r in rows if r.commit]
    out = ["## Runs", ""]
    for what, each in (
        ("Device", [r.device for r in made]),
        ("Number format", [r.dtype for r in made]),
        ("Engine", [r.engine for r in made]),
        ("Commit", [r.commit for r in made]),
        ("Seeds", [r.seeds for r in made]),
    ):
        found = dict.fromkeys(", ".join(map(str, values)) for values in each if values)
        out += [f"{what}: {'; '.join(found)}."] if found else []
    untold = dict.fromkeys(r.label for r in rows if flags.CURVE_UNKNOWN in r.flags)
    if untold:
        told = ", ".join(untold)
        out += [f"Nothing tells whether training was over (`{flags.CURVE_UNKNOWN}`): {told}."]
    sources = dict.fromkeys(r.claim.place for r in rows if r.claim)
    out += [f"The paper's numbers: {', '.join(sources)}."] if sources else []
    ids = {r.label: ", ".join(r.runs) for r in made if r.runs}
    lines = [f"* {label}: {run}" for label, run in ids.items()]
    return [*out, "", *(lines or ["No run was made."])]
