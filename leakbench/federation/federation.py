"""Runs a choreography: keeps every party's tensors in columns, carries messages, picks the engine,
tells the recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from leakbench.base.errors import MethodError, UsageError
from leakbench.base.streams import shared
from leakbench.base.tree import Tree, each_row, row, stack, tmap
from leakbench.federation import engines
from leakbench.federation.batches import Plan, plan
from leakbench.federation.defense import Defense, Wrapper
from leakbench.federation.local_steps import amount
from leakbench.federation.observer import Observer
from leakbench.federation.parties import Batch, Client, weighted_mean
from leakbench.federation.party_runner import PartyRunner, unwritten
from leakbench.federation.task import Task, TaskData
from leakbench.federation.traffic import Traffic
from leakbench.models.networks import initialise


class Ragged(RuntimeError):
    """Clients' tensors differ in shape here: they are run one by one."""


class Federation:
    """The state of a run between phases, and the verbs that a choreography uses
    (``leakbench.federation.defense.Choreography``).
    """

    def __init__(
        self,
        method: Defense,
        task: Task,
        data: TaskData,
        *,
        seed: int = 0,
        engine: str = "auto",
        wrappers: Sequence[Wrapper] = (),
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        recorder: Observer[Federation] | None = None,
    ) -> None:
        self.method, self.task, self.seed, self.wrappers = method, task, seed, tuple(wrappers)
        self.dtype, self.device = dtype, torch.device(device)
        self.engine = engines.resolve(engine, method, self.wrappers)
        self.facts = task.facts(method)
        self.data = data.to(self.device, dtype)
        self.augment = task.augment if type(task).augment is not Task.augment else None
        self.module = (
            method.module(task.module(self.facts), self.facts).to(self.device, dtype).eval()
        )
        self.runner = PartyRunner(method, self.wrappers, self.module, self.facts, seed, dtype)
        self.recorder: Observer[Federation] = recorder or Observer()
        self.traffic = Traffic({k for w in self.wrappers for k in w.kinds})
        self.phases: dict[str, str] = {}  # phase -> how it really ran
        self.fallbacks: dict[str, str] = {}  # phase -> why it could not be vectorised
        self.summed = {k for w in self.wrappers if w.sums for k in w.kinds}
        if self.summed and max(1, round(method.fraction * self.facts.clients)) < 2:
            raise UsageError(
                "a sum over one client is that client's own message: with secure_sum use a fraction"
                " of at least two clients."
            )
        self.everyone = torch.arange(self.facts.clients, device=self.device)
        self.lasting: dict[str, Tree] = {}  # what was sent to everybody before round 1
        self.local: dict[str, Tree] = {}  # the trained local models, where the method reads them
        self.losses: Tensor | None = None  # (M,) of the newest training
        self.share: Tensor | None = None  # (M,) weight of each sender in a mean
        self.t = 0
        self._start()

    def _start(self) -> None:
        tensors = initialise(self.module, shared(self.seed, "init", self.dtype, device=self.device))
        kept = self._kept_names(set(tensors))
        self.model = {k: v for k, v in tensors.items() if k not in kept}
        n = len(self.everyone)
        columns = {k: tensors[k].expand(n, *tensors[k].shape).clone() for k in sorted(kept)}
        self.columns: dict[str, Tree] = {"own": {}, "state": {}, "kept": columns}
        self.state: dict[str, Tree] = {}
        self._open(self.everyone)
        self.server(self.method.start_server)
        each = [row(self.holdings(self.everyone), i) for i in range(n)]
        made = [
            self.runner.client("start", 0, e, {"model": self.model}, self.data_of(i))
            for i, e in enumerate(each)
        ]
        self.columns.update(
            own=stack([m["own"] for m in made]), state=stack([m["state"] for m in made])
        )

    def _kept_names(self, names: set[str]) -> set[str]:
        owners = [
            (f"{path}.{k}".lstrip("."), m)
            for path, m in self.module.named_modules()
            for k in (*m._parameters, *m._buffers)
        ]
        return {name for name, module in owners if self.method.keeps(name, module)} & names

    # the verbs ------------------------------------------------------------------------------------
    def server(self, fn: Callable[..., Any]) -> None:
        """Run a function of the server and deliver what it returns to this round's clients."""
        tree: Tree = {"model": self.model, "state": self.state, "inbox": self.received}
        tree |= {"senders": self.senders, "receivers": self.chosen, "share": self.share}
        with unwritten(self._named(fn.__name__), {**tree, "means": self.means}):
            sent, new, each, slower = self.runner.server(fn.__name__, self.t, tree, self.means)
        self.fallbacks.update({f"{fn.__name__}/{what}": why for what, why in slower.items()})
        self.model, self.state = new["model"], new["state"]
        for kind, payload in sent.items():
            self.traffic.down(self.t, kind, self.chosen, payload, each=kind in each)
            self.recorder.down(self, kind, payload, each=kind in each)
            (self.each_inbox if kind in each else self.inbox)[kind] = payload
            (self.inbox if kind in each else self.each_inbox).pop(kind, None)
        self.phase += 1

    def clients(self, fn: Callable[..., Any]) -> None:
        """Run a function of every chosen client and deliver what they return to the server."""
        name = fn.__name__
        # The base's do nothing.
        if getattr(type(self.method), name, None) is not getattr(Defense, name, self):
            self._once(name)
            each = self.holdings(self.chosen)
            with unwritten(self._named(name), {**each, "inbox": {**self.inbox, **self.each_inbox}}):
                out = self.ask(self.runner, name, each)
            self._keep({"own": out["own"], "state": out["state"]})
            for kind, payload in out["sent"].items():
                self._arrive(kind, payload)
            self.recorder.up(self, name, each, out["sent"])
        self.phase += 1

    def train(
        self, fn: Callable[..., Any], *, steps: int | None = None, epochs: int | None = None
    ) -> None:
        """Every chosen client trains the model it received on the loss ``fn`` and sends the
        update.
        """
        name, m = fn.__name__, self.method
        self._once(name)
        where = {"seed": self.seed, "round": self.t, "phase": self.phase}
        much = dict(zip(("steps", "epochs"), amount(m, steps, epochs), strict=True))
        todo = plan(self.data, self.chosen, batch=m.batch, augment=self.augment, **much, **where)
        each = self.holdings(self.chosen)
        share = self.share = self._shares(each["count"])
        if m.average == "weighted":
            self._arrive("count", each["count"])
            self.recorder.up(self, "count", each, {"count": each["count"]})
        self.recorder.training(self, name, each, todo)
        with unwritten(self._named(name), {**each, "inbox": {**self.inbox, **self.each_inbox}}):
            out = self._trained(name, each, todo, share)
        self._keep({"own": out["own"], "kept": out["kept"]})
        self.losses = out["loss"]
        # Else fused rounds would lack it.
        if out.get("update") and engines.obstacle(m, self.wrappers):
            self.variances[name] = engines.variance(
                {k: v for k, v in out["update"].items() if k in self.runner.trained}
            )
        self.local = {} if m.fusible else {"local": out["local"]}
        if out.get("mean"):  # fused: single updates were never made
            self.senders = self.chosen
            self.means["update"] = out["mean"]
            self.traffic.up(
                self.t,
                "update",
                self.chosen,
                out["mean"],
                summed="update" in self.summed,
                stacked=False,
            )
        elif out.get("update"):
            self._arrive("update", out["update"])
        if "update" in self.summed and "update" in self.means:
            self.recorder.summed(self, "update", self.means["update"])
        self.phase += 1

    # how it is done -------------------------------------------------------------------------------
    def _trained(self, name: str, each: Tree, todo: Plan, share: Tensor) -> Tree:
        if (
            self.engine == "fused"
            and todo.even is not None
            and todo.even.shape[1] == 1
            and name not in self.fallbacks
        ):
            try:
                out = engines.fused(
                    self.runner, name, self.t, each, self.inbox, todo, share, self.data
                )
            except RuntimeError as error:
                # Vmap refused the loss: the reference runs it, or raises what is really wrong.
                self.fallbacks[name] = str(error).splitlines()[0]
            else:
                self.phases[name] = "fused"
                return out
        self.phases[name] = "loop"
        return engines.loop(self.runner, name, self.t, each, self.inbox, todo, self.data)

    def ask(self, runner: PartyRunner, name: str, each: Tree, *, log: bool = False) -> Tree:
        """Run the client function ``name`` of the clients ``each``; leaves are stacked over
        them.

        With ``log``, also the draws that each of them made.
        """
        inbox = self.inbox

        def one(e: Tree, data: Callable[[], Batch]) -> Tree:
            draws: dict[str, Tensor] | None = {} if log else None
            return {**runner.client(name, self.t, e, inbox, data, draws), "draws": draws or {}}

        if (
            self.engine != "loop"
            and name not in self.method.one_by_one
            and name not in self.fallbacks
        ):
            try:
                out = each_row(lambda e: one(e, self._rows(e)), each)
            except RuntimeError as error:
                # Ragged data, or vmap refused the function: one by one runs it, or raises what is
                # wrong.
                self.fallbacks[name] = str(error).splitlines()[0]
            else:
                self.phases[name] = "vectorised"
                return out
        self.phases[name] = "one by one"
        return stack([one(row(each, j), self.data_of(int(i))) for j, i in enumerate(each["index"])])

    def undefended(self, name: str, each: Tree) -> Tree:
        """What the clients ``each`` would send in ``name`` with nothing hidden and no wrappers,
        leaves stacked over them.
        """
        runner = PartyRunner(
            self.method.undefended(), (), self.module, self.facts, self.seed, self.dtype
        )
        return self.ask(runner, name, each)["sent"]

    def _named(self, function: str) -> str:
        return f"{type(self.method).__name__}.{function}"

    def _arrive(self, kind: str, payload: Tree) -> None:
        summed = kind in self.summed
        self.traffic.up(self.t, kind, self.chosen, payload, summed=summed)
        self.means.pop(kind, None)
        self.senders = self.chosen
        if self.share is None:  # nothing was trained in this round yet
            self.share = self._shares(self.data.counts[self.chosen])
        if summed:
            self.means[kind] = weighted_mean(payload, self.share)
            if kind != "update":
                self.recorder.summed(self, kind, self.means[kind])
        else:
            self.received[kind] = payload

    def holdings(self, who: Tensor) -> Tree:
        """What the clients ``who`` hold in this phase, (M, ...) each: their columns, their own
        inbox, their trained models.
        """
        everyone = who is self.everyone

        def pick(v: Tensor) -> Tensor:
            return v if everyone else v[who]

        columns = {k: tmap(pick, v) for k, v in self.columns.items()}
        return {
            "index": who,
            "count": pick(self.data.counts),
            **columns,
            "inbox": self.each_inbox,
            **self.local,
        }

    def _keep(self, new: Tree) -> None:
        for group, values in new.items():
            for name, value in values.items():
                if name not in self.columns[group]:
                    what = f"{type(self.method).__name__}: {group}[{name!r}]"
                    raise MethodError(
                        f"{what} is not named in start(); a client keeps what start() made."
                    )
                if self.chosen is self.everyone:
                    self.columns[group][name] = value
                else:
                    self.columns[group][name] = tmap(
                        lambda c, v: c.index_copy(0, self.chosen, v),
                        self.columns[group][name],
                        value,
                    )

    def _shares(self, counts: Tensor) -> Tensor:
        weights = (
            counts.double()
            if self.method.average == "weighted"
            else torch.ones_like(counts, dtype=torch.float64)
        )
        return weights / weights.sum()

    def _once(self, name: str) -> None:
        """Draws are named after the function: a second call would repeat the first one's noise, and
        noise that repeats cancels.
        """
        if name in self.ran:
            raise MethodError(
                f"{self._named(name)} ran twice in one round and would draw the same noise again;"
                " give the second step its own name."
            )
        self.ran.add(name)

    def data_of(self, i: int) -> Callable[[], Batch]:
        """Client i's examples, made when they are asked for."""
        rows = self.data.rows[i, : int(self.data.counts[i])]
        return lambda: Batch(self.data.train.images(rows), self.data.train.y[rows])

    def _rows(self, each: Tree) -> Callable[[], Batch]:
        def get() -> Batch:
            if int(self.data.counts.min()) != self.data.rows.shape[1]:
                raise Ragged("clients have different numbers of examples")
            rows = self.data.rows[each["index"]]
            return Batch(self.data.train.images(rows), self.data.train.y[rows])

        return get

    def _open(self, who: Tensor) -> None:
        """Nothing is left in anybody's inbox but what was sent to everybody before round 1."""
        self.chosen, self.phase = who, 0
        self.ran: set[str] = set()
        self.inbox: dict[str, Tree] = dict(self.lasting)
        self.each_inbox: dict[str, Tree] = {}
        self.received: dict[str, Tree] = {}
        self.means: dict[str, Tree] = {}
        self.local, self.losses = {}, None
        self.variances: dict[
            str, Tensor
        ] = {}  # training -> mean variance of the local models that it made
        self.senders, self.share = who[:0], None

    # the run --------------------------------------------------------------------------------------
    def choose(self, t: int) -> Tensor:
        """The clients of round t, in order of their number; round robin goes through one shuffled
        order.
        """
        n, m = self.facts.clients, self.method
        size = max(1, round(m.fraction * n))
        if size == n:
            return self.everyone
        if m.select == "round_robin":
            order = shared(self.seed, "select", device=self.device).permutation("clients", n)
            return (
                order[(torch.arange(size, device=self.device) + (t - 1) * size) % n].sort().values
            )
        return (
            shared(self.seed, "select", round=t, device=self.device)
            .permutation("clients", n)[:size]
            .sort()
            .values
        )

    def begin(self) -> None:
        """Everything before round 1: round 0."""
        self._open(self.everyone)
        self.method.before(self)
        self.lasting = {k: v for k, v in self.inbox.items() if k != "model"}
        self.recorder.close(self)

    def step(self) -> None:
        """One round."""
        self.t += 1
        self._open(self.choose(self.t))
        self.method.round(self)
        self.recorder.close(self)

    def end(self) -> None:
        """Everything after the last round R: round R + 1."""
        self.t += 1
        self._open(self.everyone)
        self.method.after(self)
        self.recorder.close(self)

    def snapshot(self) -> dict[str, Tree]:
        """Everything a later process needs to go on; random streams need nothing."""
        return {
            "t": torch.tensor(self.t),
            "model": self.model,
            "server": self.state,
            **self.columns,
            "lasting": self.lasting,
        }

    def restore(self, saved: dict[str, Tree]) -> None:
        """Go on from a snapshot of the same spec."""
        # Cloned: a tensor of a file lies anywhere in memory, and BLAS sums unaligned ones in
        # another order.
        saved = tmap(lambda v: v.to(self.device).clone(), saved)
        # safetensors drops empty dicts: a method may keep the whole model at the clients.
        self.t, self.model, self.state = (
            int(saved["t"]),
            saved.get("model", {}),
            saved.get("server", {}),
        )
        self.columns = {k: saved.get(k, {}) for k in ("own", "state", "kept")}
        self.lasting = saved.get("lasting", {})
        self._open(self.everyone)

    def tables(self) -> Tree:
        """Every client's columns outside any phase: nothing in its inbox but what everybody got."""
        columns = {k: dict(v) for k, v in self.columns.items()}
        return {"index": self.everyone, "count": self.data.counts, **columns, "inbox": {}}

    def outside(self, each: Tree) -> Client:
        """A client as the evaluator and the scorer see it, holding the newest global model; never
        for a party.
        """
        return self.runner.me(self.t, each, {**self.lasting, "model": self.model})

    @torch.no_grad()
    def secrets(self) -> Tree:
        """What every client means to hide, leaves (C, ...): for the truth and for the
        diagnostics.
        """
        each = self.tables()
        if not self.method.secrets(self.outside(row(each, 0))):
            return {}
        return each_row(lambda e: self.method.secrets(self.outside(e)), each)
