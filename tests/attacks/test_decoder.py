"""The decoder: trained through the defended model on data of its own, chosen without the truth,
scored row by row.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from helpers.pixels import pixels
from helpers.small_runs import (
    FEATURES,
    FEW_PROBES,
    Lazily,
    again,
    build,
    copied,
    noise,
    obstacle,
    plugged,
    results,
    seconds,
    units,
)

from attacks import _decoder_nets, _decoders
from attacks._decoders import Known
from leakbench import api
from leakbench.attacking import guessing
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import View
from leakbench.base.errors import MethodError, NotMeasured, UsageError
from leakbench.base.files import read_sealed, write_sealed
from leakbench.federation.input_range import UNIT, InputRange
from leakbench.federation.net import Net
from leakbench.metrics.images import IDENTIFICATION, LPIPS, MSE, PSNR, SSIM
from leakbench.record.folders import load
from leakbench.reporting import pictures
from leakbench.reporting.pictures import Media
from leakbench.scoring import score
from leakbench.scoring.truth import Answer, Truth

FLEA = {"layer": "first", "fraction": 1.0, "epochs": 1, "lam2": 0.0}
FAST = {"epochs": 1, "steps": 80, "network": "linear"}
HOW = SimpleNamespace(network="relu", epochs=1, steps=60, lr=0.001, batch=32, held_out=0.15)
SIGNALS = '''
"""Digits as if they were signals: standardised, without bounds."""

from dataclasses import replace

from leakbench.tasks.digits import Digits


class Waves(Digits):
    """Waves."""

    signal = True

    def load(self):
        data = super().load()

        def standard(e):
            return replace(e, stored=(e.stored - 0.3) / 0.37)

        train, test, aux = map(standard, (data.train, data.test, data.aux))
        return replace(data, train=train, test=test, aux=aux)
'''


def shared(out, seed=3, task="digits", rounds=1, **params):
    return api.train(
        "flea",
        task=task,
        rounds=rounds,
        seed=seed,
        out=out,
        device="cpu",
        record=FEW_PROBES,
        params={**FLEA, **params},
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs that differ in their seed alone, and the first with a second round."""
    out = tmp_path_factory.mktemp("runs")
    return Lazily(
        flea=partial(shared, out),
        other=partial(shared, out, seed=4),
        two=partial(shared, out, rounds=2),
    )


@pytest.fixture(scope="module")
def attacked(runs):
    """Both networks on the first run."""
    return {
        n: api.attack(runs["flea"], "decoder", **{**FAST, "network": n}).path
        for n in ("linear", "relu")
    }


def guesses(folder, role="attack", stage="final"):
    return {
        g.guess.unit: g.guess for g in guessing.saved(folder) if (g.role, g.stage) == (role, stage)
    }


def view_of(run, t, **params):
    return View(build("decoder", **params).threat, again(run), t)


