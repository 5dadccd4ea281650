"""The first six methods against their papers' equations, written again in a few lines of NumPy."""

import numpy as np
import pytest
import torch
from helpers.federations import ONE_STEP, federation, method
from scipy import stats

from leakbench import UsageError
from leakbench.base import registry
from leakbench.base.streams import Rng
from leakbench.federation.net import Net
from leakbench.federation.parties import Batch, Client, Facts, Server

C, DIM = 6, 4


class Linear(torch.nn.Module):
    """f(x) = x W, so that an embedding is written down at once."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(3, DIM, dtype=torch.float64))

    def forward(self, x, start=None, stop=None):
        return x @ self.w


def norm(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def rand(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def client(
    own,
    bank=None,
    *,
    index=2,
    clients=C,
    dim=DIM,
    model=None,
    round=1,
    party=None,
    dtype=torch.float64,
):
    facts = Facts(clients, clients, dim, (3,))
    inbox = {"model": model or {}, **({} if bank is None else {"prototype": torch.as_tensor(bank)})}
    rng = Rng(0, "defense", torch.as_tensor(index if party is None else party), dtype, round=round)
    mine = {"prototype": torch.as_tensor(own, dtype=dtype)}
    return Client(
        torch.tensor(index), torch.tensor(9), round, facts, mine, {}, inbox, Net(Linear(), {}), rng
    )


# Eq. 1 to 3 ---------------------------------------------------------------------------------------
def losses(weights, w, x, bank, index, lam):
    """FedHide's Eq. 1, 2 and 3."""
    w, f = norm(w), norm(x @ weights)
    positive = np.mean([(1 - w @ one) ** 2 for one in f])
    negative = np.mean([(1 + w @ bank[c]) ** 2 for c in range(len(bank)) if c != index])
    return positive + lam * negative


def finite_differences(f, v, h=1e-6):
    out = np.zeros_like(v)
    for i in np.ndindex(v.shape):
        step = np.zeros_like(v)
        step[i] = h
        out[i] = (f(v + step) - f(v - step)) / (2 * h)
    return out


@pytest.mark.parametrize("name", ["fedhide", "fedgn", "fedcs"])
@pytest.mark.parametrize("lam", [0.0, 1.0, 10.0])
def test_equations_1_to_3_and_their_gradients(name, lam):
    weights, w, x, bank = rand(3, DIM), rand(DIM), rand(5, 3), norm(rand(C, DIM))
    theta, own = torch.tensor(weights, requires_grad=True), torch.tensor(w, requires_grad=True)
    me = client(own, bank)
    value = method(name, lam=lam).loss(
        Net(Linear(), {"w": theta}), Batch(torch.tensor(x), torch.zeros(5, dtype=torch.long)), me
    )
    assert float(value.detach()) == pytest.approx(losses(weights, w, x, bank, 2, lam), abs=1e-13)
    by_model, by_own = torch.autograd.grad(value, [theta, own])
    assert np.allclose(
        by_model, finite_differences(lambda v: losses(v, w, x, bank, 2, lam), weights), atol=1e-7
    )
    assert np.allclose(
        by_own, finite_differences(lambda v: losses(weights, v, x, bank, 2, lam), w), atol=1e-7
    )


def test_equations_1_to_3_by_hand():
    """w = (1, 0), f = (0, 1) and (1, 0); proxies (0, 1), (-1, 0), its own (1, 0): 1/2 and ((1+0)^2
    + (1-1)^2)/2 = 1/2.
    """
    bank = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    me = client(np.array([3.0, 0.0]), bank, index=1, clients=3, dim=2)
    net = Net(
        Linear(), {"w": torch.tensor([[0.0, 2.0], [5.0, 0.0], [0.0, 0.0]], dtype=torch.float64)}
    )
    batch = Batch(
        torch.tensor([[1.0, 0, 0], [0, 1.0, 0]], dtype=torch.float64), torch.tensor([1, 1])
    )
    assert float(method("fedhide", lam=1.0).loss(net, batch, me)) == pytest.approx(0.5 + 0.5)
    assert float(method("fedhide", lam=10.0).loss(net, batch, me)) == pytest.approx(0.5 + 5.0)
    assert float(method("fedaws").loss(net, batch, me)) == pytest.approx(0.5)


