"""FedDecorr, FedLC, FedNTD and FedBR against their equations, a few lines of NumPy each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.federations import federation, method, run

from defenses.fedbr import turned
from defenses.feddecorr import correlations, released
from leakbench.base.errors import MethodError, UsageError
from leakbench.base.streams import Rng
from leakbench.base.tree import row
from leakbench.federation.net import Net
from leakbench.federation.parties import Batch, Client, Facts
from leakbench.models.stages import Stages, last_layer

B, IN, MID, K = 5, 4, 3, 3
Y = np.array([0, 2, 1, 1, 0])


def rand(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def two_stages():
    first = torch.nn.Sequential(torch.nn.Linear(IN, MID, bias=False), torch.nn.Tanh())
    return Stages({"first": first, "head": torch.nn.Linear(MID, K, bias=False)}).double()


def weights(seed):
    return {"first.0.weight": rand(MID, IN, seed=seed), "head.weight": rand(K, MID, seed=seed)}


def tensors(named):
    return {k: torch.tensor(v) for k, v in named.items()}


def party(inbox, state=None, module=None):
    rng = Rng(3, "defense", torch.tensor(1), torch.float64, round=2).at("loss")
    facts, net = Facts(4, K, K, (IN,)), Net(module or two_stages(), {})
    who, count = torch.tensor(1), torch.tensor(9)
    return Client(who, count, 2, facts, {}, state or {}, inbox, net, rng)


def slopes(f, w, h=1e-6):
    """Finite differences of f(w) by every number of w {name: array}."""
    out = {}
    for k, v in w.items():
        out[k] = np.zeros_like(v)
        for i in np.ndindex(v.shape):
            step = np.zeros_like(v)
            step[i] = h
            out[k][i] = (f({**w, k: v + step}) - f({**w, k: v - step})) / (2 * h)
    return out


def check(name, reference, params, inbox=None, state=None):
    """Value and gradient of the method's loss against ``reference(w)``."""
    w, leaves = weights(1), {k: v.requires_grad_() for k, v in tensors(weights(1)).items()}
    batch = Batch(torch.tensor(rand(B, IN)), torch.tensor(Y))
    loss = method(name, **params).loss(Net(two_stages(), leaves), batch, party(inbox or {}, state))
    assert float(loss.detach()) == pytest.approx(reference(w), abs=1e-12)
    loss.backward()
    for k, v in slopes(reference, w).items():
        assert np.allclose(leaves[k].grad, v, atol=2e-7), k


def log_softmax(z):
    return z - np.log(np.exp(z).sum(1, keepdims=True))


def passed(w, x=None):
    z = np.tanh((rand(B, IN) if x is None else x) @ w["first.0.weight"].T)
    return z, z @ w["head.weight"].T


def cross_entropy(logits):
    return -log_softmax(logits)[np.arange(B), Y].mean()


# FedDecorr ----------------------------------------------------------------------------------------
def eq_6(z):
    k = np.corrcoef(z.T)
    return np.square(k).sum() / len(k) ** 2


def code(z):
    """loss.py of the authors: (Z'Z)^2 of z-scores with n - 1, mean off the diagonal, over n."""
    n, d = z.shape
    z = (z - z.mean(0)) / z.std(0, ddof=1)
    return np.square((z.T @ z)[~np.eye(d, dtype=bool)]).mean() / n


@pytest.mark.parametrize(("variant", "term"), [("paper", eq_6), ("released", code)])
@pytest.mark.parametrize("beta", [0.0, 0.1, 2.0])
def test_feddecorr_adds_the_correlations_of_what_goes_into_the_last_layer(variant, term, beta):
    def reference(w):
        z, logits = passed(w)
        return cross_entropy(logits) + beta * term(z)

    # 1e-8 under the roots: the last digits differ.
    w, batch = weights(1), Batch(torch.tensor(rand(B, IN)), torch.tensor(Y))
    leaves = {k: v.requires_grad_() for k, v in tensors(w).items()}
    defense = method("feddecorr", variant=variant, beta=beta)
    loss = defense.loss(Net(two_stages(), leaves), batch, party({}))
    assert float(loss.detach()) == pytest.approx(reference(w), rel=1e-6)
    loss.backward()
    for k, v in slopes(reference, w).items():
        assert np.allclose(leaves[k].grad, v, atol=1e-6), k


