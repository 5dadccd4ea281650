"""One page that opens offline: the verdict, the trade-off, every number with the command that made it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakbench.headline import headline
from leakbench.inert import inert
from leakbench.judging import find_questions
from leakbench.questions import METRICS
from leakbench.report_data import Report, ReportData
from leakbench.settings import find_settings
from leakbench.store import write_bytes
from reports import _against
from reports._page import view
from reports._pictures import albums, attack_name
from reports._points import half_fill, shapes
from reports._sure import how_sure
from reports._tables import number_rows, records
from reports._words import ATTACKER, PROBE, RUNGS, megabytes, why_missing

TEMPLATES = Path(__file__).parent / "templates"
# In the order in which the browser reads them: later rules win.
STYLES = ("base", "first", "sections", "against", "screens")
SCRIPTS: tuple[str, ...] = ()
MOST_MOVED = 12  # lines of what moved that are not folded


class Html(Report):
    """`index.html`: self-contained, no script, nothing loaded from anywhere."""

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """Write index.html below ``out``.

        Raises:
            UsageError: the folder cannot be written.
        """
        path = out / "index.html"
        write_bytes(path, render(data).encode())
        return [path]


def render(data: ReportData) -> str:
    """The page. Every string that comes from a run folder is escaped by the template or by the drawing; hidden characters are shown."""
    import jinja2

    settings = find_settings(data)
    questions = find_questions(data, settings)
    marks = shapes([s.family for s in settings])
    views = [view(i, q, questions, marks) for i, q in enumerate(questions)]
    style, script = _joined("style", STYLES, "css"), _joined("script", SCRIPTS, "js")
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"megabytes": megabytes, "attack_name": attack_name}
    page = env.get_template("index.html.jinja").render(
        data=data,
        style=style,
        script=script,
        policy=policy(style, script),
        first=headline(None) if not questions else None,
        views=views,
        rungs=RUNGS,
        attacker=ATTACKER,
        probe=PROBE,
        records=records(data, settings, questions),
        numbers=number_rows(data, settings),
        metrics=[(METRICS[m].title, METRICS[m].meaning) for m in METRICS if m in _metrics(data)],
        albums=albums(data.pictures, settings),
        missing=why_missing(data.missing),
        sure=how_sure(data, settings, questions),
        half=half_fill(),
        check=_check(data),
        moved=_moved(data),
        provenance=_provenance(data),
        seeds=sorted({s.seeds for s in settings}),
        tasks=sorted({s.task for s in settings}),
        settings=settings,
    )
    return inert(page)


def _joined(folder: str, names: Sequence[str], ending: str) -> str:
    """The page's own style or script, of the files named."""
    return "".join((TEMPLATES / folder / f"{name}.{ending}").read_text(encoding="utf-8") for name in names)


def policy(style: str, script: str = "") -> str:
    """A content policy that lets in the page's own style and script and embedded pictures, and nothing else."""
    own = {"style-src": style} | ({"script-src": script} if script else {})
    digests = {k: base64.b64encode(hashlib.sha256(v.encode()).digest()).decode() for k, v in own.items()}
    allowed = "; ".join(f"{k} 'sha256-{digest}'" for k, digest in digests.items())
    return f"default-src 'none'; img-src data:; {allowed}; base-uri 'none'; form-action 'none'"


def _metrics(data: ReportData) -> set[str]:
    return {r["metric"] for r in (*data.tradeoff, *data.utility)}


def _check(data: ReportData) -> dict[str, Any] | None:
    """The strip of `leakbench check`: a heading, the first five lines, how many more."""
    if data.check is None:
        return None
    code, lines = data.check.exit, data.check.lines
    tone, head = {0: ("held", "Check passed"), 1: ("leak", "Check failed (exit 1)")}.get(code, ("part", f"Check undecided (exit {code})"))
    head = data.check.heading or head
    told = []
    for line in lines[:5]:
        word, colon, rest = line.partition(":")
        bad = {"leaks more": "leak", "loses utility": "leak", "cannot tell": "part", "fine": "held"}.get(word.strip(), "none")
        told.append((bad, word, rest) if colon and len(word) < 20 else ("none", "", line))
    return {"tone": tone, "head": head, "lines": told, "more": len(lines) - len(told), "against": data.check.against}


def _moved(data: ReportData) -> dict[str, Any] | None:
    """What moved since another report: the lines that matter first, then all others."""
    if data.against is None:
        return None
    lines = [_against.line(r) for r in data.against.rows]
    first = [n for n in lines if n.first]
    return {
        "said": _against.verdict(data.against),
        "first": first[:MOST_MOVED],
        "rest": [*first[MOST_MOVED:], *(n for n in lines if not n.first)],
    }


def _provenance(data: ReportData) -> list[tuple[str, str]]:
    """Where the runs came from: (what, the values that occur)."""

    def seen(values: Any) -> str:
        found = sorted({str(v) for v in values if v not in (None, "")})
        return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "") if found else "not recorded"

    runs = data.runs
    names = sorted({n for r in runs for n in r.get("versions", {})})
    out = [("report made", data.made), ("leakbench", f"{data.version}, commit {data.commit}{', with changes' if data.dirty else ''}")]
    out += [("runs", str(len(runs))), ("engines", seen(r.get("engine") for r in runs)), ("devices", seen(r.get("device") for r in runs))]
    out += [("number format", seen(r.get("dtype") for r in runs))]
    out += [("commits of the runs", seen(f"{r.get('commit')}{', with changes' if r.get('dirty') else ''}" for r in runs))]
    return out + [(n, seen(r.get("versions", {}).get(n) for r in runs)) for n in names]
