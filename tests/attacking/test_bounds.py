"""What an attacker is told is bounded by round and observer, and so is what it may guess about."""

from __future__ import annotations

import inspect
from typing import ClassVar

import pytest
import torch
from helpers.small_runs import again, trained

from leakbench.attacking import choices, guessing
from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.attacking.public_facts import Outline
from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import MethodError
from leakbench.base.tree import flat

ROUNDS = 10


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    secure = [("secure_sum", {"kinds": ["update"]})]
    return {
        "fedgn": trained(out, "fedgn", ROUNDS, params={"sigma": 0.5}, seed=3),
        "summed": trained(out, "fedavg", 2, wrappers=secure),
    }


def told(run, observer="server", rounds="all", at=5, kinds=("prototype",), control=False):
    threat = ThreatModel(observer=observer, kinds=kinds, rounds=rounds, knows=("labels",))
    return set(View(threat, again(run), at, control=control).know("labels"))


def kept(run):
    return set(again(run).known("labels"))


def test_labels_of_later_rounds_are_not_told(runs):
    found = told(runs["fedgn"])
    assert found == {k for k in kept(runs["fedgn"]) if k[1] <= 5}
    assert {k[1] for k in kept(runs["fedgn"])} > {k[1] for k in found} == {1, 5}


def test_labels_are_of_the_rounds_that_the_threat_model_grants(runs):
    assert {k[1] for k in told(runs["fedgn"], rounds="audited")} == {5}
    newest = told(runs["fedgn"], rounds="last")
    assert {k[1] for k in newest} == {5}
    assert {k[3] for k in newest} == {None}
    # Its newest update is of round 4, of which nothing was kept.
    assert told(runs["fedgn"], rounds="last", at=4) == set()


@pytest.mark.parametrize("control", [False, True])
def test_a_client_is_told_its_own_labels_alone(runs, control):
    senders = {k[0] for k in kept(runs["fedgn"]) if k[1] <= 5}
    for name in sorted(senders):
        found = told(runs["fedgn"], name, control=control)
        assert found == {k for k in kept(runs["fedgn"]) if k[0] == name and k[1] <= 5}
        assert found
    assert told(runs["fedgn"], "outsider", control=control) == set()


def test_under_secure_sum_only_the_aggregator_is_told_whose_labels_they_are(runs):
    run = runs["summed"]
    assert told(run, at=2, kinds=("sum", "update")) == set()
    assert told(run, "aggregator", at=2) == {k for k in kept(run) if k[1] <= 2} != set()
    # With nothing defended the server receives the updates themselves.
    assert told(run, at=2, kinds=("sum", "update"), control=True)


class Guessing(Attack):
    """Guesses whatever it is told to."""

    about: ClassVar[str] = "a test"
    made: ClassVar[object] = None

    @property
    def threat(self):
        return ThreatModel(kinds=("prototype", "update"), knows=())

    def run(self, view, rng):
        return self.made(view.round)

    blind = run


def guessed(runs, *names, **more):
    def made(t):
        return [Guess(name, more.get("round", t), {"x": torch.ones(1)}, **probe) for name in names]

    probe = {k: v for k, v in more.items() if k == "probe"}
    attack = type("Guessing", (Guessing,), {"made": staticmethod(made), **more.get("own", {})})()
    return attack(View(attack.threat, again(runs["fedgn"]), 5))


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"round": 6}, "the guess names round 6, and round 5 was attacked"),
        ({"round": 4}, "the guess names round 4"),
        ({"names": ["client/10"]}, "client/10: there is no such client"),
        ({"names": ["client/-1"]}, "expected the name of a unit, as client/3"),
        ({"names": ["client/01"]}, "expected the name of a unit"),
        ({"names": ["server"]}, "expected the name of a unit"),
        ({"names": ["client/1/2"]}, "expected the name of a unit"),
        ({"probe": 99}, "it sent no probe 99 in round 5"),
        ({"names": ["client/1", "client/1"]}, "guessed one unit twice at round 5"),
        ({"own": {"covers": lambda *_: {"client/77"}}}, "client/77, which does not exist"),
    ],
    # Of a dict its keys: the repr of a function differs between processes.
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_guess_about_what_was_not_attacked_is_refused(runs, what, why):
    more = {k: v for k, v in what.items() if k != "names"}
    with pytest.raises(MethodError, match=why):
        guessed(runs, *what.get("names", ["client/1"]), **more)


