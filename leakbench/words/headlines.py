"""The sentences of a report's questions, first those that it begins with.

These give counts of judged settings, the best that held, and what their own test made them look
like.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from leakbench.base.reason_words import kinds_of, reason_text
from leakbench.judging.acquittal import SEEDS
from leakbench.judging.leaders import attacked_alike, candidate, leaks_least, least_leaking, may_be
from leakbench.judging.question import WHEN, Judged, Question, Span
from leakbench.judging.verdict import Tone
from leakbench.results.number import Number, Utility
from leakbench.results.settings import Setting
from leakbench.words.amounts import beyond_blind, by, of_clusters, plural, value_text
from leakbench.words.verdict_counts import alone, unjudged
from leakbench.words.verdicts import WHO, additions, clauses, sentence

MOST = " most of what there is to leak"
FEW = 3  # tasks: with more the first sentences say of the worst two what leaks there
MANY = 20  # clients or other units: with fewer a verdict says so
# What one and several tasks are said to do by their worst setting, the worst first.
WORST_FIRST: dict[Tone, tuple[str, str]] = {
    "leak": ("leaks", "leak"),
    "part": ("leaks in part", "leak in part"),
    "none": ("cannot be judged", "cannot be judged"),
    "held": ("held", "held"),
}
# How many settings are in what state that is not done, in words.
UNDONE = {
    "dead": "dead",
    "failed": "failed",
    "running": "not finished",
    "not recorded": "not recorded",
}


def span(text: str, tone: str = "") -> Span:
    """A piece of a sentence."""
    return Span(text=text, tone=tone)


def with_words(questions: Iterable[Question]) -> tuple[Question, ...]:
    """With their first sentences, each verdict's, and what other questions say of a setting."""
    every = [_judged_in_words(q) for q in questions]
    out = []
    for q in every:
        heard = tuple(_first_words(_judged_in_words(h), every) for h in q.heard)
        out.append(_first_words(q, every).model_copy(update={"heard": heard}))
    return tuple(out)


def _judged_in_words(question: Question) -> Question:
    judged = [j.model_copy(update={"sentence": sentence(*j.basis)}) for j in question.judged]
    return question.model_copy(update={"judged": tuple(judged)})


def _first_words(question: Question, every: Sequence[Question]) -> Question:
    said = (*headline(question), *_elsewhere(question, every))
    first = {"headline": said, "lede": lede(question)}
    judged = []
    for j in question.judged:
        also = tuple(other_questions(question, every, j))
        judged.append(j.model_copy(update={"also": also}))
    return question.model_copy(update={**first, "judged": tuple(judged)})


def first_sentences(questions: Sequence[Question], settings: Sequence[Setting]) -> tuple[Span, ...]:
    """What a report begins with: of one task its first headline, of several what leaks on each.

    The worst comes first. Of more than a few tasks the worst two are told, and the others counted.

    Args:
        questions: with their words.
        settings: all that are shown.
    """
    names = dict.fromkeys([*(q.task for q in questions), *(s.task for s in settings)])
    if not questions:
        return unattacked(settings)
    if len(names) == 1:
        return questions[0].headline
    tasks = [_told(name, questions, settings) for name in names]
    tasks.sort(key=lambda task: [-task.tones[tone] for tone in WORST_FIRST])
    shown = tasks if len(tasks) <= FEW else tasks[:2]
    out = list(shown[0].said)
    for task in shown[1:]:
        out += [span(" "), *task.said]
    return (*out, *_others(tasks[len(shown) :]))


@dataclass(frozen=True)
class _Task:
    """What is said of a task, and how many of its settings are what by the worst of each."""

    said: tuple[Span, ...]
    tones: Counter[Tone]

    @property
    def worst(self) -> Tone:
        return next(tone for tone in WORST_FIRST if self.tones[tone])


def _told(task: str, questions: Sequence[Question], settings: Sequence[Setting]) -> _Task:
    first = next((q for q in questions if q.task == task), None)
    if first is None:
        mine = [s for s in settings if s.task == task]
        why = f"{task}: Nothing here can be judged: {_undone(mine)}."
        return _Task((span(why),), Counter({"none": len(mine)}))
    worst = {j.setting.key: j for j in _spoken_of(first)}
    for other in _siblings(first, questions):
        for j in other.judged:
            if _worse(j) > _worse(worst.get(j.setting.key, j)):
                worst[j.setting.key] = j
    said = (span(f"{task}, {first.label}: "), *_found(first), *_elsewhere(first, questions))
    return _Task(said, Counter(map(_tone, worst.values())))


