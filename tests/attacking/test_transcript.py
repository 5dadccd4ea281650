"""Messages in memory: attacked as those of a run folder are, under the same threat models."""

from __future__ import annotations

import copy
from typing import ClassVar

import pytest
import torch
from helpers.small_runs import Lazily, again, build, obstacle, trained
from torch import nn
from torch.nn.functional import cross_entropy

import leakbench
from leakbench.attacking import choices
from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.attacking.replay import Replay
from leakbench.attacking.transcript import Transcript
from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import LeakbenchError, MethodError, ThreatViolation, UsageError
from leakbench.federation.parties import Batch

RATE = 0.1


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(net, seed=0):
    """A network whose numbers do not come from torch's own dice."""
    rng = dice(seed)
    with torch.no_grad():
        for p in net.parameters():
            bound = max(p[0].numel(), 1) ** -0.5 if p.ndim > 1 else 0.1
            p.copy_((2 * torch.rand(p.shape, generator=rng, dtype=torch.float64) - 1) * bound)
    return net


def small(seed=0):
    layers = nn.Flatten(), nn.Linear(16, 12), nn.Sigmoid(), nn.Linear(12, 3)
    return drawn(nn.Sequential(*layers), seed)


def images(count, seed=1):
    return torch.rand(count, 1, 4, 4, generator=dice(seed))


def stepped(net, loss, x, y, rate=RATE):
    """-lr * gradient, in the order of the parameters."""
    return [-rate * g for g in torch.autograd.grad(loss(net(x), y), net.parameters())]


def seen_by(net, loss=cross_entropy, **more):
    return Transcript(net, loss, **{"shape": (1, 4, 4), "lr": RATE, **more})


def inverted(seen, **params):
    return seen.attack("gradient_inversion", message="update", **params)


def psnr(guess, x):
    return float(-10 * (guess.tensors["x"].float() - x).square().mean().log10())


X, Y = images(6), torch.tensor([0, 1, 2, 0, 1, 2])


# the same attack, the same guesses ----------------------------------------------------------------
def in_memory(run):
    """Every message of a run folder, and what its attackers are granted, handed in one by one."""
    recording = again(run)
    aux, facts, labels = recording.known("aux_data"), recording.facts, recording.known("labels")
    seen = Transcript(
        recording.module(),
        method=recording.method,
        shape=facts.shape,
        classes=facts.classes,
        clients=facts.clients,
        aux_data=(aux.x, aux.y),
    )
    for m in recording.transcript:
        if m.probe is None:
            y = labels.get((m.sender, m.round, m.phase, None)) if m.kind == "update" else None
            where = {"sender": m.sender, "receiver": m.receiver, "round": m.round, "phase": m.phase}
            seen.add(m.kind, m.payload, labels=y, **where)
    return seen


