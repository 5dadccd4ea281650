"""On a device of its own an attack foretells and guesses what it does on the processor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.caption_files import write_flickr8k
from helpers.digit_writers import WRITERS
from helpers.federations import ONE_STEP, SHORT
from helpers.one_device import DEVICE, MixedDevicesError
from helpers.other_device import RefusedError, other_device
from helpers.small_runs import PLAIN, TASK, plugged, source

from leakbench import api
from leakbench.attacking import choices, guessing
from leakbench.attacking.public_facts import Outline
from leakbench.base import provenance, registry
from leakbench.record.folders import load
from leakbench.record.policy import Policy
from leakbench.record.recording import Recording

# No attack is to get far.
LESS = {"steps": 2, "restarts": 1, "targets": 2, "iterations": 1, "epochs": 1, "draws": 2}
LESS |= {"samples": 20, "shadows": 4}
CAPTIONS = {"clients": 4, "width": 8, "vocabulary": 40, "least": 1, "length": 10, "evaluations": 10}
CAPTIONS |= {"model": "captioner", "weights": "", "frozen_encoder": False}
SAID = {**SHORT["fedaa"], "examples": 1, "search_steps": 2, "fraction": 1.0}
MARKED = {**TASK, "split": "qua", "clients": 20, "context": "square"}
ALL_ROUNDS: Any = Policy(name="all", probes=2)
SIGNED = {"task": "digit-writers", "task_params": {}}
# By the method that trained it, or what is asked of it: several attacks find something in each.
RUNS = {
    "fedhide": {},
    "fedgn": {},
    "fedmetric": {},
    "feduv": {},
    "fedaa": {"params": SHORT["fedaa"]},
    "flea": {"params": {"epochs": 1}, "task_params": MARKED},
    "feddata": {},
    "fedmix": {"params": {"size": 2}},
    "ccvr": {"params": {"shares": "statistics"}, "task_params": {**TASK, "mean_local_size": 20}},
    "scaffold": {"params": {"epochs": 1}},
    "fedgen": {"params": {"epochs": 1}, "wrappers": [("clip_noise", {})]},
    "fedproto": {},
    "captions": {},
    "absent": {
        "method": "fedavg",
        "task_params": {**TASK, "split": "iid", "absent": 4},
        "record": ALL_ROUNDS,
    },
    "planted": {"method": "fedavg", "params": ONE_STEP, "wrappers": [("active_server", {})]},
    "writers": {"method": "flea", "params": {"layer": "first"}, **SIGNED},
}
# Fits what was sent, of which two rounds keep nothing that it reads.
UNKEPT = {("fedproto", "prototype_averaging(observer=client/0)")}
# Settings that are not run unless they are asked for; none of breaching's, whose autocast knows
# no such device.
NAMED = [
    ("gradient_inversion", {"engine": "lbfgs"}),
    ("gradient_inversion", {"prior": "decoder"}),
    ("gradient_inversion", {"message": "update", "labels": "solved"}),
    ("prototype_averaging", {"observer": "client/0"}),
    ("prototype_unmixing", {"observer": "client/0"}),
    ("prototype_spheres", {"observer": "client/0"}),
    ("prototype_from_update", {"observer": "client/0"}),
    ("decoder", {"network": "conv", "average": 2}),
    ("codeword_from_update", {"together": False}),
    ("exposure", {"buffer": "all"}),
    ("reidentification", {"labels": False}),
]
QUICK = ("prototype_leakage", "prototype_unmixing", "prototype_from_update")


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """A run of two rounds in float64, by what it is called in ``RUNS``."""
    out, made = tmp_path_factory.mktemp("runs"), {}
    how = {"rounds": 2, "out": out, "device": "cpu", "dtype": "float64"}
    patch = pytest.MonkeyPatch()

    def run(name):
        if name != "captions":
            asked = {"method": name, "task_params": TASK, **RUNS[name], **how}
            return api.train(asked.pop("method"), **asked)
        patch.setenv("LEAKBENCH_DATA", str(out / "data"))
        write_flickr8k(out / "data", images=60)
        return api.train("fedaa", task="flickr8k", task_params=CAPTIONS, params=SAID, **how)

    def found(name):
        made[name] = made.get(name) or run(name)
        return made[name]

    with plugged("leakbench.tasks", out, digit_writers=WRITERS):
        yield found
    patch.undo()


def less(choice):
    """The same attack, soon over."""
    params = choice.attack.parameters()
    short = {k: min(params[k] or v, v) for k, v in LESS.items() if k in params}
    short |= {"at": ("final",)} if "at" in params else {}
    return choices.build(choice.name, {**params, **short})


def guesses(recording, choice):
    """What it guesses, of every role and stage."""
    return guessing.saved(guessing.guessed(recording, choice.name, choice.attack))


def foretold(recording, choice):
    """What it says before it is run; where it fails to, that is raised."""
    attack = choice.suited(recording).attack
    run = Outline(recording, attack.threat)
    why = attack.obstacle(run)
    return attack, why, 0.0 if why else (attack.seconds(run), attack.conditions(run))


def both(run, choice):
    """It guesses the same on both devices."""
    here = guesses(Recording(run), choice)
    with other_device():
        there = guesses(Recording(load(run.path), DEVICE), choice)
    assert here
    assert len(here) == len(there)
    for one, other in zip(here, there, strict=True):
        a, b = one.guess, other.guess
        assert (one.role, one.stage, a.unit, a.probe) == (other.role, other.stage, b.unit, b.probe)
        assert (a.failed, a.accepted, a.flags) == (b.failed, b.accepted, b.flags)
        torch.testing.assert_close(b.tensors, a.tensors, rtol=1e-5, atol=1e-7)


def test_the_same_is_foretold(run_of):
    run, every = run_of("fedgn"), choices.variants()
    with other_device():
        there = Recording(load(run.path), DEVICE)
        said = [foretold(there, c) for c in every]
    assert said == [foretold(Recording(run), c) for c in every]


@pytest.mark.parametrize("name", QUICK)
def test_the_same_is_guessed(run_of, name):
    both(run_of("fedhide"), choices.build(name, {}))


def test_an_inversion_finds_the_same(run_of):
    how = {"steps": 1, "restarts": 1, "targets": 1, "at": ("final",)}
    both(run_of("fedhide"), choices.build("gradient_inversion", how))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_every_attack_that_fits_guesses_the_same(run_of, name):
    run = run_of(name)
    here = Recording(run)
    every = [*choices.variants(), *(choices.build(n, p) for n, p in NAMED)]
    fit = [c for c in (c.suited(here) for c in every) if not c.obstacle(here)]
    assert fit
    for choice in fit:
        if (name, choice.title) not in UNKEPT:
            both(run, less(choice))


@pytest.mark.slow
def test_every_attack_is_tried(run_of):
    tried = set()
    for name in RUNS:
        here = Recording(run_of(name))
        tried |= {c.name for c in choices.variants() if not c.suited(here).obstacle(here)}
    assert tried == set(registry.names("attacks"))


@pytest.mark.slow
def test_a_command_writes_the_same(tmp_path, monkeypatch):
    found = {}
    for device in ("cpu", DEVICE):
        monkeypatch.setattr(provenance, "device", lambda _, device=device: device)
        with other_device():
            how = {"rounds": 2, "out": tmp_path / device, "dtype": "float64"}
            run = api.train("fedhide", task_params=TASK, **how)
            rows = api.attack(run, "prototype_leakage").rows
        assert run.meta["device"] == device
        numbers = [(r["metric"], r["value"], r["floor"], r["control"]) for r in rows]
        found[device] = [*numbers, run.meta["utility"]]
    assert found["cpu"] == found[DEVICE]


WHOLE = 'assert not __import__("torch").backends.cudnn.allow_tf32; ' + PLAIN


def test_an_attack_multiplies_float32_whole(run_of, tmp_path):
    assert torch.backends.cudnn.allow_tf32
    with plugged("attacks", tmp_path, mine=source(WHOLE)):
        assert guesses(Recording(run_of("fedhide")), choices.build("mine", {}))


MIXED = """rows = [m.payload * __import__("torch").arange(8) for m in view.messages("prototype")]
        return []"""


def test_an_attack_that_mixes_devices_is_found(run_of, tmp_path):
    with plugged("attacks", tmp_path, mine=source(MIXED)):
        mine = choices.build("mine", {})
        with pytest.raises(MixedDevicesError, match="both devices"), other_device():
            guesses(Recording(load(run_of("fedhide").path), DEVICE), mine)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.ones(3)[x.long()],
        lambda x: x.index_select(0, torch.tensor([0])),
        lambda x: torch.stack([x.sum(), torch.tensor(1.0)]),
        lambda x: torch.zeros(()).add_(x.sum()),
        lambda x: torch.where(torch.tensor([True, False, True]), x, 0.0),
    ],
)
def test_mixed_devices_are_refused(wrong):
    wrong(torch.ones(3))
    with pytest.raises(MixedDevicesError), other_device():
        wrong(torch.ones(3, device=DEVICE))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: torch.randn(3, generator=torch.Generator(), device=x.device),
        lambda x: torch.ones_like(x).normal_(generator=torch.Generator()),
        lambda x: x[torch.tensor([3], device=x.device)],
        lambda x: x.long() @ x.long(),
        lambda x: torch.linalg.lstsq(x[:, None], x[:, None], driver="gelsy"),
    ],
)
def test_what_no_gpu_does_is_refused_though_the_error_is_caught(wrong):
    def caught():
        with pytest.raises(RefusedError):
            wrong(torch.ones(3, device=DEVICE))

    with pytest.raises(RefusedError), other_device():
        caught()


def test_what_a_gpu_does_gives_the_same_numbers():
    x = torch.arange(3.0)
    with other_device():
        there = x.to(DEVICE)
        assert there.device.type == DEVICE
        assert (2 * there[torch.tensor([2, 0])] + torch.tensor(1.0)).tolist() == [5.0, 1.0]
        assert torch.tensor([1, 2], device=DEVICE).tolist() == [1, 2]
        assert there[[2, 0]].tolist() == [2.0, 0.0]
        there[1] = 7
        assert there.cpu().tolist() == [0.0, 7.0, 2.0]
        assert (there @ there[:, None]).tolist() == [53.0]
        slope = torch.func.grad(lambda v: (v @ there).square())
        assert torch.func.vmap(slope)(there.repeat(2, 1))[0].tolist() == [0.0, 742.0, 212.0]
        with pytest.raises((TypeError, RuntimeError)):
            there.numpy()
