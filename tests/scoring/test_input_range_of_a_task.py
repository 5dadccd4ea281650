"""A task says where its inputs lie: what lies elsewhere is refused, and all else goes by it."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.small_runs import TASK, again, plugged, results, units

from leakbench import api
from leakbench.attacking.guessing import saved
from leakbench.base.errors import UsageError
from leakbench.base.files import read_csv
from leakbench.record.folders import load
from leakbench.reporting import pictures
from leakbench.scoring.truth import Truth

SIGNED = '''
"""Digits that lie somewhere else."""

from dataclasses import replace
from typing import ClassVar

import torch

from leakbench import InputRange
from leakbench.tasks.digits import Digits


class SignedDigits(Digits):
    """Digits between -1 and 1."""

    input_range: ClassVar = {given}

    def load(self):
        data = super().load()
        parts = {{
            name: replace(old, stored=({sees}))
            for name in ("train", "test", "aux")
            for old in [getattr(data, name)]
        }}
        return replace(data, **parts)
'''
HOW = {"task": "signed-digits", "task_params": TASK, "device": "cpu", "rounds": 10}


def task(given="(-1, 1)", sees="2 * old.stored - 1"):
    return SIGNED.format(given=given, sees=sees)


def test_a_run_is_attacked_scored_and_shown_on_its_own_range(tmp_path, monkeypatch):
    file = tmp_path / "signed_digits.py"
    file.write_text(task(), encoding="utf-8")
    monkeypatch.setenv("LEAKBENCH_PLUGINS", str(file))  # a process of its own finds it, too
    run = api.train("fedavg", out=tmp_path / "runs", params={"batch": 1}, **HOW)
    assert run.meta["facts"]["input_range"] == {"low": [-1.0], "high": [1.0]}
    few = {"targets": 2, "steps": 9, "restarts": 1, "at": ["final"], "engine": "signed_adam"}
    folder = api.attack(run, "gradient_inversion", **few).path
    found = {g.guess.unit: g.guess for g in saved(folder) if g.role == "attack"}
    lowest = min(float(g.tensors["x"].min()) for g in found.values())
    assert -1 <= lowest < -0.5
    measured, errors = units(folder, "psnr"), units(folder, "mse")
    truth = Truth(load(run.path))
    for client, guess in found.items():
        x = truth.answer(guess).batch()[0].flatten()
        off = float((guess.tensors["x"].double().flatten() - x).square().mean())
        (unit,) = [u for u in measured if u.startswith(f"{client}/")]
        assert errors[unit] == pytest.approx(off / 4)
        assert measured[unit] == pytest.approx(min(10 * math.log10(4 / off), 100.0))
    floor = results(folder, "psnr")["floor"]
    assert 5 < floor < 20  # that of digits' class means on [0, 1], too
    lines = read_csv(folder / "units.csv", ("metric",))
    assert "features_within" not in {r["metric"] for r in lines}
    media, seen = pictures.Media(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(media.images), "add", lambda _, image: seen.append(image) or "a")
        shown = [*pictures.run_pictures(load(run.path), media)]
    originals = [(i, p) for i, p in zip(seen, shown, strict=True) if p.role == "original"]
    assert len(originals) == 2
    for image, picture in originals:
        client = "/".join(picture.unit.split("/")[:2])
        x = truth.answer(found[client]).batch()[0].reshape(8, 8)
        assert torch.allclose(torch.as_tensor(image), (x + 1) / 2)
    apart = api.attack(run, "gradient_inversion", isolated=True, force=True, **few).path
    both = zip(saved(folder), saved(apart), strict=True)
    assert all(torch.equal(a.guess.tensors["x"], b.guess.tensors["x"]) for a, b in both)
    assert again(run).facts.input_range.behind == 2


@pytest.mark.parametrize(
    ("given", "sees", "why"),
    [
        (
            "(0, 1)",
            "2 * old.stored - 1",
            r"lie between -1 and 1, outside \[0, 1\]: say in the task",
        ),
        ("(-1, 1)", "255 * old.stored", r"lie between 0 and 255, outside \[-1, 1\]"),
        ("(0, 255)", "(255 * old.stored).byte()", r"are bytes, which stand for \[0, 1\]"),
        (
            "InputRange((0.0, 0.0), (1.0, 2.0))",
            "old.stored",
            r"2 channels, and inputs are \(1, 8, 8\)",
        ),
    ],
)
def test_inputs_that_lie_elsewhere_are_refused(tmp_path, given, sees, why):
    source = task(given, sees)
    with plugged("leakbench.tasks", tmp_path, signed_digits=source):
        with pytest.raises(UsageError, match=why):
            api.train("fedavg", out=tmp_path / "runs", **HOW)
        assert not [*tmp_path.glob("runs/*/run.json")]


def test_examples_are_not_clipped_where_inputs_lie_elsewhere(tmp_path):
    with (
        plugged("leakbench.tasks", tmp_path, signed_digits=task()),
        pytest.raises(UsageError, match=r"clip cuts examples off to \[0, 1\], .* \(\[-1, 1\]\)"),
    ):
        api.train("fedaa", out=tmp_path / "runs", params={"clip": True}, **HOW)
