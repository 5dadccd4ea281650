"""Prototypes and codewords of covered updates of many rounds: what is found, and what is not."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from helpers.small_runs import FEW_PROBES, Lazily, again, build, obstacle, results, seconds
from torch import nn
from torch.nn.functional import normalize

from attacks import _disaggregation
from leakbench import Transcript, api
from leakbench.attacking import guessing
from leakbench.attacking.view import View
from leakbench.scoring.truth import Truth

CLIENTS, NUMBERS = 6, 40
TASK = {"model": "mlp", "width": 32, "dim": 24, "evaluations": 10}
HALF = {"fraction": 0.5, "select": "random"}
ROUNDS = 60


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(seed, *shape):
    return torch.randn(*shape, generator=dice(seed), dtype=torch.float64)


def cohorts(rounds, seed=0, size=3):
    return [
        sorted(torch.randperm(CLIENTS, generator=dice(1000 * seed + t))[:size].tolist())
        for t in range(rounds)
    ]


def messages(who, held, noise=0.0, seed=1):
    """The mean of what each of a cohort holds (N, P), noised anew."""
    sent = torch.stack([held[cohort].mean(0) for cohort in who])
    return sent + noise * normal(seed, *sent.shape)


def found(who, sent):
    parts = [dict.fromkeys(cohort, 1 / len(cohort)) for cohort in who]
    return _disaggregation.apart(_disaggregation.weights_of(parts, range(CLIENTS)), sent) @ sent


def named(made, held):
    """How many are nearest to their own, (N, P) both."""
    alike = normalize(made, dim=1) @ normalize(held, dim=1).T
    return int((alike.argmax(1) == torch.arange(len(held))).sum())


class TestByHand:
    def test_sums_over_changing_company_are_told_apart(self):
        held, who = normal(0, CLIENTS, NUMBERS), cohorts(60)
        made = found(who, messages(who, held))
        assert float(torch.cosine_similarity(made, held).min()) > 0.99

    def test_as_least_squares_tell_them_where_no_message_is_odd(self):
        held, who = normal(0, CLIENTS, NUMBERS), cohorts(200)
        sent = messages(who, held, noise=0.3)
        weights = torch.zeros(len(who), CLIENTS, dtype=torch.float64)
        for row, cohort in zip(weights, who, strict=True):
            row[cohort] = 1 / 3
        exact = torch.linalg.lstsq(weights, sent).solution
        assert float((found(who, sent) - exact).norm() / exact.norm()) < 0.05

    def test_noise_that_is_drawn_anew_cancels(self):
        held = normal(0, CLIENTS, NUMBERS)
        few, many = ([[i] for _ in range(n) for i in range(CLIENTS)] for n in (1, 60))
        one, all_ = (found(who, messages(who, held, noise=4.0)) for who in (few, many))
        one, all_ = (float(torch.cosine_similarity(m, held).mean()) for m in (one, all_))
        assert all_ > 0.8 > 0.5 > one

    def test_a_message_that_is_not_explained_counts_less(self):
        held, who = normal(0, CLIENTS, NUMBERS), cohorts(60)
        sent = messages(who, held)
        sent[::6] += 20 * normal(3, 10, NUMBERS)
        assert float(torch.cosine_similarity(found(who, sent), held).min()) > 0.99

    def test_company_that_never_changes_tells_only_its_mean(self):
        held = normal(0, CLIENTS, NUMBERS)
        made = found([[0, 1, 2], [3, 4, 5]] * 20, messages([[0, 1, 2], [3, 4, 5]] * 20, held))
        for group in ([0, 1, 2], [3, 4, 5]):
            mean = held[group].mean(0)
            alike = torch.cosine_similarity(made[group], mean.expand(3, -1))
            assert float(alike.min()) > 0.99

    def test_nulls(self):
        """Ten seeds: noise alone, shuffled company, what is another's; by luck 10 of 60 named."""
        noise, shuffled, others = 0, 0, 0
        for seed in range(10):
            held, who = normal(seed, CLIENTS, NUMBERS), cohorts(60, seed)
            blank = messages(who, torch.zeros_like(held), noise=10.0, seed=seed + 50)
            noise += named(found(who, blank), held)
            sent = messages(who, held)
            shuffled += named(found(cohorts(60, seed + 77), sent), held)
            others += named(found(who, sent), normal(seed + 500, CLIENTS, NUMBERS))
        assert max(noise, shuffled, others) <= 20  # 1 in 1000


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("pooled")

    def made(method, wrapper=None, rounds=ROUNDS, **params):
        how = {"params": {**HALF, **params}, "task_params": TASK, "record": FEW_PROBES}
        wrappers = [] if wrapper is None else [wrapper]
        return lambda: api.train(
            method, wrappers=wrappers, rounds=rounds, out=out, device="cpu", **how
        )

    summed, noised = ("secure_sum", {}), ("clip_noise", {"noise": 0.03})
    return Lazily(
        own=made("own_prototypes", summed),
        fixed=made("fixed_prototypes", summed),
        noised=made("own_prototypes", noised),
        robin=made("own_prototypes", summed, 4, select="round_robin"),
        uneven=made("own_prototypes", summed, 4, select="round_robin", fraction=0.3),
        everybody=made("own_prototypes", summed, 4, fraction=1.0),
        plain=made("own_prototypes", None, 4),
        spheres=made("fedmetric", summed, 4),
        words=made("feduv", summed),
        noised_words=made("feduv", noised),
        robin_words=made("feduv", summed, 4, select="round_robin"),
    )