class TestNetworks:
    def test_table_5_has_the_numbers_of_the_table(self):
        net = _decoder_nets.table5(
            (16, 32, 32), (3, 32, 32), torch.Generator().manual_seed(0), relu=False
        )
        by_hand = [16 * 32 + 32, 32 * 32 * 9 + 32, 32 * 32 * 9 + 32, 32 * 3 + 3]
        assert [sum(p.numel() for p in layer.parameters()) for layer in net] == by_hand
        sizes, x = [], torch.zeros(2, 16, 32, 32)
        for layer in net:
            x = layer(x)
            sizes.append(tuple(x.shape[1:]))
        assert sizes == [(32, 32, 32), (32, 64, 64), (32, 32, 32), (3, 32, 32)]

    @pytest.mark.parametrize("relu", [False, True])
    def test_linear_is_affine_and_relu_is_not(self, relu):
        net = _decoder_nets.table5(
            (4, 8, 8), (1, 8, 8), torch.Generator().manual_seed(0), relu=relu
        ).double()
        a, b = noise(1, 1, 4, 8, 8) - 0.5, noise(2, 1, 4, 8, 8) - 0.5
        with torch.no_grad():
            gap = net(a + b) - net(a) - net(b) + net(torch.zeros_like(a))
        assert (float(gap.abs().max()) > 1e-4) == relu

    @pytest.mark.parametrize(
        ("features", "inputs"),
        [
            ((64, 43, 3), (1, 128, 3)),
            ((128, 20, 3), (1, 128, 3)),
            ((12, 4, 4), (1, 8, 8)),
            ((9, 1, 1), (1, 8, 8)),
            ((8, 43, 5), (1, 128, 3)),
        ],
        ids=str,
    )
    def test_any_sides_come_out_as_the_inputs(self, features, inputs):
        net = _decoder_nets.table5(features, inputs, torch.Generator().manual_seed(0), relu=True)
        assert net(torch.zeros(2, *features)).shape == (2, *inputs)

    def test_a_place_of_the_features_lies_over_its_inputs(self):
        """Exactly the inputs' sides, and the first place's kernel sticks out as far as the last
        one's.
        """
        for features in range(1, 40):
            for inputs in (3, 8, 28, 32, 128):
                kernel, stride, pad = _decoder_nets.side(features, inputs)
                assert (features - 1) * stride - 2 * pad + kernel == inputs
                assert features == 1 or kernel >= 2 * stride + 1

    def test_the_start_is_the_generators_and_the_global_dice_stay(self):
        before = torch.get_rng_state()
        nets = [
            _decoder_nets.table5((4, 8, 8), (1, 8, 8), torch.Generator().manual_seed(s), relu=True)
            for s in (5, 5, 6)
        ]
        flat = [torch.cat([p.flatten() for p in n.parameters()]) for n in nets]
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.equal(flat[0], flat[1])
        assert not torch.equal(flat[0], flat[2])

    @pytest.mark.parametrize(
        ("features", "inputs"),
        [((128, 20, 3), (1, 128, 3)), ((16, 32, 32), (3, 32, 32)), ((9, 1, 1), (1, 8, 8))],
        ids=str,
    )
    def test_the_deeper_one_has_the_inputs_sides_and_costs_what_is_said(self, features, inputs):
        net = _decoder_nets.deep(features, inputs, torch.Generator().manual_seed(0))
        assert net(torch.zeros(2, *features)).shape == (2, *inputs)
        shortcuts, halves = (net[1], net[3]), net[2]
        full, quarter = (
            sum(p.numel() for layer in some for p in layer.parameters() if p.dim() > 1)
            for some in (shortcuts, [halves])
        )
        said = _decoder_nets.operations("conv") - _decoder_nets.operations("relu")
        assert said == pytest.approx(full + quarter / 4, rel=0.05)

    def test_edges_that_are_off_count_and_a_level_that_is_off_does_not(self):
        x = noise(1, 3, 1, 8, 8)
        assert float(_decoder_nets.unlike_edges(x, x)) == 0
        assert float(_decoder_nets.unlike_edges(x + 0.3, x)) == pytest.approx(0)
        blurred = x.mean((2, 3), keepdim=True).expand_as(x)
        assert float(_decoder_nets.unlike_edges(blurred, x)) > 0.1
        assert float(_decoder_nets.unlike_edges(x[:, :, :1, :1], x[:, :, :1, :1] + 1)) == 0


