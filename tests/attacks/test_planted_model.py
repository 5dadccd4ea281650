"""What a server reads of the model that it planted: images, exactly, where they lie alone."""

from __future__ import annotations

import csv

import pytest

from leakbench import api
from leakbench.base.errors import UsageError

SGD = {"optimizer": "sgd", "steps": 1, "epochs": 0, "lr": 0.1, "fraction": 1.0}


def read(out, way, *, batch=8, model="mlp_relu", wrappers=(), rounds=1, params=SGD, **how):
    run = api.train(
        "fedavg",
        params={**params, "batch": batch},
        task_params={"model": model, "width": 64, "split": "iid", "evaluations": 10},
        rounds=rounds,
        wrappers=[("active_server", {"way": way, **how}), *wrappers],
        out=out,
    )
    rows = {r["metric"]: r for r in api.attack(run, "planted_model").rows}
    (folder,) = (run.path / "attacks").glob("planted_model-*")
    with (folder / "units.csv").open() as file:
        units = [u for u in csv.DictReader(file) if u["metric"] == "psnr"]
    return rows, [float(u["score"]) for u in units if u["role"] == "attack"]


@pytest.mark.parametrize("model", ["mlp_relu", "mlp"])
@pytest.mark.parametrize("way", ["imprint", "trap"])
def test_images_of_a_batch_are_read(way, model, tmp_path):
    rows, units = read(tmp_path, way, model=model, share=0.1)
    exact = sum(u > 40 for u in units) / len(units)
    assert exact > 0.25
    assert rows["psnr"]["low"] > rows["psnr"]["floor_high"]
    assert rows["identification"]["value"] > 3 * rows["identification"]["floor"]
    assert rows["psnr"]["rung"] == "public"


@pytest.mark.parametrize("way", ["class", "feature"])
def test_one_of_the_fished_class_is_read(way, tmp_path):
    rows, units = read(tmp_path, way, label=3, share=0.9)
    assert max(units) > 60
    assert rows["psnr"]["failed"] < rows["psnr"]["n"]


def test_through_a_sum_the_one_who_was_aimed_at_is_read(tmp_path):
    sums = [("secure_sum", {})]
    rows, units = read(tmp_path, "imprint", wrappers=sums, clients=[3])
    assert sum(u > 40 for u in units) >= len(units) / 2
    assert rows["psnr"]["n"] == 8


def test_a_sum_over_several_is_read_where_each_has_units_of_its_own(tmp_path):
    sums = [("secure_sum", {})]
    rows, units = read(tmp_path, "imprint", wrappers=sums, clients=[3, 5, 6], apart=True, batch=4)
    assert rows["psnr"]["n"] == len(units) == 12
    assert sum(u > 40 for u in units) >= len(units) / 2


@pytest.mark.parametrize("how", [{}, {"clients": [3], "others": "honest"}, {"clients": [3, 4]}])
def test_a_sum_of_several_tells_nobody_apart(how, tmp_path):
    with pytest.raises((UsageError, KeyError), match=r"no owner|psnr|was kept"):
        read(tmp_path, "imprint", wrappers=[("secure_sum", {})], **how)["psnr"]


def test_numbers_that_were_not_sent_are_no_black_pixels(tmp_path):
    """With zeros in their places all images are about as far off as the blind guess."""
    sparse = [("top_k", {"share": 0.2})]
    rows, units = read(tmp_path, "imprint", wrappers=sparse, clients=[3], batch=4)
    assert rows["psnr"]["value"] > rows["psnr"]["floor"] + 4
    assert max(units) > 18


def test_over_several_steps_it_is_read_alike(tmp_path):
    _, units = read(tmp_path, "imprint", batch=4, params={**SGD, "steps": 2})
    assert sum(u > 30 for u in units) >= len(units) / 4


def test_where_the_server_was_honest_it_refuses(tmp_path):
    with pytest.raises(UsageError, match="the server kept to its method"):
        read(tmp_path, "none")


def test_rows_of_adam_are_no_quotients(tmp_path):
    with pytest.raises(UsageError, match="steps of Adam"):
        read(tmp_path, "imprint", params={**SGD, "optimizer": "adam"})


def test_behind_convolutions_the_fished_class_is_searched(tmp_path):
    _, units = read(tmp_path, "class", label=3, model="lenet", batch=4)
    assert max(units) > 40
