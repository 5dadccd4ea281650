from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.gate_rows import check, update
from helpers.run_folders import add_attack, edited, make_run, measure

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.reason import reason
from leakbench.gate.baseline import Baseline, load_baseline, save_baseline
from leakbench.gate.rows import gate_rows
from leakbench.record.columns import FLAGS
from leakbench.record.folders import find
from leakbench.results import utility
from leakbench.results.tables import COLUMNS, collect, write
from leakbench.statistics.intervals import clopper_pearson, t_quantile

N = 10
ONES = [1.0] * N


def first(k: int) -> list[float]:
    return [1.0] * k + [0.0] * (N - k)


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Three seeds of one configuration; client c is found where c < 2, 4, 6 in seeds 0, 1, 2."""
    for seed in range(3):
        run = make_run(tmp_path, seed=seed, right=[5, 6 + seed])
        add_attack(run, "nearest", [measure("p_leak", first(2 + 2 * seed), 0.1, ONES)])
    return tmp_path


def test_printed_it_is_an_overview_and_a_check_what_it_comes_to(three: Path) -> None:
    tables = collect(find([three]))
    text = repr(tables)
    assert len(text) < 2000
    assert "tradeoff: 3 rows of " in text
    assert all(f"{name}: " in text for name in COLUMNS)
    assert "claimed_source" in text
    later = collect(find([three]))
    for path in three.glob("*/diagnostics.csv"):
        path.unlink()
    assert "diagnostics: rows that cannot be read, of 4 columns" in repr(later)
    rows = gate_rows(tables.settings)
    found = check(rows, Baseline.of(rows))
    assert len(repr(found)) < 2000 < len(repr(found.rows))


def test_seeds_are_pooled_and_the_interval_is_the_widest(three: Path) -> None:
    (row,) = [r for r in collect(find([three])).rows("tradeoff") if r["attack"] == "nearest"]
    assert (row["value"], row["n"], row["seeds"], row["interval"]) == (
        pytest.approx(0.4),
        30,
        "0|1|2",
        "clopper-pearson",
    )
    values = [0.2, 0.4, 0.6]
    x = [math.asin(math.sqrt(v)) for v in values]
    mean = sum(x) / 3
    half = t_quantile(0.975, 2) * math.sqrt(sum((v - mean) ** 2 for v in x) / 6)
    units = [1.0, 1.0, 2 / 3, 2 / 3, 1 / 3, 1 / 3, 0, 0, 0, 0]
    spread = t_quantile(0.975, 9) * math.sqrt(sum((u - 0.4) ** 2 for u in units) / 90)
    cp = clopper_pearson(12, 30)
    assert row["low"] == pytest.approx(min(math.sin(max(mean - half, 0)) ** 2, 0.4 - spread, cp[0]))
    assert row["high"] == pytest.approx(max(math.sin(mean + half) ** 2, 0.4 + spread, cp[1]))
    # An exact floor has no width; the control is pooled like the value.
    assert (row["floor"], row["floor_low"], row["floor_high"]) == (0.1, 0.1, 0.1)
    assert (row["control"], row["control_low"], row["control_high"]) == (
        1.0,
        pytest.approx(clopper_pearson(30, 30)[0]),
        1.0,
    )
    assert row["flags"] == "few_units"  # 30 unit scores
    assert row["utility_flags"] == "curve_unknown|few_units"


def test_utility_averages_each_test_unit_over_the_seeds_first(three: Path) -> None:
    tables = collect(find([three]))
    final, best = tables.rows("utility")
    # Seeds hit 6, 7, 8 units beginning at 0, 1, 2: units 2..5 in all, 1, 6, 7 in two (1: seeds 0,
    # 1; 6: 1, 2; 7: 1, 2), ...
    assert (final["statistic"], final["value"], final["n"]) == ("final", pytest.approx(0.7), 10)
    means = [1 / 3, 2 / 3, 1, 1, 1, 1, 2 / 3, 2 / 3, 1 / 3, 1 / 3]
    spread = t_quantile(0.975, 9) * math.sqrt(sum((u - 0.7) ** 2 for u in means) / 90)
    assert final["low"] <= 0.7 - spread + 1e-12
    assert final["high"] >= 0.7 + spread - 1e-12
    assert (best["statistic"], best["value"]) == ("best", pytest.approx(0.7))
    assert final["flags"] == "curve_unknown|few_units"
    assert [m["reason"] for m in tables.rows("missing") if m["metric"] == "accuracy"] == [
        "no last10: only 2 evaluations, it is the mean of the last 10"
    ]
    assert {r["utility"] for r in tables.rows("tradeoff")} == {final["value"]}


def test_no_mean_of_the_last_ten_where_the_last_is_of_another_model(tmp_path: Path) -> None:
    """As CCVR's, which calibrates after the last round."""
    make_run(tmp_path, right=range(1, 11), rounds=10)
    (setting,) = collect(find([tmp_path])).settings
    (plain,) = setting.evaluated
    *others, last = plain.evaluations
    calibrated = replace(plain, evaluations=(*others, replace(last, round=11)))
    for evaluated, names in ((plain, ["final", "best", "last10"]), (calibrated, ["final", "best"])):
        found, lacking = utility.rows(setting, [evaluated])
        assert [u.statistic for u in found] == names
        assert [why.code for _, why in lacking] == ["changed_after"] * (3 - len(names))