def _tone(judged: Judged) -> Tone:
    """Of a setting with a dead seed nothing but what leaks is known."""
    return "none" if judged.setting.dead and not _worse(judged) else judged.verdict.tone


def _others(tasks: Sequence[_Task]) -> list[Span]:
    """How many more tasks are what by their worst setting."""
    counts = Counter(task.worst for task in tasks)
    out: list[Span] = []
    for tone, (one, several) in WORST_FIRST.items():
        if count := counts[tone]:
            before = ", " if out else f" {len(tasks)} more tasks, each by its worst setting: "
            out += [span(before), span(f"{count} {one if count == 1 else several}", tone)]
    return [*out, span(".")] if out else out


def unattacked(settings: Sequence[Setting]) -> tuple[Span, ...]:
    """The first sentences of a report in which there is no number of an attack.

    Where no run came to anything, that is said first: to attack it would not help.
    """
    none = "No attack has been run: this report says nothing about privacy."
    if not all(s.state in UNDONE for s in settings) or not settings:
        return (span(none),)
    return (span(f"None of these settings can be judged: {_undone(settings)}. "), span(none))


def _undone(settings: Sequence[Setting]) -> str:
    """What became of settings without a number, and why of the first that is not done."""
    states = Counter(UNDONE.get(s.state, "not attacked") for s in settings)
    told = ", ".join(f"{count} {state}" for state, count in states.items())
    for s in settings:
        if s.reason:
            return f"{told}, {s.name} because: {reason_text(s.reason).rstrip('.')}"
    return told


def headline(question: Question) -> tuple[Span, ...]:
    """One or two sentences.

    Counted are the defenses, of which those that are left open are named. References are none, and
    speak for themselves where no defense was judged.
    """
    sure = [j for j in question.judged if candidate(j)]
    if len(sure) < 2:
        return _found(question)
    kept = [j for j in sure if j.verdict.tone == "held"]
    return (*_found(question), span(" "), *_second(kept, _undefended_best(question)))


def _found(question: Question) -> tuple[Span, ...]:
    """How many leak, and how many are left open."""
    defenses = [j for j in question.judged if not j.setting.reference]
    sure = [j for j in defenses if candidate(j)]
    tones = Counter(j.verdict.tone for j in sure)
    total, leak, part = len(sure), tones["leak"], tones["part"]
    if total == 0:
        free = _undefended(question)
        if defenses and free:
            return (span(f"No defense setting here can be judged: {unjudged(defenses)}. "), *free)
        why = unjudged(question.judged) or "no setting is here"
        return free or (span(f"Nothing here can be judged: {why}."),)
    open_ = [j for j in defenses if not candidate(j)]
    end = f"; left open: {unjudged(open_)}." if open_ else "."
    most, on = span(f"{MOST}{end}"), f" on {question.label}"
    if total == 1:
        said = {
            "leak": (span("leaks", "leak"), most),
            "part": (span("leaks in part", "part"), span(end)),
            "held": (span("held", "held"), span(f" against every attack{on} tried{end}")),
        }
        one = "The one defense setting judged "
        if len(defenses) > 1:
            one = f"The one of {len(defenses)} defense settings that could be judged "
        return (span(one), *said[sure[0].verdict.tone])
    things = _things(defenses)
    every = f"{len(defenses)} {things}"
    none = f"None of the {total} that could be judged of {every}" if open_ else f"None of {every}"
    if leak == len(defenses):
        return (span(f"{_all(leak, things)} leak", "leak"), most)
    if leak:
        leaks = "leaks" if leak == 1 else "leak"
        also = (span(", "), span(f"{part} in part", "part")) if part else ()
        return (span(f"{leak} of {every} {leaks}", "leak"), span(MOST), *also, span(end))
    if part:
        leaks = "leaks" if part == 1 else "leak"
        away = span(f"{none} is shown to give away most of it; ")
        return (away, span(f"{part} {leaks} in part", "part"), span(end))
    return (span(none, "held"), span(f" leaked to the attacks{on} tried here{end}"))