FLEA = {"epochs": 1, "layer": "first", "batch": 32, "lr": 0.01, "share": 0.1, "fraction": 1.0}
FEDAA = {"epochs": 1, "examples": 2, "hidden": 8, "search_steps": 2, "identifier_epochs": 1}
QUICK = {"targets": 3, "steps": 5, "restarts": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return Lazily(
        fedgn=lambda: trained(out, "fedgn", 3, params={"sigma": 0.3}, record="all"),
        fedavg=lambda: trained(
            out, "fedavg", 2, params={"steps": 2, "batch": 4, "average": "weighted"}, record="all"
        ),
        flea=lambda: trained(out, "flea", 3, params=FLEA, record="all"),
        fedaa=lambda: trained(out, "fedaa", 2, params={**FEDAA, "tune_steps": 1}, record="all"),
    )


@pytest.mark.parametrize(
    ("method", "name", "params"),
    [
        ("fedgn", "prototype_leakage", {}),
        ("fedgn", "prototype_leakage", {"candidates": "public"}),
        ("fedgn", "prototype_averaging", {}),
        ("fedgn", "gradient_inversion", {"message": "update", "attacker": "naive", **QUICK}),
        ("fedgn", "gradient_inversion", {"message": "update", **QUICK}),
        ("fedavg", "gradient_inversion", {"message": "update", **QUICK}),
        ("fedavg", "label_inference", {"source": "update"}),
        ("fedavg", "label_inference", {"source": "calibrated"}),
        ("flea", "label_inference", {}),
        ("flea", "distance_correlation", {}),
        ("flea", "exposure", {}),
        ("flea", "reidentification", {}),
        ("flea", "decoder", {"epochs": 1, "steps": 4, "network": "linear"}),
        ("flea", "feature_inversion", {"epochs": 1, "steps": 4, "network": "linear"}),
        ("fedaa", "adversarial_examples", {}),
    ],
)
def test_guesses_are_those_from_a_run_folder(runs, method, name, params):
    recording, seen = again(runs[method]), in_memory(runs[method])
    attack = build(name, **params)
    assert obstacle(attack, recording) == obstacle(attack, seen) == ""
    for blind in (False, True):
        view = View(attack.floor_threat if blind else attack.threat, recording, recording.rounds)
        there = attack(view, blind=blind)
        here = seen.attack(name, round=recording.rounds, blind=blind, **params)
        assert [(g.unit, g.round, g.accepted, g.failed, g.flags) for g in here] == [
            (g.unit, g.round, g.accepted, g.failed, g.flags) for g in there
        ]
        assert len(here) > 1
        for a, b in zip(here, there, strict=True):
            assert a.tensors.keys() == b.tensors.keys()
            assert all(torch.equal(a.tensors[k], b.tensors[k]) for k in a.tensors)


def test_obstacles_are_those_of_a_run_folder(runs):
    """Of every attack in its usual settings, whether it fits or not; but that nobody says in memory
    whether a wrapper covered an update before it was added, nor grants candidates there.
    """
    for run in (runs["fedgn"], runs["flea"]):
        recording, seen = again(run), in_memory(run)
        for choice in choices.variants():
            there = choice.obstacle(recording)
            known = "" if there.endswith("see source=update") else there
            if "candidates" in choice.attack.threat.knows:
                known = known or choice.obstacle(seen)
                assert known
            assert choice.obstacle(seen) == known


# a network and a loss of one's own ----------------------------------------------------------------
def test_a_digit_is_found_through_any_module_and_loss():
    net = small()
    seen = seen_by(net)
    seen.add("update", stepped(net, cross_entropy, X[:1], Y[:1]), labels=Y[:1])
    (guess,) = inverted(seen)
    assert (guess.unit, guess.round, guess.accepted) == ("client/0", 1, True)
    assert psnr(guess, X[:1]) > 40


def test_a_trained_model_minus_the_received_one_is_an_update():
    net = small()
    mine = copy.deepcopy(net)
    step = torch.optim.SGD(mine.parameters(), lr=RATE)
    torch.autograd.backward(cross_entropy(mine(X[1:2]), Y[1:2]))
    step.step()
    received = net.state_dict()
    seen = seen_by(net)
    seen.add(
        "update", {k: v - received[k] for k, v in mine.state_dict().items()}, labels=Y[1:2].tolist()
    )
    assert psnr(inverted(seen)[0], X[1:2]) > 40


@pytest.mark.parametrize(("fields", "passes"), [({"steps": 2}, 1), ({"epochs": 2}, 2)])
def test_several_local_steps_of_several_clients(fields, passes):
    net = small()
    seen = seen_by(net, lr=1.0, batch=1, **fields)
    for client in (0, 1):
        mine, rows = copy.deepcopy(net), [2 * client, 2 * client + 1] * passes
        step = torch.optim.SGD(mine.parameters(), lr=1.0)
        for i in rows:
            step.zero_grad()
            torch.autograd.backward(cross_entropy(mine(X[i : i + 1]), Y[i : i + 1]))
            step.step()
        update = {k: v - net.state_dict()[k] for k, v in mine.state_dict().items()}
        seen.add(
            "update",
            update,
            sender=f"client/{client}",
            labels=Y[rows] if passes == 1 else Y[rows].view(2, 2),
        )
    found = inverted(seen, restarts=1, steps=400)
    assert [g.unit for g in found] == ["client/0", "client/1"]
    for client, guess in enumerate(found):
        assert guess.tensors["x"].shape == (2, 1, 4, 4)  # an image over epochs is one unknown
        assert guess.accepted
        assert psnr(guess, X[[2 * client, 2 * client + 1]]) > 30


def labelled(y, **fields):
    """The labels that an attacker is granted of an update, given as ``y``."""
    seen = seen_by(small(), batch=2, **fields)
    update = [torch.zeros_like(p) for p in small().parameters()]
    seen.add("update", update, labels=y)
    (granted,) = seen.known("labels").values()
    return granted.tolist()


def test_labels_in_any_usual_shape():
    y = torch.tensor([0, 2, 2, 1])
    for same in (y, y[:, None], y.double(), y.float()[:, None], torch.eye(3)[y], y.tolist()):
        assert labelled(same) == [0, 2, 2, 1]
        assert labelled(same, epochs=2) == [0, 2, 2, 1] * 2
    assert labelled(torch.eye(3).long()[y[:1]]) == [0]
    assert labelled(torch.eye(3).bool()[y]) == [0, 2, 2, 1]
    assert labelled(torch.tensor([True, False])) == [1, 0]
    for whole in (torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.half):
        assert labelled(y.to(whole)) == [0, 2, 2, 1]
    for wrong in (
        y + 0.5,
        torch.eye(3)[y] / 2 + 0.25,
        torch.eye(4)[y],
        y.view(2, 2),
        y[None, None],
    ):
        with pytest.raises(UsageError, match="the labels behind the update of client/0"):
            labelled(wrong)


def test_labels_of_several_epochs_are_each_examples_or_each_epochs():
    """One for each example was taken for another problem, of fewer examples, in silence."""
    y = torch.tensor([0, 2, 2, 1])
    shuffled = torch.stack([y, y.flip(0), y[[1, 0, 3, 2]]])
    assert labelled(shuffled, epochs=3) == [0, 2, 2, 1, 1, 2, 2, 0, 2, 0, 1, 2]
    assert labelled(y[:3], epochs=3) == [0, 2, 2] * 3
    assert labelled(y, epochs=2) == [0, 2, 2, 1] * 2
    for either in ([1, 1, 1, 1], [0, 1, 1, 0], [0, 0]):
        n = len(either)
        why = rf"may be of {n // 2} or {n} examples in each of 2 epochs: write them as \(2, n\)"
        with pytest.raises(UsageError, match=why):
            labelled(either, epochs=2)
        assert labelled(torch.tensor(either).expand(2, -1), epochs=2) == either * 2
        if n > 2:  # (2, 1) may be a column
            assert labelled(torch.tensor(either).view(2, -1), epochs=2) == either
    with pytest.raises(UsageError, match=r"shape \(3, 4\); expected \(n,\).*or \(2, n\), a row"):
        labelled(shuffled, epochs=2)
    with pytest.raises(UsageError, match="a row for each epoch"):
        labelled(torch.tensor([[0, 1], [0, 2]]), epochs=2)


def test_labels_once_for_each_example_lead_to_all_of_them():
    net = small()
    mine = copy.deepcopy(net)
    step = torch.optim.SGD(mine.parameters(), lr=1.0)
    for _ in range(2):  # epochs of one batch
        step.zero_grad()
        torch.autograd.backward(cross_entropy(mine(X[:2]), Y[:2]))
        step.step()
    update = {k: v - net.state_dict()[k] for k, v in mine.state_dict().items()}
    seen = seen_by(net, lr=1.0, batch=2, epochs=2)
    seen.add("update", update, labels=Y[:2])
    view = View(ThreatModel(knows=("method", "facts", "labels")), seen, 1)
    replay = Replay(view, view.messages("update")[0], dice(), rows=[[0, 1]] * 2)
    made = replay.update(Batch(X[:2], Y[:2]), {})
    for k, v in made.items():
        assert torch.allclose(v, update[k], atol=1e-5)
    (guess,) = inverted(seen, restarts=1, steps=5)
    assert guess.tensors["x"].shape == (2, 1, 4, 4)


def test_a_loss_with_weights_of_its_own_is_taken_in_the_attackers_precision():
    net, loss = small(), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]), reduction="sum")
    seen = seen_by(net, loss)
    seen.add("update", stepped(net, loss, X[:1], Y[:1]), labels=Y[:1])
    assert psnr(inverted(seen)[0], X[:1]) > 40
    assert loss.weight.dtype == torch.float32


