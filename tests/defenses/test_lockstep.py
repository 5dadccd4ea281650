"""L-BFGS in lockstep against torch.optim's, one problem after another, in float64."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.federations import digits, federation, gap, method, run, uneven
from torch.optim.lbfgs import _cubic_interpolate, _strong_wolfe

from defenses import _adversarial, _lockstep
from defenses._linesearch import Point, cubic, strong_wolfe
from leakbench.base import registry
from leakbench.base.streams import shared
from leakbench.base.tree import stack
from leakbench.federation.net import Net
from leakbench.models.networks import MODELS, initialise


def rand(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng([seed, *shape]).normal(size=shape))


def together(losses, x0, steps):
    """What the search in lockstep finds, how often each problem was evaluated, and how many
    evaluations there were.
    """
    count, joint = [0] * len(x0), [0]

    def among(rows):
        def fits(x):
            if x.requires_grad:
                joint[0] += 1
                for i in rows.tolist():
                    count[i] += 1
            return torch.stack([losses[i](one) for i, one in zip(rows.tolist(), x, strict=True)])

        return fits

    return _lockstep.search(among, x0, steps=steps), count, joint[0]


def alone(losses, x0, steps):
    """The reference, and how often each problem was evaluated."""
    found, count = [], [0] * len(x0)
    for i, (loss, start) in enumerate(zip(losses, x0, strict=True)):

        def counted(x, i=i, loss=loss):
            count[i] += x.requires_grad
            return loss(x)

        found.append(_adversarial.search(counted, start, steps=steps))
    return torch.stack(found), count


def same(losses, x0, steps, *, near=1e-8):
    """Compare both; returns the counts."""
    got, count, joint = together(losses, x0, steps)
    want, reference = alone(losses, x0, steps)
    assert count == reference
    assert joint == max(count)
    assert got.shape == x0.shape
    assert not got.requires_grad
    assert float((got - want).abs().max()) < near
    return count


def bowl(seed, spread=0.0, size=80):
    """A quadratic of (n, size) whose curvatures spread over so many powers of ten, in turned axes.

    Many axes: in a few L-BFGS is soon done, and its next directions are rounding, in the reference
    as here.
    """
    turn = torch.linalg.qr(rand(size, size, seed=seed)).Q
    scale, middle = (
        torch.logspace(-spread / 2, spread / 2, size, dtype=torch.float64),
        rand(size, seed=seed + 50),
    )
    return lambda x: (scale * ((x - middle) @ turn).square()).sum(1)


def valley(x):
    return (100 * (x[:, 1:] - x[:, :-1].square()).square() + (1 - x[:, :-1]).square()).sum(1)


def wavy(x):
    return (0.1 * x.square() + (3 * x).sin() + 0.3 * (11 * x).cos()).sum(1)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 40])
def test_bowls(steps):
    same([bowl(s) for s in range(4)], rand(4, 5, 80, seed=1), steps)


@pytest.mark.parametrize(("spread", "steps"), [(1.0, 40), (2.0, 40), (4.0, 22)])
def test_ill_conditioned_bowls_for_longer_than_the_history(spread, steps):
    count = same([bowl(s, spread) for s in range(3)], 3 * rand(3, 2, 80, seed=2), steps)
    assert min(count) > 2 * _lockstep.HISTORY


def test_line_searches_with_many_trials_that_begin_and_end_apart():
    losses, start = [wavy, valley, bowl(1, 3.0), wavy, valley], rand(5, 3, 80, seed=3)
    count = same(losses, start * torch.tensor([5.0, 2.0, 9.0, 0.5, 1.0])[:, None, None], 18)
    assert max(count) > 22


def test_evaluations_run_out_within_a_line_search():
    """At most twice the steps, and one more within a line search; a kink needs many for a step."""
    kink = lambda x: 10 * (x - 0.37).abs().sum(1)  # noqa: E731
    over = [
        same([kink, bowl(0)], rand(2, 1, 80, seed=6), steps)[0] - 2 * steps for steps in (2, 3, 4)
    ]
    assert max(over) >= 0


def test_problems_that_end_at_different_times_and_one_that_is_there_already():
    still = lambda x: 0 * x.sum(1)  # noqa: E731
    losses = [
        bowl(0, 2.0),
        still,
        bowl(1),
        lambda x: x.pow(4).sum(1),
        lambda x: 1e-9 * x.square().sum(1),
        # Bounded: without a minimum torch 2.15 itself runs to 1e50, and not by the same way.
        lambda x: 1e-5 * (1 + x.square()).sqrt().sum(1),
    ]
    count = same(losses, rand(6, 2, 80, seed=4), 30)
    assert count[1] == 1
    assert len(set(count)) >= 4


def test_reasons_to_end_a_search_that_rarely_decide_alone():
    """A move that is too short though the value falls; a value that stays though the slope does not
    end it; a bend that is none.
    """
    steep = lambda x: 1e6 * (x - 5e-10).abs().sum(1)  # noqa: E731

    def wave(x):
        waves = -0.9 / 2 / math.pi * (2e4 * math.pi * x).sin()
        return 1e-8 * (waves - 1e3 * x + 0.06 * (1e4 * x).square()).sum(1)

    zero = torch.zeros(2, 1, 1, dtype=torch.float64)
    moved, stayed = same([steep, wave], zero, 40)
    assert moved < 80
    assert stayed == 2
    kinks = [lambda x, k=k: 10 * (x - k).abs().sum(1) for k in (0.37, 0.61, -0.2, 1.7)]
    assert max(same(kinks, rand(4, 1, 1, seed=7), 40)) > 20


def test_all_problems_flat():
    start = rand(2, 3, 4)
    found, count, _ = together([lambda x: 0 * x.sum(1)] * 2, start, 9)
    assert count == [1, 1]
    assert torch.equal(found, start)


def test_a_problem_that_is_not_finite_stays_where_it_was_and_leaves_the_others_alone():
    root, wall = lambda x: x.sqrt().sum(1), lambda x: (x - (x + 3).log()).sum(1)
    losses, start = [bowl(0, 3.0), root, bowl(1), wall], rand(4, 2, 80, seed=5)
    start[1] = -start[1].abs()
    start[3] = 40 + start[3]
    same(losses, start, 12)
    found, *_ = together(losses, start, 12)
    assert torch.equal(found[1], start[1])
    assert torch.equal(found[[0, 2]], together([losses[0], losses[2]], start[[0, 2]], 12)[0])


def test_no_problem_ends_above_its_start():
    """One gradient points the wrong way; its neighbour's does not."""
    start = rand(2, 3, 4)
    found, *_ = together(
        [lambda x: (x.detach().square() * 2 - x.square()).sum(1), lambda x: x.square().sum(1)],
        start,
        5,
    )
    assert float(found[0].square().sum()) <= float(start[0].square().sum())
    assert float(found[1].square().sum()) < 1e-12


