"""Exposure: who got whose features, counted by hand, against what was really in the messages, and
against its expectation.
"""

import itertools

import pytest
import torch
from helpers.small_runs import FEATURES, again, build, obstacle, plugged, results, trained, units

from attacks.exposure import received
from leakbench import api
from leakbench.attacking import choices, guessing
from leakbench.base.errors import UsageError
from leakbench.base.streams import shared
from leakbench.judging.judging import find_questions
from leakbench.judging.verdict import judge_evidence
from leakbench.record.folders import Run
from leakbench.record.recording import Recording
from leakbench.reproduce.expected_exposure import expected
from leakbench.results.tables import collect

LOCAL = {"steps": 1, "epochs": 0, "batch": 8}


def up(t, *senders, to=-1):
    return [(t, s, to) for s in senders]


def down(t, *receivers):
    return [(t, -1, r) for r in receivers]


def got(*events, clients=4, kind="features", **more):
    """{client: the clients whose features it got}."""
    rows = torch.tensor([e for block in events for e in block], dtype=torch.int32).reshape(-1, 3)
    found = received({kind: rows}, clients, **more)
    return {i: set(found[i].nonzero().flatten().tolist()) for i in range(clients)}


REBUILT = (up(1, 0, 1), down(2, 1, 2), up(2, 1, 2), down(3, 0, 3), up(3, 0, 3))


def test_a_rebuilt_buffer_brings_what_the_round_before_sent():
    assert got(*REBUILT) == {0: {1, 2}, 1: {0}, 2: {0, 1}, 3: {1, 2}}


def test_a_buffer_that_is_kept_brings_everything():
    assert got(*REBUILT, buffer="all") == {0: {1, 2}, 1: {0}, 2: {0, 1}, 3: {0, 1, 2}}


def test_what_is_shared_before_round_1_is_got_by_all_at_once():
    assert got(up(0, 0, 1, 2, 3), down(0, 0, 1, 2, 3)) == {i: {0, 1, 2, 3} - {i} for i in range(4)}


def test_what_is_sent_after_the_broadcast_of_a_round_is_not_in_it():
    assert got(down(1, 0, 1), up(1, 2, 3)) == {0: set(), 1: set(), 2: set(), 3: set()}
    assert got(up(1, 2, 3), down(1, 0, 1)) == {0: {2, 3}, 1: {2, 3}, 2: set(), 3: set()}


def test_what_comes_in_two_steps_of_a_round_is_one_buffer():
    assert got(up(1, 2), down(1, 0), up(1, 3), down(1, 1)) == {
        0: {2},
        1: {2, 3},
        2: set(),
        3: set(),
    }


def test_a_sum_exposes_nobody_singly():
    assert got(up(1, 0, 1, to=-2), down(2, 2, 3)) == {0: set(), 1: set(), 2: set(), 3: set()}


def test_kinds_are_followed_apart_and_counted_together():
    a, b = (
        torch.tensor(e, dtype=torch.int32)
        for e in ([*up(1, 0), *down(3, 1)], [*up(2, 2), *down(2, 1), *down(3, 3)])
    )
    both = received(
        {"features": a, "data": b, "mean_data": torch.zeros((0, 3), dtype=torch.int32)}, 4
    )
    assert both.nonzero().tolist() == [[1, 0], [1, 2], [3, 2]]


# against what was in the messages -----------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    flea = {"fraction": 0.2, **LOCAL}
    return {
        "flea": trained(out, "flea", 9, params=flea, record="all"),
        "other": trained(out, "flea", 9, params=flea, record="all", seed=1),
        "fedmix": trained(out, "fedmix", 2, params=LOCAL, record="all"),
        "feddata": trained(out, "feddata", 2, params={**LOCAL, "shared_batch": 8}, record="all"),
    }


@pytest.mark.parametrize(
    ("name", "kind"), [("flea", "features"), ("fedmix", "mean_data"), ("feddata", "data")]
)
def test_every_row_of_a_buffer_is_one_that_a_claimed_sender_sent(runs, name, kind):
    """And every claimed sender's rows are in it. What a client got until t is counted from payloads
    alone, then compared.
    """
    recording, seen = again(runs[name]), 0
    sent = [m for m in recording.transcript if m.kind == kind]
    content = torch.zeros(10, 10, dtype=torch.bool)
    for broadcast in (m for m in sent if m.sender == "server"):
        buffer = {row.numpy().tobytes() for row in broadcast.payload.flatten(1)}
        owners, rows = [], set()
        for m in sent:
            own = {row.numpy().tobytes() for row in m.payload.flatten(1)}
            if (
                m.sender != "server"
                and (m.round, m.phase) < (broadcast.round, broadcast.phase)
                and own <= buffer
            ):
                owners.append(int(m.sender.split("/")[1]))
                rows |= own
        assert rows == buffer
        table = recording.traffic[kind]
        receivers = table[(table[:, 0] == broadcast.round) & (table[:, 1] == -1)][:, 2].long()
        content[receivers[:, None], torch.tensor(owners)[None, :]] = True
        until = {kind: table[table[:, 0] <= broadcast.round]}
        claimed = received(until, 10)
        assert torch.equal(claimed, content.clone().fill_diagonal_(False))
        seen += int(claimed.sum())
    assert seen