class TestTraining:
    def test_components_have_variance_one_and_dead_channels_are_left_out(self):
        f = noise(3, 50, 3, 4, 4)
        f[:, 2] = f[:, 0] + 1e-3 * f[:, 1]  # much alike
        f = torch.cat([f, torch.full((50, 1, 4, 4), 7.0, dtype=torch.float64)], 1)
        for whiten in (False, True):
            v = _decoders._scaling(f, whiten=whiten)(f).transpose(0, 1).flatten(1)
            alive = v[v.abs().amax(1) > 0]
            cov = alive @ alive.T / v.shape[1]
            assert torch.allclose(
                cov.diagonal(), torch.ones(len(cov), dtype=torch.float64), atol=1e-6
            )
            assert len(alive) == (2 if whiten else 3) + (
                whiten and torch.linalg.matrix_rank(f[:, :3].transpose(0, 1).flatten(1)) == 3
            )
            assert (
                torch.allclose(cov, torch.eye(len(cov), dtype=torch.float64), atol=1e-6) == whiten
            )

    def test_few_examples_are_not_turned(self):
        turn = _decoders._scaling(noise(3, 20, 30), whiten=True).turn
        assert torch.equal(turn, torch.diag(turn.diagonal()))

    def test_features_that_say_nothing_give_the_class_mean_and_no_belief(self):
        x, y = noise(1, 200, 1, 8, 8).float(), torch.arange(200) % 4
        x += y[:, None, None, None] / 10
        known = Known(noise(2, 200, 6, 4, 4).float(), x, y)
        decoder = _decoders.train(known, 4, HOW, torch.Generator().manual_seed(0))
        assert not decoder.accepted
        assert decoder.weight < 0.3
        assert float(decoder.errors[0]) <= float(decoder.errors[1]) * 1.01

    def test_the_epoch_is_the_one_of_the_lowest_held_out_error(self):
        """The network that is kept has that very error on the examples that were held out, and they
        were not trained on.
        """
        x = noise(1, 60, 1, 8, 8).float()
        known = Known(x.reshape(60, 4, 4, 4), x, torch.zeros(60, dtype=torch.int64))
        how = SimpleNamespace(**{**vars(HOW), "lr": 0.03, "held_out": 0.5})
        decoder = _decoders.train(known, 1, how, torch.Generator().manual_seed(0))
        held = known.some(torch.randperm(60, generator=torch.Generator().manual_seed(0))[:30])
        error = float((decoder.bare(decoder.scaling(held.features)) - held.x).square().mean())
        assert error == pytest.approx(float(decoder.curve[:, 1].min()), rel=1e-5)
        assert float(decoder.curve[:, 1].min()) < float(decoder.curve[-1, 1])  # it does overfit
        assert len(decoder.curve) == 60

    def test_training_that_diverges_keeps_what_it_had(self):
        x = noise(1, 60, 1, 8, 8).float()
        known = Known(x, x * float("inf"), torch.zeros(60, dtype=torch.int64))
        assert len(_decoders.train(known, 1, HOW, torch.Generator().manual_seed(0)).curve) == 0


