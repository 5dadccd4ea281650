"""Which classes are named, of shares that are known up to an error."""

from __future__ import annotations

import pytest
import torch

from attacks import _class_presence

CLASSES, CLIENTS, EACH = 10, 20, 100


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def held(alpha, seed=0):
    """Shares (N, K) of clients with ``EACH`` examples, of a Dirichlet draw."""
    draw = torch._sample_dirichlet(torch.full((CLIENTS, CLASSES), alpha), dice(seed))
    of = [torch.multinomial(p, EACH, replacement=True, generator=dice(seed)) for p in draw]
    return torch.stack([c.bincount(minlength=CLASSES) for c in of]).double() / EACH


def likely(true, error, seed=1):
    off = error * torch.randn(true.shape, generator=dice(seed), dtype=torch.float64)
    seen = (true + off).clamp(min=0)
    errors = torch.full_like(true, error)
    return _class_presence.named_shares(seen / seen.sum(1, keepdim=True), errors, [EACH] * CLIENTS)


def overlap(named, true):
    both, either = (named > 0) & (true > 0), (named > 0) | (true > 0)
    return float((both.sum(1) / either.sum(1)).mean())


@pytest.mark.parametrize("alpha", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("error", [0.002, 0.02, 0.1])
def test_a_set_overlaps_at_least_as_much_as_all_classes_do(alpha, error):
    made = blind = 0.0
    for seed in range(5):
        true = held(alpha, seed)
        found = likely(true, error, seed)
        assert torch.allclose(found.sum(1), torch.ones(CLIENTS).double())
        made += overlap(found, true) / 5
        blind += float((true > 0).double().mean()) / 5
    assert made > blind - 0.02
    if alpha == 0.05 and error <= 0.02:  # few classes each: a small share is none
        assert made > blind + 0.4


def test_errors_without_end_and_clients_of_one_class():
    true = held(0.5)
    nobody = torch.full_like(true, float("inf"))
    found = _class_presence.named_shares(true, nobody, [EACH] * CLIENTS)
    assert bool(found.isfinite().all())
    alone = _class_presence.named_shares(
        torch.ones(2, 1).double(), torch.zeros(2, 1).double(), [0, 3]
    )
    assert alone.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("too_large", [1.0, 4.0])
def test_errors_that_are_too_large_do_not_say_that_all_hold_all_classes(too_large):
    """Two classes each, as by quantity: shares name them, whatever the errors are said to be."""
    true = torch.zeros(CLIENTS, CLASSES, dtype=torch.float64)
    for i in range(CLIENTS):
        true[i, [i % CLASSES, (3 * i + 1) % CLASSES]] += 0.5
    off = 0.08 * torch.randn(true.shape, generator=dice(), dtype=torch.float64)
    seen = (true + off).clamp(min=0)
    seen = seen / seen.sum(1, keepdim=True)
    errors = torch.full_like(true, 0.08 * too_large)
    named = _class_presence.named_shares(seen, errors, [EACH] * CLIENTS)
    assert overlap(named, true) > 0.5  # who names all has 0.2
    assert float(torch.minimum(named, true).sum(1).mean()) > 0.75
