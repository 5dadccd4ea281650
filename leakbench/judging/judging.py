"""From numbers to verdicts: every question that they can answer, every setting judged on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leakbench.base.meaning import Meaning, Topic
from leakbench.base.reason import GONE, Reason, reason
from leakbench.judging.attackers import kinds_present
from leakbench.judging.evidence import Evidence
from leakbench.judging.fronts import Axes, front
from leakbench.judging.gaps import broken, found_beside, gaps, picked, unheard, unread
from leakbench.judging.question import TO, Judged, Question
from leakbench.judging.verdict import judge_evidence
from leakbench.results import cascade
from leakbench.results.listener import Listener
from leakbench.results.number import ANY, CASCADE, Missing, Number, when
from leakbench.results.settings import Setting

# The end of training is what is judged; before it in their order.
STAGES = ("final", "untrained", "early", "middle")
# What no attack could be run on yet.
UNDONE: dict[str, Literal["not finished", "failed"]] = {
    "running": "not finished",
    "failed": "failed",
}


def find_questions(settings: Sequence[Setting], missing: Sequence[Missing]) -> list[Question]:
    """Every question that some number can answer, by task.

    The task with most judged settings comes first, of equals that of which most leak, and within a
    task the question for the headline.

    Args:
        settings: all that are shown.
        missing: what is not there, and why.
    """
    asked: dict[tuple[str, str, bool, str], dict[str, Meaning]] = defaultdict(dict)
    for n in (n for s in settings for n in s.numbers if n.meaning.judges):
        topic = n.meaning.question.name
        asked[n.configuration.task, topic, n.probe, when(n.stage)][n.metric] = n.meaning
    reasons = _Reasons(settings, missing)
    questions = []
    for (task, _, probe, stage), metrics in asked.items():
        meaning = min(metrics.values(), key=lambda m: m.rank)
        empty = Question(
            task=task, topic=meaning.question, meaning=meaning, probe=probe, stage=stage
        )
        mine = [s for s in settings if s.task == task]
        ranked = sorted(metrics.values(), key=lambda m: m.rank)
        case = _Case(empty, tuple(ranked), reasons)
        heard = tuple(q for one in case.listeners(mine) if (q := case.asked(mine, one)).judged)
        questions.append(case.asked(mine).model_copy(update={"heard": heard}))
    most: dict[str, tuple[int, int]] = {}  # of a task: settings judged, and that leak
    for q in questions:
        if q.stage == "final":
            most[q.task] = max(most.get(q.task, (0, 0)), (_count(q), _leaking(q)))

    def place(q: Question) -> tuple[int, int, str, *tuple[int, ...]]:
        judged, leaking = most.get(q.task, (0, 0))
        return -judged, -leaking, q.task, *_place(q)

    questions.sort(key=place)
    return [_with_fronts(q) for q in questions]


def _with_fronts(question: Question) -> Question:
    heard = tuple(map(_with_fronts, question.heard))
    return question.model_copy(update={"fronts": _fronts(question), "heard": heard})


def _fronts(question: Question) -> dict[str, list[str]]:
    axes = Axes.of(question, (0.0, 0.0), (0.0, 0.0))  # only which way is better matters
    fronts = {}
    for key in kinds_present(question):
        best = front(question, key, axes)
        fronts[key] = [trade.judged.setting.id for trade in best]
    return fronts


def _count(question: Question) -> int:
    """How many settings it judges."""
    return sum(j.verdict.judged for j in question.judged)


def _leaking(question: Question) -> int:
    """How many settings leak most of what there is to leak."""
    return sum(j.verdict.tone == "leak" for j in question.judged)


def _place(question: Question) -> tuple[int, bool, bool, int, int, int]:
    """Among the questions of its task; of equals that on which most leak comes first."""
    count, stage = _count(question), question.stage
    at = STAGES.index(stage) if stage in STAGES else len(STAGES)
    # What nobody sends is never the headline while real messages were judged.
    return at, count == 0, question.probe, -count, -_leaking(question), question.topic.order


@dataclass(frozen=True)
class _Why:
    """What a setting lacks on a question.

    Reasons, titles of metrics without weights, and attacks that gave no number at all.
    """

    reasons: tuple[Reason, ...] = ()
    unmeasured: tuple[str, ...] = ()
    gone: tuple[Reason, ...] = ()


class _Reasons:
    """Why numbers are not there, looked up once for all questions."""

    def __init__(self, settings: Iterable[Setting], missing: Iterable[Missing]) -> None:
        self._of: dict[str, list[Missing]] = defaultdict(list)
        for m in missing:
            self._of[m.configuration.key].append(m)
        # Topic -> attacks that measure something of it.
        self._attacks: dict[str, set[str]] = defaultdict(set)
        for n in (n for s in settings for n in s.numbers):
            self._attacks[n.meaning.question.name].add(n.attacker.name)

    def of(self, setting: Setting, question: Question) -> _Why:
        """Of one setting on one question."""
        topic, unmeasured, gone = question.topic.name, dict[str, None](), dict[Reason, None]()
        reasons: dict[str, Reason] = {}
        elsewhere = set[str]().union(*(self._attacks[t] for t in self._attacks if t != topic))
        lacking = self._of[setting.key]
        # Of an attack without a number at the end, what its metrics lack explains nothing.
        lost = {m.attack for m in lacking if not m.metric and m.reason.code in GONE}
        for m in lacking:
            mine = m.meaning.question.name == topic if m.meaning else False
            whole = not m.metric and m.attack in self._attacks[topic]
            if whole or (mine and m.attack not in lost):
                reasons[m.metric] = m.reason
            # One that never gave a number may have asked any question.
            fits = m.attack in self._attacks[topic] or m.attack not in elsewhere
            if m.attack and not m.metric and fits and m.reason.code in GONE:
                gone[reason("gone", attack=m.attack, of=m.reason)] = None
            if mine and m.meaning and m.reason.code == "no_weights":
                unmeasured[m.meaning.heading] = None
        distinct = dict.fromkeys(reasons.values())
        return _Why(tuple(distinct), tuple(unmeasured), tuple(gone))


@dataclass(frozen=True)
class _Case:
    """A question that is asked of anyone, and of each who listened.

    ``ranked``: the topic's metrics, the question's own first.
    """

    empty: Question
    ranked: tuple[Meaning, ...]
    reasons: _Reasons

    def listeners(self, settings: Iterable[Setting]) -> list[Listener]:
        """The kinds of those who attacked, where there are several; of the end of training."""
        if self.empty.stage != "final":
            return []
        at, names = (self.empty.probe, self.empty.stage), {m.name for m in self.ranked}
        rows = [n for s in settings for n in s.numbers if n.metric in names and n.asked[1:] == at]
        found = cascade.listeners(n for n in rows if not n.attacker.made)
        return found if len(found) > 1 else []

    def asked(self, settings: Iterable[Setting], listener: Listener | None = None) -> Question:
        """Every setting with its verdict, by what this kind of listener found.

        No server is both one that keeps to the protocol and one that does not.
        """
        server = listener in ("server", "server+")
        mine = [s for s in settings if not server or s.active == (listener == "server+")]
        question = self.empty.model_copy(update={"listener": listener})
        judged = []
        for s in mine:
            why = self.reasons.of(s, question)
            if listener:
                why = replace(why, reasons=(reason("not_heard", to=TO[listener]),))
            judged.append(_judged(question, self.ranked, s, why))
        return question.model_copy(update={"judged": tuple(judged)})


def _judged(question: Question, ranked: Sequence[Meaning], setting: Setting, why: _Why) -> Judged:
    """One setting on one question; ``ranked``: the topic's metrics, the question's own first.

    Where an attack did not measure the question's own, the next that it has takes its place.
    """
    asked = {m.name: _asked(setting, (m.name, question.probe, question.stage)) for m in ranked}
    everyone = [n for found in asked.values() for n in found if not n.attacker.made]
    listener = question.listener
    if listener:
        asked = {name: _heard(setting, found, listener) for name, found in asked.items()}
    meaning = next((m for m in ranked if asked[m.name]), question.meaning)
    at = (meaning.name, question.probe, question.stage)
    numbers = asked.pop(meaning.name)
    others = [n for found in asked.values() for n in found if not n.attacker.made]
    special = {n.attacker.name: n for n in numbers if n.attacker.made}
    public = _asked(setting, (meaning.public, *at[1:]))
    own = [n for n in numbers if not n.attacker.made]
    together = [n for n in setting.heard if n.asked == at and n.attacker.name == CASCADE]
    among = [n for n in everyone if n.asked == at] if together else []
    state = UNDONE.get(setting.state, "")
    evidence = Evidence(
        meaning=meaning,
        hides=not setting.reference,
        attacks=tuple(own),
        cascade=special.get(CASCADE),
        among=tuple(among),
        cascades=() if listener else tuple(together),
        any_attack=special.get(ANY),
        seeds=len(setting.seeds),
        dead_seeds=setting.dead_seeds,
        dead_because=setting.dead_because,
        kind=question.topic.kind,
        sends=tuple(sorted(setting.kinds - {"model"})),
        sends_kind=_sends_kind(question.topic, setting),
        reasons=(setting.reason,) if state and setting.reason else _because(why),
        state=state,
        audited=_audited(setting) if question.topic.kind == "update" else None,
        present=_present(setting),
        public=_largest([n for n in public if not n.attacker.made]),
        unmeasured=why.unmeasured,
        beside=tuple(n for n in others if n.power and n.power.as_good),
        reads=tuple(sorted({kind for n in own for kind in n.attacker.reads})),
        gaps=(
            *gaps(setting, own),
            *unread(question.topic, setting, own, listener),
            *picked(question.topic, setting),
            *unheard(question.topic, setting, own, listener),
            *found_beside(others),
            *why.gone,
            *broken(setting),
        ),
        instead_of="" if meaning.name == question.metric else question.meaning.heading,
    )
    verdict = judge_evidence(evidence)
    judged = Judged(setting=setting, evidence=evidence, verdict=verdict)
    return judged.off_scale() if evidence.instead_of else judged


def _sends_kind(topic: Topic, setting: Setting) -> bool:
    """Is there anything of it to attack? Yes, where nothing says that there is not.

    What it sends under the topic's own name is, whatever the method calls its secrets.
    """
    told = setting.secrets if topic.secrets else None
    if told is not None and not told & {*topic.secrets} and topic.kind not in setting.kinds:
        return False
    return not setting.every or not topic.kinds or bool(setting.kinds & {*topic.kinds})


def _because(why: _Why) -> tuple[Reason, ...]:
    return why.reasons[:2] or (reason("none_fits"),)


def _audited(setting: Setting) -> int | None:
    """How many clients of an audited round are recorded whole; None where nothing says so."""
    every = [run.meta.get("spec", {}).get("record", {}) for run in setting.runs]
    known = [r["audited"] for r in every if r.get("name") == "standard" and "audited" in r]
    return min(known, default=None)


def _present(setting: Setting) -> int | None:
    """How many clients take part in a round; None where nothing says so."""
    if not setting.runs or "clients" not in setting.one.meta.get("facts", {}):
        return None
    share = setting.configuration.params.get("fraction", 1.0)
    return max(1, round(share * int(setting.one.meta["facts"]["clients"])))


def _heard(setting: Setting, asked: Sequence[Number], listener: Listener) -> list[Number]:
    """What one kind of listener found; ``asked``: what all of them did, in one metric."""
    single = [n for n in asked if not n.attacker.made]
    own: list[Number] = cascade.heard_by(listener, single)
    if len(own) == len(single):
        return [*asked] if own else []
    at = {n.asked for n in single}
    return [*own, *(n for n in setting.heard if n.heard_by == listener and n.asked in at)]


def _asked(setting: Setting, question: tuple[str, bool, str]) -> list[Number]:
    """The numbers of one setting that answer a question, those over all rounds last."""
    found = [n for n in setting.numbers if n.asked == question]
    return sorted(found, key=lambda n: n.stage == "all")


def _largest(numbers: Sequence[Number]) -> Number | None:
    return max(numbers, key=lambda n: n.leak, default=None)
