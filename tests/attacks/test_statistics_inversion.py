"""Examples behind class means and covariances: what these tell, what is found, and what is not."""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import again, trained
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from torch import nn

from attacks._input_prior import InputPrior
from attacks._statistics_search import Told, search
from leakbench import api
from leakbench.attacking.view import View
from leakbench.base import registry
from leakbench.federation import Examples
from leakbench.federation.input_range import UNIT
from leakbench.record.folders import load
from leakbench.record.recording import Recording
from leakbench.scoring.originals import Originals
from leakbench.scoring.truth import Truth

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 16.0)[:, None]
LABELS = torch.tensor(DIGITS.target)
PARAMS = {"shares": "statistics", "fraction": 1.0}
TASK = {
    "model": "lenet",
    "width": 12,
    "clients": 20,
    "split": "dir",
    "split_param": 0.5,
    "mean_local_size": 20,
}
QUICK = {"clients": 2, "steps": 60}


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def net(wide=48):
    made = nn.Sequential(nn.Flatten(), nn.Linear(64, wide), nn.Tanh()).double()
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(torch.randn(p.shape, generator=dice(i)) / 8)
    return made


def of_class(label, count, start=0):
    at = (label == LABELS).nonzero().flatten()[start : start + count]
    return IMAGES[at]


def prior():
    return InputPrior(Examples(IMAGES[900:1300], LABELS[900:1300]), UNIT)


def error(found, x):
    table = (x[:, None] - found[None]).square().flatten(2).mean(2).numpy()
    return float(table[linear_sum_assignment(table)].mean())


def found_of(told, *, starts=3, steps=150):
    with torch.no_grad():
        usual = float(net()(IMAGES).var(0).mean())
    return search(net(), told, prior(), usual, starts=starts, steps=steps, dice=dice())


@pytest.mark.parametrize("n", [1, 2, 5, 60])
def test_examples_are_at_no_distance_from_their_own_statistics_in_any_order(n):
    f = net()(IMAGES[:n]).detach()
    told = Told.by(0, f)
    assert float(told.apart(f[torch.randperm(n, generator=dice())][None])[0]) < 1e-9 * n
    assert float(told.apart(net()(IMAGES[n : 2 * n]).detach()[None])[0]) > 0.1


def test_the_distance_is_that_of_the_best_rotation():
    """Of two examples the rotations of one dimension are a sign."""
    f, told = net()(IMAGES[:2]).detach(), Told.by(0, net()(IMAGES[5:7]).detach())
    half = told.root[:, 0] / 2**0.5
    both = []
    for sign in (1, -1):
        sent = torch.stack([told.mean + sign * half, told.mean - sign * half])
        both.append(float((f - sent).square().sum()))
    assert float(told.apart(f[None])[0]) == pytest.approx(min(both), rel=1e-9)


def test_its_gradient_is_the_whole_one():
    told = Told.by(0, net()(IMAGES[5:9]).detach())
    f = net()(IMAGES[:4]).detach()[None].requires_grad_()
    (slope,) = torch.autograd.grad(told.apart(f).sum(), f)
    way = torch.randn(f.shape, generator=dice(), dtype=torch.float64)
    with torch.no_grad():
        ahead, behind = told.apart(f + 1e-5 * way), told.apart(f - 1e-5 * way)
    assert float((slope * way).sum()) == pytest.approx(float(ahead - behind) / 2e-5, rel=1e-5)


@pytest.mark.parametrize(("n", "share"), [(1, 0.1), (3, 0.1), (8, 0.4)])
def test_all_examples_of_a_class_come_back(n, share):
    x = of_class(3, n)
    found = found_of(Told.by(3, net()(x).detach())).x
    assert error(found, x) < share * error(prior().means([3] * n), x)


def test_noise_on_what_was_sent_is_not_matched():
    x = of_class(3, 3)
    told = Told.by(3, net()(x).detach())
    noise = 0.03 * torch.randn(told.mean.shape, generator=dice(), dtype=torch.float64)
    found = found_of(Told((3, 3, 3), told.mean + noise, told.root)).x
    assert error(found, x) < 0.5 * error(prior().means([3] * 3), x)


def test_of_statistics_of_nothing_it_does_not_find_the_examples():
    """Ten nulls: those of other examples of the class."""
    off = guess = 0.0
    for seed in range(10):
        x, others = of_class(seed, 3), of_class(seed, 3, start=10)
        off += error(found_of(Told.by(seed, net()(others).detach()), starts=1, steps=60).x, x)
        guess += error(prior().means([seed] * 3), x)
    assert off > 0.9 * guess


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("statistics")
    return trained(out, "ccvr", rounds=5, params=PARAMS, task_params=TASK)


