"""The context attack: samples go the victims' way, the marker is found where it is, and accuracy
counts clients evenly.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from helpers.small_runs import (
    FEATURES,
    FEW_PROBES,
    again,
    build,
    by_hand,
    copied,
    listed,
    obstacle,
    plugged,
    results,
    units,
)
from matplotlib.figure import Figure

from attacks import _classifiers
from attacks.context import Way
from leakbench import api
from leakbench.attacking import guessing
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import View
from leakbench.base.files import read_tree, write_tree
from leakbench.data.marker import paste
from leakbench.federation.input_range import UNIT
from leakbench.metrics.context import CONTEXT_ACCURACY, accuracies, scored
from leakbench.record.folders import load
from leakbench.reproduce import figures
from leakbench.reproduce.figure_data import context_curve
from leakbench.scoring import score as scoring
from leakbench.scoring.truth import Truth

SPLIT = {"split": "qua", "clients": 20, "context": "square"}
CHEAP = {"samples": 100, "draws": 3}


def run_of(out, method, *, params=None, task=SPLIT, rounds=2):
    return api.train(
        method,
        task_params=task,
        params={"epochs": 1, **(params or {})},
        rounds=rounds,
        out=out,
        device="cpu",
        record=FEW_PROBES,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Twenty clients with two digits each, ten of them with a square in every image."""
    out = tmp_path_factory.mktemp("runs")
    return {method: run_of(out, method) for method in ("flea", "fedmix", "feddata")}


@pytest.fixture(scope="module")
def folders(runs):
    return {method: api.attack(run, "context", **CHEAP).path for method, run in runs.items()}


def missing(folder):
    return {
        (m["metric"], m["reason"])
        for m in json.loads((folder / "attack.json").read_text(encoding="utf-8"))["missing"]
    }


def view_of(run, *, control=False, round=2):
    attack = build("context", **CHEAP)
    return attack, View(attack.threat, again(run), round, control=control)


def remarked(run, to, change):
    """The same run, of which another set of clients is said to carry the marker."""

    def rewrite(path):
        tree, meta = read_tree(path)
        write_tree(
            path,
            {**tree, "context": change(tree["context"].clone())},
            {k: v for k, v in meta.items() if k in ("task", "images")},
        )

    return Truth(listed(copied(run, to), truth__data=rewrite))


@pytest.mark.parametrize("method", ["feddata", "fedmix", "flea"])
def test_the_marker_is_found_in_what_is_shared_and_in_the_control(folders, method):
    row = results(folders[method], "context_accuracy")
    assert row["value"] > 0.95
    assert row["control"] > 0.95
    assert (row["floor"], row["floor_low"], row["floor_high"]) == (0.5, 0.5, 0.5)
    assert row["leaks"] == "up"
    needed = results(folders[method], "samples_to_90")
    assert 10 <= needed["value"] <= 30
    assert (needed["floor"], needed["n"], needed["failed"], needed["leaks"]) == (100, 3, 0, "down")


def test_the_linear_attacker_finds_it_too(runs):
    assert (
        results(
            api.attack(runs["flea"], "context", network="linear", **CHEAP).path, "context_accuracy"
        )["value"]
        > 0.9
    )


def test_where_the_marker_is_somewhere_else_accuracy_is_a_half(runs, folders, tmp_path):
    """Five of the ten marked clients are called clear and the reverse: a perfect attacker is right
    about every second client.
    """

    def other(marked):
        was, was_not = marked.nonzero().flatten()[:5], (~marked).nonzero().flatten()[:5]
        marked[was], marked[was_not] = False, True
        return marked

    run = copied(runs["fedmix"], tmp_path / "wrong")
    truth = remarked(runs["fedmix"], tmp_path / "other", other)
    folder = folders["fedmix"].name
    scoring.score(again(run), "context", build("context", **CHEAP), truth=truth)
    row = results(run.path / "attacks" / folder, "context_accuracy")
    assert row["value"] == pytest.approx(0.5)
    assert row["low"] < 0.5 < row["high"]
    assert any(
        m == "samples_to_90" and r.startswith(">100 in round 2")
        for m, r in missing(run.path / "attacks" / folder)
    )


