"""One page that opens offline: the verdict, the trade-off, every number with its command."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leakbench.base import printable, write_bytes
from leakbench.judging import WORST
from leakbench.reporting import (
    PAGE_PARTS,
    Report,
    ReportData,
    content_policy,
    joined_files,
    page_environment,
)
from leakbench.words import ATTACKERS, GHOST
from reports._chart.chart import plot_fills
from reports._chart.data import block, chart_data
from reports._chart.points import half_fill, shapes
from reports._page import moved
from reports._page.cards import cards
from reports._page.claims import claims
from reports._page.ladder import SHOWN, Ladder, ladder
from reports._page.list import GROUPS, cut
from reports._page.maps import maps
from reports._page.members import members
from reports._page.missing import not_here
from reports._page.numbers import numbers
from reports._page.pictures import Gallery, gallery
from reports._page.question import QuestionView, tasks_of, views
from reports._page.recipes import recipes
from reports._page.records import records
from reports._page.rounds import rounds
from reports._page.stages import worse_before
from reports._page.strip import strip
from reports._page.summary import table
from reports._page.sure import how_sure
from reports._page.sweeps import sweeps
from reports._words import PROBE, RUNGS, about, several

TEMPLATES = Path(__file__).parent / "_page" / "templates"
# In the order in which the browser reads them: later rules win.
STYLES = (
    PAGE_PARTS / "base.css",
    *(TEMPLATES / "style" / f"{n}.css" for n in ("first", "sections", "against", "screens")),
)
OWN_SCRIPTS = ("page", "scale", "draw", "choose", "zoom", "hover", "keys", "drawer", "list", "fold")
SCRIPTS = (
    *(TEMPLATES / "script" / f"{n}.js" for n in OWN_SCRIPTS),
    *(PAGE_PARTS / f"{n}.js" for n in ("theme", "sort")),
)
MANY = 12  # settings of a question: with more there is a box to find them
MOST_VALUES = 6  # of what is told of the runs
TONES = [tone for tone, *_ in GROUPS]  # from the worst on


class Html(Report):
    """`index.html`: self-contained, nothing loaded from anywhere.

    Without script it shows everything, one below the other. What it lets hear lies in `sounds/`,
    too, as WAV files.
    """

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """Write index.html below ``out``, and the sounds that are in it.

        Raises:
            UsageError: the folder cannot be written.
        """
        shown = gallery(data)
        written = [out / "index.html"]
        write_bytes(written[0], render(data, shown).encode())
        for sha256, name in shown.sounds.items():
            written.append(out / "sounds" / name)
            write_bytes(written[-1], base64.b64decode(data.sounds[sha256]))
        return written


def render(data: ReportData, shown: Gallery | None = None) -> str:
    """The page, with these pictures where they are made already.

    Every string that comes from a run folder is escaped by the template or by the drawing; hidden
    characters are shown.
    """
    marks = shapes([s.family for s in data.settings])
    every_view = views(data, marks)
    final = [v for v in every_view if not v.early]
    drawn = chart_data({v.ident: v.scenes for v in every_view if v.scenes})
    moves = {"lists": {v.ident: v.moves for v in every_view if v.moves}}
    climbs, ladders = _ladders(_most_judged_first(final), marks)
    style, script = joined_files(STYLES), joined_files(SCRIPTS)
    every = records(data)
    switched = {a for v in every_view for a in v.attackers}
    page = (
        page_environment(TEMPLATES)
        .get_template("index.html.jinja")
        .render(
            data=data,
            style=style,
            script=script,
            policy=content_policy(style, script),
            views=every_view,
            final=final,
            early=[v for v in every_view if v.early],
            worse=worse_before(data.questions),
            rungs=RUNGS,
            charts=block(drawn | moves),
            switch=tasks_of(every_view),
            attackers=[a for a in ATTACKERS if a in switched],
            worst=next(a for a in ATTACKERS if a.key == WORST),
            ghost=GHOST,
            probe=PROBE,
            many=MANY,
            most=None,
            whole=True,
            climbs=climbs,
            ladders=ladders,
            tables=[table(v.ident, v.question, marks) for v in final],
            cards=cards(data, every, marks),
            records=every,
            numbers=numbers(data),
            metrics=_metrics(data),
            rounds=rounds(data),
            sweeps=sweeps(data),
            maps=maps(data),
            gallery=shown or gallery(data),
            missing=not_here(data),
            sure=how_sure(data),
            claims=claims(data),
            members=members(data),
            again=recipes(data),
            fills=half_fill() + plot_fills(),
            check=strip(data.check),
            moved=moved.section(data.against) if data.against else None,
            provenance=_provenance(data),
            seeds=sorted({len(s.seeds) for s in data.settings}),
            tasks=sorted({s.task for s in data.settings}),
        )
    )
    return printable(page)


def brief(data: ReportData, most: int | None = None) -> str:
    """What a reader of two sheets of paper must know: no script, and the first question alone.

    Of the others stands what was found in a sentence each, and of the time before the end of
    training who was worse then; where nothing was asked at the end, the questions before it.

    Args:
        data: the report.
        most: lines of each list; how many more there are is said. None: all of them.
    """
    marks = shapes([s.family for s in data.settings])
    every_view = views(data, marks)
    asked = [v for v in every_view if v.question.listener is None]
    final = [_shortened(v, most) for v in asked if not v.early]
    others = _worst_first(final[1:] if final else asked)
    climbs, ladders = _ladders(final[:1], marks, SHOWN if most is None else min(SHOWN, most))
    style = joined_files(STYLES)
    page = page_environment(TEMPLATES).get_template("brief.html.jinja")
    return printable(
        page.render(
            data=data,
            style=style,
            policy=content_policy(style),
            views=every_view,
            final=final[:1],
            others=others[:most],
            left_out=len(others) - len(others[:most]),
            worse=worse_before(data.questions) if final else "",
            switch=[],
            attackers=[],
            worst=next(a for a in ATTACKERS if a.key == WORST),
            ghost=GHOST,
            probe=PROBE,
            many=MANY,
            most=most,
            whole=False,
            climbs=climbs,
            ladders=ladders,
            sure=how_sure(data),
            again=[],
            fills=half_fill() + plot_fills(),
            check=strip(data.check),
            moved=moved.section(data.against) if data.against else None,
            seeds=sorted({len(s.seeds) for s in data.settings}),
            tasks=several(sorted({s.task for s in data.settings}), MOST_VALUES),
        )
    )


def _shortened(v: QuestionView, most: int | None) -> QuestionView:
    """Its list with at most so many lines a verdict."""
    return v if most is None else replace(v, groups=tuple(cut(g, most) for g in v.groups))


def _worst_first(views: Iterable[QuestionView]) -> list[QuestionView]:
    """Those in which something leaks before the others: who reads a few has read these."""
    return sorted(views, key=lambda v: _worst_tone(v))


def _worst_tone(v: QuestionView) -> int:
    return min((TONES.index(g.tone) for g in v.groups), default=len(TONES))


def _ladders(
    views: Sequence[QuestionView], marks: Mapping[str, str], shown: int = SHOWN
) -> tuple[dict[str, Ladder], list[Ladder]]:
    """Those that stand in a chart's place, by its view, and the others."""
    first, others = {}, []
    for v in views:
        found = ladder(v.ident, v.question, marks, shown)
        if found and v.one_heap:
            first[v.ident] = found
        elif found:
            others.append(found)
    return first, others


