"""`voxceleb1`: speech of 1,251 people (Nagrani et al. 2017), 1,211 of them clients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from leakbench.base import UsageError, shared, torch
from leakbench.data import LogMel, voxceleb_files
from leakbench.federation import Facts, TaskData
from leakbench.tasks._identity_task import METHODS, OURS, IdentityTask, same_for_each

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.models import Stages

AUX = "official test speakers who are the auxiliary data; pairs with them are left out"
SEGMENTS = "segments of 2 s that a client has of each utterance, drawn once"
CROPS = "segments of 3 s, evenly spaced, of each tested utterance; a pair scores their mean"
# FedHide, Section 4.1: 25 ms every 10 ms, 40 bands; 2 s to train on, 3 s to test.
_SCALE = {"rate": 16_000, "window": 400, "hop": 160, "mels": 40}
TESTED_FRAMES = 300


class VoxCeleb1(IdentityTask):
    """1,211 clients, one speaker each, about 122 utterances; 40 other speakers are verified.

    As FedHide, Section 4.1 and Table 1: a hundredth of the clients in a round, Fast ResNet-34 with
    GroupNorm, embeddings of 512 numbers, 40 mel bands of 2 s, 50,000 rounds, the EER on the
    official list of pairs (37,611: the cleaned one), ten segments of 3 s of each utterance, a pair
    scored by the mean over all pairs of segments.

    Not as there: of the 40 test speakers ``aux_people`` (a named draw) are the auxiliary data, so
    an attacker knows people who are neither clients nor tested; pairs with them are left out.
    Segments to train on are drawn once (``segments`` of each utterance), not anew at every step:
    all of VoxCeleb1 is 20 GB of spectrograms, two segments of each are 9.5. Spectrograms are in dB
    below the segment's loudest cell, by a Hann window (``LogMel``); there by a Hamming window, the
    logarithm not told.
    """

    about = "VoxCeleb1 (speech), 1,211 clients with one speaker each, 40 other speakers verified"
    source: ClassVar[str] = voxceleb_files.VOXCELEB
    sound: ClassVar[LogMel | None] = LogMel(**_SCALE, frames=200)
    shape: ClassVar[tuple[int, ...]] = (1, 40, 200)
    signal: ClassVar[bool] = True
    rounds: ClassVar[int] = 50_000
    tables: ClassVar = same_for_each((*METHODS, *OURS, "fedavg", "fedprox"), fraction=0.01)

    clients: int = Field(1211, ge=2, le=1211, description="clients, one speaker each")
    segments: int = Field(2, ge=1, description=SEGMENTS)
    test_crops: int = Field(10, ge=2, description=CROPS)
    aux_people: int = Field(4, ge=1, description=AUX)
    model: str = Field("fast_resnet34", description="network, one of `leakbench list models`")
    width: int = Field(16, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(512, ge=2, le=4096, description="width of the embedding")
    evaluations: int = Field(
        50,
        ge=10,
        le=1000,
        description="evaluations over the run, evenly spaced, the last round among them",
    )

    def load(self) -> TaskData:
        """Log-mel spectrograms, float32; the tested ones (n, crops, 1, 40, 300).

        Raises:
            UsageError: the set is nowhere, or has too few speakers.
            BrokenFile: a file is missing, or not what its name says.
        """
        voices = voxceleb_files.people()
        dev, test = [*voices.dev], [*voices.test]
        if len(dev) < self.clients or len(test) < self.aux_people + 3:
            raise UsageError(
                f"task.clients = {self.clients} and task.aux_people = {self.aux_people}, but the"
                f" set has {len(dev)} speakers to train on and {len(test)} others, of whom three at"
                " least are tested; use fewer."
            )
        chosen = [dev[i] for i in sorted(self.order("clients", len(dev))[: self.clients])]
        granted = [test[i] for i in self.order("aux", len(test))[: self.aux_people]]
        files = [voices.test[who] for who in test if who not in granted]
        pairs, tested = _listed(voices.pairs, files)
        if not 0 < int(pairs[:, 2].sum()) < len(pairs):
            raise UsageError(
                "voxceleb1: no pair of one speaker, or none of two, is left without the auxiliary"
                " ones; use a smaller task.aux_people."
            )
        return self.verified(
            [self._segments(voices.dev[who], who) for who in chosen],
            [self._crops(some) for some in tested],
            [self._segments(voices.test[who], who) for who in granted],
            pairs,
            voxceleb_files.unofficial(),
        )

    def module(self, facts: Facts) -> Stages:
        """The architecture.

        Raises:
            UsageError: there is no such model, or it takes inputs of one length only.
        """
        made = super().module(facts)
        try:
            with torch.no_grad():
                made(torch.zeros(1, *self.shape[:2], TESTED_FRAMES))
        except RuntimeError:
            raise UsageError(
                f"task.model = {self.model!r} takes segments of one length, but {self.source} is"
                " trained on 2 s and tested on 3. Use fast_resnet34."
            ) from None
        return made

    def _segments(self, files: Sequence[Path], who: str) -> Tensor:
        assert self.sound is not None  # noqa: S101 - stated above
        rng = shared(0, f"task/{self.source}/segments")
        at = rng.uniform(who, len(files), self.segments)
        return voxceleb_files.crops(files, self.sound, at).flatten(0, 1)

    def _crops(self, files: Sequence[Path]) -> Tensor:
        at = torch.linspace(0, 1, self.test_crops).expand(len(files), -1)
        return voxceleb_files.crops(files, LogMel(**_SCALE, frames=TESTED_FRAMES), at)


def _listed(
    pairs: Sequence[voxceleb_files.Pair], files: Sequence[Sequence[Path]]
) -> tuple[Tensor, list[list[Path]]]:
    """(P, 3) the pairs whose files are all among those of the speakers ``files``.

    And, speaker by speaker, the files that stand in one.
    """
    of = {path: who for who, own in enumerate(files) for path in own}
    kept = [p for p in pairs if p.one in of and p.other in of]
    used = {p for pair in kept for p in (pair.one, pair.other)}
    among = [_among(own, used) for own in files]
    tested = [own for own in among if own]
    row = {p: i for i, p in enumerate(itertools.chain.from_iterable(tested))}
    rows = [(row[p.one], row[p.other], int(p.same)) for p in kept]
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3), tested


def _among(files: Sequence[Path], used: set[Path]) -> list[Path]:
    return [p for p in files if p in used]
