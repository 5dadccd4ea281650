"""How a picture drawn from a prototype is scored: as what a client's images have in common.

A prototype is of all images of a client, so the picture stands beside their mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.meaning import Meaning
from leakbench.metrics import topics
from leakbench.metrics.images import only_images
from leakbench.metrics.prototypes import likeness, named
from leakbench.scoring import image_distances
from leakbench.scoring.truth import Answer, Truth

FEW = 2  # images of the client's class that nobody holds, at least


def means(truth: Truth) -> Tensor:
    """(C, *shape) float64: the mean of each client's images.

    Raises:
        NotMeasured: the images are nowhere on this machine, or a client has none.
    """
    if "means of images" not in truth.memo:
        data, out = truth.data, []
        for rows, count in zip(data["rows"], data["counts"].tolist(), strict=True):
            if not count:
                raise NotMeasured("a client holds no images to compare a picture with.")
            out.append(truth.images(rows[:count]).mean(0))
        truth.memo["means of images"] = torch.stack(out)
    found: Tensor = truth.memo["means of images"]
    return found


def shown(guess: Guess, answer: Answer) -> Tensor:
    """(*shape) float64: the picture, images clipped to [0, 1]."""
    picture = guess.tensors["picture"].double().cpu()
    return picture if answer.signal else picture.clamp(0, 1)


def _alike(guess: Guess, answer: Answer, x: Tensor) -> Tensor:
    """(n,): how alike the picture and each of ``x`` (n, *shape) are.

    The cosine of both less the mean of all clients' means: what images of all clients have in
    common says nothing, and contrast neither.
    """
    common = means(answer.truth).mean(0)
    picture = shown(guess, answer).reshape(common.shape)
    return likeness((picture - common).flatten(), (x - common).flatten(1), "cosine")


def _names(guess: Guess, answer: Answer) -> list[Score]:
    alike = _alike(guess, answer, means(answer.truth))
    return [Score(guess.unit, guess.unit, float(named(alike)[answer.client]))]


def _one_of_all(guess: Guess, answer: Answer) -> list[Score]:
    return [Score(guess.unit, guess.unit, 1 / len(answer.truth.data["counts"]))]


def _psnr(guess: Guess, answer: Answer) -> list[Score]:
    only_images(answer)
    true = means(answer.truth)[answer.client]
    value = image_distances.psnr(shown(guess, answer).reshape(1, *true.shape), true[None])
    return [Score(guess.unit, guess.unit, float(value))]


def _members(guess: Guess, answer: Answer) -> list[Score]:
    """Of all pairs of an image that the client holds and one that it does not: ties count half."""
    truth = answer.truth
    own = _alike(guess, answer, truth.images(answer.examples))
    others = _alike(guess, answer, _outside(answer))
    ahead = (own[:, None] > others).double() + 0.5 * (own[:, None] == others).double()
    return [Score(guess.unit, guess.unit, float(ahead.mean()))]


def _class_alone(guess: Guess, answer: Answer) -> list[Score]:
    """The mean of the auxiliary images of the client's class in the picture's place."""
    of_class = answer.truth.unheld("aux", _class(answer))
    if not len(of_class):
        raise NotMeasured("there are no auxiliary images of a client's class.")
    blind = Guess(guess.unit, guess.round, {"picture": of_class.mean(0)}, probe=guess.probe)
    return _members(blind, answer)


def _class(answer: Answer) -> int:
    """The class that the client stands for."""
    mine = int(answer.truth.data["client_class"][answer.client])
    if mine < 0:
        raise NotMeasured("clients stand for no class of their own.")
    return mine


def _outside(answer: Answer) -> Tensor:
    """(n, *shape) float64: test images of the client's class, which nobody holds."""
    found = answer.truth.unheld("test", _class(answer))
    if len(found) < FEW:
        raise NotMeasured(
            f"{len(found)} images of a client's class are held by nobody, and it takes {FEW} at"
            " least to tell its own from."
        )
    return found


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

PICTURE_MEMBERS = Metric(
    Meaning(
        name="picture_members",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="own images more like the picture than others of the class",
        short="members by picture",
        verb="prefers a client's own images at a rate of",
        about=(
            "How often an image that the client holds is more like its picture than an image of"
            " the same class that nobody holds: 0.5 tells nothing but the class."
        ),
        topic=topics.PROTOTYPES,
        rank=8,
    ),
    needs=("picture",),
    score=_members,
    floor=_class_alone,
)
"""Over all pairs of an own image and a test image of the client's class; ties count half.

Floor: the mean of the auxiliary images of that class, which no image of the client is in. So what
is above it is of the client's images, and not of their class, nor of how the sets differ.
"""
