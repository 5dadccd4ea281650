"""Accuracy and AUROC as scores of test units: their means are the metrics, their spread is the
metrics' spread.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.federations import federation, first_digits, method, run, uneven
from helpers.run_folders import edited
from helpers.small_runs import trained
from sklearn.metrics import roc_auc_score

from leakbench import api
from leakbench.base.errors import MethodError, UsageError
from leakbench.base.tree import row
from leakbench.federation import evaluate
from leakbench.federation.evaluate import diagnose, global_loss, utility_scores
from leakbench.federation.task_data import Examples
from leakbench.federation.utility import METRICS
from leakbench.record import columns, rounds
from leakbench.verifying import final

ACCURACY, AUROC = METRICS["accuracy"], METRICS["auroc"]


def drawn(n=200, k=4, seed=0, signal=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    fits = rng.normal(size=(n, k)) + signal * np.eye(k)[y]
    return torch.tensor(fits), torch.tensor(y)[:, None] == torch.arange(k)


def sklearns(fits, right):
    return float(np.mean([roc_auc_score(right[:, k], fits[:, k]) for k in range(right.shape[1])]))


def test_accuracy_shares_ties_and_counts_the_best_class():
    fits = torch.tensor([[0.9, 0.1, 0.0], [0.5, 0.5, 0.0], [0.0, 0.2, 0.1], [1.0, 1.0, 1.0]])
    right = torch.tensor([0, 1, 2, 0])[:, None] == torch.arange(3)
    assert ACCURACY.score(fits, right).tolist() == pytest.approx([1, 0.5, 0, 1 / 3])


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_of_the_scores_is_sklearns_auroc(seed):
    fits, right = drawn(seed=seed)
    assert float(AUROC.score(fits, right).mean()) == pytest.approx(sklearns(fits, right), abs=1e-12)


def test_auroc_counts_ties_half():
    fits, right = drawn(seed=3)
    coarse = fits.round()
    assert float(AUROC.score(coarse, right).mean()) == pytest.approx(
        sklearns(coarse, right), abs=1e-12
    )
    flat = torch.zeros(6, 2)
    y = torch.tensor([0, 0, 1, 1, 1, 1])[:, None] == torch.arange(2)
    assert float(AUROC.score(flat, y).mean()) == 0.5


def test_auroc_by_hand():
    # Class 0: positives .9 .4, negatives .5 .1 -> 3 of 4 pairs. Class 1: positives .5 .1, negatives
    # .2 .3 -> 2 of 4.
    fits = torch.tensor([[0.9, 0.2], [0.4, 0.3], [0.5, 0.5], [0.1, 0.1]])
    right = torch.tensor([0, 0, 1, 1])[:, None] == torch.arange(2)
    assert float(AUROC.score(fits, right).mean()) == pytest.approx((3 / 4 + 2 / 4) / 2)


def test_a_class_without_test_examples_is_left_out():
    fits, right = drawn(k=3)
    more = torch.cat([fits, torch.zeros(len(fits), 1)], 1)
    assert float(
        AUROC.score(more, torch.cat([right, torch.zeros(len(fits), 1, dtype=torch.bool)], 1)).mean()
    ) == pytest.approx(float(AUROC.score(fits, right).mean()))


def test_auroc_of_one_class_alone_is_one_sentence():
    with pytest.raises(UsageError, match="all are of one"):
        AUROC.score(torch.rand(5, 3), torch.zeros(5)[:, None] == torch.arange(3))


def test_the_interval_is_delongs_for_one_curve():
    """Against DeLong's variance worked out from all pairs."""
    rng = np.random.default_rng(1)
    positive, negative = rng.normal(0.8, 1, 60), rng.normal(0, 1, 90)
    above = (positive[:, None] > negative) * 1.0
    area = above.mean()
    variance = above.mean(1).var(ddof=1) / 60 + above.mean(0).var(ddof=1) / 90
    fits = torch.tensor(np.concatenate([positive, negative]))[:, None]
    right = torch.tensor([[True]] * 60 + [[False]] * 90)
    found = AUROC.estimate(AUROC.score(fits, right).tolist())
    assert found.value == pytest.approx(area)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * math.sqrt(variance), rel=0.03)


