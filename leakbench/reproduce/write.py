"""What a recipe leaves behind: `<scale>.csv` with every number, and `<scale>.md` for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leakbench.base.files import write_bytes, write_csv
from leakbench.record.columns import Row
from leakbench.reproduce.recipe import Measure, Recipe, Scale
from leakbench.reproduce.rows import COLUMNS, NOT_ASKED
from leakbench.reproduce.statements import Statement, shown
from leakbench.scoring import flags

NONE = "-"


def write(
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
    write_csv(folder / f"{scale}.csv", COLUMNS, rows)
    text = "\n".join(_page(recipe, scale, rows, statements, [f.name for f in figures])) + "\n"
    write_bytes(folder / f"{scale}.md", text.encode())
    return [folder / f"{scale}.csv", folder / f"{scale}.md"]


def title(rows: Sequence[Row]) -> str:
    """Of one data set's ``rows``: the paper's data set, and what stands in for it."""
    stand_in = rows[0]["differs"].startswith("stand-in data") or any(
        "stand_in_data" in flags.split(r["flags"]) for r in rows
    )
    return (
        f"{rows[0]['dataset']}, in its place {rows[0]['task']}"
        if stand_in
        else str(rows[0]["dataset"])
    )


def headings(recipe: Recipe, rows: Sequence[Row]) -> dict[str, str]:
    """Key -> heading of ``wide``'s columns: label, the paper's and our cell of each measure,
    notes.
    """
    out = {"label": "method"}
    for m in recipe.measures:
        if any(r["claimed"] != "" for r in rows if r["measure"] == m.key):
            out[f"{m.key} paper"] = f"{m.title}, paper"
        out[m.key] = f"{m.title}, ours" if f"{m.key} paper" in out else m.title
    return out | {"note": "note"}


def wide(recipe: Recipe, rows: Sequence[Row]) -> list[dict[str, str]]:
    """One line per case of one data set's ``rows``: cells as text. A dead run is marked beside each
    of its numbers.
    """
    cases: dict[str, list[Row]] = {}
    for r in rows:
        cases.setdefault(r["label"], []).append(r)
    out = []
    for label, mine in cases.items():
        line = {
            "label": label,
            "note": "; ".join(
                dict.fromkeys(r["note"] for r in mine if r["note"] not in ("", NOT_ASKED))
            ),
        }
        for m in recipe.measures:
            row = next(r for r in mine if r["measure"] == m.key)
            line[f"{m.key} paper"] = paper(row)
            line[m.key] = ours(row, m)
        out.append(line)
    return out


def paper(row: Row) -> str:
    """The paper's number with its spread."""
    if row["claimed"] == "":
        return NONE
    spread = (
        ""
        if row["claimed_low"] == ""
        else f" ± {(row['claimed_high'] - row['claimed_low']) / 2:.3f}"
    )
    return f"{row['claimed']:.3f}{spread}"


def ours(row: Row, m: Measure) -> str:
    """Our number with its interval, and what a reader must know with it."""
    if row["value"] == "":
        return NONE
    spread = f" ± {row['std']:.3f}" if m.over else ""
    dead = ", dead run" if "dead_run" in flags.split(row["flags"]) else ""
    return f"{shown(row, spread)}{dead}"


def _page(
    recipe: Recipe,
    scale: str,
    rows: Sequence[Row],
    statements: Sequence[Statement],
    figures: Sequence[str],
) -> list[str]:
    chosen = recipe.scales[scale]
    out = [
        f"# {recipe.name}, {scale}",
        "",
        f"{recipe.about} Made by `leakbench reproduce {recipe.name} --scale {scale}`.",
        "",
    ]
    out += [
        (
            "Proportions are 0 to 1. Ours: value [95 % interval]; ± of ours, where it stands, is"
            " the standard deviation over prototypes."
        ),
        "",
    ]
    for m in recipe.measures:
        if not m.printed:
            out += [f"The paper does not print *{m.title}*: only ours.", ""]
    for dataset in dict.fromkeys(r["dataset"] for r in rows):
        mine = [r for r in rows if r["dataset"] == dataset]
        out += [f"## {title(mine)}", "", *_markdown(headings(recipe, mine), wide(recipe, mine)), ""]
        out += _statements([s for s in statements if s.dataset == dataset])
        out += _differences(mine)
    out += [line for f in figures if f.endswith(".svg") for line in (f"![{recipe.about}]({f})", "")]
    if recipe.choices:
        out += [
            "## What the paper leaves open, decided by us",
            "",
            *(f"* {c}" for c in recipe.choices),
            "",
        ]
    return out + _made(rows, chosen)


def _markdown(heads: Mapping[str, str], lines: Sequence[Mapping[str, str]]) -> list[str]:
    out = ["| " + " | ".join(heads.values()) + " |", "|" + "---|" * len(heads)]
    return out + [
        "| " + " | ".join(line[k].replace("|", "/") for k in heads) + " |" for line in lines
    ]


def _statements(found: Sequence[Statement]) -> list[str]:
    if not found:
        return []
    return [
        "What the paper says of the order, on our numbers:",
        "",
        *(f"* {s.sentence.replace(s.verdict, f'**{s.verdict}**', 1)}" for s in found),
        "",
    ]


def _differences(rows: Sequence[Row]) -> list[str]:
    """What differs in all rows once, then what differs in some."""
    each = {r["label"]: r["differs"].split("; ") if r["differs"] else [] for r in rows}
    common = [d for d in next(iter(each.values())) if all(d in own for own in each.values())]
    out = [
        "What differs from the paper in all of these runs: "
        + ("; ".join(common) or "nothing that we know of")
        + "."
    ]
    special: dict[str, list[str]] = {}
    for label, own in each.items():
        rest = "; ".join(d for d in own if d not in common)
        if rest:
            special.setdefault(rest, []).append(label)
    return [*out, "", *(f"* {', '.join(labels)}: {rest}." for rest, labels in special.items()), ""]


def _made(rows: Sequence[Row], scale: Scale) -> list[str]:
    """Where the numbers come from."""
    made = [r for r in rows if r["commit"]]
    out = ["## Runs", ""]
    for k, what in (
        ("device", "Device"),
        ("dtype", "Number format"),
        ("engine", "Engine"),
        ("commit", "Commit"),
        ("seeds", "Seeds"),
    ):
        found = list(dict.fromkeys(str(r[k]).replace("|", ", ") for r in made if r[k] != ""))
        out += [f"{what}: {'; '.join(found)}."] if found else []
    sources = dict.fromkeys(
        str(r["claimed_source"]).split(";")[0] for r in rows if r["claimed_source"]
    )
    out += [f"The paper's numbers: {', '.join(sources)}."] if sources else []
    ids = {r["label"]: r["runs"].replace("|", ", ") for r in made if r["runs"]}
    return (
        [*out, "", *(f"* {label}: {run}" for label, run in ids.items())]
        if ids
        else [*out, "", "No run was made."]
    )
