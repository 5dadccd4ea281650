"""Markdown of bounded size, in which every text of a stranger's stands as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from leakbench.base.printable_text import one_line


class Sheet:
    """Lines that stay under a size: what does not fit any more is counted."""

    def __init__(self, most: int) -> None:
        self.lines: list[str] = []
        self.left = most

    def add(self, *lines: str) -> bool:
        """Add all of these lines or none. Did they fit?"""
        size = sum(len(line.encode()) + 1 for line in lines)
        if size > self.left:
            return False
        self.lines += lines
        self.left -= size
        return True

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], more: str = "rows"
    ) -> None:
        """A table of as many rows as fit."""
        told = f"… and {{}} more {more}, left out to keep this short.".format
        longest = told(len(rows))
        note = len(longest.encode()) + 4
        self.left -= note
        done = 0
        if self.add("| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)):
            while done < len(rows) and self.add("| " + " | ".join(rows[done]) + " |"):
                done += 1
        self.left += note
        left = len(rows) - done
        rest = ["", told(left), ""] if left else [""]
        self.add(*rest)


def markdown_plain(text: str) -> str:
    """Text that Markdown, and whatever reads it, shows as it is.

    No tags, links, mentions, tables, formulas.
    """
    out = re.sub(r"([\\`*_{}\[\]<>#|~$!^])", r"\\\1", one_line(text))
    out = out.replace("&", "&amp;").replace("\\<", "&lt;").replace("\\>", "&gt;")
    out = re.sub(
        r"^([-+=]|\d+[.)](?=\s|$))", lambda m: m.group(1)[:-1] + "\\" + m.group(1)[-1], out
    )
    out = re.sub(r"(?i)\b(www)\.", r"\1&#46;", out).replace("://", "&#58;//")
    return re.sub(r"(@|\\#|(?i:\bGH-))(?=\w)", r"\1<!-- -->", out)


def markdown_code(text: str, *, cell: bool = False) -> str:
    """A command or a path, between enough back ticks.

    In a ``cell`` its bars are escaped, which the table undoes again.
    """
    shown = one_line(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    pad = " " if longest else ""
    told = f"{'`' * (longest + 1)}{pad}{shown}{pad}{'`' * (longest + 1)}"
    return told.replace("|", "\\|") if cell else told