def test_the_network_learns_from_the_positive_loss_alone():
    theta = torch.tensor(rand(3, DIM), requires_grad=True)
    batch = Batch(torch.tensor(rand(5, 3)), torch.zeros(5, dtype=torch.long))
    grads = []
    for lam in (0.0, 10.0):
        value = method("fedhide", lam=lam).loss(
            Net(Linear(), {"w": theta}), batch, client(rand(DIM), norm(rand(C, DIM)))
        )
        grads.append(torch.autograd.grad(value, theta)[0])
    assert torch.equal(*grads)


# Eq. 4 --------------------------------------------------------------------------------------------
def mixed(w, bank, index, alpha, k):
    """FedHide's Eq. 4: w is of norm 1, its neighbours are the k nearest proxies of the others."""
    near = sorted((c for c in range(len(bank)) if c != index), key=lambda c: -(bank[c] @ w))[:k]
    return norm(alpha * w + (1 - alpha) * norm(sum(bank[c] for c in near)))


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_equation_4(alpha, k):
    for seed in range(5):
        w, bank = norm(rand(DIM, seed=seed)), norm(rand(C, DIM, seed=seed))
        sent = method("fedhide", alpha=alpha, k=k).uplink(client(7 * w, bank))["prototype"]
        assert np.allclose(sent, mixed(w, bank, 2, alpha, k), atol=1e-14)


def test_equation_4_by_hand():
    """w = (1, 0, 0, 0); the two nearest others are (.8, .6, 0, 0) and (.6, 0, .8, 0), summing to
    (1.4, .6, .8, 0), |.| = sqrt(2.96).
    """
    bank = np.array(
        [
            [0.8, 0.6, 0, 0],
            [0.6, 0, 0.8, 0],
            [1.0, 0, 0, 0],
            [0, 0, 0, 1.0],
            [-1.0, 0, 0, 0],
            [0, 1.0, 0, 0],
        ]
    )
    mix = np.array([0.5 + 0.5 * 1.4 / 2.96**0.5, 0.5 * 0.6 / 2.96**0.5, 0.5 * 0.8 / 2.96**0.5, 0])
    sent = method("fedhide", alpha=0.5, k=2).uplink(client([2.0, 0, 0, 0], bank))["prototype"]
    assert np.allclose(sent, mix / np.linalg.norm(mix), atol=1e-15)
    assert 0.906 < float(sent[0]) < 0.960


def test_with_alpha_one_the_true_prototype_is_sent():
    w = norm(rand(DIM))
    assert np.allclose(
        method("fedhide", alpha=1.0, k=3).uplink(client(w, norm(rand(C, DIM))))["prototype"],
        w,
        atol=1e-15,
    )
    assert method("fedhide", alpha=0.1).undefended() == method("fedhide", alpha=1.0)


def test_its_own_stale_proxy_is_no_neighbour_and_no_negative():
    w, bank = norm(rand(DIM)), norm(rand(C, DIM))
    other = bank.copy()
    other[2] = w  # nearest of all, and itself
    hide = method("fedhide", alpha=0.1, k=3)
    assert torch.equal(*(hide.uplink(client(w, b))["prototype"] for b in (bank, other)))
    batch = Batch(torch.tensor(rand(5, 3)), torch.zeros(5, dtype=torch.long))
    net = Net(Linear(), {"w": torch.tensor(rand(3, DIM))})
    assert torch.equal(*(hide.loss(net, batch, client(w, b)) for b in (bank, other)))


# Eq. 5, 6 -----------------------------------------------------------------------------------------
MANY = 1000


def proxies(name, w, **params):
    """(MANY, dim): what a client whose true prototype is ``w`` would send in as many rounds."""
    defense, w = method(name, **params), torch.as_tensor(w)
    return np.stack([defense.proxy(w, client(w, dim=len(w), round=t)).numpy() for t in range(MANY)])


@pytest.mark.parametrize("dim", [32, 512])
@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.5])
def test_fedgn_cosine_law(dim, sigma):
    """Eq. 5: E[cos] is about 1 / sqrt(1 + sigma^2 dim)."""
    w = norm(rand(dim))
    sent = proxies("fedgn", w, sigma=sigma)
    assert np.allclose(np.linalg.norm(sent, axis=1), 1, atol=1e-12)
    cosine = sent @ w
    assert cosine.mean() == pytest.approx(1 / np.sqrt(1 + sigma**2 * dim), abs=0.02)


