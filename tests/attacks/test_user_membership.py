"""Who took part: told where a model knows its people by heart, not where nobody trained."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from helpers.small_runs import Lazily, build, obstacle, plugged, trained

from leakbench import api
from leakbench.attacking.guess import Guess
from leakbench.attacking.isolated import handed, write_handout
from leakbench.attacking.view import View
from leakbench.base.errors import UsageError
from leakbench.data import splits
from leakbench.metrics import USER_AUC
from leakbench.record import users
from leakbench.record.policy import Policy
from leakbench.record.recording import Recording
from leakbench.tasks.digits import Digits

TASK = {
    **{"model": "mlp", "width": 128, "dim": 8, "evaluations": 10, "split": "iid"},
    **{"clients": 20, "absent": 20, "mean_local_size": 25},
}
LONG = {"batch": 32, "steps": 0, "epochs": 10, "optimizer": "adam", "lr": 1e-2, "fraction": 1.0}


def thrown(patch):
    """Labels that nobody can learn but by heart."""
    load = Digits.load

    def other(self):
        data = load(self)
        dice = torch.Generator().manual_seed(1)
        y = torch.randint(10, (len(data.train),), generator=dice)
        return replace(data, train=replace(data.train, y=y))

    patch.setattr(Digits, "load", other)


def made(folder, *, null=False):
    """A federation; ``null``: those who are said to be clients stayed away, too."""
    patch = pytest.MonkeyPatch()
    thrown(patch)
    if null:
        drawn = users.drawn

        def nobody(data, seed):
            half = len(data.absent) // 2
            rows, counts = data.absent[:half], torch.tensor([len(r) for r in data.absent[:half]])
            width = int(counts.max())
            table = torch.stack([torch.cat([r, r[:1].expand(width - len(r))]) for r in rows])
            return drawn(replace(data, rows=table, counts=counts, absent=data.absent[half:]), seed)

        patch.setattr(users, "drawn", nobody)
    try:
        task = {**TASK, "absent": 40, "mean_local_size": 18} if null else TASK
        how = {"params": LONG, "task_params": task, "record": Policy(name="all", probes=0)}
        return trained(folder, "fedavg", 6, **how)
    finally:
        patch.undo()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One that knows its people by heart, one of people of whom nobody trained."""
    out = tmp_path_factory.mktemp("runs")
    return Lazily(
        heart=lambda: made(out / "heart"),
        null=lambda: made(out / "null", null=True),
        plain=lambda: trained(out, "fedavg", 2),
    )


def found(run, **how):
    (row,) = api.attack(run.path, "user_membership", **how).rows
    return row


def test_who_was_learnt_by_heart_is_told(runs):
    row = found(runs["heart"])
    assert row["value"] > 0.9
    assert row["n"] == 20
    assert row["floor"] < 0.75
    assert row["low"] > 0.5


def test_a_client_tells_it_as_well_as_the_server(runs):
    row = found(runs["heart"], observer="client/0")
    assert row["value"] > 0.85
    assert row["n"] == 19  # of itself it is not asked
    assert found(runs["heart"], observer="clients/0,3")["n"] == 18


APART = '''
"""FedAvg, whose server sends the model to each client by itself."""

from leakbench import Each
from defenses.fedavg import FedAvg


class Apart(FedAvg):
    """The same otherwise."""

    def downlink(self, server):
        n = len(server.receivers)
        return {"model": Each({k: v.expand(n, *v.shape) for k, v in server.model.items()})}
'''


def test_a_model_that_is_sent_to_each_apart_tells_it_too(tmp_path):
    patch = pytest.MonkeyPatch()
    thrown(patch)
    try:
        with plugged("defenses", tmp_path, apart=APART):
            how = {"params": LONG, "task_params": TASK, "record": Policy(name="all", probes=0)}
            run = trained(tmp_path, "apart", 6, **how)
            assert found(run)["value"] > 0.9
            assert found(run, observer="client/0")["value"] > 0.85
    finally:
        patch.undo()


