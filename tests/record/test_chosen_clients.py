"""Who is audited may be chosen: `record.clients`."""

import json

import pytest
from helpers.run_folders import make_run
from helpers.small_runs import TASK, messages_in

from leakbench.base.errors import UsageError
from leakbench.federation.selection import select
from leakbench.record import budget, training
from leakbench.record.folders import load
from leakbench.record.policy import Policy
from leakbench.record.runspec import RunSpec, make_spec, parts
from leakbench.results.tables import collect

ONE = {"steps": 1, "batch": 4}


def spec_of(policy, *, fraction=1.0, seed=3, **more):
    params = {**ONE, "fraction": fraction}
    how = {"rounds": 6, "seed": seed, "dtype": "float64", "record": policy}
    return make_spec("fedgn", params=params, task_params=TASK, **how | more)


def run(out, policy, said=None, **more):
    say = (lambda _: None) if said is None else said.append
    return training.train_run(spec_of(policy, **more), out, say=say).path


def whole(folder, room="transcript"):
    """(round, client): probes of the updates that are kept whole."""
    found = {}
    for m in messages_in(folder / room):
        if m.kind == "update" and not m.part:
            probes = found.setdefault((m.round, m.sender), set())
            probes |= set() if m.probe is None else {m.probe}
    return found


def test_the_chosen_are_kept_whole_with_their_probes(tmp_path):
    kept = whole(run(tmp_path, Policy(clients=(7, 2), audited=2, probes=1)))
    asked = {(t, f"client/{i}") for t in (1, 3, 6) for i in (2, 7)}
    assert kept == {key: {0} for key in asked}


def test_what_is_left_of_audited_is_drawn(tmp_path):
    kept = whole(run(tmp_path, Policy(clients=(7, 2), audited=4, probes=0)))
    for t in (1, 3, 6):
        there = {sender for at, sender in kept if at == t}
        assert len(there) == 4
        assert {"client/2", "client/7"} <= there
    drawn = {sender for _, sender in kept} - {"client/2", "client/7"}
    assert len(drawn) > 2  # others in other rounds


def test_the_choice_changes_nothing_else(tmp_path):
    """The same messages cross, whoever is recorded."""
    one = run(tmp_path / "one", Policy(audited=2, probes=0))
    two = run(tmp_path / "two", Policy(clients=(7, 2), audited=2, probes=0))
    for name in ("transcript/rounds.safetensors", "checkpoint/model.safetensors", "utility.csv"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_run_json_says_who_and_gives_the_command(tmp_path):
    folder = run(tmp_path, Policy(clients=(7, 2), audited=2, probes=0))
    meta = load(folder).meta
    assert meta["spec"]["record"]["clients"] == [7, 2]
    assert "-s 'record.clients=[7, 2]'" in meta["command"]
    assert meta["missing"] == []
    assert RunSpec.build(meta["spec"], "run").folder() == folder.name


def test_a_run_without_a_choice_is_called_as_before():
    told = Policy().parameters()
    assert "clients" not in told
    plain = spec_of(Policy())
    assert "clients" not in json.loads(plain.model_dump_json())["record"]
    assert plain.identity() != spec_of(Policy(clients=(7, 2))).identity()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"clients": [2, 7, 2]}, "clients names 2 more than once; name each once."),
        (
            {"clients": [1, 2, 3], "audited": 2},
            "clients names 3 of which audited = 2 are kept; set audited = 3, or more.",
        ),
        (
            {"clients": [1], "name": "all"},
            "clients chooses among what `all` keeps anyway; leave clients out.",
        ),
        ({"clients": [-1]}, "clients.0 = -1: input should be greater than or equal to 0."),
        (
            {"clients": 7},
            "clients = 7: expected a list, for example 'clients=[7]' (in a SPEC.toml clients ="
            " [[7]]).",
        ),
    ],
)
def test_what_cannot_be_meant_is_said_in_a_sentence(values, sentence):
    with pytest.raises(UsageError) as error:
        Policy.build(values, "--record")
    assert str(error.value) == f"--record: {sentence}"


def test_a_client_that_does_not_exist_is_named():
    with pytest.raises(UsageError) as error:
        spec_of(Policy(clients=(3, 10, 99)))
    assert str(error.value) == (
        "record.clients: there is no client 10, 99; the 10 clients are 0 to 9."
    )


def rounds_with(client, fraction):
    """The audited rounds in which a client takes part, of the seed that ``spec_of`` takes."""
    method = parts(spec_of(Policy(), fraction=fraction)).method
    chosen = {t: select(method, 10, seed=3, t=t) for t in (1, 3, 6)}
    return [t for t, there in chosen.items() if client in there]


def test_who_takes_no_part_is_said_and_nobody_stands_in(tmp_path):
    """Of a round's three clients the chosen one is kept, or none."""
    client, there = next(
        (i, rounds) for i in range(10) if 0 < len(rounds := rounds_with(i, 0.3)) < 3
    )
    said = []
    policy = Policy(clients=(client,), audited=1, probes=0)
    folder = run(tmp_path, policy, said, fraction=0.3)
    assert set(whole(folder)) == {(t, f"client/{client}") for t in there}
    gone = [t for t in (1, 3, 6) if t not in there]
    (sentence,) = said
    assert sentence.startswith(f"client/{client} was chosen to be audited, but takes no part in")
    for t in gone:
        assert f"{t} (" in sentence
    assert [m["reason"] for m in load(folder).meta["missing"]] == said


def test_a_choice_of_which_nothing_would_be_recorded_is_refused(tmp_path):
    absent = [i for i in range(10) if not rounds_with(i, 0.1)]
    policy = Policy(clients=(absent[0], absent[1]), probes=0)
    with pytest.raises(UsageError) as error:
        run(tmp_path, policy, fraction=0.1)
    assert str(error.value) == (
        f"record.clients: none of {absent[0]}, {absent[1]} takes part in an audited round"
        " (1, 3, 6); let all clients take part in every round with -s fraction=1, or name others."
    )
    assert not list(tmp_path.iterdir())


def test_a_record_that_is_too_large_keeps_who_was_chosen(monkeypatch):
    """Fewer probes and fewer drawn clients, but never a part of the choice."""
    sizes = iter(range(100, 0, -10))
    monkeypatch.setattr(budget, "LIMIT", 45)
    monkeypatch.setattr(budget, "tried", lambda make: None)
    monkeypatch.setattr(budget, "predicted", lambda *_: next(sizes))
    policy = Policy(clients=(7, 2, 5, 1), audited=5)
    lowered = budget.fitted(policy, lambda: None, 6, lambda _: None)
    assert (lowered.probes, lowered.audited, lowered.clients) == (0, 4, (7, 2, 5, 1))


def test_runs_that_chose_otherwise_are_two_settings_each_named_by_its_choice(tmp_path):
    runs = [make_run(tmp_path, audited=2, chosen=chosen) for chosen in ((), (7, 2))]
    settings = collect([load(run) for run in runs]).settings
    assert sorted(s.task for s in settings) == [
        "digits (record.clients=[7,2])",
        "digits (record.clients=[])",
    ]
