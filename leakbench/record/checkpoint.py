"""A run's checkpoint: written between rounds, read when the run goes on, gone when it is done."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import BrokenFile
from leakbench.base.files import read_tree, seal, write_tree
from leakbench.base.lazy import torch
from leakbench.base.shapes import check_shape
from leakbench.base.tree import Tree, flat, nbytes, unflat
from leakbench.federation.evaluate import Evaluations
from leakbench.record.shapes import CheckpointHeader

if TYPE_CHECKING:
    from leakbench.federation.federation import Federation

THREADS = range(1, 4097)
STATE = Path("checkpoint") / "state.safetensors"
MODEL, CLIENTS = "checkpoint/model.safetensors", "checkpoint/clients.safetensors"
LARGEST = 16 * 1024**2  # bytes of what clients hold that are kept for an evaluation
PARTS = {"order", "totals", "diagnostics", "phases", "fallbacks", "origin", "begun_by", "digest"}


def last_checkpoint(folder: Path) -> tuple[Tree, Any] | None:
    """The last checkpoint, if there is one.

    Raises:
        BrokenFile: it is damaged.
    """
    path = folder / STATE
    if not path.exists():
        return None
    mend = "Delete it to train this run anew."
    tree, meta = read_tree(path, mend)
    check_shape(CheckpointHeader, meta, path, mend)
    whole = set(meta) >= PARTS and meta["digest"] == _digest(tree, meta)
    whole = whole and isinstance(meta["origin"], dict) and meta["origin"].get("threads") in THREADS
    if not whole or set(meta["order"]) != set(flat(tree.get("federation", {}))):
        raise BrokenFile(f"{path} is damaged (it lacks a part, or one was changed). {mend}")
    return tree, meta


def write_checkpoint(
    fed: Federation,
    folder: Path,
    scores: Evaluations,
    origin: Mapping[str, Any],
    begun_by: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Replace the checkpoint by how things stand between two rounds.

    ``origin``: the code and data that are at work; ``begun_by``: those before them.
    """
    rows, totals = fed.traffic.state()
    measured = {f"{t:06d}": v for t, v in scores.scores.items()}
    tree = {"federation": fed.snapshot(), "traffic": rows, "scores": measured}
    # safetensors sorts names, and a sum over a model's tensors depends on their order in the last
    # bit.
    order = list(flat(tree["federation"]))
    meta: dict[str, Any] = {"order": order, "phases": fed.phases, "fallbacks": fed.fallbacks}
    meta |= {"origin": dict(origin), "begun_by": list(begun_by)}
    meta |= {"totals": totals, "diagnostics": scores.diagnostics}
    write_tree(folder / STATE, tree, {**meta, "digest": _digest(tree, meta)})


def restore(fed: Federation, tree: Tree, meta: Any) -> Evaluations:
    """Put ``fed`` where the checkpoint was taken; returns what had been measured until then."""
    leaves = flat(tree["federation"])
    fed.restore(unflat({name: leaves[name] for name in meta["order"]}))
    fed.traffic.restore(tree.get("traffic", {}), meta["totals"])
    fed.phases.update(meta["phases"])
    fed.fallbacks.update(meta["fallbacks"])
    scores = {int(t): v for t, v in flat(tree.get("scores", {})).items()}
    return Evaluations(scores, [(t, name, value) for t, name, value in meta["diagnostics"]])


def _digest(tree: Tree, meta: Mapping[str, Any]) -> str:
    """SHA-256 of the header and all tensors by name.

    Who goes on from other numbers, or by another count of what was sent, must not do it unnoticed.
    """
    sha = hashlib.sha256(seal(meta).encode())
    for name, tensor in sorted(flat(tree).items()):
        plain = tensor.detach().cpu().contiguous()
        sha.update(f"{name}\0{plain.dtype}\0{tuple(plain.shape)}\0".encode())
        sha.update(plain.numpy().tobytes())
    return sha.hexdigest()


def leave(fed: Federation, folder: Path) -> None:
    """Write what is left of a federation after its last round: the model, and what clients hold.

    With both it can be evaluated again. What clients hold is left out where it is larger than
    ``LARGEST``.
    """
    write_tree(folder / MODEL, fed.model, {"round": fed.t})
    held = {**fed.columns, "lasting": fed.lasting}
    if flat(held) and nbytes(held) <= LARGEST:
        write_tree(folder / CLIENTS, held, {"round": fed.t})


def as_left(fed: Federation, t: int, model: Tree, held: Tree | None) -> bool:
    """Put ``fed``, made anew, where ``leave`` left it after round ``t``; False where that is gone.

    ``held``: what clients hold, None where there is no file of it.
    """
    if held is None and flat({**fed.columns, "lasting": fed.lasting}):
        return False
    fed.restore({"t": torch.tensor(t), "model": model, **(held or {})})
    return True
