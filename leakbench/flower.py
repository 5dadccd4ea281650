"""A Flower app's run is recorded as a run of leakbench: wrap its strategy, and let clients tell.

    strategy = Recorded(FedAvg(), out="runs", name="digits", model=Net, data=data,
                        sgd=dict(lr=0.1, batch=16, epochs=1))
    client = ClientApp(mods=[tell(out="runs", name="digits", rows=trained_on)])

Needs ``pip install 'flwr>=1.21,<2'`` beside leakbench.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leakbench.base.errors import UsageError
from leakbench.base.files import read_json, read_sealed, write_json
from leakbench.base.lazy import torch
from leakbench.own.clients import ClientData
from leakbench.own.network import Model, made, prepared
from leakbench.own.observed import Observed, observe

try:
    from flwr.app import Context, Message
    from flwr.common import Parameters, parameters_to_ndarrays
    from flwr.server.strategy import Strategy as ClassicStrategy
    from flwr.serverapp.strategy import Strategy
except ImportError as error:
    raise ImportError(
        f"leakbench.flower needs flwr 1.21 or newer ({error}): pip install 'flwr>=1.21,<2'."
    ) from None

if TYPE_CHECKING:
    from torch import Tensor

PARTITION = "partition-id"  # as Flower calls a client's number
TOLD = ".told"
TRAIN = "train"
AT_ONCE = 512  # test examples

Rows: TypeAlias = Callable[[Message, Context], Any]
Mod: TypeAlias = Callable[[Message, Context, Callable[[Message, Context], Message]], Message]


# on clients ---------------------------------------------------------------------------------------
def tell(*, out: str | Path, name: str, rows: Rows | None = None) -> Mod:
    """A client's mod: which rows it trained on goes to a file on this machine, not to the server.

    The file lies below out/.told/name, where ``Recorded`` of the same out and name takes it when
    it has the reply. The client's number is "partition-id" of its node's configuration.

    Args:
        out: as of ``Recorded``; an absolute path where clients begin in another folder.
        name: as of ``Recorded``.
        rows: called after the training with the message that asked for it and the context: the
            places, in ``data.client(number)``, of the examples in their order, or a list of them
            for each step; all of its own if None.
    """
    folder = Path(out).absolute() / TOLD / name

    def told(message: Message, context: Context, call_next: Any) -> Message:
        if message.metadata.message_type.partition(".")[0] != TRAIN:
            return call_next(message, context)
        about = message.metadata  # as it came: the app may change what it was given
        run, node, group, this = (about.run_id, about.dst_node_id, about.group_id, about.message_id)
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        if PARTITION not in context.node_config:
            raise UsageError(
                f"node {node} has no {PARTITION!r}: expected its number in the data, as in"
                f" flower-supernode --node-config '{PARTITION}=0'."
            )
        number = int(context.node_config[PARTITION])
        which = None if rows is None else _plain(rows(message, context))
        truth = {"client": number, "group": group, "message": this, "rows": which}
        # The name is the server's word for it, and no path of the server's.
        file = f"{sha256((this or group).encode()).hexdigest()[:16]}.json"
        write_json(folder / str(run) / str(node) / file, truth)
        return reply

    return told


def _plain(rows: Any) -> Any:
    """Rows as JSON has them."""
    if hasattr(rows, "tolist"):
        return rows.tolist()
    return rows if isinstance(rows, int) or rows is None else [_plain(row) for row in rows]


@dataclass
class _Told:
    """What clients told on this machine."""

    folder: Path
    runs: set[int] = field(default_factory=set)

    def take(self, reply: _Reply) -> dict[str, Any] | None:
        """What the sender told of this reply; it is taken away."""
        self.runs.add(reply.run)
        here = self.folder / str(reply.run) / str(reply.node)
        for file in sorted(here.glob("*.json")):
            truth = read_json(file)
            if (truth["message"] if reply.message else truth["group"]) == (
                reply.message or reply.group
            ):
                file.unlink()
                return dict(truth)
        return None

    def clear(self) -> None:
        """Nothing of these runs is left."""
        for run in self.runs:
            shutil.rmtree(self.folder / str(run), ignore_errors=True)
        for empty in (self.folder, self.folder.parent):
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()


# on the server ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Sends:
    """What arrives, as ``Recorded`` is told it."""

    what: str
    sparse: bool
    summed: bool


@dataclass
class _Reply:
    """What came from a client; ``message`` or ``group`` says what it answers."""

    run: int
    node: int
    tensors: Mapping[str, Any]
    metrics: Mapping[str, Any]
    message: str = ""
    group: str = ""


class _Recording:
    """The record that either kind of strategy writes to."""

    def __init__(self, out: str | Path, name: str, sends: _Sends, given: dict[str, Any]) -> None:
        self._how = {"out": out, "name": name, **given}
        self._sends = sends
        self._path = Path(out) / f"{name}-s{given.get('seed', 0)}"
        self._told = _Told(Path(out).absolute() / TOLD / name)
        self._numbers: dict[int, int] = {}  # of nodes
        self._open = ExitStack()
        self._seen: Observed | None = None
        self._rounds = 0
        self._sent: tuple[dict[str, Tensor], list[int]] | None = None
        data: ClientData = given["data"]
        if not isinstance(data, ClientData):
            raise UsageError(
                f"data is {type(data).__name__}: expected what leakbench.clients(x, y, ...) gives."
            )
        self._data = data
        net = made(given["model"], data.classes)
        self._shapes = {k: v.clone() for k, v in net.state_dict().items()}
        self._net = prepared(net, data.shape, tokens=data.tokens)

    # its life -------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Open it. One that was interrupted begins anew, as Flower's rounds do."""
        where = self._path / "run.json"
        cut = where.exists() and read_sealed(where).get("status") != "done"
        self._rounds, self._sent = 0, None
        self._numbers.clear()
        again = {"restart": True} if cut else {}
        self._seen = self._open.enter_context(observe(**{**self._how, **again}))

    @property
    def going(self) -> bool:
        """Has it begun, and not ended?"""
        return self._seen is not None

    @property
    def seen(self) -> Observed:
        """What it is told to.

        Raises:
            UsageError: nothing was begun.
        """
        if self._seen is None:
            raise UsageError(
                "nothing is recorded here: expected the outermost strategy to be Recorded(...), on"
                " which .start(...) is called."
            )
        return self._seen

    def end(self, error: BaseException | None = None) -> None:
        """Close it: written whole, or left where it stood if there was an error.

        Raises:
            UsageError: no client sent anything.
        """
        if error is None and not self._rounds:
            error = UsageError(
                f"no client sent an update in any round, so that {self._path} is empty: expected"
                " one at least; Flower's log says why they failed."
            )
            self.end(error)
            raise error
        kind, trace = (type(error), error.__traceback__) if error else (None, None)
        self._seen = None
        self._open.__exit__(kind, error, trace)
        self._told.clear()

    # a round --------------------------------------------------------------------------------------
    def sent(self, models: Sequence[Any], nodes: Sequence[int]) -> None:
        """The server sent a model to these nodes; it is recorded when somebody answers.

        Raises:
            UsageError: it sent several models.
        """
        _ = self.seen
        if not models:
            self._sent = None
            return
        first = models[0]
        for node, model in zip(nodes, models, strict=True):
            if model is not first and not _same(model, first):
                raise UsageError(
                    f"node {node} was sent another model than node {nodes[0]} in one round:"
                    " expected one model for all, which attackers know."
                )
        self._sent = (self._named(_arrays(first), "the model"), list(nodes))

    def received(self, flower_round: int, replies: Sequence[_Reply]) -> None:
        """What came back.

        Raises:
            UsageError: it is not known whose, or not what the network has.
        """
        seen = self.seen
        if self._sent is None or not replies:
            warnings.warn(
                f"no client sent an update in Flower's round {flower_round}: it is left out, and"
                f" the next one is round {self._rounds + 1} of {self._path.name}.",
                stacklevel=3,
            )
            return
        self._rounds += 1
        t, (model, nodes) = self._rounds, self._sent
        told = [self._told.take(reply) for reply in replies]
        for reply, truth in zip(replies, told, strict=True):
            self._numbers[reply.node] = self._number(reply, truth)
        known = [self._numbers[node] for node in nodes if node in self._numbers]
        seen.sent("model", model, round=t, clients=known)
        rows = {
            self._numbers[reply.node]: None if truth is None else truth["rows"]
            for reply, truth in zip(replies, told, strict=True)
        }
        if self._sends.summed:
            self._summed(seen, replies, rows)
            return
        for reply in replies:
            number = self._numbers[reply.node]
            tensors = self._named(_arrays(reply.tensors), f"the reply of client {number}")
            more: dict[str, Any] = {"what": self._sends.what, "sparse": self._sends.sparse}
            seen.update(tensors, client=number, round=t, rows=rows[number], **more)

    def _summed(self, seen: Observed, replies: Sequence[_Reply], rows: Mapping[int, Any]) -> None:
        """Flower hands the mean on in each client's place."""
        first = replies[0]
        for reply in replies:
            if not _same(reply.tensors, first.tensors):
                raise UsageError(
                    f"node {reply.node} sent other numbers than node {first.node}, and summed=True"
                    " says that only a mean of all arrives, as of SecAgg+: expected summed=False."
                )
        mean = self._named(_arrays(first.tensors), "the mean of the replies")
        told = {c: some for c, some in rows.items() if some is not None}
        how: dict[str, Any] = {"what": self._sends.what, "mean": True, "rows": told}
        seen.aggregate(mean, clients=sorted(rows), round=self._rounds, **how)

    def gained(self, model: Any) -> None:
        """The strategy made this model of it: what it gains is measured on the test set."""
        if self._sent is None or model is None:
            return
        self._net.load_state_dict(self._named(_arrays(model), "the aggregated model"))
        self._net.eval()
        x, y = self._data.test
        with torch.no_grad():
            found = torch.cat([self._net(part).argmax(1) for part in torch.split(x, AT_ONCE)])
        self.seen.utility("accuracy", found == y, round=self._rounds)
        self._sent = None

    # whose, and what ------------------------------------------------------------------------------
    def _number(self, reply: _Reply, truth: Mapping[str, Any] | None) -> int:
        """The number of a client: what it told here, else what it sent."""
        if truth is not None:
            return int(truth["client"])
        if PARTITION in reply.metrics:
            return int(reply.metrics[PARTITION])
        if reply.node in self._numbers:
            return self._numbers[reply.node]
        raise UsageError(
            f"node {reply.node} does not say whose data it trained on: expected tell(out=..., name="
            f"...) of leakbench.flower among the ClientApp's mods, on this machine and with the"
            f" same out ({self._told.folder.parents[1]}) and name, or the metric {PARTITION!r} in"
            " its reply."
        )

    def _named(self, given: Mapping[str, Any] | list[Any], what: str) -> dict[str, Tensor]:
        """Tensors under the network's names; without names, in its order."""
        arrays = list(given.values()) if isinstance(given, Mapping) else given
        names = list(given) if isinstance(given, Mapping) else []
        if not names or all(n.isdigit() for n in names):
            names = list(self._shapes)
            if len(arrays) != len(names):
                raise UsageError(
                    f"{what} has {len(arrays)} arrays without names, and the network {len(names)}"
                    " tensors: expected all of its state_dict(), in its order."
                )
        out = {}
        for name, array in zip(names, arrays, strict=True):
            tensor = torch.as_tensor(array)
            like = self._shapes.get(name)
            # A mean of whole numbers, as of batches seen, comes as floats.
            out[name] = tensor if like is None else tensor.to(like.dtype)
        return out


