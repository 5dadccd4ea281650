"""Updates of several rounds by the same images are matched together, and others never are."""

from __future__ import annotations

import statistics

import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F

from attacks import _updates
from attacks._inversion import check, engines
from attacks._inversion.stack import Stack
from attacks._inversion.victims import Victim
from attacks.gradient_inversion import GradientInversion
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import View
from leakbench.base.streams import Rng
from leakbench.models.networks import MODELS, initialise
from leakbench.scoring.image_distances import psnr

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 16.0).float()[:, None]
LABELS = torch.tensor(DIGITS.target)
ROWS = [0, 1]
SHAPE = (1, 8, 8)
HOW = GradientInversion(source="pooled", message="update", engine="signed_adam", steps=150)
BATCH = 4  # more than a client has


def net_of(seed, name):
    net = MODELS[name](SHAPE, 10, 8)
    net.load_state_dict(initialise(net, Rng(seed, "x", torch.tensor(0), torch.float32)))
    return net


def seen(rounds=(ROWS, ROWS, ROWS), *, batch=BATCH, net="cnn", **how):
    """A client's updates, of a step on each of ``rounds`` at a model of that round's own."""
    nets = [net_of(seed, net) for seed in range(len(rounds))]
    said = Transcript(nets[0], F.cross_entropy, shape=SHAPE, batch=batch, lr=0.1, **how)
    for t, (net, rows) in enumerate(zip(nets, rounds, strict=True), start=1):
        said.add("model", net.state_dict(), sender="server", receiver="client/*", round=t)
        loss = F.cross_entropy(net(IMAGES[rows]), LABELS[rows])
        slopes = torch.autograd.grad(loss, list(net.parameters()))
        update = [-0.1 * g for g in slopes]
        said.add("update", update, sender="client/0", labels=LABELS[rows], round=t)
    return said


def found(said):
    """The last round's update and those that are known to be of the same images."""
    view = View(HOW.threat, said, said.rounds)
    (b,) = _updates.shortest(view, probe=False, most=8)
    return view, b, _updates.before(view, b, 8)


def victim(said, *, together):
    view, b, alike = found(said)
    beside = [Victim(view, o, b.labels, {}, (), 0) for o in alike] if together else []
    return Victim(view, b, b.labels, {}, (), 0, beside)


def test_all_are_found_that_hold_the_same_examples():
    *_, alike = found(seen())
    assert [o.message.round for o in alike] == [1, 2]
    *_, alike = found(seen((ROWS[::-1], ROWS)))  # in another order
    assert [o.message.round for o in alike] == [1]


@pytest.mark.parametrize(
    "said",
    [
        seen(([0, 4], ROWS)),  # other labels
        seen((ROWS[:1], ROWS)),  # fewer examples
        seen(batch=len(ROWS)),  # a whole batch: who has more draws others each time
    ],
    ids=["labels", "fewer", "batch"],
)
def test_what_may_be_of_other_examples_is_left_alone(said):
    *_, alike = found(said)
    assert alike == []


def test_the_mismatch_is_the_mean_of_each():
    x = torch.rand(1, len(ROWS), *SHAPE, generator=torch.Generator().manual_seed(0))
    said = seen()
    whole = victim(said, together=True)
    alone = [victim(said, together=False), *whole.beside]
    each = [Stack([v], torch.float64).mismatch(x.double(), {}) for v in alone]
    both = Stack([whole], torch.float64).mismatch(x.double(), {})
    assert torch.allclose(both, torch.stack(each).mean(0), atol=1e-12)
    assert len({round(float(e), 6) for e in each}) == 3
    true = IMAGES[ROWS][None].double()
    assert float(Stack([whole], torch.float64).mismatch(true, {})) < 1e-9


def searched(said, *, together):
    """Mean PSNR (dB) of the images found, in the best order, and whether they are believed."""
    from scipy.optimize import linear_sum_assignment

    one = victim(said, together=together)
    dice = torch.Generator().manual_seed(0)
    (candidates,) = engines.search([one], HOW, "signed_adam", dice)
    kept = check.judge(one, candidates, HOW)
    x, true = kept.best.x.clamp(0, 1).float(), IMAGES[ROWS]
    apart = (x[:, None] - true[None]).square().flatten(2).mean(2)
    rows, columns = linear_sum_assignment(apart.numpy())
    return statistics.fmean(psnr(x[rows], true[columns]).tolist()), kept.accepted


def test_together_they_tell_more_than_one():
    said = seen()
    alone, _ = searched(said, together=False)
    both, believed = searched(said, together=True)
    assert both > alone + 3
    assert believed


def test_images_that_only_look_alike_are_not_believed():
    """Other images of the same labels: no one set matches both."""
    others = [row + 10 for row in ROWS]
    assert LABELS[others].tolist() == LABELS[ROWS].tolist()
    _, believed = searched(seen((others, others, ROWS)), together=True)
    assert not believed


def test_it_is_refused_where_no_two_updates_are_of_the_same():
    def attacked(said, **how):
        return said.attack("gradient_inversion", source="pooled", targets=1, steps=5, **how)

    assert len(attacked(seen())) == 1
    with pytest.raises(Exception, match="has less than a batch"):
        attacked(seen(batch=len(ROWS)))
    with pytest.raises(Exception, match="no two kept updates"):
        attacked(seen((ROWS,)))
    with pytest.raises(Exception, match="breaching reads one update alone: use source=single"):
        attacked(seen(), engine="breaching", attacker="naive")
    with pytest.raises(Exception, match="steps of Adam"):
        attacked(seen(optimizer="adam"))


def test_noise_that_is_drawn_anew_for_each_round_cancels():
    from attacks._inversion import likelihood
    from leakbench.federation import Examples

    dice = torch.Generator().manual_seed(0)
    told = {}
    for together in (False, True):
        one = victim(seen([ROWS] * 6, net="lenet"), together=together)
        for v in (one, *one.beside):
            update = v.behind.message.payload
            size = sum(float(t.square().sum()) for t in update.values()) ** 0.5
            for t in update.values():
                t.add_(0.02 * size * torch.randn(t.shape, generator=dice))
        aux = Examples(IMAGES[500:1000], LABELS[500:1000])
        found = likelihood.search(one, aux, 100, 1, dice)[0].x.float()
        told[together] = float((found - IMAGES[ROWS]).square().mean())
    assert told[True] < told[False] / 3
