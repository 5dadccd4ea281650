"""How a picture drawn from a prototype is scored: as what a client's images have in common.

A prototype is of all images of a client, so the picture stands beside their mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.metrics.images import only_images
from leakbench.metrics.prototypes import likeness, share_named
from leakbench.scoring import image_distances
from leakbench.scoring.truth import Answer, Truth

if TYPE_CHECKING:
    from torch import Tensor


def means(truth: Truth) -> Tensor:
    """(C, *shape) float64: the mean of each client's images.

    Raises:
        NotMeasured: the images are nowhere on this machine, or a client has none.
    """
    if "image_means" not in truth.memo:
        data, out = truth.data, []
        for rows, count in zip(data["rows"], data["counts"].tolist(), strict=True):
            if not count:
                raise NotMeasured("a client holds no images to compare a picture with.")
            mean = truth.images(rows[:count]).mean(0)
            out.append(truth.task.lies_in.unit(mean))
        truth.memo["image_means"] = torch.stack(out)
    found: Tensor = truth.memo["image_means"]
    return found


def shown(guess: Guess, answer: Answer) -> Tensor:
    """(*shape) float64: the picture, images on [0, 1] and clipped."""
    picture, lies = guess.tensors["picture"].double().cpu(), answer.input_range
    return lies.unit(picture).clamp(0, 1) if lies.bounded else picture


def _names(guess: Guess, answer: Answer) -> list[Score]:
    """By the cosine of picture and means, both less the mean of all means.

    What all clients' images have in common says nothing, and neither does contrast.
    """
    every = means(answer.truth)
    common = every.mean(0)
    picture = shown(guess, answer).reshape(common.shape)
    alike = likeness((picture - common).flatten(), (every - common).flatten(1), "cosine")
    return [Score(guess.unit, guess.unit, float(share_named(alike)[answer.client]))]


def _one_of_all(guess: Guess, answer: Answer) -> list[Score]:
    return [Score(guess.unit, guess.unit, 1 / len(answer.truth.data["counts"]))]


def _psnr(guess: Guess, answer: Answer) -> list[Score]:
    true = means(answer.truth)[answer.client]
    only_images(answer.input_range, true.shape)
    value = image_distances.psnr(shown(guess, answer).reshape(1, *true.shape), true[None])
    return [Score(guess.unit, guess.unit, float(value))]


PICTURE_NAMES = Metric(
    Meaning(
        name="picture_names",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        share=True,
        title="share of clients named by a picture",
        short="named by picture",
        verb="draws recognisable pictures of",
        noun="clients",
        about=(
            "Share of clients whose own images' mean is, of all clients', the most like the picture"
            " drawn of them (cosine of both less what all have in common)."
        ),
        topic=topics.PROTOTYPES,
        rank=6,
    ),
    needs=("picture",),
    score=_names,
    floor=_one_of_all,
)
"""Is the picture more like the mean of the client's own images than that of any other's?

Ties share. With one class a client this names the class. Floor: 1 / clients, which a picture that
is the same for all reaches exactly.
"""

PICTURE_PSNR = Metric(
    Meaning(
        name="picture_psnr",
        direction="up",
        low=0.0,
        high=100.0,
        unit="client",
        margin=1.0,
        title="PSNR of the picture of a client, dB",
        verb="draws clients' mean images to",
        about=(
            "Peak signal-to-noise ratio between the picture drawn of a client and the mean of its"
            " images; a mean is smooth, so blind pictures come nearer to it than to an image."
        ),
        decimals=1,
        suffix=" dB",
        as_good=30.0,
        topic=topics.PROTOTYPES,
        rank=7,
    ),
    needs=("picture",),
    score=_psnr,
)
"""In dB on [0, 1], against the mean of the client's images; floor: the mean of auxiliary ones."""
