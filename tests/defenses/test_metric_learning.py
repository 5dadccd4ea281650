"""FedMetric, FedUV and DeepSVDD against their equations in NumPy, and what each of them sends."""

import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import torch
from helpers.federations import digits, federation, run, uneven
from scipy import stats
from torch import nn

from defenses import _codes
from defenses.fedmetric import euclidean
from leakbench import UsageError
from leakbench.base import registry
from leakbench.base.streams import Rng
from leakbench.federation.evaluate import utility_scores
from leakbench.federation.federation import Federation
from leakbench.federation.net import Net
from leakbench.federation.parties import Batch, Client, Facts
from leakbench.models.stages import Stages

C, DIM = 4, 3


def method(name, **params):
    """The method with its own defaults, not a task's."""
    return registry.load_plugin("defenses", name).build(params, name)


class Linear(nn.Module):
    """g(x) = x W."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(DIM, DIM, dtype=torch.float64))

    def forward(self, x, start=None, stop=None):
        return x @ self.w


def norm(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def rand(*shape, seed=0):
    return np.random.default_rng([seed, 11, *shape]).normal(size=shape)


def tensor(v):
    return torch.as_tensor(np.asarray(v, dtype=float))


def net(w):
    return Net(Linear(), {"w": w if isinstance(w, torch.Tensor) else tensor(w)})


def client(
    x=None,
    *,
    state=None,
    inbox=None,
    received=None,
    trained=None,
    index=0,
    round=1,
    clients=C,
    dim=DIM,
):
    data = None if x is None else (lambda: Batch(tensor(x), torch.full((len(x),), index)))
    rng = Rng(0, "defense", torch.tensor(index), torch.float64, round=round)
    me = Client(
        torch.tensor(index),
        torch.tensor(9),
        round,
        Facts(clients, clients, dim, (DIM,)),
        {},
        dict(state or {}),
        dict(inbox or {}),
        None,
        rng,
    )
    me.get_data, me.net, me.local = (
        data,
        net(np.eye(DIM) if received is None else received),
        trained and {"w": tensor(trained["w"])},
    )
    return me


# FedMetric, Eq. 4 to 6 ----------------------------------------------------------------------------
def far(a, b):
    return np.linalg.norm(a - b, axis=-1)


def loss(
    g,
    centre,
    anchors,
    margins,
    index,
    *,
    lam=0.1,
    squared=True,
    variant="proxy",
    normalised=False,
    sums=False,
    batch=False,
):
    """FedMetric's Eq. 4, 5 and 6 (or its Algorithm 1, without the square)."""
    g = norm(g) if normalised else g
    positive = sum(far(x, g.mean(0) if batch else centre) for x in g)
    hinges = [
        max(0, margins[j] - far(x, anchors[j]))
        for x in g
        for j in range(len(margins))
        if j != index
    ]
    negative = sum(h**2 if squared else h for h in hinges) * (variant != "pos")
    return (positive + lam * negative) / (1 if sums else len(g))


CASES = [
    {},
    {"lam": 0.0},
    {"lam": 1.0},
    {"squared": False},
    {"variant": "true"},
    {"variant": "pos"},
    {"normalised": True},
    {"sums": True},
    {"sums": True, "squared": False, "lam": 0.7},
]


def told(params, g, *, index=1, seed=0):
    """The method's loss of embeddings ``g``, with its gradient; and what NumPy makes
    of the same.
    """
    centre, anchors, margins = (
        rand(DIM, seed=seed),
        rand(C, DIM, seed=seed + 1),
        2 + rand(C, seed=seed) ** 2,
    )
    w = tensor(np.eye(DIM)).requires_grad_()
    me = client(
        state={"prototype": tensor(centre)},
        inbox={"prototype": tensor(anchors), "statistics": tensor(margins)},
        index=index,
    )
    params = dict(params)
    batch = params.pop("batch", False)
    value = method("fedmetric", centre="batch" if batch else "round", **params).loss(
        net(w), Batch(tensor(g), None), me
    )
    (grad,) = torch.autograd.grad(value, w)

    def same(v):
        return loss(g @ v, centre, anchors, margins, index, batch=batch, **params)

    return float(value.detach()), grad.numpy(), same