def test_samples_go_the_victims_way_through_the_models_last_broadcast(runs):
    """The features that a client sent are its recorded inputs, passed through the
    attacker's Way.
    """
    attack, view = view_of(runs["flea"])
    message = attack._victims(view)[0]
    way = Way.of(view, message)
    client = Guess(message.sender, 2)
    true = Truth(runs["flea"]).answer(client).inputs("features")
    assert torch.allclose(
        way._passed(true.float()[:, None]), message.payload.flatten(1).float(), atol=1e-6
    )
    first = view.messages("model", sender="server", round=2)[0]
    assert first.phase < view.messages("model", sender="server", round=2)[-1].phase < message.phase
    aux = view.know("aux_data").x
    clear, marked = way.samples(aux, 4, "square", torch.Generator().manual_seed(0), UNIT)
    rows = torch.randperm(len(aux), generator=torch.Generator().manual_seed(0))[:4]
    assert torch.equal(clear, way._passed(aux[rows][:, None]))
    assert torch.equal(marked, way._passed(paste(aux[rows], "square")[:, None]))
    assert not torch.equal(clear, marked)


def test_in_the_control_samples_are_raw(runs):
    for method, shape in (("flea", 64), ("fedmix", 64)):
        attack, view = view_of(runs[method], control=True)
        way = Way.of(view, attack._victims(view)[0])
        aux = view.know("aux_data").x
        clear, _ = way.samples(aux, 5, "square", torch.Generator().manual_seed(0), UNIT)
        assert way.size == 1
        assert clear.shape == (5, shape)
        assert all(any(torch.equal(c, x) for x in aux.flatten(1).float()) for c in clear)


def test_a_mean_is_of_the_methods_number_of_examples_all_marked_or_all_clear(runs):
    attack, view = view_of(runs["fedmix"])
    way = Way.of(view, attack._victims(view)[0])
    aux = view.know("aux_data").x
    clear, marked = (
        v.view(7, 1, 8, 8).double()
        for v in way.samples(aux, 7, "square", torch.Generator().manual_seed(0), UNIT)
    )
    # A mean of marked images carries the whole marker.
    assert torch.allclose(marked, paste(clear, "square"))
    generator = torch.Generator().manual_seed(0)
    for one in clear:
        rows = torch.randperm(len(aux), generator=generator)[:10]
        assert torch.allclose(one, aux[rows].mean(0).double(), atol=1e-6)


def test_what_was_sent_once_is_attacked_at_the_end_and_features_at_the_stages_named(folders):
    stages = {
        m: sorted({(g.stage, g.guess.round) for g in guessing.saved(f)}) for m, f in folders.items()
    }
    assert stages == {
        "flea": [("final", 2), ("untrained", 1)],
        "fedmix": [("final", 2)],
        "feddata": [("final", 2)],
    }


def test_guesses_hold_scores_for_every_row_and_no_draw_depends_on_how_many_there_are(runs):
    attack, view = view_of(runs["flea"])
    three, two = attack(view), build("context", samples=100, draws=2)(view)
    assert [g.unit for g in three] == ["draw/0", "draw/1", "draw/2"]
    for a, b in zip(three, two, strict=False):
        assert all(torch.equal(a.tensors[k], b.tensors[k]) for k in a.tensors)
    rows = sum(len(m.payload) for m in view.messages("features", round=2) if m.sender != "server")
    t = three[0].tensors
    assert t["sizes"].tolist() == [10, 30, 100]
    assert (t["client"].shape, t["score"].shape, t["shuffled"].shape) == (
        (rows,),
        (3, rows),
        (rows,),
    )
    assert not torch.equal(three[0].tensors["score"], three[1].tensors["score"])
    assert len(set(t["client"].tolist())) == 10  # half of twenty take part in a round


@pytest.mark.parametrize(
    ("samples", "sizes"),
    [(3000, [10, 30, 100, 300, 600]), (100, [10, 30, 100]), (11, [10]), (250, [10, 30, 100, 250])],
)
def test_the_numbers_tried_end_with_the_auxiliary_data_or_what_is_asked(runs, samples, sizes):
    _, view = view_of(runs["fedmix"])
    assert build("context", samples=samples)._sizes(view) == sizes


