"""An aggregator's sums of a loop of one's own: as a run with secure_sum, or one sentence."""

import json

import pytest
import torch
from helpers.own_loops import DATA, SHAPES, killed, model, net, step, watched

import leakbench as lb
from leakbench.base.files import read_tree
from leakbench.record.origin import stale_sources

WHO = [0, 1, 2]
ROUNDS = 2


def total(t, who=WHO):
    return {k: sum(step(t, c)[k] for c in who) for k in SHAPES}


def told(seen, first=1, last=ROUNDS, *, control=True, **how):
    for t in range(first, last + 1):
        seen.sent("model", model(t), round=t)
        more = {"uncovered": {c: step(t, c) for c in WHO}} if control else {}
        seen.aggregate(total(t), clients=WHO, round=t, **more, **how)


def messages(run, t, room="transcript"):
    tree, meta = read_tree(run.path / room / f"round-{t:06d}.safetensors")
    return {
        (m["sender"], m["receiver"], m["kind"]): tree[str(i)]["payload"]
        for i, m in enumerate(meta["messages"])
        if m["probe"] is None
    }


def product(place):
    """leakbench's own run of the same kind."""
    task = lb.task(
        "summed", DATA, model=net, train={"lr": 0.1, "batch": 4, "steps": 0, "epochs": 1}
    )
    how = {"rounds": ROUNDS, "record": "all", "engine": "loop"}
    return lb.train("fedavg", task=task, wrappers=[("secure_sum", {})], out=place, **how)


def test_it_is_recorded_as_the_wrapper_is(tmp_path):
    own, theirs = watched(tmp_path, told).run, product(tmp_path)
    for t in range(1, ROUNDS + 1):
        assert {*messages(own, t)} == {*messages(theirs, t)}
        assert {*messages(own, t, "control")} == {*messages(theirs, t, "control")}
        arrived = messages(own, t)["aggregator", "server", "sum"]["update"]
        for k, v in arrived.items():  # the wrapper's sum is the clients' mean
            torch.testing.assert_close(v, sum(step(t, c)[k] for c in WHO) / len(WHO))
    assert own.meta["hides"] is theirs.meta["hides"] is True
    assert own.meta["sent"] == theirs.meta["sent"]
    choices = [run.meta["spec"]["wrappers"] for run in (own, theirs)]
    assert [c[0]["name"] for c in choices] == ["secure_sum"] * 2
    assert choices[0][0]["params"] == choices[1][0]["params"]
    assert stale_sources(own.meta) == []  # the wrapper's code is among its sources


def again(theirs):
    """A loop whose messages are those of leakbench's own run."""

    def tell(seen):
        for t in range(1, ROUNDS + 1):
            seen.sent("model", messages(theirs, t)["server", "client/*", "model"], round=t)
            bare = {
                c: messages(theirs, t, "control")[f"client/{c}", "server", "update"] for c in WHO
            }
            truth, _ = read_tree(theirs.path / "truth" / f"round-{t:06d}.safetensors")
            rows = {}
            for c in WHO:
                held = DATA.data.rows[c].tolist()
                (entry,) = [e for e in truth["client"][str(c)].values() if "rows" in e]
                rows[c] = [held.index(r) for r in entry["rows"].tolist()]
            summed = {k: sum(b[k] for b in bare.values()) for k in SHAPES}
            seen.aggregate(summed, clients=WHO, round=t, rows=rows, uncovered=bare)

    return tell


def test_the_same_attacks_are_refused_and_the_same_verdict_is_given(tmp_path):
    theirs, said, verdicts = product(tmp_path), [], []
    own = watched(tmp_path, again(theirs)).run
    assert "no_control" not in own.meta
    for run in (own, theirs):
        for attack, how in (("label_inference", {"source": "moved"}), ("gradient_inversion", {})):
            with pytest.raises(lb.UsageError) as error:
                lb.attack(run, attack, **how)
            said.append(str(error.value).partition(": ")[2])
        place = tmp_path / "report" / run.path.name
        lb.report([run], place, formats=("json",))
        report = json.loads((place / "report.json").read_text())
        verdicts.append([[j["verdict"] for j in q["judged"]] for q in report["questions"]])
    assert said[:2] == said[2:]
    assert "the server receives only the sum of what clients send as update" in said[0]
    assert verdicts[0] == verdicts[1]