def test_a_run_exposes_what_its_own_draws_of_clients_say(runs):
    run = runs["flea"]
    folder = api.attack(run, "exposure").path
    chosen = [
        set(shared(run.seed, "select", round=t).permutation("clients", 10)[:2].tolist())
        for t in range(1, 10)
    ]
    for t in (1, 2, 5, 9):
        pairs = {
            (i, j)
            for old, new in itertools.pairwise(chosen[:t])
            for i in new
            for j in old
            if i != j
        }
        either = pairs | {(j, i) for i, j in pairs}
        assert units(folder, "exposure", round=t) == {
            f"client/{c}": sum(i == c for i, _ in pairs) / 9 for c in range(10)
        }
        assert units(folder, "exposure_undirected", round=t) == {
            f"client/{c}": sum(i == c for i, _ in either) / 9 for c in range(10)
        }


# the numbers and how they are read ----------------------------------------------------------------


def test_the_number_is_exact_and_its_control_is_sharing_with_everybody(runs):
    rows = api.attack(runs["flea"], "exposure").rows
    assert {r["round"] for r in rows} == set(range(1, 10))
    for row in rows:
        assert (row["interval"], row["low"], row["high"]) == ("exact", row["value"], row["value"])
        assert [
            row[c]
            for c in ("floor", "floor_low", "floor_high", "control", "control_low", "control_high")
        ] == [0, 0, 0, 1, 1, 1]
        assert (row["n"], row["unit"], row["rung"], row["failed"]) == (
            10,
            "client",
            "transcript",
            0,
        )
        assert "control_failed" not in row["flags"]
    first, last = (
        next(r["value"] for r in rows if (r["metric"], r["round"]) == ("exposure", t))
        for t in (1, 9)
    )
    assert first == 0 < last


@pytest.mark.parametrize("name", ["fedmix", "feddata"])
def test_what_is_shared_with_all_is_exposed_to_all_from_the_first_round(runs, name):
    rows = api.attack(runs[name], "exposure").rows
    assert {(r["metric"], r["value"]) for r in rows} == {
        ("exposure", 1.0),
        ("exposure_undirected", 1.0),
    }


def test_over_seeds_it_stays_exact_and_is_judged_by_what_it_is(runs):
    """Nothing exposed yet is not "too weak to judge", and a third is part of what there is."""
    pair = [runs["flea"], runs["other"]]
    for run in pair:
        api.attack(run, "exposure")
    tables = collect(pair)
    values = {
        s: [
            r["value"]
            for r in tables.rows("results")
            if r["attack"] == "exposure" and r["stage"] == s
        ]
        for s in ("untrained", "final")
    }
    for row in tables.rows("tradeoff"):
        assert (row["interval"], row["low"], row["high"], row["control_low"]) == (
            "exact",
            row["value"],
            row["value"],
            1,
        )
    final = next(
        r
        for r in tables.rows("tradeoff")
        if (r["attack"], r["metric"], r["stage"]) == ("exposure", "exposure", "final")
    )
    assert final["value"] == pytest.approx(sum(values["final"][::2]) / 2)
    (setting,) = tables.settings
    asked = find_questions([setting], tables.missing)
    mine = [q for q in asked if q.metric == "exposure"]
    # As if it had learnt something: in nine rounds of one step it has not.
    alive = {q.stage: q.judged[0].evidence.model_copy(update={"dead_seeds": 0}) for q in mine}
    words = {stage: judge_evidence(alive[stage]).word for stage in ("untrained", "final")}
    assert 0.1 < final["value"] < 0.5
    assert words == {"untrained": "held", "final": "leaks in part"}


def test_an_attack_is_refused_where_features_are_only_summed(tmp_path):
    with plugged("defenses", tmp_path, fedfeatures=FEATURES):
        summed = [("secure_sum", {"kinds": ["features"]})]
        run = trained(tmp_path, "fedfeatures", 1, wrappers=summed)
        assert "not summed" in choices.Fits().unfit(run)["exposure"]
        with pytest.raises(
            UsageError,
            match="no client sends the server features, means of data or data that are not summed",
        ):
            api.attack(run, "exposure")


