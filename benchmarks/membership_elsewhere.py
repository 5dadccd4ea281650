"""LiRA and RMIA of LeakPro and of ML Privacy Meter beside ours, by one and the same models.

python benchmarks/membership_elsewhere.py RUNS PRIVACY_METER [results/membership-elsewhere.md]

Neither package is among the dependencies: clone both, install what LeakPro imports, and have it on
PYTHONPATH; PRIVACY_METER is the folder of the other. Each is given what the attacked model and our
shadow federations say of each candidate, and who was trained on what, and gives a score for each.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from attacks import _shadow_federations as shadow
from attacks.shadow_membership import ShadowMembership, lira
from leakbench import api
from leakbench.attacking import View
from leakbench.base import provenance
from leakbench.record.recording import Recording
from leakbench.scoring.truth import Truth

SEEDS, SHADOWS, ROUNDS, TIMES = 3, 16, 10, 1000
# Clients that overfit, as the papers' models do.
TASK = {"model": "mlp", "width": 128, "split": "iid", "clients": 5, "mean_local_size": 60}
LOCAL = {"batch": 16, "steps": 0, "epochs": 10, "optimizer": "adam", "lr": 3e-3, "fraction": 1.0}


class Asked(NamedTuple):
    """What every tool is given."""

    told: Tensor  # (n,) log of the share of the right class, by the attacked model
    shadows: shadow.Shadows
    asked: int  # of the n, candidates; the others are auxiliary
    member: Tensor  # (asked,) bool


def ours(test: str) -> Callable[[Asked], Tensor]:
    """Our own scores."""
    if test == "lira":
        return lambda a: lira(a.told, a.shadows, 0, a.asked)
    return lambda a: ShadowMembership(test="rmia")._rmia(a.told, a.shadows, 0, a.asked)


def leakpro_lira(a: Asked) -> Tensor:
    """LeakPro's, online, with the variance of "carlini"."""
    from leakpro.attacks.mia_attacks.lira import AttackLiRA

    says = a.shadows.says[:, 0, : a.asked]
    one = _leakpro(AttackLiRA, a)
    one.online, one.var_calculation, one.fix_var_threshold = True, "carlini", 32
    one.num_shadow_models = len(says)
    one.out_indices = ~a.shadows.held[:, : a.asked].numpy()
    one.shadow_models_logits = one.rescale_logits(*_logits(says.flatten())).reshape(says.shape)
    one.target_logits = one.rescale_logits(*_logits(a.told[: a.asked]))
    return _scored(one)


def leakpro_rmia(a: Asked) -> Tensor:
    """LeakPro's, online."""
    from leakpro.attacks.mia_attacks.rmia import AttackRMIA

    says = a.shadows.says[:, 0]
    one = _leakpro(AttackRMIA, a)
    one.online, one.gamma, one.temperature, one.epsilon = True, 1.0, 1.0, 1e-6
    one.ground_truth_indices = np.zeros(a.asked, dtype=int)
    one.logits_theta = _logits(a.told[: a.asked])[0]
    one.logits_shadow_models = [_logits(row[: a.asked])[0] for row in says]
    others = says[:, a.asked :].exp().mean(0).numpy()[None]
    one.ratio_z = a.told[None, a.asked :].exp().numpy() / (others + one.epsilon)
    return _scored(one)


def _leakpro(kind: Any, a: Asked) -> Any:
    members = a.member.nonzero().flatten().numpy()
    others = (~a.member).nonzero().flatten().numpy()
    told = {"audit_dataset": {"in_members": members, "out_members": others}}  # a property there
    one = object.__new__(type(kind.__name__, (kind,), told))
    one.configs = SimpleNamespace(model_dump=dict)
    return one


def _logits(log: Tensor) -> tuple[Any, Any]:
    """Of two classes, the right one the first: with these shares."""
    both = torch.stack([log, (-torch.expm1(log.clamp(max=-1e-15))).log()], 1)
    return both.numpy(), np.zeros(len(both), dtype=int)


def _scored(one: Any) -> Tensor:
    with contextlib.redirect_stderr(io.StringIO()):  # its bar
        one.run_attack()
    found = torch.zeros(sum(map(len, one.audit_dataset.values())), dtype=torch.float64)
    found[one.audit_dataset["in_members"]] = torch.from_numpy(one.in_member_signals).flatten()
    found[one.audit_dataset["out_members"]] = torch.from_numpy(one.out_member_signals).flatten()
    return found


