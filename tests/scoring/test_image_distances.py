"""Image metrics: against their definitions, written out again; LPIPS on made-up weights (the true
ones are not shipped).
"""

from __future__ import annotations

import itertools

import pytest
import torch

from leakbench.base.errors import BrokenFile, LeakbenchError
from leakbench.metrics import lpips as perceptual
from leakbench.metrics.lpips import WeightsNotFound
from leakbench.scoring.image_distances import as_images, identification, match, mse, psnr, ssim

DICE = torch.Generator().manual_seed(0)


def images(*shape):
    return torch.rand(*shape, generator=DICE, dtype=torch.float64)


def test_psnr_and_mse():
    x = torch.full((3, 1, 8, 8), 0.5)
    guess = x.clone()
    guess[1] += 0.1
    guess[2] = 7.0  # clipped to 1
    torch.testing.assert_close(
        mse(guess, x), torch.tensor([0, 0.01, 0.25], dtype=torch.float64), rtol=1e-5, atol=0
    )
    torch.testing.assert_close(
        psnr(guess, x), torch.tensor([100, 20, 6.0206], dtype=torch.float64), rtol=1e-5, atol=0
    )
    torch.testing.assert_close(mse(guess, x, clip=False)[2].item(), 6.5**2)
    torch.testing.assert_close(psnr(guess.flatten(1), x.flatten(1)), psnr(guess, x))


def test_a_guess_that_is_not_finite_is_no_number():
    x = images(2, 1, 8, 8)
    for value in (torch.nan, torch.inf):
        bad = x.clone()
        bad[1, 0, 3, 3] = value
        for measure in (mse, psnr, ssim, match):
            with pytest.raises(ValueError, match="not finite"):
                measure(bad, x)
        with pytest.raises(ValueError, match="not finite"):
            identification(bad[1], x, 1)


def test_shapes():
    flat = images(2, 64)
    assert (
        as_images(flat, (8, 8)).shape
        == as_images(flat, (1, 8, 8)).shape
        == as_images(images(2, 8, 8)).shape
        == (2, 1, 8, 8)
    )
    for wrong in (None, (7, 8), (64,)):
        with pytest.raises(ValueError, match="expected"):
            as_images(flat, wrong)
    with pytest.raises(ValueError, match="equal shape"):
        psnr(images(2, 8, 8), images(2, 1, 8, 8))


def ssim_written_out(a, b, width, sigma):
    """Wang et al. 2004, Eq. 13, with loops: Gaussian window, borders mirrored, mean over every
    pixel.
    """
    r = width // 2
    taps = torch.exp(-(torch.arange(-r, r + 1, dtype=torch.float64) ** 2) / (2 * sigma**2))
    window = taps[:, None] * taps / taps.sum() ** 2
    pad = torch.nn.ReflectionPad2d(r)
    a, b = pad(a[None, None])[0, 0], pad(b[None, None])[0, 0]
    values = []
    for i, j in itertools.product(range(len(a) - 2 * r), repeat=2):
        p, q = a[i : i + width, j : j + width], b[i : i + width, j : j + width]
        mp, mq = (window * p).sum(), (window * q).sum()
        vp, vq, vpq = (
            (window * (p - mp) ** 2).sum(),
            (window * (q - mq) ** 2).sum(),
            (window * (p - mp) * (q - mq)).sum(),
        )
        values.append(
            (2 * mp * mq + 1e-4) * (2 * vpq + 9e-4) / ((mp**2 + mq**2 + 1e-4) * (vp + vq + 9e-4))
        )
    return torch.stack(values).mean().item()


@pytest.mark.parametrize(("side", "width"), [(8, 7), (28, 7), (32, 11)])
def test_ssim_has_the_window_it_says(side, width):
    x = images(1, side, side)
    guess = (x + 0.2 * torch.randn(1, side, side, generator=DICE)).clamp(0, 1)
    want = ssim_written_out(guess[0], x[0], width, 1.5 * width / 11)
    assert ssim(guess, x).item() == pytest.approx(want, abs=1e-8)
    assert ssim(guess.flatten(1), x.flatten(1), shape=(side, side)).item() == pytest.approx(
        want, abs=1e-8
    )


def test_ssim_ends():
    x = images(3, 3, 8, 8)
    torch.testing.assert_close(ssim(x, x), torch.ones(3, dtype=torch.float64))
    assert ssim(1 - x, x).max() < 0.2
    with pytest.raises(ValueError, match="4 x 4"):
        ssim(images(1, 3, 3), images(1, 3, 3))


def test_match_finds_the_least_sum():
    guess, truth = images(5, 1, 4, 4), images(5, 1, 4, 4)
    costs = {p: mse(guess[list(p)], truth).sum().item() for p in itertools.permutations(range(5))}
    found = match(guess, truth)
    assert sorted(found.tolist()) == [0, 1, 2, 3, 4]
    assert tuple(found.tolist()) == min(costs, key=costs.__getitem__)
    order = torch.randperm(5, generator=DICE)
    assert torch.equal(truth[order][match(truth[order], truth)], truth)


