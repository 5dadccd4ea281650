"""How near a reconstructed image is to the true one: pure functions, one float64 value an image.

Images are (B, H, W), (B, C, H, W) or, with ``shape`` = (H, W) or (C, H, W), flat (B, H*W*C). A
guess that is not finite is a ``ValueError``, never a number: the caller decides that it failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from leakbench.base.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

# (guess (1, ...), gallery (G, ...)) -> (G,)
Distance: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"

PSNR_MOST = 100.0  # dB; an exact guess would be infinite
_TIE = 1e-9  # relative; equal images must tie whatever order their pixels were summed in


def mse(guess: Tensor, truth: Tensor, *, clip: bool = True) -> Tensor:
    """Mean squared error, (B,).

    Args:
        guess: (B, ...).
        truth: (B, ...).
        clip: images: the guess is clipped to [0, 1] first. Sensors (standardised, no bounds):
            ``False``.

    Raises:
        ValueError: shapes differ, or something is not finite.
    """
    guess, truth = pair(guess, truth, clip=clip)
    return (guess - truth).square().flatten(1).mean(1)


def psnr(guess: Tensor, truth: Tensor) -> Tensor:
    """Peak signal-to-noise ratio in dB, 10 log10(1/MSE) of images clipped to [0, 1], (B,).

    At most 100 dB.

    Raises:
        ValueError: shapes differ, or something is not finite.
    """
    return (-10 * mse(guess, truth).clamp(min=10 ** (-PSNR_MOST / 10)).log10()).clamp(max=PSNR_MOST)


def ssim(guess: Tensor, truth: Tensor, *, shape: Sequence[int] | None = None) -> Tensor:
    """Structural similarity (Wang et al. 2004) of images clipped to [0, 1]: (B,), in [-1, 1].

    The window is Gaussian: 11 pixels wide with sigma 1.5, or, where a side is under 32, 7 wide with
    sigma 1.5 * 7 / 11. torchmetrics ignores ``kernel_size`` for a Gaussian window and derives the
    width, 2 * int(3.5 sigma + 0.5) + 1, from sigma; so sigma is what is passed. It mirrors the
    image at its borders (reflection, so a side needs 4 pixels) and averages over the mirrored
    margin as well.

    Raises:
        ValueError: shapes differ, something is not finite, or a side has fewer than 4 pixels.
    """
    guess, truth = (as_images(t, shape) for t in pair(guess, truth, clip=True))
    side = min(guess.shape[-2:])
    if side < 4:
        raise ValueError(
            f"SSIM needs images of at least 4 x 4 pixels, got {tuple(guess.shape[-2:])}. Use PSNR"
            " or MSE."
        )
    from torchmetrics.functional.image import structural_similarity_index_measure

    sigma = 1.5 if side >= 32 else 1.5 * 7 / 11
    return structural_similarity_index_measure(
        guess, truth, sigma=sigma, data_range=1.0, reduction="none"
    ).reshape(-1)


def match(guess: Tensor, truth: Tensor, *, clip: bool = True) -> Tensor:
    """The assignment with the least total squared error, (B,) int64.

    ``guess[match(guess, truth)]`` lies beside ``truth``.

    Args:
        guess: (m, ...), m >= B; those of them that fit nothing are left over.
        truth: (B, ...).
        clip: as for ``mse``.

    Raises:
        ValueError: shapes differ, there are fewer guesses than images, or something is not finite.
    """
    from scipy.optimize import linear_sum_assignment

    if guess.shape[1:] != truth.shape[1:] or len(guess) < len(truth) or not truth.numel():
        raise ValueError(
            f"{tuple(guess.shape)} cannot be matched to {tuple(truth.shape)}. Give a guess of that"
            " shape for each at least."
        )
    guess = _ready(guess, "guess", clip=clip).flatten(1)
    truth = _ready(truth, "truth", clip=clip).flatten(1)
    # (truth, guess); differences: a Gram form would round 100 dB away.
    cost = torch.stack([(guess - t).square().sum(1) for t in truth])
    _, columns = linear_sum_assignment(cost.cpu().numpy())
    return torch.as_tensor(columns, dtype=torch.int64, device=guess.device)


def euclidean(guess: Tensor, gallery: Tensor) -> Tensor:
    """Euclidean distance of one image (1, ...) to each of the gallery (G, ...), (G,)."""
    return (guess - gallery).flatten(1).square().sum(1).sqrt()


def identification(
    guess: Tensor,
    gallery: Tensor,
    index: int,
    distance: Distance | Literal["euclidean"] = "euclidean",
) -> float:
    """1 if the true image is the one of the gallery nearest to the guess, else 0; ties share.

    Args:
        guess: (...), one image; not clipped, the attack's own metric decides.
        gallery: (G, ...), the true image and others of its class.
        index: the true image's place.
        distance: on (1, ...) and (G, ...), to (G,); the metric that the attack declares.

    Raises:
        ValueError: shapes differ, something is not finite, or ``index`` lies outside the gallery.
    """
    if guess.shape != gallery.shape[1:]:
        raise ValueError(
            f"the guess is {tuple(guess.shape)}, the gallery's images are"
            f" {tuple(gallery.shape[1:])}. Give equal shapes."
        )
    if not 0 <= index < len(gallery):
        raise ValueError(
            f"the true image's place is {index}, the gallery has {len(gallery)} images. Give 0 to"
            f" {len(gallery) - 1}."
        )
    _finite(guess, "guess")
    _finite(gallery, "gallery")
    measure = euclidean if distance == "euclidean" else distance
    far = measure(guess.double()[None], gallery.double())
    _finite(far, "distance")
    near = far <= far.min() + _TIE * far.min().abs()
    return float(near[index]) / int(near.sum())


def as_images(images: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """(B, ...) as (B, C, H, W).

    Raises:
        ValueError: it cannot be read so.
    """
    if shape is not None and (len(shape) not in (2, 3) or math.prod(shape) != images[0].numel()):
        raise ValueError(
            f"images of shape {tuple(shape)} were expected, {tuple(images.shape)} came. Give (H, W)"
            " or (C, H, W)."
        )
    if shape is not None:
        images = images.reshape(len(images), *shape)
    if images.ndim not in (3, 4):
        raise ValueError(
            f"expected images (B, H, W) or (B, C, H, W), got {tuple(images.shape)}. Say their shape"
            " with shape=(C, H, W)."
        )
    return images if images.ndim == 4 else images[:, None]


def pair(guess: Tensor, truth: Tensor, *, clip: bool) -> tuple[Tensor, Tensor]:
    """Both as float64 (B, ...), clipped to [0, 1] if ``clip``.

    Raises:
        ValueError: shapes differ, or something is not finite.
    """
    if guess.shape != truth.shape or guess.ndim < 2 or not guess.numel():
        raise ValueError(
            f"expected two batches of equal shape, got {tuple(guess.shape)} and"
            f" {tuple(truth.shape)}. Give both as (B, ...)."
        )
    return _ready(guess, "guess", clip=clip), _ready(truth, "truth", clip=clip)


def _ready(value: Tensor, what: str, *, clip: bool) -> Tensor:
    _finite(value, what)
    value = value.detach().double()
    return value.clamp(0, 1) if clip else value


def _finite(value: Tensor, what: str) -> None:
    if not bool(value.isfinite().all()):
        raise ValueError(f"the {what} is not finite. Count it as failed.")
