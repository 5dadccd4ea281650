"""What a report is handed of rounds, clients and maps: the tables' own numbers, from the same unit
scores.
"""

from __future__ import annotations

import math

import pytest
import torch
from helpers.run_folders import add_attack, make_run, measure
from helpers.small_runs import again, build, by_hand, copied, trained

from leakbench import api
from leakbench.attacking.guess import Guess
from leakbench.base.files import read_sealed, write_sealed
from leakbench.judging.judging import find_questions
from leakbench.metrics.prototypes import P_LEAK, likeness, share_named
from leakbench.record.folders import find, load
from leakbench.reporting import about as report_about
from leakbench.reporting import maps, pictures
from leakbench.reporting.clients import clients_of as clients_of
from leakbench.reporting.curves import chosen_numbers
from leakbench.reporting.curves import curves_of as curves_of
from leakbench.reporting.data import Embedding, Naming, Split
from leakbench.reporting.pictures import Media
from leakbench.reporting.write import read_tables
from leakbench.results import tables as results
from leakbench.results.number import Attacker, Number
from leakbench.scoring.score import score
from leakbench.scoring.truth import Truth
from leakbench.statistics import intervals
from leakbench.statistics.intervals import Estimate

TEN = [1.0] * 10


def hits(count: int) -> list[float]:
    return [1.0] * count + [0.0] * (10 - count)


def gathered(folder):
    """Curves, clients and the tables of every run below ``folder``."""
    made = results.collect(find([folder]))
    curves = [c for s in made.settings for c in curves_of(s)]
    return curves, [c for s in made.settings for c in clients_of(s)], made


@pytest.fixture
def two_seeds(tmp_path):
    """Two seeds with a paper's attack over the rounds, a real one over all of them, and one whose
    control failed.
    """
    for seed in (0, 1):
        run = make_run(tmp_path, seed=seed)
        rows = [
            measure("p_leak", hits(k - seed), 0.1, TEN, stage=s, round=t)
            for k, s, t in ((9, "curve", 10), (7, "middle", 50), (4, "final", 100))
        ]
        if seed == 0:  # a round that one seed lacks is in no curve
            rows.append(measure("p_leak", hits(8), 0.1, TEN, stage="curve", round=20))
        add_attack(run, "near", rows, rung="paper")
        add_attack(
            run, "mean", [measure("p_leak", hits(6 + seed), 0.1, TEN, stage="all")], rung="method"
        )
        add_attack(run, "weak", [measure("p_leak", hits(2)[::-1], 0.1, hits(1))], rung="method")
    return tmp_path


def of(curves, name, rung=""):
    [found] = [c for c in curves if c.name == name and c.rung == rung]
    return found


def test_points_of_the_tables_are_the_tables(two_seeds):
    curves, _, made = gathered(two_seeds)
    own = of(curves, "p_leak", "paper")
    assert own.rounds == (10, 50, 100)
    for stage, at in (("middle", 1), ("final", 2)):
        [row] = [r for r in made.rows("tradeoff") if r["attack"] == "near" and r["stage"] == stage]
        assert (own.value[at], own.low[at], own.high[at], own.floor[at]) == (
            row["value"],
            row["low"],
            row["high"],
            row["floor"],
        )
    assert own.by == "near"


def test_a_round_between_the_stages_is_pooled_as_the_table_pools(two_seeds):
    own = of(gathered(two_seeds)[0], "p_leak", "paper")
    names = [f"client/{i}" for i in range(10)]
    found = intervals.pool(
        {s: (hits(9 - s), names, names) for s in (0, 1)},
        share=True,
        low=0.0,
        high=1.0,
        unit="client",
    )
    assert (own.value[0], own.low[0], own.high[0]) == (found.value, found.low, found.high)


def test_the_best_real_attack_is_one_whose_control_succeeded_and_may_be_a_single_point(two_seeds):
    curves, _, made = gathered(two_seeds)
    best = of(curves, "p_leak", "method")
    [row] = [r for r in made.rows("tradeoff") if r["attack"] == "mean"]
    assert (best.by, best.rounds, best.value) == ("mean", (100,), (row["value"],))


