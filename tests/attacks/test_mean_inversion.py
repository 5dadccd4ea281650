"""Inputs behind means of a few: what a mean leaves open, and what is found of it."""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import trained
from sklearn.datasets import load_digits

from attacks import mean_inversion
from attacks._input_prior import InputPrior
from attacks._statistics_search import Told, search
from leakbench import api
from leakbench.federation import Examples
from leakbench.federation.input_range import UNIT
from leakbench.record.messages import Message

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images / 16.0)[:, None]
LABELS = torch.tensor(DIGITS.target)
PRIOR = InputPrior(Examples(IMAGES[900:1300], LABELS[900:1300]), UNIT)


def found(told):
    usual = float(PRIOR.x.var(0).mean())
    dice = torch.Generator().manual_seed(0)
    return search(lambda x: x, told, PRIOR, usual, starts=1, steps=100, dice=dice).x


def error(a, b):
    return float((a - b).square().mean())


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_what_is_found_has_the_mean_and_is_nearer_than_the_class_means(noise):
    better = 0
    for seed in range(5):
        rows = [seed, seed + 11, seed + 25]
        x, y = IMAGES[rows], LABELS[rows].tolist()
        dice = torch.Generator().manual_seed(seed)
        sent = x.mean(0) + noise * torch.randn(x[0].shape, generator=dice, dtype=torch.float64)
        made = found(Told.of_mean(y, sent))
        assert error(made.mean(0), x.mean(0)) < 1e-3
        better += error(made, x) < error(PRIOR.means(y), x)
    assert better == 5


def test_a_mean_of_one_is_the_example():
    assert error(found(Told.of_mean([int(LABELS[0])], IMAGES[0])), IMAGES[:1]) < 1e-4


def test_of_the_mean_of_others_nothing_is_found():
    """Ten nulls: means of other images of the same classes."""
    off = guess = 0.0
    for seed in range(10):
        rows = [seed, seed + 11]
        y = LABELS[rows].tolist()
        others = [next(j for j in range(50, 900) if int(LABELS[j]) == label) for label in y]
        off += error(found(Told.of_mean(y, IMAGES[others].mean(0))), IMAGES[rows])
        guess += error(PRIOR.means(y), IMAGES[rows])
    assert off > 0.9 * guess


@pytest.mark.parametrize(("size", "least"), [(1, 0.99), (2, 0.2)])
def test_fedmixs_means_of_few_give_their_images_away(tmp_path, size, least):
    run = trained(tmp_path, "fedmix", rounds=2, params={"size": size})
    rows = {r["metric"]: r for r in api.attack(run, "mean_inversion", groups=4).rows}
    assert float(rows["identification"]["value"]) > least
    assert float(rows["psnr"]["value"]) > float(rows["psnr"]["floor"]) + 1


def test_of_means_without_labels_each_example_is_of_any_class(tmp_path):
    run = trained(tmp_path, "fedbr", rounds=2, params={"size": 2})
    rows = {r["metric"]: r for r in api.attack(run, "mean_inversion", groups=4).rows}
    assert float(rows["psnr"]["value"]) > float(rows["psnr"]["floor"])


def rows_of(out, wrappers):
    task = {"split": "dir", "split_param": 0.5, "clients": 5, "mean_local_size": 40}
    params = {"size": 3, "fraction": 1.0}
    run = trained(out, "fedmix", rounds=2, params=params, task_params=task, wrappers=wrappers)
    rows = {r["metric"]: r for r in api.attack(run, "mean_inversion", groups=4).rows}
    return {name: float(rows[name]["value"]) for name in ("psnr", "identification")}


def test_means_that_were_only_scaled_are_scaled_back(tmp_path):
    """Clipped to a norm of 1, images and labels, with hardly any noise: nothing is hidden."""
    cut = {"kinds": ["mean_data", "labels"], "clip": 1.0, "noise": 1e-4}
    plain, scaled = rows_of(tmp_path / "a", []), rows_of(tmp_path / "b", [("clip_noise", cut)])
    assert scaled["psnr"] > plain["psnr"] - 0.5


def test_numbers_of_a_mean_that_were_not_sent_are_no_data():
    sparse = plain = 0.0
    for seed in range(5):
        rows = [seed, seed + 11]
        x, y = IMAGES[rows], LABELS[rows].tolist()
        mean = x.mean(0)
        sent = mean >= mean.flatten().kthvalue(48).values  # a quarter of it
        cut = torch.where(sent, mean, 0.0)
        sparse += error(found(Told.of_mean(y, cut, sent)), x)
        plain += error(found(Told.of_mean(y, cut)), x)
    assert sparse < 0.7 * plain


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_labels_are_read_at_any_scale(scale):
    rows = torch.tensor([[2, 1, 0, 0], [0, 0, 0, 3]]) / 3
    m = Message(1, 0, "client/0", "server", "labels", scale * rows)
    read = [mean_inversion._labels(row, 3) for row in mean_inversion._whole(m)]
    assert read == [[0, 0, 1], [3, 3, 3]]
    kept = torch.tensor([[2, 0, 0, 0], [0, 0, 0, 3]]) / 3  # of which a third was not sent
    m = Message(1, 0, "client/0", "server", "labels", kept, sparse=True)
    read = [mean_inversion._labels(row, 3) for row in mean_inversion._whole(m)]
    assert read == [[0, 0, mean_inversion.ANY], [3, 3, 3]]


def test_of_labels_with_noise_the_likeliest_are_kept():
    assert mean_inversion._labels(torch.tensor([0.9, 0.55, 0.2, 0.55]), 3) != [0, 0, 1]
    assert len(mean_inversion._labels(torch.tensor([0.9, 0.55, 0.2, 0.55]), 3)) == 3
