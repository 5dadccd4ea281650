"""Statements of a paper that can be checked on our numbers, and one honest sentence about each.

An order compares rows; a dead run's numbers support nothing and contradict nothing: they are left
out, and that is said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import ConfigDict

from leakbench.reproduce import needs
from leakbench.reproduce.needs import Needed, Needs
from leakbench.reproduce.row import FEWEST, UNTUNED, Measurement, Row
from leakbench.scoring import flags

Verdict = Literal[
    "holds", "neither shown nor contradicted", "does not hold here", "cannot be judged here"
]
LACKING = "lacking_attack"  # of a row: a rival is asked of its method, and has no number here
HOLDS: Verdict = "holds"
WITHIN: Verdict = "neither shown nor contradicted"
FAILS: Verdict = "does not hold here"
OPEN: Verdict = "cannot be judged here"


class KnownKeys:
    """What is read from a recipe's file: no key in it is unknown."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Statement:
    """What the paper says, and what became of it here."""

    dataset: str
    text: str  # the paper's
    verdict: Verdict
    more: str  # what follows, with the numbers
    needs: Needs | None = None  # what would decide it, where it is open
    live: Mapping[str, Measurement] = field(default_factory=dict)  # what it was judged by
    why: str = ""  # in a phrase
    marks: Set[str] = frozenset()  # flags of the rows that it was judged by
    # The same by the strongest attack tried, where that is another than the paper's.
    strongest: Statement | None = None

    @property
    def sentence(self) -> str:
        """All of it."""
        return f"{self.text}: {self.verdict}{self.beside}"

    @property
    def beside(self) -> str:
        """What follows the verdict, that by the strongest attack as well."""
        other = self.strongest
        if other is None:
            return self.more
        return f"{self.more} By the strongest attack tried: {other.verdict}{other.more}"

    @property
    def of_weak_attack(self) -> bool:
        """Does it hold by the paper's own attack, and not by the strongest?"""
        return self.verdict == HOLDS and bool(self.strongest and self.strongest.verdict != HOLDS)


@dataclass(frozen=True)
class Order(KnownKeys, ABC):
    """What a paper says of the order of some values."""

    text: str  # the paper's statement
    measure: str  # whose values
    datasets: tuple[str, ...] = ()  # where it is claimed; everywhere if empty

    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""

    @abstractmethod
    def verdict(self, live: Mapping[str, Measurement]) -> tuple[Verdict, str]:
        """Of the live numbers by label: the verdict, and what has to be added to them."""

    def needed(self, live: Mapping[str, Measurement]) -> list[Needed]:
        """What is open of it, and how many seeds would tell."""
        return []

    def whole(self, verdict: Verdict) -> Sequence[str]:
        """Who must all be there and alive for ``verdict`` to be said."""
        return self.labels() if verdict == HOLDS else ()

    def why(self, live: Mapping[str, Measurement]) -> Sequence[str]:
        """What is known of why it comes out as the live numbers have it; sentences without dots."""
        return ()

    def within(self, labels: Set[str]) -> Order | None:
        """What is left of it where only the cases ``labels`` are run; None if nothing is."""
        return self if labels & {*self.labels()} else None

    def judge(self, rows: Sequence[Row], dataset: str, printed: int | None = None) -> Statement:
        """The statement on one data set's rows.

        After as many rounds as the paper has (``printed``) what it says is judged, trained to the
        end or not.
        """
        at = (dataset, self.measure)
        mine = {r.label: (r, r.ours) for r in rows if (r.dataset, r.measure) == at and r.ours}
        live, dead, marks = dict[str, Measurement](), dict[str, Measurement](), set[str]()
        seeds: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for label in dict.fromkeys(self.labels()):
            if label not in mine:
                continue
            row, ours = mine[label]
            if row.dead:
                dead[label] = ours
            else:
                live[label] = ours
                marks |= row.flags
                seeds[row.seeds].append(label)
        verdict, why = self.verdict(live)
        asked = {label: _as_asked(mine[label][0], printed) for label in live}
        doubts = self._doubts(verdict, asked, live)
        if doubts:
            verdict, why = WITHIN, f"{why}, but {'; '.join(doubts)}"
        absent = [label for label in dict.fromkeys(self.labels()) if label not in mine]
        there = {r.label for r in rows if r.dataset == dataset and r.ours}
        lacking = Needs(
            runs=tuple(x for x in absent if x not in there),
            unmeasured=tuple(x for x in absent if x in there),
            dead=tuple(dead),
        )
        wanted = None
        if verdict == WITHIN:
            wanted = self._open(asked, live)
        if verdict == OPEN or (verdict == WITHIN and wanted is None):
            wanted = lacking if absent or dead else None
        said = [f" ({why})" if why else ""]
        said += [_listed(live)] if live else []
        if dead:
            said.append(f"Left out, because dead runs support nothing: {_listed(dead)}")
        said += [f"Not there: {', '.join(absent)}"] if absent else []
        said += [text for flag, text in _MARKED.items() if flag in marks]
        young = [x for x, r in asked.items() if mine[x][0].undertrained and not r.undertrained]
        said += [f"After the paper's rounds still learning: {', '.join(young)}"] if young else []
        said += list(self.why(live))
        if len(seeds) > 1:
            told = [f"{', '.join(names)}: {_numbers(own)}" for own, names in seeds.items()]
            said.append(f"Not all over the same seeds ({'; '.join(told)})")
        said += [wanted.sentence] if wanted else []
        more = ". ".join(said) + "."
        return Statement(dataset, self.text, verdict, more, wanted, live, why, marks)

    def ahead(self, *, upwards: bool) -> Set[str]:
        """Who does better than the others if it is true; ``upwards``: is a larger value better?"""
        return {*self.labels()}

    def _doubts(
        self, verdict: Verdict, rows: Mapping[str, Row], live: Mapping[str, Measurement]
    ) -> list[str]:
        """Why ``verdict`` is not to be said; ``rows``: by label, those of ``live``."""
        if verdict not in (HOLDS, FAILS):
            return []
        missing = [x for x in dict.fromkeys(self.whole(verdict)) if x not in live]
        bare = [label for label, m in live.items() if m.low is None or m.high is None]
        out = [f"{', '.join(missing)} not there, or dead"] * bool(missing)
        out += [f"{', '.join(bare)} without an interval"] * bool(bare)
        picked = [x for x, r in rows.items() if {*r.seeds} != {*range(len(r.seeds))}]
        # Who may pick some of many finds three that agree.
        out += [f"{', '.join(picked)} of seeds that are not the first"] * bool(picked)
        for doubt in _DOUBTS:
            named = [label for label, r in rows.items() if doubt.flags & r.flags]
            if verdict == FAILS and doubt.rises:
                named = [x for x in named if x in self.ahead(upwards=_upwards(rows[x]))]
            if named:
                out.append(f"{', '.join(named)} {doubt.said}")
        return out

    def _open(self, rows: Mapping[str, Row], live: Mapping[str, Measurement]) -> Needs | None:
        """What would decide it; ``rows``: by label, those of ``live``."""
        found: dict[str, Any] = {doubt.needs: () for doubt in _DOUBTS if doubt.needs}
        for doubt in _DOUBTS:
            if doubt.needs:
                found[doubt.needs] += tuple(x for x, r in rows.items() if doubt.flags & r.flags)
        lacking = Needs(**found)
        if lacking.of_more_than_seeds:
            return lacking
        counts = {x: len(r.seeds) for x, r in rows.items()}
        seconds = {x: r.seconds for x, r in rows.items()}
        alone = [((x,), FEWEST) for x, r in rows.items() if flags.OF_FEW_SEEDS & r.flags]
        return needs.of_seeds([*self.needed(live), *alone], counts, seconds)