def _elsewhere(question: Question, every: Sequence[Question]) -> tuple[Span, ...]:
    """How many leak more on another question of the task, or at another stage, and on which.

    No probe is among them: nobody sent it.
    """
    defenses = _spoken_of(question)
    here = {j.setting.key: _worse(j) for j in defenses}
    worst = dict.fromkeys(here, 0)
    on: dict[int, dict[str, dict[str, None]]] = {0: {}, 1: {}, 2: {}}  # name -> stages
    for other in _siblings(question, every):
        name = other.model_copy(update={"stage": "final"}).label
        for j in other.judged:
            key, now = j.setting.key, _worse(j)
            if now > here.get(key, 2):
                worst[key] = max(worst[key], now)
                on[now].setdefault(name, {})[other.stage] = None
    told: list[Span] = []
    for degree, what in ((2, MOST), (1, " in part")):
        count = sum(found == degree for found in worst.values())
        if count:
            who = "It leaks" if len(defenses) == 1 else f"{count} of those leak{'s' * (count == 1)}"
            names = _first_three([_with_stages(*one) for one in on[degree].items()])
            told += [span(" "), span(who, _TONES[degree]), span(f"{what}, on {names}.")]
    return tuple(told)


def _spoken_of(question: Question) -> list[Judged]:
    """The defenses, or the references where there is none."""
    return [j for j in question.judged if not j.setting.reference] or list(question.judged)


def _with_stages(name: str, stages: Collection[str]) -> str:
    """As in "prototypes", "prototypes (early in training)", "images (also before training)"."""
    early = [WHEN.get(stage, stage) for stage in stages if stage != "final"]
    also = "also " if "final" in stages else ""
    return f"{name} ({also}{_first_three(early)})" if early else name


_TONES = {2: "leak", 1: "part"}


def _worse(judged: Judged) -> int:
    """2 of what leaks, 1 of what leaks in part, 0 of all else."""
    return {"leak": 2, "part": 1}.get(judged.verdict.tone, 0)


def _siblings(question: Question, every: Sequence[Question]) -> list[Question]:
    """The task's other questions about contents, as the same listener heard them."""
    asked = [q for q in every if q.task == question.task and q.topic.contents and not q.probe]
    if question.listener:
        asked = [h for q in asked for h in q.heard if h.listener == question.listener]
    return [q for q in asked if q.label != question.label]


def _things(defenses: Sequence[Judged]) -> str:
    """What they are called: settings of one method are not so many defenses."""
    (name, *others) = dict.fromkeys(j.setting.title for j in defenses)
    return "defense settings" if others else f"settings of {name}"


def _all(number: int, things: str) -> str:
    return f"Both {things}" if number == 2 else f"All {number} {things}"


def _undefended(question: Question) -> tuple[Span, ...]:
    """What is found where nothing is hidden; () where nothing can be judged there."""
    every = [j for j in question.judged if j.setting.reference]
    found = [j for j in every if j.verdict.tone in ("leak", "part")]
    if not found:
        return ()
    if len(every) == 1:
        (only,) = every
        word, told = clauses(only.evidence, only.verdict)
        name = span(only.setting.name, "strong")
        return (name, span(" "), span(word, only.verdict.tone), span(f": {told}"))
    things = "settings that hide nothing"
    of = len(found) == len(every)
    count = _all(len(every), things) if of else f"{len(found)} of {len(every)} {things}"
    leak = "leaks" if len(found) == 1 else "leak"
    return (span(f"{count} {leak}", "leak"), span("."))


def _second(kept: Sequence[Judged], free: Setting | None) -> tuple[Span, ...]:
    if not kept:
        return (span("None held against every attack tried."),)
    most = _most_useful(kept)
    best = most.setting.final if most else None
    which = "The only one that " if len(kept) == 1 else f"The best of the {len(kept)} that "
    head = (span(which), span("held", "held"))
    if best is None:
        return (*head, span(" has no utility measured."))
    tail = f" where no hiding gives {_read(free.final)}" if free and free.final else ""
    return (*head, span(f" has {best.meaning.heading} {_read(best)}{tail}."))


def _read(utility: Utility) -> str:
    return utility.meaning.text(utility.value.value)


def _undefended_best(question: Question) -> Setting | None:
    """The most useful live setting that hides nothing."""
    best = _most_useful([j for j in question.judged if j.setting.reference and not j.setting.dead])
    return best.setting if best else None


def lede(question: Question) -> tuple[Span, ...]:
    """The setting safest by its own paper's test, and the one that leaks least and stays useful.

    Then on how little this rests, where it is little.
    """
    live = [j for j in question.judged if candidate(j)]
    if alone(question.judged) and len(question.judged) == 1:
        (only,) = question.judged
        return tuple(span(text) for text in _rest(only))
    apart = span("This is about who got the messages, not about what they give away.")
    about = () if question.topic.contents else (apart,)
    told = [about, _looks_safest(question, live), _useful(question, live)]
    told += [_undertrained(question), _rests_on(live)]
    out: list[Span] = []
    for sentence_ in filter(None, told):
        out += [span(" "), *sentence_] if out else sentence_
    return tuple(out)