def test_feddecorr_by_hand():
    """Two dimensions that rise together: K = ones(2, 2), 4 / 4; with a third at right angles."""
    z = torch.tensor([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]]).double()
    assert float(correlations(z)) == pytest.approx(1, abs=1e-7)
    z = torch.cat([z, torch.tensor([[1.0], [-2.0], [1.0]])], 1)
    assert float(correlations(z)) == pytest.approx(5 / 9, abs=1e-7)
    # off the diagonal Z'Z = 2 for one pair of three: (4 + 0 + 0) / 3, over n = 3.
    assert float(released(z)) == pytest.approx(4 / 9, abs=1e-7)


@pytest.mark.parametrize("measure", [correlations, released])
@pytest.mark.parametrize("z", [rand(1, 4), np.ones((6, 4))], ids=["one example", "equal examples"])
def test_feddecorr_of_a_batch_without_variance_is_finite_and_has_no_gradient(measure, z):
    leaf = torch.tensor(z, dtype=torch.float32).requires_grad_()
    value = measure(leaf)
    value.backward()
    assert bool(value.isfinite())
    assert not bool(leaf.grad.any())


def test_feddecorr_reads_the_pooled_representation_and_counts_a_batch_once():
    """Of a head that pools first; BatchNorm's running mean moves once by a tenth of the batch's."""
    first = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1, bias=False), torch.nn.BatchNorm2d(2))
    pool = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(2, K))
    module = Stages({"first": first, "head": torch.nn.Sequential(*pool)}).double()
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    held = {k: v.detach().clone() for k, v in held.items()}
    x = torch.tensor(rand(B, 1, 2, 2))
    net = Net(module.train(), held)
    assert net.representation == "head.1"
    z = net(x, stop=net.representation)
    assert z.shape == (B, 2)
    held["first.1.running_mean"].zero_()
    method("feddecorr").loss(net, Batch(x, torch.tensor(Y)), party({}, module=module))
    seen = torch.nn.functional.conv2d(x, held["first.0.weight"]).mean((0, 2, 3))
    assert torch.allclose(held["first.1.running_mean"], seen / 10, atol=1e-12)


def test_a_network_that_cannot_be_cut_before_its_last_layer_is_refused():
    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, K))
    with pytest.raises(MethodError, match="not made of stages"):
        _ = Net(flat, {}).representation

    class Inside(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, K)

    with pytest.raises(MethodError, match=r"cannot be cut before 'head\.linear'"):
        _ = Net(Stages({"first": torch.nn.Flatten(), "head": Inside()}), {}).representation


def test_the_correlations_fall_when_they_are_trained_on():
    ends = {}
    for beta in (0.0, 10.0):
        fed = run(federation("feddecorr", fraction=1.0, lr=0.03, beta=beta, epochs=1), 6)
        z = Net(fed.module, fed.model)(fed.data.test.x[:200], stop="second")
        ends[beta] = float(correlations(z))
    assert ends[10.0] < ends[0.0] - 0.05


# FedNTD -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("beta", "tau"), [(1.0, 1.0), (0.3, 2.0), (0.0, 1.0)])
def test_fedntd_distils_the_classes_that_are_not_true(beta, tau):
    glob = weights(2)

    def reference(w):
        logits, teacher = passed(w)[1], passed(glob)[1]
        total = cross_entropy(logits)
        for i, y in enumerate(Y):
            others = [c for c in range(K) if c != y]
            p = log_softmax(teacher[i, others][None] / tau)
            q = log_softmax(logits[i, others][None] / tau)
            total += beta * tau**2 * (np.exp(p) * (p - q)).sum() / B
        return total

    check("fedntd", reference, {"beta": beta, "tau": tau}, {"model": tensors(glob)})


def test_fedntd_at_the_received_weights_is_cross_entropy():
    w = tensors(weights(1))
    batch = Batch(torch.tensor(rand(B, IN)), torch.tensor(Y))
    grads = []
    for beta in (0.0, 5.0):
        leaves = {k: v.clone().requires_grad_() for k, v in w.items()}
        me = party({"model": w})
        method("fedntd", beta=beta).loss(Net(two_stages(), leaves), batch, me).backward()
        grads.append(leaves)
    for k in w:
        assert torch.allclose(grads[0][k].grad, grads[1][k].grad, atol=1e-12)


def test_fedntd_stays_nearer_to_what_the_global_model_says_of_wrong_classes():
    far = []
    for beta in (0.0, 20.0):
        fed = federation("fedntd", fraction=1.0, lr=0.02, beta=beta, epochs=2)
        x, y = fed.data.test.x[:100], fed.data.test.y[:100]
        before = Net(fed.module, dict(fed.model))(x)
        fed.begin()
        fed.step()
        moved = Net(fed.module, fed.model)(x) - before
        wrong = torch.ones_like(moved).scatter(1, y[:, None], 0)
        relative = moved - moved.mul(wrong).sum(1, keepdim=True) / wrong.sum(1, keepdim=True)
        far.append(float((relative * wrong).square().mean()))
    assert far[1] < 0.7 * far[0]


