"""Local training as people do it: torch's own loop, declared, is what attacks replay."""

import copy

import pytest
import torch
from helpers.own_loops import DATA, killed, net, watched
from helpers.own_loops import model as weights_of
from torch.nn import functional as F

import leakbench as lb
from attacks import _updates
from leakbench.attacking import Replay, ThreatModel, View
from leakbench.federation import Batch
from leakbench.record.recording import Recording

THREAT = ThreatModel(kinds=("update", "model"), knows=("method", "facts", "labels"))
ROUNDS, STEPS = 3, 3
SGD = {"lr": 0.3, "batch": 4, "steps": STEPS}
ADAM = {**SGD, "lr": 0.01}


def cosine(t):
    return 0.3 / t


def stepwise(t):
    return [0.3 / t, 0.0, 0.1]


# What is declared, and what torch's optimizer is given beside the rate; "clip" is the loop's own.
LOOPS = {
    "norm": ({**SGD, "clip_norm": 0.02}, "sgd", {}),
    "value": ({**SGD, "clip_value": 0.01, "momentum": 0.9}, "sgd", {"momentum": 0.9}),
    "rates": ({**SGD, "lr": [0.3, 0.2, 0.1], "momentum": 0.5}, "sgd", {"momentum": 0.5}),
    "function": ({**SGD, "lr": cosine}, "sgd", {}),
    "by step": ({**SGD, "lr": stepwise, "clip_norm": 0.02}, "sgd", {}),
    "adam": (ADAM, "adam", {}),
    "clipped adam": (
        {**ADAM, "clip_norm": 0.01, "weight_decay": 0.1},
        "adam",
        {"weight_decay": 0.1},
    ),
    "adamw": (
        {**ADAM, "weight_decay": 0.3, "betas": (0.5, 0.8), "eps": 1e-4},
        "adamw",
        {"weight_decay": 0.3, "betas": (0.5, 0.8), "eps": 1e-4},
    ),
    "one adamw": ({**ADAM, "steps": 1, "weight_decay": 0.3}, "adamw", {"weight_decay": 0.3}),
    "one clipped": ({**SGD, "steps": 1, "clip_norm": 0.02}, "sgd", {}),
}
KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def rate(sgd, t, step):
    lr = sgd["lr"]
    of = lr(t) if callable(lr) else lr[t - 1] if isinstance(lr, list) else lr
    return of[step] if isinstance(of, list) else of


def trained(model, sgd, optimizer, how, t, batches):
    """torch's own loop, in double precision."""
    local = copy.deepcopy(model).double()
    taken = KINDS[optimizer](local.parameters(), lr=1.0, **how)
    for step, (x, y) in enumerate(batches):
        taken.zero_grad()
        F.cross_entropy(local(x.double()), y).backward()
        if "clip_norm" in sgd:
            norm = torch.nn.utils.clip_grad_norm_(local.parameters(), sgd["clip_norm"])
            assert norm > sgd["clip_norm"]  # it cuts
        if "clip_value" in sgd:
            torch.nn.utils.clip_grad_value_(local.parameters(), sgd["clip_value"])
        taken.param_groups[0]["lr"] = rate(sgd, t, step)
        taken.step()
    return {k: v.float() for k, v in local.state_dict().items()}


def begun(t):
    made = net(2)
    made.load_state_dict(weights_of(t))
    return made


def record(place, sgd, optimizer="sgd", how=None, declared=None, rounds=ROUNDS, **more):
    """A loop that trains by ``sgd`` and ``how``, and declares that, or ``declared``."""
    model = begun(3)
    told = {"sgd": declared or sgd, "optimizer": optimizer, **more}
    with lb.observe(place, name="told", model=model, data=DATA, **told) as seen:
        for t in range(seen.begun + 1, rounds + 1):
            seen.sent("model", model.state_dict(), round=t)
            for c in range(len(DATA)):
                x, y = DATA.client(c)
                rows = [[(4 * s + i + t) % len(y) for i in range(4)] for s in range(sgd["steps"])]
                batches = [(x[some], y[some]) for some in rows]
                after = trained(model, sgd, optimizer, how or {}, t, batches)
                seen.update(after, client=c, round=t, rows=rows)
            model.load_state_dict(after)
    return seen.run


