"""FLea, FedMix and FedData against FLea's equations, written again in a few lines of NumPy."""

import numpy as np
import pytest
import torch
from helpers.federations import ONE_STEP, federation, gap, method, run

from defenses._correlation import plain_root, squared
from leakbench.base.errors import UsageError
from leakbench.base.streams import Rng
from leakbench.federation.net import Net
from leakbench.federation.optimizer import Optimizer
from leakbench.federation.parties import Batch, Client, Facts
from leakbench.models.stages import Stages

B, IN, MID, K = 5, 4, 3, 3


def rand(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def two_stages():
    first = torch.nn.Sequential(torch.nn.Linear(IN, MID, bias=False), torch.nn.Tanh())
    return Stages({"first": first, "head": torch.nn.Linear(MID, K, bias=False)}).double()


def party(inbox, *, round=2):
    rng = Rng(3, "defense", torch.tensor(1), torch.float64, round=round).at("loss")
    return Client(
        torch.tensor(1),
        torch.tensor(9),
        round,
        Facts(4, K, K, (IN,)),
        {},
        {},
        inbox,
        Net(two_stages(), {}),
        rng,
    )


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def eq8(x, f):
    """By its definition: squared distances one by one, centred twice, mean products."""

    def centred(v):
        d = np.array([[((a - b) ** 2).sum() for b in v] for a in v])
        return d - d.mean(0) - d.mean(1, keepdims=True) + d.mean()

    a, b = centred(x), centred(f)
    return (a * b).mean() / np.sqrt((a * a).mean() * (b * b).mean())


def szekely(x, f):
    """dCov / sqrt(dVar(x) dVar(f)) on plain distances, each a root of a mean product, with the
    code's 1e-7 inside every root.
    """

    def centred(v):
        d = np.array([[np.sqrt(max(((a - b) ** 2).sum(), 1e-7)) for b in v] for a in v])
        return d - d.mean(0) - d.mean(1, keepdims=True) + d.mean()

    a, b = centred(x), centred(f)
    cov, var_x, var_f = (np.sqrt((u * v).mean() + 1e-7) for u, v in ((a, b), (a, a), (b, b)))
    return cov / (np.sqrt(var_x + 1e-7) * np.sqrt(var_f + 1e-7))


def hot(y):
    return np.eye(K)[y]


def weights(seed):
    return {"first.0.weight": rand(MID, IN, seed=seed), "head.weight": rand(K, MID, seed=seed)}


def tensors(named, grad=False):
    return {k: torch.tensor(v, requires_grad=grad) for k, v in named.items()}


def draws(me, buffer):
    return me.rng.integers("partner", buffer, B).numpy(), me.rng.beta("mix", 2, B).numpy()[:, None]


def paper(w, glob, x, y, buffer, labels, me, lam1, lam2):
    """FLea, Eq. 2 to 6 and 8."""
    f = np.tanh(x @ w["first.0.weight"].T)
    mixed, target = f, hot(y)
    if buffer is not None:
        j, beta = draws(me, len(labels))
        mixed, target = (
            beta * f + (1 - beta) * buffer[j],
            beta * hot(y) + (1 - beta) * hot(labels[j]),
        )
    p, q = softmax(mixed @ w["head.weight"].T), softmax(mixed @ glob["head.weight"].T)
    classify = np.mean([-(t * np.log(r)).sum() for t, r in zip(target, p, strict=True)])
    distil = np.mean([(r * np.log(r / s)).sum() for r, s in zip(p, q, strict=True)])
    return classify + lam1 * distil + lam2 * eq8(x, f)


def released(w, glob, x, y, buffer, labels, me):
    """The authors' code: CE(own) + CE(mixed) + KL(global || local) on the buffer + a R."""
    f, a = np.tanh(x @ w["first.0.weight"].T), 3 - 0.1 * (me.round - 1)
    own = softmax(f @ w["head.weight"].T)
    total = np.mean(-np.log(own[np.arange(B), y])) + a * szekely(x, f)
    if buffer is None:
        q = softmax(f @ glob["head.weight"].T)
        return total + 0.5 * np.mean((q * np.log(q / own)).sum(1))
    j, beta = draws(me, len(labels))
    p = softmax((beta * f + (1 - beta) * buffer[j]) @ w["head.weight"].T)
    q, r = softmax(buffer[j] @ glob["head.weight"].T), softmax(buffer[j] @ w["head.weight"].T)
    target = beta * hot(y) + (1 - beta) * hot(labels[j])
    return total + np.mean(-(target * np.log(p)).sum(1)) + np.mean((q * np.log(q / r)).sum(1))


def slopes(f, w, h=1e-6):
    out = {k: np.zeros_like(v) for k, v in w.items()}
    for k, v in w.items():
        for i in np.ndindex(v.shape):
            up, down = (
                {
                    **w,
                    k: (
                        v
                        + s
                        * h
                        * (np.arange(v.size).reshape(v.shape) == np.ravel_multi_index(i, v.shape))
                    ),
                }
                for s in (1, -1)
            )
            out[k][i] = (f(up) - f(down)) / (2 * h)
    return out


def check(name, reference, params, inbox, round=2):
    """Value and gradient of the method's loss against ``reference(w, me)``."""
    w, x, y = weights(1), rand(B, IN), np.array([0, 2, 1, 1, 0])
    me, leaves = party(inbox, round=round), tensors(w, grad=True)
    loss = method(name, **params).loss(
        Net(two_stages(), leaves), Batch(torch.tensor(x), torch.tensor(y)), me
    )
    assert float(loss.detach()) == pytest.approx(reference(w, x, y, me), abs=1e-12)
    loss.backward()
    expected = slopes(lambda v: reference(v, x, y, me), w)
    for k, v in leaves.items():
        assert np.allclose(v.grad, expected[k], atol=2e-7), k


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("lam1", "lam2"), [(1.0, 3.0), (0.0, 0.0), (2.0, 0.0), (0.0, 1.0)])
def test_fleas_equations_and_their_gradients(shared, lam1, lam2):
    glob, buffer, labels = weights(2), rand(7, MID, seed=3), np.array([2, 2, 1, 0, 0, 1, 2])
    inbox = {"model": tensors(glob)} | (
        {"features": torch.tensor(buffer), "labels": torch.tensor(labels)} if shared else {}
    )

    def reference(w, x, y, me):
        return paper(w, glob, x, y, buffer if shared else None, labels, me, lam1, lam2)

    check("flea", reference, {"lam1": lam1, "lam2": lam2}, inbox, round=2 if shared else 1)