# FedLC --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("tau", "added"), [(1.0, 1e-6), (0.1, 1e-6), (1.0, 1.0), (0.0, 1e-6)])
def test_fedlc_lowers_the_logits_by_the_clients_counts(tau, added):
    counts = np.array([4.0, 0.0, 16.0])

    def reference(w):
        return cross_entropy(passed(w)[1] - tau * (counts + added) ** -0.25)

    me = party({})
    y = torch.tensor([0] * 4 + [2] * 16)
    me.get_data = lambda: Batch(torch.zeros(20, IN).double(), y)
    method("fedlc", tau=tau, added=added).start(me)
    assert me.state["margin"].shape == (K,)
    check("fedlc", reference, {"tau": tau, "added": added}, {}, me.state)


def test_fedlc_by_hand():
    """16 and 1 examples: margins 1/2 and 1; a class that is absent: 1e-6^(-1/4) = 31.6."""
    fed = federation("fedlc", fraction=1.0)
    margin = fed.columns["state"]["margin"]
    counts = fed.data.counts
    for c in (0, 7):
        own = float(counts[c]) ** -0.25
        assert float(margin[c, c]) == pytest.approx(own, rel=1e-6)
        assert float(margin[c, (c + 1) % 10]) == pytest.approx(1e-6**-0.25, rel=1e-6)


def test_fedlc_predicts_with_plain_logits():
    fed = federation("fedlc")
    me = fed.outside(row(fed.tables(), 0))
    x = fed.data.test.x[:5]
    net = Net(fed.module, fed.model)
    assert torch.equal(fed.method.predict(net, x, me), net(x))


# FedBR --------------------------------------------------------------------------------------------
UNITS, MEANS = 4, 6


def with_projector():
    return method("fedbr", width=UNITS).module(two_stages(), Facts(4, K, K, (IN,))).double()


def heads(seed):
    shapes = {"0.weight": (UNITS, MID), "0.bias": (UNITS,), "2.weight": (UNITS, UNITS)}
    shapes["2.bias"] = (UNITS,)
    return {f"side.projector.{k}": rand(*v, seed=seed) for k, v in shapes.items()}


def projected(w, z):
    hidden = z @ w["side.projector.0.weight"].T + w["side.projector.0.bias"]
    return np.maximum(hidden, 0) @ w["side.projector.2.weight"].T + w["side.projector.2.bias"]


