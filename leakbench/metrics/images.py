"""How reconstructions are scored: each image (or signal) of the guess against its own original.

``Answer.originals`` says which these are: rows of a message in their order, or the examples behind
an update, assigned optimally.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured, NoWeights
from leakbench.base.meaning import Meaning
from leakbench.federation.input_range import InputRange
from leakbench.metrics import lpips, topics
from leakbench.scoring import image_distances
from leakbench.scoring.originals import Originals
from leakbench.scoring.truth import Answer

if TYPE_CHECKING:
    from torch import Tensor

Measure: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"

# Of a guess: what look-alikes are compared with in place of x. The least error lies nearer to the
# mean of all images than the likeliest image does.
MATCH = "match"
OF_EXAMPLES = {"topic": topics.EXAMPLES}
TOLERANCE = 0.1  # of a standard deviation, or of the range where there are bounds


def _pairs(guess: Guess, answer: Answer) -> tuple[Tensor, Originals]:
    """The guess, (B, ...) float64, in the order of its originals."""
    true = answer.originals(guess)
    return true.beside(guess.tensors["x"], clip=true.input_range.bounded), true


def _each(guess: Guess, answer: Answer, measure: Measure) -> list[Score]:
    """``measure`` on (B, ...) pairs.

    The unit is the image; images of one client share its cluster.
    """
    found, true = _pairs(guess, answer)
    return _scores(guess, true, measure(found, true.x).tolist())


def _scores(guess: Guess, true: Originals, values: list[float]) -> list[Score]:
    return [
        Score(f"{guess.unit}/{r}", guess.unit, v)
        for r, v in zip(true.rows.tolist(), values, strict=True)
    ]


def _mse(guess: Guess, answer: Answer) -> list[Score]:
    clip = answer.originals(guess).input_range.bounded
    return _each(guess, answer, partial(image_distances.mse, clip=clip))


def _within(guess: Guess, answer: Answer) -> list[Score]:
    found, true = _pairs(guess, answer)
    if not bool(found.isfinite().all()):
        raise ValueError("the guess is not finite. Count it as failed.")
    found = found.clamp(0, 1) if true.input_range.bounded else found
    near = (found - true.x).abs() <= TOLERANCE
    return _scores(guess, true, near.double().flatten(1).mean(1).tolist())


def _of_images(guess: Guess, answer: Answer, measure: Measure) -> list[Score]:
    true = answer.originals(guess)
    only_images(true.input_range, true.x.shape[1:])
    return _each(guess, answer, measure)


def is_no_picture(answer: Answer) -> bool:
    """Are the inputs signals, or rows of a table?"""
    return answer.signal or len(answer.truth.task.shape) < 2


def only_images(input_range: InputRange, shape: Sequence[int]) -> None:
    """Raise NotMeasured where inputs of ``shape`` are signals or a table."""
    if not input_range.bounded:
        raise NotMeasured(
            "it is for images in [0, 1], and these are signals or rows without bounds (they have"
            " mse, features_within and identification)"
        )
    if len(shape) < 2:
        raise NotMeasured(
            f"it is for images, and these are rows of {math.prod(shape)} features (they have mse,"
            " features_within and identification)"
        )


def _identified(guess: Guess, answer: Answer, *, clip: bool = False) -> list[Score]:
    if MATCH in guess.tensors:
        guess = replace(guess, tensors={**guess.tensors, "x": guess.tensors[MATCH]})
    found, true = _pairs(guess, answer)
    found = found.clamp(0, 1) if clip and true.input_range.bounded else found
    pairs = zip(found, _galleries(answer, true), strict=True)
    values = [image_distances.identification(g, *place) for g, place in pairs]
    return _scores(guess, true, values)


def _blind_identification(guess: Guess, answer: Answer) -> list[Score]:
    """1 / gallery, unless several images in no order are guessed.

    Then what their ``sample`` of others reaches, matched to them as the guess is.
    """
    true = answer.originals(guess)
    if "sample" in guess.tensors and len(true.x) > 1 and not true.ordered:
        others = {**guess.tensors, "x": guess.tensors["sample"]}
        return _identified(replace(guess, tensors=others), answer)
    return _scores(guess, true, [1 / len(gallery) for gallery, _ in _galleries(answer, true)])


def _galleries(answer: Answer, true: Originals) -> Iterator[tuple[Tensor, int]]:
    return (answer.gallery(r, x) for r, x in zip(true.rows.tolist(), true.x, strict=True))


def _lpips(guess: Guess, answer: Answer) -> list[Score]:
    true = answer.originals(guess)
    size = tuple(true.x.shape[1:])
    only_images(true.input_range, size)
    if len(size) == 3 and size[0] not in lpips.CHANNELS:
        raise NotMeasured(f"LPIPS needs images of 1 or 3 channels; these have {size[0]}")
    if min(size[-2:]) < lpips.SMALLEST:  # said before its seconds of imports
        raise NotMeasured(
            f"LPIPS needs images of at least {lpips.SMALLEST} x {lpips.SMALLEST} pixels; these are"
            f" {size[-2]} x {size[-1]}"
        )
    try:
        measure = lpips.load_network()
    except lpips.WeightsNotFound as error:
        raise NoWeights(str(error)) from None
    return _each(guess, answer, measure)


PSNR = Metric(
    Meaning(
        name="psnr",
        direction="up",
        low=0.0,
        high=100.0,
        unit="image",
        margin=1.0,
        title="PSNR of the reconstruction, dB",
        short="PSNR",
        verb="rebuilds images to",
        about=(
            "Peak signal-to-noise ratio of the reconstruction: higher is closer; 30 dB looks like"
            " the original."
        ),
        decimals=1,
        suffix=" dB",
        as_good=30.0,
        topic=topics.IMAGES,
        rank=1,
    ),
    needs=("x",),
    score=partial(_of_images, measure=image_distances.psnr),
    class_mean=True,
    of_examples=OF_EXAMPLES,
)
"""10 log10(1 / MSE) in dB on [0, 1]; floor: the class mean of auxiliary data."""

MSE = Metric(
    Meaning(
        name="mse",
        direction="down",
        low=0.0,
        high=None,
        unit="image",
        margin=0.005,
        title="mean squared error of the reconstruction",
        short="MSE",
        verb="rebuilds examples to an error of",
        about="Mean squared error of the reconstruction: lower is closer, 0 is the original.",
        decimals=4,
        axis="log",
        topic=topics.IMAGES,
        rank=4,
    ),
    needs=("x",),
    score=_mse,
    class_mean=True,
    of_examples=OF_EXAMPLES,
)
"""Mean squared error on [0, 1], of signals on the standardised signal.

