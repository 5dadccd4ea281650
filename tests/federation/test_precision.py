"""bfloat16: products of local training in it, everything that is kept, sent or measured not."""

import pytest
import torch
from helpers.federations import digits, method, run

from leakbench.base.tree import flat, tmap
from leakbench.federation.evaluate import utility_scores
from leakbench.federation.federation import Federation
from leakbench.federation.net import Net

LOW, HIGH, FULL = torch.bfloat16, torch.float32, torch.float64


def federation(dtype, engine="auto", model="lenet", **how):
    task = type(digits())(model=model, width=8)
    kind = method("fedhide", batch=8, **how)
    return Federation(kind, task, task.load(), engine=engine, dtype=dtype)


def apart(a, b):
    """The distance of two models' moves from their common start, as a share of the move."""
    begun = federation(FULL).model
    one, two = (torch.cat([(f.model[k] - begun[k]).flatten() for k in begun]) for f in (a, b))
    return float((one - two).norm() / two.norm())


@pytest.mark.parametrize(
    ("engine", "how"),
    [
        ("loop", {}),
        ("fused", {}),
        ("loop", {"steps": 3}),
        ("stacked", {"steps": 3}),
        ("threads", {"steps": 3}),
    ],
)
def test_a_step_is_of_low_precision_and_of_no_lower(engine, how):
    exact = run(federation(FULL, engine, **how), 1)
    low = apart(run(federation(LOW, engine, **how), 1), exact)
    high = apart(run(federation(HIGH, engine, **how), 1), exact)
    assert high < 3e-5
    # Seven bits behind the first: it is not float32 by mistake, nor are sums in bfloat16.
    assert 1e-4 < low < 2e-2


def test_what_is_kept_and_sent_is_of_single_precision():
    fed = federation(LOW, steps=3)
    fed.begin()
    fed.step()
    for tree in (fed.snapshot(), fed.received, fed.inbox):
        for name, leaf in flat(tree).items():
            assert leaf.dtype in (torch.float32, torch.int64), name
    assert fed.losses.dtype == torch.float32


def test_evaluation_does_not_know_of_it():
    fed = run(federation(LOW), 2)
    plain = federation(HIGH)
    plain.restore(fed.snapshot())
    assert torch.equal(utility_scores(fed), utility_scores(plain))


def test_what_comes_out_of_a_network_is_as_what_goes_in():
    fed = federation(LOW)
    x = fed.data.test.images(torch.arange(5))
    out = Net(fed.module, fed.model, LOW)(x)
    full = Net(fed.module, fed.model)(x)
    assert out.dtype == full.dtype == torch.float32
    assert 0 < float((out - full).abs().max()) < 0.05 * float(full.abs().max())


def test_a_network_of_tokens_says_no_whole_numbers():
    module = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 3))
    weights = {k: v.detach() for k, v in module.named_parameters()}
    tokens = torch.tensor([0, 3, 4])
    out, full = Net(module, weights, LOW)(tokens), Net(module, weights)(tokens)
    assert out.dtype == torch.float32
    assert torch.allclose(out, full, atol=0.05)
    assert not torch.equal(out, out.round())


@pytest.mark.parametrize("dtype", [HIGH, LOW])
@pytest.mark.parametrize(("engine", "model"), [("threads", "resnet8"), ("stacked", "lenet")])
def test_a_run_that_goes_on_has_the_same_bits(engine, model, dtype):
    """Layouts and low precision leave nothing behind that a checkpoint does not hold."""
    whole = federation(dtype, engine, model, steps=3)
    begun = federation(dtype, engine, model, steps=3)
    for fed, rounds in ((whole, 4), (begun, 2)):
        fed.begin()
        for _ in range(rounds):
            fed.step()
    saved = tmap(lambda t: t.contiguous().clone(), begun.snapshot())
    again = federation(dtype, engine, model, steps=3)
    again.restore(saved)
    again.step()
    again.step()
    one, two = flat(whole.snapshot()), flat(again.snapshot())
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert torch.equal(utility_scores(whole), utility_scores(again))