def at_the_end(folder, metric):
    return results(folder, metric, "final")


class TestPrototypes:
    @pytest.mark.parametrize("name", ["own", "fixed"])
    def test_a_sum_names_who_took_part_in_many(self, runs, name):
        folder = api.attack(runs[name], "prototype_from_update", source="pooled").path
        line = at_the_end(folder, "p_leak")
        assert (line["value"], line["n"], line["rung"]) == (1, 10, "method")
        assert line["floor"] == pytest.approx(0.1)
        assert line["control"] == 1
        assert at_the_end(folder, "prototype_cosine")["value"] > 0.9
        assert not any(g.guess.accepted for g in guessing.saved(folder) if g.role == "attack")

    def test_noise_covers_one_update_but_not_all(self, runs):
        pooled, alone = (
            at_the_end(api.attack(runs["noised"], "prototype_from_update", **how).path, "p_leak")
            for how in ({"source": "pooled"}, {})
        )
        assert pooled["value"] >= 0.9
        assert alone["value"] <= 0.5
        assert pooled["control"] == 1

    def test_where_it_does_not_fit(self, runs):
        def why(name):
            return obstacle(build("prototype_from_update", source="pooled"), again(runs[name]))

        assert why("own") == why("noised") == why("uneven") == ""
        assert "no sum tells the two apart" in why("robin")
        assert "no sum tells the two apart" in why("everybody")
        assert "no wrapper covers updates" in why("plain")
        assert "compares distances" in why("spheres")
        assert "no prototype" in why("words")

    def test_how_long_it_takes_grows_with_the_rounds(self, runs):
        few, many = (
            seconds(build("prototype_from_update", source="pooled"), again(runs[name]))
            for name in ("uneven", "own")
        )
        assert few < many < 60

    @pytest.mark.slow
    def test_nulls(self, runs):
        """Ten seeds each: what was sent of shuffled rounds, and under noise of ten times its norm;
        by luck 10 of 100 named. And prototypes that nobody has.
        """
        run, shuffled, drowned, strangers = runs["own"], 0, 0, 0
        true = Truth(run).round(ROUNDS)["everyone"]["prototype"].double()
        for seed in range(10):
            shuffled += named(self.made(run, shuffle(again(run).transcript, seed)), true)
            drowned += named(self.made(run, drown(again(run).transcript, seed)), true)
        made = self.made(run, again(run).transcript)
        for seed in range(10):
            strangers += named(made, normal(seed, *true.shape))
        assert max(shuffled, drowned, strangers) <= 22  # 1 in 1000

    def made(self, run, transcript):
        recording = again(run)
        vars(recording)["transcript"] = transcript
        attack = build("prototype_from_update", source="pooled")
        found = attack(View(attack.threat, recording, ROUNDS))
        assert [g.unit for g in found] == [f"client/{c}" for c in range(10)]
        return torch.stack([g.tensors["prototype"].double() for g in found])