def _undertrained(question: Question) -> tuple[Span, ...]:
    """Whose utility may yet change; () where nobody's is known to."""
    ends = [j.setting.final for j in question.judged if j.setting.final]
    young = sum(end.undertrained for end in ends)
    if not young:
        return ()
    if young == len(ends):
        who = "It is" if young == 1 else f"{_all(young, 'settings')} are"
    else:
        who = f"{young} of {len(ends)} settings {'is' if young == 1 else 'are'}"
    return (span(f"{who} undertrained: what is gained, and what leaks, may yet change."),)


def _rests_on(live: Sequence[Judged]) -> tuple[Span, ...]:
    """How little the verdicts rest on; () where that is enough."""
    rows = [j.verdict.worst for j in live if j.verdict.worst]
    fewest = min(rows, key=_independent, default=None)
    if fewest is None:
        return ()
    seeds, count = min(len(n.seeds) or 1 for n in rows), _independent(fewest)
    if seeds >= SEEDS and count >= MANY:
        return ()
    units = plural(count, of_clusters(fewest).removesuffix("s"))
    rest = "The verdict rests on" if len(rows) == 1 else "The verdicts rest on as few as"
    return (span(f"{rest} {units} and {'one seed' if seeds == 1 else f'{seeds} seeds'}."),)


def _independent(number: Number) -> int:
    """How many clients or other units there are; one that is there in each seed is one."""
    if number.power is None:
        return number.value.n // max(len(number.seeds), 1)
    found = {u.cluster for m in number.parts for u in m.units["attack"]}
    return len(found) or number.power.clusters


def _useful(question: Question, live: Sequence[Judged]) -> tuple[Span, ...]:
    """Of those that give up little for it, the one that leaks least."""
    best = _undefended_best(question)
    if best is None or best.final is None or not live:
        return ()
    free = best.final
    useful = [j for j in live if j.setting.final and _keeps(j.setting.final, free)]
    most = f"nine tenths of the {free.meaning.heading} of {best.name}, which hides nothing"
    if free.meaning.direction == "down":
        most = f"nine tenths of what {best.name}, which hides nothing, gets right"
    every = _all_judged(question)
    if not useful:
        judged = "" if every else " that was judged"
        return (span(f"No defense setting{judged} keeps {most}."),)
    return _least(useful, "settings" if every else "judged settings", most)


def _all_judged(question: Question) -> bool:
    """Every defense?"""
    return all(candidate(j) for j in question.judged if not j.setting.reference)


def _rest(only: Judged) -> list[str]:
    """What the headline does not say of the only setting, which hides nothing."""
    if only.verdict.tone in ("leak", "part"):
        return [" ".join(additions(only.evidence, only.verdict))]
    return [f"{only.setting.name}: {only.sentence}"]


def _least(useful: Sequence[Judged], things: str, most: str) -> tuple[Span, ...]:
    """Who of the settings that stay useful leaks least, where one may be praised.

    ``things``: what they are called; ``most``: how much they keep of what.
    """
    keep = f"{things} that keep {most},"
    best = leaks_least(useful)
    if not best:
        return _no_praise(useful, things, most)
    worst = best[0].verdict.worst
    assert worst  # noqa: S101 (it was judged)
    found = value_text(best[0].evidence, worst, worst.value.value, full=True)
    first = span(f"Of the {keep} ")
    if len(best) == 1:
        return (
            first,
            span(best[0].setting.name, "strong"),
            span(f" leaks least: {found} at worst."),
        )
    equal = f"all {len(best)}" if len(best) == len(useful) else names_of(best)
    least = "" if len(best) == len(useful) else " least and"
    return (first, span(equal, "strong"), span(f" leak{least} alike: {found} at worst."))


