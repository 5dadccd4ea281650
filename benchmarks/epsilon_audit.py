"""What (ε, δ) a run claims, counted three ways, and what guesses prove of it, of a lie too.

python benchmarks/epsilon_audit.py RUNS [results/epsilon-audit.md] [--seeds 20] [--rounds 6]

Three tables. The accountant beside the analytic Gaussian mechanism in fifty digits and beside
Rényi divergences. A mechanism whose ε is known, 100,000 clients that send one number each through
`clip_noise`, and the same where half of the noise that is declared is added. And runs on `digits`
under `clip_noise`, with a wrapper that adds less than it declares (`planted_noise.py`). Runs and
attacks lie in RUNS and are made where they are not there yet. With a file the tables are also
written there, with command and commit.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mpmath
import torch
from dp_accounting import GaussianDpEvent
from dp_accounting.rdp import RdpAccountant

from leakbench import api
from leakbench.base import provenance, registry
from leakbench.record.policy import Policy
from leakbench.scoring.audit import most_proven
from leakbench.statistics.epsilon import gaussian_epsilon

PLANTED = Path(__file__).with_name("planted_noise.py")
SETTINGS = (  # noise over sensitivity, messages, δ
    *((0.5, 1, 1e-5), (1.0, 1, 1e-5), (2.0, 1, 1e-5), (4.0, 10, 1e-5), (10.0, 20, 1e-5)),
    *((50.0, 1000, 1e-6), (100.0, 60, 1e-3), (0.1, 3, 1e-5), (0.05, 300, 1e-9), (1000.0, 1, 1e-6)),
)
CLIENTS, DELTA = 100_000, 1e-5
KNOWN = (4.0, 5.0, 10.0)  # noise over clip
SIGNALS = ("span", "cosine", "likelihood")
COVERED = (  # wrapper, declared noise over clip, share of it that is added
    *(("clip_noise", 20.0, 1.0), ("clip_noise", 1.0, 1.0), ("clip_noise", 0.1, 1.0)),
    *(("clip_noise", 0.01, 1.0), ("planted_noise", 20.0, 0.5), ("planted_noise", 20.0, 0.0)),
)
KEPT = Policy(name="all", probes=0)


def accountants() -> list[str]:
    """A line for each setting."""
    lines = [
        "| noise over sensitivity | messages | δ | ε, here | ε, analytic | off by | ε, Rényi |",
        "|---|---|---|---|---|---|---|",
    ]
    for noise, messages, delta in SETTINGS:
        here = gaussian_epsilon(math.sqrt(messages) / noise, delta)
        there = analytic(noise, messages, delta)
        moments = RdpAccountant().compose(GaussianDpEvent(noise), messages).get_epsilon(delta)
        cells = (f"{noise:g}", str(messages), f"{delta:.0e}", f"{here:.6g}", f"{there:.6g}")
        lines.append(f"| {' | '.join(cells)} | {abs(here - there):.0e} | {moments:.4g} |")
    return lines


def analytic(noise: float, messages: int, delta: float) -> float:
    """Balle and Wang (ICML 2018), Theorem 8, of noise / sqrt(messages), by bisection."""
    with mpmath.workdps(50):
        shift = mpmath.sqrt(messages) / mpmath.mpf(noise)
        low, high = mpmath.mpf(0), mpmath.mpf(2) ** 24
        for _ in range(120):
            e = (low + high) / 2
            there = mpmath.exp(e) * mpmath.ncdf(-shift / 2 - e / shift)
            more = mpmath.ncdf(shift / 2 - e / shift) - there > delta
            low, high = (e, high) if more else (low, e)
        return float(high)


def known(seeds: int) -> list[str]:
    """A line for each noise, as declared and with half of it added."""
    lines = [
        "| declared noise | added | claimed ε | true ε | proven ε, least and most"
        " | at most the true | above the claim |",
        "|---|---|---|---|---|---|---|",
    ]
    for noise in KNOWN:
        claim = gaussian_epsilon(2 / noise, DELTA)
        for share in (1.0, 0.5):
            true = gaussian_epsilon(2 / (share * noise), DELTA)
            found = [proven(share * noise, seed) for seed in range(seeds)]
            below, above = sum(e <= true for e in found), sum(e > claim for e in found)
            lines.append(
                f"| {noise:g} | {share:.0%} | {claim:.2f} | {true:.2f} | {min(found):.2f} to"
                f" {max(found):.2f} | {below} of {seeds} | {above} of {seeds} |"
            )
    return lines


def proven(noise: float, seed: int) -> float:
    """By one number of each client, that is clip or -clip by a coin, and comes through a wrapper.

    It is the likeliest guess to take its sign.
    """
    wrapper = registry.load_plugin("wrappers", "clip_noise").build({"noise": noise}, "clip_noise")
    dice = torch.Generator().manual_seed(seed)
    coin = 2.0 * torch.randint(0, 2, (CLIENTS,), generator=dice).double() - 1
    drawn = torch.randn(CLIENTS, 1, generator=dice, dtype=torch.float64)

    def sent(value: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        me: Any = SimpleNamespace(rng=SimpleNamespace(normal=lambda *_: own))
        return wrapper.uplink({"w": value}, me)["w"]

    told = torch.func.vmap(sent)(7 * coin[:, None], drawn)[:, 0]
    return most_proven({"sign": told * coin}, DELTA).epsilon


def federation(runs: Path, rounds: int) -> list[str]:
    """A line for each run on `digits`."""
    lines = [
        "| wrapper | declared noise | added | claimed ε | proven ε | right, of guesses, of pairs"
        " | best AUC | claim refuted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    api.plugin(PLANTED)
    for wrapper, noise, added in COVERED:
        more = {"added": added} if wrapper == "planted_noise" else {}
        run = api.train(
            "fedavg",
            task="digits",
            task_params={"split": "iid", "held_out": 30, "model": "mlp"},
            params={"average": "plain", "batch": 8, "steps": 1, "epochs": 0, "optimizer": "sgd"},
            wrappers=[(wrapper, {"clip": 1.0, "noise": noise, **more})],
            rounds=rounds,
            out=runs,
            device="cpu",
            record=KEPT,  # type: ignore[arg-type]
        )
        aucs = list(_aucs(run))
        (p,) = api.tables(run).privacy
        guesses = f"{p.right}, {p.guesses}, {p.pairs}"
        lines.append(
            f"| {wrapper} | {noise:g} | {added:.0%} | {p.epsilon:.4g} | {p.proven:.2f} | {guesses}"
            f" | {max(aucs):.2f} | {'**yes**' if p.broken else 'no'} |"
        )
        print(lines[-1], flush=True)
    return lines


def _aucs(run: Any) -> Iterable[float]:
    for signal in SIGNALS:
        rows = api.attack(run, "membership", signal=signal).rows
        yield from (row["value"] for row in rows if row["metric"] == "membership_auc")


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is not there, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=6)
    given: Any = parser.parse_args(argv)
    parts = {
        "The accountant": accountants(),
        "A mechanism whose ε is known": known(given.seeds),
        "Runs": federation(given.runs, given.rounds),
    }
    told = {
        "The accountant": "ε of so many messages with Gaussian noise.",
        "A mechanism whose ε is known": (
            f"{CLIENTS:,} clients send one number each, by a fair coin; δ = {DELTA:.0e}. The"
            " bound\nis of 95 %, over all shares of guesses together."
        ),
        "Runs": (
            f"`digits`, ten clients, an MLP, {given.rounds} rounds of one step on 8 examples, 30"
            " of each client's\nexamples held out; `membership` by"
            f" {', '.join(SIGNALS)}. An audit refutes a wrapper that adds no noise, and\nnot one"
            " that adds half of it: of so few pairs, all guessed right, no more than about 4 could"
            "\nbe proven, and under noise these attacks guess few."
        ),
    }
    text = "\n\n".join(f"## {k}\n\n{told[k]}\n\n" + "\n".join(v) for k, v in parts.items())
    print(text)
    if given.file:
        more = f" --seeds {given.seeds} --rounds {given.rounds}"
        command = f"python benchmarks/epsilon_audit.py RUNS {given.file}{more}"
        head = f"# (ε, δ), claimed and proven\n\n`{command}`, commit {provenance.source()[0]}.\n\n"
        given.file.write_text(head + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
