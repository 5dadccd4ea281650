"""How examples made from a client's model are scored beside its images: reproduced at all, and recognised as what they were made for?"""

from __future__ import annotations

import torch
from torch import Tensor

from leakbench import images
from leakbench.errors import NotMeasured
from leakbench.guess import Guess
from leakbench.image_metrics import IDENTIFICATION_MATCHED, LPIPS, MSE, PSNR, SSIM, only_images
from leakbench.metrics import Metric, Score
from leakbench.recogniser import Recogniser
from leakbench.truth import Answer

CHUNK = 2**24  # numbers of images compared at once


def _nearest(guess: Guess, answer: Answer) -> list[Score]:
    only_images(answer)
    x, rows, best = guess.tensors["x"].double().cpu().flatten(1).clamp(0, 1), answer.examples, 0.0
    step = max(1, CHUNK // x.shape[1])
    for begin in range(0, len(rows), step):
        held = answer.truth.images(rows[begin : begin + step]).flatten(1)
        nearest = held[torch.cdist(x, held).argmin(1)]  # rounded, so the pairs that it finds are measured once more
        best = max(best, float(images.psnr(x, nearest).max()))
    return [Score(guess.unit, guess.unit, best)]


def _recognised(guess: Guess, answer: Answer) -> list[Score]:
    known = answer.truth.run
    if "recogniser" not in answer.truth.memo:
        if "known/aux_data.safetensors" not in known.meta["files"]:
            raise NotMeasured("the run holds no auxiliary data on which a classifier of scoring's own could be trained")
        aux = known.tree("known/aux_data.safetensors")[0]
        answer.truth.memo["recogniser"] = Recogniser(aux["x"], aux["y"], clip=not answer.signal)
    said: Tensor = answer.truth.memo["recogniser"](guess.tensors["x"])
    right = (said == guess.tensors["y"].cpu()).double().mean()
    return [Score(guess.unit, guess.unit, float(right))]


NEAREST_PSNR = Metric("nearest_psnr", "up", 0.0, 100.0, "client", False, ("x",), _nearest)
"""Of all pairs of a guess and an image that the client holds, the largest PSNR in dB (clipped to [0, 1]): is anything reproduced?

The images need not be those that the control sends. It is a maximum over many pairs, so the floor is high, too: read it
against that. Pixel by pixel: an image that is reproduced a little to the left counts as not reproduced.
"""

RECOGNISED = Metric("recognised", "up", 0.0, 1.0, "client", False, ("x", "y"), _recognised)
"""Per client, the share of the guesses that an independent classifier gives the class they were made for.

The classifier is scoring's own, trained on the auxiliary data; the control are real images, so it shows how good that is. What
no such classifier recognises may still be told by the model that it was made from: a low value does not say that the class is
hidden, which the message names anyway.
"""

EXAMPLES = (PSNR, SSIM, MSE, LPIPS, IDENTIFICATION_MATCHED, NEAREST_PSNR, RECOGNISED)
