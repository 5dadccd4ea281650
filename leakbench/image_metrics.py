"""How reconstructions are scored: each image of the guess against its own original, assigned optimally."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from leakbench import images, perceptual
from leakbench.errors import NotMeasured
from leakbench.guess import Guess
from leakbench.metrics import Metric, Score
from leakbench.truth import Answer


def _each(guess: Guess, answer: Answer, measure: Callable[[Tensor, Tensor], Tensor]) -> list[Score]:
    """``measure`` on (B, ...) pairs; the unit is the image, images of one client share its cluster."""
    x, _, rows = answer.batch()
    found = guess.tensors["x"].double().cpu().reshape(x.shape)
    found = found[images.match(found, x)]
    values = measure(found, x).tolist()
    return [Score(f"{guess.unit}/{int(r)}", guess.unit, float(v)) for r, v in zip(rows, values, strict=True)]


def _identified(guess: Guess, answer: Answer) -> list[Score]:
    x, _, rows = answer.batch()
    found = guess.tensors["x"].double().cpu().reshape(x.shape)
    found = found[images.match(found, x)]
    return [
        Score(f"{guess.unit}/{int(r)}", guess.unit, images.identification(image, *answer.gallery(int(r), true)))
        for image, true, r in zip(found, x, rows, strict=True)
    ]


def _blind_identification(guess: Guess, answer: Answer) -> list[Score]:
    x, _, rows = answer.batch()
    return [Score(f"{guess.unit}/{int(r)}", guess.unit, 1 / len(answer.gallery(int(r), true)[0])) for true, r in zip(x, rows, strict=True)]


def _lpips(guess: Guess, answer: Answer) -> list[Score]:
    size = tuple(answer.batch()[0].shape[1:])
    if min(size[-2:]) < perceptual.SMALLEST:  # said before its seconds of imports
        raise NotMeasured(
            f"LPIPS needs images of at least {perceptual.SMALLEST} x {perceptual.SMALLEST} pixels; these are {size[-2]} x {size[-1]}"
        )
    try:
        measure = perceptual.load()
    except perceptual.WeightsNotFound as error:
        raise NotMeasured(str(error)) from None
    return _each(guess, answer, measure)


PSNR = Metric("psnr", "up", 0.0, 100.0, "image", False, ("x",), partial(_each, measure=images.psnr))
"""10 log10(1 / MSE) in dB on [0, 1]; floor: the class mean of auxiliary data."""

MSE = Metric("mse", "down", 0.0, float("inf"), "image", False, ("x",), partial(_each, measure=images.mse))
"""Mean squared error on [0, 1] (its range is open above: it is no proportion)."""

SSIM = Metric("ssim", "up", -1.0, 1.0, "image", False, ("x",), partial(_each, measure=images.ssim))
"""Structural similarity, data range 1, window 11 (7 below 32 px)."""

LPIPS = Metric("lpips", "down", 0.0, float("inf"), "image", False, ("x",), _lpips)
"""Perceptual distance, AlexNet trunk; images of 32 px and more."""

IDENTIFICATION = Metric("identification", "up", 0.0, 1.0, "image", True, ("x",), _identified, floor=_blind_identification)
"""The guess is nearer to the true image than to the 99 others of a gallery of its class; ties share."""

RECONSTRUCTION = (PSNR, SSIM, MSE, LPIPS, IDENTIFICATION)