class TestAttack:
    def test_it_rebuilds_what_a_blind_guess_does_not(self, attacked):
        for folder in attacked.values():
            mse, found = results(folder, "mse"), results(folder, "identification")
            assert mse["value"] < 0.35 * mse["floor"]
            assert mse["high"] < mse["floor_low"]
            assert found["low"] > 10 * found["floor"]
            assert (mse["rung"], mse["observer"], mse["knowledge"]) == (
                "public",
                "server",
                "aux_data|method|facts",
            )
            assert all(g.accepted for g in guesses(folder).values())

    def test_with_relus_it_rebuilds_more(self, attacked):
        linear, relu = (results(attacked[n], "mse") for n in ("linear", "relu"))
        assert relu["value"] < 0.8 * linear["value"]

    def test_in_the_control_the_features_are_the_inputs(self, attacked):
        exact = {"mse": 0, "psnr": 100, "ssim": 1, "identification": 1}
        assert {m: results(attacked["relu"], m)["control"] for m in exact} == pytest.approx(exact)

    def test_every_row_that_was_shared_is_a_unit(self, runs, attacked):
        counts = Truth(runs["flea"]).data["counts"]
        found = units(attacked["relu"], "mse", round=1)
        assert len(found) == int(sum(max(1, int(0.1 * c)) for c in counts.tolist()))
        assert {u.rpartition("/")[0] for u in found} == {f"client/{c}" for c in range(10)}
        assert not any(
            "newest features" in m["reason"]
            for m in read_sealed(attacked["relu"] / "attack.json")["missing"]
        )

    def test_the_score_of_a_row_is_that_of_its_own_image(self, runs, attacked):
        """By hand: the guess's row against the training image that the unit names."""
        truth, found = Truth(runs["flea"]), units(attacked["relu"], "mse", round=1)
        for unit, guess in guesses(attacked["relu"]).items():
            rows = [int(u.rpartition("/")[2]) for u in found if u.rpartition("/")[0] == unit]
            true = truth.data["x"][rows].double()
            by_hand = (guess.tensors["x"].double() - true).square().flatten(1).mean(1)
            assert [found[f"{unit}/{r}"] for r in rows] == pytest.approx(by_hand.tolist())

    def test_scored_with_another_runs_truth_it_falls_to_the_floor(self, runs, tmp_path):
        """The same rounds and clients of the other run: other images of the same digits lie behind
        its features.
        """
        run, attack = copied(runs["flea"], tmp_path), build("decoder", **FAST)
        recording = again(run)
        folder = guessing.guess(recording, "decoder", attack)
        before = (folder / "guess.safetensors").read_bytes()
        score.score(recording, "decoder", attack, truth=Truth(runs["other"]))
        mse, found = results(folder, "mse"), results(folder, "identification")
        assert (folder / "guess.safetensors").read_bytes() == before
        assert mse["value"] > mse["floor"]
        assert found["value"] < 0.1

    def test_twice_the_same_bytes(self, runs, attacked, tmp_path):
        torch.rand(3)  # nobody's dice
        folder = guessing.guess(
            again(copied(runs["flea"], tmp_path)),
            "decoder",
            build("decoder", **{**FAST, "network": "relu"}),
        )
        assert (folder / "guess.safetensors").read_bytes() == (
            attacked["relu"] / "guess.safetensors"
        ).read_bytes()

    def test_the_curve_is_saved_and_falls(self, attacked):
        for folder in attacked.values():
            for guess in guesses(folder).values():
                curve, errors = guess.tensors["curve"], guess.tensors["held_out"]
                assert curve.shape == (10, 2)  # 80 steps of 8 batches
                assert (curve[-5:].mean(0) < 0.5 * curve[0]).all()
                assert float(errors[0]) <= float(curve[:, 1].min()) * 1.001
                assert float(errors[0]) < 0.5 * float(errors[1])

    def test_it_is_trained_through_the_model_that_made_the_features(self, runs, monkeypatch):
        """The newest of the round's two broadcasts: with it the attacker's features of the victims'
        inputs are the victims'.
        """
        run, seen = runs["two"], []
        real = _decoders.train
        monkeypatch.setattr(
            _decoders, "train", lambda known, *a: (seen.append(known), real(known, *a))[1]
        )
        view = view_of(run, 2)
        build("decoder", epochs=1, steps=1)(view)
        models = view.messages("model", sender="server", round=2)
        nets = [Net(view.module, m.payload) for m in models]
        aux = view.know("aux_data").x
        with torch.no_grad():
            assert len(seen) == 1
            assert torch.allclose(seen[0].features, nets[-1](aux, stop="first"), atol=1e-6)
            assert not torch.allclose(seen[0].features, nets[0](aux, stop="first"), atol=1e-3)
            for m in view.messages("features", round=2):
                if m.sender != "server":
                    x = (
                        Answer(Truth(run), int(m.sender.split("/")[1]), 2)
                        .inputs("features")
                        .float()
                    )
                    assert torch.allclose(nets[-1](x, stop="first"), m.payload, atol=1e-6)

    def test_the_blind_guess_reads_no_features(self, attacked, runs):
        aux = again(runs["flea"]).known("aux_data")
        means = {f"client/{c}": aux.x[aux.y == c].mean(0) for c in range(10)}
        for unit, guess in guesses(attacked["relu"], "floor").items():
            assert torch.allclose(
                guess.tensors["x"], means[unit].expand_as(guess.tensors["x"]), atol=1e-6
            )

    def test_without_the_model_it_says_so_and_scores_what_the_blind_guess_does(
        self, runs, tmp_path, monkeypatch
    ):
        real = View.messages
        monkeypatch.setattr(
            View,
            "messages",
            lambda self, kind, **k: [] if kind == "model" else real(self, kind, **k),
        )
        folder = api.attack(copied(runs["flea"], tmp_path), "decoder", epochs=1, steps=2).path
        assert {g.failed for g in guesses(folder).values()} == {
            "the model that made the features was not kept"
        }
        row = results(folder, "mse")
        assert (row["value"], row["failed"]) == (row["floor"], row["n"])

    def test_features_that_the_model_does_not_make_fail(self, runs, tmp_path):
        """Noise on the wire, of which the attacker's own examples have none."""
        wrappers = (("clip_noise", {"kinds": ["features"], "clip": 1e3, "noise": 0.1}),)
        run = api.train(
            "flea", rounds=1, out=tmp_path, device="cpu", params=FLEA, wrappers=wrappers
        )
        folder = api.attack(run, "decoder", **FAST).path
        assert {g.failed for g in guesses(folder).values()} == {
            "the features are unlike those that the model makes of auxiliary data"
        }
        assert results(folder, "mse")["control"] == pytest.approx(0)

    def test_pictures_show_a_shared_image_beside_what_was_made_of_it(self, runs, attacked):
        truth = Truth(runs["flea"])
        kept = Media()
        every = list(pictures.run_pictures(load(runs["flea"].path), kept))
        shown = [p for p in every if p.attack == "decoder" and p.params["network"] == "relu"]
        assert {p.role for p in shown} == {"original", "floor", "control", "attack"}
        assert len({p.unit for p in shown}) == pictures.UNITS
        for p in shown:
            own = truth.data["x"][int(p.unit.rpartition("/")[2])].double()[0].numpy()
            if p.role in ("original", "control"):
                assert pixels(kept.images.found, p) == pytest.approx(own, abs=0.5 / 255 + 1e-6)
            if p.role == "attack":
                assert p.psnr == pytest.approx(units(attacked["relu"], "psnr", round=1)[p.unit])


