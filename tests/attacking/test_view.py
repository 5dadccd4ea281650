"""What an attack can see: what its threat model declares, and nothing else."""

from __future__ import annotations

import inspect

import pytest
import torch
from helpers.small_runs import again, copied, listed, messages_in, trained
from pydantic import ValidationError

from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import ThreatViolation, UsageError
from leakbench.base.files import write_tree
from leakbench.record.folders import Run
from leakbench.record.messages import write_messages

ROUNDS = 10


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Prototypes from half of the clients a round; each its own row from the server; sums only;
    features.
    """
    out = tmp_path_factory.mktemp("runs")
    secure = [("secure_sum", {"kinds": ["update"]})]
    return {
        "fedgn": trained(
            out, "fedgn", ROUNDS, params={"sigma": 0.5, "fraction": 0.4, "select": "random"}, seed=3
        ),
        "fedaws": trained(out, "fedaws", ROUNDS, params={"fraction": 0.4, "select": "random"}),
        "summed": trained(out, "fedgn", 4, wrappers=secure),
    }


@pytest.fixture(scope="module")
def fedgn(runs) -> Run:
    return runs["fedgn"]


def view(
    run,
    observer="server",
    kinds=("prototype", "model"),
    rounds="all",
    knows=(),
    at=ROUNDS,
    control=False,
):
    return View(
        ThreatModel(observer=observer, kinds=kinds, rounds=rounds, knows=knows),
        again(run),
        at,
        control=control,
    )


def places(messages):
    return [(m.round, m.sender, m.receiver) for m in messages]


def test_a_kind_that_is_not_declared_is_named(fedgn):
    seen = view(fedgn, kinds=("prototype",))
    for ask in (seen.messages, seen.traffic):
        with pytest.raises(ThreatViolation, match=r"'model'.*declared kinds.*prototype"):
            ask("model")


@pytest.mark.parametrize(
    "what", ["method", "facts", "labels", "sizes", "aux_data", "true_prototypes", "norm_statistics"]
)
def test_knowledge_that_is_not_declared_is_named(fedgn, what):
    others = tuple({"method", "facts", "labels", "aux_data"} - {what})
    with pytest.raises(ThreatViolation, match=f"'{what}' is not in the declared knowledge"):
        view(fedgn, knows=others).know(what)


@pytest.mark.parametrize(
    ("short", "what"),
    [("method", "method"), ("module", "method"), ("facts", "facts"), ("loss_method", "method")],
)
def test_shortcuts_ask_for_leave_too(fedgn, short, what):
    seen = view(fedgn, knows=("labels",))
    with pytest.raises(ThreatViolation, match=f"'{what}'"):
        seen.loss_method() if short == "loss_method" else getattr(seen, short)


def test_declared_knowledge_is_there(fedgn):
    seen = view(fedgn, knows=("method", "facts", "labels", "aux_data"))
    assert seen.method.sigma == 0.5
    assert seen.facts.clients == 10
    assert {int(c) for c in seen.know("aux_data").y} == set(range(10))
    labels = seen.know("labels")
    sender, at, phase, probe = next(k for k in labels if k[3] == 0)
    # Client c has the digit c.
    assert torch.equal(labels[sender, at, phase, probe], torch.tensor([int(sender.split("/")[1])]))
    module = seen.module
    assert not module.training


def test_a_kind_that_does_not_exist_is_refused_before_anything_is_read(fedgn):
    with pytest.raises(UsageError, match="'prototypes', which does not exist"):
        view(fedgn, kinds=("prototypes",))


@pytest.mark.parametrize("observer", ["srver", "client", "client/x", "client/-1", "everybody"])
def test_an_observer_that_does_not_exist_is_refused(observer):
    with pytest.raises(ValidationError):
        ThreatModel(observer=observer)


def test_the_server_sees_every_uplink_and_its_own_broadcasts(fedgn):
    seen, recording = view(fedgn), again(fedgn)
    assert len(seen.messages("prototype")) == len(
        [m for m in recording.transcript if m.kind == "prototype"]
    )
    assert {m.sender for m in seen.messages("prototype")} > {"server", "client/0"}


def test_a_client_sees_its_own_messages_and_the_broadcasts_of_its_own_rounds(fedgn):
    recording = again(fedgn)
    mine = {int(t) for t, sender, _ in recording.traffic["prototype"].tolist() if sender == 3}
    assert 0 < len(mine) < ROUNDS
    seen = view(fedgn, "client/3")
    up = [m for m in seen.messages("prototype") if m.sender != "server"]
    down = [m for m in seen.messages("prototype") if m.sender == "server"]
    assert {m.sender for m in up} == {"client/3"}
    assert {m.round for m in up} == mine
    assert {m.round for m in down} == mine
    assert {m.round for m in seen.messages("model")} <= mine
    assert places(view(fedgn, "client/3", kinds=("update",)).messages("update"))
    assert {
        m.sender for m in view(fedgn, "client/3", kinds=("update",)).messages("update", probe=True)
    } <= {"client/3"}


def test_a_client_sees_its_own_row_of_what_everybody_gets_apart(runs):
    down = [
        m for m in view(runs["fedaws"], "client/3").messages("prototype") if m.sender == "server"
    ]
    assert down
    assert {m.receiver for m in down} == {"client/3"}
    everything = [
        m
        for m in again(runs["fedaws"]).transcript
        if m.kind == "prototype" and m.sender == "server"
    ]
    assert {m.receiver for m in everything} > {"client/3"}


def test_traffic_is_what_the_observer_saw_pass_kept_or_not(fedgn):
    every = again(fedgn).traffic["update"]
    assert torch.equal(view(fedgn, kinds=("update",)).traffic("update"), every)
    assert len(every) == 4 * ROUNDS  # of which a few were kept
    mine = view(fedgn, "client/3", kinds=("update", "model"))
    assert set(mine.traffic("update")[:, 1].tolist()) == {3}
    assert set(mine.traffic("model")[:, 2].tolist()) == {3}
    assert set(view(fedgn, kinds=("update",), at=4).traffic("update")[:, 0].tolist()) == {
        1,
        2,
        3,
        4,
    }
    assert view(fedgn, kinds=("features",)).traffic("features").shape == (0, 3)


def test_an_outsider_sees_nothing(fedgn):
    seen = view(fedgn, "outsider", kinds=("prototype", "model", "update"))
    for kind in ("prototype", "model", "update"):
        assert seen.messages(kind) == []
        assert len(seen.traffic(kind)) == 0


def test_under_secure_sum_the_server_sees_sums_and_the_aggregator_what_it_adds(runs):
    kinds = ("update", "sum", "prototype")
    server = view(runs["summed"], kinds=kinds, at=4)
    assert server.messages("update") == server.messages("update", probe=True) == []
    assert len(server.traffic("update")) == 0
    assert {m.sender for m in server.messages("sum")} == {"aggregator"}
    assert {m.sender for m in server.messages("prototype")} > {"client/0"}  # not covered
    aggregator = view(runs["summed"], "aggregator", kinds=kinds, at=4)
    assert {m.receiver for m in aggregator.messages("update")} == {"aggregator"}
    assert len(aggregator.traffic("update")) == 40
    assert aggregator.messages("prototype") == []


def test_last_gives_one_sum_too(runs):
    seen = view(runs["summed"], kinds=("sum", "update"), rounds="last", at=4)
    assert [m.round for m in seen.messages("sum")] == [4]


def test_the_control_of_secure_sum_has_the_single_updates_and_no_sum(runs):
    seen = view(runs["summed"], kinds=("update", "sum"), at=4, control=True)
    assert seen.messages("sum") == []
    assert {m.receiver for m in seen.messages("update")} == {"server"}


def test_last_is_each_senders_newest(fedgn):
    newest: dict[int, int] = {}
    for t, sender, _ in again(fedgn).traffic["prototype"].tolist():
        newest[sender] = max(t, newest.get(sender, 0))
    seen = view(fedgn, kinds=("prototype",), rounds="last").messages("prototype")
    up = {int(m.sender.split("/")[1]): m.round for m in seen if m.sender != "server"}
    assert up == {c: t for c, t in newest.items() if c >= 0}
    assert [m.round for m in seen if m.sender == "server"] == [ROUNDS]


def test_last_never_offers_an_older_message_for_a_lost_one(fedgn, tmp_path):
    before = {
        m.sender: m.round
        for m in view(fedgn, kinds=("prototype",), rounds="last").messages("prototype")
    }
    lost = next(c for c, t in before.items() if c != "server" and t == ROUNDS)
    run = copied(fedgn, tmp_path)
    file = f"transcript__round_{ROUNDS:06d}"

    def without(path):
        kept = [
            m
            for m in messages_in(path.parent)
            if m.round == ROUNDS and not (m.sender == lost and m.kind == "prototype")
        ]
        write_messages(path, kept)

    after = {
        m.sender: m.round
        for m in view(listed(run, **{file: without}), kinds=("prototype",), rounds="last").messages(
            "prototype"
        )
    }
    assert lost in {m.sender for m in again(run).transcript if m.kind == "prototype"}, (
        "an older one is there"
    )
    assert after == {c: t for c, t in before.items() if c != lost}


def test_last_leaves_probes_out_and_takes_the_last_phase(fedgn, tmp_path):
    assert view(fedgn, kinds=("update",), rounds="last").messages("update", probe=True) == []
    run = copied(fedgn, tmp_path)

    def twice(path):
        found = [m for m in messages_in(path.parent) if m.round == ROUNDS]
        model = next(m for m in found if m.kind == "model")
        write_messages(
            path, [*found, type(model)(ROUNDS, 9, "server", model.receiver, "model", model.payload)]
        )

    seen = view(listed(run, **{f"transcript__round_{ROUNDS:06d}": twice}), rounds="last")
    assert [(m.round, m.phase) for m in seen.messages("model")] == [(ROUNDS, 9)]


def test_audited_is_the_attacked_round_and_the_one_before(fedgn):
    for at in (1, 5, ROUNDS):
        seen = view(fedgn, kinds=("prototype",), rounds="audited", at=at).messages("prototype")
        assert {m.round for m in seen} == {t for t in (at - 1, at) if t > 0}


@pytest.mark.parametrize("rounds", ["all", "last", "audited"])
def test_later_rounds_are_invisible(fedgn, rounds):
    for at in (1, 5):
        seen = view(fedgn, kinds=("prototype", "model", "update"), rounds=rounds, at=at)
        for kind in ("prototype", "model", "update"):
            assert all(
                m.round <= at for m in [*seen.messages(kind), *seen.messages(kind, probe=True)]
            )
            assert all(t <= at for t in seen.traffic(kind)[:, 0].tolist())
        assert seen.messages("prototype")


def test_messages_can_be_asked_for_by_sender_round_and_phase(fedgn):
    seen = view(fedgn, kinds=("prototype", "update"))
    some = seen.messages("prototype", sender="client/3")
    assert {m.sender for m in some} == {"client/3"}
    one = seen.messages("prototype", sender="client/3", round=some[0].round, phase=some[0].phase)
    assert one == [some[0]]
    assert all(m.probe is not None for m in seen.messages("update", probe=True))
    assert all(m.probe is None for m in seen.messages("update"))
    assert [m.round for m in seen.messages("prototype")] == sorted(
        m.round for m in seen.messages("prototype")
    )


def test_the_control_has_the_undefended_method_its_messages_and_the_runs_own_loss(fedgn):
    seen, bare = (view(fedgn, knows=("method",), rounds="last", control=c) for c in (False, True))
    assert (seen.method.sigma, bare.method.sigma) == (0.5, 0.0)
    assert bare.method == seen.method.undefended()
    assert bare.loss_method() == seen.method
    assert places(seen.messages("prototype")) == places(bare.messages("prototype"))
    for hidden, plain in zip(seen.messages("prototype"), bare.messages("prototype"), strict=True):
        assert torch.equal(hidden.payload, plain.payload) == (hidden.sender == "server")


def test_no_public_attribute_of_a_view_leads_to_the_seed_or_the_truth(fedgn):
    """Everything reachable by public names from a view that was granted all there is, a few steps
    deep.
    """
    seen = view(
        fedgn,
        knows=("method", "facts", "labels", "aux_data"),
        kinds=("prototype", "model", "update"),
    )
    told = {name: getattr(seen, name) for name in dir(seen) if not name.startswith("_")}
    methods = {n for n, v in told.items() if inspect.ismethod(v)}
    assert methods <= {
        "covers",
        "train",
        "messages",
        "of_others",
        "traffic",
        "know",
        "loss_method",
        "same_as",
        "progress",
        "exists",
        "unwritten",
    }
    public = {n: v for n, v in told.items() if n not in methods}
    plain = {"threat", "last", "round", "method", "facts", "module", "dtype", "products", "device"}
    plain |= {"modes"}  # of layers: which train
    plain |= {"recipe"}
    plain |= {"observers", "others"}  # clients that observe, and the rest
    assert set(public) == plain
    for name, value in [*public.items(), ("loss_method", seen.loss_method())]:
        fields = (
            value.model_dump()
            if hasattr(value, "model_dump")
            else getattr(value, "__dict__", {"": value})
        )
        assert "seed" not in fields, name
        assert not any(str(fedgn.path) in str(v) or "truth" in str(v) for v in fields.values()), (
            name
        )
    assert again(fedgn).spec.seed == 0  # the run's is 3


def test_labels_are_there_for_what_was_recorded_and_nothing_else(fedgn):
    seen = view(fedgn, kinds=("update",), knows=("labels",))
    labels = seen.know("labels")
    names = {
        (m.sender, m.round, m.phase, m.probe)
        for probe in (False, True)
        for m in seen.messages("update", probe=probe)
    }
    assert names == {k for k in labels if k[1] <= ROUNDS}


def test_sizes_are_how_many_labels_could_be_granted(fedgn):
    labels = view(fedgn, kinds=("update",), knows=("labels",)).know("labels")
    sizes = view(fedgn, kinds=("update",), knows=("sizes",)).know("sizes")
    assert sizes == {k: len(y) for k, y in labels.items()}
    assert set(sizes.values()) - {1}


def test_knowledge_that_the_run_does_not_hold_is_said_in_one_sentence(fedgn):
    with pytest.raises(UsageError, match="holds no knowledge called 'norm_statistics'"):
        view(fedgn, knows=("norm_statistics",)).know("norm_statistics")


def test_what_is_seen_is_what_lies_in_the_folder_now(fedgn, tmp_path):
    """A changed file is refused, never used: the view reads through the list of hashes."""
    run = copied(fedgn, tmp_path)
    write_tree(
        run.path / "known" / "aux_data.safetensors",
        {"x": torch.zeros(1, 1, 8, 8), "y": torch.zeros(1)},
        {},
    )
    with pytest.raises(UsageError, match=r"aux_data.safetensors was changed or damaged"):
        view(run, knows=("aux_data",)).know("aux_data")