@pytest.mark.slow
def test_the_interval_covers_the_true_area():
    """Two normal classes one apart: the area is Phi(1/sqrt 2) for each."""
    truth = 0.5 * (1 + math.erf(0.5))
    hits = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        y = np.repeat([0, 1], [40, 60])
        x = rng.normal(size=100) + y
        fits = torch.tensor(np.stack([-x, x], 1))
        e = AUROC.estimate(AUROC.score(fits, torch.tensor(y)[:, None] == torch.arange(2)).tolist())
        hits += e.low <= truth <= e.high
    assert 0.92 <= hits / 400 <= 0.98


def test_a_perfect_curve_still_has_a_width():
    right = torch.tensor([0] * 20 + [1] * 20)[:, None] == torch.arange(2)
    e = AUROC.estimate(AUROC.score(right.double(), right).tolist())
    assert e.value == 1
    assert e.low < 0.95
    assert e.high == 1


def test_intervals_stay_in_zero_to_one_and_hold_their_value():
    for n in (8, 12, 30):
        for seed in range(10):
            fits, right = drawn(n=n, k=2, seed=seed, signal=3.0)
            if not bool(right.any(0).all()):
                continue
            e = AUROC.estimate(AUROC.score(fits, right).tolist())
            assert 0 <= e.low <= e.value <= e.high <= 1


def test_over_seeds_units_are_averaged_first_and_the_spread_between_seeds_counts():
    near = {s: AUROC.score(*drawn(seed=s, signal=1.0)).tolist() for s in (0, 1)}
    e = AUROC.pooled(near)
    assert e.value == pytest.approx(np.mean([np.mean(v) for v in near.values()]))
    assert e.n == 200
    fits, right = drawn(seed=0)
    apart = {
        s: AUROC.score(fits + f * right, right).tolist() for s, f in enumerate((0.0, 0.5, 3.0))
    }
    wide = AUROC.pooled(apart)
    assert wide.high - wide.low > 3 * (e.high - e.low)


def test_over_seeds_a_units_influence_is_not_clipped_but_a_share_is():
    """A unit of AUROC is the area plus its influence, which lies beyond [0, 1]."""
    near = {s: [1.4, 0.2, 0.8, 0.9 + 0.01 * s] for s in (0, 1)}
    assert AUROC.pooled(near).value == pytest.approx(np.mean([np.mean(v) for v in near.values()]))
    over = {s: [1.0 + 1e-12, 1.0, 0.0, 1.0] for s in (0, 1)}
    assert ACCURACY.pooled(over).value == 0.75


def test_the_best_constant_answer_is_the_most_frequent_class():
    y = torch.tensor([0, 1, 1, 2, 1, 0])
    found = ACCURACY.untaught(SimpleNamespace(test=Examples(torch.zeros(6, 1), y)))
    assert found == {"constant": 0.5}
    every = [torch.eye(3)[k].expand(6, 3) for k in range(3)]
    right = y[:, None] == torch.arange(3)
    assert max(float(ACCURACY.score(one, right).mean()) for one in every) == found["constant"]


def test_a_run_says_what_there_is_without_training_and_verify_derives_it(tmp_path):
    """A forger who lowers it, so that a dead run lives, is noticed."""
    made = trained(tmp_path, rounds=3)
    said = made.meta["utility"]["untaught"]
    fed = final.federation(made)
    assert said["untrained"] == pytest.approx(float(utility_scores(fed).mean()), abs=1e-6)
    edited(made.path / "run.json", lambda m: m["utility"]["untaught"].update(untrained=0.0))
    wrong = [f for f in api.verify(made.path) if f.outcome == "differs"]
    assert [(f.part, f.what) for f in wrong] == [("run.json", "utility")]


