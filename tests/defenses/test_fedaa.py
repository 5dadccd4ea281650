"""FedAA, FedBN and MOON, each step against a few independent lines in float64."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from helpers.federations import digits, federation, gap, method, run, uneven
from helpers.small_runs import messages_in
from scipy.optimize import minimize
from torch import nn

from defenses import _identifier
from defenses._adversarial import search
from defenses.fedavg import FedAvg
from leakbench import UsageError
from leakbench.base import registry
from leakbench.base.files import read_tree
from leakbench.base.streams import Rng, shared
from leakbench.base.tree import flat, row, stack
from leakbench.federation.net import Net
from leakbench.federation.parties import Batch, Facts, Server
from leakbench.models.networks import initialise
from leakbench.models.stages import Stages
from leakbench.record.policy import Policy
from leakbench.record.recorder import Recorder

CLIENTS, CLASSES, SHAPE = 4, 3, (1, 2, 3)
FACTS = Facts(CLIENTS, CLASSES, CLASSES, SHAPE)
SMALL = {
    "examples": 2,
    "hidden": 5,
    "identifier_epochs": 3,
    "search_steps": 30,
    "tune_steps": 4,
    "tune_lr": 0.2,
    "batch": 500,
}


def rand(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng([seed, *shape]).normal(size=shape))


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def two_layers():
    """F = tanh(x A + a), T = h B + b, small enough to write down again in NumPy."""
    body = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Tanh())
    return Stages({"body": body, "head": nn.Linear(4, CLASSES)}).double().eval()


def weights_of(module, seed=0):
    return {k: rand(*v.shape, seed=seed) for k, v in module.named_parameters()}


def forward(w, x):
    """(features, logits) in NumPy."""
    w = {k: v.numpy() for k, v in w.items()}
    h = np.tanh(x.reshape(len(x), -1) @ w["body.1.weight"].T + w["body.1.bias"])
    return h, h @ w["head.weight"].T + w["head.bias"]


def cross_entropy(logits, y):
    return -np.log(softmax(logits)[np.arange(len(y)), y])


def server(defense, labels=None, share=None, *, images=None):
    """The server of a round in which all four clients sent their models; ``labels``: of each
    client.
    """
    module = two_layers()
    model = weights_of(module, seed=9)
    local = [weights_of(module, seed=k) for k in range(CLIENTS)]
    update = stack([{k: m[k] - model[k] for k in model} for m in local])
    everyone = torch.arange(CLIENTS)
    names = [torch.tensor(v) for v in labels or [[0], [1], [2], [0]]]
    inbox = {"update": update, "labels": names} | ({} if images is None else {"data": images})
    rng = Rng(3, "defense", torch.tensor(-1), torch.float64, round=1)
    weight = torch.as_tensor(
        share if share is not None else [1 / CLIENTS] * CLIENTS, dtype=torch.float64
    )
    return Server(1, FACTS, model, {}, everyone, rng, module, inbox, everyone, weight), local


def stepped(fed, rounds=1):
    """After so many rounds; the last one's messages are still there."""
    fed.begin()
    for _ in range(rounds):
        fed.step()
    return fed


# Eq. 4 --------------------------------------------------------------------------------------------
def test_eq4_search_finds_the_minimum_of_a_bowl():
    scale, middle = rand(5, 7).abs() + 0.1, rand(5, 7, seed=1)
    found = search(lambda x: (scale * (x - middle).square()).sum(1), rand(5, 7, seed=2), steps=100)
    assert torch.allclose(found, middle, atol=1e-3)


def test_eq4_the_objective_falls_to_what_another_lbfgs_reaches_and_the_label_is_reached():
    defense, module = method("fedaa", **{**SMALL, "sigma": 0.5, "examples": 6}), two_layers()
    w, noise, labels = weights_of(module), rand(12, *SHAPE), torch.tensor([1, 2])
    made = defense.made(Net(module, {}), w, labels, noise)
    y = np.repeat([1, 2], 6)
    assert made.y.tolist() == y.tolist()
    start = cross_entropy(forward(w, 0.5 * noise.numpy())[1], y)
    end = cross_entropy(forward(w, made.x.numpy())[1], y)
    other = minimize(
        lambda x: cross_entropy(forward(w, x.reshape(12, 6))[1], y).mean(),
        0.5 * noise.numpy().ravel(),
        method="L-BFGS-B",
    )
    assert end.mean() < 0.05 * start.mean()
    assert end.mean() < other.fun + 1e-2
    assert (forward(w, made.x.numpy())[1].argmax(1) == y).mean() == 1
    assert (forward(w, 0.5 * noise.numpy())[1].argmax(1) == y).mean() < 1


