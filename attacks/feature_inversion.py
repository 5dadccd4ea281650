"""Feature inversion: the inputs whose features are the ones that a client shared.

Levenberg-Marquardt through the extractor, from a decoder's guess.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from attacks import _feature_search
from attacks._feature_messages import FromFeatures, Made
from attacks._feature_trial import TRIED, Noise, Trial, searched, tried
from leakbench.attacking import Guess, Outline, View
from leakbench.base import torch
from leakbench.federation import Net
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

SPEED = 1e10  # operations of the search in a second of two cores, for `seconds`
# Of the variance of features: what a search leaves unexplained though the true inputs leave
# nothing. Beyond it there is more to find.
UNEXPLAINED = 0.01
WORSE = 3.0  # times what the attacker's own examples leave: then there is noise on the message
CLEAR = 1e-6  # of the variance: so little is left that no comparison is needed
HOPELESS = 0.25  # of the variance: no inputs have such features


class FeatureInversion(FromFeatures):
    """Solves for the inputs: the server of FLea knows the extractor that made the features.

    The start is what `decoder` guesses (``network``, trained on auxiliary data through the attacked
    round's model). From there up to ``iterations`` Levenberg-Marquardt steps lower the squared
    distance of the inputs' features from those that were sent, for all examples of a message side
    by side and without writing a Jacobian down: conjugate gradients on products with it, 50 of
    them at most. Damping keeps the inputs at the start where features say nothing of them; images
    stay within their range, signals are free.

    What the search is worth is told by the attacker's own data: up to 32 held-out auxiliary
    examples go the whole way, features, decoder and search. The number of steps is the one that
    errs least on these; none where the search does not help, and the guess is then the decoder's.
    It believes itself where it beats the class mean there by a twentieth and by two standard
    errors.

    Where the rows of a message leave more than three times as much unexplained as the held-out
    examples do (the medians), there is noise on them, or another model made them. The held-out
    examples then go the way again, with as much Gaussian noise on their features, and this decides
    on steps and belief; with more than a quarter of the features' variance unexplained nothing is
    believed. The true inputs without noise leave nothing, so a message of which more than a
    hundredth of the variance is left (the mean) is flagged `loss_did_not_fall`: there may be more
    to find.

    Saved with a guess: ``curve`` (steps + 1, 2), the held-out examples' error and unexplained share
    after every step; ``held_out``, their error and that of the class mean; ``unexplained`` (n,).
    """

    about: ClassVar[str] = "inputs from shared features, solved for through the extractor"
    paper: ClassVar[str] = "ours; Mahendran and Vedaldi 2015; Marquardt 1963; not in FLea"
    order: ClassVar[int] = 1

    iterations: int = Field(10, ge=1, le=200, description="Levenberg-Marquardt steps, at most")

    def seconds(self, run: Outline) -> float:
        from torch.utils.flop_counter import FlopCounterMode

        layer = str(getattr(run.method, "layer", "input"))
        if layer == "input":
            return super().seconds(run)
        module = run.module()
        net, x = Net(module, dict(module.state_dict())), run.blank()
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            made = net(x, stop=layer)
        sent = [s for s in run.sent if (s["kind"], s["sender"]) == ("features", "client")]
        rounds = max(1, sum(s["rounds"] for s in sent))
        rows = sum(s["bytes"] for s in sent) / (made.numel() * made.element_size()) / rounds
        products = self.iterations * (2 * _feature_search.INNER + 4)
        once = (TRIED + rows) * products * counter.get_total_flops()
        return super().seconds(run) + len(run.stages) * once / SPEED

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        made: Made = {}
        trials: dict[tuple[object, ...], Trial] = {}
        return [self._inverted(view, m, made, trials, rng) for m in self._sent(view)]

    def _inverted(
        self,
        view: View,
        m: Message,
        made: Made,
        trials: dict[tuple[object, ...], Trial],
        rng: torch.Generator,
    ) -> Guess:
        if self._layer(view) == "input":
            return self._shown(view, m)
        extract = self._extractor(view, m)
        if isinstance(extract, str):
            return Guess(m.sender, m.round, failed=extract)
        decoder = self._decoder(view, m, extract, made, rng)
        if isinstance(decoder, str):
            return Guess(m.sender, m.round, failed=decoder)
        aux = view.know("aux_data")
        aux = replace(aux, stored=extract.lies.unit(aux.x))
        labelled = self._labels(view, m) is not None
        y = aux.y if labelled else torch.zeros_like(aux.y)

        def trial_with(level: float) -> Trial:
            key = (*extract.name, labelled, level)
            if key not in trials:
                noise = Noise(level, rng)
                trials[key] = tried(extract, decoder, aux, y, self.iterations, noise)
            return trials[key]

        path = searched(extract, decoder, m.payload, self._classes(view, m), self.iterations)
        trial = trial_with(0.0)
        left = path[-1].off / trial.spread
        typical = float(left.median())
        if typical > max(WORSE * trial.unexplained, CLEAR):
            # Powers of two: messages with about as much noise share a trial.
            trial = trial_with(2.0 ** round(math.log2(typical)))
        x = extract.lies.native(path[trial.steps].x)
        if not bool(x.isfinite().all()):
            return Guess(m.sender, m.round, failed="the search's result is not finite")
        tensors: dict[str, Tensor] = {
            **self._tensors(x.to(view.dtype)),
            "curve": trial.curve,
            "held_out": trial.errors,
            "unexplained": left,
        }
        flags = () if float(left.mean()) <= UNEXPLAINED else ("loss_did_not_fall",)
        accepted = trial.accepted and typical < HOPELESS
        return Guess(m.sender, m.round, tensors, accepted=accepted, flags=flags)
