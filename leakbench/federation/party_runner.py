"""Runs one party's function on that party's tensors and on nothing else.

Replace the runner by one in another process and the run stays the same: that is the test that no
side channel exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import MethodError, UsageError
from leakbench.base.lazy import torch
from leakbench.base.streams import SHARED, Rng
from leakbench.base.tree import Tree, flat, row, tmap
from leakbench.federation.defense import Defense, Wrapper
from leakbench.federation.layout import laid, laid_batch, lies_last, plain_layout
from leakbench.federation.net import Net, still, training_mode
from leakbench.federation.optimizer import Optimizer, group_leaves, leaves_named
from leakbench.federation.parties import Batch, Client, Each, Facts, Server

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leakbench.federation.task_data import Examples


class Inbox(dict[str, Any]):
    """An inbox that says which kinds there are when another one is read."""

    def __missing__(self, kind: str) -> Any:
        raise MethodError(
            f"no message of kind {kind!r} is in this inbox; it has {sorted(self)}. A wrapper that"
            f" sums leaves only server.mean({kind!r})."
        )


def single(each: Tree, j: int, number: int) -> Tree:
    """What the j-th of the clients ``each`` holds; ``number``: which it is.

    A number of Python's, for its dice need it, and asking a device for ``index`` waits for that.
    """
    return {**row(each, j), "number": number}


class _Single:
    """Stands where single updates would be, for methods that said they do not read them."""

    def _refuse(self, *_: Any) -> Any:
        raise MethodError("reading single updates needs `fusible = False` on the method.")

    __getattr__ = __getitem__ = __iter__ = __len__ = _refuse


class PartyRunner:
    """Holds what is public: method, wrappers, architecture, facts; the seed stands for all dice."""

    def __init__(
        self,
        method: Defense,
        wrappers: Sequence[Wrapper],
        module: nn.Module,
        facts: Facts,
        seed: int,
        dtype: torch.dtype,
        low: torch.dtype | None = None,
    ) -> None:
        self.method, self.wrappers, self.module = method, tuple(wrappers), module
        self.facts, self.seed, self.dtype = facts, seed, dtype
        self.low = low  # the precision of a local training's products, where it is not ``dtype``
        self.trained = {k for k, v in module.named_parameters() if v.requires_grad}
        self.frozen = {k for k, _ in module.named_parameters()} - self.trained | still(module)
        self.images_last = lies_last(module)  # see leakbench.federation.layout
        self.padded: dict[str, bool] = {}  # loss -> see leakbench.federation.padding

    def me(
        self, t: int, each: Tree, shared: Tree, data: Callable[[], Batch] | None = None
    ) -> Client:
        """A client from its own tensors ``each`` and what everybody received ``shared``."""
        inbox = Inbox({**shared, **each["inbox"]})
        net = Net(self.module, {**inbox.get("model", {}), **each["kept"]})
        index, count, local = each["index"], each["count"], each.get("local")
        party, device = each.get("number", index), index.device
        rng = Rng(self.seed, "defense", party, self.dtype, round=t, device=device)
        own, state = dict(each["own"]), dict(each["state"])
        return Client(index, count, t, self.facts, own, state, inbox, net, rng, data, local)

    def client(
        self,
        name: str,
        t: int,
        each: Tree,
        shared: Tree,
        data: Callable[[], Batch] | None = None,
        log: dict[str, Tensor] | None = None,
    ) -> Tree:
        """Run the client function ``name``: what it sends, wrapped, its changed own and state."""
        me = self.me(t, each, shared, data)
        me.rng.log = log
        with me.rng.at(name).lent():
            sent = getattr(self.method, name)(me) or {}
        own = {k: v for k, v in me.own.items() if v is not each["own"].get(k)}
        state = {k: v for k, v in me.state.items() if v is not each["state"].get(k)}
        return {"sent": self.wire(sent, me, name), "own": own, "state": state}

    def wire(self, sent: Tree, me: Client, phase: str) -> Tree:
        """The uplinks of one client after every wrapper, in order."""
        # Each wrapper, kind and phase has dice of its own.
        out = {}
        rng = me.rng
        for kind, payload in sent.items():
            for i, wrapper in enumerate(self.wrappers):
                if kind in wrapper.kinds:
                    me.rng = rng.at(f"{rng.phase}/wire/{phase}/{kind}/{i}")
                    me.rng.log = None
                    with me.rng.lent():
                        changed = wrapper.uplink(payload, me)
                    payload = _changed(wrapper, kind, payload, changed)
            out[kind] = payload
        me.rng = rng
        return out

    def server(
        self, name: str, t: int, tree: Tree, means: Tree
    ) -> tuple[Tree, Tree, set[str], dict[str, str]]:
        """Run the server function ``name``.

        Returns what it sends, its new model and state, the kinds that go to ``Each``, and its
        fallbacks.
        """
        device = tree["receivers"].device
        rng = Rng(self.seed, "defense", SHARED, self.dtype, round=t, device=device)
        share, inbox = tree.get("share"), Inbox(tree["inbox"])
        model, state = dict(tree["model"]), dict(tree["state"])
        receivers, senders, means = tree["receivers"], tree["senders"], dict(means)
        facts, module = self.facts, self.module
        server = Server(
            t, facts, model, state, receivers, rng, module, inbox, senders, share, means
        )
        # Fused rounds have only the mean.
        if self.method.fusible and ("update" in server.inbox or "update" in means):
            server.mean("update")
            server.inbox["update"] = _Single()
        with rng.at(name).lent():
            sent = getattr(self.method, name)(server) or {}
        each = {k for k, v in sent.items() if isinstance(v, Each)}
        out = {k: v.payload if k in each else v for k, v in sent.items()}
        return out, {"model": server.model, "state": server.state}, each, server.fallbacks

    def downlink(
        self, wrapper: Wrapper, name: str, t: int, tree: Tree, payload: Tree, aux: Examples
    ) -> Tree | Each:
        """What the server sends instead of ``payload``; ``name``: of the wrapper's dice."""
        receivers = tree["receivers"]
        rng = Rng(self.seed, "defense", SHARED, self.dtype, round=t, device=receivers.device)
        rng = rng.at(f"downlink/{name}")
        model, state = dict(tree["model"]), dict(tree["state"])
        server = Server(t, self.facts, model, state, receivers, rng, self.module)
        with rng.lent():
            return wrapper.downlink(payload, server, aux)

    def train(
        self,
        name: str,
        t: int,
        each: Tree,
        shared: Tree,
        batches: Sequence[Batch],
        *,
        path: str = "",
        log: dict[str, Tensor] | None = None,
        channels_last: bool = False,
    ) -> Tree:
        """The reference: one client, a copy of the model, one step after another.

        ``path`` tells a probe's dice apart. ``channels_last``: in memory, see ``layout``.
        """
        me = self.me(t, each, shared)
        me.rng.log = log
        rng, weights = me.rng, {k: v.clone() for k, v in me.net.weights.items()}
        if channels_last:
            weights = tmap(laid, weights)
        leaves = leaves_named({k: v for k, v in weights.items() if k in self.trained}, me.own)
        optimizer, losses = Optimizer(self.method, t, self.module), []
        with training_mode(self.module, True):
            for s, batch in enumerate(batches):
                leaves = {k: v.detach().requires_grad_() for k, v in leaves.items()}
                weights.update(group_leaves("model", leaves))
                me.own = group_leaves("own", leaves)
                me.net, me.rng = Net(self.module, weights, self.low), rng.at(name + path, s)
                batch = laid_batch(batch) if channels_last else batch
                with me.rng.lent():
                    loss = getattr(self.method, name)(me.net, batch, me)
                grads = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
                leaves = optimizer.step(leaves, grads)
                losses.append(loss.detach())
        weights = {k: v.detach() for k, v in {**weights, **group_leaves("model", leaves)}.items()}
        weights = plain_layout(weights)
        own = {k: v.detach() for k, v in group_leaves("own", leaves).items()}
        me.rng = rng.at(name + path)
        mean = torch.stack(losses).mean() if losses else torch.zeros((), dtype=self.dtype)
        return {**self.finish(me, weights, own, each, batches), "loss": mean}

    def finish(
        self, me: Client, weights: Tree, own: Tree, each: Tree, batches: Sequence[Batch]
    ) -> Tree:
        """Split a trained model into the update, which is sent, and what the client keeps."""
        received = me.inbox.get("model", {})
        me.net, me.own, me.batches = Net(self.module, weights), own, batches  # a wrapper sees it
        moved = {k: v for k, v in received.items() if k not in self.frozen}
        update = {k: weights[k] - v for k, v in moved.items() if v.is_floating_point()}
        sent = self.wire({"update": update}, me, "train")["update"] if update else {}
        kept = {k: weights[k] for k in each["kept"]}
        return {"update": sent, "own": own, "kept": kept, "local": weights}