@pytest.mark.parametrize("round", [1, 2, 19])
def test_the_released_variants_loss_and_its_gradient(round):
    glob, buffer, labels = weights(2), rand(7, MID, seed=3), np.array([2, 2, 1, 0, 0, 1, 2])
    inbox = {"model": tensors(glob)} | (
        {"features": torch.tensor(buffer), "labels": torch.tensor(labels)} if round > 1 else {}
    )

    def reference(w, x, y, me):
        return released(w, glob, x, y, buffer if round > 1 else None, labels, me)

    check(
        "flea", reference, {"variant": "released", "correlation": "plain_root"}, inbox, round=round
    )


@pytest.mark.parametrize("per", ["batch", "example"])
def test_fedmix_trains_on_mixtures_with_means(per):
    means, labels = rand(6, IN, seed=4), softmax(rand(6, K, seed=5))

    def reference(w, x, y, me):
        j = me.rng.integers("partner", 6, B).numpy()
        beta = me.rng.beta("mix", 2, *(() if per == "batch" else (B,))).numpy()
        beta = beta if per == "batch" else beta[:, None]
        target = beta * hot(y) + (1 - beta) * labels[j]
        p = softmax(
            np.tanh((beta * x + (1 - beta) * means[j]) @ w["first.0.weight"].T) @ w["head.weight"].T
        )
        return np.mean(-(target * np.log(p)).sum(1))

    check(
        "fedmix",
        reference,
        {"per": per},
        {"model": {}, "mean_data": torch.tensor(means), "labels": torch.tensor(labels)},
    )


