"""What of a loop's messages stays on the disk: what attacks read, once, and the record says so."""

from types import SimpleNamespace

import pytest
import torch
from helpers.own_loops import CLIENTS, content, killed, loop, model, observe, step, weights

import leakbench as lb
from leakbench.base.errors import BrokenFile
from leakbench.base.reason import reason
from leakbench.base.tree import flat
from leakbench.judging.gaps import unheard
from leakbench.own.kept_messages import LIMIT, KeptMessages
from leakbench.record.messages import read_messages, round_file


def rounds_of(place, room="transcript"):
    return sorted(int(p.stem[6:]) for p in (place / room).glob("round-*"))


def recorded(out, last, **how):
    with observe(out, **how) as seen:
        loop(seen, 1, last)
    return seen.run


@pytest.mark.parametrize(
    ("how", "stages"),
    [
        ({}, {"untrained": 1, "early": 2, "middle": 8, "final": 20}),
        ({"rounds": 20}, {"untrained": 1, "early": 2, "middle": 10, "final": 20}),
        ({"rounds": 100}, {"untrained": 1, "middle": 10, "final": 20}),  # it ended sooner
        ({"keep": {"rounds": ["untrained", "final"]}}, {"untrained": 1, "final": 20}),
        ({"keep": {"rounds": "final"}}, {"final": 20}),
    ],
)
def test_the_rounds_that_attacks_ask_for(tmp_path, how, stages):
    run = recorded(tmp_path, 20, **how)
    assert run.meta["stages"] == stages
    for room in ("transcript", "known", "truth"):
        assert rounds_of(run.path, room) == sorted(stages.values())
    said = [line["reason"] for line in run.meta["missing"]]
    assert said == [
        f"of 20 rounds the messages of {', '.join(map(str, sorted(stages.values())))} were kept:"
        " what was sent in others is not attacked"
    ]
    assert [f.detail for f in lb.verify(run) if f.outcome == "differs"] == []
    rows = lb.attack(run, "label_inference", source="update").rows
    assert {(r["stage"], r["round"]) for r in rows} == {*stages.items()}


def test_a_short_loop_is_kept_whole(tmp_path):
    run = recorded(tmp_path, 3)
    assert rounds_of(run.path) == [1, 2, 3]
    assert run.meta["missing"] == []


@pytest.mark.parametrize("last", [*range(1, 41), 63, 64, 65, 1000, 1023, 1025])
def test_few_rounds_are_held_and_each_stage_is_near(last):
    kept = KeptMessages.of(None, None, clients=3, model=100, update=100)
    held = set()
    for t in range(1, last + 1):
        held = (held | {t}) & kept.held(t)
        assert len(held) <= 7
    assert kept.held(last) == held  # nothing that was taken away is missed later
    found = kept.policy(last).stages(last)
    assert found["final"] == last
    for stage, share in (("early", 0.1), ("middle", 0.5)):
        wanted = max(1, round(share * last))
        if last > 3 and wanted > 1:
            assert 1 / 1.51 <= found.get(stage, 1) / wanted <= 1.51


@pytest.mark.parametrize("many", [1, 2])
def test_the_number_of_clients(tmp_path, many):
    run = recorded(tmp_path, 2, keep={"clients": many})
    for t in (1, 2):
        sent = read_messages(run.path / "transcript", [round_file(t)])
        assert len(sent) == 1 + many
    (line,) = run.meta["missing"]
    assert line["reason"].startswith(f"of up to 3 clients a round the updates of {many} were kept")
    assert {r["n"] for r in lb.attack(run, "label_inference", source="update").rows} <= {many}
    assert [f.detail for f in lb.verify(run) if f.outcome == "differs"] == []


def test_clients_by_name_and_one_that_takes_no_part(tmp_path):
    with observe(tmp_path, keep={"clients": [2, 0]}) as seen:
        for t in (1, 2):
            seen.sent("model", model(t), round=t)
            for c in range(CLIENTS if t == 1 else 2):
                seen.update(weights(t, c), client=c, round=t)
    whose = []
    for t in (1, 2):
        sent = read_messages(seen.run.path / "transcript", [round_file(t)])
        whose.append([m.sender for m in sent])
    assert whose == [["server", "client/0", "client/2"], ["server", "client/0"]]
    chosen, gone = [line["reason"] for line in seen.run.meta["missing"]]
    assert "clients 0, 2, by name" in chosen
    assert gone.startswith(
        "client/2 was chosen to be audited, but takes no part in round 2 (final)"
    )
    assert [f.detail for f in lb.verify(seen.run) if f.outcome == "differs"] == []


