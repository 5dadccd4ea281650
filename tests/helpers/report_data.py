"""A made-up report on digit-pairs: eight settings, real digits as pictures, every state a page has
to show.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leakbench.base.spec import canonical
from leakbench.reporting.data import (
    About,
    Check,
    Clients,
    Curve,
    Embedding,
    Naming,
    Picture,
    ReportData,
    Split,
)
from leakbench.results.keys import row_key, setting_key

CLIENTS = 20


def setting(defense: str, params: dict[str, Any], wrappers: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "task": "digit-pairs",
        "defense": defense,
        "defense_params": canonical(params),
        "wrappers": canonical(
            [{"name": w, "params": {"clip": 1.0, "sigma": 0.5}} for w in wrappers]
        ),
        "seeds": "0|1|2",
    }


def row(
    base: dict[str, Any],
    utility: float,
    attack: str,
    rung: str,
    metric: str,
    value: float,
    **more: Any,
) -> dict[str, Any]:
    n = more.pop("n", 3 * CLIENTS)
    width = more.pop("width", 0.04)
    if metric in ("psnr",):
        floor, control, unit, interval, top = 13.0, 78.0, "image", "student", 100.0
    elif metric == "identification":
        floor, control, unit, interval, top = 0.01, 1.0, "image", "clopper-pearson", 1.0
    else:
        floor, control, unit, interval, top = 1 / CLIENTS, 1.0, "client", "clopper-pearson", 1.0
    floor, control = more.pop("floor", floor), more.pop("control", control)
    made = {
        **base,
        "utility_metric": "accuracy",
        "utility": utility,
        "utility_low": max(utility - 0.02, 0.0),
        "utility_high": min(utility + 0.02, 1.0),
        "chance": 0.1,
        "attack": attack,
        "attack_params": "{}",
        "rung": rung,
        "observer": "server",
        "knowledge": "method" if rung == "method" else "",
        "stage": "all" if metric == "p_leak" else "final",
        "round": 300,
        "probe": metric in ("identification", "psnr"),
        "metric": metric,
        "leaks": "up",
        "value": value,
        "low": max(value - width, 0.0),
        "high": min(value + width, top),
        "interval": interval,
        "n": n,
        "unit": unit,
        "floor": floor,
        "floor_low": floor,
        "floor_high": floor,
        "control": control,
        "control_low": control - 0.05,
        "control_high": min(control + 0.02, top),
        "flags": "",
        "on_front": False,
        "claimed": "",
        "claimed_low": "",
        "claimed_high": "",
        "claimed_source": "",
    }
    return made | more


SETTINGS: list[tuple[dict[str, Any], float, float | None, float | None, float | None]] = [
    # setting, utility, P_leak by the paper's attack, by the cascade, PSNR
    (setting("fedaws", {}), 0.93, 1.0, 1.0, 74.0),
    (setting("fedgn", {"sigma": 0.1}), 0.92, 0.62, 1.0, 71.0),
    (setting("fedgn", {"sigma": 0.3}), 0.88, 0.15, 0.93, 46.0),
    (setting("fedcs", {"cos_theta": 0.5}), 0.90, 0.35, 0.97, 52.0),
    (setting("fedhide", {"alpha": 0.1, "k": 3}), 0.91, 0.30, 0.95, 66.0),
    (setting("fedhide", {"alpha": 0.01, "k": 3}), 0.905, 0.10, 0.48, 64.0),
    (setting("fedgn", {"sigma": 3.0}), 0.11, 0.06, 0.07, 12.0),
    (setting("fedaws", {}, ("clip_noise",)), 0.71, 0.05, 0.05, 68.0),
    (setting("feduv", {}), 0.86, None, None, 70.0),
]


def report_data(**changes: Any) -> ReportData:
    tradeoff, results, utility, runs, commands = [], [], [], [], {}
    for base, acc, paper, cascade, psnr in SETTINGS:
        dead = acc < 0.15
        flags = "dead_run" if dead else ""
        rows = []
        if paper is not None and cascade is not None:
            best = min(1.0, max(paper, cascade) + (0.02 if cascade < 0.9 else 0.0))
            held = cascade <= 0.05
            source = "FedHide, Table 4: 20 clients here, 100 there; ± is a standard deviation"
            claim = (
                {
                    "claimed": 0.043,
                    "claimed_low": 0.03,
                    "claimed_high": 0.056,
                    "claimed_source": source,
                }
                if base["defense"] == "fedhide"
                else {}
            )
            rows += [
                row(
                    base,
                    acc,
                    "nearest_prototype",
                    "paper",
                    "p_leak",
                    paper,
                    flags="|".join(f for f in (flags, "oracle_prototypes") if f),
                    **claim,
                ),
                row(
                    base,
                    acc,
                    "average_rounds",
                    "transcript",
                    "p_leak",
                    (paper + cascade) / 2,
                    flags=flags,
                ),
                row(base, acc, "unmix", "method", "p_leak", cascade, flags=flags),
                row(base, acc, "cascade", "method", "p_leak", cascade, flags=flags),
                row(
                    base,
                    acc,
                    "any_attack",
                    "method",
                    "p_leak",
                    best,
                    flags=flags,
                    on_front=not dead and acc in (0.93, 0.905, 0.71),
                ),
            ]
            if held:
                rows = [r | {"low": 0.01, "high": 0.09} for r in rows]
        if psnr is not None:
            n = 12
            found = {True: 1.0, False: 0.02}[psnr > 30]
            for attack, rung in (
                ("gradient_inversion", "method"),
                ("cascade", "method"),
                ("any_attack", "method"),
            ):
                rows.append(
                    row(
                        base,
                        acc,
                        attack,
                        rung,
                        "psnr",
                        psnr,
                        n=n,
                        width=3.0,
                        flags="|".join(f for f in ("probe", "few_units", flags) if f),
                    )
                )
                rows.append(
                    row(
                        base,
                        acc,
                        attack,
                        rung,
                        "identification",
                        found,
                        n=n,
                        width=0.2,
                        flags="|".join(f for f in ("probe", "few_units", flags) if f),
                    )
                )
        tradeoff += rows
        run_id = f"digit-pairs-{base['defense']}"
        for seed in (0, 1, 2):
            for r in rows:
                results.append(
                    {
                        **r,
                        "run": f"{run_id}-s{seed}",
                        "seed": seed,
                        "n": r["n"] // 3,
                        "failed": int(r["attack"] == "unmix" and acc == 0.9 and seed == 0),
                    }
                )
        for statistic in ("final", "best", "last10"):
            utility.append(
                {
                    **base,
                    "rounds": 300,
                    "metric": "accuracy",
                    "statistic": statistic,
                    "value": acc,
                    "low": max(acc - 0.02, 0),
                    "high": acc + 0.02,
                }
                | {
                    "n": 360,
                    "chance": 0.1,
                    "flags": flags,
                    "claimed": "",
                    "claimed_low": "",
                    "claimed_high": "",
                    "claimed_source": "",
                }
            )
        runs += [run_json(base, seed, f"{run_id}-s{seed}") for seed in (0, 1, 2)]
        commands[setting_key(base)] = (
            f"leakbench train -d {base['defense']} -t digit-pairs --seeds 0-2"
        )
        commands |= {
            row_key(r): f"leakbench attack runs/{run_id}-* -a {r['attack']}"
            for r in rows
            if r["attack"] not in ("cascade", "any_attack")
        }
    missing = [
        {
            "task": "digit-pairs",
            "defense": b["defense"],
            "defense_params": b["defense_params"],
            "attack": "gradient_inversion",
            "metric": "lpips",
        }
        | {"reason": "images are under 32 px: LPIPS does not apply"}
        for b, *_ in SETTINGS[:3]
    ]
    given: dict[str, Any] = {
        "title": "leakbench report",
        "version": "0.1.0",
        "commit": "e284c761f00d",
        "dirty": True,
        "made": "2026-11-21T06:30:00+00:00",
        "results": results,
        "tradeoff": tradeoff,
        "utility": utility,
        "missing": missing,
        "runs": runs,
        "pictures": pictures(),
        "commands": commands,
        "curves": curves(),
        "clients": clients(),
        "maps": maps(),
        "about": {
            "defenses/fedgn": About(
                "FedGN: Gaussian noise on the prototype, drawn afresh each round.",
                "Park and Yun, ECCV 2024",
            ),
            "attacks/unmix": About("Unmix: what is mixed by a public rule can be solved for."),
        },
        "guesses": {
            setting_key(b): {f"digit-pairs-{b['defense']}-s0/unmix-1": "ab" * 32}
            for b, *_ in SETTINGS
        },
        "check": Check(
            1,
            (
                (
                    "leaks more: digit-pairs, FedGN σ 0.3, cascade: P_leak 0.60 -> 0.93, +0.33"
                    " (0.20 to 0.41), allowed 0.05"
                ),
                (
                    "cannot tell: digit-pairs, FedCS cos 0.5, any_attack: +0.02 (-0.02 to 0.06),"
                    " allowed 0.05"
                ),
            ),
            "leakage.json at a1b2c3d",
        ),
    }
    return ReportData(**(given | changes))


def run_json(base: dict[str, Any], seed: int, name: str) -> dict[str, Any]:
    import json

    kinds = ["update"] if base["defense"] == "feduv" else ["update", "prototype"]
    return {
        "schema": 1,
        "status": "done",
        "id": name,
        "spec": {
            "task": {"name": base["task"], "params": {"clients": CLIENTS}},
            "defense": {"name": base["defense"], "params": json.loads(base["defense_params"])},
            "wrappers": json.loads(base["wrappers"]),
            "rounds": 300,
            "seed": seed,
        },
        "hides": base["defense"] != "fedaws",
        "engine": "fused",
        "device": "cpu",
        "dtype": "float32",
        "versions": {"leakbench": "0.1.0", "torch": "2.15.0"},
        "commit": "e284c761f00d",
        "dirty": True,
        "facts": {"clients": CLIENTS, "classes": 10, "dim": 16, "shape": [8, 8]},
        "sent": (
            [
                {
                    "kind": k,
                    "sender": "client",
                    "receiver": "server",
                    "rounds": 300,
                    "messages": 6000,
                    "bytes": 4_200_000,
                    "covered": bool(base["wrappers"] != "[]" and k == "prototype"),
                }
                for k in kinds
            ]
            + [
                {
                    "kind": "model",
                    "sender": "server",
                    "receiver": "client/*",
                    "rounds": 300,
                    "messages": 300,
                    "bytes": 9_000_000,
                    "covered": False,
                }
            ]
        ),
        "command": f"leakbench train -d {base['defense']} -t digit-pairs --seeds {seed}",
    }


def pictures() -> list[Picture]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images / 16.0
    noise = np.random.Generator(np.random.PCG64(0))
    out = []
    for base, _, _, _, psnr in SETTINGS[:1] + SETTINGS[2:3] + SETTINGS[7:8] + SETTINGS[6:7]:
        key = setting_key(base)
        for i in range(6):
            truth = images[i]
            mean = images[digits.target == digits.target[i]].mean(0)
            spread = 10 ** (-(psnr or 0) / 20)
            guess = np.clip(truth + spread * noise.standard_normal(truth.shape), 0, 1)
            for role, image in (
                ("original", truth),
                ("floor", mean),
                ("control", truth),
                ("attack", guess),
            ):
                score = (
                    None
                    if role == "original"
                    else float(min(100.0, -10 * np.log10(max(np.mean((image - truth) ** 2), 1e-8))))
                )
                found = None if role == "original" else float(score is not None and score > 20)
                out.append(
                    Picture(
                        "digit-pairs",
                        key,
                        "gradient_inversion",
                        "{}",
                        f"client/{i}",
                        0,
                        300,
                        role,
                        image,
                        score,
                        found,
                    )
                )  # type: ignore[arg-type]
    return out


ROUNDS = (1, 10, 100, 300)


def curves() -> list[Curve]:
    """Utility, leakage by both attackers and the mean cosine; FedUV has utility alone, and the best
    real attack one round.
    """
    out = []
    for base, acc, paper, cascade, _ in SETTINGS:
        key = setting_key(base)
        rising = tuple(acc * k / 4 for k in (1, 2, 3, 4))
        out.append(
            Curve(
                key,
                "accuracy",
                "",
                ROUNDS,
                rising,
                tuple(v * 0.9 for v in rising),
                tuple(min(v * 1.1, 1.0) for v in rising),
            )
        )
        if paper is not None and cascade is not None:
            own = (1.0, (1 + paper) / 2, paper, paper)
            floor = (1 / CLIENTS,) * 4
            low, high = tuple(max(v - 0.1, 0.0) for v in own), tuple(min(v + 0.1, 1.0) for v in own)
            out.append(
                Curve(key, "p_leak", "nearest prototype", ROUNDS, own, low, high, floor, "paper")
            )
            out.append(
                Curve(
                    key,
                    "p_leak",
                    "unmix",
                    (300,),
                    (cascade,),
                    (cascade,),
                    (cascade,),
                    (1 / CLIENTS,),
                    "method",
                )
            )
            out.append(
                Curve(
                    key,
                    "prototype_mean_cosine",
                    "",
                    ROUNDS,
                    (0.1, 0.2, 0.3, 0.4),
                    (0.1, 0.2, 0.3, 0.4),
                    (0.1, 0.2, 0.3, 0.4),
                )
            )
    return out


def clients() -> list[Clients]:
    """By the worst case: the first clients always, the next half of the time, the last never; the
    very last was not attacked.
    """
    out = []
    for base, _, _, cascade, _ in SETTINGS:
        if cascade is not None:
            hit = round(cascade * CLIENTS)
            shares = [1.0] * hit + [0.5] * min(2, CLIENTS - hit) + [0.0] * max(CLIENTS - hit - 2, 0)
            out.append(
                Clients(setting_key(base), "p_leak", probe=False, shares=(*shares[:-1], None))
            )
    return out


def maps() -> list[Any]:
    """Of the second setting: places on a circle, the first client's guess missing, and everybody
    named client 0 by its own paper.
    """
    key = setting_key(SETTINGS[2][0])
    around = tuple((float(np.cos(i)), float(np.sin(i))) for i in range(CLIENTS))
    moved = tuple((x + 0.1, y) for x, y in around)
    return [
        Naming(
            key,
            "the widest gap",
            "nearest prototype",
            "paper",
            CLIENTS,
            tuple((i, 0, 1.0) for i in range(CLIENTS)),
        ),
        Naming(
            key,
            "the widest gap",
            "unmix",
            "method",
            CLIENTS,
            tuple((i, i, 1.0) for i in range(1, CLIENTS)),
            failed=1,
        ),
        Embedding(
            key,
            "the widest gap",
            "unmix",
            0,
            tuple(range(CLIENTS)),
            around,
            moved,
            (None, *around[1:]),
        ),
        Split(
            "digit-pairs",
            tuple(tuple(int(k == c // 2) * 9 for k in range(10)) for c in range(CLIENTS)),
        ),
    ]