def _arrays(model: Any) -> dict[str, Any] | list[Any]:
    """Numpy's arrays of a model, by name where it has names."""
    if isinstance(model, Parameters):
        return [array.copy() for array in parameters_to_ndarrays(model)]
    return {str(name): array.numpy().copy() for name, array in model.items()}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Parameters):
        return bool(one.tensors == other.tensors)
    return [(k, v.data) for k, v in one.items()] == [(k, v.data) for k, v in other.items()]


def Recorded(
    strategy: Any,
    *,
    out: str | Path,
    name: str,
    model: Model,
    data: ClientData,
    loss: Any = None,
    sgd: Mapping[str, Any] | None = None,
    what: str = "weights",
    sparse: bool = False,
    summed: bool = False,
    rounds: int | None = None,
    **how: Any,
) -> Any:
    """A strategy of Flower's as it was, whose rounds are recorded in out/name-s<seed>.

    It goes outermost: around Flower's own wrappers, too. What is recorded is what arrives, after
    the clients' mods and before anything the server does; who clips or noises in a mod says so in
    ``covered=("update",)``. A client is known by what ``tell`` wrote on this machine, else by the
    metric "partition-id" in its reply; ``data.client(c)`` must be the data of partition c. A
    record is complete when ``start`` ends; of a classic strategy, after ``rounds`` rounds.

    Args:
        strategy: of the Message API (flwr.serverapp.strategy), or a classic one
            (flwr.server.strategy), whose clients are NumPyClients.
        out: as of ``leakbench.observe``.
        name: as there.
        model: as there.
        data: as there.
        loss: as there.
        sgd: as there.
        what: what clients send: "weights", "difference" or "gradient".
        sparse: where the difference is 0 nothing was sent (of the largest k, say); such updates are
            ``covered``.
        summed: a classic strategy gets the mean of what clients send and no more, as by SecAgg+
            (SecAggPlusWorkflow); ``tell`` is the mod after ``secaggplus_mod``.
        rounds: of a classic strategy, which is not told how many: as in ServerConfig(num_rounds).
        how: more of ``leakbench.observe``, as seed, optimizer, covered and restart.

    Raises:
        UsageError: it is no strategy, or ``rounds`` is missing.
    """
    given = {"model": model, "data": data, "loss": loss, "sgd": sgd, **how}
    sends = _Sends(what, sparse, summed)
    if isinstance(strategy, Strategy):
        return _Messages(strategy, _Recording(out, name, sends, given))
    if isinstance(strategy, ClassicStrategy):
        if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
            raise UsageError(
                f"rounds = {rounds!r}: expected how many the server runs, as in"
                " ServerConfig(num_rounds=3), by which the record of a classic strategy ends."
            )
        return _Classic(strategy, _Recording(out, name, sends, given), rounds)
    raise UsageError(
        f"strategy is {type(strategy).__name__}: expected one of flwr.serverapp.strategy or of"
        " flwr.server.strategy."
    )


