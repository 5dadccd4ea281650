"""Every metric against numbers worked out by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from helpers.small_runs import noise, trained

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric
from leakbench.base import registry
from leakbench.base.errors import BrokenFile, NotMeasured
from leakbench.data.sklearn_digits import split
from leakbench.federation.input_range import UNIT
from leakbench.metrics.correlation import DCOR, DCOR2_CORRECTED, FLEA_CORRELATION
from leakbench.metrics.images import IDENTIFICATION, LPIPS, MSE, PSNR, SSIM
from leakbench.metrics.prototypes import P_LEAK, P_LEAK_PUBLIC, PROTOTYPE_COSINE
from leakbench.scoring.truth import GALLERY, Answer, Truth
from leakbench.statistics import distance_correlation


class Known:
    """A truth of which a test states what it needs: ``rounds`` {round: tree}, the clients' data."""

    def __init__(self, rounds=None, data=None, distance="cosine"):
        self.run = SimpleNamespace(meta={"distance": distance}, path="a/run")
        self.data = data or {"counts": torch.ones(3)}
        self.rounds = rounds or {}
        self.memo = {}
        self.task = SimpleNamespace(augment=lambda x, rng: x, signal=False, lies_in=UNIT)

    def round(self, t):
        return self.rounds[t]

    def images(self, rows):
        return self.data["x"][rows].double()


def prototypes(*rows, distance="cosine"):
    return Known(
        {5: {"everyone": {"prototype": torch.tensor(rows, dtype=torch.float32)}}},
        {"counts": torch.ones(len(rows))},
        distance,
    )


def one(metric: Metric, guess: Guess, answer: Answer, measure: str = "score") -> float:
    (score,) = (metric.floor or metric.score if measure == "floor" else metric.score)(guess, answer)
    assert score.unit == guess.unit
    return score.value


def named(truth, client: int, *vector: float) -> float:
    return one(
        P_LEAK,
        Guess(f"client/{client}", 5, {"prototype": torch.tensor(vector)}),
        Answer(truth, client, 5),
    )


class TestPrototypes:
    def test_the_nearest_true_prototype_names_the_client(self):
        truth = prototypes([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0])
        assert [named(truth, c, 0.3, 0.9) for c in range(3)] == [0, 1, 0]

    def test_ties_share(self):
        truth = prototypes([1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0])
        assert [named(truth, c, 2.0, 0.1) for c in range(4)] == pytest.approx(
            [1 / 3, 1 / 3, 0, 1 / 3]
        )

    def test_a_guess_of_nothing_ties_with_everybody(self):
        assert named(prototypes([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]), 2, 0.0, 0.0) == pytest.approx(
            1 / 3
        )

    def test_length_counts_for_euclidean_methods_only(self):
        rows = [[1.0, 0.0], [10.0, 0.0]]
        assert named(prototypes(*rows), 0, 2.0, 0.0) == 0.5
        assert named(prototypes(*rows, distance="euclidean"), 0, 2.0, 0.0) == 1
        assert named(prototypes(*rows, distance="euclidean"), 1, 2.0, 0.0) == 0
        assert named(prototypes(*rows, distance="euclidean"), 1, 5.5, 0.0) == 0.5

    def test_the_floor_of_p_leak_is_one_in_so_many(self):
        truth = prototypes([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0])
        for metric in (P_LEAK, P_LEAK_PUBLIC):
            assert one(metric, Guess("client/1", 5), Answer(truth, 1, 5), "floor") == 1 / 3

    def test_the_attackers_own_candidates(self):
        truth = prototypes([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0])
        alike = {"likeness": torch.tensor([0.9, 0.9, -1.0])}
        assert [
            one(P_LEAK_PUBLIC, Guess(f"client/{c}", 5, alike), Answer(truth, c, 5))
            for c in range(3)
        ] == [0.5, 0.5, 0]

    def test_cosine_and_its_floor(self):
        truth = prototypes([1.0, 0.0], [0.0, 2.0], [-3.0, 0.0])
        guess = Guess("client/0", 5, {"prototype": torch.tensor([3.0, 4.0])})
        assert one(PROTOTYPE_COSINE, guess, Answer(truth, 0, 5)) == pytest.approx(0.6)
        assert one(PROTOTYPE_COSINE, guess, Answer(truth, 0, 5), "floor") == pytest.approx(
            (0 - 1) / 2
        )
        assert one(PROTOTYPE_COSINE, guess, Answer(truth, 1, 5), "floor") == pytest.approx(0)

    def test_rounding_does_not_leave_the_range(self):
        v = noise(1, 3, 64)
        truth = prototypes(*v.tolist())
        for c in range(3):
            value = one(
                PROTOTYPE_COSINE,
                Guess(
                    f"client/{c}", 5, {"prototype": truth.rounds[5]["everyone"]["prototype"][c] * 7}
                ),
                Answer(truth, c, 5),
            )
            assert 1 - 1e-9 < value <= 1

    def test_a_method_without_true_prototypes_is_said_to_have_none(self):
        with pytest.raises(NotMeasured, match="no true prototype"):
            named(Known({5: {}}), 0, 1.0, 0.0)


