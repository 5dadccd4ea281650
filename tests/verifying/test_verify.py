"""verify notices what was changed behind the seals, and says what it cannot check."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.run_folders import edited
from helpers.small_runs import FEW_PROBES, TASK, attacked, copied, tree_of

import leakbench
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import (
    file_digest,
    read_csv,
    read_sealed,
    read_tree,
    write_csv,
    write_tree,
)
from leakbench.base.tree import flat, tmap, unflat
from leakbench.cli import run as run_cli
from leakbench.record import columns, twin
from leakbench.record.folders import Run
from leakbench.record.runspec import RunSpec
from leakbench.results import utility
from leakbench.verifying import Finding

ROUNDS = 4


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with an attack on it."""
    return attacked(tmp_path_factory.mktemp("runs"), ROUNDS, params={"sigma": 0.3})


@pytest.fixture
def copy(honest: Run, tmp_path: Path) -> Run:
    return copied(honest, tmp_path)


def differing(found: tuple[Finding, ...]) -> set[str]:
    return {f.part for f in found if f.outcome == "differs"}


def attacks_of(run: Run) -> list[Path]:
    return [p for p in (run.path / "attacks").iterdir() if p.is_dir()]


def retold(run: Run, name: str) -> None:
    """Write a changed file's digest wherever it is told, as one who knows of every seal."""
    edited(
        run.path / "run.json",
        lambda meta: meta["files"].update({name: file_digest(run.path / name)}),
    )
    now = Run(run.path, read_sealed(run.path / "run.json"))
    for folder in attacks_of(run):
        tree, head = read_tree(folder / "guess.safetensors")
        head["transcript"] = now.transcript
        write_tree(folder / "guess.safetensors", tree, head)
        edited(folder / "attack.json", lambda meta: meta.update(of=now.named))
        attack_retold(folder, "guess.safetensors")


def attack_retold(folder: Path, name: str) -> None:
    sha = file_digest(folder / name)
    edited(folder / "attack.json", lambda meta: meta["files"].update({name: sha}))