class TestAverage:
    def test_the_same_examples_decoded_through_two_models(self, runs, tmp_path):
        run = copied(runs["two"], tmp_path)
        how = {**FAST, "steps": 40}
        two, one = (api.attack(run, "decoder", average=k, **how).path for k in (2, 1))
        first, last = guesses(one, stage="untrained"), guesses(one)
        for unit, guess in guesses(two).items():
            assert int(guess.tensors["averaged"]) == 2
            assert torch.equal(guess.tensors["curve"], last[unit].tensors["curve"])
            lo, hi = (
                f(first[unit].tensors["x"], last[unit].tensors["x"])
                for f in (torch.minimum, torch.maximum)
            )
            assert not torch.equal(guess.tensors["x"], last[unit].tensors["x"])
            near = (
                ((guess.tensors["x"] >= lo - 0.1) & (guess.tensors["x"] <= hi + 0.1))
                .double()
                .mean()
            )
            assert float(near) > 0.9  # between the two; the earlier model's decoder had other dice
        assert all(
            int(g.tensors["averaged"]) == 1 for g in guesses(two, stage="untrained").values()
        )

    def test_messages_with_other_labels_are_not_joined(self, runs, tmp_path, monkeypatch):
        from attacks.decoder import Decoder

        real = Decoder._labels
        monkeypatch.setattr(
            Decoder, "_labels", lambda self, view, m: (real(self, view, m) + (m.round == 1)) % 10
        )
        folder = api.attack(
            copied(runs["two"], tmp_path), "decoder", average=2, epochs=1, steps=1
        ).path
        assert {int(g.tensors["averaged"]) for g in guesses(folder).values()} == {1}

    def test_new_examples_in_every_round_are_refused(self, tmp_path):
        run = shared(tmp_path, subset="fresh")
        with pytest.raises(
            UsageError, match=r"does not share the same examples again .*use average=1"
        ):
            api.attack(run, "decoder", average=2)
        assert obstacle(build("decoder"), again(run)) == ""


