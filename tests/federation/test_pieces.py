"""The small parts of a round, each against numbers worked by hand or a few lines of torch."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from helpers.federations import federation, method
from torch import nn

from leakbench.federation import choosing, evaluate, padding
from leakbench.federation.batches import batch_plan
from leakbench.federation.engines import LocalTraining
from leakbench.federation.evaluate import CHUNK, diagnose, evaluated
from leakbench.federation.layout import laid, lies_last
from leakbench.federation.local_steps import Training, steps_or_epochs, trainings
from leakbench.federation.objective import fits_target
from leakbench.federation.optimizer import Optimizer, group_leaves, leaves_named, rate_factor
from leakbench.federation.parties import Batch, weighted_mean
from leakbench.federation.precision import kept_dtype, products, split_dtype
from leakbench.federation.selection import robin, round_size, select
from leakbench.federation.task_data import Examples, TaskData, padded
from leakbench.federation.traffic import AGGREGATOR, SERVER, Traffic, party
from leakbench.federation.utility import METRICS
from leakbench.models.convolution import Convolution

# -- which examples ------------------------------------------------------------------------------


def data(*sizes):
    """Clients with so many examples, each example its own number."""
    n = sum(sizes)
    first = [sum(sizes[:i]) for i in range(len(sizes))]
    rows, counts = padded([torch.arange(f, f + k) for f, k in zip(first, sizes, strict=True)])
    some = Examples(torch.arange(float(n))[:, None], torch.arange(n))
    return TaskData(some, some, some, rows, counts, torch.arange(len(sizes)))


def test_examples_of_one_input_with_several_targets_show_one_input():
    x = torch.tensor([[1.0], [1.0], [2.0], [1.0]])
    y, told = torch.zeros(4, dtype=torch.long), torch.arange(4)[:, None]
    assert Examples(x, y, targets=told).shown.tolist() == [0, 0, 1, 2]
    assert Examples(x, y).shown.tolist() == [0, 1, 2, 3]


def rows_of(found, j):
    return [rows.tolist() for rows in found.rows(j)]


def joined(lists):
    return [x for one in lists for x in one]


def planned(of, who=(0, 1), **more):
    how = {"seed": 1, "round": 1, "phase": 0, "batch": 3, "steps": 0, "epochs": 1}
    return batch_plan(of, who, **{**how, **more})


def test_an_epoch_is_every_example_once_in_batches_and_what_is_left():
    found = planned(data(7, 4))
    assert [found.sizes(j) for j in (0, 1)] == [[3, 3, 1], [3, 1]]
    assert sorted(joined(rows_of(found, 0))) == list(range(7))
    assert sorted(joined(rows_of(found, 1))) == list(range(7, 11))
    assert found.even is None
    two = planned(data(7, 4), epochs=2)
    assert two.sizes(0) == [3, 3, 1, 3, 3, 1]
    assert joined(rows_of(two, 0)[:3]) != joined(rows_of(two, 0)[3:])  # drawn anew
    assert rows_of(two, 0)[:3] == rows_of(found, 0)
    assert planned(data(6, 6)).even.shape == (2, 2, 3)
    assert planned(data(7, 7)).even is None  # steps of unlike sizes
    assert planned(data(6, 3)).even is None  # unlike numbers of steps


def test_so_many_steps_are_full_batches_of_passes_over_the_data():
    found = planned(data(7, 4), steps=3)
    # The least has one full batch a pass, so three passes; every one of them is drawn anew.
    assert found.even.shape == (2, 3, 3)
    assert {*found.even[1].flatten().tolist()} <= {7, 8, 9, 10}
    more = planned(data(9, 6), steps=3)  # two full batches a pass
    assert len({*more.even[0, :2].flatten().tolist()}) == 6
    assert planned(data(7, 4), steps=1).even.shape == (2, 1, 3)
    # Who holds less than a batch takes all of it, again and again.
    small = planned(data(7, 2), steps=3)
    assert small.even is None
    assert small.sizes(0) == [3, 3, 1]
    assert small.sizes(1) == [2, 2, 2]
    exact = planned(data(3, 3), steps=2)
    assert sorted(exact.even[0, 0].tolist()) == sorted(exact.even[0, 1].tolist()) == [0, 1, 2]


def test_rounds_phases_seeds_and_clients_are_drawn_apart():
    base = rows_of(planned(data(30, 30)), 0)
    for other in ({"round": 2}, {"phase": 1}, {"seed": 2}):
        assert rows_of(planned(data(30, 30), **other), 0) != base
    assert [[r - 30 for r in rows] for rows in rows_of(planned(data(30, 30)), 1)] != base
    # A client's own do not depend on who else takes part.
    assert rows_of(planned(data(30, 30), who=(1,)), 0) == rows_of(planned(data(30, 30)), 1)


def test_a_step_side_by_side_is_padded_with_its_first_example():
    of = data(7, 4)
    found = planned(of)
    last = found.step(of, [0, 1], 1)
    three, one = found.rows(0)[1], found.rows(1)[1]
    assert last.y.tolist() == [three.tolist(), one.tolist() * 3]
    assert last.own.tolist() == [[True] * 3, [True, False, False]]
    first = found.step(of, [0, 1], 0)
    assert first.own is None
    assert first.y.tolist() == [found.rows(0)[0].tolist(), found.rows(1)[0].tolist()]
    even = planned(data(6, 6, 6), who=(0, 1, 2))
    some = even.step(data(6, 6, 6), [2, 0], 1)
    assert some.y.tolist() == [even.rows(2)[1].tolist(), even.rows(0)[1].tolist()]
    assert even.first(data(6, 6, 6), slice(1, 3)).y.tolist() == even.even[1:3, 0].tolist()
    with pytest.raises(ValueError, match="one by one"):
        found.first(of)
    lazy = found.batches(of, 0)
    assert len(lazy) == 3
    assert [b.y.tolist() for b in lazy[1:]] == rows_of(found, 0)[1:]
    assert lazy[-1].y.tolist() == rows_of(found, 0)[-1]


def test_each_step_of_each_client_is_augmented_by_dice_of_its_own():
    of = data(6, 6)

    def shifted(x, rng):
        return x + rng.uniform("shift", *x.shape[-2:])

    found = planned(of, augment=shifted)
    moved = [b.x - b.y[..., None] for j in (0, 1) for b in found.batches(of, j)]
    assert len({round(float(m[0, 0]), 9) for m in moved}) == 4
    again = planned(of, augment=shifted).step(of, [0, 1], 1)
    assert torch.allclose(again.x[0] - again.y[0][:, None], moved[1])
    assert torch.allclose(again.x[1] - again.y[1][:, None], moved[3])


@pytest.mark.parametrize(
    ("steps", "epochs", "examples", "batch", "sizes"),
    [
        (1, 0, 5, 8, [5]),
        (3, 0, 24, 8, [8, 8, 8]),
        (3, 0, 23, 8, []),
        (0, 1, 20, 8, [8, 8, 4]),
        (0, 1, 16, 8, [8, 8]),
        (0, 2, 40, 8, [8, 8, 4, 8, 8, 4]),
        (0, 2, 41, 8, []),
        (0, 0, 8, 8, []),
    ],
)
def test_the_sizes_of_an_updates_steps(steps, epochs, examples, batch, sizes):
    assert Training(0, "loss", steps, epochs).sizes(examples, batch) == sizes


def test_who_takes_a_single_step_and_how_much_is_trained():
    once = [Training(0, "loss", s, e).once for s, e in ((1, 0), (0, 1), (2, 0), (0, 2), (1, 5))]
    assert once == [True, True, False, False, True]
    own = method("fedprox", steps=3, epochs=0)
    assert steps_or_epochs(own, None, None) == (3, 0)
    assert steps_or_epochs(own, 2, None) == (2, 0)
    assert steps_or_epochs(own, None, 4) == (0, 4)
    assert [t.name for t in trainings(own, 1)] == ["loss"]
    assert trainings(own, 0) == []
    assert trainings(own, 6, last=5) == []
    assert len(trainings(own, 5, last=5)) == 1


# -- who takes part ------------------------------------------------------------------------------


def test_how_many_are_chosen_and_whom_a_round_robin_takes():
    some = method("fedprox", fraction=0.25, select="round_robin")
    assert [round_size(some, n) for n in (2, 10, 11, 12)] == [1, 2, 3, 3]
    order = robin(10, seed=3)
    taken = [select(some, 10, seed=3, t=t) for t in range(1, 7)]
    assert taken[0] == sorted(order[:2])
    assert taken[1] == sorted(order[2:4])
    assert taken[5] == taken[0]  # all ten have had their turn
    assert sorted(joined(taken[:5])) == list(range(10))
    assert select(some, 10, seed=3, t=2, order=order) == taken[1]
    every = method("fedprox", fraction=1.0)
    assert select(every, 4, seed=3, t=9) == [0, 1, 2, 3]
    drawn = method("fedprox", fraction=0.3)
    found = [select(drawn, 10, seed=3, t=t) for t in range(1, 20)]
    assert all(len({*f}) == 3 and f == sorted(f) for f in found)
    assert len({tuple(f) for f in found}) > 5


# -- the optimiser, means, precision -------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sgd", "adam", "adam_each_step"])
def test_local_steps_are_torchs(kind):
    torch_own = torch.tensor([0.5, -2.0], dtype=torch.float64, requires_grad=True)
    rate = 0.1
    theirs = (
        torch.optim.SGD([torch_own], rate) if kind == "sgd" else torch.optim.Adam([torch_own], rate)
    )
    how = method("fedprox", lr=rate, own_lr=7.0, optimizer=kind)
    ours, mine = Optimizer(how, 1), {"model/w": torch_own.detach().clone()}
    for step in range(4):
        grad = torch.tensor([0.3 * step + 0.1, -1.5], dtype=torch.float64)
        if kind == "adam_each_step":
            theirs = torch.optim.Adam([torch_own], rate)
        torch_own.grad = grad.clone()
        theirs.step()
        mine = ours.step(mine, [grad])
    assert torch.allclose(mine["model/w"], torch_own.detach(), atol=1e-12)


def test_rates_by_group_and_stage():
    how = method("fedprox", lr=0.1, own_lr=0.5)
    module = SimpleNamespace(rates={"head": 3.0})
    leaves = leaves_named(
        {"head.w": torch.zeros(1), "body.w": torch.zeros(1)}, {"head": torch.zeros(1)}
    )
    assert [*leaves] == ["model/head.w", "model/body.w", "own/head"]
    moved = Optimizer(how, 1, module).step(leaves, [torch.ones(1)] * 3)
    assert [float(v) for v in moved.values()] == pytest.approx([-0.3, -0.1, -0.5])
    assert group_leaves("model", moved).keys() == {"head.w", "body.w"}
    assert group_leaves("own", moved).keys() == {"head"}
    assert rate_factor(None, "head.w") == 1.0
    assert rate_factor(module, "head.w") == 3.0


def test_a_batchs_mean_counts_no_padding():
    each = torch.tensor([1.0, 2.0, 30.0])
    assert float(Batch(each, each).mean(each)) == 11.0
    own = torch.tensor([True, True, False])
    assert float(Batch(each, each, own=own).mean(each)) == 1.5
    some = Batch(each, each, own=own).some(slice(1, 3))
    assert (some.x.tolist(), some.own.tolist(), some.targets) == ([2, 30], [True, False], None)
    tree = {"a": torch.tensor([[1.0, 2.0], [3.0, 6.0]])}
    assert weighted_mean(tree, torch.tensor([0.25, 0.75]))["a"].tolist() == [2.5, 5.0]


def test_bfloat16_has_two_precisions_and_others_one():
    assert split_dtype(torch.bfloat16) == (torch.float32, torch.bfloat16)
    assert split_dtype(torch.float64) == (torch.float64, None)
    assert (kept_dtype("bfloat16"), products("bfloat16")) == (torch.float32, torch.bfloat16)
    assert (kept_dtype("float64"), products("float64")) == (torch.float64, torch.float64)


def test_cross_entropy_of_tokens_leaves_the_first_and_the_padding_out():
    logits = torch.tensor([[[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [0.0, 0.0, 9.0]]])
    target = torch.tensor([[1, 2, 1, 0]])  # begins with 1; 2 and 1 follow; 0 is padding

    def net(x, start=None, given=None, weights=None):
        assert given.tolist() == [[1, 2, 1]]
        return logits

    log = logits.log_softmax(-1)[0]
    assert fits_target(net, None, target).tolist() == pytest.approx(
        [-float(log[0, 2] + log[1, 1]) / 2]
    )
    empty = torch.tensor([[1, 0, 0, 0]])
    assert fits_target(lambda *_, **__: logits, None, empty).tolist() == [0.0]


def test_images_of_float32_lie_channels_last():
    image = torch.ones(2, 3, 4, 4)
    assert laid(image).is_contiguous(memory_format=torch.channels_last)
    for other in (image.double(), torch.ones(3, 4, 4), torch.ones(2, 2, 2, 2, 2)):
        assert laid(other) is other
    assert lies_last(nn.Sequential(nn.Conv2d(1, 1, 2)))
    assert not lies_last(nn.Sequential(nn.Linear(1, 1), nn.Conv1d(1, 1, 2)))


def test_a_convolution_whose_derivative_writes_beyond_its_memory_reads_channels_first():
    """1x1, striding, of fewer than eight channels: torch dies of it on processors of AVX2."""
    assert not lies_last(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 1, 2)))
    assert not lies_last(nn.Sequential(nn.Conv2d(16, 16, 1, (1, 2), groups=4)))
    for safe in (nn.Conv2d(4, 8, 1), nn.Conv2d(4, 8, 3, 2), nn.Conv2d(8, 8, 1, 2)):
        assert lies_last(nn.Sequential(safe))


# -- what was sent -------------------------------------------------------------------------------


def test_traffic_is_counted_by_rounds_messages_and_bytes():
    assert [party(n) for n in ("server", "aggregator", "client/12")] == [SERVER, AGGREGATOR, 12]
    sent, four = Traffic({"update"}), torch.zeros(4)  # 16 bytes
    sent.down(1, "model", [0, 2], four, each=False)
    sent.down(1, "own", [0, 2], torch.zeros(2, 4), each=True)
    sent.up(1, "update", [0, 2], torch.zeros(2, 4), summed=True)
    sent.up(1, "labels", [0, 2], torch.zeros(2, 4), summed=False)
    sent.up(1, "labels", [0, 2], four, summed=False, stacked=False)
    sent.up(2, "labels", [1], torch.zeros(1, 4), summed=False)
    table = {(r["kind"], r["sender"], r["receiver"]): r for r in sent.table()}
    told = {k: (r["rounds"], r["messages"], r["bytes"], r["covered"]) for k, r in table.items()}
    assert told == {
        ("labels", "client", "server"): (2, 5, 80, False),
        ("model", "server", "client/*"): (1, 1, 16, False),
        ("own", "server", "client"): (1, 2, 32, False),
        ("sum", "aggregator", "server"): (1, 1, 16, False),
        ("update", "client", "aggregator"): (1, 2, 32, True),
    }
    rows = {k: v.tolist() for k, v in sent.tensors().items()}
    assert rows["model"] == [[1, -1, 0], [1, -1, 2]]
    assert rows["update"] == [[1, 0, -2], [1, 2, -2]]
    assert rows["sum"] == [[1, -2, -1]]
    assert rows["labels"] == [[1, 0, -1], [1, 2, -1], [1, 0, -1], [1, 2, -1], [2, 1, -1]]
    again = Traffic({"update"})
    again.restore(*sent.state())
    assert again.table() == sent.table()
    again.up(2, "labels", [0], four, summed=False)
    assert again.totals["labels", "client", "server"] == [2, 6, 96, 2]


# -- evaluation ----------------------------------------------------------------------------------


def test_evaluations_are_even_and_the_last_round_is_among_them():
    assert evaluated(100, 4) == {25, 50, 75, 100}
    assert evaluated(10, 3) == {3, 7, 10}
    assert evaluated(2, 10) == {1, 2}  # never before the first
    assert evaluated(1, 20) == {1}


def test_diagnostics_by_hand():
    true = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    sent = {"a": torch.tensor([[2.0, 0.0], [0.0, 4.0]]), "b": torch.tensor([8.0, 0.0])}
    fed = SimpleNamespace(
        losses=torch.tensor([1.0, 4.0]),
        variances={"loss": torch.tensor(0.5), "tune_loss": torch.tensor(0.25)},
        means={},
        meant={},
        received={"update": sent},
        share=torch.tensor([0.25, 0.75]),
        secrets=lambda: {"prototype": true},
        method=SimpleNamespace(distance="cosine", outputs="embedding"),
    )
    told = diagnose(fed)
    # Cosines 0, 1 / sqrt 2, 1 / sqrt 2; the mean update is (0.5, 3) and 2.
    assert told == pytest.approx(
        {
            "loss": 2.5,
            "local_variance": 0.5,
            "local_variance_tune": 0.25,
            "update_norm": math.sqrt(0.25 + 9 + 4),
            "prototype_mean_cosine": 2 * math.sqrt(0.5) / 3,
        }
    )
    fed.means = {"update": {"a": torch.tensor([3.0, 4.0])}}
    fed.losses, fed.secrets = None, dict
    assert diagnose(fed)["update_norm"] == 5.0
    assert "loss" not in diagnose(fed)
    fed.means, fed.received = {}, {}
    assert "update_norm" not in diagnose(fed)
    assert CHUNK < 360  # digits' test inputs: their answers are put together again


def test_a_distance_ratio_by_hand():
    fed = SimpleNamespace(
        data=SimpleNamespace(
            client_class=torch.tensor([3, 1]), test=SimpleNamespace(y=torch.tensor([1, 3, 1]))
        )
    )
    true = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)  # five apart
    fits = torch.tensor([[-9.0, -2.0, -9.0], [-1.0, -9.0, -3.0]])  # own: 1, 2, 3
    assert evaluate._distance_ratio(fed, true, fits) == pytest.approx(5 / 2)


# -- which way to train --------------------------------------------------------------------------


def local(module=None, clients=10, **params):
    fed = federation("fedprox", steps=2, clients=clients, **params)
    fed.begin()
    if module is not None:
        fed.runner.module = module
    return LocalTraining(fed.runner, "loss", 1, {}), fed.data


def test_small_steps_go_side_by_side_and_others_one_by_one(monkeypatch):
    training, examples = local()
    numbers = min(training.runner.method.batch, max(examples.sizes)) * 64
    weights = sum(p.numel() for p in training.runner.module.parameters())
    assert choosing.choice(training, 10, examples) == "stacked"
    assert choosing.choice(training, 1, examples) == "loop"
    monkeypatch.setattr(choosing, "WEIGHTS", weights)
    monkeypatch.setattr(choosing, "INPUTS", numbers)
    assert choosing.choice(training, 10, examples) == "stacked"
    for name, most in (("WEIGHTS", weights), ("INPUTS", numbers)):
        monkeypatch.setattr(choosing, name, most - 1)
        assert choosing.choice(training, 10, examples) == "threads"
        monkeypatch.setattr(choosing.torch, "get_num_threads", lambda: 10)
        assert choosing.choice(training, 10, examples) == "threads"
        monkeypatch.setattr(choosing.torch, "get_num_threads", lambda: 11)
        assert choosing.choice(training, 10, examples) == "loop"
        monkeypatch.setattr(choosing.torch, "get_num_threads", lambda: 1)
        monkeypatch.setattr(choosing, name, most)


def test_convolutions_that_are_no_products_do_not_go_side_by_side():
    assert choosing._convolves(nn.Sequential(nn.Conv2d(1, 1, 3)))
    assert choosing._convolves(nn.Sequential(nn.Conv1d(1, 1, 3)))
    assert not choosing._convolves(nn.Sequential(nn.Linear(1, 1)))
    assert not choosing._convolves(nn.Sequential(Convolution(1, 1, 3)))
    training, examples = local(nn.Sequential(nn.Conv2d(1, 1, 3)))
    assert choosing.choice(training, 10, examples) == "threads"


# -- padding, files, metrics ---------------------------------------------------------------------


def test_what_stands_in_the_padding_is_changed_and_nothing_else():
    own = torch.tensor([[True, True], [True, False]])
    batch = Batch(torch.zeros(2, 2, 3), torch.tensor([[0, 1], [2, 2]]), own=own)
    other = padding._otherwise(batch, 3)
    assert other.x[own].eq(0).all()
    assert other.x[~own].eq(1).all()
    assert other.y.tolist() == [[0, 1], [2, 0]]
    assert padding._otherwise(Batch(batch.x, batch.y), 3).x is batch.x
    assert not padding.paddable(lambda b: {"a": b.x.sum()}, batch, 3)
    assert padding.paddable(lambda b: {"a": b.x[b.own].sum()}, batch, 3)


def test_a_metric_in_zero_to_one_is_clipped_and_a_perfect_one_has_a_width():
    auroc = METRICS["auroc"]
    wild = auroc.estimate([1.4, 0.9, 1.0, 0.8])
    assert wild.high == 1.0
    assert 0.0 <= wild.low < wild.value == 1.0
    alike = auroc.estimate([1.0] * 10)
    assert (alike.low, alike.high) == (pytest.approx(0.025 ** (1 / 10)), 1.0)
    seeds = {0: [0.2, 0.4, 0.9], 1: [0.4, 0.4, 0.7]}
    found = auroc.pooled(seeds)
    assert found.value == pytest.approx(0.5)
    assert found.n == 3
    assert auroc.pooled({0: seeds[0]}) == auroc.estimate(seeds[0])
    with pytest.raises(KeyError):
        METRICS["none"]
    assert "auroc" in METRICS
    assert len(METRICS) == len([*METRICS])