def replayed(run, t):
    """(made again, sent) of each update of a round, at its true rows."""
    recording = Recording(run)
    view = View(THREAT, recording, t)
    for b in _updates.shortest(view, probe=False, most=9):
        truth, _ = lb.base.files.read_tree(run.path / "truth" / f"round-{t:06d}.safetensors")
        entry = truth["client"][b.message.sender.removeprefix("client/")][str(b.message.phase)]
        dice = torch.Generator().manual_seed(0)
        replay = Replay(view, b.message, dice, rows=b.rows, phase=b.loss, dtype=torch.float64)
        made = replay.update(Batch(entry["x"].double(), entry["y"]), {})
        yield made, b.message.payload


@pytest.mark.parametrize("name", LOOPS)
def test_every_round_is_replayed_as_torch_made_it(tmp_path, capsys, name):
    run = record(tmp_path, *LOOPS[name])
    assert "no_control" not in run.meta
    assert "declared" not in capsys.readouterr().err
    for t in range(1, ROUNDS + 1):
        pairs = list(replayed(run, t))
        assert len(pairs) == len(DATA)
        for made, sent in pairs:
            longest = max(float(v.abs().max()) for v in sent.values())
            for k, v in sent.items():  # sent in single precision
                assert float((made[k].detach() - v).abs().max()) < 1e-5 * max(longest, 0.1)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("norm", SGD),
        ("rates", {**SGD, "momentum": 0.5, "lr": [0.3, 0.3, 0.3]}),
        ("by step", {**SGD, "clip_norm": 0.02}),
        ("adam", {**ADAM, "lr": 0.02}),
        ("adam", {**ADAM, "weight_decay": 0.5}),
        ("adamw", {**ADAM, "lr": 0.005, "weight_decay": 0.3}),
    ],
)
def test_another_training_than_was_declared_acquits_nobody(tmp_path, capsys, name, wrong):
    run = record(tmp_path, *LOOPS[name], declared=wrong)
    assert run.meta["no_control"] is True
    assert "is not what the declared training makes" in capsys.readouterr().err


def test_sgd_in_place_of_adam_acquits_nobody(tmp_path):
    sgd, _, how = LOOPS["adam"]
    run = record(tmp_path, {**sgd, "lr": 0.3}, "sgd", how)
    assert "no_control" not in run.meta
    again = tmp_path / "again"
    model = begun(3)
    with lb.observe(again, name="told", model=model, data=DATA, sgd=ADAM, optimizer="adam") as seen:
        seen.sent("model", model.state_dict(), round=1)
        for c in range(len(DATA)):
            x, y = DATA.client(c)
            rows = [[0, 1, 2, 3]] * STEPS
            batches = [(x[some], y[some]) for some in rows]
            after = trained(model, {**SGD}, "sgd", {}, 1, batches)
            seen.update(after, client=c, round=1, rows=rows)
    assert seen.run.meta["no_control"] is True


@pytest.mark.parametrize(
    ("sgd", "optimizer", "unknown"),
    [(ADAM, "adam", True), ({**SGD, "momentum": 0.9}, "sgd", True), (SGD, "sgd", False)],
)
def test_a_state_that_is_kept_is_known_to_nobody(tmp_path, capsys, sgd, optimizer, unknown):
    """From the second round on; SGD without momentum has none."""
    how = {"momentum": 0.9} if "momentum" in sgd else {}
    first = record(tmp_path / "a", sgd, optimizer, how, rounds=1, optimizer_state="kept")
    assert "no_control" not in first.meta
    run = record(tmp_path / "b", sgd, optimizer, how, rounds=2, optimizer_state="kept")
    assert run.meta.get("no_control", False) is unknown
    assert capsys.readouterr().err.count("state of their optimizer") == int(unknown)
    if unknown:
        frame = lb.attack(run, "label_inference", source="moved").to_frame()
        assert all("no_control" in flags.split("|") for flags in frame["flags"])