def test_eq4_search_never_ends_above_its_start():
    """A gradient that points the wrong way leads nowhere; neither does one that is not finite."""
    start = rand(3, 4)
    wrong = search(lambda x: (x.detach().square() * 2 - x.square()).sum(1), start, steps=5)
    broken = search(
        lambda x: (x.abs() * 0).sum(1) + (x - x.detach() + 0).sqrt().sum(1), start, steps=5
    )
    assert torch.equal(broken, start)
    assert float(wrong.square().sum()) <= float(start.square().sum())


def test_noise_of_sigma_is_where_the_search_starts():
    module, noise = two_layers(), rand(4, *SHAPE)
    w = weights_of(module)
    for sigma in (0.0, 0.5, 3.0):
        made = method("fedaa", **{**SMALL, "search_steps": 0, "clip": False, "sigma": sigma}).made(
            Net(module, {}), w, torch.tensor([0, 2]), noise
        )
        assert torch.equal(made.x, sigma * noise)


def test_examples_of_images_are_clipped_after_they_are_found():
    module, noise = two_layers(), rand(4, *SHAPE)
    w = weights_of(module)
    free, clipped = (
        method("fedaa", **SMALL, clip=c).made(Net(module, {}), w, torch.tensor([0, 2]), noise).x
        for c in (False, True)
    )
    assert float(free.min()) < 0 or float(free.max()) > 1
    assert torch.equal(free.clamp(0, 1), clipped)


# Eq. 5 --------------------------------------------------------------------------------------------
def test_eq5_is_gradient_descent_on_the_others_examples():
    defense, module = method("fedaa", **SMALL), two_layers()
    w, x, y = weights_of(module), rand(5, *SHAPE), torch.tensor([0, 1, 2, 2, 1])
    mine = {k: v.numpy().copy() for k, v in w.items()}
    flat_x, hot = x.numpy().reshape(5, 6), np.eye(CLASSES)[y]
    for _ in range(SMALL["tune_steps"]):
        h, z = forward({k: torch.as_tensor(v) for k, v in mine.items()}, flat_x)
        dz = (softmax(z) - hot) / 5
        dh = dz @ mine["head.weight"] * (1 - h**2)
        grads = {
            "head.weight": dz.T @ h,
            "head.bias": dz.sum(0),
            "body.1.weight": dh.T @ flat_x,
            "body.1.bias": dh.sum(0),
        }
        mine = {k: v - SMALL["tune_lr"] * grads[k] for k, v in mine.items()}
    tuned = defense.tuned(Net(module, {}), w, Batch(x, y))
    assert max(float((tuned[k] - torch.as_tensor(v)).abs().max()) for k, v in mine.items()) < 1e-12


@pytest.mark.parametrize("victim", range(CLIENTS))
def test_eq5_a_clients_own_examples_do_not_tune_it(victim):
    """With all weight on one client, the average is its tuned model: it moves when another's labels
    change, not when its own do.
    """
    defense = method("fedaa", **SMALL, identifier=False)

    def tuned(labels, whose):
        party, _ = server(defense, labels, np.eye(CLIENTS)[whose])
        defense.adapt(party)
        return torch.cat([v.flatten() for v in party.model.values()])

    before, other = [[0], [1], [2], [0]], (victim + 1) % CLIENTS
    after = copy.deepcopy(before)
    after[victim] = [(before[victim][0] + 1) % CLASSES]
    assert torch.equal(tuned(before, victim), tuned(after, victim))
    assert not torch.equal(tuned(before, other), tuned(after, other))


def test_average_is_weighted_and_without_tuning_it_is_that_of_the_local_models():
    share = [0.1, 0.2, 0.3, 0.4]
    plain = method("fedaa", **SMALL, identifier=False, fine_tune=False)
    party, local = server(plain, share=share)
    sent = plain.adapt(party)
    want = {k: sum(s * m[k] for s, m in zip(share, local, strict=True)) for k in local[0]}
    assert max(float((party.model[k] - v).abs().max()) for k, v in want.items()) < 1e-14
    assert sent.keys() == {"model"}