def test_feddata_trains_on_own_and_shared_examples_together():
    data, labels = rand(8, IN, seed=4), np.array([0, 1, 2, 0, 1, 2, 0, 1])

    def reference(w, x, y, me):
        j = me.rng.integers("shared", 8, 9).numpy()
        both, y = np.concatenate([x, data[j]]), np.concatenate([y, labels[j]])
        p = softmax(np.tanh(both @ w["first.0.weight"].T) @ w["head.weight"].T)
        return np.mean(-np.log(p[np.arange(len(y)), y]))

    check(
        "feddata",
        reference,
        {"shared_batch": 9},
        {"model": {}, "data": torch.tensor(data), "labels": torch.tensor(labels)},
    )


# the correlation ----------------------------------------------------------------------------------
def test_eq_8_by_hand():
    """x = 0, 1, 2; f = 0, 0, 3: centred Gram matrices of (-1, 0, 1) and (-1, -1, 2): <x, f>^2 /
    (|x|^2 |f|^2) = 9 / 12.
    """
    x, f = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[0.0], [0.0], [3.0]])
    assert float(squared(x.double(), f.double())) == pytest.approx(9 / 12)


@pytest.mark.parametrize(("loss", "reference"), [(squared, eq8), (plain_root, szekely)])
def test_the_correlations_are_what_their_definitions_say(loss, reference):
    x, f = rand(12, 3, 2), rand(12, 5)
    f[:, :2] += x[:, 0]
    assert float(loss(torch.tensor(x), torch.tensor(f))) == pytest.approx(
        reference(x.reshape(12, 6), f), abs=1e-12
    )


