"""What leaks less because less was attacked, recorded or run is never fine, and is said."""

import json

import pytest
from helpers.run_folders import add_attack, edited, make_run, measure

from leakbench import api
from leakbench.base.errors import BrokenFile
from leakbench.federation.utility import METRICS
from leakbench.gate.baseline import load_baseline
from leakbench.gate.row_fields import fields_of
from leakbench.metrics import P_LEAK
from leakbench.record.folders import find
from leakbench.reporting.check import check_of
from leakbench.reporting.moved import against
from leakbench.results.tables import collect

N = 40
NONE, ALL, MANY = [0.0] * N, [1.0] * N, [1.0] * 24 + [0.0] * 16
BLIND = [0.1 + 0.07 * (i // 4) for i in range(N)]  # ten clusters that differ from each other
CLUSTERS = [f"client/{i // 4}" for i in range(N)]
BESIDE = [b + 0.15 + 0.001 * (i % 4) for i, b in enumerate(BLIND)]
# Its control is beyond the blind guess unit by unit, though their intervals overlap.
STRONG = measure("p_leak", BESIDE, BLIND, BESIDE, clusters=CLUSTERS)
WEAK = measure("p_leak", NONE, 0.01, ALL, clusters=CLUSTERS)


def made(folder, attacks, seeds=range(3), **more):
    """Runs, each attacked by ``attacks``: {name: (measured, rung)}."""
    for seed in seeds:
        run = make_run(folder, seed=seed, **more)
        for name, (row, rung) in attacks.items():
            add_attack(run, name, [row], rung=rung)
    return folder


def one(row, rung="method", name="unmix"):
    return {name: (row, rung)}


def checked(now, then, **kept):
    """`check` of the runs in ``now`` with a baseline of those in ``then``."""
    file = then.parent / f"{then.name}.json"
    api.update(find([then]), baseline=file)
    return api.check(find([now]), baseline=file, **kept)


def words(now, then):
    """Attack -> what a report says of its move, and why."""
    rows = [api._gated(find([side]))[0] for side in (now, then)]
    return {r.attack: (r.word, r.why) for r in against("there", *rows, {}).rows}


def states(result):
    return {row.now.attacker.name: row.state for row in result.rows if row.now}


@pytest.mark.parametrize("rung", ["paper", "method"])
def test_an_attack_that_entered_by_its_units_may_not_be_dropped(tmp_path, rung):
    weak = one(WEAK, name="weak")
    then = made(tmp_path / "then", {**weak, "strong": (STRONG, rung)})
    now = made(tmp_path / "now", weak)
    got = checked(now, then)
    assert got.exit_code == 3
    assert states(got)["any_attack"] == "cannot tell"
    assert any("/strong/" in line and "was not run now" in line for line in got.lines)
    word, why = words(now, then)["any_attack"]
    assert word == "cannot tell"
    assert "was not run now" in why


def test_an_attack_that_ran_and_does_not_enter_any_more_is_named(tmp_path):
    weak, gone = one(WEAK, name="weak"), measure("p_leak", NONE, BLIND, NONE, clusters=CLUSTERS)
    then = made(tmp_path / "then", {**weak, "strong": (STRONG, "method")})
    now = made(tmp_path / "now", {**weak, "strong": (gone, "method")})
    got = checked(now, then)
    assert got.exit_code == 3
    assert any("entered it in the baseline, and now not in every seed" in x for x in got.lines)


def test_a_seed_that_was_not_attacked_is_missed(tmp_path):
    weak, strong = one(WEAK, name="weak"), one(STRONG, name="strong")
    then = made(tmp_path / "then", {**weak, **strong}, range(4))
    now = made(tmp_path / "now", {**weak, **strong}, range(2))
    made(now, weak, range(2, 4))
    got = checked(now, then)
    assert got.exit_code == 3
    joined = [line for line in got.lines if "/any_attack/" in line or "/cascade/" in line]
    assert len(joined) == 2
    assert all(line.startswith("cannot tell") for line in joined)


def test_update_drops_an_attack_only_if_it_is_accepted(tmp_path):
    weak, file = one(WEAK, name="weak"), tmp_path / "b.json"
    api.update(find([made(tmp_path / "a", {**weak, "strong": (STRONG, "paper")})]), baseline=file)
    now, before = find([made(tmp_path / "b", weak)]), file.read_bytes()
    got = api.update(now, baseline=file)
    assert got.exit_code == 1
    assert "/strong/" in got.lines[0]
    assert file.read_bytes() == before
    assert api.update(now, baseline=file, accept=["*/strong/*"]).exit_code == 0
    assert api.check(now, baseline=file).exit_code == 0


LESS = {
    "unsettled": (
        measure("p_leak", NONE, 0.01, ALL, unsettled=range(N), flag="loss_did_not_fall"),
        "the search is open on 120 units, {then} on 0",
    ),
    "control": (
        measure("p_leak", NONE, 0.01, [1.0] * 8 + [0.0] * 32),
        "the control fell from 1 to 0.2",
    ),
    "units": (measure("p_leak", NONE[:30], 0.01, ALL[:30]), "of 90 units, {then} of 120"),
}


@pytest.mark.parametrize("how", LESS)
def test_what_leaks_less_by_a_weaker_attack_is_not_fine(tmp_path, how):
    worse, why = LESS[how]
    then = made(tmp_path / "then", one(measure("p_leak", MANY, 0.01, ALL)))
    now = made(tmp_path / "now", one(worse))
    got = checked(now, then)
    assert got.exit_code == 3
    assert states(got)["cascade"] == "cannot tell"
    said = why.format(then="in the baseline")
    assert sum(said in line for line in got.lines) == 2
    for attack in ("unmix", "cascade", "any_attack"):
        word, told = words(now, then)[attack]
        assert word == "cannot tell"
        assert why.format(then="then") in told


@pytest.mark.parametrize("how", ["unsettled", "control"])
def test_a_weaker_attack_that_finds_more_accuses_all_the_same(tmp_path, how):
    now = {
        "unsettled": measure("p_leak", MANY, 0.01, ALL, unsettled=range(5)),
        "control": measure("p_leak", MANY, 0.01, [1.0] * 30 + [0.0] * 10),
    }[how]
    then = made(tmp_path / "then", one(measure("p_leak", NONE, 0.01, ALL)))
    got = checked(made(tmp_path / "now", one(now)), then)
    assert (got.exit_code, states(got)["cascade"]) == (1, "leaks more")


def test_a_reports_tables_do_not_acquit_a_weaker_attack_either(tmp_path):
    then = made(tmp_path / "then", one(measure("p_leak", MANY, 0.01, ALL)))
    api.report(find([then]), tmp_path / "rep", formats=["csv", "json"])
    from leakbench.reporting.other import numbers_of_folder

    for how in LESS:
        now = made(tmp_path / how, one(LESS[how][0]))
        rows = api._gated(find([now]))[0]
        found = against("there", rows, numbers_of_folder(tmp_path / "rep", {}), {}).rows
        assert {r.word for r in found if r.attack != "utility"} == {"cannot tell"}, how


SPARSE = {"name": "standard", "last": 1, "decade": 1}


def recorded(folder, policy, row, seeds=range(3)):
    """Runs that keep by ``policy`` what they send."""
    from helpers.run_folders import called

    for seed in seeds:
        run = make_run(folder, seed=seed)

        def change(meta):
            meta["spec"]["record"] = policy
            meta["id"] = called(meta["spec"])

        edited(run / "run.json", change)
        run = run.rename(run.with_name(json.loads((run / "run.json").read_text())["id"]))
        add_attack(run, "unmix", [row], rung="method")
    return folder


def test_another_recording_policy_is_another_setting_and_says_so(tmp_path):
    leaks, less = measure("p_leak", MANY, 0.01, ALL), measure("p_leak", NONE, 0.01, ALL)
    then = made(tmp_path / "then", one(leaks))
    now = recorded(tmp_path / "now", SPARSE, less)
    got = checked(now, then)
    assert got.exit_code == 3
    said = "another recording policy (decade 1, last 1) than in the baseline (decade 20, last 200)"
    assert sum(said in line for line in got.lines) == 2
    assert words(now, then)["cascade"][0] == "cannot tell"
    # Seeds of two policies are not pooled; the default written out is the default.
    recorded(then, SPARSE, less, range(3, 5))
    tasks = {s.task: len(s.runs) for s in collect(find([then])).settings}
    assert tasks == {
        "digits (record.decade=20, record.last=200)": 3,
        "digits (record.decade=1, record.last=1)": 2,
    }
    both = made(tmp_path / "both", one(leaks))
    recorded(both, {"name": "standard", "last": 200}, leaks, range(3, 5))
    (setting,) = collect(find([both])).settings
    assert len(setting.runs) == 5


def test_runs_that_failed_or_are_not_finished_are_said_and_undecided(tmp_path):
    row = one(measure("p_leak", MANY, 0.01, ALL))
    then, now = made(tmp_path / "then", row, range(4)), made(tmp_path / "now", row, range(2))
    made(now, {}, [2], status="failed: nan")
    made(now, {}, [3], status="running")
    got = checked(now, then)
    assert got.exit_code == 3
    assert "-s2: failed: nan; train it again" in got.lines[0]
    assert "-s3: not finished; train it again" in got.lines[1]
    assert set(states(got).values()) == {"fine"}
    strip = check_of(got, collect(find([now])).settings)
    assert strip.heading == "Check undecided (exit 3): 2 runs failed or not finished, 3 fine."
    assert "failed: nan" in strip.lines[0]
    file = tmp_path / "then.json"
    before = file.read_bytes()
    refused = api.update(find([now]), baseline=file)
    assert (refused.exit_code, len(refused.lines)) == (3, 2)
    assert file.read_bytes() == before


def test_update_says_that_seeds_would_be_lost(tmp_path):
    row, file = one(measure("p_leak", MANY, 0.01, ALL)), tmp_path / "b.json"
    api.update(find([made(tmp_path / "then", row, range(4))]), baseline=file)
    now, before = find([made(tmp_path / "now", row, range(1))]), file.read_bytes()
    got = api.update(now, baseline=file)
    assert got.exit_code == 1
    *refused, together = got.lines
    assert all("1 of 4 seeds would be left of it" in line for line in refused)
    assert together.count("--accept") == len(refused)
    assert file.read_bytes() == before
    assert api.update(now, baseline=file, accept=["*"]).exit_code == 0


def test_an_attack_whose_code_nobody_knows_is_not_fine(tmp_path):
    then = made(
        tmp_path / "then", one(measure("p_leak", MANY, 0.01, ALL), name="prototype_leakage")
    )
    now = tmp_path / "now"
    for seed in range(3):
        run = make_run(now, seed=seed)
        row = measure("p_leak", NONE, 0.01, ALL)
        add_attack(run, "prototype_leakage", [row], rung="method", sources={})
    got = checked(now, then)
    assert got.exit_code == 3
    assert any("attacked by other code than what is installed" in line for line in got.lines)


OLD = (
    *("control", "control_low", "control_high", "entered", "record", "unsettled"),
    *("floor", "called"),
)


def test_an_older_baseline_passes_what_is_unchanged_and_nothing_that_leaks_less(tmp_path):
    file, row = tmp_path / "b.json", one(measure("p_leak", MANY, 0.01, ALL))
    then = made(tmp_path / "then", row)
    api.update(find([then]), baseline=file)
    # As version 0.1 wrote it: one file, a flat list of rows.
    rows = []
    for r in load_baseline(file).rows:
        rows.append({k: v for k, v in fields_of(r).items() if k not in OLD})
    meanings = {"p_leak": P_LEAK.meaning, "accuracy": METRICS["accuracy"].meaning}
    known = {name: m.parameters() for name, m in meanings.items()}
    file.write_text(json.dumps({"metrics": known, "rows": rows, "schema": 1}))
    assert api.check(find([then]), baseline=file).exit_code == 0
    less = find([made(tmp_path / "less", one(measure("p_leak", NONE, 0.01, ALL)))])
    got = api.check(less, baseline=file)
    assert got.exit_code == 3
    assert sum("its control and what was recorded is not known" in x for x in got.lines) == 2
    more = find([made(tmp_path / "more", one(measure("p_leak", ALL, 0.01, ALL)))])
    assert api.check(more, baseline=file).exit_code == 1
    dropped = find([made(tmp_path / "dropped", {})])
    assert api.check(dropped, baseline=file).exit_code == 3


@pytest.mark.parametrize("attack", ["cascade", "utility"])
def test_a_value_that_its_scores_do_not_give_is_refused(tmp_path, attack):
    file = tmp_path / "b.json"
    runs = find([made(tmp_path / "then", one(measure("p_leak", NONE, 0.01, ALL)))])
    api.update(runs, baseline=file)
    value = json.loads(file.read_text())
    for name, line in value["settings"]["digits/fedgn"]["rows"].items():
        if name.startswith(attack):
            line["value"] = 0.99
    file.write_text(json.dumps(value))
    with pytest.raises(BrokenFile, match=r"^\S+b\.json is damaged \(the value of .* is 0\.99, its"):
        api.check(runs, baseline=file)
