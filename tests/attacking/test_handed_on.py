"""What clients that attack, alone or together, are told of others by what the server sends."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
import torch
from helpers.small_runs import again, obstacle
from pydantic import ValidationError

from leakbench import api
from leakbench.attacking.attack import Attack
from leakbench.attacking.choices import build, variants
from leakbench.attacking.guess import Guess
from leakbench.attacking.view import ThreatModel, View
from leakbench.base import registry
from leakbench.base.errors import MethodError, UsageError
from leakbench.federation.defense import Defense
from leakbench.federation.traffic import members

ROUNDS = 4
CLIENTS = 4
SPLIT = {"split": "iid", "clients": CLIENTS, "mean_local_size": 40}
ALL = {"task_params": SPLIT, "rounds": ROUNDS, "record": "all", "device": "cpu"}
QUICK = {"network": "linear", "epochs": 1, "steps": 1}  # a decoder of no use
EXACT = 1e-4  # of an update's length: two models in float32 differ by it


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Everybody in each round; one of four in each; features, and the data, handed on."""
    out = tmp_path_factory.mktemp("handed")
    plain = {"average": "plain", "fraction": 1.0, "epochs": 0, "steps": 1}
    made = {
        "fedavg": ("fedavg", plain, ()),
        "some": ("fedavg", {**plain, "fraction": 0.25}, ()),
        "half": ("fedavg", {**plain, "fraction": 0.5}, ()),
        "summed": ("fedavg", plain, [("secure_sum", {})]),
        "flea": ("flea", plain, ()),
        "shown": ("flea", {**plain, "layer": "input"}, ()),
        "feddata": ("feddata", {**plain, "share": 0.2}, ()),
    }
    return {
        name: api.train(method, params=params, wrappers=wrappers, out=out / name, **ALL)
        for name, (method, params, wrappers) in made.items()
    }


def view(run, observer, *kinds, at=ROUNDS, control=False):
    return View(ThreatModel(observer=observer, kinds=kinds), again(run), at, control=control)


def sent(run, kind, sender, t):
    """What really was sent, and is kept."""
    kept = [m for m in again(run).transcript if (m.kind, m.sender, m.round) == (kind, sender, t)]
    return next(m.payload for m in kept if m.probe is None)


def off(found, true):
    """By how much, of the length of what is true."""
    apart = sum(float((found[k] - true[k]).square().sum()) for k in true)
    return (apart / sum(float(true[k].square().sum()) for k in true)) ** 0.5


# names --------------------------------------------------------------------------------------------
def test_a_coalition_is_called_by_its_clients_in_order():
    assert members("clients/1,4,17") == (1, 4, 17)
    assert members("client/3") == (3,)
    assert members("server") == members("outsider") == ()


@pytest.mark.parametrize(
    "who", ["clients/3", "clients/4,1", "clients/1,1", "clients/", "client/1,2"]
)
def test_another_spelling_is_refused(who):
    with pytest.raises(ValidationError):
        ThreatModel(observer=who)
    with pytest.raises(UsageError, match=r"observer = .*: expected [^^]*, (client/3|each once),"):
        build("decoder", {"observer": who})


def test_every_attack_takes_an_observer_and_rows_of_the_server_are_called_as_ever():
    named = {"prototype_averaging", "prototype_centring", "prototype_from_update"}
    named |= {"prototype_spheres", "prototype_unmixing"}
    for choice in variants():
        attack = choice.attack
        assert ("observer" in attack.parameters()) == (choice.name in named)
        curious = attack.model_copy(update={"observer": "clients/0,2"})
        assert curious.threat.observer == curious.floor_threat.observer == "clients/0,2"
        assert curious.parameters()["observer"] == "clients/0,2"
        assert curious.fingerprint() != attack.fingerprint()


# models -------------------------------------------------------------------------------------------
def test_all_but_one_read_the_last_ones_update(runs):
    seen = view(runs["fedavg"], "clients/0,1,3", "update")
    found = seen.of_others(seen.messages("update"))
    assert [m.round for m in found] == [1, 2, 3]  # of the last round no model is handed on
    assert {m.sender for m in found} == {"client/2"}
    for m in found:
        assert off(m.payload, sent(runs["fedavg"], "update", "client/2", m.round)) < EXACT
        assert off(m.payload, sent(runs["fedavg"], "update", "client/1", m.round)) > 0.1


