"""Run folders by the hundred, cheap to make and as large for a report as real ones: tiny tensors,
real files, real pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from helpers.run_folders import add_attack, edited, make_run, measure
from leakbench.attacking.guess import Guess
from leakbench.attacking.guessing import Guessed, Role, _save
from leakbench.base.files import digests, write_tree
from leakbench.record.folders import load

TASK, CLIENTS, IMAGES, SIDE, ROUNDS = "cifar10", 10, 8, 32, 300
STAGES = {"untrained": 1, "early": 30, "middle": 150, "final": ROUNDS}
KINDS = {
    "fedaws": {},
    "fedgn": {"sigma": 0.1},
    "fedcs": {"cos_theta": 0.5},
    "fedhide": {"alpha": 0.1, "k": 3},
}
SWEPT = {"fedaws": "lam", "fedgn": "sigma", "fedcs": "cos_theta", "fedhide": "alpha"}


def many(
    out: Path, runs: int = 100, attacks: int = 10, pictured: int = 3, seed: int = 0
) -> Iterator[Path]:
    """Settings of four methods on one task, one run each.

    Args:
        out: the folder of run folders.
        runs: how many.
        attacks: on each, ``pictured`` of them reconstructions of images.
        pictured: at most ``attacks``.
        seed: of scores and pictures.
    """
    dice = torch.Generator().manual_seed(seed)
    originals = torch.rand(IMAGES, 3, SIDE, SIDE, generator=dice)
    floors = torch.rand(IMAGES, 3, SIDE, SIDE, generator=dice)
    for i in range(runs):
        name = list(KINDS)[i % len(KINDS)]
        given = {**KINDS[name], SWEPT[name]: round(0.05 + 0.9 * i / runs, 4)}
        right = 40 + (i * 37) % 60
        run = make_run(
            out,
            task=TASK,
            defense=name,
            params=given,
            rounds=ROUNDS,
            right=[right // 2, right],
            test=100,
            **_about(name),
        )
        _truth(run, originals)
        for a in range(attacks):
            if a < pictured:
                _inversion(run, a, originals, floors, dice)
            else:
                rung = ("paper", "transcript", "method", "public")[a % 4]
                rows = [_named(stage, t, dice) for stage, t in STAGES.items()]
                add_attack(
                    run, f"reader_{a}", rows, rung=rung, order=a, params={"seed": 0, "window": a}
                )
        yield run


def _about(name: str) -> dict[str, Any]:
    sent = [
        ("prototype", "client", "server"),
        ("update", "client", "server"),
        ("model", "server", "client/*"),
    ]
    return {
        "sent": [
            {
                "kind": k,
                "sender": s,
                "receiver": r,
                "rounds": ROUNDS,
                "messages": 6000,
                "bytes": 9_000_000,
                "covered": False,
            }
            for k, s, r in sent
        ],
        "stages": STAGES,
        "hides": name != "fedaws",
        "command": f"leakbench train -t {TASK} -d {name} --rounds {ROUNDS} --seeds 0",
    }


def _named(stage: str, t: int, dice: torch.Generator) -> dict[str, Any]:
    hits = (torch.rand(CLIENTS, generator=dice) < torch.rand((), generator=dice)).double().tolist()
    return measure(
        "p_leak",
        hits,
        1 / CLIENTS,
        [1.0] * CLIENTS,
        stage=stage,
        round=t,
        accepted=range(0, CLIENTS, 2),
    )


def _truth(run: Path, originals: torch.Tensor) -> None:
    tree = {}
    for i, x in enumerate(originals):
        tree[str(i)] = {
            "0": {"probe": {"0": {"x": x[None], "y": torch.tensor([i]), "rows": torch.tensor([i])}}}
        }
    write_tree(
        run / "truth" / f"round-{ROUNDS:06d}.safetensors", {"client": tree}, {"round": ROUNDS}
    )
    files = digests(run, without=("attacks/", "run.json"))
    edited(run / "run.json", lambda meta: meta.update(files=files))


def _inversion(
    run: Path, a: int, originals: torch.Tensor, floors: torch.Tensor, dice: torch.Generator
) -> None:
    """An attack that rebuilds images: scores, and guesses that are pictures."""
    units = [f"client/{i}/{i}" for i in range(IMAGES)]
    psnr = (15 + 40 * torch.rand(IMAGES, generator=dice)).tolist()
    found = [float(p > 30) for p in psnr]
    last = {"stage": "final", "round": ROUNDS, "probe": True, "units": units}
    rows = [
        measure("psnr", psnr, [12.0] * IMAGES, [78.0] * IMAGES, **last),
        measure("identification", found, 0.01, [1.0] * IMAGES, **last),
    ]
    how: dict[str, Any] = {
        "rung": ("paper", "method", "public")[a % 3],
        "order": a,
        "params": {"seed": 0, "steps": 100 + a},
    }
    folder = add_attack(run, f"inversion_{a}", rows, **how)
    noise = 0.2 * torch.randn(originals.shape, generator=dice)
    roles: dict[Role, torch.Tensor] = {
        "attack": (originals + noise).clamp(0, 1),
        "floor": floors,
        "control": originals,
    }
    guesses = []
    for role, images in roles.items():
        guesses += [
            Guessed(role, "final", Guess(f"client/{i}", ROUNDS, {"x": x[None]}, probe=0))
            for i, x in enumerate(images)
        ]
    _save(folder / "guess.safetensors", guesses, load(run).transcript)
    files = digests(folder, without=("attack.json",))
    edited(folder / "attack.json", lambda meta: meta.update(files=files))
