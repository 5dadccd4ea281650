"""Ways in which a number could have looked safer than it was, each found by hand once: none of them
may come back.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.gate_rows import check
from helpers.run_folders import add_attack, make_run, measure
from helpers.small_runs import again, build, messages_in, results, trained

from attacks._inversion.victims import stand_in
from leakbench.attacking.view import View
from leakbench.base.files import read_sealed
from leakbench.gate.baseline import Baseline
from leakbench.gate.rows import gate_rows
from leakbench.metrics.prototypes import likeness
from leakbench.record.folders import find
from leakbench.record.messages import Message
from leakbench.results.tables import collect
from leakbench.scoring.score import score

N = 10
ONES = [1.0] * N


def first(k: int) -> list[float]:
    return [1.0] * k + [0.0] * (N - k)


def rows_of(
    folder: Path,
    *,
    strong: int | None,
    weak: int = 1,
    seeds: int = 8,
    control: list[float] = ONES,
    **more: Any,
) -> list[Any]:
    """Gate rows of runs on which one attack names ``strong`` clients of ten (None: it was not run)
    and another ``weak``.
    """
    for seed in range(seeds):
        run = make_run(folder, seed=seed, **more)
        add_attack(
            run,
            "averaging",
            [measure("p_leak", first(weak), 0.1, ONES)],
            rung="method",
            params={"window": 1},
        )
        if strong is not None:
            add_attack(
                run,
                "averaging",
                [measure("p_leak", first(strong), 0.1, control)],
                rung="method",
                params={"window": 20},
            )
    return gate_rows(collect(find([folder])).settings)


def states(now: list[Any], then: list[Any]) -> dict[str, tuple[str, str]]:
    """{cascade or any_attack: (state, reason)}."""
    found = check(now, Baseline.of(then)).rows
    return {r.name.split("/")[2]: (r.state, r.reason) for r in found if "utility" not in r.name}


def test_the_gate_sees_that_the_strongest_attack_was_left_out(tmp_path: Path) -> None:
    then = rows_of(tmp_path / "then", strong=8)
    now = states(rows_of(tmp_path / "now", strong=None), then)
    assert {state for state, _ in now.values()} == {"cannot tell"}
    assert all("was not run now" in reason and "averaging" in reason for _, reason in now.values())
    same = states(rows_of(tmp_path / "same", strong=8), then)
    assert {state for state, _ in same.values()} == {"fine"}


def test_the_gate_sees_that_an_attack_lost_its_control(tmp_path: Path) -> None:
    then = rows_of(tmp_path / "then", strong=8)
    now = states(rows_of(tmp_path / "now", strong=0, control=first(1)), then)
    assert {state for state, _ in now.values()} == {"cannot tell"}
    assert all("control failed" in reason for _, reason in now.values())


def test_the_gate_does_not_compare_a_run_that_was_trained_less(tmp_path: Path) -> None:
    then = rows_of(tmp_path / "then", strong=8)
    now = states(rows_of(tmp_path / "now", strong=2, rounds=10), then)
    assert {state for state, _ in now.values()} == {"cannot tell"}
    assert all(
        "another number of rounds (10) than in the baseline (100)" in reason
        for _, reason in now.values()
    )


def test_who_was_attacked_less_is_not_on_the_front_for_that(tmp_path: Path) -> None:
    """``a``: found by an attack on the last message; ``b``: leaks less and is more useful, also
    under one over all rounds.
    """
    a = make_run(tmp_path, defense="a", right=[8])
    b = make_run(tmp_path, defense="b", right=[9])
    add_attack(a, "nearest", [measure("p_leak", first(9), 0.1, ONES)])
    add_attack(b, "nearest", [measure("p_leak", first(3), 0.1, ONES)])
    add_attack(b, "averaging", [measure("p_leak", first(4), 0.1, ONES, stage="all")], rung="method")
    rows = [r for r in collect(find([tmp_path])).rows("tradeoff") if r["attack"] == "any_attack"]
    assert {(r["defense"], r["stage"]): r["on_front"] for r in rows} == {
        ("a", "final"): False,
        ("b", "all"): True,
    }


@pytest.mark.parametrize("size", [1e-30, 1e-9, 1.0, 1e9])
def test_a_message_clipped_to_nearly_nothing_still_names_its_owner(size: float) -> None:
    true = torch.randn(10, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    alike = likeness(true[3] * size, true, "cosine")
    assert int(alike.argmax()) == 3
    assert float(alike[3]) == pytest.approx(1.0)
    assert float(likeness(true[3] * 0, true, "cosine").abs().max()) == 0.0


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three of ten clients a round, and a recording that keeps little between the
    audited rounds.
    """
    from leakbench.record import training
    from leakbench.record.folders import load
    from leakbench.record.policy import Policy
    from leakbench.record.runspec import make_spec

    spec = make_spec(
        "fedgn",
        params={"fraction": 0.3, "sigma": 0.1},
        task_params={"model": "mlp", "width": 8, "dim": 8, "evaluations": 10},
        rounds=60,
    )
    spec = spec.model_copy(update={"record": Policy(last=2, decade=2, probes=1)})
    return load(training.train_run(spec, tmp_path_factory.mktemp("sparse"), device="cpu").path)