@contextmanager
def unwritten(who: str, given: Tree) -> Iterator[None]:
    """Nothing in ``given`` is written to meanwhile; rows and views of a tensor count as the tensor.

    Raises:
        MethodError: naming the function ``who`` and the tensor.
    """
    before = []
    for name, leaf in flat(given).items():
        tensors = leaf if isinstance(leaf, list) else [leaf]
        before += [(name, t, t._version) for t in tensors if t is not None]
    yield
    for name, t, version in before:
        if t._version != version:
            raise MethodError(
                f"{who} wrote into {name!r}, which it was given; assign a new tensor instead (x = x"
                " + 1, not x += 1)."
            )


def _changed(wrapper: Wrapper, kind: str, before: Tree, after: Tree) -> Tree:
    """What a wrapper made of a message, which must be another message and of the same sort.

    The record says of every message that is covered that the wrapper changed it.

    Raises:
        UsageError: it left the message as it is, made fractions of class numbers, or left numbers
            of an update out and does not say so.
    """
    was, now = flat(before), flat(after)
    what = f"the wrapper {type(wrapper).__name__}"
    same = was.keys() == now.keys() and all(now[k] is t for k, t in was.items())
    if was and same and not wrapper.sums:
        raise UsageError(
            f"{what} leaves what clients send as {kind!r} as it is, so it would be called covered"
            " and is not: name the kinds of messages that it changes."
        )
    if wrapper.masks is None and kind == "update" and _dropped(was, now):
        raise UsageError(
            f"{what} sends 0 in place of numbers: let it say `masks: ClassVar[bool | None] = True`"
            " if they are not sent, or attackers would take them for data; False if 0 is what"
            " became of them."
        )
    broken = [k for k in was.keys() & now.keys() if _whole(was[k]) and not _whole(now[k])]
    if broken and kind == "labels":
        raise UsageError(
            f"{what} makes fractions of {kind!r}, which here are the numbers of classes: leave"
            " this kind out."
        )
    return after


def _dropped(was: dict[str, Tensor], now: dict[str, Tensor]) -> bool:
    """Is any number 0 that was not?"""
    both = [(was[k], now[k]) for k in was.keys() & now.keys() if was[k].shape == now[k].shape]
    return any(bool(((a != 0) & (b == 0)).any()) for a, b in both)


def _whole(t: Tensor) -> bool:
    return not t.is_floating_point()