def frozen():
    """BatchNorm with statistics of its own, and dropout, both in evaluation mode."""
    net = nn.Sequential(
        *(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Sigmoid(), nn.Dropout(0.5)),
        *(nn.Flatten(), nn.Linear(96, 3)),
    )
    drawn(net)
    net[1].running_mean += 0.3
    net[1].running_var *= 2
    return net.eval()


def test_the_loss_is_taken_in_the_mode_of_the_model():
    net = frozen()
    seen = seen_by(net)
    seen.add("update", stepped(net, cross_entropy, X[:1], Y[:1]), labels=Y[:1])
    assert psnr(inverted(seen)[0], X[:1]) > 40
    net[3].p = 0.0
    other = seen_by(net.train())
    other.add("update", stepped(net.eval(), cross_entropy, X[:1], Y[:1]), labels=Y[:1])
    assert psnr(inverted(other)[0], X[:1]) < 30


def test_a_replay_in_training_mode_leaves_what_was_given_as_it_was():
    net = frozen().double().train()
    net[3].p = 0.0
    before = {k: v.clone() for k, v in net.state_dict().items()}
    seen = seen_by(net)
    update = stepped(copy.deepcopy(net), cross_entropy, X[:2].double(), Y[:2])
    seen.add("update", update, labels=Y[:2])
    inverted(seen, steps=3, restarts=1)
    (model,) = [m.payload for m in seen.transcript if m.kind == "model"]
    assert model.keys() == before.keys()
    assert all(torch.equal(v, before[k]) for k, v in model.items())