def test_fedgn_is_equation_5():
    w = norm(rand(DIM))
    me = client(w)
    noise = me.rng.normal("noise", DIM).numpy()
    assert np.allclose(
        method("fedgn", sigma=0.3).uplink(me)["prototype"], norm(w + 0.3 * noise), atol=1e-15
    )
    assert np.allclose(method("fedgn", sigma=0.0).uplink(me)["prototype"], w, atol=1e-15)


@pytest.mark.parametrize("cosine", [-1.0, -0.3, 0.0, 0.1, 0.5, 1.0])
def test_fedcs_cosine_is_exact(cosine):
    """Eq. 6."""
    defense = method("fedcs", cos_theta=cosine)
    for dim in (2, 32, 512):
        w = norm(rand(dim))
        for t in range(5):
            v = defense.proxy(torch.as_tensor(w), client(w, dim=dim, round=t))
            assert float(v @ torch.as_tensor(w)) == pytest.approx(cosine, abs=1e-12)
            assert float(v.norm()) == pytest.approx(1, abs=1e-12)
            single = torch.as_tensor(w).float()
            again = defense.proxy(single, client(w, dim=dim, round=t, dtype=torch.float32))
            assert float(again @ single) == pytest.approx(cosine, abs=1e-6)


def test_fedcs_direction_is_uniform():
    """Around w, every direction is as likely: in three dimensions the angle is uniform; in eight,
    each coordinate follows its law.
    """
    w = np.array([0.0, 0.0, 1.0])
    sent = proxies("fedcs", w, cos_theta=0.4)
    angle = np.arctan2(sent[:, 1], sent[:, 0])
    assert stats.kstest((angle + np.pi) / (2 * np.pi), "uniform").pvalue > 0.001
    dim = 8
    w = norm(rand(dim))
    sent = proxies("fedcs", w, cos_theta=0.4)
    rest = norm(sent - (sent @ w)[:, None] * w)
    basis = np.linalg.svd(w[None])[2][1:]  # seven directions at right angles to w
    # (1 + x) / 2 of a uniform direction in n dimensions is Beta((n - 1) / 2, (n - 1) / 2).
    for one in basis:
        assert (
            stats.kstest((rest @ one + 1) / 2, stats.beta((dim - 2) / 2, (dim - 2) / 2).cdf).pvalue
            > 0.001
        )


@pytest.mark.parametrize("name", ["fedgn", "fedcs"])
def test_noise_is_fresh_in_every_round_and_at_every_client(name):
    w, defense = norm(rand(DIM)), method(name)
    sent = [
        defense.proxy(torch.as_tensor(w), client(w, index=i, round=t))
        for i in (0, 1)
        for t in (1, 2)
    ]
    assert len({tuple(v.tolist()) for v in sent}) == 4


# Algorithm 1 --------------------------------------------------------------------------------------
def told(name, rounds=1, **params):
    """Every step of a run in order: (function, who, kinds sent)."""
    fed = federation(name, "loop", **params)
    log, client_, server, train = [], fed.runner.client, fed.runner.server, fed.runner.train

    def note(what, who, kinds):
        if (what, who) != tuple(log[-1][:2] if log else ()):
            log.append((what, who, tuple(sorted(kinds))))

    def on_server(function, *args):
        out = server(function, *args)
        note(function, "server", out[0])
        return out

    def on_client(function, *args, **more):
        out = client_(function, *args, **more)
        note(function, "clients", out["sent"])
        return out

    def on_train(function, *args, **more):
        out = train(function, *args, **more)
        note(function, "clients", ["update"])
        return out

    fed.runner.server, fed.runner.client, fed.runner.train = on_server, on_client, on_train
    fed.begin()
    for _ in range(rounds):
        fed.step()
    return fed, log


@pytest.mark.parametrize("name", ["fedhide", "fedgn", "fedcs"])
def test_algorithm_1_order_of_messages(name):
    """Model and bank down; one local step; the update up, then a proxy made from the *new*
    prototype; the average; the bank.
    """
    fed, log = told(name, **ONE_STEP, fraction=0.3)
    assert log == [
        ("downlink", "server", ("model", "prototype")),
        ("loss", "clients", ("update",)),
        ("uplink", "clients", ("prototype",)),
        ("aggregate", "server", ()),
    ]
    sent = fed.received["prototype"]
    assert torch.equal(fed.state["bank"][fed.chosen], sent)
    fresh = federation(name, "loop", **ONE_STEP, fraction=0.3)
    unchosen = [i for i in range(10) if i not in fed.chosen.tolist()]
    assert torch.equal(fed.state["bank"][unchosen], fresh.state["bank"][unchosen])
    assert torch.equal(
        fed.columns["own"]["prototype"][unchosen], fresh.columns["own"]["prototype"][unchosen]
    )
    assert not torch.equal(
        fed.columns["own"]["prototype"][fed.chosen], fresh.columns["own"]["prototype"][fed.chosen]
    )