def test_a_schedule_is_in_the_record_and_goes_on_where_it_was(tmp_path):
    sgd, *_ = LOOPS["function"]
    run = record(tmp_path / "whole", *LOOPS["function"])
    params = run.meta["spec"]["defense"]["params"]
    assert params["rates"] == [[0.3], [0.15], [0.3 / 3]]
    assert params["lr"] == 0.3
    place = tmp_path / "cut"
    killed(place, told_rounds(1, 2), sgd=sgd)
    with pytest.raises(lb.UsageError, match="begun with another sgd or optimizer"):
        killed(place, told_rounds(3, 3), sgd=SGD)
    seen = watched(place, told_rounds(3, 3), sgd=sgd)
    assert seen.run.meta["spec"]["defense"]["params"]["rates"] == params["rates"]


def told_rounds(first, last):
    def tell(seen):
        assert seen.begun == first - 1
        rows = [[0, 1, 2, 3]] * STEPS
        for t in range(first, last + 1):
            seen.sent("model", weights_of(3), round=t)
            seen.update(shifted(t), client=0, round=t, rows=rows, what="difference")
        if last < ROUNDS:
            seen.sent("model", weights_of(3), round=last + 1)

    return tell


def shifted(t):
    return {k: 0.01 * t * torch.ones_like(v) for k, v in weights_of(3).items()}


def test_labels_are_not_counted_off_clipped_steps(tmp_path):
    run = record(tmp_path, *LOOPS["norm"])
    with pytest.raises(lb.UsageError, match="each local step was clipped"):
        lb.attack(run, "label_inference", source="calibrated")


WRONG = {
    "unknown": ({**SGD, "clip": 1.0}, {}, "sgd has 'clip': expected lr"),
    "both clips": ({**SGD, "clip_norm": 1.0, "clip_value": 1.0}, {}, "expected one of them"),
    "negative": ({**SGD, "clip_norm": -1.0}, {}, "clip_norm = -1"),
    "empty": ({**SGD, "lr": []}, {}, "lr = []: expected a rate for each round"),
    "rate": ({**SGD, "lr": ["fast"]}, {}, "lr of round 1 is 'fast': expected a number above 0"),
    "zero": ({**SGD, "lr": lambda t: 0}, {}, "lr of round 1 is 0"),
    "nan": ({**SGD, "lr": [float("nan")]}, {}, "lr of round 1 is nan"),
    "failing": ({**SGD, "lr": lambda t: 1 / 0}, {}, "sgd's lr failed in round 1"),
    "betas": ({**ADAM, "betas": 0.9}, {"optimizer": "adam"}, "expected two numbers"),
    "betas of sgd": ({**SGD, "betas": (0.9, 0.9)}, {}, "betas goes with optimizer='adam'"),
    "adamw": (ADAM, {"optimizer": "adamw"}, "needs sgd's weight_decay"),
    "state": (ADAM, {"optimizer_state": "old"}, "expected 'fresh'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_sentence(tmp_path, name):
    sgd, how, said = WRONG[name]
    with pytest.raises(lb.UsageError) as caught:
        lb.observe(tmp_path, name="told", model=net, data=DATA, sgd=sgd, **how)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_schedule_that_ends_says_so(tmp_path):
    with pytest.raises(lb.UsageError, match="names 1 rates, and round 2 begins"):
        record(tmp_path, {**SGD, "lr": [0.3]})


def test_a_gradient_of_a_clipped_step_is_refused(tmp_path):
    with lb.observe(
        tmp_path, name="told", model=net, data=DATA, sgd={**SGD, "steps": 1, "clip_norm": 1.0}
    ) as seen:
        seen.sent("model", weights_of(3), round=1)
        with pytest.raises(lb.UsageError, match="a gradient is sent as it is"):
            seen.update(shifted(1), client=0, round=1, rows=[0], what="gradient")
        seen.update(shifted(1), client=0, round=1, rows=[0], what="difference")
