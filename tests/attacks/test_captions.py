"""What captions give away, against counts and likelihoods made by hand from a run's files; and the
gallery: every image once, in an order that tells nothing.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from helpers.caption_files import write_flickr8k
from helpers.small_runs import FEW_PROBES, Lazily, again, build, obstacle, results, units

from attacks.caption_words import topics_of
from leakbench import api
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import View
from leakbench.base import registry
from leakbench.federation import Examples, Net
from leakbench.federation.objective import fits_target
from leakbench.metrics import IMAGE_FOUND
from leakbench.scoring.truth import Answer, Truth

TASK = {"clients": 4, "width": 8, "vocabulary": 40, "least": 1, "length": 10, "evaluations": 10}
TASK |= {"model": "captioner", "weights": "", "frozen_encoder": False}
QUICK = {
    "examples": 1,
    "search_steps": 2,
    "identifier_epochs": 1,
    "tune_steps": 1,
    "hidden": 4,
    "fraction": 1.0,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """FedAA and FedAvg on a tiny Flickr8k."""
    out = tmp_path_factory.mktemp("runs")
    patch = pytest.MonkeyPatch()
    patch.setenv("LEAKBENCH_DATA", str(out / "data"))
    write_flickr8k(out / "data", images=60)

    def trained(method, **params):
        return api.train(
            method,
            task="flickr8k",
            task_params=TASK,
            rounds=2,
            out=out,
            record=FEW_PROBES,
            **params,
        )

    yield Lazily(
        fedaa=partial(trained, "fedaa", params=QUICK),
        fedavg=partial(trained, "fedavg", params={"fraction": 1.0}),
    )
    patch.undo()


def attacked(run, name, **params):
    return api.attack(run, name, **params).path


def unfit(run, name, **params):
    return obstacle(build(name, **params), again(run))


def captions_of(run, client):
    """All training captions of a client, (n, T), as the truth has them."""
    truth = Truth(run)
    rows = truth.data["rows"][client, : int(truth.data["counts"][client])]
    return truth.data["targets"][rows]


def test_the_gallery_is_every_image_once(runs):
    recording = again(runs["fedaa"])
    data = registry.load_plugin("tasks", "flickr8k").build(TASK, "task").load()
    gallery = recording.known("gallery")
    all_ = {x.numpy().tobytes() for x in data.train.stored}
    seen = [x.numpy().tobytes() for x in gallery.stored]
    assert len(seen) == len(set(seen)) == len(all_)
    assert set(seen) == all_
    assert len(data.train) == 5 * len(gallery)
    order = [x.numpy().tobytes() for x in data.train.stored[::5]]
    assert seen != order
    assert gallery.targets is None
    assert set(gallery.y.tolist()) == {0}


def test_look_alikes_are_of_the_topic_first_and_the_image_is_the_first(runs):
    run = runs["fedaa"]
    truth, gallery = Truth(run), again(run).known("gallery")
    data = registry.load_plugin("tasks", "flickr8k").build(TASK, "task").load()
    pairs = zip(data.train.stored, data.train.y, strict=True)
    topic = {x.numpy().tobytes(): int(y) for x, y in pairs}
    for client in range(4):
        answer = Answer(truth, client, 2)
        row = int(answer.examples[7])
        places = answer.look_alikes(row)
        assert len(set(places.tolist())) == len(places) == min(100, len(gallery))
        assert torch.equal(gallery.stored[places[0]], data.train.stored[row])
        found = [topic[gallery.stored[p].numpy().tobytes()] for p in places]
        same = [k == int(data.train.y[row]) for k in found]
        assert same == sorted(same, reverse=True)


@pytest.mark.parametrize("source", ["message", "update"])
def test_words_are_those_of_the_clients_captions(runs, source):
    run = runs["fedaa"]
    folder = attacked(run, "caption_words", source=source, common=0.3)
    assert results(folder, "word_precision")["value"] == 1
    aux = registry.load_plugin("tasks", "flickr8k").build(TASK, "task").load().aux.targets
    recalled = units(folder, "word_recall", round=2)
    assert len(recalled) == 4
    for unit, value in recalled.items():
        client = int(unit.split("/")[1])
        true = {t for t in captions_of(run, client).flatten().tolist() if t >= 4}
        rare = {t for t in true if float((aux == t).any(1).double().mean()) <= 0.3}
        if source == "message":
            told = [m for m in again(run).transcript if (m.kind, m.sender) == ("labels", unit)]
            sent = [m.payload for m in told]
            rare &= set(torch.cat(sent).flatten().tolist())
        assert value == pytest.approx(len(rare) / len(true))
    named = units(folder, "word_precision", "floor", 2)
    assert all(0 <= v <= 1 for v in named.values())


def test_topics_are_told_by_words():
    aux = Examples(
        torch.zeros(4, 1),
        torch.tensor([0, 0, 1, 1]),
        targets=torch.tensor([[1, 4, 5, 2], [1, 4, 6, 2], [1, 7, 5, 2], [1, 7, 8, 2]]),
    )
    said = torch.tensor([[1, 4, 8, 2], [1, 7, 5, 2], [1, 7, 6, 2], [1, 9, 4, 2]])
    assert topics_of(said[:1], aux, 3).argmax() in (0, 1)
    assert topics_of(said[1:3], aux, 3).tolist() == [0, 1, 0]
    assert topics_of(said[3:], aux, 3).tolist() == [1, 0, 0]


@pytest.mark.parametrize("model", ["client", "global"])
def test_images_are_ranked_by_how_well_the_caption_fits(runs, model):
    run = runs["fedaa"]
    attack = build("caption_reidentification", model=model)
    recording = again(run)
    view = View(attack.threat, recording, 2)
    guesses = {g.unit: g for g in attack(view)}
    assert len(guesses) == 4
    gallery = recording.known("gallery")
    for m in recording.transcript:
        if m.kind != "labels" or m.round != 2:
            continue
        opened = [e for e in recording.transcript if e.kind == "model" and e.round == 2]
        weights = dict(min(opened, key=lambda e: e.phase).payload)
        if model == "client":
            first = [
                e
                for e in recording.transcript
                if e.kind == "update" and e.round == 2 and e.sender == m.sender
            ]
            update = min(first, key=lambda e: e.phase).payload
            weights = {k: v + update[k] for k, v in weights.items()}
        net = Net(recording.module(), weights)
        by_hand = [-float(fits_target(net, x[None], m.payload)) for x in gallery.x]
        assert guesses[m.sender].tensors["likeness"].tolist() == pytest.approx(by_hand, abs=1e-5)


def test_the_control_finds_the_image_itself_and_the_floor_is_one_of_all(runs):
    run = runs["fedaa"]
    folder = attacked(run, "caption_reidentification", model="global")
    size = len(again(run).known("gallery"))
    row = results(folder, "image_found")
    assert row["control"] == 1
    assert row["floor"] == pytest.approx(1 / min(size, 100))
    assert row["n"] == 4


def test_scored_is_whether_the_image_is_first_among_its_look_alikes(runs):
    answer = Answer(Truth(runs["fedaa"]), 0, 2)
    places = answer.look_alikes(int(answer.rows("labels")[0]))
    likeness = torch.zeros(len(again(runs["fedaa"]).known("gallery")))
    for value, want in ((1.0, 1.0), (-1.0, 0.0), (0.0, 1 / len(places))):
        likeness[places[0]] = value
        [score] = IMAGE_FOUND.score(Guess("client/0", 2, {"likeness": likeness}), answer)
        assert score.value == want


def test_where_they_do_not_fit_they_say_so(runs, tmp_path):
    fedavg = runs["fedavg"]
    assert "labels" in unfit(fedavg, "caption_words", source="message")
    assert not unfit(fedavg, "caption_words", source="update")
    assert "labels" in unfit(fedavg, "caption_reidentification")
    fedaa = runs["fedaa"]
    assert "captions and no labels" in unfit(fedaa, "label_inference", source="message")
    assert unfit(fedaa, "label_inference", source="update")
    assert "says captions" in unfit(fedaa, "gradient_inversion")
    digits = api.train(
        "fedaa",
        task="digits",
        task_params={"model": "mlp", "width": 8, "dim": 8},
        params={**QUICK, "epochs": 1},
        rounds=1,
        out=tmp_path,
        device="cpu",
    )
    assert "no captions" in unfit(digits, "caption_words", source="message")
    assert "no captions" in unfit(digits, "caption_reidentification")


def test_a_run_is_reported(runs, tmp_path):
    run = runs["fedaa"]
    attacked(run, "caption_words", source="message", common=0.3)
    attacked(run, "caption_reidentification", model="global")
    attacked(run, "adversarial_examples")
    api.report([run.path], tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text()
    assert "BLEU-4" in page
    assert "in place of the image" in page  # the question of the topic
