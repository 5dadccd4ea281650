"""Captions as rows of numbers, and back: the words that a captioner knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.base.tokens import END, PAD, SPECIAL, START, UNKNOWN

if TYPE_CHECKING:
    from torch import Tensor

_WORD = re.compile(r"[a-z0-9]+(?:['-][a-z0-9]+)*")


def words(caption: str) -> list[str]:
    """The words of a caption, in small letters and without punctuation."""
    return _WORD.findall(caption.lower())


@dataclass(frozen=True)
class Vocabulary:
    """The words that a captioner knows, in the order of their numbers; public.

    0 is padding, 1 begins a caption, 2 ends it, 3 stands for every other word.
    """

    words: tuple[str, ...]  # ``SPECIAL`` first

    @classmethod
    def of(cls, captions: Iterable[str], *, least: int, most: int) -> Vocabulary:
        """The words that occur ``least`` times, the most frequent first; ``most`` numbers."""
        counts = Counter(w for c in captions for w in words(c))
        known = sorted((w for w, n in counts.items() if n >= least), key=lambda w: (-counts[w], w))
        return cls((*SPECIAL, *known[: most - len(SPECIAL)]))

    def encode(self, captions: Sequence[str], length: int) -> Tensor:
        """(n, length) int64: each begun, ended and padded; a longer one loses its last words."""
        number = {w: i for i, w in enumerate(self.words)}
        out = torch.zeros(len(captions), length, dtype=torch.int64)
        for i, caption in enumerate(captions):
            inner = [number.get(w, UNKNOWN) for w in words(caption)][: length - 2]
            line = [START, *inner, END]
            out[i, : len(line)] = torch.tensor(line)
        return out

    def text(self, tokens: Tensor) -> str:
        """What tokens (T,) say, up to their end, in words; numbers beyond the words are unknown."""
        said = []
        for t in tokens.tolist():
            if t == END:
                break
            if t not in (PAD, START):
                said.append(self.words[t] if 0 <= t < len(self.words) else SPECIAL[UNKNOWN])
        return " ".join(said)
