"""What the tasks on sound share: log-mel spectrograms of the files that a set lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from leakbench.base import torch
from leakbench.data import Clip, LogMel, Rule, sound_files, spectrograms
from leakbench.federation import Examples, TaskData
from leakbench.tasks._split_task import FLEA, SPLIT, SPLIT_PARAM, SplitTask

CONTEXT = "short tone in all recordings of half of the clients, for attacks that infer it"


class SoundTask(SplitTask):
    """Clients hold log-mel spectrograms (channels, mels, frames) on a public scale, float32."""

    signal: ClassVar[bool] = True
    sound: ClassVar[LogMel | None]
    classes: ClassVar[int] = sound_files.CLASSES
    _methods: ClassVar[tuple[str, ...]] = ("fedavg", "fedprox", "flea", "fedmix", "feddata")
    tables: ClassVar[dict[str, dict[str, Any]]] = dict.fromkeys(_methods, FLEA)

    split: Rule = Field("qua", description=SPLIT)
    split_param: float = Field(3.0, gt=0, description=SPLIT_PARAM)
    model: str = Field("audionet", description="network, one of `leakbench list models`")
    width: int = Field(8, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(64, ge=2, le=4096, description="width of the embedding")
    context: Literal["none", "whistle"] = Field("none", description=CONTEXT)

    def heard(self, train: list[Clip], test: list[Clip], aux: list[Clip]) -> TaskData:
        """The data: the files read, ``train`` dealt to the clients.

        Raises:
            BrokenFile: a file is no WAV, or cut.
            UsageError: the training set cannot be dealt as the fields ask.
        """
        data = self.dealt(*(self._examples(clips) for clips in (train, test, aux)))
        return replace(data, unofficial=sound_files.unofficial(self.source))

    def _examples(self, clips: Sequence[Clip]) -> Examples:
        assert self.sound is not None  # noqa: S101 - every such task states it
        x = spectrograms([c.path for c in clips], self.sound, self.shape[0])
        return Examples(x, torch.tensor([c.y for c in clips]))
