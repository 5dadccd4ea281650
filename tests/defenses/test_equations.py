"""Every equation of FedHide's and FedAwS's, from numbers worked out by hand, in a few lines of
NumPy, or by its exact law.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.federations import federation, gap, method
from scipy import stats

from leakbench import UsageError
from leakbench.attacking.guess import Guess
from leakbench.base import registry
from leakbench.base.streams import Rng
from leakbench.federation.net import Net
from leakbench.federation.parties import Batch, Client, Facts, Server
from leakbench.metrics.prototypes import P_LEAK
from leakbench.scoring.truth import Answer


class Linear(torch.nn.Module):
    """g(x) = x W, so that embeddings are written down at once."""

    def __init__(self, rows, dim):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(rows, dim, dtype=torch.float64))

    def forward(self, x, start=None, stop=None):
        return x @ self.w


def norm(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def rand(*shape, seed=0):
    return np.random.default_rng([seed, 7, *shape]).normal(size=shape)


def tensor(v):
    return torch.as_tensor(np.asarray(v, dtype=float))


def client(own, bank, *, index=0, round=1, seed=0):
    n, dim = np.shape(bank)
    rng = Rng(seed, "defense", torch.tensor(index), torch.float64, round=round)
    inbox = {"model": {}, "prototype": tensor(bank)}
    return Client(
        torch.tensor(index),
        torch.tensor(9),
        round,
        Facts(n, n, dim, (2,)),
        {"prototype": own},
        {},
        inbox,
        Net(None, {}),
        rng,
    )


# Eq. 1, 2, 3 --------------------------------------------------------------------------------------
BANK = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]  # of clients 0 (its own, stale), 1 and 2
F = [[1.0, 0.0], [0.0, 2.0]]  # two embeddings, of lengths 1 and 2


def by_hand(lam):
    """L of client 0 with w = (3/5, 4/5), stored at ten times that, and its gradients."""
    own, weights = tensor([6.0, 8.0]).requires_grad_(), tensor(F).requires_grad_()
    batch = Batch(torch.eye(2, dtype=torch.float64), torch.zeros(2, dtype=torch.long))
    value = method("fedhide", lam=lam, k=1).loss(
        Net(Linear(2, 2), {"w": weights}), batch, client(own, BANK)
    )
    return float(value.detach()), *(g.numpy() for g in torch.autograd.grad(value, [own, weights]))


def test_equation_2_by_hand():
    """w . f = 3/5 and 4/5: L_pos = (0.4^2 + 0.2^2) / 2 = 0.1."""
    assert by_hand(0.0)[0] == pytest.approx(0.1, abs=1e-15)


def test_equation_3_by_hand():
    """w . proxies = 4/5 and -3/5, its own left out: L_neg = (1.8^2 + 0.4^2) / 2 = 1.7; the
    gradients below are its own.
    """
    assert by_hand(1.0)[0] - by_hand(0.0)[0] == pytest.approx(1.7, abs=1e-14)
    assert by_hand(10.0)[0] == pytest.approx(0.1 + 17, abs=1e-14)  # Eq. 1


def test_the_gradient_of_equation_1_by_hand():
    """d/dw: mean of -2 (1 - w.f) f = (-0.4, -0.2), and of 2 (1 + w.p) p = (-0.4, 1.8), along (-4,
    3)/5, over the length 10.
    """
    along = np.array([-0.8, 0.6])
    assert np.allclose(by_hand(0.0)[1], along @ [-0.4, -0.2] * along / 10, atol=1e-15)
    # = 14.2 along / 10.
    assert np.allclose(by_hand(10.0)[1], along @ [-4.4, 17.8] * along / 10, atol=1e-14)
    # d/df at length 2: mean halves, f is divided by its norm, and only what is at right angles to f
    # counts.
    expected = np.array([[0, -0.4 * 0.8], [-0.2 * 0.6 / 2, 0]])
    for lam in (0.0, 10.0):
        assert np.allclose(by_hand(lam)[2], expected, atol=1e-15)


# Eq. 4 --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("index", [0, 4])
@pytest.mark.parametrize(
    ("alpha", "k"), [(0.01, 5), (0.1, 5), (0.1, 10), (0.5, 1), (0.0, 20), (1.0, 3)]
)
def test_equation_4(alpha, k, index):
    """unit(alpha w + (1 - alpha) unit(sum of the k nearest by cosine)), a client's own stale proxy
    left out however near it is.
    """
    w, bank = norm(rand(8)), norm(rand(30, 8))
    bank[index] = w
    near = sorted((c for c in range(30) if c != index), key=lambda c: -(w @ bank[c]))[:k]
    wanted = norm(alpha * w + (1 - alpha) * norm(sum(bank[c] for c in near)))
    sent = method("fedhide", alpha=alpha, k=k).uplink(client(tensor(5 * w), bank, index=index))[
        "prototype"
    ]
    assert np.allclose(sent, wanted, atol=1e-14)
    # It would differ with its own proxy among the neighbours, or with the farthest ones.
    if alpha < 1:
        for wrong in ([index, *near[: k - 1]], sorted(range(30), key=lambda c: w @ bank[c])[:k]):
            assert not np.allclose(
                sent, norm(alpha * w + (1 - alpha) * norm(sum(bank[c] for c in wrong))), atol=1e-3
            )


# Eq. 5, 6 -----------------------------------------------------------------------------------------
DRAWS = 600


def proxies(name, w, **params):
    """(DRAWS, dim): what a client with the true prototype ``w`` sends in as many rounds."""
    defense, own = method(name, **params), tensor(3 * w)
    return np.stack(
        [defense.uplink(client(own, w[None], round=t))["prototype"].numpy() for t in range(DRAWS)]
    )


@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.3, 0.4, 0.5])
def test_equation_5_mean_cosine(sigma):
    """At d = 512 within four standard errors of 1 / sqrt(1 + sigma^2 d)."""
    w = norm(rand(512))
    cosine = proxies("fedgn", w, sigma=sigma) @ w
    error = cosine.std(ddof=1) / DRAWS**0.5
    assert abs(cosine.mean() - 1 / np.sqrt(1 + sigma**2 * 512)) < 4 * error
    # A fifth more noise would be seen.
    assert abs(cosine.mean() - 1 / np.sqrt(1 + (1.2 * sigma) ** 2 * 512)) > 4 * error


@pytest.mark.parametrize(("sigma", "dim"), [(0.1, 512), (0.5, 32), (2.0, 5)])
def test_equation_5_exact_law(sigma, dim):
    """cos sqrt((d-1) / (1 - cos^2)) has Student's t distribution with d - 1 degrees of freedom and
    non-centrality 1 / sigma.
    """
    w = norm(rand(dim))
    sent = proxies("fedgn", w, sigma=sigma)
    assert np.allclose(np.linalg.norm(sent, axis=1), 1, atol=1e-12)
    cosine = sent @ w
    t = cosine * np.sqrt((dim - 1) / (1 - cosine**2))
    assert stats.kstest(t, stats.nct(dim - 1, 1 / sigma).cdf).pvalue > 0.001
    assert stats.kstest(t, stats.nct(dim - 1, 1 / (1.3 * sigma)).cdf).pvalue < 0.001


@pytest.mark.parametrize("cosine", [-1.0, -0.5, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.9, 1.0])
def test_equation_6_cosine_is_exact(cosine):
    w = norm(rand(512))
    sent = proxies("fedcs", w, cos_theta=cosine)
    assert np.abs(sent @ w - cosine).max() < 1e-6
    assert np.abs(np.linalg.norm(sent, axis=1) - 1).max() < 1e-6


@pytest.mark.parametrize("dim", [3, 10, 40])
def test_equation_6_direction_is_uniform(dim):
    """What is at right angles to w: along each fixed axis (1 + x)/2 is Beta(m/2, m/2), m = d - 2;
    its mean vanishes as it should.
    """
    w = norm(rand(dim))
    sent = proxies("fedcs", w, cos_theta=0.3)
    axes = np.linalg.svd(w[None])[2][1:]  # d - 1 directions at right angles to w
    x = norm(sent - np.outer(sent @ w, w)) @ axes.T
    law = stats.beta((dim - 2) / 2, (dim - 2) / 2).cdf
    p = [stats.kstest((1 + column) / 2, law).pvalue for column in x.T]
    assert min(p) > 0.01 / len(p)
    assert stats.chi2(dim - 1).sf((dim - 1) * DRAWS * np.square(x.mean(0)).sum()) > 0.001
    # A slight lean would be seen.
    assert stats.kstest((1 + norm(x + 0.2)[:, 0]) / 2, law).pvalue < 0.001


# Eq. 17 -------------------------------------------------------------------------------------------
def p_leak(true, shown, distance):
    """The metric's mean over clients, each scored by its own message."""
    run = SimpleNamespace(meta={"distance": distance})
    everyone = {"everyone": {"prototype": tensor(true)}}
    truth = SimpleNamespace(run=run, round=lambda t: everyone, memo={})
    each = [
        P_LEAK.score(Guess(f"client/{c}", 4, {"prototype": tensor(v)}), Answer(truth, c, 4))
        for c, v in enumerate(shown)
    ]
    return np.mean([score.value for (score,) in each])


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, 5.0])
def test_equation_17(noise):
    """The share of clients c with argmax over c' of w_c' . shown_c = c; of Euclidean methods the
    nearest by distance.
    """
    true = rand(40, 6)
    shown = true + noise * rand(40, 6, seed=1)
    hit = [np.argmax(norm(true) @ norm(v)) == c for c, v in enumerate(shown)]
    assert p_leak(true, shown, "cosine") == pytest.approx(np.mean(hit))
    near = [np.argmin(np.linalg.norm(true - v, axis=1)) == c for c, v in enumerate(shown)]
    assert p_leak(true, shown, "euclidean") == pytest.approx(np.mean(near))
    assert np.mean(hit) != np.mean(near) or noise in (0.0, 5.0)


