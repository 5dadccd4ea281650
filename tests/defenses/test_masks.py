"""Wrappers that leave numbers out: what is sent, what is pruned, and that the record says so."""

from __future__ import annotations

import pytest
import torch
from helpers.federations import federation, run, wrapper
from helpers.small_runs import FEW_PROBES, messages_in, plugged, trained
from torch import nn

from leakbench import UsageError
from leakbench.base.streams import Rng
from leakbench.federation.net import Net
from leakbench.federation.parties import Batch, Client, Facts

SILENT = '''
"""Zeros in place of half of the numbers."""

from typing import ClassVar

import torch

from leakbench import Wrapper


class {name}(Wrapper):
    """Every second number is 0."""

    masks: ClassVar[bool | None] = {masks}

    def uplink(self, payload, me):
        return {{k: v * (torch.arange(v.numel()).view(v.shape) % 2) for k, v in payload.items()}}
'''


def client(index=2, round=1, module=None, weights=None, batches=(), shape=(3,)):
    rng = Rng(0, "defense", torch.tensor(index), torch.float64, round=round)
    inbox = {"model": dict(weights or {})}
    net = Net(module, dict(weights or {}))
    facts = Facts(4, 4, 4, shape)
    me = Client(torch.tensor(index), torch.tensor(9), round, facts, {}, {}, inbox, net, rng)
    me.batches = batches
    return me


# top_k --------------------------------------------------------------------------------------------
def cut(payload, index=2, round=1, **params):
    return wrapper("top_k", **params).uplink(payload, client(index, round))


def test_the_largest_of_the_whole_message_by_hand():
    update = {"a": torch.tensor([[3.0, -0.1], [0.2, -4.0]]), "b": torch.tensor([0.3, -0.2, 1.0, 0])}
    sent = cut(update, share=0.375)
    assert sent["a"].tolist() == [[3, 0], [0, -4]]
    assert sent["b"].tolist() == [0, 0, 1, 0]


def test_the_largest_of_each_tensor_by_hand():
    update = {"a": torch.tensor([[3.0, -0.1], [0.2, -4.0]]), "b": torch.tensor([0.3, -0.2, 1.0, 0])}
    sent = cut(update, share=0.5, over="tensor")
    assert sent["a"].tolist() == [[3, 0], [0, -4]]
    assert torch.equal(sent["b"], torch.tensor([0.3, 0, 1.0, 0]))


@pytest.mark.parametrize("over", ["message", "tensor"])
@pytest.mark.parametrize("choose", ["largest", "random"])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 1.0])
def test_so_many_numbers_are_sent_and_they_are_what_they_were(share, choose, over):
    dice = torch.Generator().manual_seed(0)
    update = {k: torch.randn(n, generator=dice).double() for k, n in (("a", 700), ("b", 300))}
    sent = cut(update, share=share, choose=choose, over=over)
    for k, v in sent.items():
        assert torch.equal(v, torch.where(v != 0, update[k], 0.0))
    many = sum(int((v != 0).sum()) for v in sent.values())
    least = 2 if over == "tensor" else 1
    assert many == max(round(share * 1000), least)


def test_draws_are_anew_by_round_and_client():
    update = {"a": torch.ones(400).double()}
    sets = [cut(update, i, t, choose="random")["a"] != 0 for i in (1, 2) for t in (1, 2)]
    assert len({tuple(s.tolist()) for s in sets}) == 4
    assert torch.equal(sets[0], cut(update, 1, 1, choose="random")["a"] != 0)


def test_whole_numbers_stay_and_alone_are_refused():
    counts = torch.tensor([3, 0, 5])
    sent = cut({"n": counts, "x": torch.tensor([1.0, 2.0])}, share=0.5)
    assert sent["n"] is counts
    assert cut(counts) is counts
    with pytest.raises(UsageError, match="leaves what clients send as 'label_counts' as it"):
        run(federation("fedgen", wrappers=[wrapper("top_k", kinds=("label_counts",))]), 1)


# soteria ------------------------------------------------------------------------------------------
class Scaled(nn.Module):
    """r = g x on four numbers, then a linear layer; |d r_i / dx| / |r_i| is 1 / |x_i|."""

    def __init__(self, gains):
        super().__init__()
        self.gains = nn.Parameter(torch.tensor(gains).double())
        self.head = nn.Linear(4, 3).double()

    def forward(self, x):
        return self.head(self.gains * x)


def pruned(x, gains=(1.0, 2.0, 3.0, 4.0), share=0.5, **params):
    net = Scaled(gains)
    weights = {k: v.detach() for k, v in net.state_dict().items()}
    batch = Batch(torch.tensor(x).double(), torch.zeros(len(x), dtype=torch.long))
    me = client(module=net, weights=weights, batches=[batch], shape=(4,))
    update = {k: torch.ones_like(v) for k, v in weights.items()}
    sent = wrapper("soteria", share=share, **params).uplink(update, me)
    assert torch.equal(sent["head.bias"], update["head.bias"])
    assert torch.equal(sent["gains"], update["gains"])
    columns = sent["head.weight"]
    assert torch.equal(columns, columns[:1].expand_as(columns))
    return [i for i, v in enumerate(columns[0].tolist()) if v == 0]


