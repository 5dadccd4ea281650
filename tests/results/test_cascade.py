from __future__ import annotations

from pathlib import Path

import pytest
from helpers.run_folders import add_attack, make_run, measure

from leakbench.base.reason import reason
from leakbench.record.folders import load
from leakbench.results import cascade
from leakbench.results.number import MADE, Measured
from leakbench.results.tables import collect
from leakbench.results.units import measured_of_run

N = 10
ONES, NONE = [1.0] * N, [0.0] * N
LOW = [1.0] + [0.0] * (N - 1)


def first(k: int) -> list[float]:
    return [1.0] * k + [0.0] * (N - k)


def joined(run: Path, kind: str) -> Measured:
    asked = cascade.questions(measured_of_run(load(run)))
    assert len(asked) == 1
    parts = cascade.entering(kind, next(iter(asked.values())), cascade.weak)
    return cascade.combine(kind, parts)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path)


def test_the_last_accepted_guess_of_a_unit_counts_and_the_first_stays_where_none_is(
    run: Path,
) -> None:
    # In this order: transcript (order 0), transcript (order 1), method. Folder names are in another
    # order on purpose.
    add_attack(run, "z", [measure("p_leak", first(4), 0.1, ONES)], rung="transcript", order=0)
    add_attack(
        run, "y", [measure("p_leak", NONE, 0.1, ONES, accepted=[0, 1])], rung="transcript", order=1
    )
    add_attack(
        run, "a", [measure("p_leak", ONES, 0.1, ONES, accepted=[1, 9])], rung="method", order=-5
    )
    m = joined(run, "cascade")
    # unit 0: y's 0; unit 1: a's 1; 2 and 3: z's 1; 4 to 8: z's 0; 9: a's 1.
    assert [u.score for u in m.units["attack"]] == [0, 1, 1, 1, 0, 0, 0, 0, 0, 1]
    assert m.value.value == pytest.approx(0.4)
    assert m.attacker.rung == "method"
    assert m.attacker.params == {}


def test_an_inversion_that_its_own_check_rejects_does_not_replace_an_accepted_weaker_one(
    run: Path,
) -> None:
    """The stronger rung's guess counts where it is accepted, and nowhere else, however good."""
    add_attack(
        run, "gradient_inversion", [measure("identification", NONE, 0.1, ONES, accepted=range(5))]
    )
    strong = [measure("identification", ONES, 0.1, ONES, accepted=[4, 5])]
    add_attack(run, "gradient_inversion", strong, rung="method", params={"attacker": "joint"})
    found = [u.score for u in joined(run, "cascade").units["attack"]]
    # 0 to 3: only the weaker is accepted; 4: both; 5: only the stronger; the rest: neither.
    assert found == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]


def test_a_rejected_weaker_inversion_gives_way_to_an_accepted_stronger_one(run: Path) -> None:
    add_attack(run, "gradient_inversion", [measure("identification", ONES, 0.1, ONES)])
    told = [measure("identification", first(3), 0.1, ONES, accepted=range(N))]
    add_attack(run, "gradient_inversion", told, rung="method", params={"attacker": "joint"})
    assert [u.score for u in joined(run, "cascade").units["attack"]] == first(3)


def test_floor_and_control_follow_the_attack_picked(run: Path) -> None:
    add_attack(run, "one", [measure("p_leak", NONE, LOW, first(9))], rung="transcript")
    add_attack(
        run,
        "two",
        [measure("p_leak", ONES, [0.0, 1.0] + [0.0] * 8, [1.0] * 9 + [0.0], accepted=[0, 1])],
        rung="method",
    )
    m = joined(run, "cascade")
    assert [u.score for u in m.units["floor"]] == [0, 1] + [0] * 8
    assert [u.score for u in m.units["control"]] == [1] * 9 + [0]
    assert m.floor.value == pytest.approx(0.1)


def test_paper_never_enters_the_cascade_but_any_attack(run: Path) -> None:
    add_attack(
        run,
        "paper",
        [measure("p_leak", ONES, 0.1, ONES, accepted=range(N), flag="oracle_prototypes")],
        rung="paper",
        order=9,
    )
    add_attack(run, "own", [measure("p_leak", first(2), 0.1, ONES)], rung="transcript")
    assert joined(run, "cascade").value.value == pytest.approx(0.2)
    assert "oracle_prototypes" not in joined(run, "cascade").flags
    any_attack = joined(run, "any_attack")
    assert any_attack.value.value == 1.0
    assert any_attack.attacker.rung == "transcript"
    assert "oracle_prototypes" in any_attack.flags


def test_a_failed_control_never_enters(run: Path) -> None:
    add_attack(run, "broken", [measure("p_leak", LOW, 0.1, LOW, accepted=range(N))], rung="public")
    add_attack(run, "sound", [measure("p_leak", first(3), 0.1, ONES)], rung="transcript")
    for kind in MADE:
        m = joined(run, kind)
        assert m.value.value == pytest.approx(0.3)
        assert m.attacker.rung == "transcript"
    (row,) = [r for r in collect([load(run)]).rows("tradeoff") if r["attack"] == "broken"]
    assert "control_failed" in row["flags"]
    assert row["on_front"] is False