def test_nothing_is_taken_but_copies():
    net = small()
    update = stepped(net, cross_entropy, X[:1], Y[:1])
    seen = seen_by(net, aux_data=(X, Y))
    seen.add("update", update, labels=Y[:1])
    first = inverted(seen)[0].tensors["x"]
    before = copy.deepcopy(net.state_dict())
    again_ = inverted(seen)[0].tensors["x"]
    assert torch.equal(first, again_)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert all(p.grad is None and p.dtype == torch.float32 for p in net.parameters())
    assert net.training
    with torch.no_grad():
        for t in (*update, *net.parameters()):
            t.zero_()
    assert torch.equal(first, inverted(seen)[0].tensors["x"])


def test_labels_are_read_off_updates_alone_or_beside_auxiliary_data():
    net = small()
    rows = [0, 3, 1, 4]  # two of class 0, two of class 1
    seen = seen_by(net, aux_data=(X, Y))
    seen.add("update", stepped(net, cross_entropy, X[rows], Y[rows]))
    seen.add("count", 4)
    (raw,) = seen.attack("label_inference", source="update")
    assert (raw.tensors["shares"] > 0).tolist() == [True, True, False]
    (fine,) = seen.attack("label_inference", source="calibrated")
    assert torch.allclose(fine.tensors["shares"], torch.tensor([0.5, 0.5, 0.0]).double(), atol=0.1)
    (blind,) = seen.attack("label_inference", source="update", blind=True)
    assert torch.allclose(blind.tensors["shares"], torch.full((3,), 1 / 3).double())


def test_a_networks_private_numbers_are_solved_for_with_a_method_of_ours():
    """FedGN's loss reads a prototype that the attacker does not have."""
    net = drawn(nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 8)))
    seen = Transcript(net, method="fedgn", shape=(1, 4, 4), classes=2, clients=2)
    seen.add("update", [torch.full_like(p, 0.01) for p in net.parameters()], labels=[1])
    with pytest.raises(MethodError, match="no message of kind 'prototype' is in this inbox"):
        inverted(seen)
    seen.add("prototype", torch.eye(2, 8), sender="server")
    (guess,) = inverted(seen, steps=2, restarts=1)
    assert guess.tensors["own.prototype"].shape == (8,)