def changed(m, update):
    return dataclasses.replace(m, payload={"update": update})


def shuffle(sent, seed):
    """The sums of all rounds, each in another one."""
    sums = [m for m in sent if m.kind == "sum"]
    order = torch.randperm(len(sums), generator=dice(seed)).tolist()
    swapped = {}
    for m, j in zip(sums, order, strict=True):
        swapped[m.round] = changed(m, sums[j].payload["update"])
    return [swapped[m.round] if m.kind == "sum" else m for m in sent]


def drown(sent, seed):
    """Noise on every sum of ten times the longest one's norm."""
    rng, sums = dice(seed), [m for m in sent if m.kind == "sum"]
    size = max(float(v.norm()) for m in sums for v in m.payload["update"].values())

    def noised(v):
        return v + 10 * size / v.numel() ** 0.5 * torch.randn(v.shape, generator=rng)

    noisy = {}
    for m in sums:
        noisy[m.round] = changed(m, {k: noised(v) for k, v in m.payload["update"].items()})
    return [noisy[m.round] if m.kind == "sum" else m for m in sent]


class TestCodewords:
    def test_noise_covers_one_update_but_not_all(self, runs):
        pooled = api.attack(runs["noised_words"], "codeword_from_update", source="pooled").path
        alone = api.attack(runs["noised_words"], "codeword_from_update", together=False).path
        assert at_the_end(pooled, "recovered")["value"] >= 0.5
        assert at_the_end(pooled, "p_leak")["value"] == 1
        assert at_the_end(alone, "recovered")["value"] == 0
        assert at_the_end(pooled, "recovery_precision")["value"] == 1

    def test_a_sum_names_who_took_part_in_many(self, runs):
        folder = api.attack(runs["words"], "codeword_from_update", source="pooled").path
        line = at_the_end(folder, "p_leak")
        assert line["value"] >= 0.5
        assert (line["n"], line["rung"]) == (10, "method")
        assert line["floor"] == pytest.approx(0.1, abs=0.1)
        assert at_the_end(folder, "codeword_bits")["control"] > 0.9

    def test_where_it_does_not_fit(self, runs):
        attack = build("codeword_from_update", source="pooled")
        assert obstacle(attack, again(runs["words"])) == ""
        assert "no sum tells the two apart" in obstacle(attack, again(runs["robin_words"]))
        assert obstacle(attack, again(runs["own"])) == "its clients have no codewords"

    def test_nothing_is_accepted_of_noise(self):
        """Ten seeds of ten clients, four rounds each."""
        for seed in range(10):
            net = nn.Sequential(nn.Linear(20, 12), nn.ReLU(), nn.Linear(12, 127, bias=False))
            seen = Transcript(net, shape=(20,), method="feduv", clients=10)
            for t in range(1, 5):
                for c in range(10):
                    rng = dice(10_000 * seed + 100 * t + c)
                    update = [torch.randn(p.shape, generator=rng) for p in net.parameters()]
                    seen.add("update", update, sender=f"client/{c}", round=t)
            made = seen.attack("codeword_from_update", source="pooled")
            assert len(made) == 10
            assert not any(g.accepted or g.failed for g in made)