def test_what_is_left_out_is_counted(runs, folders):
    """Ten of twenty clients are in a round; of these, as many marked as clear ones count."""
    lines = missing(folders["flea"])
    lost = "what they sent was made by another round's model, or is empty (stage final)"
    senders = {i for t, i, _ in again(runs["flea"]).traffic["features"].tolist() if i >= 0}
    assert (("all", f"{len(senders) - 10} of {len(senders)} clients: {lost}") in lines) == (
        len(senders) > 10
    )
    clusters = {u.split("/draw")[0] for u in units(folders["flea"], "context_accuracy", round=2)}
    left = [r for m, r in lines if m == "context_accuracy" and r.startswith("round 2:")]
    assert len(clusters) % 2 == 0
    assert bool(left) == (len(clusters) < 10)
    assert left in (
        [],
        [
            f"round 2: {10 - len(clusters)} of 10 clients are not counted: as many marked as clear"
            " ones are"
        ],
    )


def test_the_shuffled_control_stands_beside(folders):
    for folder in folders.values():
        beside = units(folder, "context_shuffled")
        assert set(beside) == set(units(folder, "context_accuracy"))
        assert sum(beside.values()) / len(beside) < 0.95


def test_obstacles_are_said_in_a_sentence(runs, tmp_path):
    plain = {k: v for k, v in SPLIT.items() if k != "context"}
    attack = build("context")
    clear = run_of(tmp_path, "flea", task=plain, rounds=1)
    assert (
        obstacle(attack, again(clear))
        == "its task plants no context marker to look for: train with -s task.context=square"
        " (of sensors: bump, of sound: whistle)"
    )
    silent = run_of(tmp_path, "fedavg", rounds=1)
    assert (
        obstacle(attack, again(silent)) == "clients send the server no data, mean_data or features"
    )
    with plugged("defenses", tmp_path, fedfeatures=FEATURES):
        unknown = run_of(tmp_path, "fedfeatures", rounds=1)
        assert (
            obstacle(attack, again(unknown))
            == "the method has no field `layer`, so how its features are made is not known"
        )
    assert not obstacle(attack, again(runs["flea"]))


def test_a_draw_without_its_model_fails_with_the_reason_and_scores_the_floor(runs, tmp_path):
    run = copied(runs["flea"], tmp_path)
    recording = again(run)
    recording.__dict__["transcript"] = [m for m in recording.transcript if m.kind != "model"]
    attack = build("context", at=["final"], **CHEAP)
    view = View(attack.threat, recording, 2)
    found = attack(view)
    assert {g.failed for g in found} == {
        "the model that made the features was not recorded in their round"
    }
    blind = attack(view, blind=True)
    folder = by_hand(again(run), "context", attack, found, blind, blind)
    scoring.score(again(run), "context", attack)
    row = results(folder, "context_accuracy")
    assert (row["value"], row["failed"]) == (0.5, row["n"])
    assert any(r.startswith(">100") for m, r in missing(folder) if m == "samples_to_90")


def test_a_client_that_sent_an_empty_message_is_no_unit(runs):
    attack, view = view_of(runs["feddata"])
    message = view.messages("data")[0]
    empty = type(message)(*message.name[:5], message.payload[:0])
    view._hold([*(m for m in view._seen if m is not message), empty])
    assert int(message.sender.split("/")[1]) not in attack(view)[0].tensors["client"].tolist()


# by hand ------------------------------------------------------------------------------------------
def hand(run, clients, right, sizes=(10, 30, 100), unit="draw/0"):
    """A guess with two rows of each client; ``right`` (G,): {client: how many of its rows are told
    right}.
    """
    marked = Truth(run).data["context"]
    client = torch.tensor([i for i in clients for _ in range(2)])
    score = torch.zeros(len(sizes), len(client))
    for g, told in enumerate(right):
        for place, i in enumerate(client.tolist()):
            says = bool(marked[i]) == (place % 2 < told.get(i, 0))
            score[g, place] = 1.0 if says else -1.0
    return Guess(
        unit,
        2,
        {"sizes": torch.tensor(sizes), "client": client, "score": score, "shuffled": score[0]},
    )


def kinds(run):
    marked = Truth(run).data["context"]
    return marked.nonzero().flatten().tolist(), (~marked).nonzero().flatten().tolist()