def test_best_and_last10_of_one_seed(tmp_path: Path) -> None:
    make_run(tmp_path, right=[1, 9, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8])
    rows = {r["statistic"]: r for r in collect(find([tmp_path])).rows("utility")}
    assert rows["final"]["value"] == pytest.approx(0.8)
    assert (rows["final"]["low"], rows["final"]["high"]) == pytest.approx(clopper_pearson(8, 10))
    assert rows["best"]["value"] == pytest.approx(0.9)
    assert rows["last10"]["value"] == pytest.approx((2 + 3 + 4 + 5 + 6 + 7 + 8 + 8 + 8 + 8) / 100)
    assert rows["final"]["flags"] == "one_seed|few_units"


@pytest.mark.parametrize("how", [{"right": [2]}, {"right": [9], "cosine": 0.995}])
def test_one_dead_seed_flags_the_configuration_and_keeps_it_off_the_front(
    tmp_path: Path, how: dict[str, object]
) -> None:
    for seed in range(3):
        run = make_run(tmp_path, seed=seed, **({"right": [9]} | (how if seed == 1 else {})))  # type: ignore[arg-type]
        add_attack(run, "nearest", [measure("p_leak", first(5), 0.1, ONES)])
    tables = collect(find([tmp_path]))
    assert all("dead_run" in r["flags"] and r["on_front"] is False for r in tables.rows("tradeoff"))
    assert {r["seed"] for r in tables.rows("results") if "dead_run" in r["flags"]} == {1}
    assert all("dead_run" in r["flags"] for r in tables.rows("utility"))


def test_prototypes_compared_by_distance_die_by_their_distance(tmp_path: Path) -> None:
    run = make_run(tmp_path, right=[9], cosine=1.0, distance="euclidean")
    assert "dead_run" not in collect(find([run])).rows("utility")[0]["flags"]


def test_the_front_is_what_no_other_live_configuration_dominates(tmp_path: Path) -> None:
    settings = {
        "good": (9, 2),
        "better_utility": (10, 5),
        "dominated": (8, 3),
        "equal": (9, 2),
        "dead": (1, 0),
        "weak": (10, 0),
    }
    for name, (right, leaks) in settings.items():
        run = make_run(tmp_path, defense=name, right=[right], params={"sigma": 0.1})
        add_attack(
            run,
            "nearest",
            [measure("p_leak", first(leaks), 0.1, first(1) if name == "weak" else ONES)],
        )
    rows = [r for r in collect(find([tmp_path])).rows("tradeoff") if r["attack"] == "nearest"]
    assert {r["defense"] for r in rows if r["on_front"]} == {"good", "equal", "better_utility"}


