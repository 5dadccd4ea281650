"""What a check said, in Markdown: in `report.md`, and as the summary of a job."""

from __future__ import annotations

from leakbench.reporting.check_data import Check
from leakbench.reporting.check_lines import CheckLine, every_line, first_said, how_to_settle, urgent
from leakbench.reporting.markdown_text import Sheet, markdown_code, markdown_plain

LINES = 5
SIGNS = {0: "✅", 1: "❌"}
COLUMNS = ("verdict", "row", "old → new", "difference", "why")


def add_check(sheet: Sheet, check: Check, most: int = LINES) -> None:
    """The heading with a sign, the first ``most`` things that are not fine, all rows folded."""
    head = check.heading or f"Check ended with exit {check.exit}"
    sheet.add(f"## {SIGNS.get(check.exit, '⚠️')} {markdown_plain(head)}", "")
    if check.against:
        sheet.add(f"against {markdown_plain(check.against)}", "")
    for note in check.notes:
        sheet.add(markdown_plain(note), "")
    lines = urgent(check)
    if lines:
        sheet.table(COLUMNS, [_cells(x, said) for x, said in first_said(lines[:most])])
    elif not check.rows:
        for text in check.lines[:most]:
            sheet.add(f"* {markdown_plain(text)}")
        sheet.add("")
    more = len(lines or check.lines) - most
    if more > 0:
        sheet.add(f"and {more} more", "")
    every = every_line(check)
    if every:
        sheet.add("<details>", f"<summary>All {len(every)} rows</summary>", "")
        sheet.left -= len("</details>") + 2
        half = Sheet(sheet.left // 2)
        half.table(COLUMNS, [_cells(x, None) for x in every])
        sheet.left -= sheet.left // 2 - half.left
        sheet.lines += [*half.lines, "</details>", ""]


def _cells(line: CheckLine, said: bool | None) -> list[str]:
    """The cells of one line of the check's table.

    ``said``: an earlier line carries the same command; None: this table is about numbers, not
    commands.
    """
    settle = () if said is None else how_to_settle(line, said)
    told = ": ".join([*settle[:1], *(markdown_code(c, cell=True) for c in settle[1:])])
    why, others = markdown_plain(line.why).removesuffix("."), markdown_plain(line.others)
    parts = [t for t in (why, others, told) if t]
    compared = "compared over units and seeds" * bool(line.moved)
    # Neither a limit nor a run without rows is compared with anything.
    alone = "" if line.limit or not line.value else "not compared"
    return [
        f"**{markdown_plain(line.verdict)}**",
        markdown_plain(line.where),
        markdown_plain(line.value),
        markdown_plain(line.moved) or alone,
        ". ".join(parts) or compared,
    ]