def test_balanced_accuracy_by_hand(runs):
    """Two marked clients told 2 and 1 of 2, two clear ones 2 and 0 of 2: (1 + 0.5 + 1 + 0) / 4."""
    (m, c), run = kinds(runs["fedmix"]), runs["fedmix"]
    told = {m[0]: 2, m[1]: 1, c[0]: 2, c[1]: 0}
    guess = hand(run, [m[0], m[1], c[0], c[1]], [{}, {}, told])
    answer = Truth(run).answer(guess)
    scores = {s.unit: (s.cluster, s.value) for s in CONTEXT_ACCURACY.score(guess, answer)}
    assert scores == {f"client/{i}/draw/0": (f"client/{i}", told[i] / 2) for i in told}
    assert accuracies(guess, answer) == [0, 0, pytest.approx(0.625)]


def test_of_the_more_frequent_kind_only_as_many_count_and_not_by_how_they_are_told(runs):
    (m, c), run = kinds(runs["fedmix"]), runs["fedmix"]
    some = [m[0], m[1], *c[:5]]
    found = {
        tuple(scored(g, Truth(run).answer(g)))
        for g in (hand(run, some, [{}]), hand(run, some[::-1], [dict.fromkeys(some, 2)]))
    }
    (counted,) = found
    assert len(counted) == 4
    assert set(m[:2]) < set(counted)
    # Everything is called marked: right about the marked alone.
    one = hand(run, some, [dict.fromkeys(m, 2)], sizes=(10,))
    assert accuracies(one, Truth(run).answer(one)) == [0.5]


def test_one_kind_alone_is_not_measured(runs, tmp_path):
    (m, _), run = kinds(runs["fedmix"]), copied(runs["fedmix"], tmp_path)
    attack, guesses = build("context", **CHEAP), [hand(run, m[:3], [{}] * 3)]
    folder = by_hand(again(run), "context", attack, guesses, guesses)
    scoring.score(again(run), "context", attack)
    assert not api.Results(folder).rows
    why = "round 2: of the 3 clients whose messages are attacked none is clear."
    assert {("context_accuracy", why), ("samples_to_90", why)} <= missing(folder)


@pytest.mark.parametrize(
    ("reached", "value", "failed"),
    [
        ([10, 30, 100, 30], 42.5, 0),
        ([10, 30, 100, None], 60.0, 1),
        ([10, 30, None, None], 60.0, 2),
        ([10, None, None, None], None, 3),
    ],
)
def test_samples_to_90_by_hand(runs, tmp_path, reached, value, failed):
    """None: a draw that never gets there scores the most that was tried, 100, and is counted as
    failed.
    """
    (m, c), run = kinds(runs["fedmix"]), copied(runs["fedmix"], tmp_path)
    some = [*m[:5], *c[:5]]
    nearly, nine = (
        dict.fromkeys(some, 2) | {m[0]: 1, c[0]: 0, c[1]: 1},
        dict.fromkeys(some, 2) | {m[0]: 0},
    )
    sizes = (10, 30, 100)
    guesses = [
        hand(
            run,
            some,
            [nine if n is not None and s >= n else nearly for s in sizes],
            sizes,
            f"draw/{k}",
        )
        for k, n in enumerate(reached)
    ]
    attack = build("context", **CHEAP)
    folder = by_hand(again(run), "context", attack, guesses, guesses)
    scoring.score(again(run), "context", attack)
    lines = {r for m, r in missing(folder) if m == "samples_to_90"}
    if value is None:
        assert lines == {
            ">100 in round 2: 3 of 4 draws of the attacker's samples did not reach accuracy 0.90"
            " with 100"
        }
        assert [r["metric"] for r in api.Results(folder).rows] == ["context_accuracy"]
        return
    row = results(folder, "samples_to_90")
    assert (row["value"], row["n"], row["failed"], row["unit"]) == (value, 4, failed, "draw")
    assert (row["floor"], row["floor_low"], row["floor_high"]) == (100, 100, 100)
    assert ("failed_units" in row["flags"]) == bool(failed)
    assert bool(lines) == bool(failed)


# classifiers --------------------------------------------------------------------------------------
def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fit(clear, marked, network, seed=0, **more):
    return _classifiers.fit(clear, marked, network, torch.Generator().manual_seed(seed), **more)


