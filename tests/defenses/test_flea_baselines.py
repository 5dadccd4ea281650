"""FedDecorr, FedLC and FedNTD against their papers' equations, a few lines of NumPy each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.federations import federation, method, run

from defenses.feddecorr import correlations, released
from leakbench.base.errors import MethodError
from leakbench.base.streams import Rng
from leakbench.base.tree import row
from leakbench.federation.parties import Batch, Client, Facts, Net
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