def _most_judged_first(views: Sequence[QuestionView]) -> list[QuestionView]:
    """Real messages before probes; each listener's beside anyone's."""
    place: dict[str, tuple[bool, int]] = {}
    for v in views:
        count = sum(j.verdict.judged for j in v.question.judged)
        place.setdefault(v.asked, (v.question.probe, -count))
    return sorted(views, key=lambda v: place[v.asked])


def _metrics(data: ReportData) -> list[tuple[str, str]]:
    """(name, what it says) of every metric, in the order of the questions."""
    place = {m.name: (m.question.order, m.question.name, m.rank) for m in data.metrics.values()}
    ordered = sorted(data.metrics.values(), key=lambda m: (place[m.name], m.name))
    return [(m.heading, about(m)) for m in ordered]


def _provenance(data: ReportData) -> list[tuple[str, str]]:
    """Where the runs came from: (what, the values that occur)."""
    runs, made = data.runs, data.made
    commits = [f"{r.get('commit')}{', with changes' * bool(r.get('dirty'))}" for r in runs]
    out = [
        ("report made", made.at),
        ("leakbench", f"{made.version}, commit {made.commit}{', with changes' * made.dirty}"),
        ("runs", str(len(runs))),
        ("engines", _seen(r.get("engine") for r in runs)),
        ("devices", _seen(r.get("device") for r in runs)),
        ("number format", _seen(r.get("dtype") for r in runs)),
        ("commits of the runs", _seen(commits)),
    ]
    names = sorted({name for r in runs for name in r.get("versions", {})})
    for name in names:
        out.append((name, _seen(r.get("versions", {}).get(name) for r in runs)))
    return out


def _seen(values: Iterable[Any]) -> str:
    found = sorted({str(v) for v in values if v not in (None, "")})
    return several(found, MOST_VALUES) or "not recorded"
