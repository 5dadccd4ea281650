"""What a client could notice of a model that its server did not make by the method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, flat, tmap
from leakbench.federation.batches import Plan
from leakbench.federation.parties import Batch
from leakbench.federation.party_runner import PartyRunner, single
from leakbench.federation.task_data import TaskData

if TYPE_CHECKING:
    from torch import Tensor, nn

SEEN = 10  # clients of a round that are looked at, at most
FLAT = 0.99  # a tanh or sigmoid this near to its ends no longer moves


def noticed(
    runner: PartyRunner,
    name: str,
    t: int,
    each: Tree,
    todo: Plan,
    data: TaskData,
    inbox: Tree,
    meant: Mapping[str, Tensor],
    aimed: Sequence[int],
) -> tuple[dict[str, float], Tensor]:
    """Means over the clients ``aimed`` at (places in the round), ``SEEN`` at most, and losses.

    Each trains twice on its batches, alone: from what it received and from what was ``meant``.
    ``noticed_loss`` is the mean of its local steps, ``noticed_update_norm`` of its whole update
    before any wrapper, ``noticed_distance`` from the model that was meant over the norm of that,
    ``noticed_dead_units`` the share of units behind a ReLU, tanh or sigmoid that none of the first
    batch's examples moves. Beside each, ``..._usual``: of the model that was meant; its distance is
    how far the mean of these clients' updates takes it, as the next one would be.

    Returns:
        {name: value}; and the losses (n,) at the model that was meant.
    """
    found: dict[str, list[float]] = {}
    losses, updates = [], []
    for j in list(aimed)[:SEEN]:
        mine, batches = single(each, j, todo.who[j]), todo.batches(data, j)
        if not batches:
            continue
        own = mine["inbox"].get("model", inbox.get("model", {}))
        usual = {**mine, "inbox": {**mine["inbox"], "model": dict(meant)}}
        for end, who, model in (("", mine, own), ("_usual", usual, meant)):
            made = runner.train(name, t, who, inbox, batches)
            if end:
                losses.append(made["loss"])
                updates.append(made["update"])
            found.setdefault(f"noticed_loss{end}", []).append(float(made["loss"]))
            found.setdefault(f"noticed_update_norm{end}", []).append(_norm(made["update"]))
            weights = {**model, **mine["kept"]}
            dead = _dead(runner.module, weights, batches[0])
            found.setdefault(f"noticed_dead_units{end}", []).append(dead)
        apart = {k: own[k] - v for k, v in meant.items() if v.is_floating_point()}
        found.setdefault("noticed_distance", []).append(_norm(apart) / max(_norm(meant), 1e-30))
    out = {k: sum(v) / len(v) for k, v in found.items()}
    if updates:
        mean = tmap(lambda *u: torch.stack(u).mean(0), updates[0], *updates[1:])
        out["noticed_distance_usual"] = _norm(mean) / max(_norm(meant), 1e-30)
    return out, torch.stack(losses) if losses else torch.zeros(0)


def _norm(tree: Tree) -> float:
    """The Euclidean norm of all of its floating-point numbers."""
    leaves = [v for v in flat(tree).values() if v.is_floating_point()]
    return float(sum(v.double().square().sum() for v in leaves)) ** 0.5


def _dead(module: nn.Module, weights: Mapping[str, Tensor], batch: Batch) -> float:
    """The share of units that no example of ``batch`` moves; 0 of a network that has none."""
    still: list[Tensor] = []
    with _watched(module, still), torch.no_grad():
        torch.func.functional_call(module, dict(weights), (batch.x,))
    dead = torch.cat(still) if still else torch.zeros(1)
    return float(dead.double().mean())


@contextmanager
def _watched(module: nn.Module, still: list[Tensor]) -> Iterator[None]:
    """Note of each unit behind an activation whether no example moves it."""

    def see(layer: nn.Module, _x: object, out: Tensor) -> None:
        flat_there = out <= 0
        if isinstance(layer, torch.nn.Tanh):
            flat_there = out.abs() > FLAT
        elif isinstance(layer, torch.nn.Sigmoid):
            flat_there = (2 * out - 1).abs() > FLAT
        still.append(flat_there.flatten(1).all(0))

    kinds = (torch.nn.ReLU, torch.nn.Tanh, torch.nn.Sigmoid)
    hooks = [m.register_forward_hook(see) for m in module.modules() if isinstance(m, kinds)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
