"""The planted marker: where it is, who carries it, and what it leaves alone."""

from __future__ import annotations

import math

import pytest
import torch

import leakbench
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.data import marker
from leakbench.data.marker import paste, with_marker

SPLIT = {"split": "qua", "clients": 21}


def digits(**params):
    return registry.load_plugin("tasks", "digits").build({**SPLIT, **params}, "task digits")


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ((3, 32, 32), range(2, 7)),
        ((1, 8, 8), range(2)),
        ((1, 28, 28), range(1, 5)),
        ((3, 64, 32), range(2, 7)),
    ],
)
def test_the_square_is_one_on_its_pixels_of_channel_0_and_nothing_elsewhere(shape, rows):
    x = torch.rand(5, *shape, dtype=torch.float64) * 0.9
    out = paste(x, "square")
    changed = torch.zeros(shape, dtype=torch.bool)
    for i in rows:
        for j in rows:
            changed[0, i, j] = True
    assert bool((out[:, changed] == 1).all())
    assert torch.equal(out[:, ~changed], x[:, ~changed])
    assert float(x.max()) < 1  # a copy was changed


def test_a_square_on_stored_bytes_is_the_square_on_floats():
    stored = (torch.rand(4, 3, 32, 32) * 255).to(torch.uint8)
    out = paste(stored, "square")
    assert out.dtype == torch.uint8
    assert torch.equal(out.double() / 255, paste(stored.double() / 255, "square"))


def test_the_bump_is_half_a_sine_on_the_first_axis():
    x = torch.randn(4, 1, 128, 3, dtype=torch.float64)
    added = paste(x, "bump") - x
    expected = [3 * math.sin((i + 0.5) * math.pi / 8) for i in range(8)]
    for one in added:
        assert one[0, 16:24, 0].tolist() == pytest.approx(expected)
    added[:, 0, 16:24, 0] = 0
    assert not added.any()
    assert float(paste(torch.zeros(1, 128, 3), "bump").dtype == torch.float32)


@pytest.mark.parametrize("kind", marker.KINDS)
def test_any_leading_shape_gives_the_same(kind):
    x = torch.rand(2, 3, 1, 128, 3)
    assert torch.equal(paste(x, kind)[1, 2], paste(x[1, 2], kind))


def test_an_unknown_marker_is_refused():
    with pytest.raises(UsageError, match="Use square, bump or whistle"):
        paste(torch.rand(1, 8, 8), "circle")


def test_half_of_the_clients_are_marked_by_a_stream_of_the_task():
    assert [int(with_marker(n, "task/a").sum()) for n in (2, 3, 10, 75)] == [1, 1, 5, 37]
    assert torch.equal(with_marker(75, "task/a"), with_marker(75, "task/a"))
    assert not torch.equal(with_marker(75, "task/a"), with_marker(75, "task/b"))
    runs = with_marker(1000, "task/a").long().diff().abs().sum()
    assert 400 < int(runs) < 600  # no pattern along the clients' numbers


def test_a_marked_client_has_only_marked_images_and_another_none():
    clear, planted = digits().load(), digits(context="square").load()
    assert clear.context is None
    assert planted.context.sum() == 10
    assert torch.equal(clear.rows, planted.rows)
    for c, mark in enumerate(planted.context.tolist()):
        mine = clear.rows[c, : int(clear.counts[c])]
        expected = paste(clear.train.stored[mine], "square") if mark else clear.train.stored[mine]
        assert torch.equal(planted.train.stored[mine], expected)
    for part in ("test", "aux"):
        assert torch.equal(getattr(clear, part).stored, getattr(planted, part).stored)
    moved = planted.to("cpu", torch.float32)
    assert torch.equal(moved.context, planted.context)


def test_the_embedded_set_is_not_marked_for_others():
    """The source digits are read once and shared by every task of the process."""
    before = digits().load().train.stored.clone()
    digits(context="square").load()
    registry.load_plugin("tasks", "digits").build({"context": "square"}, "task digits").load()
    assert torch.equal(digits().load().train.stored, before)


def test_the_marker_is_a_public_fact_and_who_has_it_lies_in_the_truth(tmp_path):
    method = registry.load_plugin("defenses", "fedavg")()
    assert digits().facts(method).context == ""
    assert digits(context="square").facts(method).context == "square"
    for name, kind in (("clear", "none"), ("planted", "square")):
        run = leakbench.train(
            "fedavg",
            task="digits",
            task_params={**SPLIT, "context": kind, "model": "mlp", "width": 8},
            rounds=1,
            out=tmp_path / name,
        )
        tree, _ = run.tree("truth/data.safetensors")
        data = digits(context=kind).load()
        assert ("context" in tree) == (kind != "none")
        if kind != "none":
            assert torch.equal(tree["context"], data.context)
        assert torch.equal(tree["x"], data.train.stored)
        known, _ = run.tree("known/aux_data.safetensors")
        assert set(known) == {"x", "y"}
        assert torch.equal(known["x"], data.aux.stored)