def test_the_proxy_of_algorithm_1_is_made_after_the_step():
    fed, _ = told("fedhide", alpha=1.0, **ONE_STEP)
    own = fed.columns["own"]["prototype"].numpy()
    assert np.allclose(fed.received["prototype"], norm(own), atol=1e-14)


def test_a_round_of_fedavg_is_one_step_on_the_pooled_loss(data):
    """One step of everybody with plain averaging is one step on the mean of the clients' losses."""
    fed = federation("fedavg", "loop", lr=0.3, batch=8)
    before = {k: v.clone() for k, v in fed.model.items()}
    plans = []
    train = fed.runner.train
    fed.runner.train = lambda name, t, each, shared, batches, **more: (
        plans.append(batches[0]) or train(name, t, each, shared, batches, **more)
    )
    fed.begin()
    fed.step()
    leaves = {k: v.requires_grad_() for k, v in before.items()}
    total = (
        sum(torch.nn.functional.cross_entropy(Net(fed.module, leaves)(b.x), b.y) for b in plans)
        / 10
    )
    grads = dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))
    assert (
        max(
            float((fed.model[k] - (v.detach() - 0.3 * grads[k])).abs().max())
            for k, v in leaves.items()
        )
        < 1e-14
    )


def test_rates_decay_by_the_round():
    one, two = (federation("fedavg", "loop", lr=0.5, decay=d) for d in (1.0, 0.5))
    for fed in (one, two):
        fed.begin()
        fed.step()
    assert all(torch.equal(one.model[k], two.model[k]) for k in one.model)  # round 1: the full rate
    at = {k: v.clone() for k, v in two.model.items()}
    one.step()
    two.step()
    full, half = ({k: f.model[k] - at[k] for k in at} for f in (one, two))
    assert max(float((half[k] - 0.5 * full[k]).abs().max()) for k in at) < 1e-15


# FedAwS -------------------------------------------------------------------------------------------
def server(bank, sent):
    facts = Facts(len(bank), len(bank), bank.shape[1], (3,))
    n = torch.arange(len(bank))
    rng = Rng(0, "defense", torch.tensor(-1), torch.float64)
    inbox = {"prototype": sent, "update": {"w": torch.zeros(len(bank), 2, dtype=torch.float64)}}
    share = torch.full((len(bank),), 1 / len(bank), dtype=torch.float64)
    return Server(
        1,
        facts,
        {"w": torch.zeros(2, dtype=torch.float64)},
        {"bank": bank},
        n,
        rng,
        Linear(),
        inbox,
        n,
        share,
    )


def spread_out(w, margin, rate):
    """Yu et al., Eq. 6: a step on the sum over pairs c != c' of max(0, margin - |w_c - w_c'|)^2,
    each pair once.
    """
    grad = np.zeros_like(w)
    for a in range(len(w)):
        for b in range(len(w)):
            gap = np.linalg.norm(w[a] - w[b])
            if a != b and gap < margin:
                grad[a] += -2 * (margin - gap) * (w[a] - w[b]) / gap
    return norm(w - rate * grad)


def test_fedaws_spreads_the_prototypes_out():
    for seed in range(5):
        w = norm(np.ones(DIM) + 0.3 * rand(C, DIM, seed=seed))  # close together
        s = server(torch.zeros(C, DIM, dtype=torch.float64), torch.as_tensor(w))
        method("fedaws").aggregate(s)
        new = s.state["bank"]
        assert np.allclose(new, spread_out(w, 1.4, 0.05), atol=1e-13)
        assert float(torch.pdist(new).min()) > float(torch.pdist(torch.as_tensor(w)).min())
    apart = np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])
    s = server(torch.as_tensor(apart), torch.as_tensor(apart))
    method("fedaws").aggregate(s)
    assert np.allclose(s.state["bank"], apart)


