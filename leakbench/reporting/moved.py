"""What moved since another report: every number that both have, one way to compare them and one to
say it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, computed_field

from leakbench.base.meaning import Meaning
from leakbench.base.part import Part
from leakbench.gate.comparing import BLOCKING, changed, difference, unchanged
from leakbench.reporting.sides import Side
from leakbench.statistics.differences import FEWEST_SEEDS, LEVEL, Difference, holm, judge
from leakbench.statistics.intervals import Estimate

Word = Literal[
    "leaks more",
    "loses utility",
    "cannot tell",
    "leaks no more",
    "keeps utility",
    "much the same",
    "leaks less",
    "more useful",
]
ORDER = (
    "leaks more",
    "loses utility",
    "cannot tell",
    "leaks less",
    "more useful",
    "leaks no more",
    "keeps utility",
    "much the same",
)
# Of a leakage, and of a utility: worse, better, no worse.
WORDS: dict[bool, tuple[Word, Word, Word]] = {
    False: ("leaks more", "leaks less", "leaks no more"),
    True: ("loses utility", "more useful", "keeps utility"),
}
# Less leakage is claimed at half the level at which more of it is.
CLAIM = LEVEL / 2
TABLES_ONLY = "limits from the two intervals: the other report's tables hold no units"


class Moved(Part):
    """One number then and now.

    ``setting`` is its key, ``name`` the setting's; ``attack`` is "utility" for a utility.
    ``difference``: now minus then with 95 % limits (two-sided, None where they cannot be had), on
    the metric's own scale, or as a factor (now over then) where logarithms are compared.
    """

    setting: str
    task: str
    name: str
    attack: str
    rung: str
    meaning: Meaning = Field(exclude=True)
    stage: str
    probe: bool
    worse: Literal["up", "down"]
    old: Estimate
    new: Estimate
    difference: float
    low: float | None
    high: float | None
    scale: Literal["difference", "factor"]
    word: Word
    why: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.meaning.name


class Against(Part):
    """``name``: the other report. ``differs``: what makes the two not like with like, in sentences.
    The rest only one of them has.
    """

    name: str
    rows: tuple[Moved, ...] = ()
    differs: tuple[str, ...] = ()
    only_now: tuple[str, ...] = ()
    only_then: tuple[str, ...] = ()


def against(name: str, now: Sequence[Side], then: Sequence[Side]) -> Against:
    """Join both by the name of the number, the most urgent rows first.

    Args:
        name: what the other report is called.
        now: every number of these runs.
        then: every number of the other report.
    """
    here, there = {s.key: s for s in now}, {s.key: s for s in then}
    names = setting_names({setting_key(s.row): s.row for s in (*then, *now)})
    pairs = [(s, there[k]) for k, s in here.items() if k in there]
    compared = [_compared(a, b) for a, b in pairs]
    more = _levels([c.worse for c in compared], LEVEL)
    less = _levels([c.better for c in compared], CLAIM)
    rows = [
        _moved(a, b, c, names, (m, n))
        for (a, b), c, m, n in zip(pairs, compared, more, less, strict=True)
    ]
    rows.sort(key=lambda r: (ORDER.index(r.word), r.task, r.name, r.metric, r.attack, r.stage))
    return Against(
        name,
        tuple(rows),
        tuple(_differs(pairs)),
        _only(here, there, names),
        _only(there, here, names),
    )


@dataclass(frozen=True)
class _Compared:
    """Both directions of a difference in units of the gate (against the method, and for it), or the
    limits from two intervals.
    """

    same: bool
    worse: Difference | None
    better: Difference | None
    why: str


def _compared(now: Side, then: Side) -> _Compared:
    few = min(len(now.seeds), len(then.seeds)) < FEWEST_SEEDS
    why = _unlike(now, then) or ("one seed: how training runs differ is not covered" if few else "")
    if now.gate is None or then.gate is None:
        return _Compared(False, None, None, "; ".join(w for w in (why, TABLES_ONLY) if w))
    if not _unlike(now, then) and unchanged(now.gate, then.gate):
        return _Compared(True, None, None, "the same guesses, byte for byte")
    return _Compared(False, difference(now.gate, then.gate), difference(then.gate, now.gate), why)


def _unlike(now: Side, then: Side) -> str:
    """Why the two are not like with like, or nothing."""
    for flag, text in BLOCKING.items():
        if flag in now.flags or flag in then.flags:
            return text if flag in now.flags else f"then, {text}"
    told = [
        f"another {what} now ({new}) than then ({old})"
        for what, (old, new) in _changed(now, then).items()
    ]
    return "; ".join(told)


def _changed(now: Side, then: Side) -> dict[str, tuple[object, object]]:
    if now.gate is not None and then.gate is not None:
        return dict(changed(now.gate, then.gate))
    return {
        k: (then.about[k], now.about[k])
        for k in now.about.keys() & then.about.keys()
        if now.about[k] != then.about[k]
    }


def _levels(differences: Sequence[Difference | None], level: float) -> list[float]:
    """Holm's level for each that could be compared."""
    kept = iter(holm([d.p() for d in differences if d], level))
    return [next(kept) if d else 0.0 for d in differences]


