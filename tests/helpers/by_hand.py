"""Federated methods written a second time: plain modules, autograd and torch.optim, a loop.

A method's own part is a subclass of ``Loop`` of a few lines, from its paper. Of the run under test
it takes what is not to be tested: data, first numbers, and the dice (who is chosen, which rows are
in a step, the named draws).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leakbench.base import registry
from leakbench.base.streams import SHARED, Rng
from leakbench.base.tree import Tree, flat, row, tmap
from leakbench.federation import Federation, TaskData, padded
from leakbench.federation.evaluate import utility_scores
from leakbench.federation.observer import Observer
from leakbench.models import Stages
from leakbench.tasks.digits import Digits

COUNTS = (13, 20, 10, 18, 11)  # examples of the clients: in steps of 8 nobody has one alone
ROUNDS = 5
CLOSE = 5e-9  # five rounds of Adam, which divides by what may be near nothing


# the run under test -------------------------------------------------------------------------------
class Few(Digits):
    """Five clients with uneven amounts of digits, three classes each, or client c digit c alone."""

    clients: int = 5
    split: str = "qua"  # type: ignore[assignment]
    dim: int = 8
    norm: bool = False  # BatchNorm in both stages?
    alone: bool = False
    tested: int = 80  # test images, at most

    @property
    def one_class_each(self) -> bool:
        return self.alone

    def module(self, facts):
        # A bias before a BatchNorm has no gradient but rounding, which Adam would make steps of.
        norms = [[nn.BatchNorm1d(8)] if self.norm else [] for _ in range(2)]
        layers = [nn.Linear(n, 8, bias=not self.norm) for n in (64, 8)]
        first = nn.Sequential(nn.Flatten(), layers[0], *norms[0], nn.Tanh())
        second = nn.Sequential(layers[1], *norms[1], nn.Tanh())
        return Stages({"first": first, "second": second, "head": nn.Linear(8, facts.dim)})

    def load(self):
        return of_clients(self.alone, self.tested)


NETS = {"plain": Few(), "batchnorm": Few(norm=True)}
ALONE = {"plain": Few(alone=True), "batchnorm": Few(alone=True, norm=True)}


@cache
def of_clients(alone: bool, tested: int) -> TaskData:
    """Who holds what; some test images, of the clients' classes, and pairs of them."""
    data = Digits().load()
    mixed = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(3))
    parts = []
    for c, n in enumerate(COUNTS):
        held = torch.tensor([c] if alone else [2 * c, 2 * c + 1, (2 * c + 4) % 10])
        parts.append(mixed[torch.isin(data.train.y[mixed], held)][:n])
    rows, counts = padded(parts)
    some = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(5))
    test = some[data.test.y[some] < (5 if alone else 10)][:tested]
    own = torch.arange(5) if alone else torch.full((5,), -1)
    y = data.test.y[test]
    pairs = torch.combinations(torch.arange(30))
    pairs = torch.cat([pairs, (y[pairs[:, :1]] == y[pairs[:, 1:]]).long()], 1)
    few = {"rows": rows, "counts": counts, "client_class": own, "pairs": pairs}
    return replace(data, test=data.test.some(test), **few)


class Heard(Observer[Federation]):
    """Every message, the rows of every step, the loss of every training, the state of each round.

    ``sent``: {(round, sender or "to c", kind): its payloads in order}.
    """

    def __init__(self) -> None:
        self.sent: dict[tuple[int, str, str], list[Tree]] = {}
        self.chosen: dict[int, list[int]] = {}
        self.rows: dict[tuple[int, str, int], list[Tensor]] = {}
        self.losses: list[Tensor | None] = []  # (M,) of the newest training of each round
        self.ends: list[Tree] = []

    def _note(self, t: int, who: Any, kind: str, payload: Tree) -> None:
        self.sent.setdefault((t, str(who), kind), []).append(payload)

    def down(self, fed, kind, payload, *, each, meant=None):
        if not each:
            self._note(fed.t, "server", kind, payload)
            return
        for j, c in enumerate(fed.who):
            self._note(fed.t, f"to {c}", kind, row(payload, j))

    def up(self, fed, name, each, sent, draws):
        for j, c in enumerate(fed.who):
            for kind, payload in sent.items():
                self._note(fed.t, c, kind, row(payload, j))

    def training(self, fed, name, each, todo):
        for j, c in enumerate(fed.who):
            self.rows[fed.t, name, c] = todo.rows(j)

    def trained(self, fed, name, each, todo, update):
        for j, c in enumerate(fed.who):
            if update:
                self._note(fed.t, c, "update", row(update, j))

    def close(self, fed):
        self.chosen[fed.t] = list(fed.who)
        self.losses.append(fed.losses)
        self.ends.append(fed.snapshot())


