"""CCVR, FedGen, FedProto and FedPCL against their equations, written down a second time."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch
from helpers.federations import digits, method, run
from helpers.small_runs import again, build, obstacle, trained

from defenses import _generator
from defenses._class_prototypes import bank, class_means
from defenses.ccvr import gaussian
from leakbench import api
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.streams import shared
from leakbench.base.tree import row
from leakbench.federation import Batch, Facts, Federation
from leakbench.federation.evaluate import utility_scores
from leakbench.models.stages import Stages

SPLIT = {"split": "qua", "split_param": 3.0, "clients": 10, "model": "mlp", "width": 8, "dim": 8}


def split_digits():
    return registry.load_plugin("tasks", "digits").build(SPLIT, "task digits")


def made(name, **params):
    task = split_digits()
    cls = registry.load_plugin("defenses", name)
    defense = cls.build({**task.defaults(name), **params}, f"defense {name}")
    return Federation(defense, task, task.load(), seed=1, dtype=torch.float64)


def client(fed, i):
    return fed.outside(row(fed.tables(), i))


# CCVR ---------------------------------------------------------------------------------------------
def test_ccvr_changes_the_last_stage_alone_and_after_the_last_round():
    plain, ours = (run(made(n, fraction=0.5), 3) for n in ("fedavg", "ccvr"))
    for name, value in ours.model.items():
        same = torch.equal(value, plain.model[name])
        assert same is not name.startswith("head."), name


def test_ccvrs_features_are_those_before_the_classifier_and_fit_it_better():
    fed = made("ccvr", fraction=1.0, share=1.0)
    fed.begin()
    for _ in range(2):
        fed.step()
    before = dict(fed.model)
    fed.end()
    f, y = fed.received["features"], fed.received["labels"]
    for i, rows in enumerate(f):
        batch = fed.data_of(i)()

        def loss(model, rows=rows, y=y[i]):
            logits = rows @ model["head.weight"].T + model["head.bias"]
            return torch.nn.functional.cross_entropy(logits, y)

        assert sorted(y[i].tolist()) == sorted(batch.y.tolist())
        through = torch.func.functional_call(fed.module, before, (batch.x,), {"stop": "second"})
        assert torch.allclose(rows.sort(0).values, through.sort(0).values)
    every, labels = torch.cat(list(f)), torch.cat(list(y))

    def value(model):
        logits = every @ model["head.weight"].T + model["head.bias"]
        return torch.nn.functional.cross_entropy(logits, labels).item()

    assert value(fed.model) < value(before) - 0.05


def test_ccvrs_features_are_attacked_where_they_are_sent(tmp_path):
    found = trained(tmp_path, "ccvr", rounds=10)
    rows = api.attack(found, "decoder", network="linear").rows
    assert {r["stage"] for r in rows} == {"after"}


def test_ccvrs_statistics_are_each_classs_and_are_put_together_as_those_of_all_examples():
    """Luo et al., Eq. 3 and 4: as if the server had everybody's features."""
    fed = made("ccvr", fraction=1.0, shares="statistics", calibration_epochs=0)
    run(fed, 1)
    sent = fed.received
    through, labels = [], []
    for i in range(fed.facts.clients):
        batch = fed.data_of(i)()
        f = torch.func.functional_call(fed.module, fed.model, (batch.x,), {"stop": "second"})
        for j, k in enumerate(sent["labels"][i].tolist()):
            mine = f[batch.y == k]
            assert torch.allclose(sent["features"][i][j], mine.mean(0))
            spread = mine.T.cov() if len(mine) > 1 else torch.zeros(f.shape[1]).double()
            assert torch.allclose(sent["statistics"]["covariance"][i][j], spread)
            assert sent["statistics"]["count"][i][j] == len(mine)
        through.append(f)
        labels.append(batch.y)
    means, y = torch.cat(list(sent["features"])), torch.cat(list(sent["labels"]))
    told = [torch.cat(list(sent["statistics"][k])) for k in ("covariance", "count")]
    every, whose = torch.cat(through), torch.cat(labels)
    for k in range(10):
        mean, spread = gaussian(means[y == k], *(v[y == k] for v in told))
        assert torch.allclose(mean, every[whose == k].mean(0))
        assert torch.allclose(spread, every[whose == k].T.cov())


