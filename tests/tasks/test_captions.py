"""Captioning tasks from tiny files in the official layouts: topics, pairs, words, splits; and that
methods train captioners on them, alike in both engines, and FedAA shares the caption that it fits.
"""

from __future__ import annotations

import pytest
import torch
from helpers.caption_files import write_coco, write_flickr8k

from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.streams import shared
from leakbench.base.tree import row, stack
from leakbench.data import vocabulary
from leakbench.federation import Batch, Federation, Net
from leakbench.federation.objective import fits
from leakbench.models.networks import initialise
from leakbench.tasks.flickr8k import TOPICS, topic

TINY = {"clients": 4, "width": 8, "vocabulary": 40, "least": 1, "length": 10}
SCRATCH = {"model": "captioner", "weights": "", "frozen_encoder": False}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with both sets, tiny."""
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "data"))
    write_flickr8k(tmp_path / "data", images=60)
    write_coco(tmp_path / "data", train=40, val=30)
    return tmp_path / "data"


def flickr8k(**params):
    return registry.load_plugin("tasks", "flickr8k").build(
        {**TINY, **SCRATCH, **params}, "task flickr8k"
    )


def coco(**params):
    own = {**SCRATCH, "tested": 8}
    return registry.load_plugin("tasks", "coco-captions").build(
        {**TINY, **own, **params}, "task coco"
    )


def fedaa(task, **params):
    own = {"examples": 2, "search_steps": 2, "identifier_epochs": 1, "fraction": 1.0}
    params = {**task.defaults("fedaa"), **own, **params}
    return registry.load_plugin("defenses", "fedaa").build(params, "fedaa")


def test_topics_are_what_most_captions_speak_of():
    names = [*TOPICS, "people"]

    def said(*captions):
        return names[topic(captions)]

    assert said("a dog in snow", "a dog", "a dog runs") == "dog"
    assert said("a dog in snow", "a dog", "snow all around") == "snow"  # the first of two
    assert said("a dog", "a man", "a man") == "people"  # one caption is not enough
    assert said("a doghouse", "hotdogs") == "people"


@pytest.mark.parametrize("make", [flickr8k, coco])
def test_pairs_words_and_parts(place, make):
    task = make()
    data, known = task.load(), task.words()
    assert task.metric == "bleu4"
    for part in (data.train, data.test, data.aux):
        assert part.stored.dtype == torch.uint8
        assert part.stored.shape == (len(part), *task.shape)
        assert int(part.targets.max()) < len(known.words) <= 40
    assert data.train.targets.shape == (len(data.train), 10)
    assert data.test.targets.shape == (len(data.test), 5, 10)
    # Every image stands there once for each of its captions.
    images = {}
    for x, y, line in zip(data.train.stored, data.train.y, data.train.targets, strict=True):
        images.setdefault(x.numpy().tobytes(), []).append((int(y), known.text(line)))
    assert sum(map(len, images.values())) == len(data.train)
    assert data.unofficial
    starts = data.train.targets[:, 0]
    assert set(starts.tolist()) == {vocabulary.START}
    assert bool((data.train.targets == vocabulary.END).any(1).all())


@pytest.mark.parametrize("make", [flickr8k, coco])
def test_parts_share_no_image_and_clients_no_topic(place, make):
    task = make()
    data = task.load()
    train, test, aux = ({i.path for i in part.images} for part in task.parts())
    assert not train & test
    assert not train & aux
    assert not test & aux
    held = []
    for c in range(task.clients):
        rows = data.rows[c, : int(data.counts[c])]
        held.append((set(rows.tolist()), set(data.train.y[rows].tolist())))
    for kind in (0, 1):
        parts = [h[kind] for h in held]
        assert all(parts)
        assert len(set.union(*parts)) == sum(map(len, parts))
    assert set.union(*(h[0] for h in held)) == set(range(len(data.train)))
    again = make().load()
    assert torch.equal(again.train.stored, data.train.stored)
    assert torch.equal(again.rows, data.rows)


def test_coco_trains_on_images_of_one_category(place):
    train, test, aux = coco().parts()
    assert all(len(i.objects) == 1 for i in (*train.images, *aux.images))
    assert len(test.images) == 8
    assert {i.objects[0] for i, k in zip(train.images, train.topics, strict=True) if k == 0} == {
        "boat"
    }


def test_words_are_counted_in_training_captions_alone(place):
    task = flickr8k()
    train, _, _ = task.parts()
    said = {w for i in train.images for c in i.captions for w in vocabulary.words(c)}
    assert set(flickr8k(vocabulary=200).words().words[4:]) == said


def test_what_cannot_be_is_one_sentence(place):
    for wrong, why in (
        ({"clients": 30}, "use fewer clients"),
        ({"limit": 20}, "at least are needed"),
    ):
        with pytest.raises(UsageError, match=why):
            flickr8k(**wrong).load()
    with pytest.raises(UsageError, match="use fewer"):
        coco(tested=20).load()
    with pytest.raises(UsageError, match="there is no file"):
        coco(model="captioner_resnet50", weights="resnet50.safetensors").load()
    task = flickr8k(model="lenet")
    with pytest.raises(UsageError, match="expected one of captioner"):
        task.module(task.facts(fedaa(flickr8k())))
    flea = registry.load_plugin("defenses", "flea")()
    with pytest.raises(UsageError, match="trains on classes"):
        flickr8k().facts(flea)


METHODS = ("fedavg", "fedprox", "fedbn", "moon")


@pytest.mark.parametrize("name", METHODS)
def test_methods_train_captioners(place, name):
    task = flickr8k()
    method = registry.load_plugin("defenses", name).build(task.defaults(name), name)
    fed = Federation(method, task, task.load(), dtype=torch.float32)
    fed.begin()
    fed.step()
    first = float(fed.losses.mean())
    for _ in range(4):
        fed.step()
    assert float(fed.losses.mean()) < first


@pytest.mark.parametrize("name", ["fedavg", "fedbn"])
def test_one_step_is_the_same_in_both_engines(place, name):
    task = flickr8k()
    ends = []
    for engine in ("loop", "fused"):
        params = {"steps": 1, "epochs": 0, "batch": 4, "lr": 0.1}
        method = registry.load_plugin("defenses", name).build(params, name)
        fed = Federation(method, task, task.load(), engine=engine, dtype=torch.float64)
        fed.begin()
        fed.step()
        ends.append(fed.model)
        assert fed.phases["loss"] == engine
    assert all(torch.allclose(ends[0][k], ends[1][k], atol=1e-12) for k in ends[0])


def test_a_frozen_encoder_is_neither_trained_nor_sent(place):
    task = flickr8k(frozen_encoder=True)
    method = registry.load_plugin("defenses", "fedavg").build(task.defaults("fedavg"), "fedavg")
    fed = Federation(method, task, task.load(), dtype=torch.float32)
    before = dict(fed.model)
    fed.begin()
    fed.step()
    assert not [k for k in fed.received["update"] if k.startswith("encoder.")]
    assert all(torch.equal(fed.model[k], v) for k, v in before.items() if k.startswith("encoder."))


def test_fedaa_shares_the_caption_that_its_trained_model_fits_best(place):
    task = flickr8k()
    method, data = fedaa(task), task.load()
    fed = Federation(method, task, data, dtype=torch.float32)
    fed.begin()
    seen = {}

    class Seen(type(fed.recorder)):
        def up(self, fed, name, each, sent, draws):
            if "labels" in sent:
                seen["labels"], seen["local"] = sent["labels"], each["local"]
                seen["inputs"] = []
                now = fed.holdings(fed.chosen)
                for j, i in enumerate(fed.chosen.tolist()):
                    me = fed.runner.me(fed.t, row(now, j), fed.inbox, fed.data_of(i))
                    seen["inputs"].append(method.inputs(me))

    fed.recorder = Seen()
    fed.step()
    for c in range(task.clients):
        rows = data.rows[c, : int(data.counts[c])]
        batch = fed.data.train.batch(rows)
        net = Net(fed.module, {k: v[c] for k, v in seen["local"].items()})
        losses = [float(fits(net, _one(batch, i), fed.facts)) for i in range(len(rows))]
        best = losses.index(min(losses))
        assert seen["labels"][c].tolist() == [batch.targets[best].tolist()]
        assert torch.equal(seen["inputs"][c]["labels"][0], batch.x[best])
        assert torch.equal(seen["inputs"][c]["data"][0], batch.x[best])
    assert float(fed.losses.isfinite().all())


def _one(batch, i):
    return Batch(batch.x[i : i + 1], batch.y[i : i + 1], batch.targets[i : i + 1])


def test_undefended_fedaa_sends_the_image_behind_the_same_caption(place):
    task = flickr8k()
    sent = []
    for sends in ("names", "images"):
        method = fedaa(task, sends=sends, examples=1)
        fed = Federation(method, task, task.load(), dtype=torch.float32)
        fed.begin()
        fed.step()
        sent.append(fed.received)
    assert all(torch.equal(a, b) for a, b in zip(*(s["labels"] for s in sent), strict=True))
    assert "data" not in sent[0]
    assert sent[1]["data"][0].shape == (1, *task.shape)


def test_examples_of_all_clients_at_once_are_those_of_each(place):
    task = flickr8k()
    method = fedaa(task, search_steps=4)
    module = task.module(task.facts(method)).double().eval()
    models = [initialise(module, shared(k, "init")) for k in range(2)]
    targets = task.load().train.targets
    labels = torch.stack([targets[:1], targets[7:8]])
    noise = torch.randn(2, 2, *task.shape, generator=torch.Generator().manual_seed(0)).double()
    net = Net(module, {})
    together = method.made_together(net, stack(models), labels, noise)
    for k, batch in enumerate(together):
        alone = method.made(net, models[k], labels[k], noise[k])
        assert torch.equal(batch.y, alone.y)
        assert batch.y.shape == (2, 10)
        assert float((batch.x - alone.x).abs().max()) < 1e-8
        before = method.fits(net, noise[k], batch.y, weights=models[k]).mean()
        assert method.fits(net, batch.x, batch.y, weights=models[k]).mean() < before
