"""`spoken-digits`: ten digits spoken by six people (Free Spoken Digit Dataset), 20 clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from leakbench.base import UsageError, shared, torch
from leakbench.data import Clip, LogMel, sound_files
from leakbench.federation import Examples, TaskData
from leakbench.tasks._attributed_task import AttributedTask
from leakbench.tasks._sound_task import SoundTask
from leakbench.tasks._split_task import FLEA

AUX = "official training takes of each digit and speaker that are the auxiliary data, not clients'"
TESTED = 5  # takes 0 to 4 are the official test set
TAKES = 50


class SpokenDigits(SoundTask, AttributedTask):
    """20 clients with three digits each (Qua(3)), about 105 spectrograms (1, 32, 48) a client.

    It stands in for UrbanSound8K where that is not found: ten classes of sound, the same network,
    methods and rates, but speech, small and easy. 0.75 s at 8 kHz (3 % of the recordings are
    longer and are cut), a window of 256 samples every 128, 32 bands.

    The official test set, takes 0 to 4 of every digit and speaker, is tested whole (300
    recordings). Of its training takes, 5 to 49, ``aux_takes`` (a named draw) are the auxiliary
    data: 10 are 600 recordings, the clients hold 2,100. So an attacker knows the voices, but no
    recording that a client holds or that is tested. With ``attribute`` speaker it may be told whose
    each of the auxiliary recordings is.
    """

    about = "Free Spoken Digit Dataset (6 speakers, 10 digits), 20 clients with three digits each"
    source: ClassVar[str] = sound_files.DIGITS
    stand_in: ClassVar[str] = "UrbanSound8K"
    sound: ClassVar[LogMel | None] = LogMel(rate=8000, window=256, hop=128, mels=32, frames=48)
    shape: ClassVar[tuple[int, ...]] = (1, 32, 48)
    rounds: ClassVar[int] = 50
    local: ClassVar[dict[str, Any]] = {**FLEA, "fraction": 0.2}
    tables: ClassVar[dict[str, dict[str, Any]]] = dict.fromkeys(SoundTask._methods, local)

    clients: int = Field(20, ge=2, description="clients; with split class 10, one per class")
    aux_takes: int = Field(10, ge=1, lt=TAKES - TESTED, description=AUX)
    attribute: Literal["none", "speaker"] = Field(
        "none", description="who speaks, for attacks that infer it"
    )

    def load(self) -> TaskData:
        """Log-mel spectrograms, float32.

        Raises:
            UsageError: the set is nowhere, has too few takes, or cannot be dealt to the clients as
                the fields ask.
            BrokenFile: a file is missing, or not what its name says.
        """
        clips = sound_files.clips(self.source)
        takes = sorted({c.part for c in clips if c.part >= TESTED})
        if len(takes) <= self.aux_takes or not any(c.part < TESTED for c in clips):
            raise UsageError(
                f"task.aux_takes = {self.aux_takes}, but {sound_files.place(self.source)} has"
                f" {len(takes)} takes from {TESTED} on, one of which at least must be for training,"
                f" and {TESTED} before them for testing; use fewer, or get the set anew."
            )
        order = shared(0, f"task/{self.source}/aux").permutation("takes", len(takes)).tolist()
        granted = {takes[i] for i in order[: self.aux_takes]}
        test = [c for c in clips if c.part < TESTED]
        train = [c for c in clips if c.part >= TESTED and c.part not in granted]
        return self.heard(train, test, [c for c in clips if c.part in granted])

    def _examples(self, clips: Sequence[Clip]) -> Examples:
        people = sorted({c.source for c in sound_files.clips(self.source)})
        speaker = torch.tensor([people.index(c.source) for c in clips])
        return replace(super()._examples(clips), attribute=speaker)