def test_ccvrs_draws_have_the_gaussians_moments_and_calibrate(tmp_path):
    fed = made("ccvr", fraction=1.0, shares="statistics", virtual=40_000, calibration_epochs=0)
    run(fed, 2)
    means, y = (torch.cat(list(fed.received[k])) for k in ("features", "labels"))
    told = [torch.cat(list(fed.received["statistics"][k])) for k in ("covariance", "count")]
    server = SimpleNamespace(inbox=fed.received, rng=shared(0, "test", torch.float64))
    f, of = fed.method._drawn(server, means, y)
    for k in range(10):
        mean, spread = gaussian(means[y == k], *(v[y == k] for v in told))
        near = spread.diagonal().mean().sqrt()
        assert float((f[of == k].mean(0) - mean).abs().max() / near) < 0.1
        assert float((f[of == k].T.cov() - spread).abs().max() / near**2) < 0.2
    plain, ours = (
        run(made("ccvr", fraction=1.0, shares="statistics", calibration_epochs=n), 4)
        for n in (0, 20)
    )
    scores = [float(utility_scores(fed).mean()) for fed in (plain, ours)]
    assert scores[1] > scores[0] + 0.05


def test_attacks_on_single_features_do_not_fit_ccvrs_means(tmp_path):
    """A mean of several is no example; what reads means with covariances is named."""
    found = trained(tmp_path, "ccvr", rounds=10, params={"shares": "statistics"})
    assert found.meta["hides"] is True
    with pytest.raises(UsageError, match="see statistics_inversion"):
        api.attack(found, "decoder", network="linear")


# FedGen -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 128, 3)])
def test_the_generator_makes_inputs_of_the_tasks_shape(shape):
    facts = Facts(clients=2, classes=4, dim=4, shape=shape)
    weights = _generator.start(shared(0, "test", torch.float64), facts, 5, 16)
    labels = torch.eye(4, dtype=torch.float64)
    x = _generator.made(weights, labels, torch.zeros(4, 5, dtype=torch.float64), facts)
    assert x.shape == (4, *shape)
    assert 0 <= x.min() <= x.max() <= 1
    assert sum(k.startswith("w") for k in weights) == 5  # a linear layer and four convolutions
    other = _generator.made(
        weights, labels.roll(1, 0), torch.zeros_like(labels[:, :1]).expand(4, 5), facts
    )
    assert not torch.allclose(x, other)


def test_fedgen_is_fedavg_until_it_begins():
    plain, ours = (
        run(made("fedavg", fraction=0.5), 2),
        run(made("fedgen", fraction=0.5, begin=2), 2),
    )
    assert all(torch.equal(ours.model[k], plain.model[k]) for k in plain.model)
    later = run(made("fedgen", fraction=0.5, begin=1), 2)
    assert any(not torch.equal(later.model[k], plain.model[k]) for k in plain.model)


def normed(name, rounds, **more):
    """The model of a method on a network with BatchNorm, its buffers too."""

    class Normed(registry.load_plugin("defenses", name)):
        def module(self, module, facts):
            nn = torch.nn
            body = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Tanh())
            return Stages({"body": body, "head": nn.Linear(8, facts.dim)})

    task = split_digits()
    given = {**task.defaults(name), "fraction": 0.5, "batch": 500, **more}
    method = Normed.build(given, f"defense {name}")
    return run(Federation(method, task, task.load(), seed=1, dtype=torch.float64), rounds).model