def test_a_run_is_repeatable_to_the_bit():
    losses, start = [wavy, valley, bowl(1, 5.0)], rand(3, 3, 80, seed=3)
    assert torch.equal(together(losses, start, 20)[0], together(losses, start, 20)[0])


# the line search ----------------------------------------------------------------------------------
LINES = {
    "falls for long": lambda t: -t + 1e-3 * t**2,
    "steep bowl": lambda t: (30 * t - 1) ** 2,
    "waves": lambda t: (9 * t + 3).sin() + 0.2 * (t - 2) ** 2 - 2 * t,
    "quick waves": lambda t: (60 * t + 2).cos() - 0.5 * t,
    "kink": lambda t: (t - 0.3).abs() - 0.3,
    "wall": lambda t: -10 * t - (0.4 - t).log(),
    "plateau": lambda t: -torch.tanh(8 * t),
    "no number": lambda t: (t - 0.05).sqrt() * 0 - t,
    # Falls, but by too little.
    "cliff": lambda t: -1e-5 * (1 - (-1e5 * t).exp()) + 1e-3 * (t - 0.5).clamp(min=0) ** 2,
    "step": lambda t: -t + (t > 0.37) * 3.0,
}


@pytest.mark.parametrize("first", [1.0, 0.01, 3.7])
@pytest.mark.parametrize("most", [1, 2, 5, 30])
@pytest.mark.parametrize("line", LINES)
def test_line_search_is_torchs_on_a_line(line, most, first):
    f, d = LINES[line], torch.ones(1, dtype=torch.float64)

    def at(t):
        leaf = torch.tensor(float(t), dtype=torch.float64, requires_grad=True)
        value = f(leaf)
        (slope,) = torch.autograd.grad(value, leaf)
        return float(value.detach()), slope.view(1)

    theirs, ours = [], []

    def asked(x, t, d):
        theirs.append(float(t))
        return at(t)

    value, slope = at(0.1) if line == "no number" else at(0.0)
    if line == "no number":  # torch needs a start that is one
        value, slope = 0.0, -d
    end, _, t, evaluations = _strong_wolfe(
        asked, 0 * d, first, d, value, slope, slope.dot(d), max_ls=most
    )
    search = strong_wolfe(Point(0.0, value, float(slope), slope), first, 1.0, most)
    t_next = next(search)
    while True:
        ours.append(t_next)
        got, s = at(t_next)
        try:
            t_next = search.send(Point(t_next, got, float(s), s))
        except StopIteration as stop:
            point, asked_for = stop.value
            break
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12, nan_ok=True)
    assert asked_for == evaluations == len(ours)
    assert point.t == pytest.approx(float(t), rel=1e-9, nan_ok=True)
    assert point.value == pytest.approx(float(end), rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    "values",
    [
        (0, 1, -1, 2, 0.5, 3),
        (2, 0.5, 3, 0, 1, -1),
        (0, 0, -1, 1, -9, -1),
        (0, 0, 0, 1, 0, 0),
        (1, 2, -1, 1, 3, 4),
    ],
)
def test_cubic_interpolation_is_torchs(values):
    a, b = (
        (torch.tensor(float(v), dtype=torch.float64) for v in part)
        for part in (values[:3], values[3:])
    )
    (ta, fa, ga), (tb, fb, gb) = a, b
    for bounds in (None, (0.2, 0.7)):
        want = _cubic_interpolate(ta, fa, ga, tb, fb, gb, bounds)
        least, most = bounds or sorted((values[0], values[3]))
        got = cubic(
            Point(values[0], *values[1:3], ga), Point(values[3], *values[4:], gb), least, most
        )
        assert got == pytest.approx(float(want), rel=1e-12, nan_ok=True)