def test_what_is_beyond_the_blind_guess_enters_whatever_its_control(run: Path) -> None:
    add_attack(run, "dice", [measure("p_leak", ONES, 0.1, NONE)], rung="transcript")
    add_attack(run, "sound", [measure("p_leak", NONE, 0.1, ONES)], rung="method")
    assert [joined(run, kind).value.value for kind in MADE] == [1.0, 1.0]


def test_copies_of_one_attack_do_not_lower_the_floor_of_any_attack(run: Path) -> None:
    floors = [[0.0] * i + [1.0] + [0.0] * (N - 1 - i) for i in range(4)]
    for i, floor in enumerate(floors):
        add_attack(run, "same", [measure("p_leak", first(5), floor, ONES)], params={"seed": i})
        assert joined(run, "any_attack").floor.value == pytest.approx(0.1 * (i + 1))
    assert joined(run, "any_attack").value.value == pytest.approx(0.5)


def test_any_attack_takes_the_worst_in_the_direction_in_which_the_metric_leaks(run: Path) -> None:
    add_attack(
        run,
        "one",
        [measure("mse", [0.1, 0.5, 0.3], [9.0, 9.2, 9.3], [0.0, 0.01, 0.02])],
        rung="transcript",
    )
    add_attack(
        run,
        "two",
        [measure("mse", [0.2, 0.4, 0.3], [9.2, 9.0, 9.4], [0.01, 0.0, 0.03])],
        rung="method",
    )
    m = joined(run, "any_attack")
    assert [u.score for u in m.units["attack"]] == [0.1, 0.4, 0.3]
    assert [u.score for u in m.units["floor"]] == [9.0, 9.0, 9.3]
    assert [u.score for u in m.units["control"]] == [0.0, 0.0, 0.02]


def test_one_attack_is_its_own_cascade(run: Path) -> None:
    add_attack(run, "only", [measure("p_leak", first(7), 0.1, ONES)])
    rows = {r["attack"]: r for r in collect([load(run)]).rows("results")}
    named = {"attack", "attack_params"}
    for kind in MADE:
        assert {k: v for k, v in rows[kind].items() if k not in named} == {
            k: v for k, v in rows["only"].items() if k not in named
        }


def test_a_failed_unit_scores_the_blind_guess_and_is_counted(run: Path) -> None:
    # The scorer wrote the blind guess's score, 1, for unit 0, on which `one` failed: no self-check
    # can accept it.
    add_attack(
        run, "one", [measure("p_leak", LOW, LOW, ONES, failed=[0], accepted=[0])], rung="transcript"
    )
    m = joined(run, "cascade")
    assert (m.units["attack"][0].score, m.failed) == (1.0, 1)
    assert "failed_units" in m.flags
    add_attack(run, "two", [measure("p_leak", NONE, LOW, ONES)], rung="method")
    # The first attack has no guess for unit 0, so the first guess is that of the second.
    m = joined(run, "cascade")
    assert (m.units["attack"][0].score, m.failed) == (0.0, 0)


def test_a_guess_that_failed_gives_way_to_one_that_was_made_though_no_check_accepts_it(
    run: Path,
) -> None:
    failed = measure("p_leak", ONES, LOW, ONES, failed=[0], accepted=[])
    add_attack(run, "one", [failed], rung="transcript")
    made = measure("p_leak", NONE, LOW, ONES, accepted=[])
    add_attack(run, "two", [made], rung="method")
    scores = [u.score for u in joined(run, "cascade").units["attack"]]
    assert scores == [0.0] + [1.0] * (N - 1)


def test_final_and_all_go_together_other_stages_and_probes_stay_apart(run: Path) -> None:
    add_attack(
        run,
        "last",
        [
            measure("p_leak", first(2), 0.1, ONES),
            measure("p_leak", first(9), 0.1, ONES, stage="early", round=10),
        ],
    )
    add_attack(
        run,
        "over",
        [measure("p_leak", first(5), 0.1, ONES, stage="all", round=101, accepted=range(N))],
        rung="method",
    )
    add_attack(run, "probed", [measure("p_leak", first(8), 0.1, ONES, probe=True)])
    add_attack(run, "curve", [measure("p_leak", ONES, 0.1, ONES, stage="curve", round=50)])
    tables = collect([load(run)])
    cascades = [r for r in tables.rows("tradeoff") if r["attack"] == "cascade"]
    found = {(r["stage"], r["probe"]): r for r in cascades}
    assert {k: round(r["value"], 6) for k, r in found.items()} == {
        ("all", False): 0.5,
        ("early", False): 0.9,
        ("final", True): 0.8,
    }
    assert found["all", False]["round"] == 101
    assert "probe" in found["final", True]["flags"]
    assert not [r for r in tables.rows("tradeoff") if r["stage"] == "curve"]
    assert [r for r in tables.rows("results") if r["stage"] == "curve"]