def test_without_what_was_sent_alone_it_acquits_nobody(tmp_path):
    run = watched(tmp_path, lambda seen: told(seen, control=False)).run
    assert run.meta["no_control"] is True
    assert not (run.path / "control" / "round-000001.safetensors").exists()
    assert {*messages(run, 1)} == {("server", "client/*", "model"), ("aggregator", "server", "sum")}


def test_weights_and_means_are_the_same_sum(tmp_path):
    def weights(seen):
        for t in (1, 2):
            seen.sent("model", model(t), round=t)
            more = {"clients": WHO, "round": t}
            after = {k: len(WHO) * v + total(t)[k] for k, v in model(t).items()}
            if t == 1:
                seen.aggregate(after, what="weights", **more)
            else:
                seen.aggregate({k: v / len(WHO) for k, v in total(t).items()}, mean=True, **more)

    one = watched(tmp_path / "a", weights).run
    other = watched(tmp_path / "b", lambda seen: told(seen, control=False)).run
    for t in (1, 2):
        place = ("aggregator", "server", "sum")
        for k, v in messages(one, t)[place]["update"].items():
            torch.testing.assert_close(v, messages(other, t)[place]["update"][k], atol=1e-5, rtol=0)


def test_a_loop_that_was_killed_goes_on(tmp_path):
    killed(tmp_path, lambda seen: (told(seen, 1, 1), seen.sent("model", model(2), round=2)))
    with pytest.raises(lb.UsageError, match="of single updates and of sums"):
        watched(tmp_path, single)
    whole = watched(tmp_path, lambda seen: told(seen, seen.begun + 1)).run
    assert whole.meta["spec"]["wrappers"][0]["name"] == "secure_sum"
    assert [s["rounds"] for s in whole.meta["sent"] if s["kind"] == "sum"] == [2]


def single(seen):
    t = seen.begun + 1
    seen.sent("model", model(t), round=t)
    seen.update(step(t, 0), client=0, round=t, what="difference")


def summed(given=None, **how):
    def tell(seen):
        seen.sent("model", model(1), round=1)
        seen.aggregate(given or total(1), **{"clients": WHO, "round": 1, **how})

    return tell


def both(seen):
    summed()(seen)
    seen.update(step(1, 0), client=0, round=1, what="difference")


def twice(seen):
    summed(clients=[0, 1])(seen)
    seen.aggregate(total(1), clients=[1, 2], round=1)


WRONG = {
    "alone": (summed(clients=[1]), "of one alone a sum is its update"),
    "nobody": (summed(clients=[]), "expected two or more"),
    "one twice": (summed(clients=[1, 1]), "each once"),
    "unknown": (summed(clients=[0, 7]), "client 7: expected a number"),
    "no list": (summed(clients="01"), "expected a list of the numbers"),
    "what": (summed(what="gradient"), "expected 'difference' or 'weights'"),
    "weights": (summed({k: 3 * v for k, v in model(1).items()}), "say what='weights'"),
    "zero": (summed({k: torch.zeros(s) for k, s in SHAPES.items()}), "is zero everywhere"),
    "rows": (summed(rows={5: [0]}), "rows of a sum has 5: expected a dict by the numbers"),
    "rows listed": (summed(rows=[0, 1]), "rows of a sum has [0, 1]: expected a dict"),
    "uncovered": (summed(uncovered={0: 3}), "the uncovered difference of client 0 in round 1 came"),
    "both": (both, "of single updates and of sums"),
    "twice": (twice, "recorded already: expected one for each round"),
    "no model": (lambda seen: seen.aggregate({}, clients=WHO, round=1), "round 1 was told of"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_sentence_and_leaves_nothing(tmp_path, name):
    tell, said = WRONG[name]
    with pytest.raises(lb.UsageError) as error:
        watched(tmp_path, tell)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "own-s0" / "run.json").exists()
