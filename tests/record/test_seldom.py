"""What is sent seldom does not fall between the rounds that are kept."""

from __future__ import annotations

import pytest
import torch
from helpers.federations import federation, method

from defenses.fedgn import FedGN
from leakbench.record.messages import read_messages, round_file
from leakbench.record.policy import FIRST, UPLINK_LIMIT, Policy
from leakbench.record.recorder import Recorder

ROUNDS = 30
SPARSE = Policy(last=1, decade=1, spaced=0, audited=1, probes=0)


class Seldom(FedGN):
    """FedGN whose clients once send raw inputs, in a round that nobody audits."""

    def round(self, fed):
        if fed.t in (7, 9, 11, 13, 17):
            fed.clients(self.raw)
        super().round(fed)

    def raw(self, me):
        return {"data": me.data.x[:2]}


def test_the_first_rounds_of_a_kind_are_kept_whenever_they_are(tmp_path):
    fed = federation(Seldom(**method("fedgn").parameters()))
    fed.recorder = Recorder(tmp_path, ROUNDS, SPARSE)
    fed.begin()
    for _ in range(20):
        fed.step()
    names = sorted(p.name for p in (tmp_path / "transcript").iterdir())
    found = read_messages(tmp_path / "transcript", names)
    kept = sorted({m.round for m in found if m.kind == "data"})
    assert kept == [7, 9, 11]
    assert not any(SPARSE.surveys(t, ROUNDS) for t in kept)
    assert round_file(7) in names
    raw = next(m for m in found if m.kind == "data" and m.sender == "client/0")
    assert torch.equal(raw.payload, fed.data.train.images(fed.data.rows[0, :2]))


@pytest.mark.parametrize(("times", "kept"), [(1, True), (FIRST, True), (FIRST + 1, False)])
def test_so_many_of_them(times, kept):
    how = {"uplink": True, "fraction": 1.0, "times": times}
    assert SPARSE.keeps("data", 100, 7, ROUNDS, **how) is kept
    assert not SPARSE.keeps("data", UPLINK_LIMIT + 1, 7, ROUNDS, **how)
    assert not SPARSE.keeps("update", 100, 7, ROUNDS, **how)