def test_a_run_of_ccvr_gives_its_clients_images_away(run):
    rows = {r["metric"]: r for r in api.attack(run, "statistics_inversion", **QUICK).rows}
    assert float(rows["psnr"]["value"]) > float(rows["psnr"]["floor"]) + 5
    assert float(rows["identification"]["value"]) > 0.8
    assert {r["stage"] for r in rows.values()} == {"after"}


def believed(run):
    attack = registry.load_plugin("attacks", "statistics_inversion").build(QUICK, "x")
    source = again(run)
    guesses = attack(View(attack.threat, source, source.rounds + 1))
    return [g.accepted for g in guesses]


def test_it_believes_itself_but_not_what_noise_has_covered(run, tmp_path):
    assert all(believed(run))
    noise = [("clip_noise", {"kinds": ["features"], "clip": 10.0, "noise": 0.2})]
    covered = trained(tmp_path, "ccvr", rounds=2, params=PARAMS, task_params=TASK, wrappers=noise)
    assert not any(believed(covered))


def sent_of(attack, source):
    view = View(attack.threat, source, source.rounds + 1)
    return attack._sent(view, InputPrior(view.know("aux_data"), UNIT))


def test_counts_with_a_little_noise_are_the_counts(run, tmp_path):
    noise = [("clip_noise", {"kinds": ["statistics"], "clip": 1000.0, "noise": 1e-5})]
    covered = trained(tmp_path, "ccvr", rounds=5, params=PARAMS, task_params=TASK, wrappers=noise)
    for folder in (run, covered):
        attack = registry.load_plugin("attacks", "statistics_inversion").build(QUICK, "x")
        source = again(folder)
        sent = sent_of(attack, source)
        for m, lots in sent:
            client = int(m.sender.split("/")[1])
            data = Truth(source.run).data
            rows = data["rows"][client, : int(data["counts"][client])]
            many = data["y"][rows].bincount()
            assert [told.n for told in lots] == many[many > 0].tolist()


def test_classes_of_too_many_are_left_out_and_who_has_no_other_fails(run):
    rows = api.attack(run, "statistics_inversion", most=1, **QUICK).rows
    few = next(r for r in rows if r["metric"] == "psnr")
    assert int(few["n"]) < 40


def test_attacks_on_single_features_say_where_to_look(run):
    from leakbench.attacking import choices

    for name in ("decoder", "feature_inversion"):
        why = choices.build(name, {}).obstacle(Recording(load(run.path)))
        assert "see statistics_inversion" in why


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_in_no_order_are_matched(ordered):
    x = torch.rand(4, 1, 2, 2, generator=dice(), dtype=torch.float64)
    told = Originals.of(x, torch.arange(4), UNIT, ordered=ordered)
    assert torch.equal(told.beside(x.flip(0), clip=True), x) is not ordered


def test_statistics_that_were_only_scaled_are_scaled_back(run, tmp_path):
    """Means, covariances and counts, cut to a norm of 1, with hardly any noise."""
    cut = [("clip_noise", {"kinds": ["features", "statistics"], "clip": 1.0, "noise": 1e-4})]
    folder = trained(tmp_path, "ccvr", rounds=5, params=PARAMS, task_params=TASK, wrappers=cut)
    rows = {r["metric"]: r for r in api.attack(folder, "statistics_inversion", **QUICK).rows}
    assert float(rows["identification"]["value"]) > 0.7
    assert float(rows["psnr"]["value"]) > float(rows["psnr"]["floor"]) + 3


def test_counts_that_do_not_fit_are_no_crash_and_their_classes_are_compared(run, tmp_path):
    noise = [("clip_noise", {"kinds": ["statistics"], "clip": 1000.0, "noise": 2e-3})]
    folder = trained(tmp_path, "ccvr", rounds=5, params=PARAMS, task_params=TASK, wrappers=noise)
    rows = {r["metric"]: r for r in api.attack(folder, "statistics_inversion", **QUICK).rows}
    assert rows["psnr"]["value"] != ""
    assert int(rows["psnr"]["n"]) > 4


def test_products_that_were_not_sent_are_no_data():
    f = net()(of_class(3, 4)).detach()
    whole = Told.by(3, f)
    spread = (f - f.mean(0)).T @ (f - f.mean(0)) / 3
    large = spread.abs() >= spread.abs().flatten().quantile(0.8)
    seen = Told.of(3, 4, f.mean(0), spread * large, None, large)
    assert float(seen.apart(f[None])[0]) < 1e-9
    assert float(Told.of(3, 4, f.mean(0), spread * large).apart(f[None])[0]) > 1e-3
    few = Told.of(3, 4, f.mean(0), spread, None, spread.abs() >= spread.abs().max())
    assert whole.numbers >= seen.numbers > few.numbers == len(f[0]) + 1