def test_prototypes_need_neither_model_nor_loss():
    true = nn.functional.normalize(torch.randn(4, 16, generator=dice()), dim=1)
    seen = Transcript(method="fedgn")
    rng = dice(1)
    for t in range(1, 61):
        for c in range(4):
            noisy = true[c] + torch.randn(16, generator=rng)
            seen.add("prototype", noisy, sender=f"client/{c}", round=t)
    newest, mean = (
        torch.stack([g.tensors["prototype"] for g in found])
        for found in (
            seen.attack("prototype_leakage"),
            seen.attack("prototype_averaging", window=60),
        )
    )
    near = torch.cosine_similarity(newest, true), torch.cosine_similarity(mean, true)
    assert near[0].mean() < 0.6 < 0.8 < near[1].min()
    for guess in seen.attack("prototype_leakage"):
        guess.tensors["prototype"].zero_()  # the message that is kept is not theirs
    again = [g.tensors["prototype"] for g in seen.attack("prototype_leakage")]
    assert torch.equal(torch.stack(again), newest)
    early = seen.attack("prototype_averaging", window=60, round=3)
    assert {g.round for g in early} == {3}
    assert not torch.equal(early[0].tensors["prototype"], mean[0])


# what crossed -------------------------------------------------------------------------------------
def test_each_round_has_the_newest_model_of_the_server():
    net, later = small(0), small(1)
    seen = seen_by(net, clients=2)
    for t in (1, 2, 3):
        seen.add("update", stepped(net, cross_entropy, X[:1], Y[:1]), round=t)
    seen.add("model", later.state_dict(), round=2)
    models = {m.round: m for m in seen.transcript if m.kind == "model"}
    assert {m.phase for m in models.values()} == {0}
    first = [models[t].payload["1.bias"] for t in (1, 2, 3)]
    assert torch.equal(first[0], net[1].bias)
    assert torch.equal(first[1], later[1].bias)
    assert torch.equal(first[2], later[1].bias)
    assert [m.kind for m in seen.transcript] == ["model", "update"] * 3
    assert seen.traffic["model"].tolist() == [[t, -1, c] for t in (1, 2, 3) for c in (0, 1)]
    assert {(s["kind"], s["sender"], s["messages"]) for s in seen.sent} == {
        ("model", "server", 3),
        ("update", "client", 3),
    }


# threat models ------------------------------------------------------------------------------------
class Nosy(Attack):
    """Declares the update and the method, and asks for more."""

    about: ClassVar[str] = "nosy"
    metrics: ClassVar[tuple] = ()

    ask: str

    @property
    def threat(self):
        return ThreatModel(kinds=("update",), knows=("method",))

    def run(self, view, rng):
        if self.ask in ("model", "prototype"):
            view.messages(self.ask)
        else:
            view.know(self.ask)
        return [Guess("client/0", view.round)]

    def blind(self, view, rng):
        return self.run(view, rng)


@pytest.mark.parametrize("ask", ["model", "prototype", "facts", "labels", "aux_data"])
def test_what_is_not_declared_is_refused_though_it_was_given(ask):
    net = small()
    seen = seen_by(net, aux_data=(X, Y))
    seen.add("update", stepped(net, cross_entropy, X[:1], Y[:1]), labels=Y[:1])
    assert seen.attack(Nosy(ask="method"))
    with pytest.raises(ThreatViolation, match=f"'{ask}'"):
        seen.attack(Nosy(ask=ask))


def test_an_observer_sees_its_own_messages_alone():
    net = small()
    seen = seen_by(net, clients=3)
    for c in range(3):
        update = stepped(net, cross_entropy, X[c : c + 1], Y[c : c + 1])
        seen.add("update", update, sender=f"client/{c}")
    threat = ThreatModel(observer="client/1", kinds=("update", "model"))
    view = View(threat, seen, 1)
    assert [m.sender for m in view.messages("update")] == ["client/1"]
    assert [m.receiver for m in view.messages("model")] == ["client/*"]
    outside = View(threat.model_copy(update={"observer": "outsider"}), seen, 1)
    assert outside.messages("update") == outside.messages("model") == []