def test_choosing_reads_both_directions():
    def row(attack, rung, low, high, leaks, flags=frozenset()):
        value = Estimate((low + high) / 2, low, high, 10, "client", "student")
        floor = Estimate(0.95, 0.9, 1.0, 10, "client", "student")
        meaning = P_LEAK.meaning.model_copy(update={"direction": leaks})
        attacker = Attacker(name=attack, rung=rung)
        return Number.model_construct(
            attacker=attacker,
            meaning=meaning,
            value=value,
            floor=floor,
            power=None,
            flags=frozenset({flags} - {""}),
        )

    down = [
        row("a", "method", 0.1, 0.2, "down"),
        row("b", "public", 0.3, 0.9, "down"),
        row("own", "paper", 0.5, 0.6, "down"),
    ]
    assert [n.attacker.name for n in chosen_numbers(down)] == ["own", "a"]
    up = [
        row("a", "method", 0.1, 0.2, "up"),
        row("b", "public", 0.3, 0.9, "up"),
        row("c", "public", 0.9, 1.0, "up", "control_failed"),
    ]
    assert [n.attacker.name for n in chosen_numbers(up)] == ["b"]


def test_utility_ends_at_the_tables_number_and_covers_every_seed_before(two_seeds):
    curves, _, made = gathered(two_seeds)
    found = of(curves, "accuracy")
    [final] = [r for r in made.rows("utility") if r["statistic"] == "final"]
    assert found.rounds == (33, 66, 100)
    assert (found.value[-1], found.low[-1], found.high[-1]) == (
        final["value"],
        final["low"],
        final["high"],
    )
    assert found.value[0] == pytest.approx(0.6)
    one = intervals.estimate(
        hits(6), list("abcdefghij"), share=True, low=0.0, high=1.0, unit="test unit"
    )
    assert found.low[0] <= one.low
    assert found.high[0] >= one.high


def test_a_diagnostic_of_one_seed_has_no_interval_and_of_several_a_wide_one(tmp_path):
    make_run(tmp_path / "one", cosine=0.4)
    alone = of(gathered(tmp_path / "one")[0], "prototype_mean_cosine")
    assert (alone.value, alone.low, alone.high) == ((0.4,), (0.4,), (0.4,))
    for seed, cosine in enumerate((0.3, 0.5, 0.4)):
        make_run(tmp_path / "three", seed=seed, cosine=cosine)
    several = of(gathered(tmp_path / "three")[0], "prototype_mean_cosine")
    assert several.value[0] == pytest.approx(0.4)
    # Student, two degrees of freedom.
    assert several.high[0] - several.value[0] == pytest.approx(
        4.302653 * math.sqrt(0.01 / 3), rel=1e-5
    )


def test_a_metric_that_does_not_judge_its_topic_has_no_curve(tmp_path):
    run = make_run(tmp_path)
    add_attack(
        run,
        "invert",
        [
            measure("identification", hits(5), 0.1, TEN),
            measure("psnr", [20.0] * 10, [5.0] * 10, [40.0] * 10),
        ],
    )
    assert {c.name for c in gathered(tmp_path)[0]} == {
        "accuracy",
        "prototype_mean_cosine",
        "identification",
    }


# clients


def test_shares_are_the_worst_case_of_every_attack_that_counts(two_seeds):
    _, [found], made = gathered(two_seeds)
    [worst] = [
        r
        for r in made.rows("tradeoff")
        if r["attack"] == "any_attack" and r["metric"] == "p_leak" and r["stage"] == "all"
    ]
    # Weak would have hit the last two, but its control failed, and two are no more than luck.
    assert found.shares == (1.0,) * 6 + (0.5,) + (0.0,) * 3
    assert sum(found.shares) / 10 == pytest.approx(worst["value"])


def test_clients_nobody_attacked_and_failed_units(tmp_path):
    run = make_run(tmp_path)
    units = ["client/3/17", "client/3/18", "client/7/2"]
    row = measure(
        "identification",
        [1.0, 0.1, 0.1],
        0.1,
        [1.0] * 3,
        units=units,
        clusters=["client/3", "client/3", "client/7"],
        failed=(2,),
    )
    add_attack(run, "invert", [row])
    _, [found], _ = gathered(tmp_path)
    assert found.shares[3] == pytest.approx(0.55)
    assert found.shares[7] == 0.0  # what a failed unit scores is the blind guess, which is no hit
    assert [s for i, s in enumerate(found.shares) if i not in (3, 7)] == [None] * 8