def test_naive_does_not_take_a_stale_proxy_for_the_newest(sparse: Any) -> None:
    recording, attack = again(sparse), build("gradient_inversion", attacker="naive")
    t = recording.stages["middle"]
    view, seen = View(attack.threat, recording, t), set()
    traffic = view.traffic("prototype")
    for m in view.messages("update", round=t):
        client = int(m.sender.split("/")[1])
        sent = traffic[(traffic[:, 1] == client) & (traffic[:, 0] < t)][:, 0].tolist()
        kept = {e.round: e for e in view.messages("prototype", sender=m.sender)}
        taken: Message = kept[sent[-1]] if sent[-1] in kept else kept[t]
        got = stand_in(view, m, "own/prototype", torch.zeros(8))
        assert torch.equal(got, taken.payload)
        seen.add(sent[-1] in kept or not any(r < t for r in kept))
    assert False in seen  # somebody's newest was not kept, an older one was


def test_clients_of_whom_nothing_was_kept_are_counted_at_every_stage(
    sparse: Any, tmp_path: Path
) -> None:
    from leakbench import api

    run = shutil.copytree(sparse.path, tmp_path / sparse.path.name)
    folder = api.attack(run, "prototype_leakage", device="cpu").path
    said = " ".join(m["reason"] for m in read_sealed(folder / "attack.json")["missing"])
    for stage, t in again(sparse).stages.items():
        traffic = again(sparse).traffic["prototype"]
        senders = set(traffic[(traffic[:, 1] >= 0) & (traffic[:, 0] <= t)][:, 1].tolist())
        n = int(results(folder, "p_leak", stage)["n"])
        why = (
            f"{len(senders) - n} of {len(senders)} clients: their newest prototype was not kept by"
            f" the recording policy (stage {stage})"
        )
        assert (why in said) == (n < len(senders))
    assert "(stage middle)" in said


@pytest.mark.parametrize("covered", [("prototype",), ("prototype", "update")])
def test_p_leak_and_its_control_by_hand(covered: tuple[str, ...], tmp_path: Path) -> None:
    """Straight from the files: clipping, noise and a secure sum composed, three of ten clients a
    round.
    """
    from leakbench.record.messages import overlaid

    wrappers = [
        ("clip_noise", {"kinds": list(covered), "clip": 0.5, "noise": 0.4}),
        ("secure_sum", {}),
    ]
    run = trained(tmp_path, "fedgn", 12, params={"fraction": 0.3}, wrappers=wrappers)
    attack, recording = build("prototype_leakage"), again(run)
    from leakbench.attacking.guessing import guess

    guess(recording, "prototype_leakage", attack)
    row = results(score(recording, "prototype_leakage", attack), "p_leak")
    crossed, bare = (messages_in(run.path / part) for part in ("transcript", "control"))
    true = run.tree("truth/round-000012.safetensors")[0]["everyone"]["prototype"].double()
    for messages, value in ((crossed, row["value"]), (overlaid(crossed, bare), row["control"])):
        newest = {
            m.sender: m
            for m in messages
            if m.kind == "prototype" and m.sender != "server" and m.round <= 12
        }
        hits = [
            int((true @ m.payload.double()).argmax()) == int(s.split("/")[1])
            for s, m in newest.items()
        ]
        assert value == pytest.approx(sum(hits) / len(hits))
    assert row["control"] == 1.0