def test_equation_17_ties_share():
    """Prototypes 0, 1 and 2 are the same: each is named by a third; 3 is named rightly, 4 shows the
    direction of 3.
    """
    true = [[1.0, 0], [1.0, 0], [1.0, 0], [0, 1.0], [-1.0, 0]]
    assert p_leak(
        true, [[2.0, 0], [1, 0.1], [1, -0.1], [0, 3.0], [0, 1.0]], "cosine"
    ) == pytest.approx((3 / 3 + 1 + 0) / 5)


# FedAwS: Eq. 6 of Yu et al., Eq. 2 of FedMetric ---------------------------------------------------
def served(w, **params):
    n = len(w)
    rng = Rng(0, "defense", torch.tensor(-1), torch.float64)
    inbox = {"prototype": tensor(w), "update": {"w": torch.zeros(n, 2, dtype=torch.float64)}}
    who, share = torch.arange(n), torch.full((n,), 1 / n, dtype=torch.float64)
    s = Server(
        1,
        Facts(n, n, w.shape[1], (2,)),
        {"w": torch.zeros(2)},
        {"bank": torch.zeros(w.shape)},
        who,
        rng,
        Linear(2, 2),
        inbox,
        who,
        share,
    )
    s.state["bank"] = torch.zeros(w.shape, dtype=torch.float64)
    method("fedaws", **params).aggregate(s)
    return s.state["bank"]