Its range is open above: it is no proportion.
"""

FEATURES_WITHIN = Metric(
    Meaning(
        name="features_within",
        direction="up",
        low=0.0,
        high=1.0,
        unit="example",
        title="share of features rebuilt within a tenth",
        short="features within 0.1",
        verb="rebuilds this share of an example's features to within a tenth:",
        about=(
            "Share of an example's features that are rebuilt to within 0.1 of the true number, or"
            " within a tenth of the range where that has ends. 1 is the original."
        ),
        as_good=1.0,
        topic=topics.EXAMPLES,
        rank=9,
        judges=False,
    ),
    needs=("x",),
    score=_within,
    class_mean=True,
    meant_for=is_no_picture,
)
"""The share of features within ``TOLERANCE`` of the true ones, of signals and tables.

On [0, 1] where inputs have bounds, else on the standardised signal. It stands beside MSE.
"""

SSIM = Metric(
    Meaning(
        name="ssim",
        direction="up",
        low=-1.0,
        high=1.0,
        unit="image",
        margin=0.03,
        title="SSIM of the reconstruction",
        short="SSIM",
        verb="rebuilds images to SSIM",
        about="Structural similarity of the reconstruction: 1 is the original.",
        as_good=0.95,
        topic=topics.IMAGES,
        rank=2,
    ),
    needs=("x",),
    score=partial(_of_images, measure=image_distances.ssim),
    class_mean=True,
    of_examples=OF_EXAMPLES,
)
"""Structural similarity, data range 1, window 11 (7 below 32 px)."""

LPIPS = Metric(
    Meaning(
        name="lpips",
        direction="down",
        low=0.0,
        high=None,
        unit="image",
        margin=0.03,
        title="LPIPS of the reconstruction",
        short="LPIPS",
        verb="rebuilds images to LPIPS",
        about=(
            "Perceptual distance of the reconstruction, seen by a network: lower is closer, 0 is"
            " the original."
        ),
        as_good=0.05,
        axis="unit",
        topic=topics.IMAGES,
        rank=3,
    ),
    needs=("x",),
    score=_lpips,
    class_mean=True,
    of_examples=OF_EXAMPLES,
)
"""Perceptual distance, AlexNet trunk; images of 32 px and more."""

IDENTIFICATION = Metric(
    Meaning(
        name="identification",
        direction="up",
        low=0.0,
        high=1.0,
        unit="image",
        share=True,
        title="share of images found among look-alikes",
        short="identification",
        verb="finds",
        noun="images",
        about=(
            "Share of images whose reconstruction is nearer to the true image than to every"
            " look-alike, up to 99 others of its class."
        ),
        topic=topics.IMAGES,
    ),
    needs=("x",),
    score=_identified,
    floor=_blind_identification,
    of_examples={
        **OF_EXAMPLES,
        "title": "share of examples found among look-alikes",
        "noun": "examples",
        "about": (
            "Share of examples whose reconstruction is nearer to the true one than to every"
            " look-alike, up to 99 others of its class."
        ),
    },
)
"""Is the guess nearer to the true image than to the 99 others of a gallery of its class?

Ties share. Floor: 1 / gallery for a guess of one image. Guesses of a batch are matched to its
images, and what was picked for its nearness to an image is found more often than that: there the
floor is what as many auxiliary images of the same labels reach, matched likewise.
"""

IDENTIFICATION_MATCHED = replace(
    IDENTIFICATION,
    score=partial(_identified, clip=True),
    floor=None,
    control=partial(_identified, clip=True),
)
"""As `identification`, for guesses that may outnumber the images and lie outside of [0, 1].

They are clipped to [0, 1], as where they are matched. The blind guess is matched and scored, too:
what was picked for its nearness to an image is found more often than one time in a gallery. In the
control the guesses are the images themselves: where all score 1 that is so by construction, and has
no width.
"""

INVERSION_PRECISION = Metric(
    IDENTIFICATION.meaning.model_copy(
        update={
            "name": "inversion_precision",
            "title": "precision of what is called found",
            "short": "precision",
            "verb": "is right about",
            "about": (
                "Of the images of the guesses that the attack itself accepts, the share that are"
                " nearer to the true image than to every look-alike."
            ),
            "rank": 7,
            "judges": False,
        }
    ),
    needs=("x",),
    score=_identified,
    floor=_blind_identification,
    accepted_only=True,
    of_examples={
        **OF_EXAMPLES,
        "noun": "examples",
        "about": (
            "Of the examples of the guesses that the attack itself accepts, the share that are"
            " nearer to the true one than to every look-alike."
        ),
    },
)
"""``IDENTIFICATION`` among the guesses that the attack accepted; the others are no units of it."""

RECONSTRUCTION = (PSNR, SSIM, MSE, FEATURES_WITHIN, LPIPS, IDENTIFICATION)
