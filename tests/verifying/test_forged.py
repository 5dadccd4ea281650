"""Whatever run.json, attack.json or a table says: who forges it is found, or it is not checked.

The forger knows of every seal, and writes every digest anew.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.run_folders import edited
from helpers.small_runs import attacked, copied, trained

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
from leakbench.base.tree import flat, unflat
from leakbench.record import columns
from leakbench.record.folders import Run, load
from leakbench.record.training import utility_rows
from leakbench.verifying import Finding

ROUNDS = 4


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose clients hold prototypes, with an attack on it."""
    return attacked(tmp_path_factory.mktemp("runs"), ROUNDS, params={"sigma": 0.3})


@pytest.fixture
def copy(honest: Run, tmp_path: Path) -> Run:
    return copied(honest, tmp_path)


def another(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value[:-1]}{'0' if value[-1:] != '0' else '1'}"
    if isinstance(value, list):
        return [another(value[0]), *value[1:]] if value else [{"name": "decoder", "params": {}}]
    if isinstance(value, dict):
        key = next(iter(value), None)
        return {**value, key: another(value[key])} if key else {"more": "more"}
    return True


def forged(meta: dict[str, Any], path: str) -> None:
    *above, key = path.split(".")
    at = meta
    for name in above:
        at = at[name]
    at[key] = another(at.get(key))


def told(run: Run, part: str, key: str) -> str:
    """How a forgery is answered: "refused", "differs", or "not checked", by name; else "passed"."""
    try:
        found = leakbench.verify(load(run.path))
    except BrokenFile:
        return "refused"
    if any(f.outcome == "differs" for f in found):
        return "differs"
    named = [f for f in found if f.outcome == "not checked" and f.part == part]
    listed = {name for f in named for name in re.split(r"[,:] ", f.what)}
    return "not checked" if key in listed or key.split(".")[0] in listed else "passed"


# What only those who made it knew: no file tells, and that is said.
UNKNOWN = (
    *("device", "commit", "dirty", "machine", "phases", "fallbacks", "versions", "sources"),
    *("machine.threads", "versions.torch", "sources.utility", "sources.core", "spec.attacks"),
    "sent",
)
# What is derived again.
DERIVED = (
    *("method", "secrets", "engine", "dtype", "command", "test_data", "hides", "distance"),
    *(
        "facts",
        "stages",
        "pooled",
        "stand_in",
        "begins",
        "utility",
        "utility.chance",
        "utility.better",
        "missing",
    ),
    *("utility.metric", "utility.meaning.about", "utility.meaning.direction", "facts.clients"),
    *("data", "data.official", "data.digest", "files", "method.title", "mine"),
    *("schema", "id", "status", "spec.defense", "spec.seed", "spec.rounds"),
)


def test_every_key_of_run_json_is_forged(honest: Run) -> None:
    above = {key.split(".")[0] for key in (*UNKNOWN, *DERIVED)} - {"mine"}
    assert above == honest.meta.keys() - {"digest"}


@pytest.mark.parametrize("key", [*UNKNOWN, *DERIVED])
def test_a_forged_key_of_run_json(copy: Run, key: str) -> None:
    edited(copy.path / "run.json", lambda meta: forged(meta, key))
    if key == "status":
        with pytest.raises((BrokenFile, UsageError)):
            leakbench.verify(copy.path)
        return
    found = told(copy, "run.json", key)
    assert found in {"refused", "differs", *(["not checked"] if key in UNKNOWN else [])}


@pytest.mark.parametrize("field", ["bytes", "messages", "rounds", "covered", "kind"])
def test_a_forged_line_of_what_was_sent(copy: Run, field: str) -> None:
    def change(meta: dict[str, Any]) -> None:
        meta["sent"][0][field] = another(meta["sent"][0][field])

    edited(copy.path / "run.json", change)
    assert told(copy, "run.json", "sent") != "passed"
    found = leakbench.verify(copy.path, replay=ROUNDS)
    assert any(f.outcome == "differs" for f in found)


ATTACK_UNKNOWN = (
    *("device", "machine", "commit", "dirty", "seconds", "isolated", "versions", "sources"),
)
ATTACK_DERIVED = (
    *("threat", "reads", "conditions", "order", "paper", "command", "metrics", "missing", "files"),
    *("dtype", "mine", "schema", "params", "attack", "of", "pools"),
)


def attack_json(run: Run) -> Path:
    (folder,) = [p for p in (run.path / "attacks").iterdir() if p.is_dir()]
    return folder / "attack.json"


def test_every_key_of_attack_json_is_forged(honest: Run) -> None:
    meta = read_sealed(attack_json(honest))
    assert {*ATTACK_UNKNOWN, *ATTACK_DERIVED} - {"mine"} == meta.keys() - {"digest", "status"}


@pytest.mark.parametrize("key", [*ATTACK_UNKNOWN, *ATTACK_DERIVED])
def test_a_forged_key_of_attack_json(copy: Run, key: str) -> None:
    path = attack_json(copy)
    edited(path, lambda meta: forged(meta, key))
    found = told(copy, f"attacks/{path.parent.name}", key)
    assert found in {"refused", "differs", *(["not checked"] if key in ATTACK_UNKNOWN else [])}


def test_a_command_with_an_open_quote(copy: Run) -> None:
    for path in (copy.path / "run.json", attack_json(copy)):
        edited(path, lambda meta: meta.update(command="leakbench train -s 'x"))
    differing = {f.part for f in leakbench.verify(copy.path) if f.outcome == "differs"}
    assert differing >= {"run.json", f"attacks/{attack_json(copy).parent.name}"}