@pytest.mark.parametrize("name", ["fedavg", "summed"])
def test_one_client_reads_the_mean_of_the_others(runs, name):
    seen = view(runs[name], "client/1", "sum", "update")
    assert seen.of_others(seen.messages("update")) == []
    found = seen.messages("sum")
    assert [(m.round, m.sender) for m in found] == [(t, "aggregator") for t in (1, 2, 3)]
    for m in found:
        each = [sent(runs[name], "update", f"client/{i}", m.round) for i in (0, 2, 3)]
        mean = {k: torch.stack([u[k] for u in each]).mean(0) for k in each[0]}
        assert off(m.payload["update"], mean) < EXACT


def test_of_a_round_nothing_is_told_before_the_next_model(runs):
    assert view(runs["fedavg"], "client/1", "sum", at=1).messages("sum")
    rounds = [m.round for m in view(runs["fedavg"], "client/1", "model", at=1).messages("model")]
    assert max(rounds) == 1


def test_who_took_part_in_no_round_sees_nothing(runs):
    recording = again(runs["some"])
    took_part = {int(i) for i in recording.traffic["update"][:, 1]}
    absent = [i for i in range(CLIENTS) if i not in took_part]
    assert absent
    kinds = ("model", "update", "sum", "count")
    for i in absent:
        seen = view(runs["some"], f"client/{i}", *kinds)
        assert not any(seen.messages(kind) for kind in kinds)


def test_a_client_is_told_of_rounds_that_it_was_in_and_was_in_the_next_of(runs):
    rows, told = again(runs["half"]).traffic["model"], set()
    for i in range(CLIENTS):
        there = {int(t) for t in rows[rows[:, 2] == i][:, 0]}
        found = {m.round for m in view(runs["half"], f"client/{i}", "sum").messages("sum")}
        assert found == {t for t in there if t + 1 in there}
        told |= found
    assert told


def test_which_methods_say_that_they_add_no_mean():
    methods = {n: registry.load_plugin("defenses", n) for n in registry.names("defenses")}
    silent = {name for name, method in methods.items() if not method.adds_mean}
    assert silent == {"deepsvdd", "fedaa", "fedpcl", "fedproto"}


@pytest.mark.parametrize("name", ["fedgen", "scaffold", "fedmetric", "fedhide", "fedaws", "flea"])
def test_two_models_differ_by_the_mean_update(tmp_path, name):
    comparing = name in ("fedmetric", "fedhide", "fedaws")
    task = {} if comparing else SPLIT
    how = {**ALL, "task_params": task, "rounds": 3}
    params = {"fraction": 1.0, "average": "plain", "epochs": 0, "steps": 1}
    run = api.train(name, params=params, out=tmp_path, **how)
    n = again(run).facts.clients
    rest = "clients/" + ",".join(map(str, range(1, n)))
    seen = view(run, rest, "update", at=2)
    found = seen.of_others(seen.messages("update"))
    assert len(found) == 2
    for m in found:
        assert off(m.payload, sent(run, "update", "client/0", m.round)) < 1e-3


def test_who_says_nothing_of_a_round_of_its_own_is_taken_to_say_no():
    class Other(Defense):
        def aggregate(self, server):
            return None

    class Same(Defense):
        adds_mean: ClassVar[bool] = True

        def aggregate(self, server):
            return super().aggregate(server)

    class Plain(Defense):
        pass

    assert (Other.adds_mean, Same.adds_mean, Plain.adds_mean) == (False, True, True)


# rows ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("who", ["client/0", "clients/0,3"])
def test_features_are_those_that_stand_in_a_buffer(runs, who):
    seen = view(runs["flea"], who, "features", "labels")
    rest = {f"client/{i}" for i in range(CLIENTS)} - {f"client/{i}" for i in members(who)}
    for kind in ("features", "labels"):
        found = seen.of_others(seen.messages(kind))
        assert {m.sender for m in found} == rest
        assert {m.round for m in found} == {1, 2, 3}
        for m in found:
            assert torch.equal(m.payload, sent(runs["flea"], kind, m.sender, m.round))


def test_nothing_is_seen_of_others_that_was_not_handed_on(runs):
    """What is left of its view, once that is taken away, was sent by it or to it."""
    everything = ("features", "labels", "model", "update", "sum", "count", "data", "mean_data")
    for run in runs.values():
        recording = again(run)
        down = [m for m in recording.transcript if m.sender == "server"]
        seen = view(run, "client/2", *everything)
        for kind in everything:
            for m in seen.of_others(seen.messages(kind)):
                whole = [
                    d.payload for d in down if d.kind == kind and d.round in (m.round, m.round + 1)
                ]
                assert any(stands(m.payload, d) for d in whole)
            mine = [m for m in seen.messages(kind) if m.sender in ("client/2", "server")]
            assert all(
                "client/2" in (m.sender, m.receiver) or m.receiver == "client/*" for m in mine
            )