@pytest.mark.parametrize("loss", [squared, plain_root])
@pytest.mark.parametrize("x", [rand(1, 4), np.ones((6, 4))], ids=["one example", "equal examples"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_of_one_is_finite_and_so_is_its_gradient(loss, x, dtype):
    f = torch.tensor(x, dtype=dtype).mul(2).requires_grad_()
    value = loss(torch.tensor(x, dtype=dtype), f)
    value.backward()
    assert bool(value.isfinite())
    assert bool(f.grad.isfinite().all())


def test_the_correlation_falls_when_it_is_trained_on():
    ends = {}
    for lam2 in (0.0, 30.0):
        fed = run(federation("flea", fraction=1.0, lr=0.03, lam1=0.0, lam2=lam2, epochs=1), 6)
        x = fed.data.test.x[:200]
        ends[lam2] = float(squared(x, Net(fed.module, fed.model)(x, stop="first").detach()))
    assert ends[30.0] < ends[0.0] - 0.1


# the rounds ---------------------------------------------------------------------------------------
def test_the_buffer_is_what_the_last_rounds_clients_extracted_with_the_new_model():
    fed = federation("flea", fraction=0.3)
    fed.begin()
    for _ in range(3):
        fed.step()
    net, (feats, labels) = (
        Net(fed.module, fed.model),
        (fed.state["buffer"][k] for k in ("features", "labels")),
    )
    place = 0
    for i in fed.chosen.tolist():
        n = max(1, int(0.1 * int(fed.data.counts[i])))
        mine = fed.data_of(i)()
        all_of_it = net(mine.x, stop="first").detach()
        rows = [int((all_of_it - f).abs().amax(1).argmin()) for f in feats[place : place + n]]
        assert torch.allclose(all_of_it[rows], feats[place : place + n], atol=1e-12)
        assert len(set(rows)) == n  # without replacement
        assert torch.equal(mine.y[rows], labels[place : place + n])
        place += n
    assert place == len(feats) == len(labels)  # and nothing older


@pytest.mark.parametrize(("subset", "same"), [("fixed", True), ("fresh", False)])
def test_the_shared_examples_are_the_same_in_every_round_or_new_ones(subset, same):
    fed, seen = federation("flea", fraction=1.0, layer="input", subset=subset), []
    fed.begin()
    for _ in range(2):
        fed.step()
        seen.append(fed.state["buffer"]["features"])
    assert torch.equal(*seen) == same


def test_the_released_variant_starts_with_three_times_the_epochs():
    longer, plain = (
        federation("flea", fraction=0.3, variant=v, epochs=2) for v in ("released", "paper")
    )
    steps = []
    for fed in (longer, plain):
        fed.recorder.training = lambda _fed, _name, _each, todo: steps.append(len(todo.rows(0)))
        fed.begin()
        fed.step()
        fed.step()
    assert steps[0] == 3 * steps[1]
    assert steps[2] == steps[3] == steps[1]


def test_the_rates_of_both_variants():
    plain, code = method("flea"), method("flea", variant="released")
    assert [plain.schedule(t) for t in (1, 2, 101)] == pytest.approx([1, 0.98, 0.98**100])
    assert [code.schedule(t) for t in (1, 2, 50, 51, 100)] == pytest.approx(
        [1, 0.982, 1 - 0.018 * 49, 0.1, 0.1]
    )


def test_adam_that_forgets_at_every_step_moves_by_the_sign():
    forgetful, leaf = (
        Optimizer(method("flea", optimizer="adam_each_step", lr=0.5), 1),
        {"model/w": torch.tensor([1.0, 2.0]).double()},
    )
    for g in ([3.0, -0.1], [-7.0, -2.0]):
        leaf = forgetful.step(leaf, [torch.tensor(g).double()])
    assert leaf["model/w"].tolist() == pytest.approx([1.0, 3.0], abs=1e-6)


def test_means_are_of_ten_examples_each_of_which_is_used_once():
    fed = federation("fedmix", size=10)
    fed.begin()
    means, labels = fed.lasting["mean_data"], fed.lasting["labels"]
    assert len(means) == len(labels) == sum(int(n) // 10 for n in fed.data.counts)
    mine, n = fed.data_of(0)(), int(fed.data.counts[0]) // 10
    left_out = mine.x.sum(0) - 10 * means[:n].sum(0)
    assert int(fed.data.counts[0]) % 10 == 0 or bool(left_out.min() >= -1e-9)
    assert labels[:n].sum(1).tolist() == pytest.approx([1.0] * n)
    assert labels[:n, 0].tolist() == pytest.approx([1.0] * n)  # client 0 has only zeros


def test_feddata_gives_a_tenth_of_everybodys_data_away_and_says_it_hides_nothing():
    fed = federation("feddata")
    fed.begin()
    assert len(fed.lasting["labels"]) == sum(int(0.1 * int(n)) for n in fed.data.counts)
    mine = {tuple(v.flatten().tolist()) for v in fed.data_of(0)().x}
    first = fed.lasting["data"][: int(0.1 * int(fed.data.counts[0]))]
    assert all(tuple(v.flatten().tolist()) in mine for v in first)
    assert not method("feddata").hides()
    assert method("fedmix").hides()
    assert method("flea").hides()


@pytest.mark.parametrize("name", ["flea", "fedmix", "feddata"])
def test_one_step_is_the_same_in_both_engines(name):
    loop, fused = (
        run(federation(name, engine, **ONE_STEP, lr=0.05, fraction=0.5), 6)
        for engine in ("loop", "fused")
    )
    assert fused.phases["loss"] == "fused"
    assert gap(loop, fused) < 1e-9


def test_a_shared_set_that_nobody_can_give_to_is_refused_in_words():
    fed = federation("fedmix", size=1000)
    with pytest.raises(UsageError, match="no client has enough examples"):
        fed.begin()
