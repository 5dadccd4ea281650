"""Whose data a client has: found where each client has one person's, and chance where nothing tells
it; refused where the class alone does.
"""

from __future__ import annotations

import pytest
import torch
from helpers.digit_writers import WRITERS
from helpers.small_runs import FEW_PROBES, Lazily, build, obstacle, plugged

from attacks._changed_rows import Rows
from leakbench import api
from leakbench.attacking.guessing import attack_described
from leakbench.attacking.isolated import handed, write_handout
from leakbench.attacking.public_facts import Outline
from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import NotMeasured, ThreatViolation
from leakbench.base.files import read_tree
from leakbench.metrics import ATTRIBUTE_ACCURACY, ATTRIBUTE_AUC
from leakbench.record.knowledge import FILES
from leakbench.record.recording import Recording
from leakbench.scoring.truth import Truth

CLIP, LARGEST = ("clip_noise", {"clip": 1.0, "noise": 0.0}), ("top_k", {"share": 0.1})
NOISED = ("clip_noise", {"clip": 5.0, "noise": 0.02})
DRAWN = ("top_k", {"share": 0.1, "choose": "random"})


def covering(wrapper, kind):
    return wrapper[0], wrapper[1] | {"kinds": [kind]}


COVERED = {
    "flea_clipped": ("flea", covering(CLIP, "features")),
    "flea_noised": ("flea", covering(NOISED, "features")),
    "flea_largest": ("flea", covering(LARGEST, "features")),
    "feddata_clipped": ("feddata", covering(CLIP, "data")),
    "feddata_drawn": ("feddata", covering(DRAWN, "data")),
    "fedmix_clipped": ("fedmix", covering(CLIP, "mean_data")),
}
SENDS = {"fedavg": "attribute", "flea": "shared_attribute", "feddata": "shared_attribute"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Of each method a run whose clients have one writer each, who writes in a way of their own.

    And of two of them one where nothing shows who wrote.
    """
    out = tmp_path_factory.mktemp("runs")

    def trained(method, *wrappers, **task):
        how = {"rounds": 3, "device": "cpu", "record": FEW_PROBES, "out": out}
        how["wrappers"] = wrappers
        params = {"fraction": 1.0, "epochs": 2, "lr": 0.01, "batch": 16}
        how["params"] = params | ({"layer": "first"} if method == "flea" else {})
        return api.train(method, task="digit-writers", task_params=task, **how)

    with plugged("leakbench.tasks", out, digit_writers=WRITERS):
        yield Lazily(
            **{name: lambda name=name: trained(name) for name in SENDS},
            unmarked=lambda: trained("fedavg", styles=False, deal_by="class", split="iid"),
            unmarked_flea=lambda: trained("flea", styles=False, split_param=2.0),
            fedmix=lambda: trained("fedmix"),
            **{name: lambda by=by: trained(*by) for name, by in COVERED.items()},
            digit=lambda: trained("fedavg", attribute="digit", split="iid"),
            none=lambda: trained("fedavg", attribute="none", deal_by="class", split="iid"),
        )


def guessed(run, name, *, blind=False, **params):
    attack = build(name, **params)
    recording = Recording(run)
    return attack(View(attack.threat, recording, recording.rounds), blind=blind)


def mean(metric, guesses, truth, role="score"):
    of = getattr(metric, role)
    scores = [s.value for g in guesses for s in of(g, truth.answer(g))]
    return sum(scores) / len(scores)


@pytest.mark.parametrize("signal", ["loss", "shadows", "both"])
def test_updates_tell_whose_data_a_client_has(runs, signal):
    run = runs["fedavg"]
    guesses, truth = guessed(run, "attribute", signal=signal), Truth(run)
    assert len(guesses) >= 5
    assert mean(ATTRIBUTE_AUC, guesses, truth) > 0.9
    assert 0.3 < mean(ATTRIBUTE_AUC, guesses, truth, "floor") < 0.7


@pytest.mark.parametrize("method", ["flea", "feddata"])
def test_what_is_shared_tells_whose_it_is(runs, method):
    run = runs[method]
    guesses, truth = guessed(run, "shared_attribute"), Truth(run)
    assert mean(ATTRIBUTE_AUC, guesses, truth) > 0.95
    assert mean(ATTRIBUTE_ACCURACY, guesses, truth) > 0.9
    assert mean(ATTRIBUTE_ACCURACY, guesses, truth, "floor") < 0.5
    assert all(g.accepted for g in guesses)


@pytest.mark.parametrize("signal", ["loss", "shadows", "both"])
@pytest.mark.parametrize("times", [1e6, float("nan")])
def test_a_client_that_sends_what_is_no_update_hides_nobody_else(runs, signal, times):
    run, attack = runs["fedavg"], build("attribute", signal=signal)
    recording = Recording(run)
    view = View(attack.threat, recording, recording.rounds)
    sent = view.messages("update")
    whose = sent[0].sender
    for m in sent:
        if m.sender == whose:
            vars(m)["payload"] = {k: times * torch.ones_like(v) for k, v in m.payload.items()}
    guesses = attack.run(view, torch.Generator().manual_seed(0))
    others = [g for g in guesses if g.unit != whose]
    assert len(others) >= 4
    assert mean(ATTRIBUTE_AUC, others, Truth(run)) > 0.9


def test_means_tell_whose_examples_they_are_of(runs):
    guesses = guessed(runs["fedmix"], "shared_attribute")
    assert mean(ATTRIBUTE_AUC, guesses, Truth(runs["fedmix"])) > 0.9
    assert not any("named" in g.tensors for g in guesses)


@pytest.mark.parametrize("run", COVERED)
def test_what_a_wrapper_did_to_what_is_shared_hides_nobody(runs, run):
    """A scale is undone; noise, and numbers that were not sent, the classifier learns with."""
    guesses = guessed(runs[run], "shared_attribute")
    assert mean(ATTRIBUTE_AUC, guesses, Truth(runs[run])) > 0.8


def test_a_row_that_is_not_finite_is_one_row():
    x = torch.tensor([[1.0, 2.0], [float("nan"), 0.0], [1e300, 0.0], [3.0, 4.0]]).double()
    rows = Rows.of(x, torch.ones_like(x, dtype=torch.bool))
    assert rows.at.tolist() == [0, 3]
    assert rows.x.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_message_that_cannot_be_read_hides_no_other(runs):
    run, attack = Recording(runs["flea"]), build("shared_attribute")
    view = View(attack.threat, run, run.rounds)
    whole = {g.unit: g.tensors["attribute"] for g in attack(view)}
    for m in view.messages("features", sender="client/0", round=3):
        vars(m)["payload"] = torch.full_like(m.payload, float("nan"))
    rng = torch.Generator().manual_seed(0)
    found = {g.unit: g for g in attack.run(view, rng)}
    assert not any(g.failed or len(g.tensors["named"]) != 13 for g in found.values())
    best = {c: int(g.tensors["attribute"].argmax()) for c, g in found.items()}
    assert best == {c: int(v.argmax()) for c, v in whole.items()}


@pytest.mark.parametrize(("method", "name"), SENDS.items())
def test_of_permuted_attributes_nothing_is_found(runs, method, name):
    """The guess is the same whatever is true."""
    run = runs[method]
    guesses, found = guessed(run, name), []
    for i in range(8):
        truth = Truth(run)
        whole = truth.data["attribute"]
        rng = torch.Generator().manual_seed(i)
        truth.data["attribute"] = whole[torch.randperm(len(whole), generator=rng)]
        found.append(mean(ATTRIBUTE_AUC, guesses, truth))
    assert abs(sum(found) / len(found) - 0.5) < 0.15


@pytest.mark.parametrize(("run", "name"), [("unmarked", "attribute"), ("unmarked_flea", "shared")])
def test_where_nothing_shows_who_wrote_nobody_finds_it(runs, run, name):
    run = runs[run]
    guesses, truth = guessed(run, name.replace("shared", "shared_attribute")), Truth(run)
    assert abs(mean(ATTRIBUTE_AUC, guesses, truth) - 0.5) < 0.25
    if "named" in guesses[0].tensors:
        assert mean(ATTRIBUTE_ACCURACY, guesses, truth) < 0.4
        assert not any(g.accepted for g in guesses)


@pytest.mark.parametrize(
    ("method", "name"), [("fedavg", "attribute"), ("flea", "shared_attribute")]
)
def test_who_reads_few_rounds_has_not_heard_out_all(runs, method, name):
    """Else an attack that was shortened would acquit."""
    run = Recording(runs[method])
    for rounds, out in ((1, False), (2, True)):
        attack = build(name, rounds=rounds)
        assert attack.hears_out(Outline(run, attack.threat)) == out
        assert attack_described(run, name, attack, 0.0)["pools"] == out


def test_where_the_class_tells_it_the_question_is_refused(runs):
    run = runs["digit"]
    guess, truth = guessed(run, "attribute", signal="loss")[0], Truth(run)
    for role in ("score", "floor"):
        with pytest.raises(NotMeasured, match="class alone tells"):
            getattr(ATTRIBUTE_AUC, role)(guess, truth.answer(guess))


def test_a_task_that_tells_nothing_is_not_attacked(runs):
    run = runs["none"]
    assert FILES["attributes"] not in run.meta["files"]
    assert "attribute" not in Truth(run).data
    assert "task.attribute" in obstacle(build("attribute"), Recording(run))


def test_known_examples_are_nobodys_and_who_is_not_granted_them_has_none(runs):
    run = runs["fedavg"]
    known = read_tree(run.path / FILES["attributes"])[0]
    private = {x.numpy().tobytes() for x in Truth(run).data["x"].double()}
    assert not private & {x.numpy().tobytes() for x in known["x"].double()}
    bare = ThreatModel(kinds=("update",), knows=("aux_data",))
    view = View(bare, Recording(run), run.meta["spec"]["rounds"])
    assert view.know("aux_data").attribute is None
    with pytest.raises(ThreatViolation, match="attributes"):
        view.know("attributes")


@pytest.mark.parametrize(
    ("method", "name"), [("fedavg", "attribute"), ("flea", "shared_attribute")]
)
def test_what_is_handed_out_says_the_same(runs, tmp_path, method, name):
    """To an attack in a process of its own."""
    recording = Recording(runs[method])
    attack = build(name, rounds=1)
    view = View(attack.threat, recording, recording.rounds)
    write_handout(view, recording.spec, tmp_path)
    for here, there in zip(attack(view), attack(handed(tmp_path)), strict=True):
        assert here.unit == there.unit
        assert here.tensors.keys() == there.tensors.keys()
        assert all(torch.equal(v, there.tensors[k]) for k, v in here.tensors.items())


def test_a_client_with_as_many_of_each_is_no_unit():
    class One:
        class truth:
            memo = {"attribute_by_class": (torch.tensor([[0.5, 0.5]]), 0.5, 2)}

        attribute_counts = torch.tensor([7, 7])

    class Guess:
        tensors = {"attribute": torch.tensor([0.0, 1.0])}
        unit = "client/0"

    assert ATTRIBUTE_AUC.score(Guess, One) == []
    with pytest.raises(NotMeasured, match="as many examples of each value"):
        ATTRIBUTE_AUC.across([(Guess, One)])