def test_a_metric_that_counts_no_hits_has_no_clients(tmp_path):
    add_attack(
        make_run(tmp_path), "invert", [measure("psnr", [20.0] * 10, [5.0] * 10, [40.0] * 10)]
    )
    assert gathered(tmp_path)[1] == []


# what methods say


def test_methods_speak_for_themselves_and_one_that_is_not_installed_is_silent(two_seeds):
    about = report_about.abouts_of(results.collect(find([two_seeds])).settings)
    assert about["defenses/fedgn"].text.startswith(
        "FedGN (baseline in FedHide): Gaussian noise on the prototype"
    )
    assert "`" not in about["defenses/fedgn"].text
    assert "Park and Yun" in about["defenses/fedgn"].paper
    assert "attacks/near" not in about


def test_guesses_are_named_with_the_hash_that_was_scored(two_seeds):
    runs = find([two_seeds])
    [setting] = results.collect(runs).settings
    ends = [n for n in setting.numbers if n.stage in ("final", "all")]
    by_attack = {n.attacker.name: n.provenance for n in ends}
    for name in ("near", "mean", "weak"):
        folders_ = [a for run in runs for a in run.attacks if a.name == name]
        hashes = {a.meta["files"]["guess.safetensors"] for a in folders_}
        assert set(by_attack[name].guess_sha256) == hashes
        assert by_attack[name].runs == tuple(run.id for run in runs)
    # Made of two attacks' guesses in each of two runs; the third's control failed.
    assert len(by_attack["any_attack"].guess_sha256) == 4


# maps


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A small run of FedGN with its paper's attack and a stronger one."""
    run = trained(
        tmp_path_factory.mktemp("maps"), "fedgn", rounds=12, params={"sigma": 1.5, "own_lr": 0.3}
    )
    for name in ("prototype_leakage", "prototype_averaging"):
        api.attack(run.path, name, device="cpu")
    return load(run.path)


def mapped(run, **changes):
    made = read_tables([run])
    settings = [changed(s, **changes) for s in made.settings]
    return maps.maps_of(settings, find_questions(settings, ())), made


def changed(setting, **changes):
    numbers = tuple(n.model_copy(update=changes) for n in setting.numbers)
    return setting.model_copy(update={"numbers": numbers})


def test_who_was_named_adds_up_to_the_tables_number(real):
    found, made = mapped(real, flags=frozenset())
    namings = [m for m in found if isinstance(m, Naming)]
    assert {m.rung for m in namings} == {"paper", "method"}
    for m in namings:
        [row] = [
            r
            for r in made.rows("tradeoff")
            if r["metric"] == "p_leak"
            and r["rung"] == m.rung
            and r["attack"] not in ("cascade", "any_attack")
            and r["stage"] in ("final", "all")
        ]
        assert sum(
            share for owner, who, share in m.named if owner == who
        ) / m.clients == pytest.approx(row["value"])
        for client in range(m.clients):  # each owner is taken for one, whoever that is
            assert sum(share for owner, _, share in m.named if owner == client) == pytest.approx(
                1.0
            )


def test_places_are_those_of_the_clients_and_the_same_every_time(real):
    [m] = [m for m in mapped(real, flags=frozenset())[0] if isinstance(m, Embedding)]
    assert m.clients == tuple(range(10))
    assert len(m.true) == len(m.shared) == len(m.recovered) == 10
    assert all(math.isfinite(x) for place in (*m.true, *m.shared, *m.recovered) for x in place)
    assert [x for x in mapped(real, flags=frozenset())[0] if isinstance(x, Embedding)] == [m]


def test_of_many_clients_some_are_placed_and_the_rest_counted(real, monkeypatch):
    monkeypatch.setattr(maps, "PLACED", 6)
    [m] = [m for m in mapped(real, flags=frozenset())[0] if isinstance(m, Embedding)]
    assert (len(m.clients), m.left_out) == (6, 4)
    assert list(m.clients) == sorted(m.clients)