class TestSignals:
    def test_signals_are_not_clipped_and_have_no_psnr(self, tmp_path):
        with plugged("leakbench.tasks", tmp_path, waves=SIGNALS):
            run = shared(tmp_path, task="waves")
            folder = api.attack(run, "decoder", **FAST).path
            mse = results(folder, "mse")
            found = torch.cat([g.tensors["x"] for g in guesses(folder).values()])
            assert float(found.min()) < -0.5
            assert float(found.max()) > 1.2
            assert mse["value"] < 0.35 * mse["floor"]
            assert mse["control"] == pytest.approx(0, abs=1e-12)
            assert results(folder, "identification")["value"] > 0.9
            missing = {
                m["metric"]: m["reason"] for m in read_sealed(folder / "attack.json")["missing"]
            }
            assert {"psnr", "ssim", "lpips"} == set(missing)
            assert all("signals or rows" in reason for reason in missing.values())
            assert list(pictures.run_pictures(load(run.path), Media())) == []


class TestObstacles:
    def test_no_features_no_layer_no_auxiliary_data(self, runs, tmp_path):
        plain = api.train(
            "fedavg", task_params={"model": "mlp", "width": 8}, rounds=1, out=tmp_path, device="cpu"
        )
        assert obstacle(build("decoder"), again(plain)) == "clients send the server no features"
        with plugged("defenses", tmp_path, fedfeatures=FEATURES):
            other = api.train(
                "fedfeatures",
                task_params={"model": "mlp", "width": 8},
                rounds=1,
                out=tmp_path,
                device="cpu",
            )
            assert (
                obstacle(build("decoder"), again(other))
                == "the method has no field `layer`, so how its features are made is not known"
            )
        run = copied(runs["flea"], tmp_path)
        files = {k: v for k, v in run.meta["files"].items() if not k.startswith("known/aux")}
        write_sealed(run.path / "run.json", {**run.meta, "files": files})
        assert (
            obstacle(build("decoder"), again(run))
            == "the run holds no auxiliary data to train a decoder on"
        )

    def test_the_time_grows_with_what_is_trained(self, runs):
        recording = again(runs["flea"])
        few, more = (seconds(build("decoder", steps=s), recording) for s in (1000, 3000))
        assert 0 < few < more
        assert seconds(build("decoder", average=2), recording) == 2 * seconds(
            build("decoder"), recording
        )


class Made:
    """A truth of which a test states the clients' data and what they shared in round 5."""

    def __init__(self, x, rows, shared, *, signal=False, context=None):
        self.data = {
            "x": x,
            "y": torch.zeros(len(x), dtype=torch.int64),
            "rows": torch.tensor(rows),
        }
        self.data["counts"] = torch.tensor([len(r) for r in rows])
        if context is not None:
            self.data["context"] = torch.tensor(context)
        self.rounds, self.memo = {5: "a file"}, {}
        self.tree = {
            "client": {str(c): {"3": {"inputs": {"features": s}}} for c, s in shared.items()}
        }
        lies, shape = InputRange.unbounded() if signal else UNIT, x.shape[1:]
        self.task = SimpleNamespace(augment=lambda x, rng: x, lies_in=lies, shape=shape)
        self.run = SimpleNamespace(path="a/run")

    def round(self, t):
        return self.tree

    def images(self, rows):
        return self.data["x"][rows].double()


def about(x, rows=None, client=0):
    return Guess(
        f"client/{client}",
        5,
        {"x": x, "features.rows": torch.arange(len(x)) if rows is None else torch.tensor(rows)},
    )


