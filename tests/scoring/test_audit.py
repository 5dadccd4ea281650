"""An audit on a mechanism whose ε is known: never above it, and above a claim that is a lie."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from helpers.federations import wrapper

from leakbench.scoring.audit import SHARES, most_proven
from leakbench.statistics.epsilon import gaussian_epsilon

CLIENTS, DELTA, NOISE = 100_000, 1e-5, 5.0
SEEDS = range(20)


def planted(noise, share):
    """A wrapper that says what ``noise`` is worth, and adds ``share`` of that."""
    honest = wrapper("clip_noise", clip=1.0, noise=noise)

    class Planted(type(honest)):
        def uplink(self, payload, me):
            return honest.model_copy(update={"noise": share * noise}).uplink(payload, me)

    return Planted(clip=1.0, noise=noise)


def gaps(covering, seed):
    """(clients,) of an attacker who gets one number of each client, 7 or -7 by a fair coin.

    Clipped to 1 or -1, and noised. It is the likeliest guess to take its sign.
    """
    dice = torch.Generator().manual_seed(seed)
    coin = 2.0 * torch.randint(0, 2, (CLIENTS,), generator=dice) - 1
    noise = torch.randn(CLIENTS, 1, generator=dice, dtype=torch.float64)

    def sent(value, drawn):
        me = SimpleNamespace(rng=SimpleNamespace(normal=lambda *_: drawn))
        return covering.uplink({"w": value}, me)["w"]

    told = torch.func.vmap(sent)(7 * coin.double()[:, None], noise)[:, 0]
    return told * coin


def test_a_right_mechanism_is_never_above_its_claim_and_a_lie_always():
    honest = wrapper("clip_noise", clip=1.0, noise=NOISE)
    claimed = gaussian_epsilon(honest.mechanism().shift, DELTA)
    lie = planted(NOISE, 0.5)
    assert lie.mechanism() == honest.mechanism()
    right = [most_proven({"a": gaps(honest, seed)}, DELTA).epsilon for seed in SEEDS]
    wrong = [most_proven({"a": gaps(lie, seed)}, DELTA).epsilon for seed in SEEDS]
    assert sum(0 < e < claimed for e in right) == len(SEEDS)
    assert sum(e > claimed for e in wrong) == len(SEEDS)
    assert max(wrong) < gaussian_epsilon(2 * honest.mechanism().shift, DELTA)


def test_the_best_of_several_pays_for_having_been_picked():
    gap = torch.linspace(-1, 9, 400, dtype=torch.float64)  # the surest are right
    alone, beside = most_proven({"a": gap}, DELTA), most_proven({"a": gap, "b": -gap}, DELTA)
    assert alone.tried == len(SHARES)
    assert beside.tried == 2 * len(SHARES)
    assert beside.attack == "a"
    assert 0 < beside.epsilon < alone.epsilon
    assert alone.right <= alone.guesses <= alone.pairs == 400


def test_no_difference_is_no_guess():
    gap = torch.zeros(100, dtype=torch.float64)
    assert most_proven({"a": gap}, DELTA).epsilon == 0
    gap[:10] = 1
    found = most_proven({"a": gap}, DELTA)
    assert (found.guesses, found.right, found.pairs) == (10, 10, 100)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_planted_wrapper_adds_what_it_is_told_to(share):
    sent = gaps(planted(NOISE, share), 0)
    assert float((sent - 1).std()) == pytest.approx(share * NOISE, rel=0.02)
