"""`spoken-speakers`: who says which digit (Free Spoken Digit Dataset), 30 clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from leakbench.base import UsageError
from leakbench.data import Clip, LogMel, sound_files, spectrograms
from leakbench.federation import TaskData
from leakbench.tasks._identity_task import METHODS, IdentityTask, all_pairs, same_for_each

if TYPE_CHECKING:
    from torch import Tensor

DIGITS = 10
SPEAKERS = (3, 2)  # whose digits are clients, and whose are tested; all others are auxiliary


class SpokenSpeakers(IdentityTask):
    """30 clients, each one speaker's takes of one digit: 50 spectrograms (1, 40, 64).

    It stands in for VoxCeleb1 where that is not found: voices, 40 bands, Fast ResNet-34 (narrower),
    verification of voices that no client has. The set has six speakers, too few for prototypes of
    people. So an identity is *one voice saying one digit*, as in text-dependent verification: of
    three speakers (a named draw) each digit is a client; of two others each digit is a tested
    identity, by all pairs of ``test_takes`` takes of each: a pair is genuine if voice and digit are
    the same (900), else impostor (19,000, some of which differ in the voice alone, some in the
    digit alone); the sixth speaker is the auxiliary data. The interval's units are these 20
    identities: it speaks of other recordings and words of the same two voices, not of other voices,
    of which two can tell nothing.

    0.63 s at 8 kHz: longer recordings (a tenth) are cut, shorter ones end in silence.
    """

    about = "spoken digits (6 speakers), 30 clients with a voice and a digit each, others verified"
    source: ClassVar[str] = sound_files.DIGITS
    stand_in: ClassVar[str] = "VoxCeleb1"
    sound: ClassVar[LogMel | None] = LogMel(rate=8000, window=256, hop=80, mels=40, frames=64)
    shape: ClassVar[tuple[int, ...]] = (1, 40, 64)
    signal: ClassVar[bool] = True
    rounds: ClassVar[int] = 300
    # One own_lr for all of the family: it turns their prototypes equally fast, FedAwS's too.
    _alone: ClassVar[dict[str, Any]] = {"own_lr": 1.0, "lr": 0.1, "fraction": 0.2, "batch": 8}
    _prototypes: ClassVar[dict[str, Any]] = {**_alone, "lam": 1.0}
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        **same_for_each((*METHODS, "fedgn_once", "fedcs_once"), **_prototypes),
        **same_for_each(("fedhide", "fedhide_random", "fedhide_own_layer"), **_prototypes, k=3),
        **same_for_each(("own_prototypes", "fixed_prototypes"), **_alone),
        **same_for_each(("fedavg", "fedprox"), fraction=0.2, batch=8),
    }

    clients: int = Field(30, ge=30, le=30, description="clients, a voice and a digit each")
    test_takes: int = Field(10, ge=2, description="recordings of each tested identity")
    model: str = Field("fast_resnet34", description="network, one of `leakbench list models`")
    width: int = Field(4, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(64, ge=2, le=4096, description="width of the embedding")

    def load(self) -> TaskData:
        """Log-mel spectrograms, float32.

        Raises:
            UsageError: the set is nowhere, or has too few speakers or takes.
            BrokenFile: a file is missing, or not what its name says.
        """
        clips = sound_files.clips(self.source)
        speakers = sorted({c.source for c in clips})
        if len(speakers) <= sum(SPEAKERS):
            raise UsageError(
                f"{self.source} in {sound_files.place(self.source)} has {len(speakers)} speakers,"
                f" and {sum(SPEAKERS) + 1} are needed. Get the set anew."
            )
        order = [speakers[i] for i in self.order("speakers", len(speakers))]
        first, last = SPEAKERS[0], sum(SPEAKERS)
        tested = self._heard(clips, order[first:last], self.test_takes)
        held, aux = (self._heard(clips, some) for some in (order[:first], order[last:]))
        pairs = all_pairs([len(x) for x in tested])
        return self.verified(held, tested, aux, pairs, sound_files.unofficial(self.source))

    def _heard(self, clips: list[Clip], speakers: list[str], takes: int = 0) -> list[Tensor]:
        """Spectrograms of each speaker's takes of each digit, or of the first ``takes``."""
        assert self.sound is not None  # noqa: S101 - stated above
        out = []
        for who in speakers:
            for digit in range(DIGITS):
                own = [c for c in clips if (c.source, c.y) == (who, digit)]
                own.sort(key=lambda c: c.part)
                if len(own) < max(takes, 2):
                    raise UsageError(
                        f"{self.source} in {sound_files.place(self.source)} has {len(own)} takes"
                        f" of digit {digit} by {who}, and {max(takes, 2)} are needed: use a smaller"
                        " task.test_takes, or get the set anew."
                    )
                out.append(spectrograms([c.path for c in own[: takes or None]], self.sound, 1))
        return out