class TestRows:
    def test_equal_images_of_two_clients_are_told_apart_by_who_sent_them(self):
        x = noise(1, 6, 1, 4, 4).float()
        x[4] = x[1]
        truth = Made(x, [[0, 1, 2], [3, 4, 5]], {0: x[[2, 1]], 1: x[[4, 3]]})
        assert Answer(truth, 0, 5).rows("features").tolist() == [2, 1]
        assert Answer(truth, 1, 5).rows("features").tolist() == [4, 3]
        assert [s.unit for s in MSE.score(about(x[[4, 3]], client=1), Answer(truth, 1, 5))] == [
            "client/1/4",
            "client/1/3",
        ]

    def test_equal_images_of_one_client_are_taken_in_order(self):
        x = noise(1, 4, 1, 4, 4).float()
        x[2] = x[0]
        truth = Made(x, [[0, 1, 2, 3]], {0: x[[2, 3, 0]]})
        assert Answer(truth, 0, 5).rows("features").tolist() == [0, 3, 2]

    def test_an_input_that_is_no_example_of_the_client_is_said(self):
        x = noise(1, 4, 1, 4, 4).float()
        for shared in (x[[3]], x[[0]] + 1e-3, x[[1, 1]]):
            with pytest.raises(NotMeasured, match="no example of client 0 as the task has it"):
                Answer(Made(x, [[0, 1, 2]], {0: shared}), 0, 5).rows("features")

    def test_rows_are_compared_in_their_order_and_a_batch_is_matched(self):
        x = noise(1, 3, 1, 4, 4).float()
        truth = Made(x, [[0, 1, 2]], {0: x})
        assert [s.value for s in MSE.score(about(x), Answer(truth, 0, 5))] == [0, 0, 0]
        turned = [s.value for s in MSE.score(about(x[[1, 0, 2]]), Answer(truth, 0, 5))]
        assert min(turned[:2]) > 0.01
        assert turned[2] == 0
        assert [s.unit for s in MSE.score(about(x[[2, 0]], [2, 0]), Answer(truth, 0, 5))] == [
            "client/0/2",
            "client/0/0",
        ]
        truth.tree["client"]["0"]["1"] = {
            "x": x,
            "y": torch.zeros(3),
            "rows": torch.tensor([0, 1, 2]),
        }
        assert [
            s.value
            for s in MSE.score(Guess("client/0", 5, {"x": x[[1, 0, 2]]}), Answer(truth, 0, 5))
        ] == [0, 0, 0]

    def test_signals_have_no_bounds(self):
        x = 5 * noise(1, 3, 1, 4, 4).float()
        truth = Made(x, [[0, 1, 2]], {0: x}, signal=True)
        assert [s.value for s in MSE.score(about(x + 2), Answer(truth, 0, 5))] == pytest.approx(
            [4, 4, 4], rel=1e-5
        )
        assert [s.value for s in IDENTIFICATION.score(about(x + 0.01), Answer(truth, 0, 5))] == [
            1,
            1,
            1,
        ]
        for metric in (PSNR, SSIM, LPIPS):
            with pytest.raises(NotMeasured, match="signals or rows"):
                metric.score(about(x), Answer(truth, 0, 5))

    def test_a_gallery_has_the_victims_marker_or_nobody_has(self):
        """Else the marker alone would name the true image."""
        x = noise(1, 8, 1, 4, 4).float()
        truth = Made(x, [[0, 1], [2, 3], [4, 5], [6, 7]], {}, context=[True, False, True, False])
        for client, same in ((0, {0, 1, 4, 5}), (1, {2, 3, 6, 7})):
            row = int(truth.data["rows"][client, 0])
            found, _ = Answer(truth, client, 5).gallery(row, x[row])
            assert {
                r for r in range(8) if any(torch.equal(g, x[r].double()) for g in found)
            } == same

    def test_a_guess_of_other_rows_than_were_shared_is_an_error(self):
        x = noise(1, 3, 1, 4, 4).float()
        with pytest.raises((IndexError, MethodError)):
            MSE.score(about(x, [0, 1, 9]), Answer(Made(x, [[0, 1, 2]], {0: x}), 0, 5))


