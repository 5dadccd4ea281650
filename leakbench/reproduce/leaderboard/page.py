"""The leaderboard as files: a page that opens offline, the same as data, a badge a line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from leakbench.base import printable, provenance
from leakbench.base.errors import UsageError
from leakbench.base.files import pack_json, write_bytes
from leakbench.base.meaning import Meaning
from leakbench.reporting import PAGE_PARTS, content_policy, joined_files, page_environment
from leakbench.reproduce import cards, fitting
from leakbench.reproduce.leaderboard.entry import STANDINGS, Entry, Standing, entries
from leakbench.reproduce.row import Row
from leakbench.reproduce.strongest import meaning_of, rivals, worst

HERE = Path(__file__).parent
SCHEMA = 1
# How it is said, and what a badge and the page colour it by: as a verdict of the report.
WORDS: Mapping[Standing, tuple[str, str]] = {
    "leaks": ("leaks", "leak"),
    "leaks_in_part": ("leaks in part", "part"),
    "cannot_tell": ("cannot tell", "none"),
    "too_weak": ("too weak or too few", "none"),
    "dead_run": ("dead run", "none"),
}
# A folder's address on the web: what Markdown or a browser would read otherwise is not in it.
FOLDER = re.compile(r"(?i:https?)://[\w.-]+(:\d+)?(/[\w.~%+,;=:@-]*)*")
WIDTH = 6.1  # of a letter of a badge at 11 px, on average


def leaderboard_files(results: Path, url: str = "") -> dict[str, bytes]:
    """File name -> content: index.html, leaderboard.json and the badges, of the tables there.

    ``url``: where they will be, for the text that shows a badge; "": not known.

    Raises:
        UsageError: there is no table, or ``url`` is no address of a folder.
        BrokenFile: a table is damaged.
    """
    place = _folder(url)
    rows = cards.committed_rows(results) if results.is_dir() else []
    asked = worst(list(rivals(rows)))
    if not asked:
        runs = next(results.glob("**/run.json"), None)
        instead = f" What lies there are runs: `leakbench report {results}` shows those."
        raise UsageError(
            f"no table with an attack's number lies in {results}. Make one with `leakbench"
            f" reproduce`, or give the folder that has them.{instead if runs else ''}"
        )
    known = fitting.read_fits(results / cards.FITTING)
    lines = entries(asked, rows, known)
    meanings = {q.best.metric: meaning_of(q.best) for q in asked}
    made = {"index.html": _page(lines, rows, meanings, place).encode()}
    told = [json.loads(e.model_dump_json()) for e in lines]
    made["leaderboard.json"] = pack_json({"schema": SCHEMA, "entries": told})
    return made | {f"badges/{e.address}.svg": badge(e, meanings[e.metric]).encode() for e in lines}


def write_leaderboard(results: Path, out: Path, url: str = "") -> int:
    """Write them below ``out``; how many lines there are.

    Raises:
        UsageError: there is no table, ``url`` is no address of a folder, or the place cannot be
            written.
        BrokenFile: a table is damaged.
    """
    made = leaderboard_files(results, url)
    for name, content in made.items():
        write_bytes(out / name, content, sync=False)
    return sum(name.startswith("badges/") for name in made)


def badge(e: Entry, meaning: Meaning) -> str:
    """A small picture for a repository: whose, on what; how it stands, beside a blind guess."""
    left, right = f"leakbench: {e.label}, {e.task}, {meaning.label}", _said(e, meaning)
    wide, more = (round(len(text) * WIDTH + 12) for text in (left, right))
    drawn = {"left": left, "right": right, "wide": wide, "more": more, "css": WORDS[e.standing][1]}
    return printable(page_environment(HERE).get_template("badge.svg.jinja").render(**drawn))


def _folder(url: str) -> str:
    """The address of the folder, with one slash at its end; of a page in it the folder's.

    Raises:
        UsageError: it is none.
    """
    place = url.strip().removesuffix("/index.html").rstrip("/")
    if url and not FOLDER.fullmatch(place):
        raise UsageError(
            f"--url {url}: expected the address of the folder where the page will be, as"
            " https://example.org/leaderboard/."
        )
    return f"{place}/" if place else ""


def _shown(e: Entry, place: str) -> str:
    """The Markdown that shows its badge, which leads to its line."""
    name = re.sub(r"([\\`*_\[\]<>])", r"\\\1", e.label)
    return f"[![{name}]({place}badges/{e.address}.svg)]({place}index.html#{e.address})"


def _said(e: Entry, meaning: Meaning) -> str:
    """The word first: a number alone that is near a blind guess would look like privacy."""
    word, _ = WORDS[e.standing]
    if e.standing in ("too_weak", "dead_run"):
        return f"{word}: not judged"
    blind = "" if e.floor is None else f" (blind guess {meaning.text(e.floor)})"
    return f"{word}: {meaning.text(e.value)}{blind}"


def _page(
    lines: Sequence[Entry], rows: Sequence[Row], meanings: Mapping[str, Meaning], place: str
) -> str:
    style = joined_files((PAGE_PARTS / "base.css", HERE / "leaderboard.css"))
    script = joined_files(
        (PAGE_PARTS / "theme.js", PAGE_PARTS / "sort.js", HERE / "leaderboard.js")
    )
    commit, dirty = provenance.source()
    page = page_environment(HERE).get_template("page.html.jinja")
    counts = Counter(e.standing for e in lines)
    return printable(
        page.render(
            style=style,
            script=script,
            policy=content_policy(style, script),
            tasks=_by_task(lines),
            meanings=meanings,
            words=WORDS,
            standings=[(one, counts[one]) for one in STANDINGS if counts[one]],
            lines=lines,
            order=STANDINGS,
            settings=len({(e.task, e.label) for e in lines}),
            methods=len({e.method for e in lines if e.method}),
            unattacked=cards.unattacked(rows),
            partly=cards.partly(rows),
            badge_text={e.address: _shown(e, place) for e in lines},
            place=place,
            made=f"{commit[:7]}{'-dirty' * dirty}" if commit else "",
        )
    )


def _by_task(lines: Sequence[Entry]) -> list[tuple[str, list[tuple[str, list[Entry]]]]]:
    """(task, (metric, its lines)), as they are ordered."""
    out: list[tuple[str, Any]] = []
    for task, mine in groupby(lines, lambda e: e.task):
        out.append((task, [(m, list(of)) for m, of in groupby(mine, lambda e: e.metric)]))
    return out