class _Doubt(NamedTuple):
    """Why nothing is to be said over a live row that has one of ``flags``."""

    flags: frozenset[str]
    said: str
    needs: str  # the field of ``Needs``; "" where it is seeds
    rises: bool = False  # can it only get better? Then it still contradicts whoever is to beat it


# What was not tuned may do better. What still learns, or may, can do either, and so can one seed's
# runs or two, whose interval is of their units alone. An attack that finds nothing where nothing is
# hidden, that was never tried there, or whose search came to no end, tells nobody how much there
# is; nor does one that others were attacked by and this one was not.
_DOUBTS = (
    _Doubt(frozenset({UNTUNED}), UNTUNED, "sweep", rises=True),
    _Doubt(frozenset({flags.UNDERTRAINED}), flags.UNDERTRAINED, "rounds"),
    _Doubt(frozenset({flags.CURVE_UNKNOWN}), "of an unknown curve", "curves"),
    _Doubt(flags.OF_FEW_SEEDS, "of fewer than three seeds", ""),
    _Doubt(flags.WEAK, "attacked too weakly", "attacks"),
    _Doubt(frozenset({LACKING}), "not attacked by all that its recipe asks", "attacks"),
)


def _upwards(r: Row) -> bool:
    """Is a larger value the better one?"""
    return not (r.ours and r.ours.meaning and r.ours.meaning.direction == "down")


def _as_asked(r: Row, printed: int | None) -> Row:
    """The row, without what its curve says of a run that is as long as the paper's."""
    if printed is None or r.rounds is None or r.rounds < printed:
        return r
    return r.model_copy(update={"flags": r.flags - flags.OF_TRAINING})


_MARKED = {
    flags.CURVE_UNKNOWN: (
        "Nothing tells whether training was over: too few evaluations, or a table without them"
    ),
    "stand_in_data": (
        "On stand-in data, so it speaks of the method's mechanism, not of the paper's numbers"
    ),
    "unofficial_data": "On data that are not, byte for byte, the official set's",
    "mixed_code": "Of runs that no one code made",
    "stale_run": "Of runs that other code made than what is installed",
    "stale_attack": "By attacks of other code than what is installed, or of code that nobody knows",
    "control_failed": (
        "Where the control's interval does not leave the blind guess's, the attack is too weak to"
        " judge, or has too few clients"
    ),
    flags.ONE_SEED: "One seed",
}


def _numbers(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) or "not told"


def _listed(numbers: Mapping[str, Measurement]) -> str:
    return "; ".join(f"{label} {m.text()}" for label, m in numbers.items())
