"""What it takes to be acquitted, from units to the sentence: an attack that would have found it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.run_folders import add_attack, make_run, measure

from leakbench.judging.judging import find_questions
from leakbench.judging.question import Judged, Question
from leakbench.record.folders import load
from leakbench.results.tables import collect
from leakbench.words.headlines import with_words
from leakbench.words.verdicts import short

N = 100
NONE, ALL = [0.0] * N, [1.0] * N


def first(k: int, n: int = N) -> list[float]:
    return [1.0] * k + [0.0] * (n - k)


def asked(*runs: Path) -> list[Question]:
    tables = collect([load(run) for run in runs])
    return with_words(find_questions(tables.settings, tables.missing))


def found(*runs: Path) -> Judged:
    """The verdict on the first question."""
    return asked(*runs)[0].judged[0]


def two_seeds(out: Path, *rows: dict, **more: object) -> list[Path]:
    runs = []
    for seed in (0, 1):
        runs.append(make_run(out, seed=seed, **more))
        add_attack(runs[-1], "unmix", rows, rung="method")
    return runs


def test_an_attack_that_works_settles_and_ran_twice_acquits(tmp_path):
    one = found(*two_seeds(tmp_path, measure("p_leak", NONE, 0.01, ALL)))
    assert (one.verdict.rule, one.verdict.word) == (7, "held")
    assert one.sentence.startswith(
        "Held on this question against the 1 attack tried: at worst 0 of"
    )
    assert short(one.evidence, one.verdict) == "held"


def test_who_finds_13_of_100_with_nothing_defended_acquits_nobody(tmp_path):
    one = found(*two_seeds(tmp_path, measure("p_leak", NONE, 0.01, first(13))))
    assert (one.verdict.rule, one.verdict.word) == (9, "cannot tell")
    assert one.sentence.startswith(
        "Cannot tell: attack too weak to acquit: with nothing defended it names 13 of 100 clients"
        " on average, and half way to all there is would be 51 of 100 (another attack or more"
        " search is needed, not more units)."
    )
    assert short(one.evidence, one.verdict).startswith(
        "cannot tell: attack too weak to acquit: with nothing defended"
    )
    # Half way is enough.
    half = two_seeds(tmp_path / "half", measure("p_leak", NONE, 0.01, first(51)))
    assert found(*half).verdict.word == "held"


@pytest.mark.parametrize(("count", "word"), [(10, "held"), (11, "cannot tell")])
def test_searches_that_did_not_settle_count_like_failed_ones(tmp_path, count, word):
    row = measure("p_leak", NONE, 0.01, ALL, failed=range(4), unsettled=range(4, count))
    one = found(*two_seeds(tmp_path, row))
    assert one.verdict.word == word
    if word != "held":
        assert "unmix failed or did not settle on 22 of 200 clients, and 20 may" in one.sentence


def test_what_the_attack_accepts_on_the_control_and_not_here_is_open(tmp_path):
    """It matches where nothing is defended, and here it never does: it has not found out."""
    runs = two_seeds(tmp_path, measure("p_leak", NONE, 0.01, ALL, accepted_control=range(N)))
    assert "did not settle on 200 of 200 clients" in found(*runs).sentence
    both = measure("p_leak", NONE, 0.01, ALL, accepted=range(N), accepted_control=range(N))
    assert found(*two_seeds(tmp_path / "both", both)).verdict.word == "held"


def test_one_seed_acquits_nobody(tmp_path):
    run = two_seeds(tmp_path, measure("p_leak", NONE, 0.01, ALL))[0]
    one = found(run)
    assert one.verdict.word == "cannot tell"
    assert "attack too weak to acquit: 1 seed only, 1 more is needed." in one.sentence


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("stale_attack", "unmix: it was made by another version of the attack"),
        ("stale_run", "unmix: the run was made by another version of the method"),
        ("mixed_code", "unmix: the run was resumed by other code"),
        ("no_control", "unmix: nobody ran it where nothing is defended"),
        (
            "weaker_observer",
            "unmix: its owner declared a weaker observer than the server, so it says nothing of a"
            " stronger one",
        ),
    ],
)
def test_what_is_not_of_todays_code_may_accuse_and_never_acquits(tmp_path, flag, says):
    one = found(*two_seeds(tmp_path, measure("p_leak", NONE, 0.01, ALL, flag=flag)))
    assert one.verdict.word == "cannot tell"
    assert says in one.sentence
    bad = two_seeds(tmp_path / "bad", measure("p_leak", ALL, 0.01, ALL, flag=flag))
    assert found(*bad).verdict.word == "leaks"


def test_nobody_ran_the_control_so_success_stands_for_it(tmp_path):
    row = measure("p_leak", first(75), 0.01, [0.01] * N, flag="no_control")
    assert found(*two_seeds(tmp_path, row)).verdict.word == "leaks"


def test_a_tenth_of_the_images_exact_is_a_leak_whatever_the_mean(tmp_path):
    names = [f"client/{i}" for i in range(N)]
    low = [60.0] * 10 + [9.0 + 0.01 * i for i in range(90)]
    floor = [16.0 + 0.02 * i for i in range(N)]
    row = measure("psnr", low, floor, [90.0 - 0.01 * i for i in range(N)], units=names)
    one = found(*two_seeds(tmp_path, row))
    assert one.verdict.word == "leaks in part"
    assert one.sentence.startswith(
        "Leaks in part: 20 of 200 images come out as good as the original (30.0 dB or better)."
    )
    nothing = [9.0 + 0.01 * i for i in range(N)]
    held = measure("psnr", nothing, floor, [90.0 - 0.01 * i for i in range(N)], units=names)
    assert found(*two_seeds(tmp_path / "held", held)).verdict.word == "held"
    runs = [make_run(tmp_path / "own", seed=seed) for seed in (0, 1)]
    for run in runs:
        add_attack(run, "its_own", [row], rung="paper")
    own = found(*runs)
    assert own.verdict.word == "cannot tell"
    assert "But 20 of 200 images come out as good as the original" in own.sentence
    # Where the blind guess is as good, too, nothing was copied.
    blank = [60.0] * 10 + floor[10:]
    same = measure("psnr", low, blank, [90.0 - 0.01 * i for i in range(N)], units=names)
    assert found(*two_seeds(tmp_path / "blank", same)).verdict.word == "held"


def images(count: int, each: int = 4) -> tuple[list[str], list[str]]:
    """Names and clusters of the images of ``count`` clients."""
    names = [f"client/{c}/{i}" for c in range(count) for i in range(each)]
    return names, [f"client/{c}" for c in range(count) for _ in range(each)]


@pytest.mark.parametrize("clients", [4, 5, 6])
def test_a_perfect_control_on_few_clients_is_no_weak_attack(tmp_path, clients):
    names, clusters = images(clients, each=10)
    ones = [1.0] * len(names)
    row = measure("p_leak", ones, 0.5, ones, units=names, clusters=clusters)
    one = found(_attacked(tmp_path, row))
    if clients == 4:
        assert one.verdict.rule == 9
        assert one.sentence.startswith(
            "Cannot tell: too few clients (4 of 5 needed) to show that the attack works at all: it"
            " names 40 of 40 clients, with nothing defended 40 of 40; a blind guess names 20 of 40."
            " This is not a sign of privacy. About 1 more seed would bring them."
        )
        assert short(one.evidence, one.verdict) == "cannot tell: too few clients (4 of 5 needed)"
    else:
        assert one.verdict.counting
        # The attack's own number, two-sided, takes one more.
        assert one.verdict.word == ("cannot tell" if clients == 5 else "leaks in part")


def _attacked(out: Path, row: dict) -> Path:
    run = make_run(out)
    add_attack(run, "unmix", [row], rung="method")
    return run


def test_one_flaw_in_forty_does_not_make_a_control_better_than_a_perfect_one(tmp_path):
    names, clusters = images(4, each=10)
    words = []
    for k, control in enumerate(([1.0] * 40, [1.0] * 39 + [0.0])):
        row = measure("p_leak", [1.0] * 40, 0.5, control, units=names, clusters=clusters)
        one = found(_attacked(tmp_path / str(k), row))
        words.append(short(one.evidence, one.verdict))
    assert words[0] == words[1] == "cannot tell: too few clients (4 of 5 needed)"


def test_control_and_blind_guess_are_compared_on_the_same_units(tmp_path):
    """Their intervals overlap, for clients differ; each client's images are better by a fifth."""
    names, clusters = images(8)
    blind = [0.1 + 0.07 * (i // 4) for i in range(32)]
    better = [b + 0.2 + 0.001 * (i % 4) for i, b in enumerate(blind)]
    row = measure("p_leak", better, blind, better, units=names, clusters=clusters)
    run = _attacked(tmp_path, row)
    [setting] = collect([load(run)]).settings
    [n] = [n for n in setting.numbers if n.attacker.name == "unmix"]
    assert "control_failed" in n.flags  # by the two intervals, as the table's columns say
    assert n.power is not None
    assert n.power.shown
    assert not n.weak
    assert found(run).verdict.word in ("leaks", "leaks in part")


def test_no_seed_is_lost_and_no_attack_is_weak_for_a_share_that_is_perfect(tmp_path):
    """4 of 4 where luck names 1 of 100 is no accident."""
    row = measure("p_leak", [1.0] * 4, 0.01, [1.0] * 4)
    assert found(_attacked(tmp_path, row)).verdict.rule not in (4, 9)
    names, clusters = images(4, each=5)
    found_all = measure(
        "identification", [1.0] * 20, 0.0173, [1.0] * 20, units=names, clusters=clusters
    )
    assert found(_attacked(tmp_path / "images", found_all)).verdict.word == "leaks in part"
    coin = measure("p_leak", [1.0] * 2, 0.5, [1.0] * 2)
    one = found(_attacked(tmp_path / "coin", coin))
    assert "too few clients (2 of 5 needed)" in one.sentence


def test_runs_that_are_not_finished_are_no_sign_of_anything(tmp_path):
    done = make_run(tmp_path / "done")
    add_attack(done, "unmix", [measure("p_leak", ALL, 0.01, ALL)], rung="method")
    running = make_run(tmp_path, defense="fedcs", params={"cos_theta": 0.5}, status="running")
    broken = make_run(tmp_path, defense="flea", params={}, status="failed: the loss is not finite")
    judged = {j.setting.family: j for j in asked(done, running, broken)[0].judged}
    one, two = judged["fedcs"], judged["flea"]
    assert (one.verdict.word, two.verdict.word) == ("not finished", "failed")
    assert one.sentence == (
        "Not finished: run the same command again. Nothing is known about its leakage."
    )
    assert two.sentence == "Failed: the loss is not finite. Nothing is known about its leakage."
    assert short(one.evidence, one.verdict) == "not finished: run the same command again"
    assert short(two.evidence, two.verdict) == "failed: the loss is not finite"


def audited(
    out: Path, clients: int, k: int, *, seeds: int = 3, chosen: Sequence[int] = (), **params: int
) -> Judged:
    """``k`` clients of whom a round keeps ``k``: no image is found where all are undefended."""
    names, clusters = images(k)
    zeros, ones = [0.0] * len(names), [1.0] * len(names)
    runs = []
    for seed in range(seeds):
        facts = {"clients": clients, "classes": 10, "dim": 4, "shape": [8, 8]}
        run = make_run(out, seed=seed, facts=facts, audited=k, chosen=chosen)
        row = measure("identification", zeros, 0.01, ones, units=names, clusters=clusters)
        add_attack(run, "gradient_inversion", [row], rung="method", params={"seed": 0, **params})
        runs.append(run)
    return found(*runs)


def test_clients_that_somebody_chose_acquit_nobody(tmp_path):
    """They may be those that leak least."""
    one = audited(tmp_path, 100, 20, chosen=(1, 2))
    assert one.verdict.word == "cannot tell"
    assert "2 of the clients were chosen (record.clients), not drawn" in one.sentence
    everybody = audited(tmp_path / "all", 20, 20, chosen=range(20))
    assert everybody.verdict.word == "held"


def test_what_the_record_would_have_to_hold_is_said(tmp_path):
    one = audited(tmp_path, 100, 5)
    # 1 - 0.025 ** (1 / 60) is the first below 0.01 + 0.05: 60 clients, 20 of each seed.
    hint = "5 clients a round were audited, 20 are needed: train with -s record.audited=20"
    assert one.verdict.word == "cannot tell"
    assert one.sentence.endswith(f"{hint}.")
    assert short(one.evidence, one.verdict) == f"cannot tell: {hint}"
    assert audited(tmp_path / "enough", 100, 20).verdict.word == "held"
    assert audited(tmp_path / "less", 100, 19).verdict.word == "cannot tell"
    limited = audited(tmp_path / "limited", 100, 5, targets=8)
    assert limited.sentence.endswith(f"{hint} and attack with -s gradient_inversion.targets=20.")
    few = audited(tmp_path / "few", 10, 5)
    assert few.sentence.endswith(
        "5 clients a round were audited, 20 are needed, and no more than 10 take part: train with"
        " -s record.audited=10 and take 6 seeds."
    )