def batch(x, rows, probe=None, client=3):
    entry = {"x": x, "y": torch.full((len(x),), 3), "rows": torch.tensor(rows)}
    found = entry if probe is None else {"probe": {str(probe): entry}}
    return Known({5: {"client": {str(client): {"1": {"secrets": {}}, "2": found}}}})


def images(metric, guess, truth, probe=None):
    return metric.score(Guess("client/3", 5, {"x": guess}, probe=probe), Answer(truth, 3, 5, probe))


class TestImages:
    def test_psnr_and_mse_by_hand(self):
        truth = batch(torch.zeros(1, 1, 8, 8), [40])
        guess = torch.full((1, 1, 8, 8), 0.1)
        (psnr,), (mse,) = images(PSNR, guess, truth), images(MSE, guess, truth)
        assert (psnr.unit, psnr.cluster) == ("client/3/40", "client/3")
        assert psnr.value == pytest.approx(20, abs=1e-6)
        assert mse.value == pytest.approx(0.01, abs=1e-8)

    def test_guesses_are_clipped_and_exact_ones_are_100_db(self):
        white = batch(torch.ones(1, 1, 8, 8), [0])
        assert [s.value for s in images(PSNR, torch.full((1, 1, 8, 8), 7.0), white)] == [100]
        assert [s.value for s in images(MSE, torch.full((1, 1, 8, 8), 7.0), white)] == [0]
        assert [s.value for s in images(SSIM, torch.ones(1, 1, 8, 8), white)] == pytest.approx([1])

    def test_a_shuffled_batch_is_matched(self):
        x = noise(0, 4, 1, 8, 8)
        order = [2, 0, 3, 1]
        found = images(MSE, x[order] + 0.01, batch(x, [7, 8, 9, 10]))
        assert [s.unit for s in found] == [f"client/3/{r}" for r in (7, 8, 9, 10)]
        assert all(s.value < 2e-4 for s in found)

    def test_matching_is_the_best_for_the_batch_not_for_each(self):
        x = torch.zeros(2, 1, 8, 8)
        x[1] = 1.0
        # Both are nearer to the second.
        guess = torch.stack([torch.full((1, 8, 8), 0.6), torch.full((1, 8, 8), 0.9)])
        assert [s.value for s in images(MSE, guess, batch(x, [0, 1]))] == pytest.approx(
            [0.36, 0.01]
        )

    def test_a_probe_is_compared_with_its_own_image(self):
        truth = batch(torch.ones(1, 1, 8, 8), [12], probe=4)
        assert [s.value for s in images(MSE, torch.full((1, 1, 8, 8), 0.5), truth, probe=4)] == [
            0.25
        ]
        with pytest.raises(BrokenFile, match="no batch of probe 5 of client 3 in round 5"):
            images(MSE, torch.ones(1, 1, 8, 8), truth, probe=5)
        with pytest.raises(BrokenFile, match="no batch of client 3 in round 5"):
            images(MSE, torch.ones(1, 1, 8, 8), truth)

    def test_a_guess_that_is_not_finite_is_an_error(self):
        truth = batch(torch.ones(1, 1, 8, 8), [12])
        for metric in (PSNR, MSE, SSIM):
            with pytest.raises(ValueError, match="not finite"):
                images(metric, torch.full((1, 1, 8, 8), math.nan), truth)

    def test_small_images_have_no_lpips_and_nothing_is_loaded_to_find_out(self, monkeypatch):
        monkeypatch.setattr("leakbench.metrics.lpips.load_network", lambda: pytest.fail("loaded"))
        with pytest.raises(NotMeasured, match="at least 32 x 32"):
            images(LPIPS, torch.ones(1, 1, 8, 8), batch(torch.ones(1, 1, 8, 8), [12]))


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    """Of a real run."""
    return Truth(trained(tmp_path_factory.mktemp("runs"), "fedavg", 1))


def gallery_data(x, y, rows, counts):
    return {
        "x": x,
        "y": torch.tensor(y),
        "rows": torch.tensor(rows),
        "counts": torch.tensor(counts),
    }