def _no_praise(useful: Sequence[Judged], things: str, most: str) -> tuple[Span, ...]:
    """None of the settings that stay useful may be called the best."""
    keep = f"{things} that keep {most},"
    only = f"The only {things.removesuffix('s')} that keeps {most}, "
    if all(j.verdict.tone == "leak" for j in useful):
        if len(useful) > 1:
            told = f"{_all(len(useful), keep)} "
            return (span(told), span("leak", "leak"), span(f"{MOST}."))
        return (span(only), span("leaks", "leak"), span(f"{MOST}."))
    least = least_leaking(useful)
    worst = least.verdict.worst if least else None
    if not least or not worst:
        return (span(f"The {keep} were not measured by the question's own metric."),)
    found = value_text(least.evidence, worst, worst.value.value, full=True)
    if not attacked_alike(useful):
        text = f"The {keep} were attacked by different attacks, or on different seeds"
        return (span(f"{text} or units, so none is called the best: the lowest is {found}."),)
    if len(useful) == 1 and may_be(least):
        name = span(least.setting.name, "strong")
        return (span(f"{only}is "), name, span(f": {found} at worst."))
    text = f"None of the {keep} may be called the best: the lowest worst case is"
    return (span(f"{text} {found}."),)


def names_of(judged: Sequence[Judged]) -> str:
    """As in "a and b", "a, b, c and 2 more"."""
    return _first_three([j.setting.name for j in judged])


def _first_three(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{', '.join(names[:3])} and {len(names) - 3} more"
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def _looks_safest(question: Question, live: Sequence[Judged]) -> tuple[Span, ...]:
    tested = [j for j in live if j.verdict.paper and not j.verdict.paper.weak]
    if not tested:
        return ()
    least = min(_by_paper(j) for j in tested)
    equal = [j for j in tested if _by_paper(j) == least]
    best = max(equal, key=lambda j: j.verdict.reached.leak if j.verdict.reached else -math.inf)
    judged = "" if _all_judged(question) else " of those judged"
    looks = f"looks safest{judged} by its own paper's test"
    if len(equal) > 1:
        looks = f"is one of {len(equal)} that look safest{judged} by their own paper's test"
    elif len(tested) == 1:
        looks = "was tested by its own paper's attack"
    evidence, verdict = best.evidence, best.verdict
    got, paper, worst = verdict.reached, verdict.paper, verdict.worst
    if not (got and paper and worst):
        return ()
    if got.leak - paper.leak <= 2 * evidence.meaning.matters + 1e-12:
        return ()
    verb = evidence.meaning.does
    test = f"{verb} {beyond_blind(evidence, paper, full=True)}"
    who = WHO.get(got.attacker.rung, "An attacker")
    if (told := by(got)) != "an attacker":  # a client
        who = f"A{told[1:]}"
    reached, at_worst = (value_text(evidence, n, n.value.value) for n in (got, worst))
    blind = f"a blind guess {value_text(evidence, got, got.floor.value)}"
    beside = blind if reached == at_worst else f"at worst {at_worst}, {blind}"
    return (
        span(best.setting.name, "strong"),
        span(f" {looks}, which {test}. {who} {verb} "),
        span(reached, best.verdict.tone),
        span(f" ({beside})."),
    )


def _by_paper(judged: Judged) -> float:
    return judged.verdict.paper.leak if judged.verdict.paper else math.inf


def _keeps(utility: Utility, free: Utility) -> bool:
    """Does it keep nine tenths of what no hiding gives?"""
    if free.meaning.direction == "down":
        return 1 - utility.value.value >= 0.9 * (1 - free.value.value)
    return utility.value.value >= 0.9 * free.value.value


def _most_useful(judged: Sequence[Judged]) -> Judged | None:
    found = [(j.setting.final.gain, j) for j in judged if j.setting.final]
    return max(found, key=lambda one: one[0], default=(0.0, None))[1]


def other_questions(question: Question, every: Sequence[Question], judged: Judged) -> list[str]:
    """What the task's other questions say of a setting where they are worse, or open.

    Then what nobody attacked.
    """
    rank = {"leak": 0, "part": 1, "none": 2, "held": 3}
    out, setting = [], judged.setting
    attacked: set[str] = set()
    probed: set[str] = set()
    for other in every:
        found = next((j for j in other.judged if j.setting is setting), None)
        if other.task != question.task or found is None:
            continue
        if found.verdict.rule not in (1, 2) and other.topic.contents:
            read = probed if other.probe else attacked
            read |= set(found.evidence.reads)
        if other is question or found.verdict.rule in (1, 2):
            continue
        if rank[found.verdict.tone] < rank[judged.verdict.tone]:
            out.append(f"On {other.label}: {found.verdict.word}.")
    left = setting.kinds - attacked - {"model"}
    for kinds, but in ((left & probed, " but by probes"), (left - probed, "")):
        if kinds:
            named = " and ".join(sorted(kinds_of(k) for k in kinds))
            out.append(f"Its {named} were not attacked{but}.")
    return out
