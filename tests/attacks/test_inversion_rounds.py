"""Updates of several rounds by the same images are matched together, and others never are."""

from __future__ import annotations

import statistics

import pytest
import torch
from helpers.small_runs import trained
from sklearn.datasets import load_digits
from torch.nn import functional as F

from attacks import _updates
from attacks._input_prior import InputPrior
from attacks._inversion import check, engines, likelihood
from attacks._inversion.stack import Stack
from attacks._inversion.victims import Victim
from attacks.gradient_inversion import FEWEST, GradientInversion
from leakbench.attacking import Outline
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import View
from leakbench.base.streams import Rng
from leakbench.federation import Examples
from leakbench.federation.input_range import UNIT
from leakbench.models.networks import MODELS, initialise
from leakbench.record.recording import Recording
from leakbench.scoring.image_distances import psnr

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 16.0).float()[:, None]
LABELS = torch.tensor(DIGITS.target)
PRIOR = InputPrior(Examples(IMAGES[500:1000], LABELS[500:1000]), UNIT)
ROWS = [0, 1]
SHAPE = (1, 8, 8)
HOW = GradientInversion(
    source="pooled", message="update", engine="signed_adam", steps=400, restarts=4
)
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
        if how.get("optimizer") == "adam":
            slopes = tuple(g / (g.abs() + 1e-8) for g in slopes)
        update = [-0.1 * g for g in slopes]
        said.add("update", update, sender="client/0", labels=LABELS[rows], round=t)
    return said


def found(said):
    """The last round's update and those that are known to be of the same images."""
    view = View(HOW.threat, said, said.rounds)
    (b,) = _updates.shortest(view, probe=False, most=8)
    return view, b, _updates.before(view, b, 8, 12)


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


FULL = [0, 1, 2, 3, 5, 7]  # of six classes


def test_a_whole_batch_of_the_same_labels_again_and_again_is_of_the_same_examples():
    *_, alike = found(seen((FULL, FULL[::-1], FULL), batch=len(FULL)))
    assert [o.message.round for o in alike] == [1, 2]
    once = [*FULL[:-1], 8]  # another label in one round: there are more examples
    *_, alike = found(seen((FULL, once, FULL), batch=len(FULL)))
    assert alike == []
    alone = [0, 10, 20, 30]  # of one class nobody can tell
    *_, alike = found(seen((alone, alone, alone), batch=len(alone)))
    assert alike == []


def test_twins_of_a_class_do_not_remain_one_image():
    """Three of a class, and no noise: a search that begins at one point for all ends there."""
    rows = [0, 10, 20]
    assert len(set(LABELS[rows].tolist())) == 1
    one = victim(seen([rows] * 4, net="lenet"), together=True)
    x = likelihood.search(one, PRIOR, 100, 1, torch.Generator().manual_seed(0))[0].x
    assert float((x[0] - x[1]).square().mean()) > 0.01


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


def test_signs_of_several_steps_of_adam_tell_more_than_those_of_one():
    said = seen(optimizer="adam")
    alone, _ = searched(said, together=False)
    both, _ = searched(said, together=True)
    assert both > alone + 2


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


def noised(level, *, together, seed=0):
    """Six updates of one client, with noise of ``level`` times their norm on each number."""
    dice = torch.Generator().manual_seed(seed)
    one = victim(seen([ROWS] * 6, net="lenet"), together=together)
    for v in (one, *one.beside):
        update = v.behind.message.payload
        size = sum(float(t.square().sum()) for t in update.values()) ** 0.5
        for t in update.values():
            t.add_(level * size * torch.randn(t.shape, generator=dice))
    return one


def error_of(x):
    return float((x.float() - IMAGES[ROWS]).square().mean())


def test_noise_that_is_drawn_anew_for_each_round_cancels():
    told = {}
    for together in (False, True):
        one = noised(0.02, together=together)
        dice = torch.Generator().manual_seed(0)
        told[together] = error_of(likelihood.search(one, PRIOR, 100, 1, dice)[0].x)
    assert told[True] < told[False] / 3


def test_of_noise_alone_all_rounds_tell_nothing():
    """Ten nulls: noise of ten times an update's norm on each of its numbers."""
    likely, guess = 0.0, 10 * error_of(PRIOR.means(LABELS[ROWS].tolist()))
    for seed in range(10):
        one, dice = noised(10.0, together=True, seed=seed), torch.Generator().manual_seed(seed)
        likely += error_of(likelihood.search(one, PRIOR, 40, 1, dice)[0].x.clamp(0, 1))
    assert 0.9 * guess < likely < 1.5 * guess


@pytest.mark.parametrize("kind", ["update", "model"])
@pytest.mark.parametrize("when", [1, 3])
def test_a_round_that_is_not_finite_is_left_out(kind, when):
    said = seen()
    (m,) = [m for m in said._messages.values() if (m.kind, m.round) == (kind, when)]
    next(iter(m.payload.values())).fill_(torch.nan)
    (guess,) = said.attack("gradient_inversion", source="pooled", targets=1, steps=5)
    assert (
        guess.failed
        == {
            (1, "update"): "",
            (1, "model"): "",
            (3, "update"): "the update is not finite",
            (3, "model"): "what its sender had received is not finite",
        }[when, kind]
    )


def test_an_exact_step_of_adam_is_matched_where_the_likeliest_is_sought(monkeypatch):
    """There is no noise to be likely, and most of its numbers tell their signs alone."""
    sought = []

    def search(victim, *args):
        sought.append(victim)
        return []

    monkeypatch.setattr(likelihood, "search", search)
    aux = (IMAGES[500:1000], LABELS[500:1000])
    how = HOW.model_copy(update={"prior": "principal", "steps": 5})
    for optimizer, likely in (("adam", 0), ("sgd", 1)):
        said = seen(optimizer=optimizer, aux_data=aux)
        view = View(how.threat, said, said.rounds)
        (b,) = _updates.shortest(view, probe=False, most=8)
        one = Victim(view, b, b.labels, {}, (), 0)
        sought.clear()
        how._searched(view, [one], torch.Generator().manual_seed(0))
        assert len(sought) == likely


def test_in_less_time_fewer_updates_are_attacked_then_once_then_in_fewer_steps(tmp_path):
    params = {"steps": 1, "optimizer": "sgd", "fraction": 1.0, "batch": 500}
    task = {"clients": 4, "split": "iid", "mean_local_size": 4}
    run = trained(tmp_path, "fedavg", rounds=4, params=params, task_params=task)
    how = GradientInversion(source="pooled", message="update")
    outline = Outline(Recording(run), how.threat)
    whole, told = how.seconds(outline), []
    for share in (1 / 3, 1 / 8, 1 / 20, 1 / 40):
        less = how.model_copy(update=how.within(outline, share * whole))
        assert less.seconds(outline) <= share * whole
        told.append((less.targets, len(less.at), less.restarts, less.steps))
    targets, stages, starts, steps = zip(*told, strict=True)
    assert sorted(targets, reverse=True) == [*targets]
    assert (stages[0], stages[-1], starts[0], starts[-1]) == (len(how.at), 1, 2, 1)
    assert steps[0] == how.steps > steps[-1] >= FEWEST
    assert how.within(outline, whole / 1000) == {}