def built(
    name: str, task: Few, seed: int = 4, dtype: torch.dtype = torch.float64, **params: Any
) -> Federation:
    """A federation that has run nothing, and notes everything."""
    defense = registry.load_plugin("defenses", name).build(params, f"defense {name}")
    how: dict[str, Any] = {"engine": "loop", "dtype": dtype, "recorder": Heard()}
    return Federation(defense, task, task.load(), seed=seed, **how)


# the loop -----------------------------------------------------------------------------------------
class Loop:
    """FedAvg (McMahan et al., Algorithm 1); a method overrides what it does otherwise."""

    weighs_norms: ClassVar[bool] = True  # are running statistics averaged like weights?

    def __init__(self, fed: Federation) -> None:
        self.fed, self.p, self.heard = fed, fed.method, fed.recorder
        self.n, self.classes = fed.facts.clients, fed.facts.classes
        self.arch = copy.deepcopy(fed.module).double()
        self.model = {k: v.clone() for k, v in fed.model.items()}
        self.kept = [row(fed.columns["kept"], c) for c in range(self.n)]
        self.own: list[dict[str, Tensor]] = [{} for _ in range(self.n)]
        self.state: list[dict[str, Tree]] = [{} for _ in range(self.n)]
        train, self.rows = (
            fed.data.train,
            [r[:k] for r, k in zip(fed.data.rows, COUNTS, strict=False)],
        )
        self.x = [train.stored[r].double() / self._scale(train.stored) for r in self.rows]
        self.y = [train.y[r] for r in self.rows]
        self.sent: dict[tuple[int, str, str], list[Tree]] = {}
        self.ends: list[Tree] = []
        self.losses: list[Tensor] = []
        self.inbox: dict[str, Any] = {}
        self.t, self.step, self.who = 0, 0, list(range(self.n))
        for c in self.who:
            self.start(c)

    @staticmethod
    def _scale(stored: Tensor) -> int:
        return 255 if stored.dtype == torch.uint8 else 1

    # what a method overrides
    def start(self, c: int) -> None:
        """What client c holds from the start."""

    def loss(self, net: nn.Module, x: Tensor, y: Tensor, c: int) -> Tensor:
        return F.cross_entropy(net(x), y)

    def before(self) -> None: ...
    def after(self) -> None: ...
    def prepare(self, c: int) -> None: ...

    def moves(self, k: str) -> bool:
        """Is tensor ``k`` of the global model one that a training moves?"""
        frozen = [k for k, v in self.arch.named_parameters() if not v.requires_grad]
        return k not in frozen

    def tells(self) -> dict[str, Tree]:
        """What the server sends beside the model."""
        return {}

    def uplink(self, c: int) -> dict[str, Tree]:
        """What client c sends beside its update."""
        return {}

    def aggregate(self) -> None:
        self.average()

    def round(self) -> None:
        self.down(model=self.model, **self.tells())
        self.train("loss")
        self.everyone_sends(self.uplink)
        self.aggregate()

    def slopes(
        self, name: str, net: nn.Module, x: Tensor, y: Tensor, c: int, own: dict[str, Tensor]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """The loss and its gradient by the network's parameters, then by what the client owns."""
        value = getattr(self, name)(net, x, y, c)
        leaves = [v for v in net.parameters() if v.requires_grad] + list(own.values())
        return value, list(torch.autograd.grad(value, leaves, allow_unused=True))

    def scale(self) -> float:
        """The factor on the rates in this round."""
        return self.p.decay ** (self.t - 1)

    def optimizer(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """What takes a client's local steps."""
        return (torch.optim.Adam if self.p.optimizer == "adam" else torch.optim.SGD)(groups)

    def bend(self, optimizer: torch.optim.Optimizer, weights: list[Tensor]) -> None:
        """What is done to gradients and rates before each step."""

    def logits(self, net: nn.Module, x: Tensor, c: int) -> Tensor:
        return net(x)

    # dice
    def dice(self, c: int, phase: str = "", t: int | None = None) -> Rng:
        """Those of client c, or of the server, in this round and step."""
        party = c if c == SHARED else torch.tensor(c)
        step = self.step if phase else 0
        t = self.t if t is None else t
        return Rng(self.fed.seed, "defense", party, torch.float64, round=t, phase=phase, step=step)

    # messages
    def note(self, who: Any, **payloads: Tree) -> None:
        for kind, payload in payloads.items():
            self.sent.setdefault((self.t, str(who), kind), []).append(copied(payload))

    def down(self, **payloads: Tree) -> None:
        """From the server to all of the round."""
        self.inbox |= payloads
        self.note("server", **{k: v for k, v in payloads.items() if v is not self.model or v})

    def everyone_sends(self, what: Callable[[int], dict[str, Tree]]) -> None:
        with torch.no_grad():
            self.came = {c: what(c) for c in self.who}
        for c, payloads in self.came.items():
            self.note(c, **payloads)

    # training
    def net(self, model: dict[str, Tensor] | None = None, c: int | None = None) -> nn.Module:
        """A copy of the network with the global model or another, and client c's own layers."""
        mine = {} if c is None else self.kept[c]
        net = copy.deepcopy(self.arch)
        net.load_state_dict({**net.state_dict(), **self.model, **(model or {}), **mine})
        return net.eval()

    def share(self) -> dict[int, float]:
        """The weight of each of the round's clients."""
        sizes = {c: COUNTS[c] if self.p.average == "weighted" else 1 for c in self.who}
        return {c: n / sum(sizes.values()) for c, n in sizes.items()}

    def train(self, name: str, epochs: int | None = None) -> None:
        """Every client of the round, from the model that it received; then its update."""
        received = {k: v.clone() for k, v in self.model.items()}
        self.locals: dict[int, dict[str, Tensor]] = {}
        self.updates: dict[int, dict[str, Tensor]] = {}
        self.losses = []
        for c in self.who:
            with torch.no_grad():
                self.prepare(c)
            local = self.locals[c] = self.trained(name, c, epochs)
            self.kept[c] = {k: local[k] for k in self.kept[c]}
            real = [k for k, v in received.items() if v.is_floating_point() and self.moves(k)]
            self.updates[c] = {k: local[k] - received[k] for k in real}
            if self.p.average == "weighted":
                self.note(c, count=torch.tensor(COUNTS[c]))
            if self.updates[c]:
                self.note(c, update=self.updates[c])

    def trained(self, name: str, c: int, epochs: int | None) -> dict[str, Tensor]:
        p, net = self.p, self.net(c=c).train()
        own = {k: v.clone().requires_grad_() for k, v in self.own[c].items()}
        scale = self.scale()
        weights = [v for v in net.parameters() if v.requires_grad]
        groups = [{"params": weights, "lr": p.lr * scale}]
        groups += [{"params": list(own.values()), "lr": p.own_lr * scale}] if own else []
        optimizer, losses = self.optimizer(groups), []
        before, self.own[c] = self.own[c], own
        for step, rows in enumerate(self.steps(name, c, epochs)):
            self.step = step
            x = self.fed.data.train.stored[rows].double() / self._scale(self.fed.data.train.stored)
            value, grads = self.slopes(name, net, x, self.fed.data.train.y[rows], c, own)
            for leaf, grad in zip([*weights, *own.values()], grads, strict=True):
                leaf.grad = grad
            self.bend(optimizer, weights)
            optimizer.step()
            losses.append(value.detach())
        self.losses.append(torch.stack(losses).mean())
        self.own[c] = {k: v.detach() for k, v in own.items()} if own else before
        return {k: v.detach().clone() for k, v in net.state_dict().items()}

    def steps(self, name: str, c: int, epochs: int | None) -> list[Tensor]:
        """The rows of each step: as they were drawn, if these are what the setting says."""
        drawn, p, n = self.heard.rows[self.t, name, c], self.p, COUNTS[c]
        if p.steps and epochs is None:
            assert [len(r) for r in drawn] == [min(p.batch, n)] * p.steps
            assert all(set(r.tolist()) <= set(self.rows[c].tolist()) for r in drawn)
            return drawn
        many = p.epochs if epochs is None else epochs
        full, rest = divmod(n, p.batch)
        assert [len(r) for r in drawn] == ([p.batch] * full + [rest] * bool(rest)) * many
        for one in torch.cat(drawn).view(many, n):
            assert sorted(one.tolist()) == sorted(self.rows[c].tolist())
        return drawn

    def average(self) -> None:
        for k in self.updates[self.who[0]]:
            mean = sum(w * self.updates[c][k] for c, w in self.share().items())
            self.model[k] = self.model[k] + mean

    # a run
    def run(self, rounds: int = ROUNDS) -> Loop:
        self.rounds = rounds
        self.before()
        self.close()
        for self.t in range(1, rounds + 1):
            self.who = self.heard.chosen[self.t]
            assert len(self.who) == max(1, round(self.p.fraction * self.n))
            self.inbox = dict(self.lasting) if hasattr(self, "lasting") else {}
            self.round()
            self.close()
        self.t, self.who = rounds + 1, list(range(self.n))
        self.after()
        self.close()
        return self

    def close(self) -> None:
        if not self.t:
            self.lasting = {k: v for k, v in self.inbox.items() if k != "model"}
        columns = {"own": self.own, "state": self.state, "kept": self.kept}
        losses = torch.stack(self.losses) if self.t in range(1, self.rounds + 1) else None
        self.ends.append(
            {
                "model": copied(self.model),
                "loss": losses,
                **{k: list(v) for k, v in columns.items()},
            }
        )

    # what is made of it
    def answers(self) -> list[Tensor]:
        """Of each model there is what it says of the test images: (n, K), or (n,) of a client."""
        x, some = self.fed.data.test.x, range(self.n) if self.each_answers else [0]
        with torch.no_grad():
            return [self.logits(self.net(c=c), x, c) for c in some]

    @property
    def each_answers(self) -> bool:
        return bool(self.own[0] or self.kept[0])

    def embedded(self) -> list[Tensor]:
        """Of each model the embeddings of the test images, or what goes into the head."""
        x, some = self.fed.data.test.x, range(self.n) if self.kept[0] else [0]
        with torch.no_grad():
            return [self.embedding(self.net(c=c), x) for c in some]

    def embedding(self, net: nn.Module, x: Tensor) -> Tensor:
        return net(x) if self.p.outputs == "embedding" else features(net, x)


def copied(tree: Tree) -> Tree:
    """Other dicts, the same tensors."""
    return tmap(lambda v: v, tree)


def features(net: nn.Module, x: Tensor) -> Tensor:
    """(n, 8): what goes into the head of the two networks above."""
    return net.second(net.first(x))


def unit(v: Tensor) -> Tensor:
    return v / v.norm(dim=-1, keepdim=True)


# utilities, by hand -------------------------------------------------------------------------------
def accuracy(fits: Tensor, y: Tensor) -> float:
    """fits (n, K), column k of class k; of several that fit best each has its part."""
    right = 0.0
    for f, label in zip(fits.tolist(), y.tolist(), strict=True):
        best = [k for k, v in enumerate(f) if v == max(f)]
        right += (label in best) / len(best)
    return right / len(y)


def auroc(fits: Tensor, y: Tensor) -> float:
    """The mean over classes of the share of pairs of own and foreign example in the right order."""
    areas = []
    for k in sorted(set(y.tolist())):
        own, other = fits[y == k, k], fits[y != k, k]
        above = (own[:, None] > other).double() + (own[:, None] == other).double() / 2
        areas.append(float(above.mean()))
    return sum(areas) / len(areas)


def eer(z: Tensor, pairs: Tensor, *, euclidean: bool) -> float:
    """Where the two errors meet, on straight lines between thresholds."""
    z = z if euclidean else unit(z)
    scores = [-float((z[i] - z[j]).square().sum()) for i, j, _ in pairs.tolist()]
    same = pairs[:, 2] == 1
    points = [(0.0, 1.0)]
    found = torch.tensor(scores, dtype=torch.float64)
    for line in sorted(set(scores), reverse=True):
        taken = found >= line
        points.append((float(taken[~same].double().mean()), float((~taken)[same].double().mean())))
    for (a, r), (b, s) in pairwise(points):
        if s <= b:
            part = (r - a) / ((r - a) - (s - b))
            return a + part * (b - a)
    raise AssertionError("the lines do not meet")


def utilities(loop: Loop) -> dict[str, float]:
    """Of the state in which a loop ended."""
    data, said = loop.fed.data, loop.answers()
    y = data.test.y
    models = [torch.stack(said, 1)] if said[0].dim() == 1 else [v.log_softmax(1) for v in said]
    out = {"accuracy": mean([accuracy(m, y) for m in models])}
    out["auroc"] = mean([auroc(m, y) for m in models])
    of_client = []
    for c in range(loop.n):
        some = torch.isin(y, loop.y[c])
        mine = models if len(models) == 1 else [models[c]]
        of_client.append(accuracy(mine[0][some], y[some]))
    out["own_classes"] = mean(of_client)
    far = loop.p.distance == "euclidean"
    out["eer"] = mean([eer(z, data.pairs, euclidean=far) for z in loop.embedded()])
    return out


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


# one beside the other -----------------------------------------------------------------------------
def apart(one: Tree, other: Tree, where: str) -> None:
    """Fails where two trees have other tensors, or one of real numbers lies further than CLOSE."""
    a, b = flat(one), flat(other)
    assert a.keys() == b.keys(), where
    for k in a:
        assert a[k].shape == b[k].shape, f"{where} {k}: {a[k].shape} {b[k].shape}"
        if k.endswith("num_batches_tracked"):  # counts calls; no momentum reads it here
            continue
        gap = float((a[k].double() - b[k].double()).abs().max()) if a[k].numel() else 0.0
        assert gap < CLOSE, f"{where} {k}: {gap:.1e} apart"


def run_both(loop: type[Loop], fed: Federation, rounds: int) -> Loop:
    """Runs ``fed``, which has run nothing, and beside it the loop, which is returned."""
    hand = loop(fed)
    fed.begin()
    for _ in range(rounds):
        fed.step()
    fed.end()
    return hand.run(rounds)


def compare(loop: type[Loop], name: str, task: Few, rounds: int = ROUNDS, **params: Any) -> Loop:
    """Runs both and fails where anything that was sent, learnt, kept or scored differs."""
    fed = built(name, task, **params)
    hand, heard = run_both(loop, fed, rounds), fed.recorder
    assert hand.sent.keys() == heard.sent.keys()
    for key in hand.sent:
        assert len(hand.sent[key]) == len(heard.sent[key]), key
        for mine, theirs in zip(hand.sent[key], heard.sent[key], strict=True):
            apart(mine, theirs, f"sent {key}")
    for t, (mine, theirs) in enumerate(zip(hand.ends, heard.ends, strict=True)):
        apart(mine["model"], theirs.get("model", {}), f"model after round {t}")
        if mine["loss"] is not None:
            apart(mine["loss"], heard.losses[t], f"loss of round {t}")
        for group in ("own", "state", "kept"):
            for c in range(hand.n):
                at = f"{group} of client {c} after round {t}"
                apart(mine[group][c], row(theirs[group], c), at)
    for utility, value in utilities(hand).items():
        fed.task = fed.task.model_copy(update={"utility": utility})
        assert abs(float(utility_scores(fed).mean()) - value) < CLOSE, utility
    return hand