def test_four_linear_layers_are_one_affine_map_and_the_relu_attacker_sees_more():
    """The marker triples the numbers: their mean stays, so that no linear map can tell, but their
    size can.
    """
    clear = normal(0, 400, 6)
    test = normal(1, 300, 6)
    told = {n: fit(clear, 3 * clear, n) for n in ("linear", "relu")}
    share = {
        n: float(
            ((c.score(3 * test) > 0).double().mean() + (c.score(test) <= 0).double().mean()) / 2
        )
        for n, c in told.items()
    }
    assert share["linear"] < 0.65
    assert share["relu"] > 0.85
    assert told["relu"].right > 0.85
    a, b = normal(2, 1, 6), normal(3, 1, 6)
    assert torch.allclose(
        told["linear"].score((a + b) / 2),
        (told["linear"].score(a) + told["linear"].score(b)) / 2,
        atol=1e-5,
    )
    assert not torch.allclose(
        told["relu"].score((a + b) / 2),
        (told["relu"].score(a) + told["relu"].score(b)) / 2,
        atol=1e-2,
    )


def test_the_filter_is_the_ridge_whitened_mean_difference():
    """Against the d x d formula, for more pairs than numbers and for fewer."""
    for m, d in ((40, 5), (6, 30)):
        clear = normal(0, m, d) * torch.linspace(0.5, 2, d)
        marked = clear + 1 + 0.1 * normal(1, m, d)
        pairs = _classifiers.SamplePairs(clear, marked, clear[:2], marked[:2])
        score = _classifiers._filter(pairs)
        direction = score(torch.eye(d)) - score(torch.zeros(1, d))
        middle = ((clear + marked) / 2).double()
        s = torch.cov(middle.T, correction=0)
        shift = (marked - clear).double().mean(0)
        eye = torch.eye(d).double()
        near = [torch.linalg.solve(s + r * s.trace() * eye, shift) for r in _classifiers.RIDGES]
        assert (
            max(float(torch.cosine_similarity(direction.double(), w, dim=0)) for w in near)
            > 1 - 1e-4
        )
        assert float(score(torch.cat([clear, marked])).mean()) == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("network", ["linear", "relu"])
def test_with_shuffled_labels_nothing_is_learnt(network):
    """Over eight draws the marker is told as a coin would; with its labels it mostly is."""
    shares = {True: [], False: []}
    for shuffled in shares:
        for seed in range(8):
            clear, test = normal(seed, 30, 8), normal(1000 + seed, 50, 8)
            marker = torch.tensor([2.0, 0, 0, 0, 0, 0, 0, 0])
            score = fit(clear, clear + marker, network, seed, shuffled=shuffled).score
            shares[shuffled].append(
                float(
                    (
                        (score(test + marker) > 0).double().mean()
                        + (score(test) <= 0).double().mean()
                    )
                    / 2
                )
            )
    assert abs(sum(shares[True]) / 8 - 0.5) < 0.12
    assert sum(shares[False]) / 8 > 0.75


def test_two_pairs_are_enough_to_train_on_and_global_dice_are_left_alone():
    before = torch.random.get_rng_state()
    for network in ("linear", "relu"):
        assert bool(
            fit(normal(0, 2, 4), normal(1, 2, 4), network).score(normal(2, 3, 4)).isfinite().all()
        )
        constant = torch.ones(5, 4)
        assert bool(fit(constant, constant, network).score(constant).isfinite().all())
    assert torch.equal(before, torch.random.get_rng_state())


# the figure ---------------------------------------------------------------------------------------
def curve(run, folder):
    there = load(run.path)
    return context_curve(there, there.attack(folder.name))


def test_the_curve_ends_in_the_row_of_the_table(runs, folders):
    curves = {}
    for method in runs:
        curves[method] = curve(runs[method], folders[method])
        row = results(folders[method], "context_accuracy")
        last = curves[method][-1]
        assert (last.value, last.low, last.high, last.n) == (
            row["value"],
            row["low"],
            row["high"],
            row["n"],
        )
        assert [p.samples for p in curves[method]] == [10, 30, 100]
    axes = Figure().subplots()
    for place, (method, run) in enumerate(runs.items()):
        figures._against_samples(axes, (method, place, SimpleNamespace(runs=[load(run.path)])))
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert drawn == {m: [[p.samples, p.value] for p in c] for m, c in curves.items()}
    assert len(axes.collections) == len(runs)  # a band each
