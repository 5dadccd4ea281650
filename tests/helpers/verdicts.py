"""Made-up numbers, what is judged of them, and questions of a few settings."""

from __future__ import annotations

from dataclasses import replace

from helpers.report_data import bare_json, gained, runs_of, setting
from leakbench.base.reason import in_words
from leakbench.judging.evidence import Evidence
from leakbench.judging.question import Judged, Question
from leakbench.judging.verdict import judge_evidence
from leakbench.metrics import topics
from leakbench.metrics.prototypes import P_LEAK
from leakbench.results.number import Attacker, Evaluated, Number
from leakbench.results.settings import Setting
from leakbench.statistics.intervals import Estimate
from leakbench.words.verdicts import sentence

BASE = setting("fedgn", {"sigma": 0.1}, task="t")


def number(
    value,
    rung="method",
    attack="unmix",
    width=0.03,
    floor=0.01,
    control=1.0,
    flags=(),
    metric=P_LEAK,
    **more,
):
    n, unit = more.pop("n", 300), metric.meaning.unit
    low, high = more.pop("low", max(value - width, 0.0)), more.pop("high", min(value + width, 1.0))
    blind = (more.pop("floor_low", floor), more.pop("floor_high", floor))
    failed, tried = more.pop("failed", 0), more.pop("tried", 0)
    assert not more
    return Number(
        configuration=BASE,
        attacker=Attacker(name=attack, rung=rung),
        meaning=metric.meaning,
        stage="final",
        round=1,
        probe=False,
        seeds=(0, 1, 2),
        value=Estimate(value, low, high, n, unit, "clopper-pearson"),
        floor=Estimate(floor, *blind, n, unit, "student"),
        control=Estimate(control, control - 0.01, control, n, unit, "student"),
        failed=failed,
        tried=tried,
        flags=frozenset(flags),
        utility=gained(BASE, 0.5),
    )


def change(part, **more):
    return part.model_copy(update=more)


def at(n, value, low, high):
    return change(n, value=replace(n.value, value=value, low=low, high=high))


def by(n, attack):
    """The same number, made by another attack."""
    return change(n, attacker=change(n.attacker, name=attack))


def case(*attacks, cascade=None, worst=None, metric=P_LEAK, seeds=3, **more):
    attacks = tuple(change(a, seeds=tuple(range(seeds))) for a in attacks)
    real = [a for a in attacks if a.attacker.rung != "paper" and "control_failed" not in a.flags]
    if cascade is None and real:
        cascade = by(real[-1], "cascade")
    if worst is None and attacks:
        pick = max if metric.meaning.direction == "up" else min
        worst = by(pick(attacks, key=lambda a: a.value.value), "any_attack")
    return Evidence(
        meaning=metric.meaning,
        attacks=attacks,
        cascade=cascade,
        any_attack=worst,
        seeds=seeds,
        **more,
    )


def judged(word, name, utility=0.5, reference=False, dead=0, paper=None):
    value = {"leaks": 0.94, "part": 0.3, "held": 0.01}.get(word, 0.3)
    width = 0.01 if word == "held" else 0.03
    attacks = [number(value, width=width)] + (
        [number(paper, "paper", "nearest", width=0.01)] if paper is not None else []
    )
    c = (
        case(*attacks, dead_seeds=dead, dead_because="it did not learn")
        if word != "none"
        else case()
    )
    c = change(c, hides=not reference)
    verdict = judge_evidence(c)
    made = known(name, utility, reference, dead)
    return Judged(setting=made, evidence=c, verdict=verdict, sentence=sentence(c, verdict))


def known(name, utility=0.5, reference=False, dead=0, kinds=()):
    """A setting of three seeds, ``dead`` of which died, whose clients send ``kinds``."""
    base = setting(name, {}, task="t")
    own = gained(base, utility, chance=0.01)
    own = change(own, value=Estimate(utility, utility, utility, 360, "test unit", "student"))
    sent = [{"kind": kind, "sender": "client"} for kind in kinds]
    about = {"hides": not reference, "sent": sent}
    runs = runs_of(bare_json(base, seed) | about for seed in range(3))
    why = [in_words("it did not learn")] * dead + [None] * (3 - dead)
    return Setting(
        configuration=base,
        runs=runs,
        name=name,
        evaluated=[Evaluated(r, own.meaning, (), w, 0.0) for r, w in zip(runs, why, strict=True)],
        utility=(own,),
    )


def question(*settings):
    return asked(topics.PROTOTYPES, P_LEAK.meaning, settings)


def asked(topic, meaning, settings, *, probe=False):
    judged_ = tuple(settings)
    return Question(
        task="t", topic=topic, meaning=meaning, probe=probe, stage="final", judged=judged_
    )


def text_of(spans):
    return "".join(s.text for s in spans)