def test_a_configuration_stands_on_the_front_for_its_worst_parameters(tmp_path: Path) -> None:
    for name, leaks in (("a", 4), ("b", 5)):
        run = make_run(tmp_path, defense=name, right=[9])
        add_attack(
            run, "nearest", [measure("p_leak", first(leaks), 0.1, ONES)], params={"steps": 100}
        )
    # b, attacked half-heartedly too.
    add_attack(run, "nearest", [measure("p_leak", first(1), 0.1, ONES)], params={"steps": 1})
    rows = [r for r in collect(find([tmp_path])).rows("tradeoff") if r["attack"] == "nearest"]
    assert [(r["defense"], r["value"]) for r in rows if r["on_front"]] == [("a", 0.4)]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    left_out = [
        {
            "attack": "gradient_inversion",
            "metric": "lpips",
            "reason": "images are smaller than 32 px",
        }
    ]
    runs = [make_run(tmp_path, seed=s, missing=left_out) for s in (0, 1)]
    add_attack(runs[0], "context", [], status="failed: out of memory")
    why = "failed: training diverged by round 3"
    edited(make_run(tmp_path, seed=2) / "run.json", lambda meta: meta.update(status=why))
    wrapped = [{"name": "clip_noise", "params": {"clip": 1.0}}]
    make_run(tmp_path, wrappers=wrapped)
    tables = collect(
        find([tmp_path]),
        lambda run: [("context", {}), ("decoder", {}), ("decoder", {"network": "relu"})],
        lambda run: {"exposure": "it sends no features"},
    )
    plain = {
        (m["attack"], m["metric"], m["reason"])
        for m in tables.rows("missing")
        if "wrappers" not in m["reason"] and m["metric"] != "accuracy"
    }
    assert plain == {
        ("", "", "failed: training diverged by round 3 (seed 2)"),
        ("gradient_inversion", "lpips", "images are smaller than 32 px (seed 0, 1)"),
        ("context", "", "failed: out of memory (seed 0)"),
        ("context", "", "it would fit but was not run: leakbench attack (seed 1)"),
        ("decoder", "", "it would fit but was not run: leakbench attack (seed 0, 1)"),
        ("exposure", "", "it sends no features (seed 0, 1)"),
    }
    assert ("decoder", "clip_noise") in {
        (m["attack"], "clip_noise" * ("clip_noise" in m["reason"])) for m in tables.rows("missing")
    }
    assert tables.rows("results") == tables.rows("tradeoff") == []
    assert {r["seeds"] for r in tables.rows("utility")} == {"0|1", "0"}


def test_a_setting_that_did_not_run_is_named_where_another_of_its_attack_did(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path)
    add_attack(run, "label_inference", [], params={"source": "update", "seed": 0})
    fits = [("label_inference", {"source": s}) for s in ("update", "pooled")]
    missing = collect(find([tmp_path]), lambda run: fits).missing
    assert [(m.attack, m.reason) for m in missing if m.reason.code == "not_run"] == [
        ("label_inference", reason("not_run", params={"source": "pooled"}))
    ]


def test_the_tables_have_their_columns_and_cells_that_can_be_read_back(
    three: Path, tmp_path: Path
) -> None:
    run = sorted(p for p in three.iterdir() if p.name.endswith("s0"))[0]
    add_attack(
        run,
        "pixels",
        [
            measure(
                "psnr",
                [20.0, 21.5],
                [9.0, 9.1],
                [60.0, 61.0],
                units=["client/0/3", "client/1/7"],
                probe=True,
            )
        ],
        rung="method",
    )
    tables = collect(find([three]))
    for path in write(tables, tmp_path / "report"):
        with path.open(newline="") as file:
            lines = list(csv.reader(file))
        assert tuple(lines[0]) == COLUMNS[path.stem]
        rows = tables.rows(path.stem)
        assert len(lines) == 1 + len(rows)
        assert [list(r) for r in rows] == [list(COLUMNS[path.stem])] * len(rows)
    for row in (*tables.rows("results"), *tables.rows("tradeoff")):
        assert row["low"] <= row["value"] <= row["high"]
        assert set(row["flags"].split("|")) - {""} <= set(FLAGS)
        assert isinstance(json.loads(row["defense_params"]), dict)
        assert isinstance(row["probe"], bool)
    for row in tables.rows("tradeoff"):
        assert bool(row["claimed"]) == bool(row["claimed_source"])
    frame = tables.to_frame("tradeoff")
    assert list(frame.columns) == list(COLUMNS["tradeoff"])
    assert frame["value"].dtype == float


