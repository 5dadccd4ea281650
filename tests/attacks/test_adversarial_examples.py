"""The server's own inversion as an attack: its examples made again by hand, matched by brute force,
scored on the client's images.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import pytest
import torch
from helpers.pixels import pixels
from helpers.small_runs import Lazily, again, build, by_hand, copied, noise, results, seconds, units
from scipy.optimize import linear_sum_assignment
from torch import nn

from attacks import _updates
from leakbench import api
from leakbench.attacking import choices, guessing
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import View
from leakbench.base.errors import UsageError
from leakbench.base.files import read_sealed
from leakbench.federation.input_range import UNIT
from leakbench.metrics import examples
from leakbench.metrics.examples import NEAREST_PSNR, RECOGNISED, Recogniser
from leakbench.metrics.images import IDENTIFICATION_MATCHED
from leakbench.record.folders import load
from leakbench.reporting import pictures
from leakbench.reporting.pictures import Media
from leakbench.scoring import image_distances
from leakbench.scoring import score as scoring
from leakbench.scoring.originals import Originals
from leakbench.scoring.truth import Truth

SMALL = {"model": "mlp", "width": 8, "dim": 8}
QUICK = {
    "epochs": 2,
    "examples": 4,
    "hidden": 8,
    "search_steps": 5,
    "identifier_epochs": 1,
    "tune_steps": 1,
    "lr": 0.05,
}
TWO = {**SMALL, "split": "qua", "split_param": 2}


def trained(out, task_params=SMALL, method="fedaa", **params):
    return api.train(
        method,
        task="digits",
        task_params=task_params,
        rounds=2,
        out=out,
        device="cpu",
        dtype="float64",
        params={**QUICK, **params},
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two classes a client; one class each; images sent in place of names."""
    out = tmp_path_factory.mktemp("runs")
    two = partial(trained, out, TWO, fraction=1.0)
    return Lazily(two=two, one=partial(trained, out), images=partial(two, sends="images"))


@pytest.fixture(scope="module")
def attacked(runs):
    def folder(name):
        return api.attack(runs[name], "adversarial_examples").path

    return Lazily(**{name: partial(folder, name) for name in ("two", "one", "images")})


def guesses(folder, role="attack", stage="final"):
    return {
        g.guess.unit: g.guess for g in guessing.saved(folder) if (g.role, g.stage) == (role, stage)
    }


def sent(run, kind, unit, round=2):
    """Payloads of a kind that a client sent in a round, in order; for "model" those of
    the server.
    """
    who = "server" if kind == "model" else unit
    found = [
        m
        for m in again(run).transcript
        if (m.kind, m.sender, m.round, m.probe) == (kind, who, round, None)
    ]
    return [m.payload for m in sorted(found, key=lambda m: m.phase)]


def clients_images(run, unit):
    """(n, 1, 8, 8) float64, and their rows in the task's data."""
    data, i = Truth(load(run.path)).data, int(unit.removeprefix("client/"))
    rows = data["rows"][i, : data["counts"][i]]
    return data["x"][rows].double(), rows