@pytest.mark.parametrize("params", [*CASES, {"batch": True}], ids=str)
def test_fedmetric_loss(params):
    for seed in range(3):
        value, _, same = told(params, rand(6, DIM, seed=seed), seed=seed)
        assert value == pytest.approx(same(np.eye(DIM)), abs=1e-13)
        assert value != pytest.approx(
            loss(rand(6, DIM, seed=seed), np.zeros(DIM), np.zeros((C, DIM)), np.zeros(C), 1),
            abs=1e-3,
        )


@pytest.mark.parametrize("params", CASES, ids=str)
def test_fedmetric_gradient(params):
    _, grad, same = told(params, rand(6, DIM))
    steps = [1e-6 * np.eye(DIM * DIM)[i].reshape(DIM, DIM) for i in range(DIM * DIM)]
    numeric = [(same(np.eye(DIM) + s) - same(np.eye(DIM) - s)) / 2e-6 for s in steps]
    assert np.allclose(grad.ravel(), numeric, atol=1e-7)


@pytest.mark.parametrize(
    ("params", "value"),
    [
        ({"variant": "pos"}, 2.5),  # (0 + 5) / 2
        ({}, 2.5 + 0.1 * 19),  # ((1 + 36) + (0 + 1)) / 2
        ({"squared": False}, 2.5 + 0.1 * 4),  # ((1 + 6) + (0 + 1)) / 2
        ({"lam": 1.0, "sums": True}, 5.0 + 38),
    ],
)
def test_fedmetric_by_hand(params, value):
    """Two embeddings, 0 and (3, 4, 0), around a centre at 0; A = (3, 0, 0), M = 4: hinges 1, 0; A =
    0, M = 6: 6, 1; its own is huge.
    """
    inbox = {
        "prototype": tensor([[0, 0, 0], [3, 0, 0], [0, 0, 0]]),
        "statistics": tensor([99, 4, 6]),
    }
    me = client(state={"prototype": torch.zeros(DIM, dtype=torch.float64)}, inbox=inbox, clients=3)
    w = tensor(np.eye(DIM)).requires_grad_()
    found = method("fedmetric", **params).loss(
        net(w), Batch(tensor([[0, 0, 0], [3, 4, 0]]), None), me
    )
    assert float(found.detach()) == pytest.approx(value, abs=1e-14)
    (grad,) = torch.autograd.grad(found, w)
    assert bool(grad.isfinite().all())