def cosine(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def fedbr_terms(w, glob, means, me, *, mixed, tau):
    """Cross-entropy, the pseudo data's, and L_con, of the authors' formulas."""
    x, pick = rand(B, IN), me.rng.integers("pseudo", MEANS, B).numpy()
    pseudo, q = means[pick], np.full((B, K), 1 / K)
    if mixed:
        own = me.rng.integers("own", B, B).numpy()
        pseudo, q = (pseudo + x[own]) / 2, (q + np.eye(K)[Y[own]]) / 2
    z, logits = passed(w, x)
    z_p, said = passed(w, pseudo)
    one, two, three = (projected(w, v) for v in (z_p, passed(glob, pseudo)[0], z))
    near, far = np.exp(tau * cosine(one, two)), np.exp(tau * cosine(one, three))
    balance = -(q * log_softmax(said)).sum(1).mean()
    return cross_entropy(logits), balance, -np.log(near / (near + far)).mean()


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize(
    ("mu", "lam", "gamma", "tau"),
    [(0.5, 0.8, 1.0, 2.0), (0.3, 0.0, 2.0, 1.0), (0.0, 1.0, 1.0, 2.0)],
)
def test_fedbr_descends_with_the_features_and_ascends_with_the_projector(
    mixed, mu, lam, gamma, tau
):
    w, glob, means = {**weights(1), **heads(1)}, weights(2), rand(MEANS, IN, seed=4)
    inbox = {"model": tensors({**glob, **heads(2)}), "mean_data": torch.tensor(means)}
    me = party(inbox, module=with_projector())

    def terms(v):
        return fedbr_terms(v, glob, means, me, mixed=mixed, tau=tau)

    leaves = {k: v.requires_grad_() for k, v in tensors(w).items()}
    defense = method("fedbr", width=UNITS, mixed=mixed, mu=mu, lam=lam, gamma=gamma, tau=tau)
    batch = Batch(torch.tensor(rand(B, IN)), torch.tensor(Y))
    loss = defense.loss(Net(with_projector(), leaves), batch, me)
    fit, balance, contrast = terms(w)
    assert float(loss.detach()) == pytest.approx(fit + lam * balance + mu * contrast, abs=1e-12)
    loss.backward()
    down = slopes(lambda v: np.dot((1, lam, mu), terms(v)), w)
    up = slopes(lambda v: -gamma * terms(v)[2], w)
    for k, leaf in leaves.items():
        expected = up[k] if k.startswith("side.") and mu else down[k]
        found = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        assert np.allclose(found, expected, atol=2e-7), k


@pytest.mark.parametrize("factor", [0.0, 1.0, 1 / 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_turned_weight_is_itself_to_the_bit_in_every_transform(factor, dtype):
    v, x = torch.tensor(rand(7), dtype=dtype), torch.tensor(rand(3, 7), dtype=dtype)
    assert torch.equal(turned(v, factor), v)

    def loss(w, row):
        return (turned(w, factor) * row).square().sum()

    plain = torch.stack([2 * v * row.square() for row in x])
    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(v, x)
    assert torch.allclose(found, -factor * plain, rtol=1e-5 if dtype == torch.float32 else 1e-12)
    # A step's gradient by its inputs: d/dx (-2 factor v x^2) = -4 factor v x.
    by_input = torch.func.grad(lambda row: torch.func.grad(loss)(v, row).sum())(x[0])
    assert torch.allclose(by_input, -4 * factor * v * x[0], rtol=1e-5)


def test_fedbr_shares_means_without_labels_and_all_train_with_them():
    fed = federation("fedbr")
    fed.begin()
    assert set(fed.lasting) == {"mean_data"}
    means = fed.lasting["mean_data"]
    assert len(means) == 10 * 4  # 32 by ten clients, rounded up
    me = fed.outside(row(fed.tables(), 3))
    me.get_data, me.rng = fed.data_of(3), Rng(1, "defense", torch.tensor(3), torch.float64)
    behind = fed.method.inputs(me)["mean_data"][:40].unflatten(0, (4, 10))
    assert torch.equal(behind.mean(1), means[12:16])
    own = {tuple(v.flatten().tolist()) for v in me.data.x}
    assert {tuple(v.flatten().tolist()) for v in behind.flatten(0, 1)} <= own
    assert set(fed.traffic.rows) == {"mean_data"}


def test_fedbr_claims_that_means_hide_and_its_control_sends_single_examples():
    defense = method("fedbr")
    assert defense.hides()
    bare = defense.undefended()
    assert not bare.hides()
    fed = federation(bare)
    fed.begin()
    shown = {tuple(v.flatten().tolist()) for v in fed.lasting["mean_data"]}
    everybody = {tuple(v.flatten().tolist()) for v in fed.data.train.x}
    assert shown <= everybody


def test_fedbrs_projector_is_averaged_and_stands_in_nobodys_way():
    fed, flat = federation("fedbr"), federation("fedavg")
    assert fed.last_layer == flat.last_layer
    side = {k: v.clone() for k, v in fed.model.items() if k.startswith("side.")}
    assert len(side) == 4
    run(fed, 2)
    assert all(not torch.equal(fed.model[k], v) for k, v in side.items())
    x = fed.data.test.x[:5]
    before = Net(fed.module, fed.model)(x)
    blank = {k: torch.zeros_like(v) if k in side else v for k, v in fed.model.items()}
    assert torch.equal(before, Net(fed.module, blank)(x))


def test_fedbr_needs_a_linear_last_layer():
    with pytest.raises(UsageError, match="not made of stages that end in one"):
        method("fedbr").module(torch.nn.Sequential(torch.nn.Linear(2, 2)), Facts(2, 2, 2, (2,)))


# all of them --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["feddecorr", "fedlc", "fedntd"])
def test_a_method_that_changes_the_loss_alone_claims_to_hide_nothing(name):
    defense = method(name)
    assert not defense.hides()
    assert (defense.optimizer, defense.epochs, defense.average) == ("adam", 5, "weighted")


def test_what_stands_beside_the_stages_is_no_stage():
    module = two_stages()
    module.put_aside("projector", torch.nn.Linear(MID, 2).double())
    assert module.names == ["first", "head"]
    assert last_layer(module)[0] == "head"
    held = {k: v.detach() for k, v in module.named_parameters()}
    net, x = Net(module, held), torch.tensor(rand(B, IN))
    assert net.extractor == net.representation == "first"
    z = net.features(x)
    assert torch.equal(net(x), net(z, start="first"))
    beside = torch.nn.functional.linear(
        z, held["side.projector.weight"], held["side.projector.bias"]
    )
    assert torch.equal(net.side("projector", z), beside)
    with pytest.raises(MethodError, match="no head 'other'"):
        net.side("other", z)
