"""A loop of one's own that was killed and gone on with ends in the bytes of one that was not."""

import pytest
import torch
from helpers.own_loops import CLIENTS, DATA, content, killed, loop, model, observe, step, weights

import leakbench as lb

ROUNDS = 5


def loop_with_all(seen, first, last):
    """Some clients a round, some rows, differences and gradients, scores of one's own."""
    for t in range(first, last + 1):
        chosen = [t % CLIENTS, (t + 1) % CLIENTS]
        seen.sent("model", model(t), round=t, clients=range(CLIENTS))
        seen.update(step(t, chosen[0]), client=chosen[0], round=t, what="difference", rows=[0, 2])
        seen.update(weights(t, chosen[1]), client=chosen[1], round=t, rows=[[1, 2], [3]])
        if t % 2:
            seen.utility("accuracy", [1, 0, t % 3 == 0, 1], round=t)


@pytest.mark.parametrize("tell", [loop, loop_with_all])
@pytest.mark.parametrize("after", [1, 3])
def test_the_same_bytes(tmp_path, tell, after):
    with observe(tmp_path / "one") as seen:
        tell(seen, 1, ROUNDS)

    def some(seen):
        tell(seen, 1, after)
        seen.sent("model", model(after + 1), round=after + 1)  # the rounds before are whole
        seen.update(weights(after + 1, 0), client=0, round=after + 1)

    killed(tmp_path / "other", some)
    assert lb.load(tmp_path / "other" / "own-s0").meta["status"] == "running"
    with observe(tmp_path / "other") as seen:
        assert seen.begun == after
        tell(seen, after + 1, ROUNDS)
    one, other = (content(tmp_path / k / "own-s0") for k in ("one", "other"))
    assert one == other  # run.json tells no time
    assert "checkpoint/outside.safetensors" not in one


def test_killed_many_times(tmp_path):
    with observe(tmp_path / "one") as seen:
        loop(seen, 1, ROUNDS)
    for t in range(1, ROUNDS + 1):

        def one(seen, t=t):
            assert seen.begun == t - 1
            loop(seen, t, t)
            if t < ROUNDS:
                seen.sent("model", model(t + 1), round=t + 1)

        killed(tmp_path / "other", one)
    with observe(tmp_path / "other") as seen:
        assert seen.begun == ROUNDS - 1
        loop(seen, ROUNDS, ROUNDS)
    assert content(tmp_path / "one" / "own-s0") == content(tmp_path / "other" / "own-s0")


def test_a_round_half_written_is_written_again(tmp_path):
    """Killed while it wrote round 3: its files are there, and no checkpoint knows of them."""
    with observe(tmp_path / "one") as seen:
        loop(seen, 1, 2)
    killed(tmp_path / "other", lambda seen: loop(seen, 1, 3))
    for room in ("transcript", "known", "truth"):
        place = tmp_path / "other" / "own-s0" / room
        (place / "round-000003.safetensors").write_bytes(b"half")
    with observe(tmp_path / "other") as seen:
        assert seen.begun == 2  # and the loop ends there
    assert content(tmp_path / "one" / "own-s0") == content(tmp_path / "other" / "own-s0")


def test_the_record_holds_what_was_told(tmp_path):
    """Against the messages themselves: another reader of the files."""
    from leakbench.base.files import read_tree

    with observe(tmp_path) as seen:
        loop_with_all(seen, 1, 3)
    place = seen.run.path
    tree, head = read_tree(place / "transcript" / "round-000002.safetensors")
    table = head["messages"]
    by_sender = {row["sender"]: tree[str(i)]["payload"] for i, row in enumerate(table)}
    assert sorted(by_sender) == ["client/0", "client/2", "server"]
    for k, v in model(2).items():
        assert torch.equal(by_sender["server"][k], v)
        assert torch.equal(by_sender["client/2"][k], step(2, 2)[k])
        assert torch.equal(by_sender["client/0"][k], weights(2, 0)[k] - v)
    truth, _ = read_tree(place / "truth" / "round-000002.safetensors")
    (batch,) = truth["client"]["0"].values()
    x, y = DATA.client(0)
    assert torch.equal(batch["x"], x[[1, 2, 3]])
    assert torch.equal(batch["y"], y[[1, 2, 3]])
    scores, _ = read_tree(place / "utility.safetensors")
    assert scores["000003"].tolist() == [1, 0, 1, 1]
    assert sorted(scores) == ["000001", "000002", "000003"]