def pushed(w, margin, rate, k):
    """Each prototype down the gradient of its k nearest's max(0, margin - distance)^2, then to norm
    1.
    """
    out = w.copy()
    for c in range(len(w)):
        far = np.linalg.norm(w - w[c], axis=1)
        for other in [o for o in np.argsort(far) if o != c][:k]:
            out[c] += rate * 2 * max(0, margin - far[other]) * (w[c] - w[other]) / far[other]
    return norm(out)


@pytest.mark.parametrize("lam", [0.5, 1.0, 10.0])
@pytest.mark.parametrize("top_k", [0, 1, 3, 11])
def test_fedaws_server_step(top_k, lam):
    """All pairs, or each prototype from its nearest alone; all others are all pairs."""
    w = norm(np.ones(5) + 0.4 * rand(12, 5))
    new = served(w, top_k=top_k, lam=lam, margin=0.8, server_lr=0.02)
    assert np.allclose(new, pushed(w, 0.8, lam * 0.02, top_k or 11), atol=1e-13)
    others = {0: 3, 1: 2, 3: 11, 11: 3}
    assert not np.allclose(new, pushed(w, 0.8, lam * 0.02, others[top_k]), atol=1e-4)


def test_fedaws_by_hand():
    """At right angles, distance sqrt 2, margin 2: each moves by 2 (2 - sqrt 2) along (1, -1) / sqrt
    2, times 0.25.
    """
    a = 1 + 0.25 * 2 * (2 - 2**0.5) / 2**0.5
    b = 1 - a
    assert np.allclose(
        served(np.eye(2), lam=0.5, server_lr=0.5, margin=2.0),
        norm(np.array([[a, b], [b, a]])),
        atol=1e-15,
    )