def inverted(run, weights, names, start):
    """Eq. 4 in a few lines: inputs that the network with these weights calls by these names."""
    net = again(run).module()
    net.load_state_dict(weights)
    x, y = start.clone().requires_grad_(), names.repeat_interleave(QUICK["examples"])
    steps = QUICK["search_steps"]
    optimizer = torch.optim.LBFGS(
        [x], max_iter=steps, max_eval=2 * steps, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        torch.autograd.backward(loss, inputs=[x])
        return loss

    optimizer.step(closure)
    return x.detach(), y


class TestExamples:
    @pytest.mark.parametrize("blind", [False, True], ids=["attack", "floor"])
    def test_they_are_those_of_eq_4_on_the_clients_model_or_on_the_one_it_received(
        self, runs, blind
    ):
        run, attack = runs["two"], build("adversarial_examples")
        view = View(attack.threat, again(run), 2)
        found = (attack.blind if blind else attack.run)(view, torch.Generator().manual_seed(7))
        dice = torch.Generator().manual_seed(7)
        assert len(found) == 5
        for g in found:
            (names,), (received, second), (update, _) = (
                sent(run, k, g.unit) for k in ("labels", "model", "update")
            )
            start = torch.randn(2 * QUICK["examples"], 1, 8, 8, generator=dice, dtype=torch.float64)
            weights = {k: v if blind else v + update[k] for k, v in received.items()}
            x, y = inverted(run, weights, names, start)
            assert torch.allclose(g.tensors["x"], x, atol=1e-9)
            assert torch.equal(g.tensors["y"], y)
            assert not torch.allclose(
                g.tensors["x"], inverted(run, second, names, start)[0], atol=1e-3
            )

    def test_its_dice_are_its_own(self, runs, attacked):
        """Neither the run's seed nor the noise that the server drew."""
        again_ = api.attack(runs["two"], "adversarial_examples", seed=1).path
        one, two = guesses(attacked["two"]), guesses(again_)
        assert all(not torch.equal(one[u].tensors["x"], two[u].tensors["x"]) for u in one)

    def test_more_steps_bring_the_objective_down(self, runs):
        run, at = runs["two"], []
        for steps in (1, 0, 60):  # 0: the method's five
            attack = build("adversarial_examples", steps=steps)
            g = attack.run(View(attack.threat, again(run), 2), torch.Generator().manual_seed(1))[0]
            net = again(run).module()
            net.load_state_dict(
                {
                    k: v + sent(run, "update", g.unit)[0][k]
                    for k, v in sent(run, "model", g.unit)[0].items()
                }
            )
            with torch.no_grad():
                at.append(float(nn.functional.cross_entropy(net(g.tensors["x"]), g.tensors["y"])))
        assert at[0] > at[1] > at[2]

    def test_in_the_control_they_are_the_images(self, runs, attacked):
        exact = {"psnr": 100, "ssim": 1, "mse": 0, "identification": 1, "nearest_psnr": 100}
        assert {m: results(attacked["two"], m)["control"] for m in exact} == pytest.approx(
            exact, abs=1e-9
        )
        for unit, g in guesses(attacked["two"], "control").items():
            held, _ = clients_images(runs["two"], unit)
            assert len(g.tensors["x"]) == 2 * QUICK["examples"]
            assert all(
                bool((held - x).abs().flatten(1).amax(1).min() < 1e-12)
                for x in g.tensors["x"].reshape(-1, 1, 8, 8)
            )

    def test_a_method_that_sends_images_is_read_directly(self, runs, attacked):
        row = results(attacked["images"], "identification")
        assert row["value"] == row["control"] == 1 > row["floor"]
        assert not runs["images"].meta["hides"]
        made = guesses(attacked["images"], "floor")[
            "client/" + min(u.split("/")[1] for u in guesses(attacked["images"]))
        ]
        # Examples for each name, not for each image.
        assert len(made.tensors["x"]) == 2 * QUICK["examples"]

    def test_a_model_that_is_not_finite_fails(self, runs):
        attack = build("adversarial_examples")
        view = View(attack.threat, again(runs["one"]), 2)
        broken = next(m for m in view._seen if m.kind == "update" and m.round == 2)
        broken.payload["head.bias"][0] = float("inf")
        found = {g.unit: g.failed for g in attack.run(view, torch.Generator().manual_seed(0))}
        assert found.pop(broken.sender) == "the client's model is not finite"
        assert set(found.values()) == {""}


class TestMatching:
    def test_more_guesses_than_images_against_all_assignments(self):
        guess, truth = noise(1, 6, 1, 3, 3), noise(2, 4, 1, 3, 3)
        found = image_distances.match(guess, truth).tolist()
        cost = (truth[:, None] - guess[None]).square().flatten(2).sum(2)
        best = min(
            itertools.permutations(range(6), 4), key=lambda p: float(cost[range(4), list(p)].sum())
        )
        assert found == list(best)

    def test_fewer_guesses_or_other_shapes_are_refused(self):
        for guess in (noise(1, 3, 1, 3, 3), noise(1, 4, 1, 3, 4)):
            with pytest.raises(ValueError, match="cannot be matched"):
                image_distances.match(guess, noise(2, 4, 1, 3, 3))

    def test_only_messages_that_say_so_may_hold_more(self):
        x, rows = noise(1, 2, 1, 3, 3), torch.arange(2)
        more = torch.cat([noise(3, 1, 1, 3, 3), x.flip(0)])
        assert torch.equal(Originals(x, rows, ordered=False, spare=True).beside(more, clip=True), x)
        with pytest.raises(ValueError, match="expected 2 guesses, one for each original, got 3"):
            Originals(x, rows, ordered=False).beside(more, clip=True)
        with pytest.raises(
            ValueError, match="expected 2 guesses or more, one for each original, got 1"
        ):
            Originals(x, rows, ordered=False, spare=True).beside(more[:1], clip=True)

    def test_a_unit_is_an_image_that_the_control_sends(self, runs, attacked):
        """Scored by hand: each against the example that the assignment of least squared error gives
        it, in any class.
        """
        found, data = units(attacked["two"], "mse", round=2), Truth(load(runs["two"].path)).data
        for role in ("attack", "floor"):
            scores = units(attacked["two"], "mse", role, 2)
            for unit, g in guesses(attacked["two"], role).items():
                rows = [int(u.rpartition("/")[2]) for u in found if u.rpartition("/")[0] == unit]
                assert len(rows) == 2 * QUICK["examples"]
                true = data["x"][rows].double()
                cost = (
                    (true[:, None] - g.tensors["x"].clamp(0, 1).reshape(1, -1, 1, 8, 8))
                    .square()
                    .flatten(2)
                    .mean(2)
                )
                total = float(cost[linear_sum_assignment(cost.numpy())].sum())
                assert sum(scores[f"{unit}/{r}"] for r in rows) == pytest.approx(total)
        assert set(rows) <= set(clients_images(runs["two"], unit)[1].tolist())

    def test_identification_of_the_blind_guess_is_matched_and_measured(self, runs, attacked):
        """A formula of 1/gallery would be far too low for what was picked for its nearness."""
        truth = Truth(load(runs["two"].path))
        scores = units(attacked["two"], "identification", "floor", 2)
        for g in guesses(attacked["two"], "floor").values():
            true = truth.answer(g).originals(g)
            for row, x, one in zip(
                true.rows.tolist(), true.x, true.beside(g.tensors["x"], clip=True), strict=True
            ):
                gallery, place = truth.answer(g).gallery(row, x)
                far = (gallery - one.clamp(0, 1)).flatten(1).norm(dim=1)
                assert scores[f"{g.unit}/{row}"] == float(far.argmin() == place)
        assert IDENTIFICATION_MATCHED.floor is None

    def test_a_control_of_the_images_themselves_has_no_width(self, attacked):
        row = results(attacked["one"], "identification")
        assert row["control_low"] == row["control_high"] == 1


class TestMetrics:
    def test_the_nearest_pair_is_looked_for_among_all_that_the_client_holds(
        self, runs, attacked, monkeypatch
    ):
        monkeypatch.setattr(examples, "CHUNK", 64 * 7)  # in several parts
        found = units(attacked["two"], "nearest_psnr", round=2)
        for unit, g in guesses(attacked["two"]).items():
            held, _ = clients_images(runs["two"], unit)
            x = g.tensors["x"].clamp(0, 1).reshape(-1, 64)
            least = torch.cdist(x, held.reshape(-1, 64)).square().min() / 64
            assert found[unit] == pytest.approx(float(-10 * least.log10()), abs=1e-6)
            ((score,),) = [NEAREST_PSNR.score(g, Truth(load(runs["two"].path)).answer(g))]
            assert score.value == pytest.approx(found[unit])

    def test_one_reproduced_image_is_enough(self, runs, attacked):
        """Any image of the client's, not one of those that stand for the label; of another client's
        it says nothing.
        """
        truth, g = (
            Truth(load(runs["one"].path)),
            min(guesses(attacked["one"]).values(), key=lambda g: g.unit),
        )
        held, rows = clients_images(runs["one"], g.unit)
        shown = set(truth.answer(g).originals(g).rows.tolist())
        other = next(i for i, r in enumerate(rows.tolist()) if r not in shown)
        hit = replace(
            g, tensors={**g.tensors, "x": torch.cat([g.tensors["x"][1:], held[other][None]])}
        )
        assert NEAREST_PSNR.score(hit, truth.answer(hit))[0].value == 100
        moved = replace(hit, unit=f"client/{(int(g.unit.split('/')[1]) + 1) % 10}")
        assert NEAREST_PSNR.score(moved, truth.answer(moved))[0].value < 40

    def test_recognised_is_the_share_that_the_classifier_calls_what_it_was_made_for(
        self, runs, attacked
    ):
        truth, g = (
            Truth(load(runs["two"].path)),
            min(guesses(attacked["two"]).values(), key=lambda g: g.unit),
        )
        answer = truth.answer(g)
        truth.memo["recogniser"] = lambda x: (
            torch.arange(len(x)) % 2 * 100 + (1 - torch.arange(len(x)) % 2) * g.tensors["y"]
        )
        assert RECOGNISED.score(g, answer)[0].value == 0.5

    def test_the_classifier_knows_digits_that_it_never_saw_and_draws_nothing(self):
        from leakbench.data.sklearn_digits import split

        parts, before = split(), torch.get_rng_state()
        aux, test = parts["aux"], parts["test"]
        whole = (aux[0] * 255).round().to(torch.uint8)
        made = [Recogniser(x, aux[1], clip=UNIT)(test[0]) for x in (aux[0], aux[0], whole)]
        assert float((made[0] == test[1]).double().mean()) > 0.93
        assert torch.equal(made[0], made[1])
        assert float((made[0] == made[2]).double().mean()) > 0.98
        assert torch.equal(torch.get_rng_state(), before)

    def test_the_control_of_recognised_are_real_images(self, attacked):
        row = results(attacked["one"], "recognised")
        assert row["control"] > 0.75 > row["floor"]
        assert row["unit"] == "client"

    def test_the_floor_is_no_class_mean_and_no_flag_says_so(self, runs, tmp_path, attacked):
        recording, attack = (
            again(copied(runs["one"], tmp_path)),
            build("adversarial_examples", seed=5),
        )
        blind = list(guesses(attacked["one"], "floor").values())
        by_hand(
            recording,
            "adversarial_examples",
            attack,
            blind,
            blind,
            list(guesses(attacked["one"], "control").values()),
        )
        row = results(scoring.score(recording, "adversarial_examples", attack), "psnr")
        assert row["value"] == row["floor"]
        assert "below_class_mean" not in row["flags"]

    def test_with_too_few_examples_there_is_no_number(self, runs, tmp_path, attacked):
        recording, attack = (
            again(copied(runs["one"], tmp_path)),
            build("adversarial_examples", seed=5),
        )
        few = [
            replace(g, tensors={**g.tensors, "x": g.tensors["x"][:2]})
            for g in guesses(attacked["one"]).values()
        ]
        by_hand(
            recording,
            "adversarial_examples",
            attack,
            few,
            list(guesses(attacked["one"], "floor").values()),
        )
        folder = scoring.score(recording, "adversarial_examples", attack)
        missing = read_sealed(folder / "attack.json")["missing"]
        assert [m for m in missing if "expected 4 guesses or more" in m["reason"]]


class TestWhereItFits:
    def test_only_methods_that_make_examples(self, tmp_path):
        plain = api.train(
            "fedavg", task="digits", task_params=SMALL, rounds=1, out=tmp_path, device="cpu"
        )
        with pytest.raises(UsageError, match="the method makes no examples of its clients' models"):
            api.attack(plain, "adversarial_examples")

    def test_its_time_is_predicted_and_lpips_is_missing_with_its_reason(self, runs, attacked):
        assert 1 < seconds(build("adversarial_examples"), again(runs["one"])) < 60
        (why,) = read_sealed(attacked["one"] / "attack.json")["missing"]
        assert why["metric"] == "lpips"
        row = results(attacked["one"], "psnr")
        assert (row["rung"], row["knowledge"], row["observer"]) == (
            "paper",
            "method|facts",
            "server",
        )

    def test_it_is_planned_and_shown(self, runs, attacked):
        assert "adversarial_examples" in {c.name for c in choices.planned(again(runs["one"]))}
        kept = Media()
        every = list(pictures.run_pictures(load(runs["one"].path), kept))
        shown = [p for p in every if p.attack == "adversarial_examples"]
        truth = Truth(load(runs["one"].path))
        assert {p.role for p in shown} == {"original", "floor", "control", "attack"}
        for p in shown:
            g = guesses(attacked["one"], "attack" if p.role == "original" else p.role)[
                p.unit.rpartition("/")[0]
            ]
            row, true = int(p.unit.rpartition("/")[2]), truth.answer(g).originals(g)
            at = true.rows.tolist().index(row)
            image = (true.x if p.role == "original" else true.beside(g.tensors["x"], clip=True))[at]
            own = image.reshape(8, 8).clamp(0, 1).numpy()
            assert pixels(kept.images.found, p) == pytest.approx(own, abs=0.5 / 255 + 1e-6)


class TestGradientInversion:
    """Another attack on the same run: FedAA's updates are gradients only where a client takes one
    step (see test_local_steps.py).
    """

    def test_several_epochs_are_no_gradient(self, tmp_path):
        run = trained(tmp_path, second_epochs=2)
        why = choices.Fits().unfit(load(run.path))["gradient_inversion"]
        assert why.startswith("the update is not a single step, so it is no gradient")

    def test_of_single_steps_the_first_trainings_updates_are_inverted(self, tmp_path):
        run = trained(tmp_path, steps=1, epochs=10, batch=2, identifier=False)
        for probe in (False, True):
            threat = build("gradient_inversion").threat
            view = View(threat, again(run), 2)
            every = view.messages("update", round=2, probe=probe)
            phases = sorted({m.phase for m in every})
            assert len(phases) == 2
            chosen = {b.message.name for b in _updates.shortest(view, probe=probe, most=8)}
            assert chosen == {m.name for m in every if m.phase == phases[0]}
        folder = api.attack(
            run,
            "gradient_inversion",
            attacker="naive",
            at=["final"],
            targets=16,
            steps=60,
            restarts=1,
        ).path
        row = results(folder, "psnr")
        assert row["n"] == 10  # two probes of each of five clients
        assert row["low"] > row["floor_high"]
        assert all(isinstance(g, Guess) and not g.failed for g in guesses(folder).values())