def stands(block, whole):
    return any(torch.equal(whole[i : i + len(block)], block) for i in range(len(whole)))


def test_handed_on_otherwise_is_not_handed_on(tmp_path):
    """FedProto's server sends means of what several sent: nobody's rows stand in them."""
    whole = {"split": "iid", "clients": CLIENTS}  # equal counts go another way
    run = api.train("fedproto", out=tmp_path, **{**ALL, "task_params": whole, "rounds": 2})
    seen = view(run, "client/0", "features", "labels", "prototype")
    assert seen.of_others(seen.messages("features")) == []


def test_inputs_that_are_handed_on_are_read_exactly(runs):
    rows = api.attack(runs["shown"], "decoder", observer="client/1").rows
    psnr = [r for r in rows if r["metric"] == "psnr"]
    assert {r["stage"] for r in psnr} >= {"untrained", "final"}
    for r in psnr:
        assert r["value"] == 100.0 > r["floor"] + 50
        assert r["observer"] == "client/1"
        assert r["failed"] == 0


def test_its_control_is_what_would_be_handed_on_with_nothing_hidden(runs):
    rows = api.attack(runs["flea"], "decoder", observer="client/1", **QUICK).rows
    for r in rows:
        assert "no_control" not in r["flags"]
        if r["metric"] == "psnr":
            assert r["control"] == 100.0 > r["value"]


# attacks ------------------------------------------------------------------------------------------
class Vain(Attack):
    """Guesses about everybody, itself among them; and of all in one guess."""

    about: ClassVar[str] = "a test"
    handed: ClassVar[Any] = "rows"
    joint: bool = False

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(kinds=("features",))

    def covers(self, guess: Guess) -> set[str]:
        return {f"client/{i}" for i in range(CLIENTS)} if self.joint else {guess.unit}

    def run(self, view: View, rng: torch.Generator) -> Sequence[Guess]:
        names = ["draw/0"] if self.joint else [f"client/{i}" for i in range(CLIENTS)]
        return [Guess(name, view.round, {"x": torch.zeros(1)}) for name in names]

    blind = run


def test_of_itself_an_observer_makes_no_guess(runs):
    attack = Vain(observer="clients/0,2")
    seen = View(attack.threat, again(runs["flea"]), 2)
    assert [g.unit for g in attack(seen)] == ["client/1", "client/3"]
    joint = Vain(observer="clients/0,2", joint=True)
    with pytest.raises(MethodError, match="is the observer itself"):
        joint(View(joint.threat, again(runs["flea"]), 2))


WHY = {
    "labels": (
        "fedavg",
        "gradient_inversion",
        {},
        "clients/0,1,2",
        "nobody tells a client the labels",
    ),
    "single": (
        "fedavg",
        "label_inference",
        {"source": "update"},
        "client/0",
        "reads single updates",
    ),
    "names": ("flea", "reidentification", {}, "client/0", "nobody tells them whose they are"),
    "nothing": ("fedavg", "decoder", {}, "client/0", "clients receive no features of other"),
    "nobody": ("flea", "decoder", {}, "client/9", "there is no client/9"),
    "all": ("flea", "decoder", {}, "clients/0,1,2,3", "nobody left to find out about"),
}


@pytest.mark.parametrize("what", WHY)
def test_why_there_is_nothing_to_read_is_said(runs, what):
    run, name, params, who, said = WHY[what]
    assert said in obstacle(build(name, {**params, "observer": who}).attack, again(runs[run]))


def test_who_took_part_in_no_two_rounds_in_a_row_is_told_so(runs):
    rows = again(runs["some"]).traffic["model"]
    there = [{int(t) for t in rows[rows[:, 2] == i][:, 0]} for i in range(CLIENTS)]
    lone = [i for i in range(CLIENTS) if not any(t + 1 in there[i] for t in there[i])]
    assert lone
    for i in lone:
        with pytest.raises(UsageError, match=f"tells client/{i} of others.*two rounds in a row"):
            api.attack(runs["some"], "membership", observer=f"client/{i}")


def test_what_several_are_together_is_asked_of_each(runs):
    rows = api.attack(runs["fedavg"], "membership", observer="client/0").rows
    auc = next(r for r in rows if r["metric"] == "membership_auc")
    assert auc["n"] == CLIENTS - 1
    assert auc["observer"] == "client/0"
    rows = api.attack(runs["fedavg"], "label_inference", observer="client/0", source="pooled").rows
    assert {r["n"] for r in rows} == {CLIENTS - 1}
