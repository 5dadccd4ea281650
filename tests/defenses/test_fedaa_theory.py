"""FedAA, Appendix A: what it says of distance correlation and label names, tried on examples."""

from __future__ import annotations

import pytest
import torch

from leakbench.statistics.distance_correlation import correlations, p_value, permuted

DICE = torch.Generator().manual_seed(0)


def equal_classes(classes: int, each: int) -> torch.Tensor:
    """One-hot names (classes * each, classes) float64, equally many of each."""
    return torch.eye(classes, dtype=torch.float64).repeat_interleave(each, 0)


def definition(x, y):
    """Eq. 10 to 13 as printed: R_n^2, without a root."""

    def centred(z):
        d = (z[:, None] - z[None]).square().sum(-1).sqrt()
        return d - d.mean(0) - d.mean(1)[:, None] + d.mean()

    a, b = centred(x), centred(y)
    return ((a * b).mean() / ((a * a).mean() * (b * b).mean()).sqrt()).item()


@pytest.mark.parametrize("classes", [2, 4, 10, 50])
def test_r2_of_names_is_1_where_the_image_is_its_class_and_does_not_fall_with_the_number_of_classes(
    classes,
):
    """Against Eq. 9 (20): at most 0.5, and 0 in the limit of many classes."""
    x = equal_classes(classes, 4)
    found = correlations(x, x)
    assert definition(x, x) == pytest.approx(1, abs=1e-12)
    assert found["dcor"] ** 2 == pytest.approx(1, abs=1e-12)
    assert found["dcor2_corrected"] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("classes", [2, 4])
def test_r2_is_above_a_half_for_images_that_only_follow_their_class(classes):
    """No two images are equal here, and R^2 is still above what Eq. 9 allows, bias or not."""
    y = equal_classes(classes, 40)
    x = 3 * y @ torch.randn(classes, 16, generator=DICE, dtype=torch.float64)
    x = x + 0.5 * torch.randn(len(x), 16, generator=DICE, dtype=torch.float64)
    found = correlations(x, y)
    assert found["dcor"] ** 2 == pytest.approx(definition(x, y), abs=1e-10)
    assert found["dcor"] ** 2 > 0.6
    assert found["dcor2_corrected"] > 0.6


@pytest.mark.parametrize("classes", [2, 4, 10])
def test_the_variance_of_names_is_that_of_eq_18(classes):
    """(1/N - 1/N^2) C^2, with C = sqrt(2) for one-hot names (the paper takes 1): Eq. 18 is right,
    and what it stands for is dCov(Y, Y).
    """
    y = equal_classes(classes, 5)
    d = (y[:, None] - y[None]).square().sum(-1).sqrt()
    a = d - d.mean(0) - d.mean(1)[:, None] + d.mean()
    assert d.max().item() == pytest.approx(2**0.5)
    assert a.square().mean().item() == pytest.approx(2 * (1 / classes - 1 / classes**2), abs=1e-12)


def test_with_one_name_r2_is_0_by_convention_and_the_name_may_be_the_secret():
    """Within each client nothing varies (N = 1, "which corresponds to our experiments"); over the
    clients the name tells the image.
    """
    names = equal_classes(2, 10)
    images = names * 3 + 0.1 * torch.rand(20, 2, generator=DICE, dtype=torch.float64)
    for client in (slice(0, 10), slice(10, 20)):
        assert set(correlations(images[client], names[client]).values()) == {0.0}
    found = correlations(images, names)
    assert found["dcor"] ** 2 > 0.95
    assert found["dcor2_corrected"] > 0.95


def test_r2_of_shuffled_names_is_above_0_by_bias_alone():
    plain, corrected, ps = [], [], []
    for seed in range(20):
        dice = torch.Generator().manual_seed(seed)
        names = equal_classes(10, 2)
        images = names @ torch.randn(10, 64, generator=dice, dtype=torch.float64)
        x, y = images, names[torch.randperm(20, generator=dice)]
        found, null = correlations(x, y), permuted(x, y, generator=dice, permutations=99)
        plain.append(found["dcor"] ** 2)
        corrected.append(found["dcor2_corrected"])
        ps.append(p_value(found["dcor2_corrected"], null["dcor2_corrected"]))
        assert null["dcor"].square().min() > 0.2
    assert min(plain) > 0.2
    assert abs(sum(corrected) / 20) < 0.05
    assert sum(p <= 0.05 for p in ps) <= 4
    assert sum(ps) / 20 > 0.3