@pytest.mark.parametrize("name", ["fedhide", "fedavg"])
def test_a_federation_is_scored_by_the_tasks_metric(name):
    fed = run(federation(name), 3)
    right = fed.data.test.y[:, None] == torch.arange(10)
    one = fed.outside(
        {
            k: (
                v
                if k == "inbox"
                else v[0]
                if not isinstance(v, dict)
                else {n: t[0] for n, t in v.items()}
            )
            for k, v in fed.tables().items()
        }
    )
    if name == "fedhide":
        w = fed.columns["own"]["prototype"]
        fits = (
            torch.nn.functional.normalize(one.net(fed.data.test.x), dim=-1)
            @ torch.nn.functional.normalize(w, dim=-1).T
        )
    else:
        fits = one.net(fed.data.test.x).log_softmax(-1)
    fed.task = fed.task.model_copy(update={"utility": "auroc"})
    assert float(utility_scores(fed).mean()) == pytest.approx(
        sklearns(fits.detach(), right), abs=1e-12
    )
    fed.task = fed.task.model_copy(update={"utility": "accuracy"})
    assert float(utility_scores(fed).mean()) == pytest.approx(
        float((fits.argmax(1) == fed.data.test.y).double().mean()), abs=1e-12
    )


def test_test_images_taken_some_at_a_time_give_the_same(monkeypatch):
    from leakbench.federation import evaluate

    fed = run(federation(method("fedhide")), 2)
    whole = utility_scores(fed)
    monkeypatch.setattr(evaluate, "CHUNK", 7)
    assert torch.equal(utility_scores(fed), whole)


