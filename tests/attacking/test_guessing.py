"""Guessing: no oracle, the same bytes each time, checked before anything is saved."""

from __future__ import annotations

import shutil

import pytest
import torch
from helpers.caption_files import write_flickr8k
from helpers.digit_writers import WRITERS
from helpers.small_runs import (
    FEATURES,
    PLAIN,
    TASK,
    again,
    build,
    copied,
    obstacle,
    plugged,
    results,
    source,
    trained,
    tree_of,
    units,
)

from leakbench import api
from leakbench.attacking import choices, guessing
from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import View
from leakbench.base import registry
from leakbench.base.errors import BrokenFile, LeakbenchError, MethodError, UsageError
from leakbench.base.files import read_sealed, write_sealed
from leakbench.record.folders import load
from leakbench.scoring import score
from leakbench.scoring.truth import Truth

CHEAP = {
    "gradient_inversion": {"targets": 1, "at": ["final"], "steps": 8, "restarts": 1},
    "decoder": {"epochs": 1, "steps": 4},
    "feature_inversion": {"epochs": 1, "steps": 4, "iterations": 1},
    "mean_inversion": {"groups": 1, "steps": 2},
    "statistics_inversion": {"clients": 2, "most": 200, "starts": 1, "steps": 4},
    "context": {"samples": 30, "draws": 2, "at": ["final"]},
    "attribute": {"rounds": 1, "shadows": 1},
}
FLEA = {"layer": "first", "fraction": 1.0, "epochs": 1}
POOLED = ("gradient_inversion", "pooled")
# Of fewer examples than a batch, so that every round's update is of the same.
FEW = {"task_params": {**TASK, "clients": 4, "split": "iid", "mean_local_size": 4}}
FEW |= {"params": {"optimizer": "sgd", "steps": 1, "epochs": 0, "fraction": 1.0}}
CAPTIONS = {"clients": 4, "width": 8, "vocabulary": 40, "least": 1, "length": 10, "evaluations": 10}
CAPTIONS |= {"model": "captioner", "weights": "", "frozen_encoder": False}
FEDAA = {"epochs": 1, "examples": 2, "hidden": 4, "search_steps": 2, "identifier_epochs": 1}


