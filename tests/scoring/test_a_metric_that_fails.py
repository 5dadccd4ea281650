"""A metric that cannot be had is a line in missing.csv: the others stand, and so does the guess."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.small_runs import TASK, again, build, copied, plugged, trained

from leakbench import api
from leakbench.attacking.guessing import folder_of, guess, saved
from leakbench.base.errors import MethodError
from leakbench.base.files import read_sealed
from leakbench.metrics import P_LEAK, PROTOTYPE_COSINE
from leakbench.scoring import score

FAULTS = {
    "runtime": RuntimeError("odd\nshapes"),
    "value": ValueError("odd shapes"),
    "lookup": KeyError("odd"),
    "contract": MethodError("odd"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs"), "fedgn")


def failing(error):
    def measure(found, answer):
        raise error

    meaning = P_LEAK.meaning.model_copy(update={"name": "odd", "rank": 50})
    return replace(P_LEAK, meaning=meaning, score=measure, floor=None)


def scored(run, *metrics):
    recording, attack = again(run), build("prototype_leakage")
    guess(recording, "prototype_leakage", attack)
    odd = type("Odd", (type(attack),), {"metrics": metrics})()
    return score.score(recording, "prototype_leakage", odd)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_others_stand(run, tmp_path, fault):
    folder = scored(copied(run, tmp_path), failing(FAULTS[fault]), P_LEAK, PROTOTYPE_COSINE)
    rows = api.Results(folder).rows
    assert {r["metric"] for r in rows} == {"p_leak", "prototype_cosine"}
    missing = read_sealed(folder / "attack.json")["missing"]
    assert {m["metric"] for m in missing} == {"odd"}
    assert all("odd" in m["reason"] and "\n" not in m["reason"] for m in missing)
    with pytest.raises(MethodError, match="odd"):
        scored(copied(run, tmp_path / "alone"), failing(FAULTS[fault]))


def test_the_guess_is_kept_where_no_metric_is_left(run, tmp_path, monkeypatch):
    there, cls = copied(run, tmp_path), type(build("prototype_leakage"))
    searched = []
    monkeypatch.setattr(cls, "metrics", (failing(RuntimeError("odd")),))
    before = cls.run
    monkeypatch.setattr(cls, "run", lambda *a: searched.append(1) or before(*a))
    with pytest.raises(MethodError, match="odd"):
        api.attack(there, "prototype_leakage")
    folder = folder_of(again(there), "prototype_leakage", build("prototype_leakage"))
    assert len(saved(folder)) > 1
    once = len(searched)
    monkeypatch.setattr(cls, "metrics", (P_LEAK,))
    assert api.attack(there, "prototype_leakage").rows
    assert len(searched) == once  # scored, not searched again


TABLE = '''
"""Rows of standardised features."""

from dataclasses import replace
from typing import ClassVar

from leakbench.models import Stages
from leakbench.tasks.digits import Digits


class TableDigits(Digits):
    """Digits as rows of features, or with two channels."""

    shape: ClassVar = {shape}
    signal: ClassVar[bool] = {signal}

    def load(self):
        data = super().load()
        parts = {{
            name: replace(old, stored={sees})
            for name in ("train", "test", "aux")
            for old in [getattr(data, name)]
        }}
        return replace(data, **parts)
'''
ROWS = TABLE.format(shape=(64,), signal=True, sees="3 * (old.stored.flatten(1) - 0.3)")
SCALED = TABLE.format(shape=(64,), signal=False, sees="old.stored.flatten(1)")
TWO = TABLE.format(
    shape=(2, 32, 32),
    signal=False,
    sees="old.stored.repeat(1, 2, 1, 1).repeat_interleave(4, 2).repeat_interleave(4, 3)",
)
OF_ROWS = {"mse", "features_within", "identification"}


@pytest.mark.parametrize(
    ("source", "has", "lacks"),
    [
        (ROWS, OF_ROWS, {"psnr": "signals or rows", "ssim": "signals", "lpips": "signals"}),
        (SCALED, OF_ROWS, {"psnr": "rows of 64 features", "ssim": "rows of", "lpips": "rows of"}),
        (
            TWO,
            {"mse", "psnr", "ssim", "identification"},
            {"lpips": "1 or 3 channels; these have 2"},
        ),
    ],
    ids=["table", "scaled table", "two channels"],
)
def test_what_fits_no_picture_has_what_fits_it(tmp_path, source, has, lacks):
    with plugged("leakbench.tasks", tmp_path, table_digits=source):
        how = {"task": "table-digits", "task_params": TASK, "device": "cpu", "rounds": 10}
        run = api.train("fedavg", out=tmp_path / "runs", params={"batch": 1}, **how)
        few = {"targets": 2, "steps": 3, "restarts": 1, "at": ["final"], "engine": "signed_adam"}
        found = api.attack(run, "gradient_inversion", **few)
        assert {r["metric"] for r in found.rows} - {"inversion_precision"} == has
        told = read_sealed(found.path / "attack.json")["missing"]
        missing = {m["metric"]: m["reason"] for m in told}
        assert lacks.keys() <= missing.keys()
        for metric, why in lacks.items():
            assert why in missing[metric]
        assert not {"features_within", "mse"} & missing.keys()
