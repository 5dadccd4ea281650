"""What a task may ask of a network besides a class: texts, pretrained parts, parts that stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.federations import method
from safetensors.torch import save_file
from torch import nn

from leakbench.base import registry
from leakbench.base.errors import BrokenFile, MethodError, UsageError
from leakbench.federation import Batch, Facts, Federation, Net
from leakbench.federation.objective import fits
from leakbench.models import read_weights

FACTS = Facts(clients=2, classes=3, dim=3, shape=(4,), targets="tokens")


class Says(nn.Module):
    """Says of x (B, 4), given tokens (B, T), logits (B, T, 5)."""

    def __init__(self):
        super().__init__()
        self.word, self.out = nn.Embedding(5, 4), nn.Linear(4, 5)

    def forward(self, x, given=None, decode=False):
        if decode:
            return self.out(x).argmax(-1, keepdim=True)
        return self.out(x[:, None] + self.word(given))


def test_the_loss_of_texts_is_the_mean_over_their_words_without_padding():
    says = Says()
    net = Net(says, dict(says.state_dict()))
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[1, 3, 4, 2, 0, 0], [1, 4, 2, 0, 0, 0]])
    found = fits(net, Batch(x, torch.zeros(2, dtype=torch.long), targets), FACTS)
    for i, words in enumerate(([3, 4, 2], [4, 2])):
        said = [1, *words]
        logits = net(x[i : i + 1], given=torch.tensor([said[:-1]]))[0].log_softmax(-1)
        by_hand = -sum(logits[j, w] for j, w in enumerate(words)) / len(words)
        assert found[i].item() == pytest.approx(by_hand.item(), rel=1e-5)
    assert net.decode(x).shape == (2, 1)
    with pytest.raises(MethodError, match="asks for texts"):
        fits(net, Batch(x, torch.zeros(2, dtype=torch.long)), FACTS)


def test_of_classes_it_is_cross_entropy():
    module = nn.Linear(4, 3)
    x, y = torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), torch.arange(5) % 3
    found = fits(
        Net(module, dict(module.state_dict())), Batch(x, y), replace(FACTS, targets="classes")
    )
    assert found.mean().item() == pytest.approx(nn.functional.cross_entropy(module(x), y).item())


def digits(frozen=(), weights=None, **params):
    base = registry.load_plugin("tasks", "digits")

    class Partly(base):
        @property
        def frozen(self):
            return frozen

        def load(self):
            return replace(super().load(), pretrained=weights or {})

    return Partly(split="iid", clients=4, model="mlp", width=8, **params)


@pytest.mark.parametrize("engine", ["loop", "fused"])
def test_a_frozen_stage_keeps_its_weights_and_is_in_no_update(engine):
    task = digits(("first",))
    fed = Federation(method("fedavg"), task, task.load(), engine=engine, dtype=torch.float64)
    before = dict(fed.model)
    fed.begin()
    fed.step()
    still = [k for k in before if k.startswith("first.")]
    assert still
    assert all(torch.equal(fed.model[k], before[k]) for k in still)
    assert any(not torch.equal(fed.model[k], before[k]) for k in before if k not in still)
    sent = fed.means.get("update") or fed.received["update"]
    assert not set(still) & set(sent)


def test_both_engines_train_the_rest_alike():
    ends = []
    for engine in ("loop", "fused"):
        task = digits(("first",))
        fed = Federation(method("fedavg"), task, task.load(), engine=engine, dtype=torch.float64)
        fed.begin()
        for _ in range(3):
            fed.step()
        ends.append(fed.model)
    assert all(torch.allclose(ends[0][k], ends[1][k], atol=1e-12) for k in ends[0])


def test_pretrained_weights_lie_over_the_drawn_ones():
    drawn = digits()
    plain = Federation(method("fedavg"), drawn, drawn.load()).model
    weight = torch.full_like(plain["second.0.weight"], 0.5)
    task = digits(weights={"second.0.weight": weight})
    model = Federation(method("fedavg"), task, task.load()).model
    assert torch.equal(model["second.0.weight"], weight)
    others = set(plain) - {"second.0.weight"}
    assert all(torch.equal(model[k], plain[k]) for k in others)


@pytest.mark.parametrize(
    ("weights", "why"),
    [({"third": torch.zeros(2)}, "none of that name"), ({"head.bias": torch.zeros(2)}, "is .2.")],
)
def test_weights_of_another_network_are_refused(weights, why):
    task = digits(weights=weights)
    with pytest.raises(UsageError, match=why):
        Federation(method("fedavg"), task, task.load())


def test_only_safetensors_are_read(tmp_path):
    with pytest.raises(UsageError, match="there is no file"):
        read_weights(tmp_path / "w.safetensors")
    pickled = tmp_path / "w.pth"
    pickled.write_bytes(b"PK")
    with pytest.raises(UsageError, match="pickled weights"):
        read_weights(pickled)
    cut = tmp_path / "cut.safetensors"
    save_file({"a": torch.arange(3.0)}, cut)
    assert torch.equal(read_weights(cut)["a"], torch.arange(3.0))
    cut.write_bytes(cut.read_bytes()[:-4])
    with pytest.raises(BrokenFile, match="damaged"):
        read_weights(cut)


@pytest.mark.parametrize("many", [{"steps": 3}, {"steps": 0, "epochs": 2, "batch": 4}])
def test_how_many_steps_a_client_takes_is_what_it_takes(many):
    task = digits()
    fed = Federation(method("fedprox", **many), task, task.load())
    from leakbench.federation.batches import batch_plan

    taken = batch_plan(
        fed.data, range(4), seed=0, round=1, phase=2, batch=fed.method.batch,
        steps=fed.method.steps, epochs=fed.method.epochs,
    )  # fmt: skip
    told = fed.method.local_steps(fed.data.counts).tolist()
    assert told == [len(taken.rows(j)) for j in range(4)]