def test_an_attack_that_is_said_to_have_failed_is_not_checked(copy: Run) -> None:
    path = attack_json(copy)
    edited(path, lambda meta: meta.update(status="failed: no luck"))
    assert told(copy, f"attacks/{path.parent.name}", "its numbers") == "not checked"


def retold(run: Run, *names: str) -> Run:
    """Files were changed: their digests are written anew wherever they are told."""
    shas = {name: file_digest(run.path / name) for name in names}
    edited(run.path / "run.json", lambda meta: meta["files"].update(shas))
    now = load_bare(run)
    for path in (run.path / "attacks").glob("*/attack.json"):
        edited(path, lambda meta: meta.update(of=now.named))
    return now


def load_bare(run: Run) -> Run:
    return Run(run.path, read_sealed(run.path / "run.json"))


def differing(found: tuple[Finding, ...]) -> set[str]:
    return {f.part for f in found if f.outcome == "differs"}


def with_utility(run: Run, value: float) -> Run:
    """All test units of the last evaluation score ``value``, and utility.csv says so."""
    tree, head = read_tree(run.path / "utility.safetensors")
    tree[max(tree)] = torch.full_like(tree[max(tree)], value)
    write_tree(run.path / "utility.safetensors", tree, head)
    rows = utility_rows(head["metric"], {int(t): v for t, v in tree.items()})
    write_csv(run.path / "utility.csv", columns.RUN_UTILITY, rows)
    return retold(run, "utility.csv", "utility.safetensors")


@pytest.mark.parametrize("defense", ["fedgn", "fedavg", "fedbn"])
def test_a_forged_utility_is_not_what_the_final_model_has(tmp_path: Path, defense: str) -> None:
    """Where clients hold prototypes or parts of the model, too."""
    run = trained(tmp_path, defense, rounds=2)
    found = leakbench.verify(run)
    assert differing(found) == set()
    assert [f.outcome for f in found if f.what.startswith("the last evaluation")] == ["holds"]
    found = leakbench.verify(with_utility(run, 1.0))
    assert "utility.safetensors" in differing(found)


def test_what_clients_hold_need_not_be_there_and_then_it_is_said(copy: Run) -> None:
    edited(copy.path / "run.json", lambda m: m["files"].pop("checkpoint/clients.safetensors"))
    (copy.path / "checkpoint" / "clients.safetensors").unlink()
    found = leakbench.verify(retold(copy))
    assert differing(found) == set()
    (said,) = [f for f in found if f.what.startswith("the last evaluation")]
    assert said.outcome == "not checked"
    assert "--replay" in said.detail


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint/model.safetensors",
        "checkpoint/clients.safetensors",
        "transcript/round-000001.safetensors",
        "control/round-000001.safetensors",
        "truth/round-000001.safetensors",
        "truth/data.safetensors",
        "known/aux_data.safetensors",
    ],
)
def test_a_forged_tensor_is_found_or_the_room_is_not_checked(copy: Run, name: str) -> None:
    tree, head = read_tree(copy.path / name)
    leaves = flat(tree)
    at = next(k for k, t in leaves.items() if t.is_floating_point() and t.numel() > 1)
    leaves[at] = leaves[at].flip(0) * -2 + 1
    write_tree(copy.path / name, unflat(leaves), head)
    run = retold(copy, name)
    found = leakbench.verify(run)
    room = name.split("/")[0]
    named = {f.part for f in found if f.outcome == "not checked"}
    assert differing(found) or room in named
    assert differing(leakbench.verify(run, replay=ROUNDS))


@pytest.mark.parametrize("column", ["round", "name", "value"])
def test_forged_diagnostics(copy: Run, column: str) -> None:
    path = copy.path / "diagnostics.csv"
    rows = [columns.typed(r, path) for r in read_csv(path, columns.RUN_DIAGNOSTICS)]
    rows[0][column] = another(rows[0][column])
    write_csv(path, columns.RUN_DIAGNOSTICS, rows)
    run = retold(copy, "diagnostics.csv")
    named = {f.part for f in leakbench.verify(run) if f.outcome == "not checked"}
    assert "diagnostics.csv" in named
    assert "diagnostics.csv" in differing(leakbench.verify(run, replay=ROUNDS))


@pytest.mark.parametrize("column", columns.RUN_UTILITY)
def test_every_column_of_utility_csv(copy: Run, column: str) -> None:
    path = copy.path / "utility.csv"
    rows = [columns.typed(r, path) for r in read_csv(path, columns.RUN_UTILITY)]
    rows[-1][column] = another(rows[-1][column])
    write_csv(path, columns.RUN_UTILITY, rows)
    assert "utility.csv" in differing(leakbench.verify(retold(copy, "utility.csv")))


@pytest.mark.parametrize(
    ("name", "column"),
    [("results.csv", c) for c in columns.RESULTS] + [("units.csv", c) for c in columns.UNITS],
)
def test_every_column_of_an_attacks_tables(copy: Run, name: str, column: str) -> None:
    folder = attack_json(copy).parent
    names = columns.RESULTS if name == "results.csv" else columns.UNITS
    rows = [columns.typed(r, folder / name) for r in read_csv(folder / name, names)]
    rows[0][column] = another(rows[0][column])
    write_csv(folder / name, names, rows)
    sha = file_digest(folder / name)
    edited(folder / "attack.json", lambda meta: meta["files"].update({name: sha}))
    with suppress(BrokenFile):  # refused as soon as it is read
        assert f"attacks/{folder.name}" in differing(leakbench.verify(load(copy.path)))
