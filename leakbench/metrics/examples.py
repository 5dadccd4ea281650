"""How examples made from a client's model are scored beside its images.

Are any reproduced, and are they recognised as what they were made for?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric, Score
from leakbench.base.errors import NotMeasured
from leakbench.base.lazy import torch
from leakbench.base.meaning import Meaning
from leakbench.federation.input_range import InputRange
from leakbench.metrics import topics
from leakbench.metrics.images import (
    IDENTIFICATION_MATCHED,
    LPIPS,
    MSE,
    OF_EXAMPLES,
    PSNR,
    SSIM,
    only_images,
)
from leakbench.scoring import image_distances
from leakbench.scoring.truth import Answer

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 2**24  # numbers of images compared at once


class Recogniser:
    """scikit-learn's support vector machine with a Gaussian kernel on standardised inputs.

    Nothing in it is drawn.

    Args:
        x: (n, ...) inputs, uint8 images (0 to 255 stands for 0 to 1) or floats.
        y: (n,) int64 classes.
        clip: to where these inputs lie what is to be recognised.
    """

    def __init__(self, x: Tensor, y: Tensor, *, clip: InputRange) -> None:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        self.clip = clip
        floats = x.double() if x.is_floating_point() else x.double() / 255
        self.machine = make_pipeline(StandardScaler(), SVC(C=10.0)).fit(
            floats.flatten(1).numpy(), y.numpy()
        )

    def __call__(self, x: Tensor) -> Tensor:
        """(n,) int64, the class of each of x (n, ...)."""
        shown = self.clip.kept(x.detach().double().cpu()).flatten(1)
        return torch.as_tensor(self.machine.predict(shown.numpy()))


def _nearest(guess: Guess, answer: Answer) -> list[Score]:
    lies, rows, best = answer.input_range, answer.examples, 0.0
    only_images(lies, answer.truth.task.shape)
    x = lies.unit(guess.tensors["x"].double().cpu()).flatten(1).clamp(0, 1)
    step = max(1, CHUNK // x.shape[1])
    for begin in range(0, len(rows), step):
        held = lies.unit(answer.truth.images(rows[begin : begin + step])).flatten(1)
        # Rounded, so the pairs that it finds are measured once more.
        nearest = held[torch.cdist(x, held).argmin(1)]
        best = max(best, float(image_distances.psnr(x, nearest).max()))
    return [Score(guess.unit, guess.unit, best)]


def _recognised(guess: Guess, answer: Answer) -> list[Score]:
    known = answer.truth.run
    if "recogniser" not in answer.truth.memo:
        if "known/aux_data.safetensors" not in known.meta["files"]:
            raise NotMeasured(
                "the run holds no auxiliary data on which a classifier of scoring's own could be"
                " trained"
            )
        aux = known.tree("known/aux_data.safetensors")[0]
        answer.truth.memo["recogniser"] = Recogniser(aux["x"], aux["y"], clip=answer.input_range)
    said: Tensor = answer.truth.memo["recogniser"](guess.tensors["x"])
    right = (said == guess.tensors["y"].cpu()).double().mean()
    return [Score(guess.unit, guess.unit, float(right))]


NEAREST_PSNR = Metric(
    Meaning(
        name="nearest_psnr",
        direction="up",
        low=0.0,
        high=100.0,
        unit="client",
        margin=1.0,
        title="PSNR of the best pair, dB",
        verb="comes to an image of a client as near as",
        about=(
            "Largest PSNR of any reconstruction to any image of the client: 30 dB means that one of"
            " them is reproduced."
        ),
        decimals=1,
        suffix=" dB",
        as_good=30.0,
        topic=topics.IMAGES,
        rank=5,
    ),
    needs=("x",),
    score=_nearest,
)
"""The largest PSNR in dB of a guess and an image that the client holds: is anything reproduced?

Of all pairs, clipped to [0, 1]. The images need not be those that the control sends. It is a
maximum over many pairs, so the floor is high, too: read it against that. Pixel by pixel: an image
that is reproduced a little to the left counts as not reproduced.
"""

RECOGNISED = Metric(
    Meaning(
        name="recognised",
        direction="up",
        low=0.0,
        high=1.0,
        unit="client",
        title="share of examples recognised",
        verb="makes examples of the right class, a share of",
        about=(
            "Share of the examples made that a classifier trained on other data gives the class"
            " they were made for."
        ),
        topic=topics.IMAGES,
        rank=6,
    ),
    needs=("x", "y"),
    score=_recognised,
    of_examples=OF_EXAMPLES,
)
"""Per client, the share of its guesses that a classifier gives the class they were made for.

The classifier is scoring's own, trained on the auxiliary data; the control are real images, so it
shows how good that is. What no such classifier recognises may still be told by the model that it
was made from: a low value does not say that the class is hidden, which the message names anyway.
"""

EXAMPLES = (PSNR, SSIM, MSE, LPIPS, IDENTIFICATION_MATCHED, NEAREST_PSNR, RECOGNISED)
