"""How sure is this: what a reader has to know before believing the numbers, each line marked fine,
mind or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leakbench.judging import MADE, Question, Setting, flags_of, plural
from leakbench.reporting import ReportData
from leakbench.results import Row
from reports._words import FLAGS

FINE, MIND, WRONG = ("ok", "✓"), ("mind", "!"), ("bad", "✕")
FEW = 6  # names in a line
# What no attack of leakbench does yet; see docs/threat-models.md.
NEVER = "a server or client that changes a message, clients that collude, membership inference"


@dataclass(frozen=True)
class Line:
    """``mark``: (class, sign)."""

    mark: tuple[str, str]
    head: str
    text: str


@dataclass(frozen=True)
class _Case:
    """``rows``: of single attacks, at every stage; ``total``: how many, in words."""

    data: ReportData
    settings: Sequence[Setting]
    questions: Sequence[Question]
    rows: Sequence[Row]

    @property
    def total(self) -> str:
        return plural(len(self.rows), "row")

    def marked(self, *names: str) -> int:
        return sum(bool(flags_of(r) & set(names)) for r in self.rows)


def how_sure(
    data: ReportData, settings: Sequence[Setting], questions: Sequence[Question]
) -> list[Line]:
    """The lines, in a fixed order."""
    rows = [r for r in data.tradeoff if r["attack"] not in MADE]
    if not rows:
        return [
            Line(
                WRONG,
                "Nothing was attacked.",
                "No attack has been run: nothing here speaks of leakage.",
            )
        ]
    case = _Case(data, settings, questions, rows)
    parts: tuple[Callable[[_Case], list[Line]], ...] = (
        *(
            _controls,
            _units,
            _seeds,
            _failures,
            _dead,
            _oracle,
            _budget,
            _scale,
            _probes,
            _noted,
            _tried,
            _beyond,
        ),
    )
    return [line for part in parts for line in part(case)]


def _controls(case: _Case) -> list[Line]:
    weak = case.marked("control_failed")
    names = _names(
        [
            j.setting.name
            for q in case.questions
            for j in q.judged
            if j.verdict.rule == 4 and q.stage == "final"
        ]
    )
    if not weak:
        return [
            Line(
                FINE,
                "The attacks work.",
                f"In all {case.total} the attack beats a blind guess where nothing is defended.",
            )
        ]
    text = (
        f"In {weak} of {case.total} the attack fails even with nothing defended. Those say nothing"
        " about a method."
    )
    return [
        Line(
            WRONG,
            "Some attacks do not work.",
            text + (f" Too weak to judge by: {names}." if names else ""),
        )
    ]


def _units(case: _Case) -> list[Line]:
    few = case.marked("few_units")
    if few:
        text = (
            f"{few} of {case.total} rest on under 50 units or 10 clusters; rare leaks can be missed"
            " there."
        )
        return [Line(MIND, "Few units.", text)]
    return [
        Line(
            FINE,
            "Enough units.",
            f"Every row rests on at least {min(int(r['n']) for r in case.rows)} of them.",
        )
    ]


def _seeds(case: _Case) -> list[Line]:
    seeds = {s.seeds for s in case.settings}
    span = f"{min(seeds)}" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
    if min(seeds) >= 3:
        return [
            Line(
                FINE,
                "Several seeds.",
                f"{span} a setting; an interval covers how training runs differ.",
            )
        ]
    few = _names([s.name for s in case.settings if s.seeds < 3]) if len(seeds) > 1 else ""
    text = f"{span} a setting{f' (under three: {few})' if few else ''}. With fewer than three, "
    text += "intervals speak of these runs, not of the method."
    return [Line(MIND, "Few seeds.", text)]


def _failures(case: _Case) -> list[Line]:
    rows = [r for r in case.data.results if r["attack"] not in MADE]
    failed, tried = sum(int(r["failed"]) for r in rows), sum(int(r["n"]) for r in rows)
    if not failed:
        return [Line(FINE, "No failures.", "No attack failed on any unit.")]
    text = (
        f"Attacks failed on {failed} of {tried} unit scores; each counts as a blind guess, none was"
        " dropped: leakage is if anything higher."
    )
    return [Line(MIND, "Failures.", text)]


def _dead(case: _Case) -> list[Line]:
    dead = _names([s.name for s in case.settings if s.dead])
    return (
        [Line(MIND, "Dead runs.", f"{dead}. Kept off the front and out of every count.")]
        if dead
        else []
    )


def _oracle(case: _Case) -> list[Line]:
    given = case.marked("oracle_prototypes", "oracle_labels")
    if not given:
        return [
            Line(FINE, "No oracle.", "No attack was given what a real attacker would not have.")
        ]
    text = (
        f"In {given} of {case.total} the attack is given something that a real attacker would not"
        " have (true prototypes or labels)."
    )
    return [Line(MIND, "Oracle knowledge.", text)]


def _budget(case: _Case) -> list[Line]:
    open_ = case.marked("loss_did_not_fall", "restarts_disagree")
    if open_:
        text = (
            f"In {open_} of {case.total} the search did not settle (its loss did not fall, or its"
            " restarts disagree): "
        )
        text += "more of it may find more."
        return [Line(MIND, "Compute.", text)]
    return [Line(FINE, "Compute.", "No attack says of itself that its search had not settled.")]


def _scale(case: _Case) -> list[Line]:
    claimed = [
        r
        for r in (*case.rows, *(u for u in case.data.utility if u["statistic"] == "final"))
        if r["claimed"] not in ("", None)
    ]
    if not claimed:
        return [
            Line(
                MIND,
                "No paper to compare with.",
                "None of the papers gives a number for these tasks, methods and metrics.",
            )
        ]
    smaller = [r for r in claimed if " here" in str(r["claimed_source"])]
    text = (
        f"{plural(len(claimed), 'number')} of a paper {'stands' if len(claimed) == 1 else 'stand'}"
        " beside ours"
    )
    if smaller:
        how = next(p for p in str(smaller[0]["claimed_source"]).split("; ") if " here" in p).split(
            ": "
        )[-1]
        return [
            Line(
                MIND,
                "Another scale than the papers.",
                f"{text}; {len(smaller)} at another scale, such as: {how}.",
            )
        ]
    return [
        Line(
            FINE,
            "The papers' scale.",
            f"{text}, in the papers' own settings as far as they are stated.",
        )
    ]


def _probes(case: _Case) -> list[Line]:
    text = (
        "Some images were rebuilt from messages that nobody sends. They are judged apart from real"
        " messages."
    )
    return [Line(MIND, "Probes.", text)] if any(q.probe for q in case.questions) else []


def _noted(case: _Case) -> list[Line]:
    out = []
    for name, head in (
        ("gradient_vanished", "Vanished updates."),
        ("other_engine", "Engines differ."),
        ("stand_in_data", "Stand-in data."),
    ):
        if case.marked(name):
            text = FLAGS[name]
            out.append(
                Line(
                    MIND,
                    head,
                    f"{text[0].upper()}{text[1:]}: in {case.marked(name)} of {case.total}.",
                )
            )
    if case.data.dirty:
        out.append(
            Line(
                MIND,
                "Changed code.",
                "The code had changes that are not in the commit named below.",
            )
        )
    return out


def _tried(case: _Case) -> list[Line]:
    waiting = [
        str(m["attack"]) for m in case.data.missing if m["attack"] and "not run" in str(m["reason"])
    ]
    if not case.data.missing:
        return []
    text = (
        f"{plural(len(case.data.missing), 'number')} a reader would look for, each with its reason,"
        " above."
    )
    names = _names([n.replace("_", " ") for n in waiting])
    return [
        Line(
            MIND,
            "Not there.",
            text + (f" Attacks that fit and were not run: {names}." if names else ""),
        )
    ]


def _beyond(case: _Case) -> list[Line]:
    del case  # true of every report
    return [
        Line(
            WRONG,
            "Not tried:",
            f"{NEVER}. Other attacks may do better: nothing here proves that a method does not"
            " leak.",
        )
    ]


def _names(found: Sequence[str]) -> str:
    several = list(dict.fromkeys(found))
    return ", ".join(several[:FEW]) + (
        f" and {len(several) - FEW} more" if len(several) > FEW else ""
    )