@pytest.mark.parametrize("network", ["linear", "relu", "conv"])
@pytest.mark.parametrize("shapes", [((4, 4, 4), (3, 8, 8)), ((3, 6), (2, 6)), ((5,), (1, 8, 8))])
def test_the_fast_layout_trains_the_same_decoder(monkeypatch, network, shapes):
    """Channels last or first: the same numbers but for rounding, which float64 keeps small."""
    dice = torch.Generator().manual_seed(0)
    features, x = (torch.rand(80, *s, generator=dice).double() for s in shapes)
    known = Known(features, x, torch.arange(80) % 2)
    how = SimpleNamespace(**{**vars(HOW), "network": network, "steps": 12})
    made = []
    for layout in (_decoders.LAYOUT, "contiguous_format"):
        monkeypatch.setattr(_decoders, "LAYOUT", layout)
        decoder = _decoders.train(known, 2, how, torch.Generator().manual_seed(1))
        made.append((decoder(features, known.y), decoder.curve, decoder.errors))
    for fast, plain in zip(*made, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-9)


def test_a_decoder_of_examples_in_bounds_stays_in_bounds():
    x = noise(1, 60, 1, 8, 8).float()
    known = Known(x, x, torch.zeros(60, dtype=torch.int64))
    decoder = replace(_decoders.train(known, 1, HOW, torch.Generator().manual_seed(0)), weight=1.0)
    found = decoder(torch.cat([100 * x, -100 * x]), torch.zeros(120, dtype=torch.int64))
    assert (float(found.min()), float(found.max())) == (0, 1)


def test_where_features_are_easily_inverted_relu_is_the_linear_decoder():
    """A 1x1 convolution keeps everything: ReLUs only stand in the way, and the attacker sees that
    on its own examples.
    """
    rng = torch.Generator().manual_seed(0)
    x, y = torch.rand(120, 1, 8, 8, generator=rng), torch.arange(120) % 3
    known = _decoders.Known(x * torch.tensor([1.0, -2.0, 0.5, 3.0]).view(4, 1, 1) + 1, x, y)
    made = {
        n: _decoders.train(
            known,
            3,
            SimpleNamespace(**{**vars(HOW), "network": n}),
            torch.Generator().manual_seed(1),
        )
        for n in ("linear", "relu")
    }
    assert torch.equal(made["relu"].errors, made["linear"].errors)
    held, seen = known.some(torch.arange(18)), known.some(torch.arange(18, 120))
    alone = _decoders._fitted(held, seen, 3, HOW, "relu", torch.Generator().manual_seed(1))
    assert float(alone.errors[0]) > 1.2 * float(made["linear"].errors[0])


def test_conv_is_the_best_of_the_three():
    """On the attacker's held-out examples."""
    rng = torch.Generator().manual_seed(0)
    x, y = torch.rand(120, 1, 8, 8, generator=rng), torch.arange(120) % 3
    known = _decoders.Known((x - 0.5).abs().expand(-1, 4, -1, -1) + 0.1 * x, x, y)
    how = SimpleNamespace(**{**vars(HOW), "network": "conv", "lr": 0.01})
    best = _decoders.train(known, 3, how, torch.Generator().manual_seed(1))
    dice = torch.Generator().manual_seed(1)
    order = torch.randperm(120, generator=dice)
    held, seen = known.some(best.held), known.some(order[18:])
    alone = [_decoders._fitted(held, seen, 3, how, n, dice) for n in _decoders.NETWORKS]
    assert float(best.errors[0]) == min(float(d.errors[0]) for d in alone)
    assert len({float(d.errors[0]) for d in alone}) == 3
