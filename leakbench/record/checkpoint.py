"""A run's checkpoint: written between rounds, read when the run goes on, gone when it is done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import BrokenFile
from leakbench.base.files import read_tree, write_tree
from leakbench.base.shapes import checked
from leakbench.base.tree import Tree, flat, unflat
from leakbench.federation.evaluate import Evaluations
from leakbench.record.shapes import CheckpointHeader

if TYPE_CHECKING:
    from leakbench.federation.federation import Federation

STATE = Path("checkpoint") / "state.safetensors"


def saved(folder: Path) -> tuple[Tree, Any] | None:
    """The last checkpoint, if there is one.

    Raises:
        BrokenFile: it is damaged.
    """
    path = folder / STATE
    if not path.exists():
        return None
    try:
        tree, meta = read_tree(path)
    except BrokenFile as error:
        what = str(error).replace("Make it again.", "Delete it to train this run anew.")
        raise BrokenFile(what) from None
    checked(CheckpointHeader, meta, path, "Delete it to train this run anew.")
    if set(meta["order"]) != set(flat(tree.get("federation", {}))):
        raise BrokenFile(f"{path} is damaged (it lacks a part). Delete it to train this run anew.")
    return tree, meta


def write(fed: Federation, folder: Path, scores: Evaluations) -> None:
    """Replace the checkpoint by how things stand between two rounds."""
    rows, totals = fed.traffic.state()
    measured = {f"{t:06d}": v for t, v in scores.scores.items()}
    tree = {"federation": fed.snapshot(), "traffic": rows, "scores": measured}
    # safetensors sorts names, and a sum over a model's tensors depends on their order in the last
    # bit.
    order = list(flat(tree["federation"]))
    meta = {"order": order, "phases": fed.phases, "fallbacks": fed.fallbacks}
    write_tree(folder / STATE, tree, {**meta, "totals": totals, "diagnostics": scores.diagnostics})


def restore(fed: Federation, tree: Tree, meta: Any) -> Evaluations:
    """Put ``fed`` where the checkpoint was taken; returns what had been measured until then."""
    leaves = flat(tree["federation"])
    fed.restore(unflat({name: leaves[name] for name in meta["order"]}))
    fed.traffic.restore(tree.get("traffic", {}), meta["totals"])
    fed.phases.update(meta["phases"])
    fed.fallbacks.update(meta["fallbacks"])
    scores = {int(t): v for t, v in flat(tree.get("scores", {})).items()}
    return Evaluations(scores, [(t, name, value) for t, name, value in meta["diagnostics"]])
