"""One page that opens offline: the verdict, the trade-off, every number with the command that made
it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakbench.base import printable, write_bytes
from leakbench.judging import METRICS, all_judged, headline
from leakbench.reporting import Report, ReportData
from leakbench.results import setting_key
from reports import _against
from reports._attackers import ATTACKERS, GHOST, WORST
from reports._cards import cards
from reports._chart import plot_fills
from reports._chart_data import block, chart_data
from reports._ladder import ladder
from reports._maps import maps
from reports._page import View, tasks_of, view
from reports._pictures import attack_name, gallery
from reports._points import half_fill, shapes
from reports._records import records
from reports._rounds import rounds
from reports._strip import strip
from reports._summary import table
from reports._sure import how_sure
from reports._tables import number_rows
from reports._words import PROBE, RUNGS, megabytes, why_missing

TEMPLATES = Path(__file__).parent / "templates"
# In the order in which the browser reads them: later rules win.
STYLES = ("base", "first", "sections", "against", "screens")
SCRIPTS = ("page", "scale", "draw", "choose", "zoom", "hover", "keys", "drawer", "sort")
MOST_MOVED = 12  # lines of what moved that are not folded


class Html(Report):
    """`index.html`: self-contained, nothing loaded from anywhere; without script it shows
    everything, one below the other.
    """

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """Write index.html below ``out``.

        Raises:
            UsageError: the folder cannot be written.
        """
        path = out / "index.html"
        write_bytes(path, render(data).encode())
        return [path]


def render(data: ReportData) -> str:
    """The page. Every string that comes from a run folder is escaped by the template or by the
    drawing; hidden characters are shown.
    """
    import jinja2

    settings, questions = all_judged(data)
    marks = shapes([s.family for s in settings])
    views = [view(i, q, questions, marks) for i, q in enumerate(questions)]
    final = [v for v in views if v.question.stage == "final"]
    records_ = records(data, settings, questions)
    charts = block(chart_data({v.ident: v.scenes for v in views if v.scenes}))
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
        charts=charts,
        switch=tasks_of(views),
        attackers=[a for a in ATTACKERS if any(a in v.attackers for v in views)],
        worst=next(a for a in ATTACKERS if a.key == WORST),
        ghost=GHOST,
        probe=PROBE,
        ladders=[
            found
            for v in sorted(final, key=_judged)
            if (found := ladder(v.ident, v.question, marks))
        ],
        tables=[table(v.ident, v.question, _claims(data, v.question.metric), marks) for v in final],
        cards=cards(data, questions, records_, marks),
        records=records_,
        numbers=number_rows(data, settings),
        metrics=[(METRICS[m].title, METRICS[m].meaning) for m in METRICS if m in _metrics(data)],
        rounds=rounds(data, settings, questions),
        maps=maps(data.maps, settings),
        gallery=gallery(data, settings, questions),
        missing=why_missing(data.missing),
        sure=how_sure(data, settings, questions),
        fills=half_fill() + plot_fills(),
        check=strip(data.check, settings),
        moved=_moved(data),
        provenance=_provenance(data),
        seeds=sorted({s.seeds for s in settings}),
        tasks=sorted({s.task for s in settings}),
        settings=settings,
    )
    return printable(page)


def _joined(folder: str, names: Sequence[str], ending: str) -> str:
    """The page's own style or script, of the files named."""
    return "".join(
        (TEMPLATES / folder / f"{name}.{ending}").read_text(encoding="utf-8") for name in names
    )


def policy(style: str, script: str = "") -> str:
    """A content policy that lets in the page's own style and script and embedded pictures, and
    nothing else.
    """
    own = {"style-src": style} | ({"script-src": script} if script else {})
    digests = {
        k: base64.b64encode(hashlib.sha256(v.encode()).digest()).decode() for k, v in own.items()
    }
    allowed = "; ".join(f"{k} 'sha256-{digest}'" for k, digest in digests.items())
    return f"default-src 'none'; img-src data:; {allowed}; base-uri 'none'; form-action 'none'"


def _judged(view: View) -> tuple[bool, int]:
    """Real messages before probes, and first what most settings were judged on."""
    return view.question.probe, -sum(j.verdict.judged for j in view.question.judged)


def _claims(data: ReportData, metric: str) -> dict[str, Any]:
    """``setting_key`` -> the row of tradeoff.csv that has its paper's number in ``metric``."""
    ends = [
        r
        for r in data.tradeoff
        if r["metric"] == metric and r["stage"] in ("final", "all") and not r["probe"]
    ]
    return {setting_key(r): r for r in ends if r["claimed"] not in ("", None)}


def _metrics(data: ReportData) -> set[str]:
    return {r["metric"] for r in (*data.tradeoff, *data.utility)}


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
        return (
            ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")
            if found
            else "not recorded"
        )

    runs = data.runs
    names = sorted({n for r in runs for n in r.get("versions", {})})
    out = [
        ("report made", data.made),
        (
            "leakbench",
            f"{data.version}, commit {data.commit}{', with changes' if data.dirty else ''}",
        ),
    ]
    out += [
        ("runs", str(len(runs))),
        ("engines", seen(r.get("engine") for r in runs)),
        ("devices", seen(r.get("device") for r in runs)),
    ]
    out += [("number format", seen(r.get("dtype") for r in runs))]
    out += [
        (
            "commits of the runs",
            seen(f"{r.get('commit')}{', with changes' if r.get('dirty') else ''}" for r in runs),
        )
    ]
    return out + [(n, seen(r.get("versions", {}).get(n) for r in runs)) for n in names]
