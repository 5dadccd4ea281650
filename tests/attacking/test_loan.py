"""What an attack is given stays what it was: a write in place is refused and spoils nothing."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest
import torch
from helpers.small_runs import again, trained
from torch import nn
from torch.nn.functional import cross_entropy

import leakbench
from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import MethodError

ROUNDS = 2
KNOWS = ("method", "facts", "labels", "aux_data")


class Writing(Attack):
    """Does ``what`` with its view and guesses nothing worth having."""

    about: ClassVar[str] = "a test"
    what: ClassVar[Any] = None

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(kinds=("prototype", "update", "model"), knows=KNOWS)

    def run(self, view, rng):
        self.what(view)
        return [Guess("client/0", view.round, {"x": torch.zeros(1)})]

    blind = run


def writing(what) -> Attack:
    return type("Writing", (Writing,), {"what": staticmethod(what), "__module__": __name__})()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs"), "fedgn", ROUNDS, params={"sigma": 0.5})


def first(view, kind="prototype"):
    return next(m for m in view.messages(kind) if m.sender != "server")


def pop(view):
    first(view, "update").payload.popitem()


def put(view):
    first(view, "update").payload["new"] = torch.zeros(1)


def swap(view):
    payload = first(view, "update").payload
    payload[next(iter(payload))] = torch.zeros(1)


def shrink(view):
    first(view).payload.data = torch.zeros(1)


def norm(view):
    g = first(view).payload
    g /= g.abs().max()


def own(value):
    return next(iter(value.values()))


WRITES = {
    "norm": (norm, "the prototype of client/0 in round 1"),
    "data": (lambda v: first(v).payload.data.zero_(), "the prototype of client/0"),
    "numpy": (lambda v: first(v).payload.numpy().fill(0), "the prototype of client/0"),
    "view": (lambda v: first(v).payload[:2].zero_(), "the prototype of client/0"),
    "resized": (shrink, "the prototype of client/0"),
    "popped": (pop, "the update of client/"),
    "put": (put, "the update of client/"),
    "swapped": (swap, "the update of client/"),
    "model": (lambda v: own(v.messages("model")[0].payload).zero_(), "the model of server"),
    "probe": (
        lambda v: own(v.messages("update", probe=True)[0].payload).add_(1),
        "the update of client/",
    ),
    "images": (lambda v: v.know("aux_data").x.mul_(0.5), "the aux_data"),
    "classes": (lambda v: v.know("aux_data").y.zero_(), "the aux_data"),
    "labels": (lambda v: own(v.know("labels")).add_(1), "the labels"),
    "fewer labels": (lambda v: v.know("labels").clear(), "the labels"),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("blind", [False, True])
def test_a_write_in_place_is_named_and_the_recording_is_as_it_was(run, name, blind):
    recording, (write, named) = again(run), WRITES[name]
    kept = copy.deepcopy([m.payload for m in recording.transcript])
    aux, labels = (copy.deepcopy(recording.known(k)) for k in ("aux_data", "labels"))
    attack = writing(write)
    for _ in range(2):  # the second finds what the first found
        with pytest.raises(MethodError, match=f"Writing wrote into {named}.*not g /= g.norm"):
            attack(View(attack.threat, recording, ROUNDS), blind=blind)
    for now, then in zip([m.payload for m in recording.transcript], kept, strict=True):
        torch.testing.assert_close(now, then, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(recording.known("aux_data").x, aux.x)
    assert torch.equal(recording.known("aux_data").y, aux.y)
    assert all(torch.equal(y, labels[k]) for k, y in recording.known("labels").items())
    assert recording.known("labels").keys() == labels.keys()


def test_what_is_not_finite_counts_as_unwritten(run):
    recording = again(run)
    sent = [m for m in recording.transcript if m.kind == "prototype"]
    sent[0].payload.fill_(float("nan"))
    attack = writing(lambda v: [m.payload for m in v.messages("prototype")])
    assert attack(View(attack.threat, recording, ROUNDS))


def test_the_network_the_method_and_the_traffic_are_the_attacks_own(run):
    def spoil(view):
        nn.init.zeros_(next(view.module.parameters()))
        view.traffic("prototype").zero_()
        vars(view.method)["sigma"] = 9.0

    recording, attack = again(run), writing(spoil)
    before = recording.traffic["prototype"].clone()
    attack(View(attack.threat, recording, ROUNDS))
    assert recording.method.sigma == 0.5
    assert torch.equal(recording.traffic["prototype"], before)
    assert bool(next(recording.module().parameters()).any())


def test_what_an_attack_notes_on_itself_its_blind_guess_does_not_find(run):
    class Noting(Writing):
        def run(self, view, rng):
            assert "noted" not in vars(self)
            vars(self)["noted"] = first(view).payload
            return [Guess("client/0", view.round, {"x": torch.zeros(1)})]

        blind = run

    attack, recording = Noting(), again(run)
    for blind in (False, True, False):
        assert attack(View(attack.threat, recording, ROUNDS), blind=blind)


def test_a_guess_that_is_the_message_itself_is_a_copy_of_it(run):
    class Handing(Writing):
        def run(self, view, rng):
            payload = first(view).payload
            guess = Guess("client/0", view.round, {"x": payload})
            held.append(payload)
            return [guess]

    held: list[torch.Tensor] = []
    attack = Handing()
    (guess,) = attack(View(attack.threat, again(run), ROUNDS))
    held[0].zero_()
    assert bool(guess.tensors["x"].any())


def test_messages_in_memory_stay_as_they_were_given():
    net = nn.Linear(4, 2)
    seen = leakbench.Transcript(
        net, cross_entropy, shape=(4,), aux_data=(torch.rand(3, 4), [0] * 3)
    )
    seen.add("update", [torch.ones_like(p) for p in net.parameters()], labels=[1])
    seen.add("prototype", torch.tensor([1.0, 2.0, 3.0]))

    for write, named in ((norm, "prototype"), (pop, "update"), WRITES["images"], WRITES["labels"]):
        with pytest.raises(MethodError, match=named):
            seen.attack(writing(write))
    assert all(bool((t == 1).all()) for t in seen.transcript[1].payload.values())
    assert seen.known("labels")["client/0", 1, 2, None].tolist() == [1]


def test_a_loss_with_weights_of_its_own_is_no_attacks_to_change():
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))
    seen = leakbench.Transcript(
        nn.Linear(4, 2), loss, shape=(4,), aux_data=(torch.rand(3, 4), [0] * 3)
    )
    seen.add("prototype", torch.ones(3))
    seen.attack(writing(lambda v: v.loss_method()._loss.weight.zero_()))
    assert seen.method._loss.weight.tolist() == [1, 2]