def test_a_guess_about_what_was_attacked_is_taken(runs):
    assert [g.unit for g in guessed(runs, "client/1", "client/9", "draw/0")] == [
        "client/1",
        "client/9",
        "draw/0",
    ]
    seen = View(ThreatModel(kinds=("update",)), again(runs["fedgn"]), 5)
    probe = next(m for m in seen.messages("update", round=5, probe=True))
    assert guessed(runs, probe.sender, probe=probe.probe)


def test_hooks_are_given_an_outline_and_nothing_that_leads_further(runs):
    given = []

    class Hooked(Guessing):
        made = staticmethod(lambda t: [Guess("client/1", t, {"x": torch.ones(1)})])

        def obstacle(self, run):
            given.append(run)
            return super().obstacle(run)

        def attacks(self, run):
            given.append(run)
            return super().attacks(run)

        def stages_of(self, run):
            given.append(run)
            return ("final",)

        def seconds(self, run):
            given.append(run)
            return super().seconds(run)

    recording, attack = again(runs["fedgn"]), Hooked()
    choice = choices.ReadyAttack("hooked", attack)
    assert choice.obstacle(recording) == ""
    assert choice.seconds(recording) == 1.0
    assert guessing.rounds_of(recording, attack) == [("final", ROUNDS)]
    assert len(given) == 4
    assert {type(run) for run in given} == {Outline}
    public = {n for n in dir(given[0]) if not n.startswith("_")}
    assert public == {
        *("rounds", "stages", "audited", "method", "facts", "sent", "partial", "auxiliary"),
        *("shown", "behind", "traffic", "module", "blank", "holds", "lacks"),
        *("probes", "thrower", "unreached", "pooled", "recurring", "updates", "trainable"),
        "observers",
    }
    for name in public:
        value = getattr(given[0], name)
        if not inspect.ismethod(value):
            assert str(recording.run.path) not in str(value)
            assert recording.run.id not in str(value)


def test_what_an_outline_tells_is_the_askers_own_and_only_what_is_granted(runs):
    recording = again(runs["fedgn"])
    outline = Outline(recording, ThreatModel(observer="client/3", kinds=("prototype",)))
    outline.sent[0].clear()
    outline.stages.clear()
    vars(outline.method)["sigma"] = 9.0
    outline.traffic("prototype").zero_()
    assert outline.sent[0]
    assert outline.stages
    assert outline.method.sigma == recording.method.sigma == 0.5
    rows = outline.traffic("prototype")
    assert {3, -1} >= set(rows[:, 1].tolist()) != set()
    assert len(outline.traffic("update")) == 0
    assert (outline.auxiliary, outline.behind) == (0, [])
    told = Outline(recording, ThreatModel(observer="client/3", knows=("labels", "aux_data")))
    whole = Outline(recording, ThreatModel(knows=("labels", "aux_data")))
    assert told.auxiliary == len(recording.known("aux_data"))
    assert len(told.behind) < len(whole.behind)
    assert {t for t, _, _ in whole.behind} == {1, 5, 10}


def test_a_view_of_the_control_shows_no_more_than_one_of_an_undefended_run(runs, tmp_path):
    """Its public names and their values are those of a run that hides nothing."""
    bare = trained(tmp_path, "fedgn", ROUNDS, params={"sigma": 0.0}, seed=3)
    threat = ThreatModel(kinds=("prototype",), knows=("facts", "aux_data"))
    control = View(threat, again(runs["fedgn"]), ROUNDS, control=True)
    plain = View(threat, again(bare), ROUNDS)
    names = [n for n in dir(control) if not n.startswith("_")]
    assert names == [n for n in dir(plain) if not n.startswith("_")]
    assert "control" not in names
    assert vars(control.facts) == vars(plain.facts)
    one, two = (v.messages("prototype") for v in (control, plain))
    assert [m.name for m in one] == [m.name for m in two]
    assert [*flat(one[0].payload)] == [*flat(two[0].payload)]