class _Messages(Strategy):  # type: ignore[misc]
    """A strategy of the Message API."""

    def __init__(self, strategy: Any, recording: _Recording) -> None:
        self.strategy, self._recording = strategy, recording

    def __getattr__(self, name: str) -> Any:
        if name in ("strategy", "_recording"):  # not set yet, as in a copy
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def start(self, *args: Any, **kwargs: Any) -> Any:
        """The strategy's own, with each round recorded.

        Raises:
            UsageError: what is sent does not fit what was said of it.
        """
        inner, ours = self.strategy, ("configure_train", "aggregate_train")
        recording = self._recording
        self._asked, self._collected = inner.configure_train, inner.aggregate_train
        before = {k: vars(inner)[k] for k in ours if k in vars(inner)}
        recording.begin()
        try:
            # Whatever start the strategy has, it asks itself for these two.
            inner.configure_train, inner.aggregate_train = (
                self.configure_train,
                self.aggregate_train,
            )
            result = inner.start(*args, **kwargs)
        except BaseException as error:
            recording.end(error)
            raise
        finally:
            for k in ours:
                vars(inner).pop(k, None)
            vars(inner).update(before)
        recording.end()
        return result

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """The strategy's own; what is sent to whom is noted."""
        _ = self._recording.seen
        messages = list(self._asked(server_round, arrays, config, grid))
        asked = [m for m in messages if m.metadata.message_type.partition(".")[0] == TRAIN]
        models = [_record(m.content, self._key) for m in asked]
        self._recording.sent(models, [m.metadata.dst_node_id for m in asked])
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        """The strategy's own, after each reply was recorded as it came."""
        _ = self._recording.seen
        came = list(replies)
        whole = [r for r in came if not r.has_error()]
        self._recording.received(server_round, [_of_message(r, self._key) for r in whole])
        found = self._collected(server_round, came)
        self._recording.gained(found[0])
        return found

    @property
    def _key(self) -> str:
        return str(getattr(self.strategy, "arrayrecord_key", "arrays"))

    def configure_evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """The strategy's own."""
        return self.strategy.configure_evaluate(*args, **kwargs)

    def aggregate_evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """The strategy's own."""
        return self.strategy.aggregate_evaluate(*args, **kwargs)

    def summary(self) -> None:
        """The strategy's own."""
        self.strategy.summary()


