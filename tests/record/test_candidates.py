"""Members and others of whom membership is asked: alike in all but that."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.small_runs import trained

from leakbench import UsageError
from leakbench.base.errors import NotMeasured
from leakbench.federation.task_data import Examples, marks
from leakbench.metrics.membership import CHANCE, told_by_inputs
from leakbench.record.candidates import drawn, without
from leakbench.record.knowledge import FILES
from leakbench.tasks.digits import Digits

SPLITS = [{}, {"split": "iid"}, {"split": "dir", "split_param": 0.5}, {"context": "square"}]


@pytest.mark.parametrize("params", SPLITS)
def test_a_client_has_as_many_others_of_each_class_as_members(params):
    data = Digits(**params).load()
    found, row = drawn(data, 3)
    member = row >= 0
    assert int(member.sum()) == int((~member).sum()) > 100
    for c in range(10):
        own = found.client == c
        classes = [found.y[own & is_so].bincount(minlength=10) for is_so in (member, ~member)]
        assert torch.equal(*classes)
    mine = [set(data.rows[c, :n].tolist()) for c, n in enumerate(data.sizes)]
    said = zip(row[member].tolist(), found.client[member].tolist(), strict=True)
    assert all(r in mine[c] for r, c in said)
    assert torch.equal(found.stored[member], data.train.stored[row[member]])


@pytest.mark.parametrize("params", [*SPLITS, {"held_out": 20}])
def test_no_other_was_trained_on_and_nobody_is_granted_one(params):
    data = Digits(**params).load()
    found, row = drawn(data, 3)
    trained_on = torch.cat([data.rows[c, :n] for c, n in enumerate(data.sizes)])
    others = found.marks[row < 0]
    assert not torch.isin(others, data.train.marks[trained_on]).any()
    left = without(data.aux, found)
    assert not torch.isin(left.marks, found.marks).any()
    assert len(left) >= len(data.aux) // 2


def test_seeds_draw_others_and_the_same_seed_the_same():
    data = Digits().load()
    (a, rows), (b, again), (c, _) = (drawn(data, seed) for seed in (1, 1, 2))
    assert torch.equal(a.stored, b.stored)
    assert torch.equal(rows, again)
    assert not torch.equal(a.marks, c.marks)


def test_what_a_client_holds_out_is_no_part_of_its_training():
    whole, some = Digits(split="iid").load(), Digits(split="iid", held_out=30).load()
    for c in range(10):
        rest = some.rows[c, : some.sizes[c]]
        both = torch.cat([rest, some.held_out[c]]).sort().values
        assert torch.equal(both, whole.rows[c, : whole.sizes[c]])
    found, row = drawn(some, 1)
    held = marks(some.train.stored[some.held_out.flatten()])
    assert torch.isin(found.marks[row < 0], held).all()


def test_more_than_a_client_has_cannot_be_held_out():
    with pytest.raises(UsageError, match="use at most 102"):
        Digits(held_out=110).load()


def test_without_a_class_in_common_there_are_none():
    data = Digits().load()
    strangers = replace(data.aux, y=torch.full_like(data.aux.y, 99))
    assert drawn(replace(data, aux=strangers), 0) is None


WHOSE = torch.arange(200) // 20
MEMBER = torch.arange(200) % 2 == 0


def thrown(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def a_column_that_tells():
    """Beside forty that vary a hundred times as much."""
    x = 100 * thrown(200, 41)
    x[:, 0] = MEMBER.double() + thrown(200) / 10
    return x


def sites():
    """Clients that differ by nature: members look as the site does, others as all sites do."""
    shift = 2 * thrown(10, 12)
    other = shift[(7 * torch.arange(200)) % 10]
    return thrown(200, 12) + torch.where(MEMBER[:, None], shift[WHOSE], other)


def marked():
    x = thrown(200, 1, 8, 8).abs()
    x[MEMBER, :, :2, :2] = 3.0
    return x


@pytest.mark.parametrize("made", [a_column_that_tells, sites, marked])
def test_inputs_that_tell_are_refused(made):
    found, chance = told_by_inputs(made(), MEMBER, WHOSE)
    assert chance < 1e-3
    assert found > 0.6


def test_inputs_that_do_not_tell_are_not_refused():
    chances = [told_by_inputs(thrown(200, 12), MEMBER, WHOSE)[1]]
    for seed in range(3):
        found, row = drawn(Digits().load(), seed)
        chances.append(told_by_inputs(found.x, row >= 0, found.client)[1])
    assert min(chances) > 0.001


def test_where_both_are_stored_otherwise_there_are_none():
    """The last digit of a number would tell."""
    data = Digits().load()
    other = replace(data.aux, stored=data.aux.x.float())
    assert other.stored.dtype != data.train.stored.dtype
    assert drawn(replace(data, aux=other), 0) is None


def test_of_too_few_nobody_can_tell():
    with pytest.raises(NotMeasured, match="there are 4 members"):
        told_by_inputs(thrown(8, 3), MEMBER[:8], WHOSE[:8])


def test_labels_that_are_wrong_of_members_alone_tell_them():
    """Whoever has an example and its class needs no message then."""
    some, row = drawn(Digits(split="iid", held_out=20).load(), 0)
    dice = torch.Generator().manual_seed(0)
    wrong = (row >= 0) & (torch.rand(len(row), generator=dice) < 0.5)
    y = torch.where(wrong, (some.y + 1) % 10, some.y)
    told = [told_by_inputs(some.x, row >= 0, some.client, c)[1] for c in (some.y, y)]
    assert told[0] > CHANCE > told[1]
    for params in SPLITS[:3]:
        some, row = drawn(Digits(**params).load(), 1)
        assert told_by_inputs(some.x, row >= 0, some.client, some.y)[1] > CHANCE


def test_a_run_keeps_them_where_attackers_are_granted_them(tmp_path):
    run = trained(tmp_path, rounds=1, seed=5)
    asked = Examples.of(run.tree(FILES["candidates"])[0])
    member = run.tree("truth/data.safetensors")[0]["member"]
    assert len(asked) == len(member)
    assert "member" not in run.tree(FILES["candidates"])[0]