def test_fedmetric_distance_has_no_slope_where_it_is_nothing():

    a = tensor([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    (grad,) = torch.autograd.grad(
        euclidean(a, tensor([[1.0, 2.0], [0.0, 0.0]])).sum(), a, create_graph=True
    )
    assert torch.allclose(grad, tensor([[0, 0], [0.6, 0.8]]), atol=1e-15)
    (again,) = torch.autograd.grad(grad.square().sum() + grad[:, 0].sum(), a)
    assert torch.allclose(again, tensor([[0, 0], [16 / 125, -12 / 125]]), atol=1e-15)


def test_fedmetric_before_the_first_upload_nobody_is_pushed():
    """Round 1 moves the model as the positive loss alone does."""
    for centre in ("round", "batch"):
        both = [
            federation("fedmetric", variant=v, lam=5.0, centre=centre) for v in ("proxy", "pos")
        ]
        for fed in both:
            fed.begin()
            fed.step()
        assert all(torch.equal(both[0].model[k], both[1].model[k]) for k in both[0].model)
        for fed in both:
            fed.step()
        assert not all(torch.equal(both[0].model[k], both[1].model[k]) for k in both[0].model)


# FedMetric, Algorithm 1 ---------------------------------------------------------------------------
def uploads(x, *, received, trained, rounds=1, **params):
    """What a client sends in so many rounds, and its centre and radius."""
    defense, sent = method("fedmetric", **params), []
    for t in range(1, rounds + 1):
        me = client(x, received=received, trained={"w": trained}, round=t)
        defense.prepare(me)
        out = defense.uplink(me)
        sent.append((out["prototype"].numpy(), float(out["statistics"])))
    return sent, defense.secrets(me)


def test_fedmetric_centre_under_what_was_received_radius_under_what_was_trained():
    """1,203 examples, more than one chunk; the farthest lies in the last one."""
    x, w, after = 3 + rand(1203, DIM), rand(DIM, DIM), rand(DIM, DIM, seed=1)
    x[1202] *= -50
    for normalised in (False, True):
        g, h = (norm(x @ v) if normalised else x @ v for v in (w, after))
        ((_, margin),), true = uploads(
            x, received=w, trained=after, scale=0.0, normalised=normalised
        )
        assert np.allclose(true["prototype"], g.mean(0), atol=1e-13)
        assert float(true["radius"]) == pytest.approx(far(h, g.mean(0)).max(), rel=1e-13)
        assert margin == float(true["radius"])
        assert margin != pytest.approx(far(g, g.mean(0)).max(), rel=1e-3)


@pytest.mark.parametrize("scale", [0.0, 0.3, 0.9, 1.1, 1.5, 3.0])
def test_fedmetric_shown_sphere(scale):
    """|A - C| = s R, M = R + s R; A is inside of the true sphere for s < 1, outside for s > 1; the
    true sphere is inside of the shown.
    """
    w, after = rand(DIM, DIM), rand(DIM, DIM, seed=1)
    sent, true = uploads(rand(40, DIM), received=w, trained=after, rounds=20, scale=scale)
    centre, radius = true["prototype"].numpy(), float(true["radius"])
    on_it = centre + radius * norm(rand(500, DIM))
    for anchor, margin in sent:
        assert far(anchor, centre) == pytest.approx(scale * radius, abs=1e-13)
        assert (far(anchor, centre) < radius) == (scale < 1)
        assert margin == pytest.approx((1 + scale) * radius, rel=1e-14)
        assert far(on_it, anchor).max() <= margin + 1e-12
    assert len({tuple(a) for a, _ in sent}) == (1 if scale == 0 else 20)


def test_fedmetric_direction_is_uniform_on_the_sphere():
    """Along each axis (1 + x)/2 of X / D is Beta((n - 1)/2, (n - 1)/2): in three dimensions
    uniform. Its mean vanishes as it should.
    """
    sent, true = uploads(rand(5, DIM), received=np.eye(DIM), trained=np.eye(DIM), rounds=600)
    x = norm(np.array([a for a, _ in sent]) - true["prototype"].numpy())
    law = stats.beta((DIM - 1) / 2, (DIM - 1) / 2).cdf
    for axis in (*np.eye(DIM), *norm(rand(2, DIM))):
        assert stats.kstest((1 + x @ axis) / 2, law).pvalue > 0.002
    assert stats.chi2(DIM).sf(DIM * 600 * np.square(x.mean(0)).sum()) > 0.001
    assert stats.kstest((1 + norm(x + 0.2)[:, 0]) / 2, law).pvalue < 0.001
    cube = norm(np.random.default_rng(0).uniform(-1, 1, x.shape))
    # The mean is 3/5 on the sphere.
    excess = [(f - 0.6).mean() / f.std() * 600**0.5 for f in ((v**4).sum(1) for v in (x, cube))]
    assert abs(excess[0]) < 4 < abs(excess[1])


def test_fedmetric_variants():
    given = {"x": rand(9, DIM), "received": rand(DIM, DIM), "trained": rand(DIM, DIM, seed=1)}
    ((anchor, margin),), true = uploads(**given, variant="true", scale=1.5)
    assert np.array_equal(anchor, true["prototype"])
    assert margin == float(true["radius"])
    pos = method("fedmetric", variant="pos")
    me = client(given["x"])
    pos.prepare(me)
    assert pos.uplink(me) is None
    proxy = method("fedmetric")
    assert proxy.undefended() == method("fedmetric", variant="true")
    assert pos.undefended() == pos
    assert [
        m.hides() for m in (proxy, pos, proxy.undefended(), method("fedmetric", scale=0.0))
    ] == [True, True, False, False]


def test_fedmetric_sample_is_drawn_afresh_and_used_for_both():
    x, w, after = rand(50, DIM), rand(DIM, DIM), rand(DIM, DIM, seed=1)
    seen = set()
    for t in (1, 2, 3):
        me = client(x, received=w, trained={"w": after}, round=t)
        defense = method("fedmetric", sample=7, scale=0.0)
        rows = me.rng.permutation("sample", 50)[:7].numpy()
        defense.prepare(me)
        sent = defense.uplink(me)
        assert np.allclose(sent["prototype"], (x[rows] @ w).mean(0), atol=1e-13)
        assert float(sent["statistics"]) == pytest.approx(
            far(x[rows] @ after, (x[rows] @ w).mean(0)).max(), rel=1e-13
        )
        seen.add(tuple(rows))
    assert len(seen) == 3
    every = [uploads(x, received=w, trained=after, sample=s)[1] for s in (0, 50, 99)]
    assert all(torch.equal(every[0]["prototype"], e["prototype"]) for e in every[1:])


@pytest.mark.parametrize(
    ("variant", "kinds"),
    [("pos", {"model", "update"}), ("proxy", {"model", "update", "prototype", "statistics"})],
)
def test_fedmetric_messages(variant, kinds):
    fed = run(federation("fedmetric", variant=variant, lr=0.01, fraction=0.5), 3)
    table = {(s["kind"], s["sender"]): s for s in fed.traffic.table()}
    assert {k for k, _ in table} == kinds
    if variant == "proxy":
        sizes = {k: s["bytes"] // s["messages"] for k, s in table.items()}
        assert [sizes[k, "client"] for k in ("prototype", "statistics")] == [8 * 8, 8]
        assert [sizes[k, "server"] for k in ("prototype", "statistics")] == [10 * 8 * 8, 10 * 8]
        newest = fed.received or None
        assert newest is None  # after the last round nothing is asked of anybody


def test_fedmetric_bank_holds_the_newest_of_each():
    fed = federation("fedmetric", lr=0.01, fraction=0.4)
    fed.begin()
    assert float(fed.state["margins"].abs().max()) == 0
    anchors = fed.state["anchors"]
    for _ in range(3):
        fed.step()
        anchors = anchors.index_copy(0, fed.chosen, fed.received["prototype"])
        assert torch.equal(fed.state["anchors"], anchors)
        assert torch.equal(fed.state["margins"][fed.chosen], fed.received["statistics"])


# FedUV --------------------------------------------------------------------------------------------
TEXTBOOK = {
    (15, 7): 5,
    (15, 5): 7,
    (31, 16): 7,
    (31, 11): 11,
    (63, 30): 13,
    (63, 10): 27,
    (127, 64): 21,
    (127, 29): 43,
    (255, 131): 37,
}
# Conway polynomials.
PRIMITIVE = {15: 0b10011, 31: 0b100101, 63: 0b1011011, 127: 0b10000011, 255: 0b100011101}


def encoded(length, message, bits):
    return (bits @ _codes.generator(length, message).numpy()) % 2


def roots(word, length):
    """How many of alpha, alpha^2, ... in a row are roots of the word as a polynomial, highest power
    first.
    """
    power, top = [1], length + 1
    for _ in range(length - 1):
        power.append(power[-1] << 1 ^ (PRIMITIVE[length] if power[-1] << 1 & top else 0))
    places = [length - 1 - int(i) for i in np.flatnonzero(word)]
    for r in range(1, length):
        total = 0
        for p in places:
            total ^= power[r * p % length]
        if total:
            return r - 1
    return length - 1


def test_feduv_distances_are_the_textbooks():
    """Lin and Costello, Error Control Coding: their designed distances."""
    for (length, message), d in TEXTBOOK.items():
        assert _codes.distances(length)[message] == d
    assert _codes.distances(15) == {11: 3, 7: 5, 5: 7, 1: 15}
    assert _codes.distances(127)[8] == 63


@pytest.mark.parametrize(("length", "message"), [(15, 5), (15, 7), (15, 11), (31, 6), (31, 11)])
def test_feduv_least_distance_over_all_codewords(length, message):
    bits = (np.arange(2**message)[:, None] >> np.arange(message)) & 1
    words = encoded(length, message, bits)
    # Linear: the lightest is the distance.
    assert int(words.sum(1)[1:].min()) == _codes.distances(length)[message]
    some = words[:200]
    apart = (some[:, None] != some[None]).sum(-1)[~np.eye(len(some), dtype=bool)]
    assert apart.min() >= _codes.distances(length)[message]


@pytest.mark.parametrize(
    ("length", "message"), [(63, 16), (63, 30), (127, 64), (127, 15), (255, 131)]
)
def test_feduv_codewords_are_far_apart(length, message):
    """Many pairs, among them near messages; and the reason: roots alpha .. alpha^(d - 1), the BCH
    bound, fail for any other word.
    """
    d = _codes.distances(length)[message]
    bits = np.random.default_rng(0).integers(0, 2, (300, message))
    bits = np.concatenate(
        [bits, np.eye(message, dtype=int), (bits[:1] + np.eye(message, dtype=int)) % 2]
    )
    words = encoded(length, message, bits)
    assert np.array_equal(words[:, :message], bits)
    apart = (words[:, None] != words[None]).sum(-1)[~np.eye(len(words), dtype=bool)]
    assert apart[apart > 0].min() >= d
    assert min(roots(v, length) for v in words[:: len(words) // 20]) == d - 1
    wrong = words[0].copy()
    wrong[3] = 1 - wrong[3]
    assert roots(wrong, length) == 0


def signs(fed):
    return fed.columns["state"]["codeword"].numpy()


def test_feduv_every_client_has_a_secret_codeword_of_its_own():
    first, again, other = (federation("feduv", seed=s) for s in (1, 1, 2))
    v = signs(first)
    assert set(np.unique(v)) == {-1.0, 1.0}
    assert v.shape == (10, 127)
    assert np.array_equal(v, signs(again))
    assert not np.array_equal(v[:, 4:64], signs(other)[:, 4:64])
    # The client's number, public.
    assert [int("".join("01"[int(b > 0)] for b in row[3::-1]), 2) for row in v] == list(range(10))
    d = first.method.least_distance
    assert d == 21
    assert all(v[a] @ v[b] <= 127 - 2 * d for a in range(10) for b in range(a))
    assert all(roots((row + 1) / 2, 127) >= d - 1 for row in v)
    fed = run(first, 2)
    assert np.array_equal(v, signs(fed))
    assert {(s["kind"], s["sender"]) for s in fed.traffic.table()} == {
        ("model", "server"),
        ("update", "client"),
    }
    assert torch.equal(fed.secrets()["codeword"], torch.as_tensor(v))


@pytest.mark.parametrize("divisor", [0.0, 2.0, 127.0])
def test_feduv_loss(divisor):
    """max(0, 1 - (1/c) v . tanh(W g))^2, mean over the batch; with a small c the hinge
    is reached.
    """
    fed = federation("feduv", divisor=divisor)
    x, v = fed.data.train.x[:6], signs(fed)[3]
    first = Net(fed.module, fed.model)(x[:1], stop="head")[0]  # a code that the first image fits
    weights = {
        **fed.model,
        "code.weight": fed.model["code.weight"] + torch.outer(torch.as_tensor(v), first),
    }
    embedding = Net(fed.module, weights)(x, stop="head").numpy()
    score = np.tanh(embedding @ weights["code.weight"].numpy().T) @ v / (divisor or 127)
    wanted = np.mean([max(0, 1 - s) ** 2 for s in score])
    me = client(state={"codeword": tensor(v)})
    own = fed.method
    assert float(own.loss(Net(fed.module, weights), Batch(x, None), me)) == pytest.approx(
        wanted, abs=1e-13
    )
    assert np.allclose(own.predict(Net(fed.module, weights), x, me), score, atol=1e-14)
    assert (max(score) > 1) == (divisor == 2.0)
    assert "code.bias" not in weights


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"message": 60},
            (
                "no BCH code of length 127 has messages of 60 bits; those of 1, 8, 15, 22, 29, 36,"
                " 43, 50, 57, 64,"
            ),
        ),
        (
            {"length": 15, "message": 1},
            "message = 1 leaves no secret bit: the numbers of 10 clients take 4",
        ),
        ({"length": 64}, "length"),
    ],
)
def test_feduv_codes_that_do_not_serve_are_refused(params, words):
    with pytest.raises(UsageError, match=words):
        federation("feduv", **params)


def test_feduv_leaves_the_codes_package_as_it_was():
    import galois

    before = galois.GF2.ufunc_mode
    _codes.generator.__wrapped__(15, 7)
    assert galois.GF2.ufunc_mode == before


@pytest.mark.slow
def test_feduv_leaves_the_number_of_threads_as_it_was():
    """The codes package sets it when it first makes a field, so this takes a process of its own."""
    code = (
        "import torch; from defenses import _codes; _codes.generator(15, 7);"
        " print(torch.get_num_threads())"
    )
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout == "1\n"


# DeepSVDD -----------------------------------------------------------------------------------------
@cache
def alone(engine):
    return run(federation("deepsvdd", engine, lr=0.01), 5)


@pytest.mark.parametrize("engine", ["loop", "auto"])
def test_deepsvdd_sends_nothing(engine):
    fed = alone(engine)
    assert fed.traffic.table() == []
    assert fed.model == {}
    weights = fed.columns["kept"]["head.weight"]
    assert all(not torch.equal(weights[0], weights[i]) for i in range(1, 10))


def test_deepsvdd_loss_and_centre():
    """C: the mean embedding under the initial weights, coordinates under 0.1 moved to plus or minus
    0.1, never moved again.
    """
    fed = federation("deepsvdd", lr=0.01)
    start = {k: v[4] for k, v in fed.columns["kept"].items()}
    # All begin with the same.
    assert all(torch.equal(v[4], v[7]) for v in fed.columns["kept"].values())
    mean = Net(fed.module, start)(fed.data_of(4)().x).mean(0).numpy()
    centre = np.where(np.abs(mean) < 0.1, np.where(mean < 0, -0.1, 0.1), mean)
    assert 0 < (np.abs(mean) < 0.1).sum() < len(mean)
    assert np.allclose(fed.columns["state"]["centre"][4], centre, atol=1e-14)
    assert torch.equal(alone("auto").columns["state"]["centre"], fed.columns["state"]["centre"])
    x = rand(6, DIM)
    me = client(state={"centre": tensor(centre[:DIM])})
    squares = [far(row, centre[:DIM]) ** 2 for row in x]
    assert float(fed.method.loss(net(np.eye(DIM)), Batch(tensor(x), None), me)) == pytest.approx(
        np.mean(squares), rel=1e-13
    )
    assert np.allclose(
        fed.method.predict(net(np.eye(DIM)), tensor(x), me), -np.sqrt(squares), atol=1e-13
    )


def test_deepsvdd_without_a_floor_the_centre_is_the_mean():
    fed = federation("deepsvdd", least=0.0)
    start = {k: v[4] for k, v in fed.columns["kept"].items()}
    mean = Net(fed.module, start)(fed.data_of(4)().x).mean(0)
    assert torch.allclose(fed.columns["state"]["centre"][4], mean, atol=1e-15)


@pytest.mark.parametrize("model", ["mlp", "lenet"])
def test_deepsvdd_has_no_bias(model):
    task = registry.load_plugin("tasks", "digits").build({"model": model}, "task")
    defense = method("deepsvdd")
    module = defense.module(task.module(task.facts(defense)), task.facts(defense))
    assert not [k for k, _ in module.named_parameters() if "bias" in k]
    shapes = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.LayerNorm(4 * 36),
        nn.Linear(144, 5),
    )
    bare = defense.module(Stages({"all": shapes}), task.facts(defense))
    assert sorted(k for k, _ in bare.named_parameters()) == [
        f"all.{i}.weight" for i in (0, 1, 2, 4, 5)
    ]
    x = torch.zeros(2, 1, 8, 8)
    # Nothing is left that could map everything to one point but 0.
    assert float(bare.eval()(x).detach().abs().max()) == 0