def test_a_single_unit_of_an_open_ended_metric_has_no_row_but_a_reason(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    row = measure(
        "psnr",
        [20.0, 21.0],
        [9.0, 9.1],
        [60.0, 61.0],
        units=["client/0/1", "client/0/2"],
        clusters=["client/0", "client/1"],
    )
    path = add_attack(run, "pixels", [row])
    # Units of one cluster: the scorer could have written no row, but an older one may have.
    text = (path / "units.csv").read_text().replace("client/0/2,client/1", "client/0/2,client/0")
    (path / "units.csv").write_text(text)
    _rehash(path, "attack.json")
    tables = collect(find([run]))
    assert tables.rows("tradeoff") == []
    assert any(
        m["attack"] == "pixels" and "no interval" in m["reason"] for m in tables.rows("missing")
    )


def test_engines_are_pooled_with_a_flag_and_the_same_seed_twice_is_kept_apart(
    tmp_path: Path,
) -> None:
    make_run(tmp_path, seed=0)
    make_run(tmp_path, seed=1, engine="loop")
    assert {r["flags"] for r in collect(find([tmp_path])).rows("utility")} == {
        "curve_unknown|few_seeds|few_units|other_engine"
    }
    make_run(tmp_path, seed=0, engine="loop")
    rows = collect(find([tmp_path])).rows("utility")
    assert {(r["task"], r["seeds"]) for r in rows} == {
        ("digits (engine=fused)", "0"),
        ("digits (engine=loop)", "0|1"),
    }
    assert {s.task for s in collect(find([tmp_path])).settings} == {
        "digits (engine=fused)",
        "digits (engine=loop)",
    }


def test_stand_in_data_are_flagged_wherever_the_run_shows(tmp_path: Path) -> None:
    add_attack(
        make_run(tmp_path, stand_in="voxceleb1"),
        "nearest",
        [measure("p_leak", first(5), 0.1, ONES)],
    )
    tables = collect(find([tmp_path]))
    assert all(
        "stand_in_data" in r["flags"] for r in (*tables.rows("tradeoff"), *tables.rows("utility"))
    )


def test_runs_of_other_lengths_are_not_pooled_and_a_copy_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "a", rounds=100)
    make_run(tmp_path / "a", rounds=200, seed=1)
    assert {(r["task"], r["rounds"]) for r in collect(find([tmp_path])).rows("utility")} == {
        ("digits (rounds=100)", 100),
        ("digits (rounds=200)", 200),
    }
    make_run(tmp_path / "b", rounds=100)
    with pytest.raises(UsageError, match="both seed 0 of one configuration"):
        collect(find([tmp_path]))


def test_runs_are_found_by_folder_by_parent_and_by_glob_each_once(three: Path) -> None:
    names = sorted(p.name for p in three.iterdir())
    assert [r.path.name for r in find([three])] == names
    assert [r.path.name for r in find([three / names[1], str(three / "*-s*"), three])] == [
        names[1],
        names[0],
        names[2],
    ]
    with pytest.raises(UsageError, match="does not exist"):
        find([three / "nothing*"])
    (three / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no run"):
        find([three / "empty"])


@pytest.mark.parametrize("name", ["utility.csv", "utility.safetensors", "diagnostics.csv"])
def test_a_changed_file_of_a_run_is_named(three: Path, name: str) -> None:
    path = next(p for p in three.iterdir()) / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BrokenFile, match=name):
        collect(find([three]))