def test_there_is_no_control():
    with pytest.raises(UsageError, match="no control: make a second one"):
        View(ThreatModel(), seen_by(small()), 1, control=True)


# what cannot be used ------------------------------------------------------------------------------
def updates(**more):
    net = small()
    update = dict(zip(net.state_dict(), stepped(net, cross_entropy, X[:1], Y[:1]), strict=True))
    return {**update, **more}


def added(kind, payload, transcript=None, **more):
    (transcript or seen_by(small(), clients=5)).add(kind, payload, **more)


WRONG = {
    "no model": (lambda: Transcript(cross_entropy), "expected a torch.nn.Module, got function"),
    "no parameters": (lambda: seen_by(nn.Flatten()), "no parameters"),
    "dropout": (lambda: seen_by(frozen().train()), r"layer '3' throws dice"),
    "no shape": (lambda: Transcript(small(), cross_entropy), r"write shape=\(1, 28, 28\)"),
    "wrong shape": (lambda: seen_by(small(), shape=(3, 4, 4)), r"takes no inputs of shape \(3,"),
    "no tensor out": (lambda: seen_by(nn.LSTM(4, 2), shape=(4,)), r"gives a tensor \(B, outputs"),
    "typing error": (lambda: seen_by(small(), setps=2), "'setps'. Did you mean 'steps'"),
    "a shape of one": (
        lambda: Transcript(small(), cross_entropy, shape=16),
        "shape = 16: expected",
    ),
    "no function": (lambda: Transcript(small(), 3, shape=(1, 4, 4)), "loss = 3: expected a func"),
    "no number": (lambda: seen_by(small(), lr=float("nan")), "lr = nan: expected a finite"),
    "out of range": (lambda: seen_by(small(), lr=-1.0), "lr = -1.0: input should be greater"),
    "fields alone": (lambda: Transcript(lr=0.1), "lr: of the local training, which goes with"),
    "two losses": (lambda: seen_by(small(), method="fedgn"), "a loss of your own or a method"),
    "no method": (lambda: Transcript(method="fedgm"), "Did you mean 'fedgn'"),
    "aux lengths": (lambda: seen_by(small(), aux_data=(X, Y[:3])), r"expected inputs \(3, 1, 4, 4"),
    "aux shape": (lambda: seen_by(small(), aux_data=(X[:, :, :2], Y)), r"got \(6, 1, 2, 4\)"),
    "aux classes": (lambda: seen_by(small(), aux_data=(X, Y + 1)), "labels of aux_data.* 0 to 2"),
    "aux NaN": (lambda: seen_by(small(), aux_data=(X / 0, Y)), "aux_data holds NaN or infinity"),
    "kind": (lambda: added("updates", updates()), "'updates'. Did you mean 'update'"),
    "too few": (lambda: added("update", [*updates().values()][:3]), "3 tensors; the model has 4"),
    "one tensor": (lambda: added("update", X), "expected a dict by the names of .* got Tensor"),
    "a name": (lambda: added("update", updates(bias=X)), "holds 'bias', which the model has not"),
    "a shape": (
        lambda: added("update", updates(**{"1.bias": X[0, 0]})),
        r"'1.bias' has the shape \(4, 4\); the model's is \(12,\)",
    ),
    "nothing": (lambda: added("update", {}), "holds none of the model's parameters"),
    "no numbers": (lambda: added("update", updates(**{"1.bias": None})), r"the shape \(\);"),
    "NaN": (
        lambda: added("update", {k: v / 0 * 0 for k, v in updates().items()}),
        "the update of client/0 in round 1 holds NaN or infinity",
    ),
    "labels of text": (lambda: added("update", updates(), labels="ab"), "expected a tensor"),
    "labels of floats": (lambda: added("update", updates(), labels=[0.5]), r"whole numbers \(B,"),
    "labels beyond": (lambda: added("update", updates(), labels=[3]), "from 0 to 2"),
    "no labels": (lambda: added("update", updates(), labels=torch.tensor([]).long()), "one at le"),
    "labels of others": (
        lambda: added("count", 3, labels=[1]),
        r"are a message of their own, add\('labels'",
    ),
    "sender": (lambda: added("update", updates(), sender=3), "from 3 to 'server': expected"),
    "receiver": (lambda: added("update", updates(), receiver="client/1"), "to 'client/1': expe"),
    "client": (lambda: added("update", updates(), sender="client/5"), "there are 5 clients"),
    "round": (lambda: added("update", updates(), round=-1), "round = -1"),
    "phase": (lambda: added("update", updates(), phase=7), r"the method trains in phase \[2\]"),
    "no model to fit": (lambda: added("update", X, Transcript()), "was given no model"),
    "matrix": (lambda: added("prototype", X[0, 0]), r"expected a vector \(d,\)"),
    "text": (lambda: added("prototype", "abc"), "a tensor or a dict of tensors, got str"),
    "classes": (lambda: added("labels", Y, Transcript()), r"write|say .*Transcript\(classes="),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_used_is_refused_in_one_sentence(what):
    do, said = WRONG[what]
    with pytest.raises(UsageError, match=said) as caught:
        do()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_message_twice_and_vectors_of_two_lengths_are_refused():
    seen = Transcript()
    seen.add("prototype", X[0].flatten())
    with pytest.raises(UsageError, match="is there already"):
        seen.add("prototype", X[0].flatten())
    with pytest.raises(UsageError, match="has 15 numbers, where others have 16"):
        seen.add("prototype", X[0].flatten()[1:], sender="client/1")
    assert len(seen.transcript) == 1


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("gradient_inversion", {"message": "update"}, "given no labels: write add"),
        ("gradient_inversion", {"message": "probe"}, "no probe was kept .*: use message=update"),
        ("label_inference", {"source": "calibrated"}, r"no aux_data: write Transcript\(..., aux"),
        ("prototype_leakage", {}, "clients send the server no prototype"),
        ("exposure", {}, "no client sends the server features"),
        ("gradient_invasion", {}, "Did you mean 'gradient_inversion'"),
        ("gradient_inversion", {"massage": "update"}, "'massage'. Did you mean 'message'"),
    ],
)
def test_an_attack_that_cannot_be_made_says_why(name, params, said):
    seen = seen_by(small())
    seen.add("update", updates(), labels=None if params.get("message") == "update" else Y[:1])
    with pytest.raises(LeakbenchError, match=said):
        seen.attack(name, **params)