def test_an_excerpt_is_refused_for_its_traffic_is_cut(runs):
    run = runs["flea"]
    cut = Recording(Run(run.path, {**run.meta, "excerpt": {"rounds": [5, 9]}}))
    assert obstacle(build("exposure"), again(run)) == ""
    assert (
        obstacle(build("exposure"), cut)
        == "this run is an excerpt: who sent what to whom is not all there"
    )


def test_what_the_server_does_not_pass_on_by_its_name_is_not_called_unexposed(tmp_path):
    """FedProto's server calls what it sends prototypes: of a class that one client has they are
    that client's features, number by number.
    """
    why = "the server sends clients nothing called features"
    with plugged("defenses", tmp_path, fedfeatures=FEATURES):
        run = trained(tmp_path, "fedfeatures", 2)
        with pytest.raises(UsageError, match=why):
            api.attack(run, "exposure")
    run = trained(tmp_path, "fedproto", 2, params={"fraction": 1.0, "epochs": 1}, record="all")
    with pytest.raises(UsageError, match=why):
        api.attack(run, "exposure")
    said = again(run).transcript
    sent = {m.sender: m.payload for m in said if (m.kind, m.round) == ("features", 1)}
    (got,) = [m.payload for m in said if (m.kind, m.round) == ("prototype", 2)]
    for who, mine in sent.items():
        label = int(who.removeprefix("client/"))  # one class a client
        assert torch.equal(got["mean"][label], mine[0])


def test_a_kept_buffer_is_another_attack_and_exposes_more(runs):
    newest, everything = (
        results(api.attack(runs["flea"], "exposure", buffer=b).path, "exposure")["value"]
        for b in ("newest", "all")
    )
    assert newest < everything


def test_guesses_are_the_same_again(runs):
    attack = build("exposure")
    twice = [
        guessing.guess(again(runs["flea"]), "exposure", attack) / "guess.safetensors"
        for _ in range(2)
    ]
    assert twice[0].read_bytes() == twice[1].read_bytes()


# the closed form ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clients", "chosen", "rounds"), [(4, 2, 3), (4, 1, 4), (5, 3, 3), (3, 2, 4), (4, 4, 2)]
)
@pytest.mark.parametrize("undirected", [False, True])
def test_the_closed_form_is_the_mean_over_every_possible_course(
    clients, chosen, rounds, undirected
):
    total, courses = 0, 0
    for course in itertools.product(itertools.combinations(range(clients), chosen), repeat=rounds):
        pairs = {
            (i, j) for old, new in itertools.pairwise(course) for i in new for j in old if i != j
        }
        pairs |= {(j, i) for i, j in pairs} if undirected else set()
        total, courses = total + len(pairs), courses + 1
    mean = total / courses / (clients * (clients - 1))
    assert expected(clients, chosen, rounds, undirected=undirected) == pytest.approx(
        mean, abs=1e-12
    )


def test_the_papers_round_50_is_the_directed_count():
    assert expected(100, 10, 50) == pytest.approx(1 - 0.99**49, abs=0.001)
    assert expected(100, 10, 50) < 0.40 < 0.59 < expected(100, 10, 50, undirected=True) < 0.60
    assert [expected(100, 10, t) for t in (0, 1)] == [0, 0]
    assert expected(100, 10, 2) == pytest.approx(0.01)


@pytest.mark.parametrize("undirected", [False, True])
def test_runs_come_out_at_the_closed_form_on_average(undirected):
    """Of the stream that draws the clients, for many seeds: mean within four standard errors."""
    clients, chosen, rounds = 20, 4, 15
    shares = []
    for seed in range(60):
        events = []
        for t in range(1, rounds + 1):
            who = shared(seed, "select", round=t).permutation("clients", clients)[:chosen].tolist()
            events += (down(t, *who) if t > 1 else []) + up(t, *who)
        found = received({"features": torch.tensor(events)}, clients)
        shares.append(
            float((found | found.T if undirected else found).sum()) / (clients * (clients - 1))
        )
    spread = torch.tensor(shares).std().item() / len(shares) ** 0.5
    assert (
        abs(sum(shares) / len(shares) - expected(clients, chosen, rounds, undirected=undirected))
        < 4 * spread
        < 0.03
    )


def test_what_cannot_be_is_refused():
    for bad in ((1, 1, 1), (5, 0, 1), (5, 6, 1), (5, 2, -1)):
        with pytest.raises(ValueError, match="at least 2 clients"):
            expected(*bad)