def test_of_people_of_whom_nobody_trained_it_tells_nothing(runs):
    row = found(runs["null"])
    assert row["low"] <= 0.5 <= row["high"]
    assert abs(row["value"] - 0.5) < 0.3


def test_who_stayed_away_is_nobodys_and_was_drawn():
    data = Digits.build(TASK, "task").load()
    away = torch.cat(data.absent)
    held = torch.cat([data.rows[c, :n] for c, n in enumerate(data.sizes)])
    assert not torch.isin(away, held).any()
    assert len(data.absent) == 20 == len(data.sizes)
    parts = [torch.tensor([i]) for i in range(40)]
    rest, out = splits.absent(parts, 20, "task/digits")
    assert sorted([*map(int, rest), *map(int, out)]) == [*range(40)]
    assert [*map(int, out)] not in ([*range(20)], [*range(20, 40)])


def test_numbers_say_nothing_and_each_seed_asks_about_others():
    data = Digits.build(TASK, "task").load()
    one, other = (users.drawn(data, seed) for seed in (0, 1))
    assert int((one[1] >= 0).sum()) == int((one[1] < 0).sum()) == 20
    assert not torch.equal(one[1] >= 0, other[1] >= 0)
    mine = one[0].some((one[0].client == int((one[1] == 3).nonzero())).nonzero().flatten())
    assert torch.isin(mine.marks, data.train.some(data.rows[3, : data.sizes[3]]).marks).all()


def test_nobody_is_asked_about_where_nobody_stayed_away(runs):
    assert users.drawn(Digits.build({}, "task").load(), 0) is None
    run = Recording(runs["plain"])
    assert "task.absent" in obstacle(build("user_membership"), run)
    with pytest.raises(UsageError, match="a class is one client's"):
        Digits.build({"absent": 3}, "task")
    with pytest.raises(UsageError, match="40 clients and absent ones needs"):
        Digits.build({**TASK, "mean_local_size": 60}, "task").load()


def test_what_is_handed_out_says_the_same(runs, tmp_path):
    """To an attack in a process of its own."""
    recording = Recording(runs["heart"])
    attack = build("user_membership")
    view = View(attack.threat, recording, recording.rounds)
    write_handout(view, recording.spec, tmp_path)
    for here, there in zip(attack(view), attack(handed(tmp_path)), strict=True):
        assert here.unit == there.unit
        assert torch.equal(here.tensors["user"], there.tensors["user"])


def test_other_seeds_ask_about_the_same_pairs():
    """Else people whose data are learnt easily would count anew with every seed."""
    data = Digits.build(TASK, "task").load()

    def pairs(seed):
        """Who beats whom, by what each person's data are in all seeds."""
        _, who = users.drawn(data, seed)
        easy = torch.rand(100, generator=torch.Generator().manual_seed(0))
        one = [float(easy[n]) for n in who.tolist()]
        truth = SimpleNamespace(users=who, observers=())
        guesses = [Guess(f"user/{k}", 1, {"user": torch.tensor(s)}) for k, s in enumerate(one)]
        asked = [SimpleNamespace(truth=truth, client=k) for k in range(len(who))]
        both = list(zip(guesses, asked, strict=True))
        measure = USER_AUC.across(both)
        return {s.unit: s.value for g, a in both for s in measure(g, a)}

    assert len(pairs(0)) == 20
    assert pairs(0) == pairs(1) == pairs(2)
    assert 0 < sum(pairs(0).values()) < 20


def test_who_is_paired_with_nobody_that_was_told_of_has_failed():
    truth = SimpleNamespace(users=torch.tensor([3, -1]), observers=())
    guess, answer = Guess("user/0", 1, {"user": torch.tensor(1.0)}), SimpleNamespace(truth=truth)
    answer.client = 0
    (score,) = USER_AUC.across([(guess, answer)])(guess, answer)
    assert score.failed
