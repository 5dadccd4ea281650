"""Every value of every JSON of a run folder made wrong, one after the other, and sealed again.

Of each mutant the tables are made, its messages and truth read, and an attack on it scored. It must
give the very same tables, or be refused by one sentence; another exception is a fault, and so are
tables that changed. Run it from a checkout: ``python benchmarks/campaigns/json_mutants.py [SEED
[COUNT]]``; without COUNT it tries every mutant.
"""

from __future__ import annotations

import copy
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakbench import api
from leakbench.attacking import Outline, choices
from leakbench.base.errors import LeakbenchError
from leakbench.base.files import read_sealed, read_tree, write_sealed, write_tree
from leakbench.record.columns import TABLES
from leakbench.record.folders import load
from leakbench.record.recording import Recording
from leakbench.results.tables import collect
from leakbench.scoring import score as scoring
from leakbench.scoring.truth import Truth

TASK = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10}
MISSING = object()
WRONG: tuple[Any, ...] = (
    *(10**9, 10**30, -1, 0.5, 1e300, None, "", "x" * 20_000, [], {}, [[]], True, "NaN"),
    *({"a": {"b": 1}}, ["1"], MISSING),
)
LONGEST = 20.0  # seconds that one mutant may take

Where = tuple[Any, ...]


def places(value: Any, at: Where = ()) -> Iterator[Where]:
    """Every place below ``value``: keys and indices, the containers too."""
    keys: Any = ()
    if isinstance(value, dict):
        keys = value
    elif isinstance(value, list):
        keys = range(min(len(value), 3))
    for key in keys:
        yield (*at, key)
        yield from places(value[key], (*at, key))


def mutated(value: Any, at: Where, wrong: Any) -> Any:
    """A copy of ``value`` with ``wrong`` at the place ``at``."""
    out = copy.deepcopy(value)
    holder = out
    for key in at[:-1]:
        holder = holder[key]
    if wrong is MISSING:
        del holder[at[-1]]
    else:
        holder[at[-1]] = wrong
    return out


def made(out: Path) -> Path:
    """A run with an attack on it, below ``out``."""
    run = api.train("fedgn", task_params=TASK, rounds=3, out=out, device="cpu")
    api.attack(run.path, "prototype_leakage")
    return run.path


def read(run: Path) -> dict[str, Any]:
    """All that reads a run folder; returns the tables."""
    found = load(run)
    tables = collect([found])
    rows = {name: tables.rows(name) for name in TABLES}
    recording = Recording(found)
    _ = recording.transcript, recording.control, recording.known("labels"), recording.traffic
    attack = choices.build("prototype_leakage", {}).attack
    attack.obstacle(Outline(recording, attack.threat))
    truth = Truth(found)
    _ = truth.data, [truth.round(t) for t in truth.rounds]
    scoring.score(recording, "prototype_leakage", attack)
    return rows


def files(run: Path) -> list[tuple[Path, str]]:
    """(file, how it is written) of all that holds JSON."""
    (attack,) = run.glob("attacks/*")
    out = [(run / "run.json", "sealed"), (attack / "attack.json", "sealed")]
    rooms = [
        f for room in ("transcript", "control", "known", "truth") for f in (run / room).iterdir()
    ]
    return out + [(f, "header") for f in (*sorted(rooms)[:40], attack / "guess.safetensors")]


def write(run: Path, path: Path, how: str, value: Any) -> None:
    """Put the mutant in place, its hash in the list, and the seals on again."""
    if how == "sealed":
        if isinstance(value.get("schema"), int):
            write_sealed(path, value)
        else:
            write_sealed(path, value)
        return
    tree, _ = read_tree(path)
    write_tree(path, tree, value)
    from leakbench.base.files import file_digest

    holder = path.parent / "attack.json" if path.name == "guess.safetensors" else run / "run.json"
    meta = read_sealed(holder)
    meta["files"][path.relative_to(holder.parent).as_posix()] = file_digest(path)
    write_sealed(holder, meta)


def judged(
    pristine: Path, place: Path, before: dict[str, Any], file: str, how: str, value: Any
) -> str:
    """What becomes of one mutant: same, refused, changed, slow, or the exception's name."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(pristine, place)
    write(place, place / file, how, value)
    begun = time.monotonic()
    try:
        rows = read(place)
    except LeakbenchError as error:
        if "\n" in str(error):
            return "several lines"
        return "refused" if time.monotonic() - begun < LONGEST else "slow"
    except Exception as error:
        traceback.print_exc(limit=-3)
        return type(error).__name__
    if time.monotonic() - begun > LONGEST:
        return "slow"
    return "same" if rows == before else "changed"


def mutants(run: Path) -> Iterator[tuple[str, str, Where, Any]]:
    """(file, how it is written, place, wrong value) of all there are."""
    for path, how in files(run):
        value = read_sealed(path) if how == "sealed" else read_tree(path)[1]
        for at in places(value):
            if at[0] == "digest":
                continue
            for wrong in WRONG:
                yield path.relative_to(run).as_posix(), how, at, wrong


def campaign(seed: int, count: int | None) -> Counter[str]:
    """Try ``count`` mutants, drawn by ``seed``; all of them where it is None."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        pristine = made(Path(folder) / "runs")
        place = Path(folder) / "mutant" / pristine.name
        before = judged_tables(pristine, place)
        every = list(mutants(pristine))
        if count is not None:
            every = random.Random(seed).sample(every, min(count, len(every)))
        for file, how, at, wrong in every:
            path = pristine / file
            value = read_sealed(path) if how == "sealed" else read_tree(path)[1]
            shown = "missing" if wrong is MISSING else repr(wrong)[:30]
            verdict = judged(pristine, place, before, file, how, mutated(value, at, wrong))
            found[verdict] += 1
            if verdict not in ("same", "refused"):
                print(f"{verdict}: {file} {'.'.join(map(str, at))} = {shown}", flush=True)
    return found


def judged_tables(pristine: Path, place: Path) -> dict[str, Any]:
    """The tables of the folder as it is."""
    shutil.copytree(pristine, place)
    return read(place)


if __name__ == "__main__":
    words = [int(w) for w in sys.argv[1:]]
    print(dict(campaign(words[0] if words else 0, words[1] if len(words) > 1 else None)))
