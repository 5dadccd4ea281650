"""What a parameter buys: leakage and utility over its values, where a method was run with some."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from leakbench.base import canonical
from leakbench.judging import PAPER, WORST, Judged, Question, attacked_alike, row_of
from leakbench.reporting import ReportData, ShownSetting
from leakbench.results import Number
from reports._chart.lines import Across, Axis, CurveLine, Trace, lines
from reports._chart.scale import top_of
from reports._words import several

FEWEST = 3  # values of a parameter
MOST = 6  # drawings of a question that are seen at once
NAMED = 4
LOG_FROM = 20.0  # times the smallest value
ONLY_SHOWN = (4, 6)  # too weak; or the paper's own attack alone, which is no worst case


@dataclass(frozen=True)
class Values:
    """A parameter of a method and its settings that differ in nothing else, by its value."""

    letter: str
    settings: Mapping[float, ShownSetting]

    @property
    def across(self) -> Across:
        """From the smallest value to the largest."""
        first, last = min(self.settings), max(self.settings)
        log = first > 0 and last >= LOG_FROM * first
        return Across(self.letter, first, last, log, f"at {self.letter}", marked=True)


@dataclass(frozen=True)
class Sweep:
    """One parameter's drawings on a question."""

    title: str
    of: str  # the settings at its ends
    leakage: Markup
    gain: Markup
    metric: str
    utility: str
    gone: str  # which values have no number, and why; and whether all were attacked alike


@dataclass(frozen=True)
class Sweeps:
    """A question's drawings."""

    task: str
    label: str
    shown: tuple[Sweep, ...]
    folded: tuple[Sweep, ...]


def sweeps(data: ReportData) -> list[Sweeps]:
    """Of every question about the end of training, where some parameter has enough values.

    Those of the most values come first.
    """
    out = []
    for q in data.questions:
        judged = {j.setting.index: j for j in q.judged}
        mine = [s for s in data.settings if s.index in judged]
        of = sorted(swept(mine), key=lambda v: -len(v.settings)) if q.stage == "final" else []
        drawn = [_sweep(q, v, judged) for v in of]
        found = [one for one in drawn if one]
        if found:
            out.append(Sweeps(q.task, q.label, tuple(found[:MOST]), tuple(found[MOST:])))
    return out


def swept(settings: Sequence[ShownSetting]) -> list[Values]:
    """Each parameter, of method or wrapper, of which there are enough values, all else alike."""
    alike: dict[tuple[str, str], dict[float, ShownSetting]] = defaultdict(dict)
    letters: dict[tuple[str, str], str] = {}
    for s in settings:
        c = s.configuration
        told = {"params": c.params, "wrappers": c.wrappers}
        for place, value in _numbers(told):
            key = canonical([c.task, c.defense, _without(told, place)]), canonical(place)
            alike[key][value] = s
            letters[key] = _letter(s, place)
    return [Values(letters[k], found) for k, found in alike.items() if len(found) >= FEWEST]


def _numbers(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, float]]:
    """(where it is, number) of each within."""
    if isinstance(value, Mapping):
        for key in value:
            yield from _numbers(value[key], (*place, key))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _numbers(part, (*place, i))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, float(value)


def _without(value: Any, place: tuple[str | int, ...]) -> Any:
    """``value`` with nothing at ``place``."""
    if not place:
        return None
    here, rest = place[0], place[1:]
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    return [[k, _without(v, rest) if k == here else v] for k, v in pairs]


def _letter(s: ShownSetting, place: tuple[str | int, ...]) -> str:
    """The parameter as people write it; a wrapper's with its name."""
    if place[0] == "params":
        return s.method.letter(str(place[1]))
    wrapper = s.configuration.wrappers[int(place[1])]
    return f"{wrapper['name']} {place[-1]}"


def _sweep(q: Question, v: Values, judged: Mapping[int, Judged]) -> Sweep | None:
    of = sorted(v.settings)
    worst, paper, gone = dict[float, Number](), dict[float, Number](), []
    for x in of:
        j = judged[v.settings[x].index]
        found = row_of(j, WORST)
        if found is None or j.setting.dead or j.verdict.rule in ONLY_SHOWN:
            gone.append(f"{x:g} ({j.verdict.word})")
            continue
        worst[x] = found
        own = row_of(j, PAPER)
        if own is not None:
            paper[x] = own
    if len(worst) < FEWEST:
        return None
    meaning = q.meaning
    shown = [CurveLine(_trace(worst, floor=True), "worst case", family=0)]
    shown += [CurveLine(_trace(paper), "paper's own attack", family=1, dash=1)] * bool(paper)
    shown.append(CurveLine(_undefended(worst), "nothing defended", family=2, dash=2))
    ends = [v.settings[x] for x in (of[0], of[-1])]
    title = f"{ends[0].title} over {v.letter}"
    axis = Axis(top_of(meaning), meaning.text)
    drawing, utility = _gain(title, v)
    told = [f"Without a number that counts: {several(gone, NAMED)}."] if gone else []
    if not attacked_alike(judged[v.settings[x].index] for x in worst):
        told.append("Not attacked alike: who was attacked less may only look lower.")
    return Sweep(
        title=title,
        of=f"{ends[0].name} to {ends[1].name}",
        leakage=lines(f"{title}: {meaning.heading}", shown, v.across, axis),
        gain=drawing,
        metric=meaning.heading,
        utility=utility,
        gone=" ".join(told),
    )


def _trace(found: Mapping[float, Number], *, floor: bool = False) -> Trace:
    at = tuple(sorted(found))
    values = [found[x].value for x in at]
    return Trace(
        at,
        tuple(e.value for e in values),
        tuple(e.low for e in values),
        tuple(e.high for e in values),
        tuple(found[x].floor.value for x in at) if floor else (),
    )


def _undefended(found: Mapping[float, Number]) -> Trace:
    """What the same attack gets where nothing is hidden."""
    at = tuple(x for x in sorted(found) if found[x].controlled)
    values = tuple(found[x].control.value for x in at)
    return Trace(at, values, values, values)


def _gain(title: str, v: Values) -> tuple[Markup, str]:
    """The utility of all of them, dead runs as well, and what it is called."""
    told = {x: s.final for x, s in v.settings.items() if s.final}
    if len(told) < FEWEST:
        return Markup(""), ""
    at = tuple(sorted(told))
    first = told[at[0]]
    values = [told[x].value for x in at]
    trace = Trace(
        at,
        tuple(e.value for e in values),
        tuple(e.low for e in values),
        tuple(e.high for e in values),
    )
    heading = first.meaning.heading
    chance = (first.chance, f"chance {first.meaning.text(first.chance)}")
    axis = Axis(top_of(first.meaning), first.meaning.text, chance)
    drawn = lines(f"{title}: {heading}", [CurveLine(trace, heading, family=3)], v.across, axis)
    return drawn, heading
