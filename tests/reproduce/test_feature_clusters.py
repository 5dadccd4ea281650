"""FLea's Figure 3: how far classes are apart in local models of many examples and of few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakbench.base.errors import NotMeasured
from leakbench.reproduce import catalogue, feature_clusters

RECIPE = catalogue.find_recipe("flea-figure3")
MANY, FEW, HELPED = "|D| = 5,000", "|D| = 100", "|D| = 100 + 1,000"
SETUP = RECIPE.scales["smoke"].setups[0]


def index(features, labels):
    """Davies and Bouldin's, by a loop over the pairs of classes."""
    classes = np.unique(labels)
    centres = [features[labels == c].mean(0) for c in classes]
    wide = [
        np.linalg.norm(features[labels == c] - m, axis=1).mean()
        for c, m in zip(classes, centres, strict=True)
    ]
    worst = []
    for i in range(len(classes)):
        each = [
            (wide[i] + wide[j]) / np.linalg.norm(centres[i] - centres[j])
            for j in range(len(classes))
            if j != i
        ]
        worst.append(max(each))
    return sum(worst) / len(worst)


@pytest.fixture(scope="module")
def found():
    return {
        case.label: feature_clusters.feature_clusters(SETUP, case.params, 0)
        for case in RECIPE.cases
    }


def test_all_begin_from_one_model(found):
    assert len({f["before"] for f in found.values()}) == 1


def test_few_examples_are_learnt_by_heart(found):
    few, many = found[FEW], found[MANY]
    helped = found[HELPED]
    assert few["own"] < many["own"]
    assert few["gap"] > many["gap"]
    assert few["gap"] > helped["gap"]
    assert all(f["gap"] == pytest.approx(f["test"] - f["own"]) for f in found.values())


def test_the_index_is_that_of_the_common_model_and_another_seed_draws_another(found):
    task = feature_clusters.canonical({**SETUP.task_params, "clients": 10, "split": "iid"})
    given = (dict(SETUP.task_params), feature_clusters.WARM)
    model = feature_clusters._common(SETUP.task, *map(feature_clusters.canonical, given), 0)
    fed, _ = feature_clusters._federation(SETUP.task, task, feature_clusters.WARM, 0, 0)
    with torch.no_grad():
        features = torch.func.functional_call(
            fed.module, dict(model), (fed.data.test.x,), {"stop": "second"}
        )
    stop = feature_clusters._index(fed, model, fed.data.test)
    assert stop == pytest.approx(found[MANY]["before"])
    assert index(features.flatten(1).double().numpy(), fed.data.test.y.numpy()) == pytest.approx(
        stop, rel=1e-5
    )
    assert feature_clusters.feature_clusters(SETUP, {"size": "few"}, 1)["before"] != stop


def test_shared_examples_stand_beside_everybodys_own():
    task = feature_clusters.canonical({**SETUP.task_params, "clients": 100, "split": "iid"})
    bare, _ = feature_clusters._federation(SETUP.task, task, feature_clusters.WARM, 0, 0)
    more, _ = feature_clusters._federation(SETUP.task, task, feature_clusters.WARM, 0, 30)
    assert torch.equal(more.data.counts, bare.data.counts + 30)
    n = int(bare.data.counts[7])
    assert torch.equal(more.data.rows[7, :n], bare.data.rows[7, :n])
    shared = more.data.rows[:, :][7, n : n + 30]
    m = int(bare.data.counts[9])
    assert torch.equal(shared, more.data.rows[9, m : m + 30])


def test_the_rounds_before_have_the_settings_that_are_named(monkeypatch):
    """Steps of nothing leave the model as it was drawn, which never is right in 40 %."""
    monkeypatch.setattr(feature_clusters, "MOST", 3)
    where = replace(SETUP, params={**SETUP.params, "warm": {"lr": 1e-12}})
    with pytest.raises(NotMeasured, match="3 rounds"):
        feature_clusters.feature_clusters(where, {"size": "few"}, 7)