def tensor_changed(
    run: Run, name: str, at: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """Change one tensor of a file."""
    tree, meta = read_tree(run.path / name)
    leaves = flat(tree)
    leaves[at] = change(leaves[at])
    write_tree(run.path / name, unflat(leaves), meta)
    retold(run, name)


def test_an_honest_run_holds_in_every_part(honest: Run) -> None:
    found = leakbench.verify(honest, replay=ROUNDS)
    assert {f.outcome for f in found} == {"holds", "not checked"}
    parts = {f.part for f in found if f.outcome == "holds"}
    rooms = {"transcript", "control", "known", "truth", "truth/data.safetensors", "utility.csv"}
    assert rooms | {"checkpoint/model.safetensors", "transcript/rounds.safetensors"} <= parts
    assert any(p.startswith("attacks/") for p in parts)
    open_ones = {f.part.split("/")[0] for f in found if f.outcome == "not checked"}
    assert open_ones == {"run.json", "attacks"}


def test_a_run_that_is_evaluated_later_than_round_1_holds(tmp_path: Path) -> None:
    """The loss of round 1 is told all the same."""
    task = {**TASK, "evaluations": 10}
    run = leakbench.train("fedavg", task_params=task, rounds=30, out=tmp_path)
    told = [(r["round"], r["name"]) for r in run.table("diagnostics.csv", columns.RUN_DIAGNOSTICS)]
    assert told[0] == (1, "loss")
    assert told[1][0] > 1
    for rounds in (6, 30):
        assert differing(leakbench.verify(run, replay=rounds)) == set()


def test_no_finding_is_a_question_that_its_outcome_would_answer(honest: Run) -> None:
    """As in: is the run alive? holds ... it is dead."""
    found = leakbench.verify(honest)
    assert not [f.what for f in found if f.what.endswith("?")]
    (told,) = [f for f in found if f.what == "whether the run is alive"]
    dead = utility.utility_of_run(honest).dead
    assert told.detail == (f"a dead run: {dead}" if dead else "alive")


def test_the_first_rounds_alone_are_replayed_where_only_they_are_asked_for(honest: Run) -> None:
    found = leakbench.verify(honest, replay=1)
    assert not any("model" in f.part for f in found)
    assert any("rounds 0 to 1" in f.what and f.outcome == "holds" for f in found)
    none = leakbench.verify(honest)
    (said,) = [f for f in none if f.part == "transcript"]
    assert said.outcome == "not checked"
    assert "--replay" in said.detail


@pytest.mark.parametrize("room", ["transcript", "control", "truth"])
def test_a_message_that_training_does_not_send_is_noticed(copy: Run, room: str) -> None:
    name = f"{room}/round-000001.safetensors"
    tensors = flat(read_tree(copy.path / name)[0])
    at = next(k for k, t in tensors.items() if t.is_floating_point() and t.numel() > 1)
    tensor_changed(copy, name, at, lambda t: t.flip(0) + 1)
    assert differing(leakbench.verify(copy, replay=1)) >= {room}


def test_a_last_bit_is_told_from_another_message(copy: Run) -> None:
    name = "transcript/round-000001.safetensors"
    tensors = flat(read_tree(copy.path / name)[0])
    at = next(k for k, t in tensors.items() if t.is_floating_point() and t.numel() > 1)
    tensor_changed(copy, name, at, lambda t: t * (1 + 1e-6))
    found = leakbench.verify(copy, replay=1)
    assert differing(found) == set()
    (said,) = [f for f in found if f.outcome == "nearly"]
    assert said.part == "transcript"


def test_private_data_that_are_not_the_task_s_are_noticed(copy: Run) -> None:
    tensor_changed(copy, "truth/data.safetensors", "x", lambda t: t.roll(1, 0))
    assert "truth/data.safetensors" in differing(leakbench.verify(copy))


def test_auxiliary_data_that_are_not_the_task_s_are_noticed(copy: Run) -> None:
    tensor_changed(copy, "known/aux_data.safetensors", "y", lambda t: t.roll(1, 0))
    assert "known/aux_data.safetensors" in differing(leakbench.verify(copy))


def test_utility_that_its_scores_do_not_give_is_noticed(copy: Run) -> None:
    rows = table(copy.path / "utility.csv", columns.RUN_UTILITY)
    rows[0]["value"] = 0.99
    write_csv(copy.path / "utility.csv", columns.RUN_UTILITY, rows)
    retold(copy, "utility.csv")
    assert "utility.csv" in differing(leakbench.verify(copy))


def test_scores_that_the_guesses_do_not_give_are_noticed(copy: Run) -> None:
    """With the means made again, so that scores and results agree."""
    (folder,) = attacks_of(copy)
    units = table(folder / "units.csv", columns.UNITS)
    for unit in units:
        if (unit["metric"], unit["role"]) == ("prototype_cosine", "attack"):
            unit["score"] = 0.0
    write_csv(folder / "units.csv", columns.UNITS, units)
    rows = table(folder / "results.csv", columns.RESULTS)
    for row in rows:
        if row["metric"] == "prototype_cosine":
            row.update(value=0.0, low=0.0, high=0.0)
    write_csv(folder / "results.csv", columns.RESULTS, rows)
    for name in ("units.csv", "results.csv"):
        attack_retold(folder, name)
    assert f"attacks/{folder.name}" in differing(leakbench.verify(copy))


def test_guesses_that_were_exchanged_are_noticed(copy: Run) -> None:
    (folder,) = attacks_of(copy)
    tree, meta = read_tree(folder / "guess.safetensors")
    write_tree(folder / "guess.safetensors", tmap(lambda t: -t, tree), meta)
    attack_retold(folder, "guess.safetensors")
    assert f"attacks/{folder.name}" in differing(leakbench.verify(copy))


def test_a_metric_of_another_version_is_not_compared(
    copy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = attacks_of(copy)
    edited(folder / "attack.json", lambda m: m["metrics"]["p_leak"].update(version=2))
    said = [f for f in leakbench.verify(copy) if f.part == f"attacks/{folder.name}"]
    assert any(f.outcome == "not checked" and "version" in f.detail for f in said)


def test_nothing_is_written(copy: Run) -> None:
    before = tree_of(copy.path)
    leakbench.verify(copy, replay=1)
    assert tree_of(copy.path) == before


def test_a_run_that_was_renamed_holds_and_a_name_written_in_by_hand_does_not(copy: Run) -> None:
    how: dict[str, Any] = {"params": {"sigma": 0.3}, "rounds": ROUNDS, "out": copy.path.parent}
    how["record"] = FEW_PROBES
    named = leakbench.train("fedgn", task_params=TASK, device="cpu", called="release", **how)
    assert named.path == copy.path
    assert named.spec["name"] == "release"
    found = leakbench.verify(named)
    assert differing(found) == set()
    assert {"run.json", "files"} <= {f.part for f in found if f.outcome == "holds"}
    text = (copy.path / "run.json").read_text()
    (copy.path / "run.json").write_text(text.replace('"name": "release"', '"name": "other"'))
    with pytest.raises(BrokenFile, match="was changed or damaged"):
        leakbench.verify(copy.path)


def test_an_unfinished_run_is_one_sentence(copy: Run) -> None:
    edited(copy.path / "run.json", lambda meta: meta.update(status="running"))
    with pytest.raises(UsageError, match="is not complete"):
        leakbench.verify(copy)


def test_the_command_says_it_all(copy: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["verify", str(copy.path), "--replay", "1"]) == 0
    out = capsys.readouterr().out
    assert "holds" in out
    assert "who made it" in out
    tensor_changed(copy, "known/aux_data.safetensors", "y", lambda t: t.roll(1, 0))
    assert run_cli(["verify", str(copy.path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert [f["part"] for f in told[str(copy.path)] if f["outcome"] == "differs"]


def table(path: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """The typed rows of a CSV."""
    return [columns.typed(row, path) for row in read_csv(path, names)]


def test_the_twin_of_a_run_is_derived_again(copy):
    made = twin.twin_of(RunSpec.build(copy.spec, "run.json"))

    def found(value):
        edited(copy.path / "run.json", lambda meta: meta.update(twin=value))
        checked = leakbench.verify(copy.path)
        return [f.outcome for f in checked if (f.part, f.what) == ("run.json", "twin")]

    assert found(dict(made)) == ["holds"]
    twice = {k: [2 * x for x in v] for k, v in made.items()}
    for other in (twice, {}, "x", {**made, "t": "x"}, {**made, "t": []}):
        assert found(other) == ["differs"]
