"""BLEU-4: how much of the word sequences that a captioner says stands in the reference captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, takewhile, zip_longest
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from leakbench.base import Meaning, UsageError, tokens, torch
from leakbench.federation import Client, Defense, Net, TaskData, UtilityMetric

if TYPE_CHECKING:
    from torch import Tensor

TRIED = 200  # captions as the one for all images


class Bleu4(UtilityMetric):
    """Corpus BLEU-4 (Papineni et al. 2002) of greedily decoded captions, by sacrebleu.

    All references of an image count (``data.test.targets`` (n, R, T), rows of zeros where it has
    fewer), the closest one's length is its length, nothing is smoothed. Words are those of the
    task's vocabulary: what it does not know stands in a reference as a word that nobody says.

    Corpus BLEU is no mean over images, so unit i scores the metric plus its influence, by the
    jackknife: B + (n - 1) (mean_j B_-j - B_-i), with B_-i the corpus BLEU without image i. The mean
    is B exactly, the spread that of the jackknife's pseudo-values. Where few images have any
    sequence of four words right its interval is too narrow; docs/statistics.md has a simulation.

    Not as COCO's own scorer: its tokenizer also splits at punctuation and removes it; here the
    vocabulary has done so.
    """

    meaning: ClassVar[Meaning] = Meaning(
        name="bleu4",
        direction="up",
        low=0.0,
        high=1.0,
        unit="test image",
        margin=0.005,
        title="BLEU-4",
        verb="has BLEU-4",
        about="Overlap of four-word sequences with the reference text: 1 is the same text.",
        decimals=3,
    )
    asks: ClassVar[str] = ""

    def ask(self, method: Defense, net: Net, x: Tensor, me: Client) -> Tensor:
        """The captions (n, T) that the network says of images x (n, ...)."""
        return net.decode(x)

    def scores(self, answer: Tensor, data: TaskData, own: Tensor | None) -> Tensor:
        if data.test.targets is None or own is not None:
            raise UsageError(
                "utility bleu4 compares captions, and this task or method has none; take a task"
                " that asks for texts, and a method with one network for all images."
            )
        bleu = _bleu()
        said, references = answer.tolist(), data.test.targets.tolist()
        parts = torch.tensor(
            [
                _counts(bleu, _words(hypothesis, "said"), _all_true(group))
                for hypothesis, group in zip(said, references, strict=True)
            ]
        )
        whole = parts.sum(0)
        without = torch.tensor([_value(bleu, whole - part) for part in parts], dtype=torch.float64)
        spread = (len(parts) - 1) * (without.mean() - without)
        return (_value(bleu, whole) + spread).to(answer.device)

    def untaught(self, data: TaskData) -> dict[str, float]:
        """Of the best beginning of a test reference, said of every image.

        Tried are the ``TRIED`` whose sequences of four words most images have, so it may be a
        little less than the best.
        """
        if data.test.targets is None:
            return {}
        references = list(map(_all_true, data.test.targets.tolist()))
        bleu = _bleu(list(zip_longest(*references, fillvalue="")))
        seen = Counter(chain(*map(_fours_of, references)))
        said = set(chain(*map(_beginnings, chain(*references))))
        usual = sorted(said, key=lambda text: (-fmean(map(seen.__getitem__, _fours(text))), text))
        each = [[text] * len(references) for text in usual[:TRIED]]
        return {"constant": max((bleu.corpus_score(e, None).score for e in each), default=0) / 100}

    def chance(self, classes: int) -> float:
        """0: who says words at random gets no four of them right."""
        return 0.0


def _bleu(references: Sequence[Sequence[str]] | None = None) -> Any:
    """sacrebleu's; ``references``: a list for each of an image's, whose counts it keeps."""
    from sacrebleu.metrics import BLEU

    how = {"tokenize": "none", "smooth_method": "none", "effective_order": True, "force": True}
    return BLEU(**how, references=references)


def _fours(text: str) -> list[tuple[str, ...]]:
    """Its sequences of four words."""
    words = text.split()
    return [tuple(words[i : i + 4]) for i in range(len(words) - 3)]


def _fours_of(references: Sequence[str]) -> set[tuple[str, ...]]:
    """Those of an image's captions, each once."""
    return set(chain(*map(_fours, references)))


def _beginnings(text: str) -> list[str]:
    """Of four words or more; unknown words, which nobody can say, end it."""
    words = list(takewhile(lambda word: not word.startswith("<"), text.split()))
    return [" ".join(words[:n]) for n in range(4, len(words) + 1)]


def _words(caption: list[int], whose: str) -> str:
    """The words of a caption as sacrebleu reads them; "" where there is none."""
    out = []
    for t in caption:
        if t == tokens.END:
            break
        if t not in (tokens.PAD, tokens.START):
            out.append(f"<{whose}>" if t == tokens.UNKNOWN else str(t))
    return " ".join(out)


def _counts(bleu: Any, hypothesis: str, references: list[str]) -> list[int]:
    """Right and all sequences of one to four words (8), its length, the closest reference's."""
    found = bleu.sentence_score(hypothesis, [r for r in references if r] or [""])
    return [*found.counts, *found.totals, found.sys_len, found.ref_len]


def _value(bleu: Any, parts: Tensor) -> float:
    """Corpus BLEU, from 0 to 1, from summed counts (10,)."""
    *numbers, length, wanted = parts.tolist()
    found = bleu.compute_bleu(numbers[:4], numbers[4:], length, wanted, smooth_method="none")
    return float(found.score) / 100


def _all_true(references: list[list[int]]) -> list[str]:
    return [_words(r, "true") for r in references]
