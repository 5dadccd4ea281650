"""Augmented, 8-bit and large data: what a step sees is the same for every engine, in the record and
in a second look.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.federations import digits, gap, method, run, uneven
from helpers.small_runs import trained

from leakbench.base.errors import NotMeasured
from leakbench.federation import fused as one_step
from leakbench.federation.batches import batch_plan
from leakbench.federation.federation import Federation
from leakbench.federation.task_data import Examples
from leakbench.record import private_data
from leakbench.record.folders import load
from leakbench.scoring.truth import Truth
from leakbench.tasks.digits import Digits


class Faded(Digits):
    """Digits of which each image is darkened by a factor of its own."""

    def augment(self, x, rng):
        return x * rng.uniform("factor", x.shape[-4])[..., None, None, None]


@pytest.fixture(scope="module")
def faded():
    return Faded.build(digits().parameters(), "faded")


def federation(task, engine, name="fedhide", data=None, **params):
    return Federation(
        method(name, **params),
        task,
        data or task.load(),
        seed=1,
        engine=engine,
        dtype=torch.float64,
    )


def step_plan(task, data, chosen=(2, 5), **more):
    how = {
        "seed": 1,
        "round": 3,
        "phase": 2,
        "batch": 4,
        "steps": 2,
        "epochs": 0,
        "augment": task.augment,
    } | more
    return batch_plan(data, chosen, **how)


@pytest.mark.parametrize("group", [2**18, 16 * 64 * 3, 1])
def test_augmented_rounds_are_the_same_in_both_engines_and_in_groups_of_any_size(
    faded, group, monkeypatch
):
    loop = run(federation(faded, "loop"), 3)
    monkeypatch.setattr(one_step, "GROUP", group)
    fused = run(federation(faded, "fused"), 3)
    assert fused.phases["loss"] == "fused"
    assert gap(loop, fused) < 1e-12
    plain = run(federation(digits(), "loop"), 3)
    assert gap(loop, plain) > 1e-6  # augmentation did change what was learnt


def test_groups_hold_weighted_averaging_and_uneven_clients(faded, monkeypatch):
    data = uneven(faded.load(), [20 + c for c in range(10)])
    loop = run(federation(faded, "loop", data=data, average="weighted"), 3)
    monkeypatch.setattr(one_step, "GROUP", 16 * 64 * 4)
    assert gap(loop, run(federation(faded, "fused", data=data, average="weighted"), 3)) < 1e-12


def test_each_client_step_and_image_has_a_draw_of_its_own(faded):
    data = faded.load()
    todo = step_plan(faded, data)
    seen = [
        b.x / data.train.images(r).clamp(min=1e-9)
        for j in (0, 1)
        for b, r in zip(todo.batches(data, j), todo.rows(j), strict=True)
    ]
    factors = torch.stack([f.flatten(2).max(-1).values.flatten() for f in seen])
    assert len({round(float(v), 12) for v in factors.flatten()}) == factors.numel() == 16


def test_a_second_look_and_a_look_at_all_clients_show_the_same_images(faded):
    data = faded.load()
    one, two = step_plan(faded, data), step_plan(faded, data)
    assert torch.equal(one.batches(data, 1)[1].x, two.batches(data, 1)[1].x)
    together = one.first(data)
    for j in (0, 1):
        assert torch.equal(together.x[j], one.batches(data, j)[0].x)
        assert torch.equal(together.y[j], one.batches(data, j)[0].y)
    assert torch.equal(one.first(data, slice(1, 2)).x[0], together.x[1])


def test_the_draws_of_other_rounds_and_seeds_differ(faded):
    data = faded.load()
    base = step_plan(faded, data).batches(data, 0)[0]
    for change in ({"round": 4}, {"seed": 2}, {"phase": 3}):
        other = step_plan(faded, data, **change).batches(data, 0)[0]
        assert not torch.equal(other.x, base.x)


def test_bytes_stay_bytes_and_stand_for_zero_to_one():
    stored = torch.tensor([[0, 51], [102, 255]], dtype=torch.uint8)
    some = Examples(stored, torch.tensor([0, 1])).to("cpu", torch.float32)
    assert some.stored.dtype == torch.uint8
    assert some.x.dtype == torch.float32
    assert some.x.flatten().tolist() == pytest.approx([0, 0.2, 0.4, 1])
    assert torch.equal(some.images(torch.tensor([[1], [0]])), some.x[torch.tensor([[1], [0]])])


def test_bytes_and_floats_train_alike():
    task = digits()
    data = task.load()
    stored = (data.train.x * 255).round().to(torch.uint8)
    coarse = Examples(stored.double() / 255, data.train.y)
    a = federation(task, "fused", data=replace(data, train=coarse))
    b = federation(task, "fused", data=replace(data, train=Examples(stored, data.train.y)))
    assert gap(run(a, 3), run(b, 3)) == 0


def test_a_large_set_is_not_copied_into_the_run_but_found_again(tmp_path, monkeypatch):
    small = trained(tmp_path / "small")
    monkeypatch.setattr(private_data, "LARGEST", 1000)
    run_ = trained(tmp_path / "large")
    assert "x" in Truth(small).data
    assert "x" not in Truth(run_).data
    rows = torch.tensor([5, 700, 3])
    assert torch.equal(Truth(run_).images(rows), Truth(small).images(rows))


def test_images_of_another_set_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(private_data, "LARGEST", 1000)
    truth = Truth(trained(tmp_path))
    train, _ = private_data._train.__wrapped__(
        "digits", private_data.canonical(truth.run.spec["task"]["params"])
    )
    monkeypatch.setattr(private_data, "_train", lambda *_: (train, "another"))
    with pytest.raises(NotMeasured, match="not those that the run was trained on"):
        truth.images(torch.tensor([0]))


def test_the_record_holds_what_the_steps_saw(faded, tmp_path, monkeypatch):
    from leakbench.base import registry

    real = registry.load_plugin
    monkeypatch.setattr(
        registry,
        "load_plugin",
        lambda kind, name: Faded if (kind, name) == ("tasks", "digits") else real(kind, name),
    )
    done = trained(tmp_path, "fedavg", 4, dtype="float64")
    truth = Truth(load(done.path))
    entry = next(e for p in truth.round(1)["client"].values() for e in p.values() if "x" in e)
    plain = truth.images(entry["rows"])
    factor = (entry["x"] / plain.clamp(min=1e-9)).flatten(1).max(1).values
    assert torch.allclose(entry["x"], plain * factor[:, None, None, None])
    assert len(set(factor.tolist())) == len(factor)