# Eq. 6 --------------------------------------------------------------------------------------------
def identifier(seed=0, many=2, inputs=4, hidden=5):
    shapes = {
        "w1": (inputs, hidden),
        "b1": (1, hidden),
        "w2": (hidden, hidden),
        "b2": (1, hidden),
        "w3": (hidden, 1),
        "b3": (1, 1),
    }
    return {k: rand(many, *s, seed=seed) for k, s in shapes.items()}


def answers(i, f):
    """I(f) in NumPy."""
    i = {k: np.asarray(v) for k, v in i.items()}
    h = np.maximum(f @ i["w1"] + i["b1"], 0)
    h = np.maximum(h @ i["w2"] + i["b2"], 0)
    return 1 / (1 + np.exp(-(h @ i["w3"] + i["b3"])[..., 0]))


def printed(i, f, own):
    """Eq. 6 as printed: two means, whatever their sizes."""
    p = answers(i, f)
    return -np.log(p[own]).mean() - np.log(1 - p[~own]).mean()


def test_eq6_value_and_gradient():
    ids, f, own = identifier(), rand(9, 4), torch.zeros(2, 9, dtype=torch.bool)
    own[0, :2] = own[1, 3:8] = True
    leaves = {k: v.clone().requires_grad_() for k, v in ids.items()}
    value = _identifier.loss(_identifier.logit(leaves, f), own)
    want = [printed(row(ids, k), f.numpy(), own[k].numpy()) for k in range(2)]
    assert value.tolist() == pytest.approx(want, rel=1e-13)
    grads = dict(zip(leaves, torch.autograd.grad(value.sum(), list(leaves.values())), strict=True))
    for name, grad in grads.items():
        place = (1, *(0 for _ in grad.shape[1:]))
        shifted = []
        for eps in (1e-6, -1e-6):
            moved = {k: v.clone() for k, v in ids.items()}
            moved[name][place] += eps
            shifted.append(printed(row(moved, 1), f.numpy(), own[1].numpy()))
        assert float(grad[place]) == pytest.approx((shifted[0] - shifted[1]) / 2e-6, abs=1e-5)


def test_algorithm2_is_adam_with_the_papers_betas_one_identifier_at_a_time():
    """Trained together they are what each is alone: the same steps by torch's Adam on a plain
    network.
    """
    parts, rng = (
        [rand(3, 4), rand(3, 4, seed=1), rand(3, 4, seed=2)],
        Rng(0, "defense", torch.tensor(-1), torch.float64),
    )
    start = identifier(many=3)
    out = _identifier.train(start, parts, rng, epochs=4, batch=100, lr=0.01)
    f = torch.cat(parts)
    for k in range(3):
        net = nn.Sequential(
            nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1)
        ).double()
        with torch.no_grad():
            for i, layer in enumerate((net[0], net[2], net[4]), 1):
                layer.weight.copy_(start[f"w{i}"][k].T)
                layer.bias.copy_(start[f"b{i}"][k][0])
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01, betas=(0.5, 0.9))
        target = torch.repeat_interleave(torch.eye(3, dtype=torch.float64)[k], 3)[:, None]
        balance = torch.where(target > 0, 1 / 3, 1 / 6)
        for _ in range(4):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(
                net(f), target, weight=balance, reduction="sum"
            ).backward()
            optimizer.step()
        for i, layer in enumerate((net[0], net[2], net[4]), 1):
            assert torch.allclose(out[f"w{i}"][k].T, layer.weight, atol=1e-10)
            assert torch.allclose(out[f"b{i}"][k][0], layer.bias, atol=1e-10)


def test_every_step_of_an_identifier_has_both_kinds_of_examples():
    rng, sizes = Rng(0, "defense", torch.tensor(-1), torch.float64), [7, 3, 12]
    seen = [list(_identifier._batches(sizes, rng, e, 5, torch.device("cpu"))) for e in range(2)]
    owner = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    for steps in seen:
        assert len(steps) == 3  # five steps of five would leave the second client out of some
        assert sorted(torch.cat(steps).tolist()) == list(range(22))
        assert all(set(owner[s].tolist()) == {0, 1, 2} for s in steps)
    assert not torch.equal(seen[0][0], seen[1][0])