def test_why_there_is_no_cascade_is_said(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a")
    add_attack(
        one,
        "paper",
        [
            measure("p_leak", ONES, 0.1, ONES),
            measure("p_leak", ONES, 0.1, ONES, stage="early", round=9),
        ],
        rung="paper",
    )
    tables = collect([load(one)])
    assert [r["attack"] for r in tables.rows("tradeoff")] == [
        "paper",
        "paper",
        "any_attack",
        "any_attack",
    ]
    assert [m["reason"] for m in tables.rows("missing") if m["attack"] == "cascade"] == [
        "stage early, final or all, real messages: only the paper's own attack ran (rung paper),"
        " which never enters the cascade"
    ]
    two = make_run(tmp_path / "b")
    add_attack(two, "weak", [measure("p_leak", LOW, 0.1, LOW)])
    tables = collect([load(two)])
    assert [r["attack"] for r in tables.rows("tradeoff")] == ["weak"]
    weak = [m for m in tables.rows("missing") if "control of every attack" in m["reason"]]
    assert {m["attack"] for m in weak} == {"cascade", "any_attack"}


def test_no_seed_is_left_out_and_the_attack_that_lacks_one_is_named(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, seed=s) for s in (0, 1, 2)]
    for run in runs:
        add_attack(run, "one", [measure("p_leak", NONE, 0.1, ONES)])
    for run in runs[:2]:
        add_attack(
            run, "two", [measure("p_leak", ONES, 0.1, ONES, accepted=range(N))], rung="method"
        )
    tables = collect([load(r) for r in runs])
    rows = {r["attack"]: r for r in tables.rows("tradeoff")}
    assert rows["cascade"]["value"] == pytest.approx(2 / 3)
    assert rows["cascade"]["seeds"] == "0|1|2"
    # The mixture over all seeds is below `two` alone, so the worst case is `two`.
    assert (rows["any_attack"]["value"], rows["any_attack"]["seeds"]) == (1.0, "0|1")
    lacking = [m["reason"] for m in tables.rows("missing") if m["attack"] == "cascade"]
    assert any(why.endswith("two has no number in seed 2") for why in lacking)
    joined_ = [n for n in tables.numbers if n.attacker.made]
    assert [n.uneven for n in joined_] == [(reason("seed_lacks", attack="two", seeds=[2]),)] * 2
    assert not any(n.on_front for n in joined_)


def test_the_cascade_over_seeds_uses_the_same_attacks_in_each(tmp_path: Path) -> None:
    """In one seed the control of `two` fails by itself; over the seeds it holds, so `two` enters in
    both.
    """
    for seed, control in ((0, first(3)), (1, ONES)):
        run = make_run(tmp_path, seed=seed)
        add_attack(run, "one", [measure("p_leak", NONE, 0.1, ONES)])
        add_attack(
            run,
            "two",
            [measure("p_leak", first(5), 0.1, control, accepted=range(N))],
            rung="method",
        )
    runs = [load(p) for p in sorted(tmp_path.iterdir())]
    assert (
        "control_failed"
        in next(m for m in measured_of_run(runs[0]) if m.attacker.name == "two").flags
    )
    (row,) = [r for r in collect(runs).rows("tradeoff") if r["attack"] == "cascade"]
    assert row["value"] == pytest.approx(0.5)


@pytest.mark.parametrize("who", ["client/0", "clients/1,4,7"])
def test_a_client_that_finds_little_never_takes_the_servers_place(run: Path, who: str) -> None:
    """Its name may stand before the server's, and where nothing checks itself the first stays."""
    add_attack(run, "member", [measure("p_leak", ONES, 0.1, ONES)], params={"seed": 0})
    alone = collect([load(run)]).settings[0].numbers
    little = [measure("p_leak", first(4), 0.1, ONES, accepted=[4, 5])]
    add_attack(run, "member", little, params={"observer": who, "seed": 0}, observer=who)
    (setting,) = collect([load(run)]).settings
    for numbers in (alone, setting.numbers):
        values = {n.attacker.name: n.value.value for n in numbers if n.attacker.made}
        assert values == {"cascade": 1.0, "any_attack": 1.0}
    own = {(n.heard_by, n.attacker.name): n.value.value for n in setting.heard}
    kind = "client" if who == "client/0" else "coalition"
    assert own == {
        **{("server", made): 1.0 for made in MADE},
        **{(kind, made): 0.4 for made in MADE},
    }
    by_run = [m for m in setting.results if m.attacker.name == "cascade"]
    assert [(m.value.value, m.attacker.observer) for m in by_run] == [(1.0, ("server",))]


def test_several_clients_are_shown_with_what_one_of_them_found(run: Path) -> None:
    for who, hits in (("server", NONE), ("client/0", first(9)), ("clients/1,4,7", first(2))):
        rows = [measure("p_leak", hits, 0.1, ONES)]
        add_attack(run, "member", rows, params={"observer": who, "seed": 0}, observer=who)
    (setting,) = collect([load(run)]).settings
    found = {n.heard_by: n.value.value for n in setting.heard if n.attacker.name == "cascade"}
    assert found == {"server": 0.0, "coalition": 0.9, "client": 0.9}
    (anyone,) = [n for n in setting.numbers if n.attacker.name == "cascade"]
    assert (anyone.value.value, anyone.attacker.observer) == (0.9, ("client/0",))