def test_fedaws_with_weight_one_is_what_it_was_to_the_bit():
    w = tensor(norm(np.ones(5) + 0.4 * rand(12, 5))).requires_grad_()
    (grad,) = torch.autograd.grad((1.4 - torch.pdist(w)).clamp(min=0).square().sum(), w)
    v = w.detach() - 0.05 * grad
    assert torch.equal(
        served(w.detach().numpy(), lam=1.0), v / v.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    )
    assert torch.equal(
        served(w.detach().numpy(), lam=0.0), w.detach() / w.detach().norm(dim=-1, keepdim=True)
    )


def test_fedaws_clients_never_see_the_weight():
    one, ten = (federation("fedaws", "loop", lam=lam, server_lr=0.05 / lam) for lam in (1.0, 10.0))
    for fed in (one, ten):
        fed.begin()
        fed.step()
        fed.step()
    assert gap(one, ten) < 1e-12


def test_fedaws_more_neighbours_than_there_are():
    with pytest.raises(UsageError, match="top_k = 10, but each of 10 prototypes has 9 others"):
        federation("fedaws", top_k=10)
    federation("fedaws", top_k=9)


# how prototypes are stored ------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["fedhide", "fedgn", "fedcs"])
def test_stored_at_norm_one_the_rate_is_angular(name):
    """w - rate * gradient at norm 1, then back to it; stored as drawn the same step turns w by 1 /
    |w|^2 as much.
    """
    unit, drawn = (
        federation(name, "loop", stored=s, own_lr=0.001, lr=1e-9) for s in ("unit", "as_drawn")
    )
    first = [fed.columns["own"]["prototype"].clone() for fed in (unit, drawn)]
    assert torch.allclose(first[0], torch.nn.functional.normalize(first[1], dim=1), atol=1e-15)
    for fed in (unit, drawn):
        fed.begin()
        fed.step()
    now = [fed.columns["own"]["prototype"] for fed in (unit, drawn)]
    assert torch.allclose(now[0].norm(dim=1), torch.ones(10, dtype=torch.float64), atol=1e-14)
    assert float((now[1].norm(dim=1) - first[1].norm(dim=1)).abs().max()) < 1e-3
    turned = [(torch.nn.functional.normalize(v, dim=1) - first[0]).norm(dim=1) for v in now]
    assert torch.allclose(turned[0], turned[1] * first[1].square().sum(1), rtol=0.02)


def test_stored_as_drawn_is_the_default_and_keeps_its_length():
    assert {
        n: registry.load_plugin("defenses", n)().stored
        for n in ("fedhide", "fedgn", "fedcs", "fedaws")
    } == dict.fromkeys(("fedhide", "fedgn", "fedcs", "fedaws"), "as_drawn")
    assert (
        float((federation("fedhide").columns["own"]["prototype"].norm(dim=1) - 1).abs().min())
        > 0.01
    )
