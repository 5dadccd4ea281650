"""BLEU-4's scores of test images: their mean is the library's corpus BLEU, counted by hand too, and
their spread covers the corpus BLEU of the population that the images are drawn from.
"""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from leakbench.base.errors import UsageError
from leakbench.base.tokens import END, START, UNKNOWN
from leakbench.federation.utility import METRICS

BLEU4 = METRICS["bleu4"]


def tokens(lines, length=12):
    out = torch.zeros(len(lines), length, dtype=torch.int64)
    for i, line in enumerate(lines):
        whole = [START, *line, END]
        out[i, : len(whole)] = torch.tensor(whole)
    return out


def data(references):
    """References of each image, as many as it has."""
    most = max(map(len, references))
    targets = torch.stack(
        [torch.cat([tokens(r), torch.zeros(most - len(r), 12).long()]) for r in references]
    )
    return SimpleNamespace(test=SimpleNamespace(targets=targets))


def grams(line, n):
    return Counter(tuple(line[i : i + n]) for i in range(len(line) - n + 1))


def by_hand(said, references):
    """Papineni et al. 2002, with the closest reference's length, the shorter of two as close."""
    right, every, length, wanted = [0] * 4, [0] * 4, 0, 0
    for line, group in zip(said, references, strict=True):
        length += len(line)
        wanted += min((len(r) for r in group), key=lambda n: (abs(n - len(line)), n))
        for n in range(1, 5):
            most = Counter()
            for r in group:
                most |= grams(r, n)
            right[n - 1] += sum((grams(line, n) & most).values())
            every[n - 1] += max(0, len(line) - n + 1)
    if min(right) == 0:
        return 0.0
    short = 1 if length >= wanted else math.exp(1 - wanted / length)
    return short * math.exp(sum(math.log(r / e) for r, e in zip(right, every, strict=True)) / 4)


def drawn(rng, n, words=9, noise=0.25):
    """Captions of a small language, and what somebody says who mostly copies one."""
    said, references = [], []
    for _ in range(n):
        topic = rng.integers(4, 4 + words)
        group = []
        for _ in range(rng.integers(3, 6)):
            line = (topic + np.arange(rng.integers(4, 9)) + (rng.random() < 0.3)) % words + 4
            group.append(line.tolist())
        line = np.array(group[0])
        wrong = rng.random(len(line)) < noise * rng.random() * 2
        line[wrong] = rng.integers(4, 4 + words, wrong.sum())
        said.append(line[: rng.integers(3, len(line) + 1)].tolist())
        references.append(group)
    return said, references


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_is_corpus_bleu(seed):
    from sacrebleu.metrics import BLEU

    said, references = drawn(np.random.default_rng(seed), 40)
    found = BLEU4.scores(tokens(said), data(references), None)
    assert found.shape == (40,)
    assert found.dtype == torch.float64
    want = by_hand(said, references)
    assert 0.1 < want < 0.9
    assert float(found.mean()) == pytest.approx(want, abs=1e-12)
    text = [" ".join(map(str, line)) for line in said]
    streams = [
        [" ".join(map(str, g[j])) if j < len(g) else None for g in references] for j in range(5)
    ]
    library = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(text, streams)
    assert float(found.mean()) == pytest.approx(library.score / 100, abs=1e-12)


def test_each_image_scores_what_the_corpus_loses_without_it():
    said, references = drawn(np.random.default_rng(5), 12)
    found = BLEU4.scores(tokens(said), data(references), None).tolist()
    whole = by_hand(said, references)
    without = [
        by_hand(said[:i] + said[i + 1 :], references[:i] + references[i + 1 :]) for i in range(12)
    ]
    for value, rest in zip(found, without, strict=True):
        assert value == pytest.approx(whole + 11 * (sum(without) / 12 - rest), abs=1e-12)


def test_perfect_empty_and_wrong_captions():
    references = [[[5, 6, 7, 8, 9]], [[4, 5, 6, 7], [9, 9, 9, 9, 9, 9]]]
    perfect = BLEU4.scores(tokens([[5, 6, 7, 8, 9], [4, 5, 6, 7]]), data(references), None)
    assert perfect.tolist() == pytest.approx([1, 1])
    assert BLEU4.estimate(perfect.tolist()).value == 1
    for said in ([[], []], [[5, 6, 7], [4]], [[9, 8], [7, 6]]):
        assert BLEU4.scores(tokens(said), data(references), None).tolist() == [0, 0]


def test_an_unknown_word_is_never_right():
    one = [[4, 5, 6, 7, UNKNOWN]]
    found = BLEU4.scores(tokens(one), data([one]), None)
    assert 0 < float(found.mean()) < 1


def test_a_task_without_captions_is_refused():
    lacking = SimpleNamespace(test=SimpleNamespace(targets=None))
    with pytest.raises(UsageError, match="compares captions"):
        BLEU4.scores(tokens([[4]]), lacking, None)


@pytest.mark.slow
def test_intervals_cover_the_populations_bleu():
    """80 images, as many as the stand-in tests on, 150 times: 95 % intervals hold about 95 %."""
    rng = np.random.default_rng(1)
    truth = by_hand(*drawn(np.random.default_rng(0), 20_000))
    held = 0
    for _ in range(150):
        said, references = drawn(rng, 80)
        e = BLEU4.estimate(BLEU4.scores(tokens(said), data(references), None).tolist())
        held += e.low <= truth <= e.high
    assert 134 <= held <= 150  # fewer than 134 of 150 at 95 %: once in 1,000


def test_the_best_one_caption_for_all_images_is_the_least_that_counts():
    rng = np.random.default_rng(3)
    usual = [5, 6, 7, 8, 9]
    references = [
        [[*usual[: int(rng.integers(4, 6))], *rng.integers(5, 30, 2).tolist()], [11, 12, 13, 14]]
        for _ in range(12)
    ]
    found = BLEU4.untaught(data(references))["constant"]
    said = {tuple(r[:n]) for group in references for r in group for n in range(4, len(r) + 1)}
    every = [by_hand([list(s)] * len(references), references) for s in said]
    assert found == pytest.approx(max(every), abs=1e-9)
    assert found > 0.2
    answer = tokens([max(said, key=lambda s: by_hand([list(s)] * 12, references))] * 12)
    assert float(BLEU4.scores(answer, data(references), None).mean()) == pytest.approx(found)


def test_an_unknown_word_can_stand_in_no_caption_for_all():
    references = [[[UNKNOWN, 5, 6, 7, 8]], [[5, 6, 7, UNKNOWN, 8]]]
    assert BLEU4.untaught(data(references)) == {"constant": 0.0}