def test_no_guess_changes(tmp_path):
    """Of what is kept: the last round of a long loop, and the same of a loop kept whole."""
    found = []
    for how in ({"keep": {"rounds": "final"}}, {"rounds": 20}):
        run = recorded(tmp_path / str(len(found)), 20, **how)
        rows = lb.attack(run, "label_inference", source="update").rows
        found.append([(r["metric"], r["value"]) for r in rows if r["stage"] == "final"])
    assert found[0] == found[1] != []


@pytest.mark.parametrize("how", [{}, {"keep": {"rounds": ["final"], "clients": 1}}])
def test_gone_on_with_ends_in_the_same_bytes(tmp_path, how):
    recorded(tmp_path / "one", 20, **how)
    for last in (5, 9, 17):

        def some(seen, last=last):
            loop(seen, seen.begun + 1, last)

        killed(tmp_path / "other", some, **how)
    with observe(tmp_path / "other", **how) as seen:
        loop(seen, seen.begun + 1, 20)
    one, other = (content(tmp_path / k / "own-s0") for k in ("one", "other"))
    assert one == other


def test_every_round_of_every_client(tmp_path, capsys):
    run = recorded(tmp_path, 20, keep={"rounds": "all"})
    assert "MB for each round, of the rounds all and of 3 of 3 clients" in capsys.readouterr().err
    assert rounds_of(run.path) == [*range(1, 21)]
    assert run.meta["missing"] == []
    assert run.spec["record"]["name"] == "all"
    with pytest.raises(lb.UsageError, match="keeps every client"):
        recorded(tmp_path / "other", 1, keep={"rounds": "all", "clients": 1})


def attacker(pools, reads=("update",)):
    who = {"observer": ("server",), "listener": "server"}
    return SimpleNamespace(pools=pools, paper=False, reads=reads, **who)


@pytest.mark.parametrize(("keep", "pooled"), [(None, 4), ({"rounds": "all"}, 20)])
def test_covered_updates_of_few_rounds_acquit_nobody(tmp_path, keep, pooled):
    """Noise cancels over the rounds, so who did not keep them all says nothing of their sum."""
    run = recorded(tmp_path, 20, keep=keep, covered=["update"])
    assert run.meta["pooled"] == pooled
    setting = SimpleNamespace(runs=[run])
    topic = SimpleNamespace(kinds=("update",), contents=True, listens=False)
    alone, added, weak = (
        [SimpleNamespace(attacker=attacker(p), weak=w, able=not w)]
        for p, w in ((False, False), (True, False), (True, True))
    )
    few = [reason("few_rounds", kept=4, all=20)] if pooled < 20 else []
    assert [*unheard(topic, setting, added)] == few
    for some in (alone, weak, alone + weak):
        assert [*unheard(topic, setting, some)] == (few or [reason("not_added_up", kind="update")])
    assert [f.detail for f in lb.verify(run) if f.outcome == "differs"] == []


def test_another_keep_is_refused(tmp_path):
    killed(tmp_path, lambda seen: loop(seen, 1, 3))
    with pytest.raises(lb.UsageError, match="begun with another keep, truth or observer"):
        recorded(tmp_path, 4, keep={"clients": 1})


def net(out):
    return torch.nn.Sequential(torch.nn.Linear(5, 300), torch.nn.ReLU(), torch.nn.Linear(300, out))


def large(t, *, frozen):
    """A model whose first layer is the same in each round, or is not."""
    dice = torch.Generator().manual_seed(t)
    sizes = {k: v.shape for k, v in net(2).state_dict().items()}
    out = {k: torch.randn(*shape, generator=dice) for k, shape in sizes.items()}
    fixed = torch.randn(300, 5, generator=torch.Generator().manual_seed(99))
    return out | ({"0.weight": fixed} if frozen else {})