def test_deepsvdd_learns_and_every_client_its_own(data):
    fed = federation(
        "deepsvdd", lr=0.01, data=uneven(data, (40, 23, 17, 16, 31, 19, 22, 50, 28, 25))
    )
    fed.begin()
    fed.step()
    before = float(fed.losses.mean())
    for _ in range(60):
        fed.step()
    assert float(fed.losses.mean()) < 0.5 * before


@pytest.mark.slow
def test_deepsvdd_is_trained_at_a_rate_that_suits_it_on_digits():
    """Who gains over it must gain over its best: ten times the rate costs it seven points."""
    task = registry.load_plugin("tasks", "digits").build({}, "task digits")
    data, found = task.load(), []
    for params in (task.defaults("deepsvdd"), {"lr": 0.01}):
        own = registry.load_plugin("defenses", "deepsvdd").build(params, "defense deepsvdd")
        fed = run(Federation(own, task, data), task.rounds)
        found.append(float(utility_scores(fed).mean()))
    assert found[0] > 0.92
    assert found[0] > found[1] + 0.04


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", ["mlp", "lenet"])
def test_who_has_one_example_has_it_for_a_centre_in_every_precision(model, dtype):
    """The centre is made in float32, the loss's embeddings by products of bfloat16."""
    task = type(digits())(model=model, width=8, dim=32)
    kind = method("fedmetric", steps=1, lam=0.0)
    alone = Federation(kind, task, uneven(task.load(), [1] * 10), dtype=dtype)
    run(alone, 1)
    assert float(alone.columns["state"]["radius"].max()) < 1e-5
    two = Federation(kind, task, uneven(task.load(), [2] * 10), dtype=dtype)
    run(two, 1)
    assert float(two.columns["state"]["radius"].min()) > 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_that_coincide_up_to_rounding_pull_in_no_direction(dtype):
    eps = torch.finfo(dtype).eps
    a = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]], dtype=dtype)
    shift = torch.tensor([[0.0, 0.0], [4 * eps, 0.0], [1e4 * eps, 0.0]], dtype=dtype)
    x = (a + shift).requires_grad_()
    found = euclidean(x, a)
    (gradient,) = torch.autograd.grad(found.sum(), x)
    found = found.detach()
    assert found[:2].tolist() == [0, 0]
    assert gradient[:2].abs().max() == 0
    assert float(found[2]) == pytest.approx(1e4 * eps, rel=1e-3)
    assert gradient[2].tolist() == pytest.approx([1, 0], abs=1e-3)