def test_the_split_is_the_truth_s(real):
    [m] = [m for m in mapped(real)[0] if isinstance(m, Split)]
    data = Truth(real).data
    held = [
        data["y"][data["rows"][c, : int(data["counts"][c])]] for c in range(len(data["counts"]))
    ]
    assert m.counts == tuple(tuple(int((y == k).sum()) for k in range(10)) for y in held)


def test_of_thousands_of_clients_there_is_no_map_of_the_split(real, monkeypatch):
    """As a table of 8,631 by 8,631 it took seven gigabytes."""
    monkeypatch.setattr(maps, "CELLS", 99)
    assert [m for m in mapped(real)[0] if isinstance(m, Split)] == []
    monkeypatch.setattr(maps, "CELLS", 100)
    assert len([m for m in mapped(real)[0] if isinstance(m, Split)]) == 1


@pytest.mark.parametrize("flags", [{"dead_run"}, {"few_units", "control_failed"}])
def test_what_is_dead_or_weak_is_never_on_a_map(real, flags):
    nothing = Estimate(0.1, 0.0, 0.3, 10, "client", "student")
    found, _ = mapped(real, flags=frozenset(flags), power=None, value=nothing, floor=nothing)
    assert [m for m in found if not isinstance(m, Split)] == []


def test_a_run_passed_on_without_its_truth_has_no_map(real, tmp_path):
    _, made = mapped(real)
    run = copied(real, tmp_path)
    meta = read_sealed(run.path / "run.json")
    meta["files"] = {n: h for n, h in meta["files"].items() if not n.startswith("truth/")}
    write_sealed(run.path / "run.json", meta)
    bare = [changed(s, flags=frozenset()) for s in made.settings]
    again = [s.model_copy(update={"runs": (load(run.path),)}) for s in bare]
    assert maps.maps_of(again, find_questions(again, ())) == []


def test_names_are_shared_by_ties():
    assert share_named(torch.tensor([0.5, 0.5, 0.1])).tolist() == [0.5, 0.5, 0.0]
    assert share_named(likeness(torch.tensor([1.0, 0.0]), torch.eye(2), "cosine")).tolist() == [
        1.0,
        0.0,
    ]


# pictures


def test_units_drawn_do_not_depend_on_what_came_out(real, tmp_path):
    """The same attack with other guesses and so other scores shows the same units in the same
    order.
    """
    shown = []
    for k, off in enumerate((0.0, 0.4)):
        run = copied(real, tmp_path / str(k))
        recording = again(run)
        attack = build("gradient_inversion", attacker="joint")
        data = Truth(load(run.path)).data
        stage = max(
            t for t in Truth(load(run.path)).rounds if Truth(load(run.path)).round(t).get("client")
        )
        batches = {
            int(c): next(iter(p.values()))
            for c, p in Truth(load(run.path)).round(stage)["client"].items()
        }
        guesses = [
            Guess(f"client/{c}", stage, {"x": (b["x"] * (1 - off) + off * (c % 3)).clamp(0, 1)})
            for c, b in batches.items()
            if "x" in b
        ]
        assert guesses
        assert len(data["counts"]) == 10
        folder = by_hand(recording, "gradient_inversion", attack, guesses, guesses)
        assert folder == score(recording, "gradient_inversion", attack)
        found = list(pictures.run_pictures(load(run.path), Media()))
        shown.append([(p.role, p.unit, p.round) for p in found])
        assert {p.unit for p in found if p.role == "original"} == {
            p.unit for p in found if p.role == "attack"
        }
    assert shown[0] == shown[1]


def test_at_most_three_attacks_of_a_run_are_shown_by_what_they_may_know(tmp_path):
    run = make_run(tmp_path)
    for name, rung in (
        ("a", "public"),
        ("b", "method"),
        ("c", "transcript"),
        ("d", "paper"),
        ("e", "public"),
    ):
        add_attack(run, name, [measure("psnr", [20.0] * 10, [5.0] * 10, [40.0] * 10)], rung=rung)
    assert [a.name for a in pictures._shown(load(run).attacks)] == ["d", "a", "e"]
    assert [a.name for a in pictures._shown([a for a in load(run).attacks if a.name in "abc"])] == [
        "c",
        "b",
        "a",
    ]