def test_identification():
    gallery = images(100, 1, 8, 8)
    assert [identification(gallery[k] + 0.01, gallery, k) for k in (0, 57, 99)] == [1.0, 1.0, 1.0]
    assert identification(gallery[3], gallery, 4) == 0.0
    gallery[7] = gallery[9] = gallery[3]
    guess = gallery[3] + 0.05 * torch.randn(1, 8, 8, generator=DICE)
    assert identification(guess, gallery, 7) == pytest.approx(1 / 3)
    assert identification(gallery[3], gallery, 9) == pytest.approx(1 / 3)
    assert identification(torch.zeros(1, 8, 8), torch.zeros(50, 1, 8, 8), 7) == pytest.approx(
        1 / 50
    )


def test_identification_in_another_metric():
    gallery = torch.stack([torch.full((4,), 0.2), torch.tensor([0.9, 0.1, 0.9, 0.1])])
    guess = torch.tensor([0.35, 0.15, 0.35, 0.15])  # near the first, but of the second's form

    def angle(a, b):
        return 1 - torch.nn.functional.cosine_similarity(
            a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)
        )

    assert identification(guess, gallery, 0) == 1.0
    assert identification(guess, gallery, 1, distance=angle) == 1.0
    with pytest.raises(ValueError, match="place"):
        identification(guess, gallery, 2)
    with pytest.raises(ValueError, match="equal shapes"):
        identification(guess[None], gallery, 0)


SIZES = {
    0: (64, 3, 11, 11),
    3: (192, 64, 5, 5),
    6: (384, 192, 3, 3),
    8: (256, 384, 3, 3),
    10: (256, 256, 3, 3),
}


@pytest.fixture
def weights():
    dice = torch.Generator().manual_seed(1)
    out = {}
    for layer, size in SIZES.items():
        out[f"features.{layer}.weight"] = (
            torch.randn(*size, generator=dice) / (size[1] * size[2] * size[3]) ** 0.5
        )
        out[f"features.{layer}.bias"] = 0.1 * torch.randn(size[0], generator=dice)
    return out


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return tmp_path


def test_lpips_weights_missing(place):
    with pytest.raises(
        WeightsNotFound, match=r"alexnet_features\.safetensors.*fetch it once with python -c"
    ) as caught:
        perceptual.load_network()
    assert isinstance(caught.value, LeakbenchError)
    folder = place / "torch" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "alexnet-owt-7be5be79.pth").write_bytes(b"not opened")
    with pytest.raises(WeightsNotFound, match="a pickle, which is not read"):
        perceptual.load_network()


def test_lpips_weights_broken(place, weights):
    from safetensors.torch import save_file

    path = place / perceptual.FILE
    path.write_bytes(b"x")
    with pytest.raises(BrokenFile, match="damaged"):
        perceptual.load_network()
    save_file({k: v for k, v in weights.items() if k != "features.6.bias"}, path)
    with pytest.raises(BrokenFile, match=r"features\.6\.bias"):
        perceptual.load_network()
    save_file(weights | {"features.6.bias": torch.zeros(5)}, path)
    with pytest.raises(BrokenFile, match="other sizes"):
        perceptual.load_network()


def test_lpips(place, weights):
    from safetensors.torch import save_file

    (place / "lpips").mkdir()
    save_file(weights, place / "lpips" / perceptual.FILE, {"source": "made up"})
    before = torch.get_rng_state()
    lpips = perceptual.load_network()
    assert torch.equal(torch.get_rng_state(), before)
    save_file({k: weights[k] for k in reversed(weights)}, place / "other.safetensors")
    assert perceptual.load_network(place / "other.safetensors").sha256 == lpips.sha256
    changed = weights | {"features.0.bias": weights["features.0.bias"] + 1e-6}
    save_file(changed, place / "changed.safetensors")
    assert perceptual.load_network(place / "changed.safetensors").sha256 != lpips.sha256

    x = images(3, 3, 32, 32)
    far, near = images(3, 3, 32, 32), (x + 0.02 * torch.randn(x.shape, generator=DICE)).clamp(0, 1)
    torch.testing.assert_close(lpips(x, x), torch.zeros(3, dtype=torch.float64))
    assert (lpips(near, x) > 0).all()
    assert (lpips(near, x) < lpips(far, x)).all()
    torch.testing.assert_close(
        lpips(far.flatten(1), x.flatten(1), shape=(3, 32, 32)), lpips(far, x)
    )
    grey = images(2, 32, 32)
    torch.testing.assert_close(
        lpips(grey, grey.flip(0)),
        lpips(grey[:, None].repeat(1, 3, 1, 1), grey.flip(0)[:, None].repeat(1, 3, 1, 1)),
    )
    with pytest.raises(ValueError, match="32 x 32"):
        lpips(images(1, 8, 8), images(1, 8, 8))
    with pytest.raises(ValueError, match="not finite"):
        lpips(x * torch.nan, x)


def test_lpips_uses_every_one_of_our_weights(place, weights):
    from safetensors.torch import save_file

    save_file(weights, place / perceptual.FILE)
    held = [
        p for name, p in perceptual.load_network().net.named_parameters() if name.startswith("net.")
    ]
    assert len(held) == 10
    for ours, theirs in zip(weights.values(), held, strict=True):
        assert torch.equal(ours, theirs)