def test_fedaws_gives_each_client_its_own_row_only():
    fed = federation("fedaws", "loop", fraction=0.4)
    seen, client_ = {}, fed.runner.client

    def noting(function, t, each, shared, *args, **more):
        if function == "prepare":
            assert "prototype" not in shared
            seen[int(each["index"])] = each["inbox"]["prototype"]
        return client_(function, t, each, shared, *args, **more)

    fed.runner.client = noting
    bank = fed.state["bank"].clone()
    fed.begin()
    fed.step()
    assert sorted(seen) == fed.chosen.tolist()
    assert all(torch.equal(v, bank[i]) for i, v in seen.items())
    assert all(v.shape == (8,) for v in seen.values())


def test_fedaws_sends_the_true_prototype():
    w = rand(DIM)
    assert np.allclose(method("fedaws").uplink(client(w))["prototype"], norm(w), atol=1e-15)


# FedProx ------------------------------------------------------------------------------------------
def test_fedprox_adds_the_proximal_gradient():
    """d/dtheta [loss + mu/2 |theta - received|^2] = d loss + mu (theta - received)."""
    received, now = (
        torch.tensor(rand(3, DIM)),
        torch.tensor(rand(3, DIM, seed=1), requires_grad=True),
    )
    batch = Batch(torch.tensor(rand(5, 3)), torch.tensor([0, 1, 2, 3, 0]))
    me = client(rand(DIM), model={"w": received, "steps": torch.tensor(4)})
    net = Net(Linear(), {"w": now})
    both = [
        torch.autograd.grad(method("fedprox", mu=mu).loss(net, batch, me), now)[0]
        for mu in (0.0, 0.7)
    ]
    assert torch.allclose(both[1] - both[0], 0.7 * (now.detach() - received), atol=1e-14, rtol=0)
    plain = torch.autograd.grad(method("fedavg").loss(net, batch, me), now)[0]
    assert torch.equal(plain, both[0])


def test_fedprox_stays_nearer_to_what_it_received():
    far = []
    for mu in (0.0, 5.0):
        fed = federation("fedprox", mu=mu, steps=5, lr=0.1)
        before = {k: v.clone() for k, v in fed.model.items()}
        fed.begin()
        fed.step()
        far.append(sum(float((fed.model[k] - v).square().sum()) for k, v in before.items()))
    assert far[1] < 0.6 * far[0]


# who claims to hide something ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "params", "hides"),
    [
        ("fedavg", {}, False),
        ("fedprox", {}, False),
        ("fedaws", {}, False),
        ("fedgn", {"sigma": 0.0}, False),
        ("fedgn", {"sigma": 0.1}, True),
        ("fedcs", {"cos_theta": 1.0}, False),
        ("fedcs", {"cos_theta": 0.5}, True),
        ("fedhide", {"alpha": 1.0}, False),
        ("fedhide", {"alpha": 0.1}, True),
    ],
)
def test_references_and_defenses(name, params, hides):
    assert method(name, **params).hides() is hides


@pytest.mark.parametrize("name", sorted(registry.names("defenses")))
def test_undefended_is_a_fixed_point_and_changes_no_loss(name):
    """Undefended twice is undefended; the class stays, and so does everything that
    training reads.
    """
    defense = method(name)
    bare = defense.undefended()
    assert type(bare) is type(defense)
    assert bare.undefended() == bare
    same = (
        "average",
        "select",
        "fraction",
        "batch",
        "steps",
        "epochs",
        "optimizer",
        "lr",
        "own_lr",
        "decay",
    )
    assert [getattr(bare, k) for k in same] == [getattr(defense, k) for k in same]


@pytest.mark.parametrize("name", sorted(registry.names("defenses")))
def test_every_method_cites_its_paper_and_describes_its_fields(name):
    kind = registry.load_plugin("defenses", name)
    assert kind.paper
    assert kind.__doc__.strip()
    assert [k for k, f in kind.model_fields.items() if not f.description] == []


@pytest.mark.parametrize("name", ["fedhide", "fedgn", "fedcs", "fedaws"])
def test_true_prototypes_are_what_predicts_and_what_is_secret(name):
    defense, w, x = method(name), rand(DIM), torch.tensor(rand(5, 3))
    me, net = client(w), Net(Linear(), {"w": torch.tensor(rand(3, DIM))})
    assert np.allclose(defense.secrets(me)["prototype"], norm(w), atol=1e-15)
    assert np.allclose(defense.predict(net, x, me), norm(net(x).numpy()) @ norm(w), atol=1e-14)


def test_more_neighbours_than_there_are_is_refused():
    with pytest.raises(UsageError, match="k = 10, but each of 10 clients has 9 neighbours"):
        federation("fedhide", k=10)