def test_generated_inputs_move_no_running_statistics():
    """What they weigh nothing for is FedAvg's model whole, its BatchNorm's buffers too."""
    plain = normed("fedavg", 3)
    ours = normed("fedgen", 3, begin=0, weight=0.0, generator_steps=1)
    assert any("running_mean" in k for k in plain)
    assert all(torch.allclose(ours[k], plain[k], atol=1e-12) for k in plain)


def test_fedaas_second_look_at_a_batch_moves_no_running_statistics():
    """Eq. 7 passes it again for the identifier: that weighs nothing, so nothing may differ."""
    small = {"examples": 2, "hidden": 4, "epochs": 1, "eta3": 0.0}
    plain, ours = (normed("fedaa", 2, identifier=i, **small) for i in (False, True))
    assert any("running_mean" in k for k in plain)
    assert all(torch.allclose(ours[k], plain[k], atol=1e-9) for k in plain)


def test_the_generator_learns_to_be_taken_for_its_labels():
    def fit(steps):
        fed = run(
            made("fedgen", begin=1, generator_steps=steps, generator_lr=0.01, diversity=0.0), 4
        )
        server, facts = fed.state["generator"], fed.facts
        y = torch.arange(200) % facts.classes
        labels = torch.nn.functional.one_hot(y, facts.classes).double()
        z = shared(3, "test", torch.float64).normal("z", 200, 64)
        x = _generator.made(server, labels, z, facts)
        out = torch.func.functional_call(fed.module, fed.model, (x,))
        return torch.nn.functional.cross_entropy(out, y).item()

    assert fit(60) < fit(0) - 0.1


def test_counts_are_read_as_counts(tmp_path):
    found = trained(tmp_path, "fedgen", rounds=4, params={"begin": 3})
    rows = api.attack(found, "label_inference", source="message").rows
    assert {r["value"] for r in rows if r["metric"] == "label_overlap"} == {1.0}


# Prototypes of classes ----------------------------------------------------------------------------
def test_means_of_classes():
    x, y = torch.arange(8.0).reshape(4, 2), torch.tensor([3, 1, 3, 1])
    assert class_means(x, y).tolist() == [[4.0, 5.0], [2.0, 3.0]]
    means, known = bank(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 2]), 4)
    assert means.flatten().tolist() == [2.0, 0.0, 5.0, 0.0]
    assert known.tolist() == [True, False, True, False]


def test_fedproto_sends_no_model_and_the_means_of_its_features():
    fed = made("fedproto", lam=0.5, fraction=1.0)
    fed.begin()
    fed.step()
    assert fed.model == {}
    assert "update" not in fed.received
    for i, (f, y) in enumerate(zip(fed.received["features"], fed.received["labels"], strict=True)):
        me, data = client(fed, i), fed.data_of(i)()
        for mean, label in zip(f, y.tolist(), strict=True):
            mine = me.net.features(data.x[data.y == label]).mean(0)
            assert torch.allclose(mean, mine, atol=1e-12)
        assert y.tolist() == sorted(set(data.y.tolist()))


@pytest.mark.parametrize("name", ["fedproto", "fedpcl"])
def test_where_no_extractor_is_known_that_nobody_tried_is_said(tmp_path, name):
    found = trained(tmp_path, name)
    for attack in ("decoder", "feature_inversion"):
        assert "no attack here learns one" in obstacle(build(attack), again(found))


def test_fedprotos_loss_is_equation_7_and_its_answer_the_nearest_prototype():
    fed = run(made("fedproto", lam=0.5, fraction=1.0), 2)
    me, data = client(fed, 0), fed.data_of(0)()
    batch = Batch(data.x[:6], data.y[:6])
    f, c = me.net.features(batch.x), me.state["prototypes"]
    pull = torch.stack([(f[i] - c[y]).square().mean() for i, y in enumerate(batch.y.tolist())])
    by_hand = torch.nn.functional.cross_entropy(me.net(batch.x), batch.y) + 0.5 * pull.mean()
    assert torch.allclose(fed.method.loss(me.net, batch, me), by_hand)
    told = fed.method.predict(me.net, batch.x, me).argmax(1)
    assert told.tolist() == torch.cdist(f, c).argmin(1).tolist()