class TestIdentification:
    def test_a_gallery_is_a_hundred_of_the_class_from_the_victims_own(self, truth):
        data = truth.data
        for client, place in ((3, 0), (3, 50), (7, 2)):
            row = int(data["rows"][client, place])
            found, at = Answer(truth, client, 1).gallery(row, data["x"][row])
            assert (len(found), at) == (GALLERY, 0)
            assert torch.equal(found[0], data["x"][row].double())
            own = {
                data["x"][r].float().numpy().tobytes()
                for r in data["rows"][client, : int(data["counts"][client])]
            }
            assert {g.float().numpy().tobytes() for g in found} <= own
            assert bool(
                (data["y"][data["rows"][client, : int(data["counts"][client])]] == client).all()
            )

    def test_no_auxiliary_or_test_image_is_in_a_gallery(self, truth):
        row = int(truth.data["rows"][3, 0])
        found, _ = Answer(truth, 3, 1).gallery(row, truth.data["x"][row])
        others = {x.float().numpy().tobytes() for part in ("test", "aux") for x in split()[part][0]}
        train = {x.float().numpy().tobytes() for x in split()["train"][0]}
        mine = {g.float().numpy().tobytes() for g in found}
        assert mine <= train
        assert not mine & (others - train)

    def test_a_gallery_is_the_same_whoever_asks(self, truth):
        row = int(truth.data["rows"][3, 5])
        true = truth.data["x"][row]
        assert torch.equal(
            Answer(truth, 3, 1).gallery(row, true)[0],
            Answer(truth, 3, 99, probe=2).gallery(row, true)[0],
        )

    def test_own_images_come_first_then_the_tasks_others_of_the_class(self):
        y = [0, 0, 1, 0, 0, 1]
        truth = Known(
            data=gallery_data(torch.arange(6.0)[:, None], y, [[0, 1, 2], [3, 4, 5]], [3, 3])
        )
        found, at = Answer(truth, 0, 1).gallery(0, truth.data["x"][0])
        assert (at, found.flatten().tolist()[:2]) == (0, [0, 1])
        assert sorted(found.flatten().tolist()) == [0, 1, 3, 4]

    def test_a_class_of_more_than_a_hundred_gives_the_victims_own_precedence(self):
        n = 200
        truth = Known(
            data=gallery_data(torch.arange(float(n))[:, None], [0] * n, [list(range(60))], [60])
        )
        found = Answer(truth, 0, 1).gallery(7, truth.data["x"][7])[0].flatten().tolist()
        assert len(set(found)) == len(found) == GALLERY
        assert set(found) >= set(range(60))

    def test_the_others_are_augmented_as_the_true_image_was(self):
        truth = Known(data=gallery_data(torch.arange(6.0)[:, None], [0] * 6, [list(range(6))], [6]))
        seen = []

        def augment(x, rng):
            seen.append(rng.uniform("shift", len(x)))
            return x + 100

        truth.task = SimpleNamespace(augment=augment, lies_in=UNIT)
        found, at = Answer(truth, 0, 1).gallery(2, torch.tensor([7.0]))
        assert (at, sorted(found.flatten().tolist())) == (0, [7, 100, 101, 103, 104, 105])
        again, _ = Answer(truth, 0, 9).gallery(2, torch.tensor([7.0]))
        assert torch.equal(found, again)
        assert torch.equal(*seen)

    def identified(self, values, guess, row=0):
        n = len(values)
        x = torch.tensor(values)[:, None, None, None].expand(n, 1, 4, 4).clone()
        truth = Known(
            {
                5: {
                    "client": {
                        "0": {
                            "1": {
                                "x": x[row : row + 1],
                                "y": torch.tensor([0]),
                                "rows": torch.tensor([row]),
                            }
                        }
                    }
                }
            }
        )
        truth.data = gallery_data(x, [0] * n, [list(range(n))], [n])
        found = torch.full((1, 1, 4, 4), guess)
        (s,) = IDENTIFICATION.score(Guess("client/0", 5, {"x": found}), Answer(truth, 0, 5))
        (floor,) = IDENTIFICATION.floor(Guess("client/0", 5), Answer(truth, 0, 5))
        assert floor.value == 1 / n
        return s.value

    def test_nearest_or_not(self):
        assert self.identified([0.2, 0.5, 0.8], 0.3) == 1
        assert self.identified([0.2, 0.5, 0.8], 0.4) == 0

    def test_ties_share_and_the_floor_counts_the_gallery(self):
        assert self.identified([0.2, 0.2, 0.2, 0.8], 0.1) == pytest.approx(1 / 3)
        assert self.identified([0.2], 0.9) == 1