def _record(content: Any, key: str) -> Any:
    """The ArrayRecord of a message: the only one, or that which the strategy calls so."""
    records = content.array_records
    if len(records) == 1:
        return next(iter(records.values()))
    if key in records:
        return records[key]
    raise UsageError(
        f"a message holds the ArrayRecords {', '.join(map(str, records)) or '(none)'}: expected"
        f" one, or one that is called {key!r}."
    )


def _of_message(reply: Any, key: str) -> _Reply:
    about = reply.metadata
    numbers = {k: v for record in reply.content.metric_records.values() for k, v in record.items()}
    return _Reply(
        about.run_id,
        about.src_node_id,
        _record(reply.content, key),
        numbers,
        message=about.reply_to_message_id,
        group=about.group_id,
    )


class _Classic(ClassicStrategy):  # type: ignore[misc]
    """A strategy whose clients are NumPyClients."""

    def __init__(self, strategy: Any, recording: _Recording, rounds: int) -> None:
        self.strategy, self._recording, self._last = strategy, recording, rounds

    def __getattr__(self, name: str) -> Any:
        if name in ("strategy", "_recording"):
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> Any:
        """The strategy's own; what is sent to whom is noted."""
        asked = self.strategy.configure_fit(server_round, parameters, client_manager)
        if not self._recording.going:
            if server_round > 1:
                raise UsageError(
                    f"round {server_round} begins, and the record is complete: expected"
                    f" rounds={self._last} as in ServerConfig(num_rounds=...)."
                )
            self._recording.begin()
        with ExitStack() as guard:
            guard.push(self._failed)
            self._recording.sent([ins.parameters for _, ins in asked], [_node(p) for p, _ in asked])
        return asked

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """The strategy's own, after each reply was recorded as it came."""
        with ExitStack() as guard:
            guard.push(self._failed)
            replies = [
                _Reply(
                    int(getattr(proxy, "run_id", 0)),
                    _node(proxy),
                    res.parameters,
                    res.metrics,
                    group=str(server_round),
                )
                for proxy, res in results
            ]
            self._recording.received(server_round, replies)
            found = self.strategy.aggregate_fit(server_round, results, failures)
            self._recording.gained(found[0])
        if server_round >= self._last:
            self._recording.end()
        return found

    def _failed(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if error is not None:
            self._recording.end(error)

    def initialize_parameters(self, client_manager: Any) -> Any:
        """The strategy's own."""
        return self.strategy.initialize_parameters(client_manager)

    def configure_evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """The strategy's own."""
        return self.strategy.configure_evaluate(*args, **kwargs)

    def aggregate_evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """The strategy's own."""
        return self.strategy.aggregate_evaluate(*args, **kwargs)

    def evaluate(self, server_round: int, parameters: Any) -> Any:
        """The strategy's own."""
        return self.strategy.evaluate(server_round, parameters)


def _node(proxy: Any) -> int:
    """The number of a client's node."""
    return int(getattr(proxy, "node_id", proxy.cid))
