"""Federations like the attacked one, each trained on a half of what may have been trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from attacks._candidates import clients_of
from leakbench.attacking import Outline, View
from leakbench.base import kept, torch
from leakbench.federation import Examples, Net, TaskData, kept_names, padded

if TYPE_CHECKING:
    from torch import Tensor


AUXILIARY = 1000  # examples, at most
CHUNK = 500  # examples of one forward pass
SHARPNESS = 10.0  # of a cosine, where one stands for a logit


@dataclass(frozen=True)
class Pool:
    """Candidates, then auxiliary examples, and of which client each is, or would be."""

    examples: Examples  # (n,)
    client: Tensor  # (n,) int64
    asked: int  # of them are candidates
    apart: Examples  # auxiliary examples that nobody trains on


@dataclass(frozen=True)
class Shadows:
    """What models say of the pool that were trained on a half of it each."""

    held: Tensor  # (shadows, n) bool: on which examples
    # (shadows, 1 + clients, n) float64: log of the share that the right class is given, by the
    # model that all received, then by each client's own.
    says: Tensor


def silent(run: Outline) -> str:
    """Why what the server sends says nothing of an example's class; empty where it does."""
    if ("model", "server") not in {(line["kind"], line["sender"]) for line in run.sent}:
        return "the server sends no model"
    if own := sorted(kept_names(run.method, run.module())):
        return f"clients keep {own[0]!r} of the network to themselves, so nobody has it whole"
    if run.facts.targets == "tokens":
        return "the network says texts, and no classes"
    if any(line.get("changed") for line in run.sent):
        return "the server plants models of its own making, which learnt nothing"
    return ""


def pool(view: View, rng: torch.Generator) -> Pool:
    """Candidates are said to be of a client; auxiliary ones go where their class is at home.

    Of a class that no client is known to hold nobody gets one.
    """
    candidates, aux = view.know("candidates"), view.know("aux_data")
    order = torch.randperm(len(aux), generator=rng)
    apart = order[: len(order) // 2 if view.method.outputs == "embedding" else 2]
    clients, classes = view.facts.clients, view.facts.classes
    mine, y = clients_of(candidates).cpu(), candidates.y.cpu()
    holds = torch.zeros(clients, classes, dtype=torch.float64)
    holds.index_put_((mine, y), torch.ones(len(y), dtype=torch.float64), accumulate=True)
    holds[holds.sum(1) == 0] = 1.0  # of whom nothing is known
    left = order[len(apart) :]
    left = left[holds[:, aux.y.cpu()[left]].sum(0) > 0][:AUXILIARY]
    some, weights = aux.some(left.to(aux.y.device)), holds[:, aux.y.cpu()[left]].T
    theirs = torch.multinomial(weights, 1, generator=rng).flatten()
    x = torch.cat([candidates.x, some.x])
    both = Examples(x, torch.cat([candidates.y, some.y]), x.dtype)
    return Pool(both, torch.cat([mine, theirs]), len(y), aux.some(apart.to(aux.y.device)))


def train(view: View, of: Pool, many: int, rng: torch.Generator) -> Shadows:
    """``many`` federations; each example is in the training data of half of them.

    Of each the newest model that the server sent to all, and every client's own, as it was after
    its newest training.
    """
    clients = view.facts.clients
    half = torch.rand(many, len(of.client), generator=rng).argsort(0) < many // 2
    for c in sorted({*of.client.tolist()}):  # nobody trains on nothing
        half[:, (of.client == c).nonzero()[0]] |= ~half[:, of.client == c].any(1, keepdim=True)
    for held in half:
        _filled(held, of.client, view.method.batch)
    seeds = torch.randint(2**40, (many,), generator=rng).tolist()
    dealt = {"x": of.examples.x, "y": of.examples.y, "client": of.client, "held": half}
    apart = {"x": of.apart.x, "y": of.apart.y}
    key = kept.digest(named(view), str(view.last), *map(str, seeds), dealt, apart)

    def make() -> tuple[Tensor, ...]:
        says = []
        for i, held in enumerate(half):
            data = _data(of, held, clients)
            made = view.train(data, seeds[i], partial(_tell, view, i, many))
            own = [made.own.get(c, made.sent) for c in range(clients)]
            says.append(torch.stack([said(view, of, m) for m in (made.sent, *own)]))
        both = torch.stack(says)
        sound = both.flatten(1).isfinite().all(1)  # one that ran away says nothing
        return half[sound], both[sound]

    return Shadows(*kept.once(view.recipe and key, make))


def named(view: View) -> str:
    """The federation that is attacked; "" where nobody said how it trained.

    With the code of its method, and its newest model, for two runs that are called alike may be of
    other code.
    """
    if not view.recipe:
        return ""
    told = [m.payload for m in view.messages("model")[-1:]]
    code = kept.code_of(view.loss_method(), view.module)
    return kept.digest(view.recipe, code, str(view.dtype), *told)


def _filled(held: Tensor, client: Tensor, batch: int) -> None:
    """One more, so that no client's last batch has a single example, which BatchNorm refuses."""
    for c in sorted({*client.tolist()}):
        mine = client == c
        spare = (mine & ~held).nonzero().flatten()
        if int((mine & held).sum()) % max(batch, 2) == 1 and len(spare):
            held[spare[0]] = True


def _tell(view: View, i: int, many: int, done: float) -> None:
    view.progress((i + done) / many)


def _data(of: Pool, held: Tensor, clients: int) -> TaskData:
    """Each client has its own that are ``held``; of whom nothing is known, one of somebody's."""
    parts = [((of.client == c) & held).nonzero().flatten() for c in range(clients)]
    spare = held.nonzero().flatten()[:1]
    rows, counts = padded([p if len(p) else spare for p in parts])
    y, none = of.examples.y.cpu(), torch.full((clients,), -1)
    alone = all(bool((y[p] == y[p[:1]]).all()) for p in parts)
    own = torch.stack([y[p[0]] for p in rows]) if alone else none
    train, apart = (e.to("cpu", e.dtype) for e in (of.examples, of.apart))
    test, aux = apart.some(torch.arange(1)), apart.some(torch.arange(1, len(apart)))
    return TaskData(train, test, aux, rows, counts, own)


def said(view: View, of: Pool, weights: Mapping[str, Tensor]) -> Tensor:
    """(n,) float64: log of the share of the right class, by a model.

    Where a network ends in an embedding, its classes are the means of what it gives to auxiliary
    examples, and their cosines stand for logits (ours).
    """
    net = Net(view.module, dict(weights))

    def out(some: Examples) -> Tensor:
        rows = torch.split(torch.arange(len(some), device=some.y.device), CHUNK)
        return torch.cat([net(some.images(part)).double().cpu() for part in rows])

    with torch.no_grad():
        logits, y = out(of.examples), of.examples.y.cpu()
        if view.method.outputs == "embedding":
            known = out(of.apart)
            mean = torch.zeros(view.facts.classes, known.shape[1], dtype=torch.float64)
            mean.index_add_(0, of.apart.y.cpu(), known)
            unit = torch.nn.functional.normalize
            logits = SHARPNESS * unit(logits, dim=1) @ unit(mean, dim=1).T
        if logits.shape[1] == 1:
            logits = torch.cat([torch.zeros_like(logits), logits], 1)
    return logits.log_softmax(1)[torch.arange(len(y)), y]