# FedAA --------------------------------------------------------------------------------------------
def clients(model, many=3):
    task = registry.load_plugin("tasks", "digits").build(
        {"model": model, "width": 4}, "task digits"
    )
    facts = task.facts(method("fedaa"))
    if model.startswith("harnet"):  # for time series
        facts = replace(facts, shape=(1, 128, 3))
    module = task.module(facts).double().eval()
    return Net(module, {}), [initialise(module, shared(k, "init")) for k in range(many)], facts


@pytest.mark.parametrize("model", MODELS)
def test_examples_of_all_clients_at_once_are_those_of_each(model):
    net, models, facts = clients(model)
    labels, noise = torch.tensor([[1, 7], [0, 2], [3, 9]]), rand(3, 4, *facts.shape)
    defense = method("fedaa", examples=2, search_steps=8, clip=False)
    made = defense.made_together(net, stack(models), labels, noise)
    for k, batch in enumerate(made):
        want = defense.made(net, models[k], labels[k], noise[k])
        assert batch.y.tolist() == want.y.tolist()
        assert float((batch.x - want.x).abs().max()) < 1e-8
        # One pixel is left of 8x8: it is flat.
        assert float((batch.x - noise[k]).abs().max()) > 1e-3 or model == "mobilenetv2"
    assert all(
        float(b.x.max()) <= 1
        for b in method("fedaa", examples=2, search_steps=8, clip=True).made_together(
            net, stack(models), labels, noise
        )
    )


FEDAA = {
    "epochs": 1,
    "lr": 0.1,
    "examples": 4,
    "hidden": 5,
    "identifier_epochs": 3,
    "search_steps": 15,
    "tune_lr": 0.1,
    "batch": 32,
}


def test_a_round_ends_where_it_ends_one_by_one(monkeypatch):
    def called(*_, **__):
        raise AssertionError("searched the other way")

    with monkeypatch.context() as patch:
        patch.setattr(type(method("fedaa")), "made", called)
        fast = run(federation(method("fedaa", **FEDAA)), 2)
        again = run(federation(method("fedaa", **FEDAA)), 2)
    assert gap(fast, again) == 0
    monkeypatch.setattr(type(method("fedaa")), "made_together", called)
    monkeypatch.setattr(_lockstep, "SMALL", 0)
    plain = run(federation(method("fedaa", **FEDAA)), 2)
    assert gap(fast, plain) < 1e-9


def test_which_problems_are_searched_together():
    small, large = torch.zeros(2, 3), torch.zeros(1).expand(_lockstep.SMALL)
    assert _lockstep.faster([small, small], 10)
    assert not _lockstep.faster([small], 10)
    assert not _lockstep.faster([small, small[:1]], 10)
    assert _lockstep.faster([large, large], 0)
    assert not _lockstep.faster([large, large], 1)


def test_a_network_that_cannot_be_vectorised_is_searched_one_by_one(monkeypatch):
    defense, seen = method("fedaa", **FEDAA), []
    plain = type(defense).fits

    def looks(self, net, x, y, *, weights):
        seen.append(float(x.detach().sum()))  # a number of its own: vmap has none
        return plain(self, net, x, y, weights=weights)

    with monkeypatch.context() as patch:
        patch.setattr(_lockstep, "SMALL", 0)
        want = run(federation(defense), 1)
    assert want.fallbacks == {}
    monkeypatch.setattr(type(defense), "fits", looks)
    slow = run(federation(defense), 1)
    assert gap(slow, want) == 0
    assert seen
    # Run.json says that it was slow, and why.
    assert "item()" in slow.fallbacks.pop("adapt/examples")
    assert "item()" in slow.fallbacks.pop("adapt/tuned")
    assert slow.fallbacks == {}


def test_clients_with_unequal_numbers_of_labels_are_searched_one_by_one():
    data = digits().load()
    data.rows[0, 0] = data.rows[1, 0]
    data.client_class[0] = -1
    fed = run(federation(method("fedaa", **FEDAA), data=uneven(data, [20] * 10)), 1)
    assert all(bool(v.isfinite().all()) for v in fed.model.values())