def test_the_features_are_pruned_that_tell_most_of_the_input():
    """1 / |x_i| is least for the second and the fourth, whatever the gains are."""
    assert pruned([[0.1, 5.0, 0.2, 3.0]]) == [1, 3]
    assert pruned([[0.1, 5.0, 0.2, 3.0]], gains=(9.0, 0.1, 9.0, 0.1)) == [1, 3]
    assert pruned([[0.1, 5.0, 0.2, 3.0]], share=0.25) == [1]


def test_of_a_batch_it_is_the_sums():
    """Slopes' lengths 2 g_i over sizes: 2 / (0.1 + 5), 2 / (5 + 0.1), 2 / 3, 2 / 2."""
    assert pruned([[0.1, 5.0, 1.5, 1.0], [5.0, 0.1, 1.5, 1.0]]) == [0, 1]


def test_a_feature_that_is_zero_is_not_counted_as_pruned():
    assert pruned([[0.0, 5.0, 0.2, 3.0]], gains=(0.0, 1.0, 1.0, 1.0), share=0.4) == [1]


def test_another_layer_may_be_named_and_must_be_linear():
    assert pruned([[0.1, 5.0, 0.2, 3.0]], layer="head") == [1, 3]
    with pytest.raises(UsageError, match="'gain' is none of the network's"):
        pruned([[0.1, 5.0, 0.2, 3.0]], layer="gain")


@pytest.mark.parametrize("engine", ["stacked", "threads"])
@pytest.mark.parametrize("steps", [1, 3])
def test_every_engine_prunes_by_the_same_examples(engine, steps):
    cover = [wrapper("soteria")]
    one, two = (
        run(federation("fedavg", e, wrappers=cover, steps=steps, fraction=0.4), 2)
        for e in ("loop", engine)
    )
    assert two.phases["loss"] == engine
    a, b = (fed.received.get("update", fed.means) for fed in (one, two))
    assert a.keys() == b.keys()
    gap = max(float((one.model[k] - v).abs().max()) for k, v in two.model.items())
    assert gap < 1e-12


def test_a_probe_is_pruned_by_its_own_image(tmp_path):
    run_ = trained(tmp_path, "fedavg", 1, wrappers=[("soteria", {"share": 0.5})])
    sent = [m for m in messages_in(run_.path / "transcript") if m.kind == "update" and not m.part]
    columns = {}
    for m in sent:
        columns[m.sender, m.probe] = tuple((m.payload["head.weight"] != 0).any(0).tolist())
    assert {probe for _, probe in columns} == {None, 0, 1}
    assert len(set(columns.values())) > 2


# the record ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("cover", ["top_k", "soteria"])
def test_masked_updates_are_sparse_and_their_controls_are_not(tmp_path, cover):
    run_ = trained(tmp_path, "fedavg", 3, wrappers=[(cover, {})])
    sent, bare = (
        [m for m in messages_in(run_.path / room) if m.kind == "update"]
        for room in ("transcript", "control")
    )
    assert {m.part for m in sent} == {"", "last_layer"}
    assert all(m.sparse for m in sent)
    assert bare
    assert not any(m.sparse for m in bare)
    assert not any(m.sparse for m in messages_in(run_.path / "transcript") if m.kind == "model")
    told = sent[0].told()
    assert all(torch.equal(told[k], v != 0) for k, v in sent[0].payload.items())
    assert all(bool(v.all()) for v in bare[0].told().values())


def test_a_sum_of_masked_updates_is_sparse_too(tmp_path):
    both = [("top_k", {"share": 0.01}), ("secure_sum", {})]
    run_ = trained(tmp_path, "fedavg", 2, wrappers=both)
    sums = [m for m in messages_in(run_.path / "transcript") if m.kind == "sum"]
    assert sums
    assert all(m.sparse for m in sums)
    told = sums[0].told()
    assert set(told) == {f"update/{k}" for k in sums[0].payload["update"]}


@pytest.mark.parametrize("masks", [None, True, False])
def test_a_wrapper_of_ones_own_says_what_its_zeros_are(tmp_path, masks):
    """One that says nothing is refused: its zeros would be taken for data, and look safe."""
    text = SILENT.format(name="Silent", masks=masks)
    with plugged("defenses.wrappers", tmp_path, silent=text):
        how = {"wrappers": [("silent", {})], "record": FEW_PROBES}
        if masks is None:
            with pytest.raises(UsageError, match="sends 0 in place of numbers: let it say"):
                trained(tmp_path, "fedavg", 1, **how)
            return
        run_ = trained(tmp_path, "fedavg", 1, **how)
    sent = [m for m in messages_in(run_.path / "transcript") if m.kind == "update"]
    assert {m.sparse for m in sent} == {masks}