# Eq. 7 --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("eta3", [0.0, 1.0, 2.5])
def test_eq7_value_and_which_part_moves_what(eta3):
    defense, module = method("fedaa", **SMALL, eta3=eta3), two_layers()
    w, x, y = (
        {k: v.requires_grad_() for k, v in weights_of(module).items()},
        rand(6, *SHAPE),
        torch.tensor([0, 1, 2, 2, 1, 0]),
    )
    ident = row(identifier(), 1)
    fed = federation(defense)
    me = fed.outside(row(fed.tables(), 0))
    me.inbox["identifier"] = ident
    value = defense.second_loss(Net(module, w), Batch(x, y), me)
    frozen = {k: v.detach() for k, v in w.items()}
    h, z = forward(frozen, x.numpy())
    want = cross_entropy(z, y.numpy()).mean() - eta3 * np.log(1 - answers(ident, h)).mean()
    assert float(value.detach()) == pytest.approx(want, rel=1e-13)
    del me.inbox["identifier"]
    alone = defense.second_loss(Net(module, w), Batch(x, y), me)  # Non-I
    assert float(alone.detach()) == pytest.approx(cross_entropy(z, y.numpy()).mean(), rel=1e-13)
    grads, without = (
        dict(zip(w, torch.autograd.grad(v, list(w.values())), strict=True)) for v in (value, alone)
    )
    # T does not see I.
    assert torch.allclose(grads["head.weight"], without["head.weight"], atol=1e-14)
    assert torch.allclose(grads["body.1.weight"], without["body.1.weight"], atol=1e-14) == (
        eta3 == 0
    )