def _moved(
    now: Side, then: Side, found: _Compared, names: Mapping[str, str], levels: tuple[float, float]
) -> Moved:
    low, high = _limits(now, then, found)
    turned = 1.0 if now.worse == "up" else -1.0
    centre = turned * found.worse.d if found.worse else _centre(now, then)
    ends = (turned * low, turned * high)
    word = _word(now, then, found, (turned * centre, min(ends), max(ends)), levels)
    log = now.row["metric"] in LOGARITHMIC
    numbers = [math.exp(x) if log else x for x in (centre, low, high)]
    row = now.row
    return Moved(
        setting=setting_key(row),
        task=row["task"],
        name=names[setting_key(row)],
        attack=row["attack"],
        rung=now.rung,
        metric=row["metric"],
        stage=row["stage"],
        probe=bool(row["probe"]),
        leaks=now.worse,
        old=Amount(then.value, then.low, then.high, then.n, then.unit),
        new=Amount(now.value, now.low, now.high, now.n, now.unit),
        difference=numbers[0],
        low=numbers[1],
        high=numbers[2],
        scale="factor" if log else "difference",
        word=word,
        why=found.why,
    )


def _scaled(side: Side) -> tuple[float, float, float]:
    """Value, low and high on the scale on which differences are taken."""
    numbers = (side.value, side.low, side.high)
    if side.row["metric"] in LOGARITHMIC:
        return tuple(math.log(max(x, 1.0)) for x in numbers)  # type: ignore[return-value]
    return numbers


def _centre(now: Side, then: Side) -> float:
    return _scaled(now)[0] - _scaled(then)[0]


def _limits(now: Side, then: Side, found: _Compared) -> tuple[float, float]:
    """Two-sided 95 % limits of now minus then: of the units and seeds where they are there, else of
    the two intervals.
    """
    if found.same:
        return 0.0, 0.0
    if found.worse:
        ends = found.worse.lower(0.025), found.worse.upper(0.025)
        return ends if now.worse == "up" else (-ends[1], -ends[0])
    (a, al, ah), (b, bl, bh) = _scaled(now), _scaled(then)
    return a - b - math.hypot(a - al, bh - b), a - b + math.hypot(ah - a, b - bl)


def _word(
    now: Side,
    then: Side,
    found: _Compared,
    turned: tuple[float, float, float],
    levels: tuple[float, float],
) -> Word:
    """What may be said; ``turned``: the difference and its limits in the direction that counts
    against the method.
    """
    worse, better, no_worse = WORDS[now.row["attack"] == UTILITY]
    if found.same:
        return "much the same"
    margin = now.margin if now.margin is not None else then.margin
    unlike = _unlike(now, then) or min(len(now.seeds), len(then.seeds)) < FEWEST_SEEDS
    if unlike or margin is None:
        return "cannot tell"
    if found.worse and found.better:
        up, down = judge(found.worse, margin, levels[0]), judge(found.better, margin, levels[1])
    else:
        d, low, high = turned
        up = (
            "leaks more"
            if low > 0 and d > margin / 2
            else "fine"
            if high < margin
            else "cannot tell"
        )
        down = (
            "leaks more"
            if high < 0 and -d > margin / 2
            else "fine"
            if -low < margin
            else "cannot tell"
        )
    if up == "leaks more":
        return worse
    if down == "leaks more":
        return better
    return ("much the same" if down == "fine" else no_worse) if up == "fine" else "cannot tell"


def _differs(pairs: Sequence[tuple[Side, Side]]) -> list[str]:
    """What is not the same on both sides, each with how many numbers it concerns."""
    count: Counter[str] = Counter()
    for now, then in pairs:
        count.update(
            f"{what}: {old} then, {new} now" for what, (old, new) in _changed(now, then).items()
        )
        if set(now.seeds) != set(then.seeds):
            count[f"seeds: {_listed(then.seeds)} then, {_listed(now.seeds)} now"] += 1
        if now.made != then.made:
            count[f"made by: {then.made} then, {now.made} now"] += 1
    return [f"{text} ({n} of {len(pairs)} numbers)" for text, n in count.most_common()]


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(seeds))) or "none recorded"


def _only(
    one: Mapping[str, Side], other: Mapping[str, Side], names: Mapping[str, str]
) -> tuple[str, ...]:
    """What only the first has: whole settings by name, and of settings that both have
    the numbers.
    """
    shared = {setting_key(s.row) for s in other.values()}
    out: dict[str, None] = {}
    for key, side in one.items():
        who = f"{side.row['task']}: {names[setting_key(side.row)]}"
        if setting_key(side.row) not in shared:
            out[f"{who} (the whole setting)"] = None
        elif key not in other:
            probes = ", on probes" if side.row["probe"] else ""
            out[
                f"{who}, {str(side.row['attack']).replace('_', ' ')}, {side.row['metric']},"
                f" {side.row['stage']}{probes}"
            ] = None
    return tuple(out)