class TestCorrelations:
    @staticmethod
    def truth(x):
        entry = {"3": {"2": {"inputs": {"features": x}}}}
        return Known(
            {
                5: {"client": {}},
                4: {"client": entry},
                9: {"client": {"3": {"2": {"inputs": {"features": -x}}}}},
            }
        )

    def value(self, metric, x, z, measure="score"):
        return one(
            metric, Guess("client/3", 5, {"features": z}), Answer(self.truth(x), 3, 5), measure
        )

    def test_a_linear_map_is_seen_whole(self):
        x = noise(2, 40, 3)
        turn = torch.linalg.qr(noise(3, 3, 3))[0]
        for metric in (DCOR, DCOR2_CORRECTED, FLEA_CORRELATION):
            assert self.value(metric, x, 5 * x @ turn + 1) == pytest.approx(1, abs=1e-9)

    def test_distance_correlation_by_the_definition(self):
        x, z = noise(4, 30, 5), noise(5, 30, 2)
        z[:, 0] += x[:, 0]
        n = len(x)
        centre = torch.eye(n, dtype=torch.float64) - 1 / n
        a, b = (centre @ self.distances(t) @ centre for t in (x, z))
        assert self.value(DCOR, x, z) == pytest.approx(
            math.sqrt(float((a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt())), abs=1e-9
        )
        u, v = (self.u_centred(self.distances(t)) for t in (x, z))
        assert self.value(DCOR2_CORRECTED, x, z) == pytest.approx(
            float((u * v).sum() / ((u * u).sum() * (v * v).sum()).sqrt()), abs=1e-9
        )

    @staticmethod
    def distances(t):
        return (t[:, None] - t).square().sum(-1).sqrt()

    @staticmethod
    def u_centred(d):
        """Székely and Rizzo 2014: what an unbiased estimate centres with."""
        n = len(d)
        u = d - d.sum(0) / (n - 2) - d.sum(1)[:, None] / (n - 2) + d.sum() / ((n - 1) * (n - 2))
        return u.fill_diagonal_(0)

    def test_flea_by_the_definition(self):
        x, z = noise(6, 12, 3), noise(7, 12, 4)
        n = len(x)
        centre = torch.eye(n, dtype=torch.float64) - 1 / n
        a, b = (centre @ torch.cdist(t, t).square() @ centre for t in (x, z))
        wanted = float((a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt())
        assert self.value(FLEA_CORRELATION, x, z) == pytest.approx(wanted, abs=1e-9)

    def test_the_floor_pairs_the_attacks_own_features_at_random(self):
        x, z = noise(8, 40, 2), noise(9, 40, 2)
        assert DCOR.floor_of == "attack"
        assert self.value(DCOR, x, x, "floor") == self.value(DCOR, x, x, "floor")
        assert 0 < self.value(DCOR, x, x, "floor") < 0.5 < self.value(DCOR, x, x)
        assert abs(self.value(DCOR2_CORRECTED, x, x, "floor")) < 0.05
        assert abs(self.value(DCOR, x, z) - self.value(DCOR, x, z, "floor")) < 0.2

    def test_one_pass_over_the_pairs_gives_all_three(self, monkeypatch):
        """And another guess of the same unit in the same process is measured anew."""
        passes, plain = [], distance_correlation.correlations
        monkeypatch.setattr(
            distance_correlation, "correlations", lambda x, z: passes.append(z) or plain(x, z)
        )
        x = noise(12, 40, 2)
        answer = Answer(self.truth(x), 3, 5)
        for count, z in enumerate((x**2, noise(13, 40, 2), x.float() ** 2), start=1):
            guess = Guess("client/3", 5, {"features": z})
            for metric in (DCOR, DCOR2_CORRECTED, FLEA_CORRELATION):
                (found,) = metric.score(guess, answer)
                assert found.value == plain(x.double(), z)[metric.name]
            DCOR2_CORRECTED.beside[0][1](guess, answer)
            assert len(passes) == count

    def test_p_values(self):
        ((name, measure),) = DCOR2_CORRECTED.beside
        assert name == "dcor2_corrected_p"
        x = noise(10, 40, 2)
        dependent, independent = (
            measure(Guess("client/3", 5, {"features": z}), Answer(self.truth(x), 3, 5))[0].value
            for z in (x**2, noise(11, 40, 2))
        )
        assert dependent == pytest.approx(1 / 201)
        assert independent > 0.05

    def test_the_inputs_are_those_of_the_newest_message_not_of_a_later_one(self):
        x = noise(12, 6, 2)
        assert torch.equal(Answer(self.truth(x), 3, 5).inputs("features"), x)
        assert torch.equal(Answer(self.truth(x), 3, 9).inputs("features"), -x)
        with pytest.raises(BrokenFile, match="no inputs behind 'features' of client 4"):
            Answer(self.truth(x), 4, 5).inputs("features")


@pytest.mark.parametrize(
    "metric",
    {
        m.name: m
        for name in registry.names("attacks")
        for m in registry.load_plugin("attacks", name).metrics
    }.values(),
    ids=lambda m: m.name,
)
def test_every_metric_says_how_it_is_read(metric):
    assert metric.leaks in ("up", "down")
    assert metric.low < metric.high
    assert not metric.share or (metric.low, metric.high) == (0, 1)
    assert metric.needs
    assert metric.meaning.version >= 1
