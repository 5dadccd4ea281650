"""FLea's Figure 3: how far classes are apart in local models of many examples and of few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakbench.base.errors import NotMeasured
from leakbench.reproduce import flea_clusters
from leakbench.reproduce.flea_clusters import RECIPE, clusters

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
    return {case.label: clusters(SETUP, case.params, 0) for case in RECIPE.cases}


def test_all_begin_from_one_model(found):
    assert len({f["before"] for f in found.values()}) == 1


def test_few_examples_are_learnt_by_heart(found):
    few, many = found[flea_clusters.FEW], found[flea_clusters.MANY]
    helped = found[flea_clusters.HELPED]
    assert few["own"] < many["own"]
    assert few["gap"] > many["gap"]
    assert few["gap"] > helped["gap"]
    assert all(f["gap"] == pytest.approx(f["test"] - f["own"]) for f in found.values())


def test_the_index_is_that_of_the_common_model_and_another_seed_draws_another(found):
    task = flea_clusters.canonical({**SETUP.task_params, "clients": 10, "split": "iid"})
    given = (dict(SETUP.task_params), flea_clusters.WARM)
    model = flea_clusters._common(SETUP.task, *map(flea_clusters.canonical, given), 0)
    fed, _ = flea_clusters._federation(SETUP.task, task, flea_clusters.WARM, 0, 0)
    with torch.no_grad():
        features = torch.func.functional_call(
            fed.module, dict(model), (fed.data.test.x,), {"stop": "second"}
        )
    stop = flea_clusters._index(fed, model, fed.data.test)
    assert stop == pytest.approx(found[flea_clusters.MANY]["before"])
    assert index(features.flatten(1).double().numpy(), fed.data.test.y.numpy()) == pytest.approx(
        stop, rel=1e-5
    )
    assert clusters(SETUP, {"size": "few"}, 1)["before"] != stop


def test_shared_examples_stand_beside_everybodys_own():
    task = flea_clusters.canonical({**SETUP.task_params, "clients": 100, "split": "iid"})
    bare, _ = flea_clusters._federation(SETUP.task, task, flea_clusters.WARM, 0, 0)
    more, _ = flea_clusters._federation(SETUP.task, task, flea_clusters.WARM, 0, 30)
    assert torch.equal(more.data.counts, bare.data.counts + 30)
    n = int(bare.data.counts[7])
    assert torch.equal(more.data.rows[7, :n], bare.data.rows[7, :n])
    shared = more.data.rows[:, :][7, n : n + 30]
    m = int(bare.data.counts[9])
    assert torch.equal(shared, more.data.rows[9, m : m + 30])


def test_the_rounds_before_have_the_settings_that_are_named(monkeypatch):
    """Steps of nothing leave the model as it was drawn, which never is right in 40 %."""
    monkeypatch.setattr(flea_clusters, "MOST", 3)
    where = replace(SETUP, params={**SETUP.params, "warm": {"lr": 1e-12}})
    with pytest.raises(NotMeasured, match="3 rounds"):
        clusters(where, {"size": "few"}, 7)
