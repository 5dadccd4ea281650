"""How sure is this: what a reader has to know before believing the numbers.

Each line is marked fine, mind or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbench.attacking import TITLE
from leakbench.judging import TO
from leakbench.reporting import Inquiry, InquiryState, ReportData
from leakbench.results import Listener, Number
from leakbench.words import plural
from reports._words import FLAGS, several

FINE, MIND, WRONG = ("ok", "✓"), ("mind", "!"), ("bad", "✕")
FEW = 6  # names in a line
# What leakbench cannot do yet, as docs/threat-models.md has it.
NOT_YET = (
    "clients that send changed messages",
    "the server together with clients",
    "an aggregator that reads what it sums",
    "what timing and taking part give away",
)
NOTED = {
    "gradient_vanished": "Vanished updates.",
    "other_engine": "Engines differ.",
    "stand_in_data": "Stand-in data.",
    "unofficial_data": "Unofficial data.",
    "outside": "Trained elsewhere.",
    "mixed_code": "Mixed code.",
    "stale_run": "Older code.",
    "stale_attack": "Older attacks.",
    "no_control": "No control.",
    "weaker_observer": "Weaker observer.",
}


@dataclass(frozen=True)
class SureLine:
    """One thing to know, with how it stands."""

    mark: tuple[str, str]  # (class, sign)
    head: str
    text: str  # or what is escaped already

    @property
    def wrong(self) -> bool:
        """Has a reader to mind it?"""
        return self.mark != FINE


@dataclass(frozen=True)
class _Case:
    """What the lines are told from."""

    data: ReportData
    rows: Sequence[Number]  # of single attacks, at every stage

    @property
    def total(self) -> str:
        """How many rows, in words."""
        return plural(len(self.rows), "row")

    def marked(self, *names: str) -> int:
        return sum(bool(r.flags & set(names)) for r in self.rows)


def how_sure(data: ReportData) -> list[SureLine]:
    """The lines, in a fixed order."""
    rows = [n for s in data.settings for n in s.numbers if not n.attacker.made]
    if not rows:
        text = "No attack has been run: nothing here speaks of leakage."
        return [SureLine(WRONG, "Nothing was attacked.", text)]
    parts: tuple[Callable[[_Case], list[SureLine]], ...] = (
        *(_claims, _controls, _units, _seeds, _failures, _dead, _training, _oracle),
        *(_budget, _scale, _probes, _noted, _standard, _tried, _asked, _beyond),
    )
    case = _Case(data, rows)
    return [line for part in parts for line in part(case)]


def _claims(case: _Case) -> list[SureLine]:
    told = [(s, p) for s in case.data.settings for p in s.privacy if p.epsilon is not None]
    broken = _names([s.name for s, p in told if p.broken])
    if broken:
        text = f"Attacks prove a larger ε than a wrapper claims: {broken}."
        return [SureLine(WRONG, "Privacy is claimed that is not there.", text)]
    proven = sum(p.proven is not None for _, p in told)
    text = (
        f"{plural(len(told), 'run')} claim an ε, and {proven} were audited. No claim is below what"
        " was proven; an audit proves much less than there may be."
    )
    return [SureLine(FINE, "Claims of privacy.", text)] if told else []


def _controls(case: _Case) -> list[SureLine]:
    few = sum(r.few for r in case.rows)
    weak = sum(r.weak and not r.few for r in case.rows)
    if few:
        text = (
            f"In {few} of {case.total} too few clients were attacked to show that the attack works,"
            " however well it did where nothing is defended. Those say nothing about a method."
        )
        out = [SureLine(MIND, "Too few clients.", text)]
        return out + (_weak(case, weak) if weak else [])
    if not weak:
        text = f"In all {case.total} the attack beats a blind guess where nothing is defended."
        return [SureLine(FINE, "The attacks work.", text)]
    return _weak(case, weak)


def _weak(case: _Case, weak: int) -> list[SureLine]:
    text = (
        f"In {weak} of {case.total} the attack fails even with nothing defended. Those say nothing"
        " about a method."
    )
    judged = [j for q in case.data.questions if q.stage == "final" for j in q.judged]
    names = _names([j.setting.name for j in judged if j.verdict.rule == 4])
    if names:
        text += f" Too weak to judge by: {names}."
    return [SureLine(WRONG, "Some attacks do not work.", text)]


def _units(case: _Case) -> list[SureLine]:
    few = case.marked("few_units")
    if few:
        text = (
            f"{few} of {case.total} rest on under 50 units or 10 clusters; rare leaks can be missed"
            " there."
        )
        return [SureLine(MIND, "Few units.", text)]
    least = min(n.value.n for n in case.rows)
    text = (
        f"Every row rests on at least {least} of them: enough to find what leaks often. To show"
        " that nothing does may take more."
    )
    return [SureLine(FINE, "Units.", text)]


def _seeds(case: _Case) -> list[SureLine]:
    settings = case.data.settings
    seeds = {len(s.seeds) for s in settings}
    span = f"{min(seeds)}" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
    if min(seeds) >= 3:
        text = f"{span} a setting; an interval covers how training runs differ."
        return [SureLine(FINE, "Several seeds.", text)]
    few = _names([s.name for s in settings if len(s.seeds) < 3])
    under = f" (under three: {few})" if len(seeds) > 1 else ""
    text = f"{span} a setting{under}. With fewer than three, intervals speak of these runs, not of"
    return [SureLine(MIND, "Few seeds.", text + " the method.")]


def _failures(case: _Case) -> list[SureLine]:
    measured = [m for s in case.data.settings for m in s.measured]
    failed, tried = sum(m.failed for m in measured), sum(m.value.n for m in measured)
    if not failed:
        return [SureLine(FINE, "No failures.", "No attack failed on any unit.")]
    text = (
        f"Attacks failed on {failed} of {tried} unit scores; each counts as a blind guess, none was"
        " dropped: leakage is if anything higher."
    )
    return [SureLine(MIND, "Failures.", text)]


def _dead(case: _Case) -> list[SureLine]:
    dead = _names([s.name for s in case.data.settings if s.dead])
    text = f"{dead}. Kept off the front and out of every count."
    return [SureLine(MIND, "Dead runs.", text)] if dead else []


def _training(case: _Case) -> list[SureLine]:
    ends = [(s.name, s.final) for s in case.data.settings if s.final]
    young = [name for name, end in ends if end.undertrained]
    unknown = sum("curve_unknown" in end.flags for _, end in ends)
    out = []
    if young:
        text = (
            f"{len(young)} of {plural(len(ends), 'setting')} still learned fast when training ended"
            f" ({_names(young)}): trained longer they gain more, and may leak otherwise."
        )
        out.append(SureLine(MIND, "Undertrained.", text))
    if unknown:
        text = (
            f"Of {unknown} of {plural(len(ends), 'setting')} nobody can tell whether they were"
            " trained to their end: their utility was measured too seldom."
        )
        out.append(SureLine(MIND, "Training unknown.", text))
    return out


def _oracle(case: _Case) -> list[SureLine]:
    given = case.marked("oracle_prototypes", "oracle_labels")
    if not given:
        text = "No attack was given what a real attacker would not have."
        return [SureLine(FINE, "No oracle.", text)]
    text = (
        f"In {given} of {case.total} the attack is given something that a real attacker would not"
        " have (true prototypes or labels)."
    )
    return [SureLine(MIND, "Oracle knowledge.", text)]


def _budget(case: _Case) -> list[SureLine]:
    open_ = case.marked("loss_did_not_fall", "restarts_disagree")
    told = [case.data.about.get(f"attacks/{r.attacker.name}") for r in case.rows]
    if not open_ and not any(about is None or about.searches for about in told):
        text = (
            "No attack that searches was run, as gradient inversion is: its search may find more."
        )
        return [SureLine(MIND, "No search.", text)]
    if not open_:
        return [
            SureLine(FINE, "Compute.", "No attack says of itself that its search had not settled.")
        ]
    text = (
        f"In {open_} of {case.total} the search did not settle (its loss did not fall, or its"
        " restarts disagree): more of it may find more."
    )
    return [SureLine(MIND, "Compute.", text)]


def _scale(case: _Case) -> list[SureLine]:
    finals = [s.final for s in case.data.settings if s.final]
    claims = [n.claim for n in case.rows if n.claim] + [u.claim for u in finals if u.claim]
    if not claims:
        text = "None of the papers gives a number for these tasks, methods and metrics."
        return [SureLine(MIND, "No paper to compare with.", text)]
    stands = "stands" if len(claims) == 1 else "stand"
    text = f"{plural(len(claims), 'number')} of a paper {stands} beside ours"
    other = [c.differs for c in claims if c.differs]
    if other:
        text += f"; {len(other)} at another scale, such as: {other[0]}."
        return [SureLine(MIND, "Another scale than the papers.", text)]
    text += ", in the papers' own settings as far as they are stated."
    return [SureLine(FINE, "The papers' scale.", text)]


def _probes(case: _Case) -> list[SureLine]:
    text = (
        "Some examples were rebuilt from messages that nobody sends. They are judged apart from"
        " real messages."
    )
    asked = any(q.probe for q in case.data.questions)
    return [SureLine(MIND, "Probes.", text)] if asked else []


def _noted(case: _Case) -> list[SureLine]:
    out = []
    for name, head in NOTED.items():
        count, text = case.marked(name), FLAGS[name]
        if count:
            text = f"{text[0].upper()}{text[1:]}: in {count} of {case.total}."
            out.append(SureLine(MIND, head, text))
    if case.data.made.dirty:
        text = "The code had changes that are not in the commit of the report."
        out.append(SureLine(MIND, "Changed code.", text))
    return out


def _standard(case: _Case) -> list[SureLine]:
    told = [s for s in case.data.settings if s.lacks is not None]
    short = [s for s in told if s.lacks]
    if not told:
        return []
    if not short:
        text = (
            f"{TITLE} was made in full on all that the records hold, in every setting: a verdict"
            " may be cited with it and with what was recorded."
        )
        return [SureLine(FINE, "The standard ensemble.", text)]
    lacking = _names([one.attack.replace("_", " ") for s in short for one in s.lacks or ()])
    text = (
        f"{TITLE} was not made in full on {len(short)} of {plural(len(told), 'setting')}, so their"
        f" verdicts are not cited with it: leakbench attack RUN -a standard. There lack settings of"
        f" {lacking}."
    )
    return [SureLine(MIND, "Not the standard ensemble.", text)]


def _tried(case: _Case) -> list[SureLine]:
    missing = [m for m in case.data.missing if m.fits]
    waiting = [m.attack for m in missing if m.attack and m.reason.code == "not_run"]
    text = f"{plural(len(missing), 'number')} a reader would look for; the page has their reasons."
    if waiting:
        names = _names([name.replace("_", " ") for name in waiting])
        text += f" Attacks that fit and were not run: {names}."
    return [SureLine(MIND, "Not there.", text)] if missing else []


def _asked(case: _Case) -> list[SureLine]:
    """A line for each kind of listener: what it was asked, what it could be, what it cannot."""
    found: dict[Listener, dict[InquiryState, list[Inquiry]]] = {}
    for one in case.data.inquiries:
        found.setdefault(one.listener, {}).setdefault(one.state, []).append(one)
    return [_of_listener(TO[who], stand) for who, stand in found.items()]


def _of_listener(who: str, stand: Mapping[InquiryState, Sequence[Inquiry]]) -> SureLine:
    asked, open_, refused = (stand.get(s, ()) for s in ("asked", "open", "refused"))
    told = [Markup("{}.").format(several([a.topic for a in asked], FEW))] if asked else []
    if any(not a.topic for a in open_):
        told.append(Markup("Train with <code>{}</code>.").format(open_[0].text))
    elif open_:
        ways = [Markup("{} <code>{}</code>").format(a.topic, a.text) for a in open_]
        with_ = Markup("{}<code>leakbench attack RUN</code> with: ").format("Not: " * bool(asked))
        told.append(with_ + Markup("; ").join(ways) + ".")
    if refused:
        why = [Markup("{} ({})").format(a.topic, a.text) for a in refused]
        told.append(Markup("Cannot be asked: {}.").format(Markup("; ").join(why)))
    head = f"Asked of {who}:" if asked else f"Not asked of {who}."
    return SureLine(MIND if open_ else FINE, head, Markup(" ").join(told))


def _beyond(case: _Case) -> list[SureLine]:
    del case  # true of every report
    text = (
        f"{', '.join(NOT_YET)}. Other attacks may do better: nothing here proves that a method"
        " does not leak."
    )
    return [SureLine(WRONG, "Not tried:", text)]


def _names(found: Sequence[str]) -> str:
    return several(list(dict.fromkeys(found)), FEW)