def test_whole_networks_of_ones_own_are_asked_one_by_one_with_the_same_answers(monkeypatch):
    """Vectorised over ten networks a convolution is several times slower; a shared network is still
    asked at once.
    """
    from leakbench.base import registry
    from leakbench.federation import evaluate
    from leakbench.federation.federation import Federation

    task = registry.load_plugin("tasks", "digits").build(
        {"model": "resnet8", "width": 4, "dim": 8}, "task digits"
    )
    own = registry.load_plugin("defenses", "deepsvdd").build(
        {"lr": 0.05, "batch": 4}, "defense deepsvdd"
    )
    private = run(Federation(own, task, task.load(), seed=1, dtype=torch.float64), 1)
    shared = run(federation("fedhide"), 1)
    assert not torch.equal(*private.columns["kept"]["stem.0.weight"][:2])
    calls, at_once = [], evaluate.each_row

    def told(f, tree):
        calls.append(f)
        return at_once(f, tree)

    monkeypatch.setattr(evaluate, "each_row", told)
    for fed, times in ((private, 0), (shared, 1)):
        x, each = fed.data.test.images(torch.arange(20)), fed.tables()

        def ask(e, fed=fed, x=x):
            me = fed.outside(e)
            return fed.method.predict(me.net, x, me)

        calls.clear()
        found = evaluate._over_clients(fed, ask, each)
        assert len(calls) == times
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, at_once(ask, each), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["fedavg", "fedproto", "fedaws"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_no_number_has_no_utility(monkeypatch, name, wrong):
    """A metric would make one of it that passes for measured: AUROC 0, an EER that is better."""
    fed = run(federation(name), 1)
    right = type(fed.method).predict

    def predict(self, net, x, me):
        found = right(self, net, x, me)
        return found + torch.zeros_like(found).index_fill(0, torch.tensor([0]), wrong)

    monkeypatch.setattr(type(fed.method), "predict", predict)
    with pytest.raises(MethodError, match="of a test input is not a number"):
        utility_scores(fed)


def test_a_class_may_be_ruled_out(monkeypatch):
    fed = run(federation("fedavg"), 1)
    right = type(fed.method).predict

    def predict(self, net, x, me):
        return right(self, net, x, me).index_fill(1, torch.tensor([0]), -torch.inf)

    monkeypatch.setattr(type(fed.method), "predict", predict)
    assert bool(utility_scores(fed).isfinite().all())


def test_what_clients_keep_has_to_be_finite():
    """Of bounded activations the answers are finite though the weights are not."""
    fed = run(federation("fedproto"), 1)
    held = fed.columns["kept"]
    name = next(iter(held))
    fed.columns["kept"] = {**held, name: torch.full_like(held[name], math.inf)}
    fed.outside = None  # nothing is asked of them
    with pytest.raises(MethodError, match="keep of it is not finite"):
        rounds.measure(fed, _Nothing())


class _Nothing:
    diagnostics = ()

    def add(self, fed):
        pass


def test_fits_to_a_client_are_refused_where_clients_have_several_classes():
    from dataclasses import replace

    fed = federation("fedhide")
    fed.data = replace(fed.data, client_class=torch.full_like(fed.data.client_class, -1))
    with pytest.raises(MethodError, match="several classes"):
        utility_scores(fed)


def test_a_run_on_auroc_is_reported_as_such(tmp_path):
    small = {"model": "mlp", "width": 8, "dim": 8, "utility": "auroc"}
    runs = [trained(tmp_path, "fedhide", 10, task_params=small, seed=s) for s in (0, 1, 2)]
    meaning = AUROC.meaning.parameters()
    said = {"metric": "auroc", "better": "up", "chance": 0.5, "meaning": meaning}
    told = runs[0].meta["utility"]
    assert {**told, "untaught": {}} == {**said, "untaught": {}}
    assert 0 < told["untaught"]["untrained"] < 1
    api.attack(runs[0], "prototype_leakage", device="cpu")
    from leakbench.record.folders import read_table

    table = read_table(
        api.report(runs, tmp_path / "report", formats=("csv",)) / "utility.csv", columns.UTILITY
    )
    final = next(r for r in table if r["statistic"] == "final")
    values = [r.table("utility.csv", columns.RUN_UTILITY)[-1]["value"] for r in runs]
    assert (final["metric"], final["chance"], final["n"]) == ("auroc", 0.5, 400)
    assert final["value"] == pytest.approx(np.mean(values), abs=1e-6)
    assert 0 <= final["low"] <= min(values) <= max(values) <= final["high"] <= 1


def by_hand(fed, client, places):
    """Mean cross-entropy of what one client would answer about some of its own examples."""
    me = fed.outside(row(fed.tables(), client))
    mine = fed.data.rows[client][places]
    chances = me.net(fed.data.train.images(mine)).softmax(-1)
    return -chances[torch.arange(len(mine)), fed.data.train.y[mine]].log().mean().item()


class TestGlobalLoss:
    def test_every_client_counts_alike_and_with_its_own_examples(self, monkeypatch):
        fed = run(federation("fedavg", data=uneven(first_digits(3)[1], (7, 30, 12)), clients=3), 2)
        whole = [by_hand(fed, c, slice(n)) for c, n in enumerate((7, 30, 12))]
        assert global_loss(fed) == pytest.approx(sum(whole) / 3, rel=1e-12)
        monkeypatch.setattr(evaluate, "EXAMPLES", 12)
        places = ([0, 1, 3, 5], [0, 7, 15, 22], [0, 3, 6, 9])  # of each four, evenly spaced
        some = [by_hand(fed, c, list(p)) for c, p in enumerate(places)]
        assert global_loss(fed) == pytest.approx(sum(some) / 3, rel=1e-12)
        monkeypatch.setattr(evaluate, "EXAMPLES", 2)
        first = [by_hand(fed, c, [0]) for c in (0, 1)]
        assert global_loss(fed) == pytest.approx(sum(first) / 2, rel=1e-12)

    @pytest.mark.parametrize("name", ["fedbn", "fedavg"])
    def test_one_model_for_all_in_parts_or_one_each(self, name, monkeypatch):
        monkeypatch.setattr(evaluate, "CHUNK", 9)
        fed = run(federation(name, data=uneven(first_digits(3)[1], (7, 30, 12)), clients=3), 1)
        whole = [by_hand(fed, c, slice(n)) for c, n in enumerate((7, 30, 12))]
        assert global_loss(fed) == pytest.approx(sum(whole) / 3, rel=1e-12)

    def test_it_is_not_what_a_method_minimises(self):
        fed = federation("fedprox", clients=3, mu=10.0, steps=2)
        fed.begin()
        fed.step()
        bare = [by_hand(fed, c, slice(n)) for c, n in enumerate(fed.data.sizes)]
        assert global_loss(fed) == pytest.approx(sum(bare) / 3, rel=1e-12)
        assert diagnose(fed)["global_loss"] == global_loss(fed) != diagnose(fed)["loss"]

    @pytest.mark.parametrize("name", ["fedhide", "fedproto"])
    def test_there_is_none_without_logits(self, name):
        fed = run(federation(name), 1)
        assert global_loss(fed) is None
        assert "global_loss" not in diagnose(fed)
