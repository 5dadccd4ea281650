"""Is told by the federation what crosses, and writes what the policy keeps of it.

* transcript/: what crossed a boundary, as it crossed it
* control/: what the same clients would have sent with nothing defended, where that differs
* known/: what an attacker may be granted (labels of audited updates)
* truth/: batches, states, draws, secrets: opened by scoring only
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakbench.base.files import write_tree
from leakbench.base.streams import shared
from leakbench.base.tree import Tree, flat, nbytes, row
from leakbench.federation.batches import Plan
from leakbench.federation.federation import Federation
from leakbench.federation.observer import Observer
from leakbench.federation.parties import Batch
from leakbench.record import audited, last_layers
from leakbench.record.messages import Message, round_file, write_messages
from leakbench.record.policy import Policy

LARGEST = 2**18  # numbers of the recorded inputs of several steps


class Recorder(Observer[Federation]):
    """Writes a run folder's rounds."""

    def __init__(self, folder: Path, rounds: int, policy: Policy) -> None:
        self.folder, self.rounds, self.policy = folder, rounds, policy
        self._clear()

    def _clear(self) -> None:
        self.sent: list[Message] = []
        self.control: list[Message] = []
        self.truth: dict[str, Any] = {}
        self.labels: dict[str, Any] = {}

    def _keeps(self, fed: Federation, kind: str, size: int, *, uplink: bool) -> bool:
        how: dict[str, Any] = {"uplink": uplink, "fraction": fed.method.fraction}
        sender = "client" if uplink else "server"
        totals = [n for key, n in fed.traffic.totals.items() if key[:2] == (kind, sender)]
        if totals:  # what only the control holds was never sent
            how["times"] = max(rounds for rounds, *_ in totals)
        return self.policy.keeps(kind, size, fed.t, self.rounds, **how)

    def down(
        self, fed: Federation, kind: str, payload: Tree, *, each: bool, meant: Tree | None = None
    ) -> None:
        """Keep a broadcast as one message, or each receiver's own."""
        size = nbytes(payload) // (len(fed.chosen) if each else 1)
        pooled = kind == "model" and self._pools(fed)
        if not pooled and not self._keeps(fed, kind, size, uplink=False):
            if kind == "model" and self._keeps_last_layers(fed):
                part = last_layers.part_of(fed, payload)
                told = Message(fed.t, fed.phase, "server", "client/*", kind, part)
                told = replace(told, part="last_layer", changed=meant is not None)
                self.sent += [told] if part else []
            return
        to = [("client/*", payload)]
        if each:
            to = [(f"client/{int(i)}", row(payload, j)) for j, i in enumerate(fed.chosen)]
        sent = [Message(fed.t, fed.phase, "server", name, kind, part) for name, part in to]
        if meant is not None:
            sent = [replace(m, changed=not _same(m.payload, meant)) for m in sent]
        self.sent += sent

    def up(self, fed: Federation, name: str, each: Tree, sent: Tree, draws: Tree) -> None:
        """Keep the messages, what they would be undefended, and the draws and secrets behind."""
        kinds = [k for k, v in sent.items() if self._kept(fed, k, v)]
        if name == "count":  # sent by fed.train itself, hidden by nobody
            self._messages(fed, kinds, sent, {})
            return
        if sent and not kinds:
            return
        bare = fed.undefended(name, each, sent)
        # Only sent where nothing is hidden.
        more = [k for k, v in bare.items() if k not in sent and self._kept(fed, k, v)]
        if not [*kinds, *more]:
            return
        self._messages(fed, [*kinds, *more], sent, bare)
        now = fed.holdings(fed.chosen)
        for j, i in enumerate(fed.chosen.tolist()):
            me = fed.runner.me(fed.t, row(now, j), fed.inbox, fed.data_of(i))
            inputs = {k: v for k, v in fed.method.inputs(me).items() if k in (*kinds, *more)}
            drawn = draws[j] if isinstance(draws, list) else row(draws, j)
            entry = {"draws": drawn, "secrets": fed.method.secrets(me), "inputs": inputs}
            self._client(i)[str(fed.phase)] = {k: v for k, v in entry.items() if v}

    def _kept(self, fed: Federation, kind: str, payload: Tree) -> bool:
        return self._keeps(fed, kind, nbytes(payload) // len(fed.chosen), uplink=True)

    def _messages(self, fed: Federation, kinds: list[str], sent: Tree, bare: Tree) -> None:
        """``sent``: with the wrappers; ``bare``: with nothing defended."""
        for j, i in enumerate(fed.chosen.tolist()):
            client = (fed.t, fed.phase, f"client/{i}")
            for kind in kinds:
                message = None
                if kind in sent:
                    to = "aggregator" if kind in fed.summed else "server"
                    masked = kind in fed.masked
                    message = Message(*client, to, kind, row(sent[kind], j), sparse=masked)
                    self.sent.append(message)
                if kind in bare:
                    undefended = Message(*client, "server", kind, row(bare[kind], j))
                    self._bare(undefended, message)

    def _bare(self, bare: Message, sent: Message | None) -> None:
        """Into the control goes only what differs: a large undefended update is not kept twice."""
        alike = sent is not None and sent.receiver == bare.receiver
        if alike and sent is not None and _same(bare.payload, sent.payload):
            return
        self.control.append(bare)

    def _client(self, i: int) -> dict[str, Any]:
        clients: dict[str, Any] = self.truth.setdefault("client", {})
        return clients.setdefault(str(i), {})

    def summed(self, fed: Federation, kind: str, payload: Tree) -> None:
        """Keep the sum, or its last layer; its payload says of which kind."""
        where = (fed.t, fed.phase, "aggregator", "server", "sum")
        told = Message(*where, {kind: payload}, sparse=kind in fed.masked)
        if self._keeps(fed, "sum", nbytes(payload), uplink=True):
            self.sent.append(told)
        elif kind == "update" and self._pools(fed):
            part = last_layers.part_of(fed, payload)
            self.sent.append(replace(told, payload={kind: part}, part="last_layer"))

    def training(self, fed: Federation, name: str, each: Tree, todo: Plan) -> None:
        """Audited clients are trained apart, by the reference: the real update and the probes."""
        if not self.policy.audits(fed.t, self.rounds):
            return
        whole, _ = self._audited(fed)
        norm = torch.nn.modules.batchnorm._BatchNorm  # one image has no batch statistics
        normed = any(isinstance(m, norm) for m in fed.module.modules())
        for j in whole:
            rows, batches = todo.rows(j), todo.batches(fed.data, j)
            self._update(fed, name, row(each, j), rows, batches, None)
            if normed or not batches:
                continue
            for p in range(min(self.policy.probes, len(rows[0]))):
                one = batches[0].some(slice(p, p + 1))
                self._update(fed, name, row(each, j), [rows[0][p : p + 1]], [one], p)

    def trained(self, fed: Federation, name: str, each: Tree, todo: Plan, update: Tree) -> None:
        """Of those who are not audited the last layer's part of the update is kept, or all of it.

        An attack on that part so has all clients for units; and who adds up covered updates of all
        rounds has whole ones, where the network is small. Where single updates were never made,
        they are made here by the reference.
        """
        pooled = self._pools(fed) and "update" not in fed.summed
        if not pooled and not self._keeps_last_layers(fed):
            return
        # In an audited round those are kept whole who are attacked in it, and nobody else.
        whole = pooled and self._pools_whole(fed) and not self.policy.audits(fed.t, self.rounds)
        kept = range(len(fed.chosen)) if whole else self._audited(fed)[1]
        to = "aggregator" if "update" in fed.summed else "server"
        for part in last_layers.parts_of(fed, kept, name, each, todo, update, whole=whole):
            client = (fed.t, fed.phase, f"client/{part.client}")
            message = Message(*client, to, "update", part.sent, part="" if whole else "last_layer")
            message = replace(message, sparse="update" in fed.masked)
            self.sent.append(message)
            if whole and part.labels:
                own = self.labels.setdefault(str(part.client), {}).setdefault(str(fed.phase), {})
                own["y"] = torch.cat(part.labels)
            if part.bare is not None:
                bare = replace(message, receiver="server", payload=part.bare, sparse=False)
                self._bare(bare, message)

    def _keeps_last_layers(self, fed: Federation) -> bool:
        return self.policy.keeps_last_layers(fed.t, self.rounds, last_layers.turns(fed))

    def _pools(self, fed: Federation) -> bool:
        return self.policy.pools(fed.t, self.rounds, last_layers.pooled(fed, self.rounds))

    def _pools_whole(self, fed: Federation) -> bool:
        return last_layers.pools_whole(fed, self.rounds)

    def _audited(self, fed: Federation) -> tuple[list[int], list[int]]:
        """The places in the round of those whose updates are kept whole, and in part."""
        dice = shared(fed.seed, "audit", round=fed.t)
        order: list[int] = dice.permutation("clients", len(fed.chosen)).tolist()
        if self.policy.name == "all":
            return sorted(order), []
        named = audited.places(self.policy, fed.chosen.tolist())
        aimed = [j for j in order if int(fed.chosen[j]) in fed.aimed]
        order = list(dict.fromkeys([*named, *aimed, *order]))
        many = 0
        if self.policy.audits(fed.t, self.rounds):  # nobody stands in for one who takes no part
            many = len(named) + self.policy.audited - len(self.policy.clients)
        more = many + last_layers.affordable(fed, self.policy, self.rounds)
        return sorted(order[:many]), sorted(order[many:more])

    def _batch(
        self, fed: Federation, rows: list[Tensor], batches: Sequence[Batch]
    ) -> dict[str, Tensor]:
        """What an update was made of: x (B, ...), y (B,), rows (B,) of the task's data.

        Several epochs of photographs are larger than the models: of more steps than one, over
        ``LARGEST`` numbers x is left out; ``rows`` says what it was (before augmentation).
        """
        if not batches:
            return {}
        at = torch.cat(rows)
        small = len(batches) == 1 or len(at) * fed.data.train.stored[0].numel() <= LARGEST
        out = {"y": fed.data.train.y[at], "rows": at}
        return {"x": torch.cat([b.x for b in batches]), **out} if small else out

    def _update(
        self,
        fed: Federation,
        name: str,
        each: Tree,
        rows: list[Tensor],
        batches: Sequence[Batch],
        probe: int | None,
    ) -> None:
        i, path = int(each["index"]), "" if probe is None else f"/probe/{probe}"
        log: dict[str, Tensor] = {}
        trained = fed.runner.train(name, fed.t, each, fed.inbox, batches, path=path, log=log)
        if trained["update"]:
            client = (fed.t, fed.phase, f"client/{i}")
            to = "aggregator" if "update" in fed.summed else "server"
            message = Message(*client, to, "update", trained["update"], probe)
            message = replace(message, sparse="update" in fed.masked)
            self.sent.append(message)
            if any("update" in w.kinds for w in fed.wrappers):
                plain = fed.bare_runner()
                bare = plain.train(name, fed.t, each, fed.inbox, batches, path=path)["update"]
                self._bare(Message(*client, "server", "update", bare, probe), message)
        batch = self._batch(fed, rows, batches)
        behind = {"draws": log, **{k: each[k] for k in ("own", "state", "kept")}}
        entry = {**batch, **{k: v for k, v in behind.items() if v}}
        place = self._client(i).setdefault(str(fed.phase), {})
        label = self.labels.setdefault(str(i), {}).setdefault(str(fed.phase), {})
        if probe is None:
            place.update(entry)
        else:
            place.setdefault("probe", {})[str(probe)] = entry
            label = label.setdefault("probe", {}).setdefault(str(probe), {})
        if batch:
            label["y"] = batch["y"]

    def close(self, fed: Federation) -> None:
        """Write this round's files."""
        # Before the first round nobody has a secret yet, unless somebody sends something.
        told = fed.t > 0 or any(m.sender != "server" for m in self.sent)
        if self.policy.surveys(fed.t, self.rounds) and told:
            everyone = fed.secrets()
            if everyone:
                self.truth["everyone"] = everyone
        file, head = round_file(fed.t), {"round": fed.t}
        if self.sent:
            write_messages(self.folder / "transcript" / file, self.sent)
        if self.control:
            write_messages(self.folder / "control" / file, self.control)
        if self.labels:
            labels = {"client": self.labels}
            write_tree(self.folder / "known" / file, labels, head, sync=False)
        if self.truth:
            write_tree(self.folder / "truth" / file, self.truth, head, sync=False)
        self._clear()


def _same(one: Tree, other: Tree) -> bool:
    """Are they the same numbers by the same names?"""
    a, b = flat(one), flat(other)
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
