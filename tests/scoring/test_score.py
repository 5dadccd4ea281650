"""From saved guesses and the truth to units.csv and results.csv."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace

import pytest
import torch
from helpers.small_runs import (
    FEATURES,
    again,
    build,
    by_hand,
    copied,
    listed,
    messages_in,
    plugged,
    results,
    trained,
    tree_of,
    units,
)

from leakbench import api
from leakbench.attacking import guessing
from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.base import registry
from leakbench.base.errors import BrokenFile, MethodError
from leakbench.base.files import read_csv, read_sealed
from leakbench.base.meaning import Meaning
from leakbench.record.columns import RESULTS, UNITS, typed
from leakbench.record.folders import load
from leakbench.record.messages import write_messages
from leakbench.scoring import score
from leakbench.scoring.truth import Truth

ROUNDS = 10
SEND_NONE = {"own_prototypes", "fixed_prototypes"}
PROTOTYPE_METHODS = [
    d
    for d in registry.names("defenses")
    if registry.load_plugin("defenses", d).distance and d not in SEND_NONE
]
NOISY = {"fedgn": {"sigma": 0.5}, "fedcs": {"cos_theta": 0.3}, "fedhide": {"alpha": 0.1}}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def fedgn(out):
    return trained(out, "fedgn", ROUNDS, params={"sigma": 0.5, "fraction": 0.4}, record="standard")


@pytest.fixture(scope="module")
def fedavg(out):
    return trained(out, "fedavg", 1, record="standard")


def inversion(**params):
    return build("gradient_inversion", attacker="naive", at=["final"], **params)


def probes(run, round=1):
    """(unit, number, image) of every recorded probe: the first of each client, then the second of
    each.
    """
    found = [
        (f"client/{i}", int(p), entry["x"])
        for i, phases in sorted(Truth(run).round(round)["client"].items(), key=lambda c: int(c[0]))
        for phase in phases.values()
        for p, entry in phase.get("probe", {}).items()
    ]
    return sorted(found, key=lambda p: p[1])


def rebuilt(run, change, floor=lambda x: torch.full_like(x, 0.5), count=4, **kept):
    """Guesses for the first probes of a run: the true image, changed."""
    chosen = probes(run)[:count]
    good = [Guess(u, 1, {"x": change(x, j)}, probe=p, **kept) for j, (u, p, x) in enumerate(chosen)]
    return good, [Guess(u, 1, {"x": floor(x)}, probe=p) for u, p, x in chosen]


def scored(run, guesses, floor, control=(), attack=None, name="gradient_inversion"):
    recording, attack = again(run), attack or inversion()
    by_hand(recording, name, attack, guesses, floor, control)
    return score.score(recording, name, attack)


def prototype_guesses(run, at=ROUNDS, **changed):
    true = Truth(run).round(at)["everyone"]["prototype"]
    found = {f"client/{c}": Guess(f"client/{c}", at, {"prototype": v}) for c, v in enumerate(true)}
    return list({**found, **changed}.values()), [
        Guess(f"client/{c}", at, {"prototype": torch.ones(8)}) for c in range(len(true))
    ]


def test_every_number_is_the_mean_of_its_units(fedgn, tmp_path):
    for candidates in ("true", "public"):
        folder = api.attack(
            copied(fedgn, tmp_path / candidates), "prototype_leakage", candidates=candidates
        ).path
        scores = defaultdict(list)
        for r in (typed(r, folder) for r in read_csv(folder / "units.csv", UNITS)):
            scores[r["role"], r["metric"], r["round"], r["probe"]].append(r["score"])
        rows = api.Results(folder).rows
        assert len(rows) == len({(r["metric"], r["round"], r["probe"]) for r in rows}) >= 3
        for row, (role, column) in itertools.product(
            rows, (("attack", "value"), ("floor", "floor"), ("control", "control"))
        ):
            mine = scores[role, row["metric"], row["round"], row["probe"]]
            assert sum(mine) / len(mine) == pytest.approx(row[column], abs=1e-12)
            assert len(mine) == row["n"]


def test_rows_have_every_column_and_their_stage(fedgn, tmp_path):
    folder = api.attack(copied(fedgn, tmp_path), "prototype_leakage").path
    rows = api.Results(folder).rows
    assert list(rows[0]) == list(RESULTS)
    stages = {r["round"]: r["stage"] for r in rows}
    assert stages == {1: "untrained", 5: "middle", 10: "final"} | dict.fromkeys(
        (2, 3, 4, 6, 7, 8, 9), "curve"
    )
    for r in rows:
        assert r["low"] <= r["value"] <= r["high"]
        assert r["floor_low"] <= r["floor"] <= r["floor_high"]
        assert r["control_low"] <= r["control"] <= r["control_high"]


def test_the_floor_of_p_leak_is_exact_and_without_width(fedgn, tmp_path):
    folder = api.attack(copied(fedgn, tmp_path), "prototype_leakage").path
    row = results(folder, "p_leak")
    assert row["floor_low"] == row["floor"] == row["floor_high"] == pytest.approx(0.1, abs=1e-15)
    assert row["interval"] == "clopper-pearson"
    assert set(units(folder, "p_leak", "floor", ROUNDS).values()) == {0.1}
    other = results(folder, "prototype_cosine")
    assert other["floor_low"] < other["floor"] < other["floor_high"]


@pytest.mark.parametrize(
    "defense",
    [d if d == "fedgn" else pytest.param(d, marks=pytest.mark.slow) for d in PROTOTYPE_METHODS],
)
def test_the_control_of_p_leak_is_one_on_every_prototype_method(tmp_path, defense):
    params = {
        k: v
        for k, v in NOISY.get(defense, {}).items()
        if k in registry.load_plugin("defenses", defense).model_fields
    }
    run = trained(tmp_path, defense, 12, params={**params, "fraction": 0.5})
    row = results(api.attack(run, "prototype_leakage").path, "p_leak")
    assert row["control"] == 1
    assert "control_failed" not in row["flags"]
    assert row["value"] == 1 or load(run.path).meta["hides"]


def test_scoring_twice_gives_the_same_bytes_and_runs_no_attack(fedgn, tmp_path, monkeypatch):
    run = copied(fedgn, tmp_path)
    folder = api.attack(run, "prototype_leakage").path
    first = tree_of(folder)
    monkeypatch.setattr(guessing, "guessed", lambda *a, **k: pytest.fail("guessed again"))
    monkeypatch.setattr(Attack, "__call__", lambda *a, **k: pytest.fail("attacked again"))
    assert api.score(run, "prototype_leakage").path == folder
    assert tree_of(folder) == first


def test_a_failed_unit_scores_the_blind_guess_and_is_counted(fedgn, tmp_path):
    run = copied(fedgn, tmp_path)
    lost = {"client/4": Guess("client/4", ROUNDS, failed="diverged")}
    folder = scored(
        run,
        *prototype_guesses(run, **lost),
        attack=build("prototype_leakage"),
        name="prototype_leakage",
    )
    row = results(folder, "p_leak")
    assert (row["n"], row["failed"]) == (10, 1)
    assert units(folder, "p_leak")["client/4"] == 0.1
    assert row["value"] == pytest.approx(0.91)
    assert "failed_units" in row["flags"].split("|")
    cosines = units(folder, "prototype_cosine")
    assert cosines["client/4"] == units(folder, "prototype_cosine", "floor")["client/4"]
    rows = read_csv(folder / "units.csv", UNITS)
    assert {(r["unit"], r["role"]) for r in rows if r["failed"] == "true"} == {
        ("client/4", "attack")
    }


def test_a_failed_image_scores_the_class_mean_in_every_metric(fedavg, tmp_path):
    run = copied(fedavg, tmp_path)
    good, floor = rebuilt(run, lambda x, j: x)
    good[2] = Guess(good[2].unit, 1, probe=good[2].probe, failed="diverged")
    folder = scored(run, good, floor)
    rows = {r["metric"]: r for r in api.Results(folder).rows}
    assert set(rows) == {"psnr", "ssim", "mse", "identification"}
    for metric, row in rows.items():
        mine, blind = units(folder, metric), units(folder, metric, "floor")
        (lost,) = [u for u in mine if mine[u] == blind[u]]
        assert lost.startswith(good[2].unit)
        assert (row["failed"], row["n"]) == (1, 4)
    assert sorted(units(folder, "psnr").values())[1:] == [100, 100, 100]
    assert rows["psnr"]["probe"] is True
    assert "probe" in rows["psnr"]["flags"].split("|")


def test_all_units_failed_is_the_floor_itself(fedgn, tmp_path):
    run = copied(fedgn, tmp_path)
    lost = [Guess(f"client/{c}", ROUNDS, failed="nothing converged") for c in range(10)]
    _, floor = prototype_guesses(run)
    folder = scored(run, lost, floor, attack=build("prototype_leakage"), name="prototype_leakage")
    row = results(folder, "p_leak")
    assert (row["value"], row["failed"], row["n"]) == (pytest.approx(0.1), 10, 10)
    assert "control_failed" in row["flags"].split("|")


def test_a_failed_control_unit_scores_the_floor(fedgn, tmp_path):
    run = copied(fedgn, tmp_path)
    good, floor = prototype_guesses(run)
    control = [Guess("client/0", ROUNDS, failed="diverged"), *good[1:]]
    row = results(
        scored(run, good, floor, control, build("prototype_leakage"), "prototype_leakage"), "p_leak"
    )
    assert (row["value"], row["failed"]) == (1, 0)
    assert row["control"] == pytest.approx(0.91)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_guess_that_is_not_finite_is_an_error_never_dropped(fedgn, tmp_path, bad):
    run = copied(fedgn, tmp_path)
    broken = {"client/4": Guess("client/4", ROUNDS, {"prototype": torch.full((8,), bad)})}
    with pytest.raises(MethodError, match="saved guess for client/4 at round 10 is not finite"):
        scored(
            run,
            *prototype_guesses(run, **broken),
            attack=build("prototype_leakage"),
            name="prototype_leakage",
        )


def test_a_guess_without_what_a_metric_needs_is_not_left_out_in_silence(fedgn, tmp_path):
    run = copied(fedgn, tmp_path)
    broken = {"client/4": Guess("client/4", ROUNDS, {"something": torch.ones(8)})}
    folder = scored(
        run,
        *prototype_guesses(run, **broken),
        attack=build("prototype_leakage"),
        name="prototype_leakage",
    )
    assert api.Results(folder).rows == []
    missing = {m["metric"]: m["reason"] for m in read_sealed(folder / "attack.json")["missing"]}
    assert set(missing) == {"p_leak", "prototype_cosine"}
    assert "no prototype guessed for client/4" in missing["p_leak"]


def test_attack_json_says_how_each_metric_is_read(fedgn, tmp_path):
    run, attack = copied(fedgn, tmp_path), build("prototype_leakage")
    folder = scored(run, *prototype_guesses(run), attack=attack, name="prototype_leakage")
    told = read_sealed(folder / "attack.json")["metrics"]
    # What a setting of an attack does not measure is not listed.
    shown = [m for m in attack.metrics if m.name != "p_leak_public"]
    assert list(told) == sorted(m.name for m in shown)
    for m in shown:
        assert Meaning.recorded(m.name, told[m.name]) == m.meaning
        # As they were written first, and are read by what was written then.
        first = ("leaks", "low", "high", "unit", "share", "version")
        old = {k: told[m.name][k] for k in first}
        assert old == {k: getattr(m, k, m.meaning.version) for k in first}
        assert Meaning.recorded(m.name, old).matters == m.meaning.matters


def test_scores_outside_their_range_are_an_error(fedgn, tmp_path):
    from dataclasses import replace

    from leakbench.attacking.metric import Score
    from leakbench.metrics.prototypes import P_LEAK

    recording, attack = again(copied(fedgn, tmp_path)), build("prototype_leakage")
    by_hand(recording, "prototype_leakage", attack, *prototype_guesses(recording.run))
    for value in (1.5, float("nan")):
        wrong = replace(P_LEAK, score=lambda g, a, value=value: [Score(g.unit, g.unit, value)])
        broken = type("Broken", (type(attack),), {"metrics": (wrong,)})()
        with pytest.raises(MethodError, match=r"p_leak of client/0 is .*, outside \[0.0, 1.0\]"):
            score.score(recording, "prototype_leakage", broken)


def test_a_client_whose_newest_message_was_not_kept_is_counted_as_missing(fedgn, tmp_path):
    run = copied(fedgn, tmp_path)
    lost = next(
        m.sender
        for m in again(run).transcript
        if m.round == ROUNDS and m.kind == "prototype" and m.sender != "server"
    )

    def without(path):
        write_messages(
            path,
            [
                m
                for m in messages_in(path.parent)
                if m.round == ROUNDS and not (m.sender == lost and m.kind == "prototype")
            ],
        )

    listed(run, **{f"{part}__round_{ROUNDS:06d}": without for part in ("transcript", "control")})
    folder = api.attack(run, "prototype_leakage").path
    assert results(folder, "p_leak")["n"] == 9
    assert lost not in units(folder, "p_leak", round=ROUNDS)
    (line,) = read_sealed(folder / "attack.json")["missing"]
    assert line["metric"] == "all"
    assert line["reason"].startswith("1 of 10 clients: their newest prototype was not kept")


def test_truth_of_a_round_that_is_gone_is_one_sentence(fedgn, tmp_path):
    run = copied(fedgn, tmp_path)
    listed(run, **{f"truth__round_{ROUNDS:06d}": lambda path: path.unlink()})
    with pytest.raises(
        BrokenFile,
        match=r"round-000010.safetensors is missing: the truth of round 10 was not recorded",
    ):
        api.attack(run, "prototype_leakage")


def test_changed_guesses_are_not_scored_again(fedgn, tmp_path):
    run = copied(fedgn, tmp_path)
    folder = api.attack(run, "prototype_leakage").path
    before = (folder / "results.csv").read_bytes()
    file = folder / "guess.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(BrokenFile, match=r"guess.safetensors was changed or damaged"):
        api.score(run, "prototype_leakage")
    assert (folder / "results.csv").read_bytes() == before


def test_images_of_one_client_share_a_cluster(fedavg, tmp_path):
    run = copied(fedavg, tmp_path)
    good, floor = rebuilt(run, lambda x, j: x + 0.1 * (j + 1), count=20)
    folder = scored(run, good, floor)
    rows = [
        r
        for r in read_csv(folder / "units.csv", UNITS)
        if r["metric"] == "psnr" and r["role"] == "attack"
    ]
    assert len(rows) == 20
    assert {r["cluster"] for r in rows} == {g.unit for g in good}
    assert all(r["unit"].startswith(r["cluster"] + "/") for r in rows)
    assert results(folder, "psnr")["interval"] == "student"


def test_an_inversions_precision_is_of_what_it_accepts_alone(fedavg, tmp_path):
    run = copied(fedavg, tmp_path)
    good, floor = rebuilt(run, lambda x, j: x if j % 2 else 1 - x, count=20)
    sure = [replace(g, accepted=j % 2 == 1 or j == 0) for j, g in enumerate(good)]
    folder = scored(run, sure, floor)
    found = results(folder, "inversion_precision")
    assert found["n"] == 11
    assert found["value"] == pytest.approx(10 / 11)
    assert results(folder, "identification")["value"] == pytest.approx(0.5)
    none = scored(run, good, floor)
    told = {m["metric"]: m["reason"] for m in read_sealed(none / "attack.json")["missing"]}
    assert "accepted none of its 20 guesses" in told["inversion_precision"]


def test_one_image_of_each_client_is_independent(fedavg, tmp_path):
    run = copied(fedavg, tmp_path)
    good, floor = rebuilt(run, lambda x, j: x + 0.1, count=99)
    alone = [[g for g in part if g.probe == 0] for part in (good, floor)]
    folder = scored(run, *alone)
    rows = [r for r in read_csv(folder / "units.csv", UNITS) if r["metric"] == "identification"]
    assert all(r["unit"] == r["cluster"] for r in rows)
    assert results(folder, "identification")["interval"] == "clopper-pearson"


class TestFlags:
    def of(self, folder, metric):
        return set(results(folder, metric)["flags"].split("|"))

    def test_no_better_than_the_class_mean(self, fedavg, tmp_path):
        run = copied(fedavg, tmp_path)
        good, floor = rebuilt(run, lambda x, j: 1 - x)
        assert "below_class_mean" in self.of(scored(run, good, floor), "psnr")
        assert "below_class_mean" in self.of(scored(run, good, floor), "mse")
        good, floor = rebuilt(run, lambda x, j: x + 0.05)
        assert not {"below_class_mean"} & (
            self.of(scored(run, good, floor), "psnr") | self.of(scored(run, good, floor), "mse")
        )

    def test_what_the_attack_says_of_its_guesses(self, fedavg, tmp_path):
        run = copied(fedavg, tmp_path)
        good, floor = rebuilt(run, lambda x, j: x, flags=("gradient_vanished", "restarts_disagree"))
        assert {"gradient_vanished", "restarts_disagree"} <= self.of(
            scored(run, good, floor), "psnr"
        )

    def test_units_say_what_did_not_settle_and_what_the_control_accepts(self, fedavg, tmp_path):
        run = copied(fedavg, tmp_path)
        good, floor = rebuilt(run, lambda x, j: x, count=20)
        stuck = [replace(g, flags=("loss_did_not_fall",)) for g in good[:3]]
        sure = [replace(g, accepted=True) for g in good]
        folder = scored(run, [*stuck, *good[3:]], floor, [*good[:5], *sure[5:]])
        rows = [r for r in read_csv(folder / "units.csv", UNITS) if r["metric"] == "identification"]
        said = [(r["role"], r["settled"], r["accepted"]) for r in rows]
        assert said.count(("attack", "false", "false")) == 3
        assert said.count(("attack", "true", "false")) == 17
        assert said.count(("control", "true", "true")) == 15
        assert said.count(("floor", "true", "false")) == 20

    def test_a_weak_control(self, fedavg, tmp_path):
        run = copied(fedavg, tmp_path)
        good, floor = rebuilt(run, lambda x, j: x + 0.01 * j, count=20)
        folder = scored(run, good, floor, floor)
        assert "control_failed" in self.of(folder, "psnr")
        assert "control_failed" in self.of(folder, "mse")
        assert "control_failed" not in self.of(scored(run, good, floor), "psnr")

    def test_few_units(self, fedgn, tmp_path):
        folder = api.attack(copied(fedgn, tmp_path), "prototype_leakage").path
        assert "few_units" in self.of(folder, "p_leak")

    @pytest.mark.parametrize(
        ("knows", "flag"), [("labels", "oracle_labels"), ("true_prototypes", "oracle_prototypes")]
    )
    def test_what_an_attack_was_told(self, fedgn, tmp_path, knows, flag):
        attack = build("prototype_leakage")
        told = attack.threat.model_copy(update={"knows": (knows,)})
        oracle = type("Oracle", (type(attack),), {"threat": property(lambda self: told)})()
        run = copied(fedgn, tmp_path)
        assert flag in self.of(
            scored(run, *prototype_guesses(run), attack=oracle, name="prototype_leakage"), "p_leak"
        )
        assert flag not in self.of(
            scored(run, *prototype_guesses(run), attack=attack, name="prototype_leakage"), "p_leak"
        )

    def test_a_vanished_gradient_is_no_guess_and_is_flagged(self, fedavg, tmp_path):
        """The attack itself, on an update of zeros."""
        run = copied(fedavg, tmp_path)

        def zeroed(path):
            found = messages_in(path.parent)
            empty = [
                type(m)(
                    m.round,
                    m.phase,
                    m.sender,
                    m.receiver,
                    m.kind,
                    {k: 0 * v for k, v in m.payload.items()},
                    m.probe,
                )
                for m in found
            ]
            write_messages(
                path, [e if m.kind == "update" else m for m, e in zip(found, empty, strict=True)]
            )

        listed(run, transcript__round_000001=zeroed)
        folder = api.attack(
            run,
            "gradient_inversion",
            attacker="naive",
            at=["final"],
            targets=2,
            steps=2,
            restarts=1,
        ).path
        row = results(folder, "mse")
        assert row["failed"] == row["n"] == 2
        assert {"gradient_vanished", "failed_units", "below_class_mean"} <= self.of(folder, "mse")


@pytest.fixture(scope="module")
def features(out):
    with plugged("defenses", out, fedfeatures=FEATURES):
        bare, hidden = (
            trained(out, "fedfeatures", 3, params={"noise": n, "share": 12}) for n in (0.0, 2.0)
        )
        api.attack(bare, "distance_correlation")
        yield bare, hidden


def test_features_that_follow_the_inputs_correlate_and_noise_hides_that(features):
    bare, hidden = features
    for metric in ("dcor", "dcor2_corrected", "flea_correlation"):
        plain, noisy = (
            results(api.attack(r, "distance_correlation").path, metric) for r in (bare, hidden)
        )
        assert plain["low"] > plain["floor_high"]
        assert plain["value"] == plain["control"]
        assert noisy["value"] < plain["value"]
        # The same features without the noise.
        assert noisy["control"] == pytest.approx(plain["control"], abs=0.2)
        assert noisy["control_low"] > noisy["floor_high"]
    assert not load(bare.path).meta["hides"]


def test_p_values_stand_beside_in_units_csv_only(features):
    folder = api.attack(features[0], "distance_correlation").path
    beside = units(folder, "dcor2_corrected_p", round=3)
    assert len(beside) == 10
    assert all(1 / 201 <= p <= 1 for p in beside.values())
    assert "dcor2_corrected_p" not in {r["metric"] for r in api.Results(folder).rows}


def test_the_floor_pairs_the_sent_features_at_random(features):
    folder = api.attack(features[0], "distance_correlation").path
    mine, floor = units(folder, "dcor", round=3), units(folder, "dcor", "floor", 3)
    assert all(0.2 < floor[u] < mine[u] for u in mine)  # twelve rows correlate by chance
    assert abs(sum(units(folder, "dcor2_corrected", "floor", 3).values())) / 10 < 0.1


def test_too_few_rows_are_said_not_dropped(out):
    with plugged("defenses", out, fedfewer=FEATURES):
        run = trained(out, "fedfewer", 2, params={"share": 3})
        folder = api.attack(run, "distance_correlation").path
        meta = read_sealed(folder / "attack.json")
        assert {m["metric"] for m in meta["missing"]} == {
            "dcor",
            "dcor2_corrected",
            "flea_correlation",
        }
        assert all("fewer than 4 rows" in m["reason"] for m in meta["missing"])


def test_a_client_with_too_few_rows_does_not_take_the_others_along(out):
    """FedProto's clients send a row a class: who has fewer than four is named, others counted."""
    task = {"model": "mlp", "width": 8, "split": "dir", "split_param": 0.1}
    run = api.train("fedproto", task_params=task, rounds=2, out=out, device="cpu")
    folder = api.attack(run, "distance_correlation").path
    sent = {m.sender: m for m in again(run).transcript if m.kind == "features"}
    few = {k for k, m in sent.items() if len(m.payload) < 4}
    assert few
    found = units(folder, "dcor", round=2)
    assert found.keys() == sent.keys() - few
    row = results(folder, "dcor", "final")
    assert row["n"] == len(found)
    assert "failed_units" in row["flags"]
    (why,) = [
        m["reason"]
        for m in read_sealed(folder / "attack.json")["missing"]
        if m["metric"] == "dcor" and m["reason"].startswith("round 2")
    ]
    assert f"{len(few)} of {len(sent)} left out" in why
