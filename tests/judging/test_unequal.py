"""What was attacked less, measured otherwise or is dead looks no safer for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.run_folders import add_attack, make_run, measure

from leakbench.judging import WORST, leaks_least, row_of
from leakbench.judging.judging import find_questions
from leakbench.judging.question import Judged, Question
from leakbench.record.folders import load
from leakbench.results.tables import collect
from leakbench.words.headlines import with_words

N = 100
NONE, ALL = [0.0] * N, [1.0] * N
NAMES = [f"client/{i}" for i in range(N)]
BLIND = [16.0 + 0.02 * i for i in range(N)]
CLEAR = [90.0 - 0.01 * i for i in range(N)]
UPDATE = {"kind": "update", "sender": "client", "receiver": "server", "rounds": 100}
UPDATE |= {"messages": 100, "kept": 100, "bytes": 1000, "covered": False}
OTHER = {"defense": "fedcs", "params": {"cos_theta": 0.5}}


def first(k: int) -> list[float]:
    return [1.0] * k + [0.0] * (N - k)


def asked(runs: list[Path]) -> list[Question]:
    tables = collect([load(run) for run in runs])
    return with_words(find_questions(tables.settings, tables.missing))


def judged(runs: list[Path], family: str = "fedgn") -> Judged:
    [one] = [j for j in asked(runs)[0].judged if j.setting.family == family]
    return one


def text(spans) -> str:
    return "".join(s.text for s in spans)


def p_leak(found: list[float], control: list[float] = ALL) -> dict:
    return measure("p_leak", found, 0.01, control)


def test_an_attack_that_ran_on_more_seeds_is_not_cut_to_those_of_another(tmp_path):
    """A names 45 of 100 in six seeds of eight; B ran on the other two and found nothing."""
    runs = []
    for seed in range(8):
        runs += [make_run(tmp_path, seed=seed), make_run(tmp_path, seed=seed, **OTHER)]
        add_attack(runs[-2], "a", [p_leak(first(45) if seed > 1 else NONE)])
        if seed < 2:
            add_attack(runs[-2], "b", [p_leak(NONE)], rung="method")
        for name, rung in (("a", "transcript"), ("b", "method")):
            add_attack(runs[-1], name, [p_leak(first(8))], rung=rung)
    one = judged(runs)
    assert one.verdict.worst.value.value == pytest.approx(0.3375)
    assert one.verdict.worst.seeds == tuple(range(8))
    assert not one.verdict.worst.on_front
    assert one.verdict.word != "held"
    # 34 of 100 is no less than what A alone reached.
    for n in one.evidence.attacks:
        assert one.verdict.worst.leak >= n.leak - 1e-12
    assert leaks_least(asked(runs)[0].judged) == ()


def test_unlike_seeds_acquit_nobody_though_nothing_was_found(tmp_path):
    runs = [make_run(tmp_path, seed=seed) for seed in range(3)]
    for seed, run in enumerate(runs):
        add_attack(run, "a", [p_leak(NONE)])
        if seed < 2:
            add_attack(run, "b", [p_leak(NONE)], rung="method")
    one = judged(runs)
    assert one.verdict.word == "cannot tell"
    assert "b has no number in seed 2" in one.sentence


def test_an_attack_that_beats_the_blind_guess_counts_whatever_its_control(tmp_path):
    runs = [make_run(tmp_path, seed=seed) for seed in (0, 1)]
    for run in runs:
        add_attack(run, "dice", [p_leak(ALL, NONE)], rung="method")
    alone = judged(runs)
    assert alone.verdict.word == "leaks"
    assert "names 100 of 100 clients" in alone.sentence
    for run in runs:
        add_attack(run, "unmix", [p_leak(NONE)], rung="method")
    both = judged(runs)
    assert both.verdict.word == "leaks"
    assert row_of(both, WORST).value.value == 1.0


def test_exact_images_are_a_leak_by_whatever_metric_they_were_seen(tmp_path):
    found = first(2)
    seen = [100.0] * 2 + [9.0 + 0.01 * i for i in range(98)]
    for rows in (
        {"one": [("identification", found), ("psnr", seen)]},
        {"one": [("identification", NONE)], "two": [("psnr", CLEAR)]},
    ):
        runs = [make_run(tmp_path / str(len(rows)), seed=seed) for seed in (0, 1)]
        for run in runs:
            for name, measured in rows.items():
                made = []
                for metric, scores in measured:
                    beside = (0.01, ALL) if metric == "identification" else (BLIND, CLEAR)
                    made.append(measure(metric, scores, *beside, units=NAMES))
                add_attack(run, name, made, rung="method")
        one = judged(runs)
        # All of them, or four of two hundred.
        assert one.verdict.word == ("leaks" if "two" in rows else "leaks in part")
        assert "images come out as good as the original (30.0 dB or better)" in one.sentence


def test_a_setting_without_the_questions_metric_is_judged_by_the_next_that_it_has(tmp_path):
    runs = []
    for seed in (0, 1):
        runs += [make_run(tmp_path, seed=seed, sent=[UPDATE])]
        row = measure("identification", NONE, 0.01, ALL, units=NAMES)
        add_attack(runs[-1], "inv", [row], rung="method")
        runs += [make_run(tmp_path, seed=seed, sent=[UPDATE], **OTHER)]
        add_attack(runs[-1], "inv", [measure("psnr", CLEAR, BLIND, CLEAR, units=NAMES)])
    one = judged(runs, "fedcs")
    assert one.verdict.word == "leaks"
    assert "Judged by" in one.sentence
    assert "was not measured." in one.sentence
    # Its decibels have no place on a scale of shares.
    assert row_of(one, WORST) is None
    assert leaks_least(asked(runs)[0].judged) == ()


def test_what_was_not_looked_at_acquits_nobody(tmp_path):
    failed = [make_run(tmp_path / "failed", seed=seed) for seed in (0, 1, 2)]
    for run in failed:
        add_attack(run, "unmix", [p_leak(NONE)], rung="method")
        add_attack(run, "strong", [p_leak(ALL)], status="failed: out of memory")
    few = [make_run(tmp_path / "few", seed=seed) for seed in range(10)]
    for run in few[:2]:
        add_attack(run, "unmix", [p_leak(NONE)], rung="method")
    status = ["done", "done", "running", "running", "failed: nan"]
    open_ = [make_run(tmp_path / "open", seed=s, status=status[s]) for s in range(5)]
    for run in open_[:2]:
        add_attack(run, "unmix", [p_leak(NONE)], rung="method")
    for runs, why in (
        (failed, "strong gave no number (failed: out of memory)"),
        (few, "attacked in 2 of 10 seeds"),
        (open_, "2 of 5 runs are complete"),
    ):
        one = judged(runs)
        assert one.verdict.word == "cannot tell"
        assert why in one.sentence
    assert "0 of 100 clients" in judged(few).sentence  # of the seeds attacked, not of all


def test_dead_runs_do_not_dilute_a_leak_into_an_acquittal(tmp_path):
    runs = []
    for seed in range(10):
        dead = seed >= 3
        runs.append(make_run(tmp_path, seed=seed, cosine=0.999 if dead else 0.5))
        add_attack(runs[-1], "unmix", [p_leak(NONE if dead else first(12))], rung="method")
    one = judged(runs)
    assert one.verdict.word not in ("held", "attack too weak")
    held = [make_run(tmp_path / "h", seed=s, cosine=0.999 if s == 2 else 0.5) for s in range(3)]
    for run in held:
        add_attack(run, "unmix", [p_leak(NONE)], rung="method")
    assert judged(held).verdict.word == "cannot tell"
    assert "where a run is dead nothing is to be found" in judged(held).sentence
    assert text(asked(held)[0].headline) == "Nothing here can be judged: 1 undecided."


@pytest.mark.parametrize("unlike", ["attacks", "parameters", "units"])
def test_who_was_attacked_by_less_is_not_praised_for_it(tmp_path, unlike):
    runs, fewer = [], measure("p_leak", NONE[:80], 0.01, ALL[:80])
    for seed in (0, 1):
        free = make_run(tmp_path, seed=seed, defense="fedavg", params={})
        more, less = make_run(tmp_path, seed=seed), make_run(tmp_path, seed=seed, **OTHER)
        runs += [free, more, less]
        add_attack(more, "one", [p_leak(first(30))])
        steps = {"seed": 0, "steps": 1} if unlike == "parameters" else {"seed": 0}
        add_attack(less, "one", [fewer if unlike == "units" else p_leak(NONE)], params=steps)
        if unlike == "attacks":
            add_attack(more, "two", [p_leak(first(30))], rung="method")
    question = asked(runs)[0]
    assert leaks_least(question.judged) == ()
    said = text(question.lede)
    assert "leaks least" not in said
    assert "attacked by different attacks" in said


def test_images_as_good_as_the_original_accuse_though_the_control_is_capped(tmp_path):
    runs = [make_run(tmp_path, seed=seed) for seed in range(3)]
    for run in runs:
        scores = [40.0 + 0.1 * (i % 7) for i in range(N)]
        blind = [29.0 + 0.01 * (i % 5) for i in range(N)]
        control = [42.0 + 0.1 * (i % 7) for i in range(N)]
        add_attack(run, "inv", [measure("psnr", scores, blind, control)])
    assert judged(runs).verdict.word == "leaks"
    # A few of them, with a mean below the blind guess and a control that failed.
    few = [make_run(tmp_path / "few", seed=seed) for seed in range(3)]
    for run in few:
        scores = [40.0] * 3 + [9.0 + 0.01 * i for i in range(N - 3)]
        add_attack(run, "inv", [measure("psnr", scores, BLIND, BLIND)])
    assert judged(few).verdict.word == "leaks in part"