def settings():
    """Every registered attack in each setting that is run unasked, as small as it goes."""
    real = {"message": "update"}  # what is chosen where updates of several rounds are matched
    return [
        (name, {**CHEAP.get(name, {}), **v, **(real if (name, v.get("source")) == POOLED else {})})
        for name in registry.names("attacks")
        for v in registry.load_plugin("attacks", name).variants
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of FedGN that differ in their seed alone, and two that share features, one of them
    with a marker planted, FedAA on classes and on captions, FedUV, FedHide, FedMetric, FedGen,
    CCVR's statistics, FedMix's means, and updates under noise, and of clients with few examples.
    """
    out = tmp_path_factory.mktemp("runs")
    write_flickr8k(out / "data", images=60)
    with (
        plugged("defenses", out, fedfeatures=FEATURES),
        plugged("leakbench.tasks", out, digit_writers=WRITERS),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("LEAKBENCH_DATA", str(out / "data"))
        yield {
            "absent": trained(out, "fedavg", 3, task_params={**TASK, "split": "iid", "absent": 3}),
            "fedgn": trained(out, params={"sigma": 0.5}, seed=3),
            "other": trained(out, params={"sigma": 0.5}, seed=4),
            "features": trained(out, "fedfeatures", 2, params={"noise": 0.1}),
            "flea": api.train(
                "flea",
                task_params={**TASK, "context": "square"},
                rounds=2,
                out=out,
                device="cpu",
                params=FLEA,
            ),
            "writers": api.train(
                "flea", task="digit-writers", rounds=2, out=out, device="cpu", params=FLEA
            ),
            "fedaa": trained(out, "fedaa", 2, params=FEDAA),
            "captions": api.train(
                "fedaa",
                task="flickr8k",
                task_params=CAPTIONS,
                rounds=2,
                out=out,
                device="cpu",
                params={**FEDAA, "fraction": 1.0},
            ),
            "feduv": trained(out, "feduv", 2),
            "statistics": trained(out, "ccvr", 2, params={"shares": "statistics"}),
            "means": trained(out, "fedmix", 2),
            "noised": trained(out, "fedavg", wrappers=[("clip_noise", {"noise": 0.1})]),
            "few": trained(out, "fedavg", 3, **FEW),
            "few, noised": trained(out, "fedavg", 3, **FEW, wrappers=[("clip_noise", {})]),
            "planted": trained(out, "fedavg", 2, **FEW, wrappers=[("active_server", {})]),
            "fedhide": trained(out, "fedhide", 3, params={"k": 3}),
            "fedmetric": trained(out, "fedmetric", 3),
            "covered": trained(out, "own_prototypes", 3, wrappers=[("clip_noise", {})]),
            "covered words": trained(out, "feduv", 2, wrappers=[("clip_noise", {})]),
            "counts": trained(
                out, "fedgen", 2, wrappers=[("clip_noise", {"kinds": ["label_counts"]})]
            ),
        }


def run_for(name, params, runs):
    """The first one that the attack fits."""
    return next(r for r in runs.values() if not obstacle(build(name, **params), again(r)))


@pytest.mark.parametrize(("name", "params"), settings(), ids=str)
def test_guesses_are_the_same_bytes_without_truth_and_seed(runs, tmp_path, name, params):
    attack = build(name, **params)
    run = copied(run_for(name, params, runs), tmp_path)
    folder = guessing.guess(again(run), name, attack)
    with_all = (folder / "guess.safetensors").read_bytes()
    shutil.rmtree(run.path / "truth")
    shutil.rmtree(run.path / "attacks")
    meta = read_sealed(run.path / "run.json")
    meta["spec"]["seed"] = 99
    meta["id"] = meta["id"].rpartition("-s")[0] + "-s99"
    meta["command"] = ""
    meta["files"] = {k: v for k, v in meta["files"].items() if not k.startswith("truth/")}
    write_sealed(run.path / "run.json", meta)
    folder = guessing.guess(again(run), name, attack)
    assert (folder / "guess.safetensors").read_bytes() == with_all


def test_guessing_opens_no_file_of_the_truth(runs, tmp_path, monkeypatch):
    """Not even to look: every file that is opened below the run is noted."""
    from leakbench.base import files

    run, opened = copied(runs["fedgn"], tmp_path), []
    for name in ("file_digest", "_open"):
        real = getattr(files, name)
        monkeypatch.setattr(
            files,
            name,
            lambda path, *a, real=real, **k: (opened.append(str(path)), real(path, *a, **k))[1],
        )
    guessing.guess(again(run), "prototype_leakage", build("prototype_leakage", candidates="public"))
    inside = [p for p in opened if str(run.path) in p]
    assert any("/transcript/" in p for p in inside)
    assert not any("/truth/" in p for p in inside)


def test_scored_with_another_runs_truth_leakage_falls_to_the_floor(runs, tmp_path):
    run, attack = copied(runs["fedgn"], tmp_path), build("prototype_leakage")
    recording = again(run)
    folder = guessing.guess(recording, "prototype_leakage", attack)
    before = (folder / "guess.safetensors").read_bytes()
    score.score(recording, "prototype_leakage", attack)
    right = {m: results(folder, m) for m in ("p_leak", "prototype_cosine")}
    score.score(recording, "prototype_leakage", attack, truth=Truth(runs["other"]))
    wrong = {m: results(folder, m) for m in ("p_leak", "prototype_cosine")}
    assert (folder / "guess.safetensors").read_bytes() == before
    assert right["p_leak"]["value"] >= 0.5
    assert wrong["p_leak"]["low"] <= wrong["p_leak"]["floor"] <= wrong["p_leak"]["high"]
    assert wrong["p_leak"]["value"] <= 0.3
    assert right["prototype_cosine"]["low"] > 0.3 > abs(wrong["prototype_cosine"]["value"])


def test_images_scored_with_another_runs_truth_are_no_nearer_than_the_blind_guess(tmp_path):
    """The same rounds, clients and probes of the other run: other images of the same digits lie
    behind them.
    """
    run, other = (trained(tmp_path, "fedavg", 1, record="all", seed=s) for s in (3, 4))
    recording, attack = (
        again(run),
        build(
            "gradient_inversion", attacker="naive", targets=6, at=["final"], steps=60, restarts=1
        ),
    )
    folder = guessing.guess(recording, "gradient_inversion", attack)
    before = (folder / "guess.safetensors").read_bytes()
    score.score(recording, "gradient_inversion", attack)
    right = results(folder, "psnr")
    score.score(recording, "gradient_inversion", attack, truth=Truth(other))
    wrong = results(folder, "psnr")
    assert (folder / "guess.safetensors").read_bytes() == before
    assert right["low"] > right["floor_high"]
    assert wrong["value"] <= wrong["floor"]
    assert "below_class_mean" in wrong["flags"].split("|")
    assert "below_class_mean" not in right["flags"].split("|")


def test_the_same_attack_again_is_the_same_bytes_and_is_not_run_again(runs, tmp_path, monkeypatch):
    one, two = copied(runs["fedgn"], tmp_path / "one"), copied(runs["fedgn"], tmp_path / "two")
    paths = [api.attack(r, "prototype_leakage").path for r in (one, two)]
    first, second = (tree_of(p) for p in paths)
    for name in ("guess.safetensors", "units.csv", "results.csv"):
        assert first[name] == second[name]
    monkeypatch.setattr(guessing, "guessed", lambda *a, **k: pytest.fail("ran again"))
    api.attack(one, "prototype_leakage")
    assert tree_of(paths[0]) == first


def test_another_seed_of_the_attack_is_another_folder_with_another_floor(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    a, b = (api.attack(run, "prototype_leakage", seed=s).path for s in (0, 1))
    assert a.name != b.name
    floors = [
        [g.guess.tensors["prototype"] for g in guessing.saved(p) if g.role == "floor"]
        for p in (a, b)
    ]
    assert not any(torch.equal(x, y) for x, y in zip(*floors, strict=True))


def test_what_is_saved_comes_back(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    folder = guessing.guess(again(run), "prototype_leakage", build("prototype_leakage"))
    found = guessing.saved(folder)
    assert {g.role for g in found} == {"attack", "floor", "control"}
    # 10 % of ten rounds is the first.
    assert {g.stage for g in found} == {"untrained", "middle", "final", "curve"}
    per_round = {(g.role, g.guess.round) for g in found}
    # Surveyed: every round of a short run.
    assert per_round == {(r, t) for r in guessing.ROLES for t in range(1, 11)}
    assert len(found) == 3 * 10 * 10
    meta = read_sealed(folder / "attack.json")
    assert (meta["status"], meta["threat"]["rung"], meta["threat"]["kinds"]) == (
        "guessed",
        "paper",
        ["prototype"],
    )


def test_the_control_is_undefended_and_the_floor_reads_no_message(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    folder = api.attack(run, "prototype_leakage").path
    row = results(folder, "prototype_cosine")
    assert row["control"] == pytest.approx(1, abs=1e-6)
    assert row["value"] < 0.95
    blind = [
        g.guess.tensors["prototype"]
        for g in guessing.saved(folder)
        if g.role == "floor" and g.guess.round == 10
    ]
    sent = [
        g.guess.tensors["prototype"]
        for g in guessing.saved(folder)
        if g.role == "attack" and g.guess.round == 10
    ]
    likeness = [
        float(torch.nn.functional.cosine_similarity(a, b, dim=0))
        for a, b in zip(blind, sent, strict=True)
    ]
    assert abs(sum(likeness) / 10) < 0.5


@pytest.mark.parametrize("name", registry.names("attacks"))
def test_an_attack_that_reads_less_than_it_declares_still_reads_only_that(name):
    """Every setting declares kinds and knowledge that exist, and an observer."""
    for variant in registry.load_plugin("attacks", name).variants:
        threat = build(name, **variant).threat
        assert threat.rung in ("paper", "transcript", "method", "public")
        assert threat.kinds


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('return view.messages("update")', "'update' messages"),
        ("return view.know('aux_data')", "'aux_data'"),
        ("return view.method", "'method'"),
    ],
)
def test_an_attack_that_asks_for_more_than_it_declares_fails_by_that_name(
    runs, tmp_path, body, named
):
    run = copied(runs["fedgn"], tmp_path)
    with plugged("attacks", tmp_path, mine=source(body)):
        with pytest.raises(LeakbenchError, match=named):
            api.attack(run, "mine")
        (folder,) = load(run.path).attacks
        assert folder.status.startswith("failed:")
        assert named in folder.status


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            (
                'import torch; return [Guess("client/1", view.round, {"prototype": torch.full((8,),'
                ' float("nan"))})]'
            ),
            "not finite; report it as failed",
        ),
        (
            (
                'import torch; return 2 * [Guess("client/1", view.round, {"prototype":'
                " torch.ones(8)})]"
            ),
            "guessed one unit twice at round 1",
        ),
        ("return []", "found nothing to attack"),
        (
            'import torch; return [Guess("client/99", view.round, {"prototype": torch.ones(8)})]',
            "client/99: there is no such client",
        ),
        ("return 1 / 0", "ZeroDivisionError"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("assert view.round > 99", "AssertionError"),
        ("next(iter([]))", "StopIteration"),
    ],
    ids=["nan", "twice", "nothing", "nobody", "division", "import", "assert", "stop"],
)
def test_what_an_attack_does_wrong_is_said_in_a_sentence_and_in_its_status(
    runs, tmp_path, body, error
):
    run = copied(runs["fedgn"], tmp_path)
    with plugged("attacks", tmp_path, mine=source(body)):
        with pytest.raises(LeakbenchError, match=error):
            api.attack(run, "mine")
        (folder,) = load(run.path).attacks
        assert error in folder.status
        assert not list(run.path.rglob("*.part"))
        with pytest.raises(LeakbenchError, match=error):
            api.attack(run, "mine")  # a failed attack is tried again


def test_a_failed_attack_that_works_now_is_done(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    with plugged("attacks", tmp_path, mine=source("return 1 / 0")), pytest.raises(LeakbenchError):
        api.attack(run, "mine")
    with plugged("attacks", tmp_path, mine=source()):
        api.attack(run, "mine")
    assert [f.status for f in load(run.path).attacks] == ["done"]


def test_an_attack_that_does_not_fit_says_why_and_leaves_nothing(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    with pytest.raises(
        UsageError,
        match=(
            r"distance_correlation does not fit digits-fedgn-.*: clients send the server no"
            r" features"
        ),
    ):
        api.attack(run, "distance_correlation")
    assert not (run.path / "attacks").exists()


def test_a_damaged_recording_fails_no_attack(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    file = run.path / "transcript" / "round-000010.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(BrokenFile, match=r"round-000010.safetensors was changed or damaged"):
        api.attack(run, "prototype_leakage")
    assert load(run.path).attacks == ()


def test_an_unfinished_run_is_not_attacked(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    write_sealed(run.path / "run.json", {**run.meta, "status": "running"})
    with pytest.raises(UsageError, match=r"is not complete .status: running.. Train it first"):
        api.attack(run, "prototype_leakage")


def test_finished_attacks_that_were_changed_since_are_refused(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    folder = api.attack(run, "prototype_leakage").path
    (folder / "results.csv").write_text("value\n0\n")
    with pytest.raises(BrokenFile, match=r"results.csv was changed"):
        api.attack(run, "prototype_leakage")


def test_which_attacks_are_planned_and_which_do_not_fit(runs):
    assert {c.name for c in choices.planned(again(runs["fedgn"]))} >= {
        "prototype_leakage",
        "gradient_inversion",
    }
    planned = choices.planned(again(runs["fedgn"]))
    fitting = choices.Fits().fitting(runs["fedgn"])
    assert fitting == [(c.name, c.apart()) for c in planned]
    assert (
        "gradient_inversion",
        {"attacker": "naive", "labels": "given", "source": "single", "prior": "none"},
    ) in fitting
    assert ("prototype_averaging", {"window": 20}) in fitting
    assert set(choices.Fits().unfit(runs["fedgn"])) >= {"distance_correlation", "decoder"}
    # Of each setting: it is not the labels alone that are lacking.
    told = choices.Fits().unfit(runs["fedgn"])["label_inference"]
    assert told.startswith("clients send the server no labels; the network does not end in")
    assert ("distance_correlation", {}) in choices.Fits().fitting(runs["features"])
    assert "decoder" in dict(choices.Fits().fitting(runs["flea"]))
    assert "prototype_leakage" in choices.Fits().unfit(runs["features"])


def test_a_planned_attack_that_does_not_fit_is_not_called_fitting(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    write_sealed(
        run.path / "run.json",
        {
            **run.meta,
            "spec": {**run.spec, "attacks": [{"name": "distance_correlation", "params": {}}]},
        },
    )
    assert [c.name for c in choices.planned(again(run))] == ["distance_correlation"]
    assert choices.Fits().fitting(load(run.path)) == []


def test_the_attacks_own_dice_depend_on_its_seed_round_and_role_only(runs):
    class Dice(Attack):
        about = "throws dice"

        @property
        def threat(self):
            return build("prototype_leakage").threat

        def run(self, view, rng):
            return [Guess("client/0", view.round, {"x": torch.rand(3, generator=rng)})]

        blind = run

    def thrown(run="fedgn", seed=0, at=5, **kept):
        dice = Dice(seed=seed)
        return dice(View(dice.threat, again(runs[run]), at), **kept)[0].tensors["x"]

    assert torch.equal(thrown(), thrown("other"))
    for other in (thrown(seed=1), thrown(at=6), thrown(blind=True)):
        assert not torch.equal(thrown(), other)


def test_calling_an_attack_cannot_be_overridden():
    assert getattr(Attack.__call__, "__final__", False)


def test_a_method_error_says_which_units_the_control_lacks(runs, tmp_path):
    run = copied(runs["fedgn"], tmp_path)
    half = PLAIN.replace("]", " and (not view._control or m.sender != 'client/4')]")
    with (
        plugged("attacks", tmp_path, mine=source(half)),
        pytest.raises(MethodError, match="control has no guess for client/4 at round 1"),
    ):
        api.attack(run, "mine")


def test_units_and_results_are_those_of_the_attack_alone(runs, tmp_path):
    """A floor that covers more units than the attack does not add any."""
    run = copied(runs["fedgn"], tmp_path)
    with plugged(
        "attacks",
        tmp_path,
        mine=source(PLAIN.replace("]", " and m.sender in ('client/1', 'client/2')]")),
    ):
        folder = api.attack(run, "mine").path
        assert set(units(folder, "p_leak", "floor", 10)) == {"client/1", "client/2"}
        assert results(folder, "p_leak")["n"] == 2