@pytest.mark.parametrize("name", ["units.csv", "results.csv", "guess.safetensors"])
def test_a_changed_or_missing_file_of_an_attack_is_named(three: Path, name: str) -> None:
    path = next(three.glob("*/attacks/*")) / name
    text = path.read_bytes()
    path.write_bytes(text + b" ")
    with pytest.raises(BrokenFile, match=name):
        collect(find([three]))
    path.unlink()
    with pytest.raises(BrokenFile, match=name):
        collect(find([three]))


def test_newer_schemas_cut_json_and_cells_that_are_no_numbers_are_refused(three: Path) -> None:
    run = next(p for p in three.iterdir())
    text = (run / "run.json").read_text()
    for broken, words in (
        (text.replace('"schema": 2', '"schema": 99'), "schema 99"),
        (text[:40], "damaged"),
        ("[]", "not a JSON object"),
        (text.replace('"seed"', '"sead"'), "does not fit its own digest"),
    ):
        (run / "run.json").write_text(broken)
        with pytest.raises(BrokenFile, match=words):
            find([three])
    (run / "run.json").write_text(text)
    attack = next(run.glob("attacks/*"))
    cells = (attack / "units.csv").read_text()
    (attack / "units.csv").write_text(cells.replace(",1.0,", ",nan,"))
    _rehash(attack, "attack.json")
    with pytest.raises(BrokenFile, match="score is nan"):
        collect(find([three]))


def test_the_gate_gets_every_pooled_number_with_its_scores_and_hashes(
    three: Path, tmp_path: Path
) -> None:
    rows = gate_rows(collect(find([three])).settings)
    assert {r.attacker.name for r in rows} == {"utility", "nearest", "cascade", "any_attack"}
    nearest = next(r for r in rows if r.attacker.name == "nearest")
    assert nearest.units.scores[1] == {f"client/{i}": float(i < 4) for i in range(N)}
    assert all(len(g) == 1 and len(g[0]) == 64 for g in nearest.units.guesses.values())
    assert (
        next(r for r in rows if r.attacker.name == "cascade").units.guesses == nearest.units.guesses
    )
    gain = next(r for r in rows if r.attacker.name == "utility")
    assert (gain.worse, gain.metric, len(gain.units.scores[0])) == ("down", "accuracy", 10)
    written, _ = update(rows, None)
    assert isinstance(written, Baseline)
    save_baseline(tmp_path / "leakage.json", written)
    verdict = check(
        gate_rows(collect(find([three])).settings), load_baseline(tmp_path / "leakage.json")
    )
    assert verdict.exit_code == 0, verdict.lines


def _rehash(folder: Path, name: str) -> None:
    from leakbench.base.files import digests, read_sealed, write_sealed

    meta = read_sealed(folder / name)
    write_sealed(folder / name, meta | {"files": digests(folder, without=(name,))})


def restate(folder: Path, **facts: object) -> None:
    """What attack.json says of p_leak, changed."""
    edited(folder / "attack.json", lambda meta: meta["metrics"]["p_leak"].update(facts))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"direction": "down", "leaks": "down"}, "direction down and up"),
        ({"margin": 0.45}, "margin 0.45 and 0.05"),
        ({"unit": "image"}, "unit image and client"),
    ],
)
def test_one_folders_word_about_a_metric_does_not_decide_for_all(
    three: Path, facts: dict[str, object], said: str
) -> None:
    (folder,) = (find([three])[0].path / "attacks").iterdir()
    restate(folder, **facts)
    with pytest.raises(UsageError, match=f"p_leak has two meanings .{said}.: .* Score both again"):
        collect(find([three]))


@pytest.mark.parametrize(
    "facts",
    [
        {"direction": "down"},
        {"margin": 0},
        {"scale": "log"},
        {"low": 0.6, "share": False},
        {"high": 100.0, "margin": 5.0},
    ],
)
def test_what_contradicts_itself_is_damaged(three: Path, facts: dict[str, object]) -> None:
    for run in find([three]):
        for folder in (run.path / "attacks").iterdir():
            restate(folder, **facts)
    with pytest.raises(BrokenFile, match="is damaged"):
        collect(find([three]))
