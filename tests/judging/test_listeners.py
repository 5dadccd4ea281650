"""One verdict by each kind of listener, and anyone's, which is never the safer one."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.run_folders import add_attack, make_run, measure
from helpers.verdicts import BASE, by, change, known, number

from leakbench.judging.judging import find_questions
from leakbench.judging.question import TO
from leakbench.metrics.prototypes import RECOVERED
from leakbench.record.folders import load
from leakbench.results import cascade
from leakbench.results.listener import LISTENERS, listener_of, weaker
from leakbench.results.tables import collect
from leakbench.words.headlines import with_words

N = 20
ONES = [1.0] * N
WHO = ("server", "client/0", "client/3", "clients/1,4")
RANK = {"leak": 2, "part": 1, "held": 0, "none": 0}


def first(k):
    return [1.0] * k + [0.0] * (N - k)


def heard(n, who, *, name=None, active=False):
    own = change(n.attacker, observer=(who,), active=active)
    return change(n, attacker=change(own, name=name or f"{n.attacker.name} {who}"))


def attacked(*rows):
    """A setting with these single attacks, and what is made of them."""
    real = [n for n in rows if not n.attacker.paper and not n.weak]
    made = []
    for one in cascade.listeners(rows):
        own = cascade.heard_by(one, real)
        if own:
            best = by(max(own, key=lambda n: n.leak), "cascade")
            made.append(change(best, heard_by=one))
    numbers = [*rows, by(max(rows, key=lambda n: n.leak), "any_attack")]
    if made:
        numbers.append(change(max(made, key=lambda n: n.leak), heard_by=None))
    several = len(cascade.listeners(rows)) > 1
    own = known("fedgn")
    return change(own, configuration=BASE, numbers=numbers, heard=made if several else [])


def test_who_listens_is_told_by_who_attacks():
    assert listener_of(("client/3",)) == "client"
    assert listener_of(("clients/1,4",)) == "coalition"
    assert listener_of(()) == listener_of(("server",)) == "server"
    assert listener_of(("server",), active=True) == listener_of(("server+",)) == "server+"
    assert listener_of(("client/3",), active=True) == "client"
    assert listener_of(("client/3", "server")) == "server"
    assert weaker("client", "server")
    assert not weaker("server+", "server")
    assert {*TO} == {*LISTENERS}


def test_anyones_verdict_is_never_safer_than_a_listeners():
    rng, seen = np.random.default_rng(7), set()
    for _ in range(400):
        rows = []
        for i in range(int(rng.integers(2, 6))):
            value, rung = float(rng.uniform(0, 1)), str(rng.choice(["paper", "method", "public"]))
            made = number(
                value,
                rung,
                f"a{i}",
                width=float(rng.uniform(0.01, 0.3)),
                floor=float(rng.choice([0.01, 0.3, 0.6])),
                control=float(rng.choice([1.0, 0.7])),
                n=int(rng.choice([20, 300])),
            )
            rows.append(heard(made, str(rng.choice(WHO))))
        (asked,) = find_questions([attacked(*rows)], [])
        tones = [RANK[q.judged[0].verdict.tone] for q in asked.heard]
        own = asked.judged[0].verdict
        seen.add((own.tone, len(tones)))
        assert RANK[own.tone] >= max(tones, default=0), [n.attacker.observer for n in rows]
        if own.tone == "held":
            assert not any(tones)
    assert {("leak", 2), ("part", 2), ("leak", 0)} <= seen


@pytest.mark.parametrize("who", [("server", "client/0"), ("client/0", "server"), ("server",) * 2])
def test_what_another_metric_shows_lets_nobody_acquit(who):
    """Of the question's own metric little is found, of another one most."""
    little = heard(number(0.01, attack="a", width=0.01), who[0])
    much = heard(number(0.95, attack="b", metric=RECOVERED), who[1])
    setting = attacked(little)
    (alone,) = find_questions([setting], [])
    assert alone.judged[0].verdict.word == "held"
    (both,) = find_questions([change(setting, numbers=[*setting.numbers, much])], [])
    verdict = both.judged[0].verdict
    assert verdict.word == "cannot tell"
    assert [d.why.code for d in verdict.doubts] == ["found_beside"]


def test_what_a_client_found_takes_no_accusation_from_the_papers_attack_of_the_server():
    server = heard(number(0.9, "paper", "own"), "server")
    (alone,) = find_questions([attacked(server)], [])
    assert alone.judged[0].verdict.word == "leaks"
    assert alone.heard == ()
    client = heard(number(0.02, "public", "member", width=0.01), "client/0")
    (both,) = find_questions([attacked(server, client)], [])
    assert both.judged[0].verdict.word == "leaks"


def test_weaker_listeners_cost_the_strongest_nothing():
    server = heard(number(0.56, width=0.05), "server")
    more = [heard(number(0.1, attack=f"a{i}"), f"client/{i}") for i in range(6)]
    words = []
    for rows in ([server], [server, *more]):
        (asked,) = find_questions([attacked(*rows)], [])
        words.append(asked.judged[0].verdict.word)
    assert words == ["leaks", "leaks"]


def test_a_client_that_finds_nothing_acquits_of_what_clients_hear_alone(tmp_path):
    sent = [
        {"kind": "prototype", "sender": "client", "receiver": "server", "rounds": 1, "bytes": 1},
        {"kind": "prototype", "sender": "server", "receiver": "client/*", "rounds": 1, "bytes": 1},
    ]
    sent = [m | {"covered": False, "messages": 1} for m in sent]
    runs = []
    for seed in range(3):
        run = make_run(tmp_path / str(seed), seed=seed, sent=sent, hides=True)
        little = [measure("p_leak", [0.0] * N, 0.01, ONES)]
        who = {"params": {"observer": "client/0", "seed": 0}, "observer": "client/0"}
        add_attack(run, "member", little, rung="public", reads=["prototype"], **who)
        much = [measure("p_leak", first(15), 0.01, ONES)]
        add_attack(run, "member", much, rung="public", reads=["prototype"], params={"seed": 0})
        runs.append(load(run))
    tables = collect(runs)
    (asked,) = with_words(find_questions(tables.settings, tables.missing))
    words = {q.listener: q.judged[0].verdict.word for q in (asked, *asked.heard)}
    assert words == {None: "leaks", "server": "leaks", "client": "held"}
    assert [q.label for q in asked.heard] == [
        f"{asked.label}, to the server",
        f"{asked.label}, to one client",
    ]
    assert asked.heard[1].judged[0].sentence


@pytest.mark.parametrize("active", [False, True])
def test_a_server_is_of_one_kind_in_a_setting(active):
    rows = (heard(number(0.9), "server", active=active), heard(number(0.5), "client/0"))
    setting = attacked(*rows)
    run = setting.runs[0]
    line = {"kind": "model", "sender": "server", "receiver": "client/*", "changed": active}
    run.meta["sent"] = [line | {"covered": False, "rounds": 1}]
    (asked,) = find_questions([setting], [])
    kind = "server+" if active else "server"
    assert [q.listener for q in asked.heard] == [kind, "client"]
    assert all(len(q.judged) == 1 for q in asked.heard)
