"""The equal error rate against independent ones, its units, and how often its interval is right."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from scipy.interpolate import interp1d
from scipy.optimize import brentq
from sklearn.metrics import roc_curve

from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.streams import shared
from leakbench.federation.task_data import Examples, TaskData
from leakbench.federation.utility import METRICS
from leakbench.utilities.eer import Eer, equal_error, similarity

EER = METRICS["eer"]


def drawn(people, each, seed=0, spread=1.0, dim=6):
    """Embeddings (n, dim) of length 1, whose they are (n,), and all pairs (P, 3)."""
    rng = shared(seed, "test")
    centres = rng.normal("people", people, dim)
    found = centres.repeat_interleave(each, 0) + spread * rng.normal("x", people * each, dim)
    y = torch.arange(people).repeat_interleave(each) + 3  # numbers of their own
    pairs = torch.combinations(torch.arange(len(y)))
    same = (y[pairs[:, 0]] == y[pairs[:, 1]]).long()
    found = torch.nn.functional.normalize(found, dim=-1)
    return found, y, torch.cat([pairs, same[:, None]], 1)


def data(y, pairs):
    examples = Examples(torch.zeros(len(y), 1), y)
    rows = torch.zeros(2, 1, dtype=torch.int64)
    counts = torch.ones(2, dtype=torch.int64)
    return TaskData(examples, examples, examples, rows, counts, torch.arange(2), pairs=pairs)


def by_sklearn(score, same):
    """The usual recipe: where the ROC curve meets the falling diagonal."""
    far, hit, _ = roc_curve(same.numpy(), score.numpy(), drop_intermediate=False)
    return brentq(lambda x: 1 - x - interp1d(far, hit)(x), 0, 1)


def by_force(score, same):
    """The line through all thresholds, taken one by one, and where it crosses the diagonal."""
    points = [(0.0, 1.0)]
    for t in sorted(set(score.tolist()), reverse=True):
        accepts = sum(s >= t for s in score[~same].tolist()) / int((~same).sum())
        rejects = sum(s < t for s in score[same].tolist()) / int(same.sum())
        points.append((accepts, rejects))
    for (a, r), (b, q) in pairwise(points):
        if b >= q:
            part = (r - a) / ((r - a) + (b - q))
            return a + part * (b - a)
    raise AssertionError


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_others_compute(seed, ties):
    found, _, pairs = drawn(5, 4, seed, spread=0.4 + 0.3 * seed)
    score, same = similarity(found, pairs), pairs[:, 2] == 1
    if ties:
        score = (score * 3).round()
    order = score.argsort(descending=True)
    value = equal_error(score[order], same[order])
    assert value == pytest.approx(by_force(score, same), abs=1e-12)
    assert value == pytest.approx(by_sklearn(score, same), abs=1e-9)


def test_by_hand():
    same = torch.tensor([True, True, False, True, False, False])
    falling = torch.tensor([6.0, 5, 4, 3, 2, 1])
    # After the third pair a third of either kind is wrong.
    assert equal_error(falling, same) == pytest.approx(1 / 3)
    assert equal_error(falling, torch.tensor([True] * 3 + [False] * 3)) == 0
    assert equal_error(falling, torch.tensor([False] * 3 + [True] * 3)) == 1
    assert equal_error(torch.zeros(6), same) == 0.5  # all alike: a coin


def test_the_mean_of_the_identities_scores_is_the_eer_and_their_spread_that_of_leaving_one_out():
    found, y, pairs = drawn(7, 4)
    scores = EER.scores(found, data(y, pairs), None)
    value = by_force(similarity(found, pairs), pairs[:, 2] == 1)
    assert scores.shape == (7,)
    assert float(scores.mean()) == pytest.approx(value, abs=1e-12)
    without = []
    for who in y.unique():
        kept = pairs[(y[pairs[:, :2]] != who).all(1)]
        without.append(by_force(similarity(found, kept), kept[:, 2] == 1))
    left = torch.tensor(without, dtype=torch.float64)
    jackknife = (6 / 7 * (left - left.mean()).square().sum()).sqrt()
    assert float(scores.std() / 7**0.5) == pytest.approx(float(jackknife), rel=1e-9)


def test_units_are_identities_in_order_and_only_those_in_pairs():
    found, y, pairs = drawn(6, 4)
    kept = pairs[(y[pairs[:, :2]] != 5).all(1)]
    assert len(EER.scores(found, data(y, kept), None)) == 5
    turned = torch.randperm(len(kept), generator=torch.Generator().manual_seed(0))
    swapped = kept[turned][:, [1, 0, 2]]
    one, two = (EER.scores(found, data(y, p), None) for p in (kept, swapped))
    assert torch.allclose(one, two, rtol=0, atol=1e-12)
    assert EER.meaning.unit == "test identity"
    assert EER.meaning.direction == "down"
    assert EER.chance(1000) == 0.5


def test_several_crops_score_their_mean_over_all_pairs_of_crops():
    rng = shared(1, "test")
    found = torch.nn.functional.normalize(rng.normal("x", 5, 4, 6), dim=-1)
    pairs = torch.tensor([[0, 1, 1], [2, 4, 0], [3, 3, 1]])
    cosine = torch.stack([(found[i] @ found[j].T).mean() for i, j, _ in pairs.tolist()])
    assert torch.allclose(similarity(found, pairs), 2 * cosine - 2, rtol=0, atol=1e-12)
    far = torch.stack([-torch.cdist(found[i], found[j]).square().mean() for i, j, _ in pairs])
    assert torch.allclose(similarity(found, pairs), far, rtol=0, atol=1e-6)


def test_pairs_are_taken_in_parts(monkeypatch):
    found, _, pairs = drawn(4, 3)
    whole = similarity(found, pairs)
    monkeypatch.setattr("leakbench.utilities.eer.CHUNK", 7)
    assert torch.equal(similarity(found, pairs), whole)


@pytest.mark.parametrize("which", ["none", "genuine", "impostor"])
def test_no_pairs_to_compare_is_one_sentence(which):
    found, y, pairs = drawn(4, 3)
    kept = {"none": None, "genuine": pairs[pairs[:, 2] == 1], "impostor": pairs[pairs[:, 2] == 0]}
    with pytest.raises(UsageError, match="compares pairs of test inputs") as caught:
        EER.scores(found, data(y, kept[which]), None)
    assert "\n" not in str(caught.value)


def test_two_people_tell_of_no_spread_and_the_interval_is_wide():
    found, y, pairs = drawn(2, 6)
    scores = EER.scores(found, data(y, pairs), None)
    assert len(set(scores.tolist())) == 1
    e = EER.estimate(scores.tolist())
    assert e.high - e.low > 0.5


def test_embeddings_are_asked_for_and_brought_to_length_1_where_cosines_are_compared():
    class Method:
        distance = "cosine"

        def embed(self, net, x, me):
            return net(x)

    me = type("Me", (), {"facts": type("Facts", (), {"shape": (1, 2, 3)})})()
    rng = shared(0, "test")
    x = rng.normal("x", 5, 1, 2, 3)
    for distance, length in (("cosine", 1.0), ("", 1.0), ("euclidean", None)):
        Method.distance = distance
        found = Eer().ask(Method(), lambda v: 3 * v.flatten(1), x, me)
        assert found.shape == (5, 6)
        if length:
            assert torch.allclose(found.norm(dim=1), torch.ones(5).double())
        else:
            assert torch.equal(found, 3 * x.flatten(1))
        crops = Eer().ask(Method(), lambda v: 3 * v.flatten(1), torch.stack([x, x], 1), me)
        assert crops.shape == (5, 2, 6)
        assert torch.equal(crops[:, 1], found)


def test_it_is_installed():
    assert "eer" in registry.names("utilities")
    assert registry.load_plugin("utilities", "eer") is type(EER)


def test_the_interval_holds_the_true_eer_about_as_often_as_it_says():
    """As in results/eer-coverage.md, of ten people; 95 % less four deviations."""
    found, _, pairs = drawn(1500, 2, seed=99, spread=0.9)
    genuine = pairs[pairs[:, 2] == 1]
    some = shared(0, "test/some").integers("pairs", len(pairs), 60_000)
    impostor = pairs[some][pairs[some][:, 2] == 0]
    both = torch.cat([genuine, impostor])
    score = similarity(found, both)
    order = score.argsort(descending=True)
    true = equal_error(score[order], both[order][:, 2] == 1)
    held = 0
    for seed in range(120):
        found, y, pairs = drawn(10, 5, seed=1000 + seed, spread=0.9)
        e = EER.estimate(EER.scores(found, data(y, pairs), None).tolist())
        held += e.low <= true <= e.high
    assert held / 120 > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 120)


@pytest.mark.parametrize("crops", [1, 3])
def test_what_the_inputs_themselves_get_is_the_better_of_distance_and_cosine(crops):
    rng = shared(1, "test")
    _, y, pairs = drawn(8, 4)
    centres = rng.normal("people", 8, 1, 6, 5).repeat_interleave(4, 0)
    x = centres + 1.5 * rng.normal("x", 32, crops, 6, 5)
    stored = x[:, 0] if crops == 1 else x
    train = Examples(torch.zeros(2, 6, 5), y[:2])
    rows, counts = torch.zeros(2, 1, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    found = TaskData(train, Examples(stored, y), train, rows, counts, y[:2], pairs=pairs)
    flat, same = x.flatten(2).double(), pairs[:, 2] == 1
    expected = []
    for v in (flat, torch.nn.functional.normalize(flat, dim=-1)):
        apart = (v[pairs[:, 0]][:, :, None] - v[pairs[:, 1]][:, None]).square().sum(-1)
        expected.append(by_sklearn(-apart.mean((1, 2)), same))
    assert EER.untaught(found)["raw"] == pytest.approx(min(expected), abs=1e-6)
    assert 0.01 < min(expected) < 0.49