# Algorithm 4 --------------------------------------------------------------------------------------
def by_hand(fed, defense):
    """A whole round in plain PyTorch: local training, examples, tuning, average, identifiers,
    second training, average.
    """
    data, share = fed.data, fed.data.counts.double() / fed.data.counts.sum()
    names = list(fed.model)
    draws = Rng(fed.seed, "defense", torch.tensor(-1), torch.float64, round=1)

    def loaded(weights):
        net = copy.deepcopy(fed.module)
        net.load_state_dict(weights)
        return net

    def trained(weights, k, epochs, ident=None):
        net, rows = loaded(weights), data.rows[k, : int(data.counts[k])]
        x, y = data.train.images(rows), data.train.y[rows]
        optimizer = torch.optim.SGD(net.parameters(), lr=defense.lr)
        for _ in range(epochs):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            if ident is not None:
                loss = (
                    loss
                    - torch.log(
                        1 - torch.sigmoid(_identifier.logit(ident, net.second(net.first(x))))
                    ).mean()
                )
            loss.backward()
            optimizer.step()
        return {k: v.detach() for k, v in net.state_dict().items()}

    def fits(net, y, x):
        return nn.functional.cross_entropy(net(x), y, reduction="none")

    def averaged(models):
        return {n: sum(s * m[n] for s, m in zip(share, models, strict=True)) for n in names}

    clients = range(fed.facts.clients)
    local = [trained(fed.model, k, defense.epochs) for k in clients]
    sets = []
    for k in clients:
        label = data.train.y[data.rows[k, :1]]
        noise = draws.normal(f"noise/{k}", defense.examples, *fed.facts.shape)
        y = label.expand(defense.examples)
        found = search(partial(fits, loaded(local[k]), y), noise, steps=defense.search_steps)
        sets.append((found.clamp(0, 1) if defense.clip else found, y))
    tuned = []
    for k in clients:
        net = loaded(local[k])
        x, y = (torch.cat([s[i] for j, s in enumerate(sets) if j != k]) for i in (0, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=defense.tune_lr)
        for _ in range(defense.tune_steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        tuned.append({k: v.detach() for k, v in net.state_dict().items()})
    average = averaged(tuned)
    net = loaded(average)
    features = [net.second(net.first(x)).detach() for x, _ in sets]
    starts = stack(
        [
            _identifier.start(draws, f"identifier/{k}", features[0].shape[1], defense.hidden)
            for k in clients
        ]
    )
    rates = {
        "epochs": defense.identifier_epochs,
        "batch": defense.batch,
        "lr": defense.identifier_lr,
    }
    made = _identifier.train(starts, features, draws, **rates)
    return averaged([trained(average, k, 1, row(made, k)) for k in clients])


@pytest.mark.parametrize(("local", "clip"), [("fedavg", False), ("fedprox", True)])
def test_algorithm4_a_round_in_its_order(local, clip):
    # More: rounding grows.
    defense = method(
        "fedaa", **{**SMALL, "search_steps": 8}, epochs=2, lr=0.3, local=local, mu=0.0, clip=clip
    )
    data = uneven(digits().load(), [104, 3, 50, 80, 20, 9, 60, 70, 30, 40])
    fed = federation(defense, data=data)
    fed.begin()
    want = by_hand(fed, defense)
    before = dict(fed.model)
    fed.step()
    assert max(float((fed.model[k] - want[k]).abs().max()) for k in want) < 1e-9
    assert max(float((fed.model[k] - before[k]).abs().max()) for k in want) > 1e-3


def test_messages_of_a_round_in_order_and_the_control_sends_the_images(tmp_path):
    defense = method("fedaa", **SMALL, epochs=1)
    fed = federation(defense)
    fed.recorder = Recorder(tmp_path, 10, Policy(probes=0))
    run(fed, 1)
    sent = [
        (m.phase, m.sender.split("/")[0], m.kind)
        for m in messages_in(tmp_path / "transcript")
        if m.round == 1
    ]
    order = list(dict.fromkeys(sent))
    assert [(s, k) for _, s, k in order] == [
        *[
            ("server", "model"),
            ("client", "count"),
            ("client", "update"),
            ("client", "labels"),
            ("server", "model"),
        ],
        *[("server", "identifier"), ("client", "count"), ("client", "update")],
    ]
    assert [p for p, *_ in order] == sorted(p for p, *_ in order)
    control = [m for m in messages_in(tmp_path / "control") if m.round == 1]
    assert {m.kind for m in control} == {"labels", "data"}
    truth = read_tree(tmp_path / "truth" / "round-000001.safetensors")[0]["client"]
    images = {m.sender.split("/")[1]: m.payload for m in control if m.kind == "data"}
    assert len(images) == 10
    for i, x in images.items():
        assert len(x) == SMALL["examples"]
        (found,) = [e["inputs"]["data"] for e in truth[i].values() if "inputs" in e]
        assert torch.equal(found, x)
        own = fed.data.train.images(fed.data.rows[int(i)])
        assert all(bool((own == one).flatten(1).all(1).any()) for one in x)


def test_images_in_place_of_names_stand_for_the_examples():
    """The strategy that the paper replaces: the server tunes on them as they are."""
    defense = method("fedaa", **SMALL, sends="images", identifier=False)
    images = [rand(2, *SHAPE, seed=k) for k in range(CLIENTS)]
    party, local = server(
        defense, [[0, 0], [1, 1], [2, 2], [0, 0]], np.eye(CLIENTS)[1], images=images
    )
    defense.adapt(party)
    others = Batch(torch.cat([images[k] for k in (0, 2, 3)]), torch.tensor([0, 0, 2, 2, 0, 0]))
    want = defense.tuned(Net(two_layers(), {}), local[1], others)
    assert max(float((party.model[k] - v).abs().max()) for k, v in want.items()) < 1e-14
    assert not defense.hides()
    assert method("fedaa").hides()


def test_a_client_with_several_labels_names_each_once_and_gets_examples_of_each():
    data = digits().load()
    rows = data.rows.clone()
    rows[0, :6] = torch.stack([data.rows[k, i] for i, k in enumerate((7, 7, 3, 7, 0, 7))])
    several = {"rows": rows, "client_class": data.client_class.index_fill(0, torch.tensor([0]), -1)}
    fed = federation(
        method("fedaa", **SMALL, epochs=1),
        data=replace(data, counts=data.counts.clamp(max=6), **several),
    )
    stepped(fed)
    (labels, *_), asked = fed.received["labels"], fed.method
    assert labels.tolist() == [0, 3, 7]
    undefended = asked.undefended().names(
        fed.runner.me(1, row(fed.holdings(fed.everyone), 0), fed.inbox, fed.data_of(0))
    )
    assert sorted(undefended["labels"].tolist()) == [0, 3, 7, 7]
    true = {
        one.numpy().tobytes(): int(y)
        for one, y in zip(
            fed.data.train.images(rows[0, :6]), fed.data.train.y[rows[0, :6]], strict=True
        )
    }
    assert [true[one.numpy().tobytes()] for one in undefended["data"]] == undefended[
        "labels"
    ].tolist()
    assert fed.received["labels"][1].tolist() == [1]
    assert fed.phases["names"] == "one by one"
    made = asked.made(Net(fed.module, fed.model), fed.model, labels, rand(6, 1, 8, 8))
    assert made.y.tolist() == [0, 0, 3, 3, 7, 7]


def test_a_round_with_one_client_is_refused_before_it_begins():
    with pytest.raises(UsageError, match="a fraction of at least two clients"):
        federation(method("fedaa", fraction=0.1))


# FedProx+AA, MOON+AA ------------------------------------------------------------------------------
def test_aa_takes_another_methods_loss():
    fed = federation("fedprox", mu=0.7)
    me = fed.outside(row(fed.tables(), 0))
    moved = {k: v + 0.1 for k, v in fed.model.items()}
    batch = Batch(rand(3, 1, 8, 8), torch.tensor([0, 1, 2]))
    prox = method("fedprox", mu=0.7).loss(Net(fed.module, moved), batch, me)
    assert float(
        method("fedaa", local="fedprox", mu=0.7).loss(Net(fed.module, moved), batch, me)
    ) == float(prox)
    assert float(method("fedaa").loss(Net(fed.module, moved), batch, me)) != float(prox)


def test_aa_on_moon_keeps_the_model_of_the_second_training():
    fed = run(federation(method("fedaa", **SMALL, epochs=1, local="moon", mu=1.0)), 1)
    before = {k: fed.columns["state"]["previous"][k].clone() for k in fed.model}
    moved = {k: v - fed.model[k] for k, v in before.items()}
    assert max(float(v.abs().max()) for v in moved.values()) > 0
    mean = {
        k: (fed.data.counts.double() / fed.data.counts.sum()) @ v.flatten(1)
        for k, v in before.items()
    }
    # Their average is the global model.
    assert max(float((mean[k] - fed.model[k].flatten()).abs().max()) for k in mean) < 1e-12


# FedBN --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("model", "norms"), [("cnn", 2), ("lenet", 2), ("mlp", 2), ("resnet8", 0)])
def test_fedbn_puts_normalisation_where_there_is_none(model, norms):
    task = registry.load_plugin("tasks", "digits").build(
        {"model": model, "width": 4}, "task digits"
    )
    facts = task.facts(method("fedbn"))
    bare, made = (
        sum(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in x.modules())
        for x in (task.module(facts), fitted(task))
    )
    assert (bare, made) == (0, norms)
    net = fitted(task).double().eval()
    net.load_state_dict(initialise(net, shared(0, "init")))
    assert net(rand(3, 1, 8, 8)).shape == (3, 10)


def fitted(task):
    defense = method("fedbn")
    return defense.module(task.module(task.facts(defense)), task.facts(defense))


def test_fedbn_is_fedavg_on_all_but_the_normalisation_which_never_leaves():
    defense = method("fedbn", steps=3, epochs=0, batch=8, lr=0.2)
    fed = stepped(federation(defense, data=uneven(digits().load(), range(20, 110, 9))), 2)
    kept = set(fed.columns["kept"])
    assert kept
    assert all(".1." in k for k in kept)
    assert not kept & set(fed.model)
    assert not any(set(flat(p)) & kept for p in (fed.inbox["model"], fed.received["update"]))
    each = fed.columns["kept"]
    assert all(
        float((v[0].double() - v[1].double()).abs().max()) > 0
        for k, v in each.items()
        if "num_batches" not in k
    )
    assert set(each[next(k for k in kept if "num_batches" in k)].tolist()) == {6}


def test_fedbn_is_evaluated_with_each_clients_own_layers():
    from leakbench.federation.evaluate import utility_scores

    fed = run(federation("fedbn", batch=32, lr=0.1), 3)
    test = fed.data.test
    right = []
    for i in range(fed.facts.clients):
        net = copy.deepcopy(fed.module).eval()
        net.load_state_dict({**fed.model, **row(fed.columns["kept"], i)})
        right.append((net(test.x).argmax(1) == test.y).double())
    assert torch.allclose(utility_scores(fed), torch.stack(right).mean(0))
    assert len({float(r.mean()) for r in right}) > 1


def test_with_nothing_private_it_is_fedavg_on_the_same_network():
    class Same(FedAvg):
        def module(self, module, facts):
            return method("fedbn").module(module, facts)

    how = {"average": "weighted", "steps": 0, "epochs": 2, "batch": 32, "lr": 0.1}
    fed, want = (
        run(federation(m), 2) for m in (method("fedbn", private=False, **how), Same(**how))
    )
    assert fed.columns["kept"] == {}
    assert any("running_mean" in k and float(v.abs().max()) > 0 for k, v in fed.model.items())
    assert gap(fed, want) == 0


def test_a_batch_of_one_takes_the_running_statistics():
    norm = (
        next(m for m in fitted(digits()).modules() if isinstance(m, nn.BatchNorm1d))
        .double()
        .train()
    )
    norm(rand(6, 8))
    mean, var = norm.running_mean.clone(), norm.running_var.clone()
    x = rand(1, 8, seed=4)
    assert torch.allclose(norm(x), (x - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias)
    assert torch.equal(norm.running_mean, mean)


# MOON ---------------------------------------------------------------------------------------------
def test_moon_loss_and_gradient():
    fed = federation("moon", mu=3.0, temperature=0.4)
    me = fed.outside(row(fed.tables(), 0))
    module = two_layers()
    local, received, previous = (weights_of(module, seed=s) for s in range(3))
    me.inbox["model"], me.state["previous"] = received, previous
    x, y = rand(5, *SHAPE), torch.tensor([0, 1, 2, 0, 1])
    leaves = {k: v.clone().requires_grad_() for k, v in local.items()}
    value = fed.method.loss(Net(module, leaves), Batch(x, y), me)

    def printed(w):
        h, z = forward(w, x.numpy())
        cos = [
            (h * g).sum(1) / np.linalg.norm(h, axis=1) / np.linalg.norm(g, axis=1)
            for g in (forward(v, x.numpy())[0] for v in (received, previous))
        ]
        a, b = np.exp(cos[0] / 0.4), np.exp(cos[1] / 0.4)
        return cross_entropy(z, y.numpy()).mean() + 3.0 * -np.log(a / (a + b)).mean()

    assert float(value.detach()) == pytest.approx(printed(local), rel=1e-12)
    grads = dict(zip(leaves, torch.autograd.grad(value, list(leaves.values())), strict=True))
    for name, grad in grads.items():
        place = tuple(0 for _ in grad.shape)
        shifted = []
        for eps in (1e-6, -1e-6):
            moved = {k: v.clone() for k, v in local.items()}
            moved[name][place] += eps
            shifted.append(printed(moved))
        assert float(grad[place]) == pytest.approx((shifted[0] - shifted[1]) / 2e-6, abs=1e-5)


def test_moon_keeps_each_clients_last_local_model():
    fed = federation("moon", fraction=0.5, batch=32, lr=0.1)
    fed.begin()
    start = dict(fed.model)
    fed.step()
    first, sent = fed.chosen.tolist(), fed.received["update"]
    previous = fed.columns["state"]["previous"]
    for i in range(10):
        want = {k: start[k] + sent[k][first.index(i)] for k in start} if i in first else start
        assert max(float((previous[k][i] - v).abs().max()) for k, v in want.items()) < 1e-12


def test_moon_without_contrast_is_fedavg():
    a, b = (
        run(federation(n, batch=32, lr=0.1, steps=0, epochs=2, average="weighted", **p), 2)
        for n, p in (("moon", {"mu": 0.0}), ("fedavg", {}))
    )
    assert max(float((a.model[k] - v).abs().max()) for k, v in b.model.items()) < 1e-12


@pytest.mark.parametrize("model", ["mlp", "cnn", "lenet", "resnet8"])
def test_moons_projection_head(model):
    task = registry.load_plugin("tasks", "digits").build(
        {"model": model, "width": 4}, "task digits"
    )
    defense = method("moon", projection=6)
    net = defense.module(task.module(task.facts(defense)), task.facts(defense)).double().eval()
    net.load_state_dict(initialise(net, shared(0, "init")))
    x = rand(3, 1, 8, 8)
    assert net(x).shape == (3, 10)
    assert Net(net, dict(net.named_parameters())).features(x).shape == (3, 6)


# Figure 5 -----------------------------------------------------------------------------------------
def test_the_variance_of_the_local_models_is_that_of_the_uploads():
    fed = stepped(federation(method("fedaa", **SMALL, epochs=1)))
    last = {k: v.numpy() for k, v in fed.received["update"].items()}
    each = np.concatenate([v.reshape(len(v), -1) for v in last.values()], axis=1)
    assert float(fed.variances["second_loss"]) == pytest.approx(each.var(0).mean(), rel=1e-12)
    assert float(fed.variances["loss"]) > 0
    from leakbench.federation.evaluate import diagnose

    assert {k for k in diagnose(fed) if "variance" in k} == {
        "local_variance",
        "local_variance_second",
    }