def test_the_global_prototype_is_the_mean_over_those_who_have_the_class():
    fed = made("fedproto", fraction=1.0)
    fed.begin()
    fed.step()
    pairs = [(f, y) for f, y in zip(fed.received["features"], fed.received["labels"], strict=True)]
    fed.step()
    sent = fed.inbox["prototype"]
    for label in range(10):
        own = [f[y.tolist().index(label)] for f, y in pairs if label in y.tolist()]
        assert torch.allclose(sent["mean"][label], torch.stack(own).mean(0))


def test_fedpcls_loss_is_equations_6_to_8():
    fed = made("fedpcl", projection=5, temperature=0.3, fraction=1.0)
    fed.begin()
    fed.step()
    held = [len(y) for y in fed.received["labels"]]
    fed.t += 1
    fed._open()
    fed.server(fed.method.downlink)
    fed.clients(fed.method.prepare)
    me = fed.runner.me(fed.t, row(fed.holdings(fed.chosen), 0), fed.inbox)
    data = fed.data_of(0)()
    some = torch.cat([(data.y == k).nonzero()[:2, 0] for k in data.y.unique()])
    batch = Batch(data.x[some], data.y[some])
    r = torch.nn.functional.normalize(me.net(batch.x), dim=1)
    f, labels = me.inbox["features"], me.inbox["labels"].tolist()
    ends = torch.tensor(held).cumsum(0)
    starts = [0, *ends.tolist()]
    means, known = bank(f, torch.tensor(labels), 10)
    assert known.all()
    general, personal, many = [], [], set()
    for i, y in enumerate(batch.y.tolist()):
        general.append(-(r[i] @ means.T / 0.3).log_softmax(0)[y])
        each = []
        for begin, end in itertools.pairwise(starts):
            if y in labels[begin:end]:
                alike = (r[i] @ f[begin:end].T / 0.3).log_softmax(0)
                each.append(-alike[labels[begin:end].index(y)])
        personal.append(torch.stack(each).mean())  # Eq. 8 is a mean of means
        many.add(len(each))
    assert len(many) > 1  # else a mean over all pairs would be the same
    by_hand = torch.stack(general).mean() + torch.stack(personal).mean()
    assert torch.allclose(fed.method.loss(me.net, batch, me), by_hand)


def test_fedpcl_trains_the_projection_alone_and_keeps_it():
    fed = made("fedpcl", projection=5, fraction=1.0)
    before = dict(fed.model)
    assert not any(k.startswith("head") for k in before)
    run(fed, 2)
    assert all(torch.equal(fed.model[k], v) for k, v in before.items())
    heads = fed.columns["kept"]["head.weight"]
    assert not torch.equal(heads[0], heads[1])
    assert "update" not in fed.traffic.tensors() or not fed.received.get("update")


def test_fedpcl_projects_with_the_weights_that_everybody_was_sent_from_the_start():
    """Before round 1, too: a network's own numbers, whatever torch drew, are nobody's."""
    one, other = (made("fedpcl", projection=5, fraction=1.0) for _ in range(2))
    one.begin()
    other.begin()
    assert torch.equal(one.state["buffer"]["features"], other.state["buffer"]["features"])


def test_fedpcl_needs_a_linear_end():
    task = digits()
    defense = method("fedpcl")
    module = torch.nn.Sequential()
    module.add_module("all", torch.nn.ReLU())
    with pytest.raises(UsageError, match="linear last layer"):
        defense.module(module, task.facts(defense))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ccvr", "fedgen", "fedproto", "fedpcl"])
def test_they_learn(name):
    fed = run(made(name, **({"begin": 4} if name == "fedgen" else {})), 12)
    assert utility_scores(fed).mean() > 0.2  # chance: 0.1