@pytest.mark.parametrize("frozen", [True, False])
def test_equal_tensors_are_stored_once(tmp_path, frozen):
    with observe(tmp_path, model=net, rounds=2) as seen:
        for t in (1, 2):
            here = large(t, frozen=frozen)
            seen.sent("model", here, round=t)
            for c in range(CLIENTS):
                moved = {k: 0.01 * v.sign() * (c + 1) for k, v in here.items()}
                after = {
                    k: v + moved[k] * (not (frozen and k == "0.weight")) for k, v in here.items()
                }
                seen.update(after, client=c, round=t)
    place = seen.run.path / "transcript"
    once = 300 * 5 * 4
    sizes = [(place / round_file(t)).stat().st_size // once for t in (1, 2)]
    rest = (300 + 600 + 2) * 4 * (1 + CLIENTS) // once  # of the other tensors
    assert sizes == ([rest + 2, rest] if frozen else [rest + 4, rest + 4])
    for t in (1, 2):
        sent, *_ = read_messages(place, [round_file(t)])
        assert all(torch.equal(v, sent.payload[k]) for k, v in large(t, frozen=frozen).items())
    lb.export(seen.run, tmp_path / "run.tar")
    import tarfile

    with tarfile.open(tmp_path / "run.tar") as tar:
        tar.extractall(tmp_path / "there", filter="data")
    (there,) = (tmp_path / "there").iterdir()
    names = [f"transcript/{round_file(t)}" for t in (1, 2)]
    ours, theirs = (read_messages(folder, names) for folder in (seen.run.path, there))
    for one, other in zip(ours, theirs, strict=True):
        assert one.name == other.name
        assert all(torch.equal(t, flat(other.payload)[k]) for k, t in flat(one.payload).items())


def test_a_file_that_leads_nowhere_is_damaged(tmp_path):
    with observe(tmp_path, model=net) as seen:
        for t in (1, 2):
            here = large(t, frozen=True)
            seen.sent("model", here, round=t)
            seen.update({k: v * 1.01 for k, v in here.items()}, client=0, round=t)
    place = seen.run.path / "transcript"
    (place / round_file(1)).unlink()
    with pytest.raises(BrokenFile, match="is missing"):
        read_messages(place, [round_file(2)])


def test_what_was_not_covered_is_no_control_of_its_own(tmp_path):
    with observe(tmp_path, covered=["update"]) as seen:
        seen.sent("model", model(1), round=1)
        for c in range(CLIENTS):
            bare = weights(1, c) if c else step(1, c, 2.0)
            bare = {k: v + model(1)[k] for k, v in bare.items()} if not c else bare
            seen.update(weights(1, c), client=c, round=1, uncovered=bare)
    (there,) = read_messages(seen.run.path / "control", [round_file(1)])
    assert there.sender == "client/0"


def test_by_size_where_nothing_is_said():
    def many(size, clients=50):
        return KeptMessages.of(None, None, clients=clients, model=size, update=size).many

    assert many(1000) == 50
    assert many(LIMIT // 4 // 11) == 10
    assert many(LIMIT) == 2
    assert many(LIMIT, clients=1) == 1


def test_the_size_is_said_before_the_first_round(tmp_path, capsys):
    recorded(tmp_path, 1, keep={"rounds": "final", "clients": 2})
    line, *_ = capsys.readouterr().err.splitlines()
    said = (
        "leakbench: own-s0 will take up to 0.1 MB, of the rounds final and of 2 of 3 clients; keep="
    )
    assert line.startswith(said)


WRONG = {
    "no dict": ("all", "keep is str"),
    "another key": ({"clinets": 2}, "did you mean"),
    "another stage": ({"rounds": ["finl", "final"]}, "'finl'"),
    "numbers": ({"rounds": [1, 2]}, "with 1: expected some of untrained"),
    "a number": ({"rounds": 3}, "rounds = 3"),
    "no final": ({"rounds": ["early"]}, "without 'final'"),
    "nobody": ({"clients": 0}, "clients = 0"),
    "an empty list": ({"clients": []}, "clients = []"),
    "a stranger": ({"clients": [0, 7]}, "keep has client 7"),
    "a text": ({"clients": "all"}, "clients = 'all'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_keep_is_refused(tmp_path, what):
    keep, said = WRONG[what]
    with pytest.raises(lb.UsageError) as error:
        observe(tmp_path, keep=keep)
    assert said.lower() in str(error.value).lower()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("rounds", [0, -1, 2.5, True, "ten"])
def test_a_wrong_number_of_rounds_is_refused(tmp_path, rounds):
    with pytest.raises(lb.UsageError, match="rounds = "):
        observe(tmp_path, rounds=rounds)
