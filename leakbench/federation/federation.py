"""Runs a choreography: keeps every party's tensors, carries messages, tells the recorder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from leakbench.base import dice
from leakbench.base.errors import MethodError, UsageError
from leakbench.base.streams import shared
from leakbench.base.tree import Tree, each_row, flat, row, stack, tmap
from leakbench.federation import engines
from leakbench.federation.batches import Plan, batch_plan, indices
from leakbench.federation.client_tensors import ClientTensors, kept_names
from leakbench.federation.defense import Defense, Wrapper
from leakbench.federation.execution import Execution
from leakbench.federation.local_steps import steps_or_epochs
from leakbench.federation.network import built, own_numbers, unsteady
from leakbench.federation.noticed import noticed
from leakbench.federation.observer import Observer
from leakbench.federation.outputs import refuse_one_output, refuse_other_outputs
from leakbench.federation.parties import Batch, Client, Each, weighted_mean
from leakbench.federation.party_runner import PartyRunner, single, unwritten
from leakbench.federation.precision import split_dtype
from leakbench.federation.selection import robin, round_size, select
from leakbench.federation.task import Task
from leakbench.federation.task_data import TaskData
from leakbench.federation.traffic import Traffic
from leakbench.models.networks import initialise
from leakbench.models.pretrained import laid_over
from leakbench.models.stages import last_layer, of_layer


class Federation:
    """The state of a run between phases, and the verbs of a ``Choreography``."""

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
        self.method, self.task, self.seed = method, task, seed
        self.wrappers = tuple(w for w in wrappers if not w.active)
        self.active = tuple(w for w in wrappers if w.active)  # of a server that departs
        self.aimed = {i for w in self.active for i in w.aimed()}  # at these clients, or at all
        self.dtype, self.low = split_dtype(dtype)
        self.device = torch.device(device)
        self.engine = engines.resolve(engine, method, tuple(wrappers))
        self.facts = task.facts(method)
        self.data = task.examined(data).to(self.device, self.dtype)
        self.augment = task.augment if type(task).augment is not Task.augment else None
        module, other = (built(task, method, self.facts, seed, again) for again in (0, 1))
        self.own = own_numbers(module, other)
        self.module = module.to(self.device, self.dtype).eval()
        self._refuse_unsteady()
        name, last = last_layer(self.module, self.facts.shape)
        self._refuse_other_outputs(single=last is not None and last.out_features == 1)
        self.last_layer = tuple(of_layer(name, dict(self.module.named_parameters())))
        self.runner = self._runner(method, self.wrappers)
        self.execution = Execution(self.engine, method, self.data)
        self.phases, self.fallbacks = self.execution.phases, self.execution.fallbacks
        self.recorder: Observer[Federation] = recorder or Observer()
        changed = {k for w in self.active if w.departures() for k in w.kinds}
        self.traffic = Traffic({k for w in self.wrappers for k in w.kinds}, changed)
        self.summed = {k for w in self.wrappers if w.sums for k in w.kinds}
        self.masked = {k for w in self.wrappers if w.masks for k in w.kinds}
        for w in self.wrappers:
            if "count" in w.kinds:
                raise UsageError(
                    f"the wrapper {type(w).__name__} cannot cover 'count': by how many examples"
                    " clients have, the server weighs the mean, so they are sent as they are. Leave"
                    " it out of kinds; with average=plain no client sends it."
                )
        if self.summed and round_size(method, self.facts.clients) < 2:
            raise UsageError(
                "a sum over one client is that client's own message: with secure_sum use a fraction"
                " of at least two clients."
            )
        self.everyone = torch.arange(self.facts.clients, device=self.device)
        self.lasting: dict[str, Tree] = {}  # what was sent to everybody before round 1
        self.share: Tensor | None = None  # (M,) weight of each sender in a mean
        self.local: dict[str, Tree] = {}  # the trained models, where the method reads them
        self.losses: Tensor | None = None  # (M,) of the newest training
        robins = method.select == "round_robin"
        self.robin = robin(self.facts.clients, seed=seed) if robins else []
        self.t = 0
        self._start()

    def _some(self) -> Tensor:
        """Two inputs, or one twice: one alone some normalisations do not take."""
        return self.data.train.images(torch.arange(2, device=self.device) % len(self.data.train))

    def _refuse_unsteady(self) -> None:
        """Raise UsageError where what a layer gives depends on what nobody can begin or keep."""
        name = unsteady(self.module, self._some())
        if name is not None:
            what = f"the layer {name!r}" if name else "the network"
            raise UsageError(
                f"{what} gives something else when it is called again with the same dice and"
                " buffers, so that no run could be trained again: throw torch's own dice (Python's"
                " and NumPy's will do), and keep what it is to remember in a buffer."
            )

    def _refuse_other_outputs(self, *, single: bool) -> None:
        """Raise UsageError where the network gives something else than is asked of it.

        ``single``: has its linear last layer one output?
        """
        made_over = type(self.method).module is not Defense.module  # it knows what is to come out
        logits = self.method.outputs == "logits"
        if self.facts.targets != "tokens" and not made_over:
            with torch.no_grad(), dice.lent(0):
                out = self.module(self._some())
            refuse_other_outputs(out, self.facts.dim, logits=logits)
        if not single or not logits:
            return
        refuse_one_output(self.module, self.facts.shape, self.facts.classes)
        if not self.method.single_logit:
            raise UsageError(
                f"{type(self.method).__name__} reads a logit for each class: give the network two"
                " outputs."
            )

    def _start(self) -> None:
        dice = shared(self.seed, "init", self.dtype, device=self.device)
        tensors = initialise(self.module, dice, self.own)
        tensors = laid_over(tensors, self.data.pretrained)
        kept = kept_names(self.method, self.module) & set(tensors)
        self.model = {k: v for k, v in tensors.items() if k not in kept}
        n = len(self.everyone)
        columns = {k: tensors[k].expand(n, *tensors[k].shape).clone() for k in sorted(kept)}
        self._hold({"kept": columns})
        self.state: dict[str, Tree] = {}
        self._open()
        self.server(self.method.start_server)
        held = self.holdings(self.everyone)
        each = [single(held, i, i) for i in range(n)]
        inbox = {"model": self.model}
        made = [
            self.runner.client("start", 0, e, inbox, self.data_of(i)) for i, e in enumerate(each)
        ]
        for group in ("own", "state"):
            self.columns[group] = stack([m[group] for m in made])

    def _hold(self, groups: Tree) -> None:
        groups = {k: groups.get(k, {}) for k in ("own", "state", "kept")}
        self.columns = ClientTensors(self.method, len(self.everyone), groups)

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
            self._send_down(kind, payload, each=kind in each)
        self.phase += 1

    def clients(self, fn: Callable[..., Any]) -> None:
        """Run a function of every chosen client and deliver what they return to the server."""
        name = fn.__name__
        # The base's do nothing.
        if getattr(type(self.method), name, None) is not getattr(Defense, name, self):
            self._once(name)
            each = self.holdings(self.chosen)
            with unwritten(self._named(name), {**each, "inbox": {**self.inbox, **self.each_inbox}}):
                out = self._run(self.runner, name, each)
            self.columns.write(self.chosen, {"own": out["own"], "state": out["state"]})
            for kind, payload in out["sent"].items():
                self._arrive(kind, payload)
            self.recorder.up(self, name, each, out["sent"], out["draws"])
        self.phase += 1

    def train(
        self, fn: Callable[..., Any], *, steps: int | None = None, epochs: int | None = None
    ) -> None:
        """Every chosen client trains the model it received on ``fn`` and sends the update."""
        name, m = fn.__name__, self.method
        self._once(name)
        where = {"seed": self.seed, "round": self.t, "phase": self.phase}
        many = dict(zip(("steps", "epochs"), steps_or_epochs(m, steps, epochs), strict=True))
        todo = batch_plan(self.data, self.who, batch=m.batch, augment=self.augment, **many, **where)
        each = self.holdings(self.chosen)
        share = self.share = self._shares(each["count"])
        if m.average == "weighted":
            self._arrive("count", each["count"])
            self.recorder.up(self, "count", each, {"count": each["count"]}, {})
        self.recorder.training(self, name, each, todo)
        local = engines.LocalTraining(self.runner, name, self.t, self.inbox)
        with unwritten(self._named(name), {**each, "inbox": {**self.inbox, **self.each_inbox}}):
            out = self.execution.training(local, each, todo, share)
        self.recorder.trained(self, name, each, todo, out.get("update", {}))
        self.columns.write(self.chosen, {"own": out["own"], "kept": out["kept"]})
        self.losses = out["loss"]
        if "model" in self.meant and not self.noticed:
            self._notice(name, each, todo)
        self.local = {} if m.fusible else {"local": out["local"]}
        self._arrive_trained(name, out)
        self.phase += 1

    # how it is done -------------------------------------------------------------------------------
    def _send_down(self, kind: str, payload: Tree, *, each: bool) -> None:
        """Deliver what the server sends, or what an active one sends instead."""
        meant: Tree | None = None
        for i, w in enumerate(self.active):
            if kind not in w.kinds or self.t not in w.departures():
                continue
            if each or meant is not None:
                raise UsageError(
                    f"the wrapper {type(w).__name__} changes a {kind} that all clients get alike"
                    " from the method, and here each gets its own, or another wrapper changed it:"
                    " leave the wrapper out."
                )
            tree = {"model": self.model, "state": self.state, "receivers": self.chosen}
            sent = self.runner.downlink(w, f"{kind}/{i}", self.t, tree, payload, self.data.aux)
            if sent is payload:
                continue
            each = isinstance(sent, Each)
            meant, payload = payload, sent.payload if isinstance(sent, Each) else sent
        if meant is not None:
            self.meant[kind] = meant
        self.traffic.down(self.t, kind, self.who, payload, each=each)
        self.recorder.down(self, kind, payload, each=each, meant=meant)
        here, there = self.inbox, self.each_inbox
        if each:
            here, there = there, here
        here[kind] = payload
        there.pop(kind, None)

    def _notice(self, name: str, each: Tree, todo: Plan) -> None:
        """What those who got another model could tell; losses are those at the one that was meant.

        So a run whose last round was such a one has not run away.
        """
        aimed = [j for j, i in enumerate(self.who) if not self.aimed or i in self.aimed]
        how = (self.data, self.inbox, self.meant["model"], aimed)
        found, losses = noticed(self.bare_runner(), name, self.t, each, todo, *how)
        self.noticed.update(found)
        self.losses = losses if len(losses) else None

    def _run(self, runner: PartyRunner, name: str, each: Tree) -> Tree:
        return self.execution.clients(runner, name, self.t, self.who, each, self.inbox)

    def undefended(self, name: str, each: Tree, sent: Tree) -> Tree:
        """What the clients ``each``, who ``sent`` this in ``name``, would with nothing hidden.

        And without wrappers; stacked.
        """
        bare = self.method.undefended()
        if bare == self.method and not self.wrappers:
            return sent
        return self._run(self._runner(bare, ()), name, each)["sent"]

    def bare_runner(self) -> PartyRunner:
        """What trains as the clients do, without any wrapper."""
        return self._runner(self.method, ())

    def _runner(self, method: Defense, wrappers: Sequence[Wrapper]) -> PartyRunner:
        how = (self.module, self.facts, self.seed, self.dtype, self.low)
        return PartyRunner(method, wrappers, *how)

    def _named(self, function: str) -> str:
        return f"{type(self.method).__name__}.{function}"

    def _arrive(self, kind: str, payload: Tree) -> None:
        summed = kind in self.summed
        self.traffic.up(self.t, kind, self.who, payload, summed=summed)
        self.means.pop(kind, None)
        self.senders = self.chosen
        if self.share is None:  # nothing was trained in this round yet
            self.share = self._shares(self.data.counts[self.chosen])
        if summed:
            if any(isinstance(leaf, list) for leaf in flat(payload).values()):
                raise UsageError(
                    f"what clients send as {kind!r} is of another length for each, so it has no"
                    " sum: leave this kind out of the wrapper that sums."
                )
            self.means[kind] = weighted_mean(payload, self.share)
            if kind != "update":
                self.recorder.summed(self, kind, self.means[kind])
        else:
            self.received[kind] = payload

    def _arrive_trained(self, name: str, out: Tree) -> None:
        update, mean, summed = out.get("update"), out.get("mean"), "update" in self.summed
        # Where rounds may be fused there is none, or it would depend on the engine.
        if update and engines.obstacle(self.method, self.wrappers):
            trained = {k: v for k, v in update.items() if k in self.runner.trained}
            self.variances[name] = engines.variance(trained)
        if mean:  # fused: single updates were never made
            self.senders = self.chosen
            self.means["update"] = mean
            self.traffic.up(self.t, "update", self.who, mean, summed=summed, stacked=False)
        elif update:
            self._arrive("update", update)
        if summed and "update" in self.means:
            self.recorder.summed(self, "update", self.means["update"])

    def holdings(self, who: Tensor) -> Tree:
        """What the clients ``who`` hold in this phase, their inbox included, (M, ...) each."""
        numbers = {"index": who, "count": self.data.counts[who]}
        return {**numbers, **self.columns.of(who), "inbox": self.each_inbox, **self.local}

    def _shares(self, counts: Tensor) -> Tensor:
        weighted = self.method.average == "weighted"
        weights = counts.double() if weighted else torch.ones_like(counts, dtype=torch.float64)
        return weights / weights.sum()

    def _once(self, name: str) -> None:
        # Draws are named after the function: a second call would repeat the first one's noise, and
        # noise that repeats cancels.
        if name in self.ran:
            raise MethodError(
                f"{self._named(name)} ran twice in one round and would draw the same noise again;"
                " give the second step its own name."
            )
        self.ran.add(name)

    def data_of(self, i: int) -> Callable[[], Batch]:
        """Client i's examples, made when they are asked for."""
        return self.execution.data_of(i)

    def _open(self, who: Sequence[int] | None = None) -> None:
        """A round of the clients ``who``, of all if None.

        Nothing is left in anybody's inbox but what was sent to everybody before round 1.
        """
        everyone = who is None or len(who) == len(self.everyone)
        self.who = range(len(self.everyone)) if who is None else who
        self.chosen = self.everyone if everyone else indices(self.who, self.everyone.device)
        self.phase = 0
        self.ran: set[str] = set()
        self.inbox: dict[str, Tree] = dict(self.lasting)
        self.each_inbox: dict[str, Tree] = {}
        self.received: dict[str, Tree] = {}
        self.means: dict[str, Tree] = {}
        self.senders = self.chosen[:0]
        self.share = None
        self.local, self.losses = {}, None
        # What the server would have sent by its method, of kinds that it sent otherwise.
        self.meant: dict[str, Tree] = {}
        self.noticed: dict[str, float] = {}  # what clients could notice of that
        self.variances: dict[str, Tensor] = {}  # training -> mean variance of its local models

    # the run --------------------------------------------------------------------------------------
    def _chosen(self) -> list[int]:
        how = {"seed": self.seed, "t": self.t}
        return select(self.method, self.facts.clients, order=self.robin, **how)

    def begin(self) -> None:
        """Everything before round 1: round 0."""
        self._open()
        self.method.before(self)
        self.lasting = {k: v for k, v in self.inbox.items() if k != "model"}
        self.recorder.close(self)

    def step(self) -> None:
        """One round."""
        self.t += 1
        self._open(self._chosen())
        model, state = self.model, self.state
        self.method.round(self)
        if self.meant:
            # What clients make of another model is of no use to the method: the round is lost.
            self.model, self.state = model, state
        self.recorder.close(self)

    def end(self) -> None:
        """Everything after the last round R: round R + 1."""
        self.t += 1
        self._open()
        self.method.after(self)
        self.recorder.close(self)

    def snapshot(self) -> dict[str, Tree]:
        """Everything a later process needs to go on; random streams need nothing."""
        parts = {"t": torch.tensor(self.t), "model": self.model, "server": self.state}
        return {**parts, **self.columns, "lasting": self.lasting}

    def restore(self, saved: dict[str, Tree]) -> None:
        """Go on from a snapshot of the same spec."""
        # Cloned: a tensor of a file lies anywhere in memory, and BLAS sums unaligned ones in
        # another order.
        saved = tmap(lambda v: v.to(self.device).clone(), saved)
        # safetensors drops empty dicts: a method may keep the whole model at the clients.
        self.t, self.model = int(saved["t"]), saved.get("model", {})
        self.state, self.lasting = saved.get("server", {}), saved.get("lasting", {})
        self._hold(saved)
        self._open()

    # for the evaluator and the scorer, neither of which is a party --------------------------------
    def tables(self) -> Tree:
        """Every client's columns outside any phase: nothing in its inbox but what everybody got."""
        columns = {k: dict(v) for k, v in self.columns.items()}
        return {"index": self.everyone, "count": self.data.counts, **columns, "inbox": {}}

    def outside(self, each: Tree) -> Client:
        """A client of ``tables`` with the newest global model."""
        return self.runner.me(self.t, each, {**self.lasting, "model": self.model})

    @torch.no_grad()
    def secrets(self) -> Tree:
        """What every client means to hide, leaves (C, ...)."""
        each = self.tables()
        if not self.method.secrets(self.outside(row(each, 0))):
            return {}
        return each_row(lambda e: self.method.secrets(self.outside(e)), each)