def test_what_was_not_given_is_named_when_it_is_asked_for():
    seen = Transcript()
    seen.add("prototype", X[0].flatten())
    with pytest.raises(UsageError, match="given no loss and no method"):
        seen.attack("prototype_averaging")
    with pytest.raises(UsageError, match="given no true_prototypes"):
        seen.known("true_prototypes")
    with pytest.raises(UsageError, match="parameters are its own"):
        seen.attack(build("prototype_leakage"), candidates="public")


def test_a_loss_that_is_no_number_is_refused():
    net = small()
    seen = seen_by(net, nn.CrossEntropyLoss(reduction="none"))
    seen.add("update", stepped(net, cross_entropy, X[:1], Y[:1]), labels=Y[:1])
    with pytest.raises(MethodError, match=r"a tensor of shape \(1,\); it must give one number"):
        inverted(seen)


def test_a_network_without_stages_cannot_be_cut():
    seen = Transcript(
        small(), method="flea", layer="first", shape=(1, 4, 4), aux_data=(images(30), Y.repeat(5))
    )
    seen.add("features", X.flatten(1))
    seen.add("labels", Y)
    with pytest.raises(MethodError, match="not made of stages"):
        seen.attack("decoder", epochs=1, steps=2)


def test_the_face_shows_it():
    assert leakbench.Transcript is Transcript