def privacy_meter(folder: Path) -> Callable[[Asked], Tensor]:
    """Its RMIA, offline (it has no other), of the shadows that had not seen a candidate.

    It takes models in pairs, of which one has each example: the attacked model stands with one that
    has what it has not, which is never asked.
    """
    spec = importlib.util.spec_from_file_location("privacy_meter", folder / "attacks.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"no attacks.py in {folder}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def scores(a: Asked) -> Tensor:
        says = a.shadows.says[:, 0].exp().T.numpy()
        own = a.told.exp().numpy()[:, None]
        signals, held = np.hstack([own, own, says]), a.shadows.held.T.numpy()
        spare = np.zeros((len(held), 2), dtype=bool)
        memberships = np.hstack([spare, held])[: a.asked]
        found = module.run_rmia(
            0, signals[: a.asked], signals[a.asked :], memberships, SHADOWS // 2, 0.3
        )
        return torch.from_numpy(found).double()

    return scores


def asked(runs: Path, seed: int) -> Asked:
    """A run that overfits, and shadows of it."""
    how: dict[str, Any] = {"task_params": {**TASK, "held_out": 40}, "params": LOCAL}
    run = api.train("fedavg", rounds=ROUNDS, seed=seed, out=runs, device="cpu", **how)
    attack, recording = ShadowMembership(), Recording(run)
    view = View(attack.threat, recording, run.spec["rounds"])
    rng = torch.Generator().manual_seed(seed)
    pool = shadow.pool(view, rng)
    made = shadow.train(view, pool, SHADOWS, rng)
    told = shadow.said(view, pool, attack._attacked(view)[-1])
    return Asked(told, made, pool.asked, Truth(run).candidates["member"])


def interval(score: Tensor, member: Tensor) -> tuple[float, float, float]:
    """The AUC, and what 95 in 100 of so many candidates drawn from these give."""
    dice, found = np.random.default_rng(0), []
    s, y = score.numpy(), member.numpy()
    for _ in range(TIMES):
        some = dice.integers(len(s), size=len(s))
        if 0 < y[some].sum() < len(some):
            found.append(roc_auc_score(y[some], s[some]))
    return float(roc_auc_score(y, s)), *(float(q) for q in np.quantile(found, [0.025, 0.975]))


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("privacy_meter", type=Path)
    parser.add_argument("file", type=Path, nargs="?")
    given = parser.parse_args(argv)
    tools = {
        "LiRA, leakbench": ours("lira"),
        "LiRA, LeakPro": leakpro_lira,
        "RMIA, leakbench": ours("rmia"),
        "RMIA, LeakPro": leakpro_rmia,
        "RMIA, Privacy Meter (offline)": privacy_meter(given.privacy_meter),
    }
    lines = ["| seed | attack | AUC | 95 % | rank correlation with ours | processor seconds |"]
    lines.append("|" + "---|" * 6)
    for seed in range(SEEDS):
        mine = asked(given.runs, seed)
        first: dict[str, Tensor] = {}
        for title, scores in tools.items():
            scores(mine)  # imports
            begun = time.process_time()
            found = scores(mine)
            took = time.process_time() - begun
            own = first.setdefault(title.split(",")[0], found)
            ranks = torch.stack([x.argsort().argsort().double() for x in (own, found)])
            value, low, high = interval(found, mine.member)
            near = float(torch.corrcoef(ranks)[0, 1])
            lines.append(
                f"| {seed} | {title} | {value:.3f} | {low:.3f} to {high:.3f} | {near:.3f} |"
                f" {took:.4f} |"
            )
            print(lines[-1], flush=True)
    if given.file:
        command = f"python benchmarks/membership_elsewhere.py RUNS PRIVACY_METER {given.file}"
        head = f"# Membership by other tools\n\n`{command}`, commit {provenance.commit()}.\n\n"
        about = (
            f"`digits`, FedAvg, {ROUNDS} rounds of ten epochs, five clients of about sixty examples"
            f" each; {SHADOWS} shadow\nfederations, the same for all. Each tool is given what these"
            " models say of each candidate.\n\n"
        )
        given.file.write_text(head + about + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
