"""The folder of a loop that leakbench did not train: a run's, written round by round."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base import terminal
from leakbench.base.errors import MethodError, UsageError
from leakbench.base.files import (
    digests,
    read_sealed,
    read_tree,
    write_csv,
    write_sealed,
    write_tree,
)
from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, flat, nbytes
from leakbench.federation.defense import Defense
from leakbench.federation.evaluate import Evaluations
from leakbench.federation.federation import Federation
from leakbench.federation.traffic import Traffic, party
from leakbench.own import likeness
from leakbench.own.clients import ClientData
from leakbench.own.declared_training import DeclaredTraining
from leakbench.own.kept_messages import KeptMessages
from leakbench.record import audited, exporting, folders, private_data
from leakbench.record import origin as origins
from leakbench.record.columns import RUN_DIAGNOSTICS, RUN_UTILITY
from leakbench.record.knowledge import DeclaredObserver
from leakbench.record.messages import Message, StoredTensors, round_file, write_messages
from leakbench.record.run_json import run_described
from leakbench.record.runspec import Choice, Parts, RunSpec, parts
from leakbench.record.training import utility_rows

if TYPE_CHECKING:
    from torch import Tensor

STATE = Path("checkpoint") / "outside.safetensors"
SUMS = "secure_sum"  # the wrapper that stands for an aggregator


@dataclass
class OpenRound:
    """What was told of the round that goes on."""

    t: int
    model: Tree = field(default_factory=dict)
    receivers: list[int] | None = None  # of the model; None: those that take part
    sent: list[Message] = field(default_factory=list)
    bare: list[Message] = field(default_factory=list)  # as it would have been sent uncovered
    truth: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, Any] = field(default_factory=dict)
    # Clients with the rows of their steps, what was sent uncovered, and whether the order is known.
    told: list[tuple[int, list[Tensor], Tree, bool]] = field(default_factory=list)
    moved: list[tuple[int, Tree]] = field(default_factory=list)  # examples, update
    who: list[int] = field(default_factory=list)  # clients that took part


class OutsideRecord:
    """A run folder of which each round is on the disk when the next one begins."""

    def __init__(
        self,
        path: Path,
        spec: RunSpec,
        data: ClientData,
        training: DeclaredTraining,
        covered: frozenset[str],
        *,
        keep: Mapping[str, Any] | None,
        rounds: int | None,
        truth: bool,
        observer: DeclaredObserver | None,
        restart: bool,
    ) -> None:
        self._truth, self._observer = truth, observer
        self.path, self._spec, self._own, self._restart = path, spec, data, restart
        self._training = training
        self._parts: Parts = parts(spec)
        self.data = self._parts.task.examined(data.data)
        try:
            self._fed = self._federation()
        except MethodError as error:  # the network is the user's
            said = str(error).rstrip(".")
            raise UsageError(f"model: {said}; give one that the data fit.") from None
        # The network's tensors by name, and those that are trained.
        self.shapes = dict(self._fed.model)
        self.trained = [k for k, v in self._fed.module.named_parameters() if v.requires_grad]
        update = nbytes({k: v for k, v in self.shapes.items() if v.is_floating_point()})
        self._kept = KeptMessages.of(
            keep,
            rounds,
            clients=len(data),
            model=nbytes(self.shapes),
            update=update * (2 if covered else 1),
        )
        self._stored = StoredTensors()  # what stands in the first round's file
        self._traffic, self.scores = Traffic(set(covered)), Evaluations()
        self.metric = self._parts.task.metric
        self.rounds = 0  # whole ones
        self.complete = False  # was it ended before?
        self._bare = True  # was everything told uncovered, too?
        self._strange = False  # was something sent that the declared training does not make?
        self.summed: bool | None = None  # does the server get sums alone? None: nothing was told

    @property
    def method(self) -> Defense:
        """With the rates of the rounds until now."""
        return self._parts.method

    @property
    def covered(self) -> bool:
        """Are updates changed before they are recorded?"""
        return bool(self._traffic.covered)

    def declare(self, rounds: int) -> None:
        """The method has the rates of so many rounds; the spec says so once they are whole."""
        if self._training.rates is None:
            return
        params = self._training.parameters(rounds)
        choice = self._spec.defense.model_copy(update={"params": params})
        self._spec = self._spec.model_copy(update={"defense": choice})
        method = parts(self._spec).method
        self._parts = replace(self._parts, method=method)
        self._fed.method = self._fed.runner.method = method

    def sums(self, *, summed: bool) -> None:
        """The server gets sums alone, as by the wrapper, or single updates alone."""
        if summed and self.summed is None:
            self._traffic.covered.add("update")
            wrapper = Choice(name=SUMS, params={"kinds": ["update"]})
            self._spec = self._spec.model_copy(update={"wrappers": (wrapper,)})
            self._parts = replace(self._parts, wrappers=parts(self._spec).wrappers)
            # The wrapper's code is among what the record rests on from now on.
            self._origin = origins.origin_of(self._spec, self.data, "cpu")
            vars(self).pop("_about", None)
        self.summed = summed

    def close(self, now: OpenRound) -> None:
        """Write a round and the checkpoint behind it.

        Raises:
            UsageError: nobody sent anything, or sent what does not follow from the model.
        """
        if not now.sent:
            raise UsageError(f"no client sent an update in round {now.t}: record one at least.")
        who = sorted(now.who)
        receivers = who if now.receivers is None else now.receivers
        gone = sorted({*who} - {*receivers})
        if gone:
            raise UsageError(f"client {gone[0]} sent an update of a model that it did not receive.")
        if not self.rounds:  # what is wrong before leaves the folder as it was
            if self._restart:
                _cleared(self.path)
            self._say_size()
            self._keep()
        self._traffic.down(now.t, "model", receivers, now.model, each=False)
        order = sorted(now.sent, key=lambda m: (m.kind == "sum", party(m.sender)))
        one, summed = now.moved[0][1], bool(self.summed)
        self._traffic.up(now.t, "update", who, one, summed=summed, stacked=False)
        self._bare = self._bare and len(now.bare) == len(now.who)
        self._write(now, who, order)
        self._compare(now)
        if now.t not in self.scores.scores:
            self.scores.scores[now.t] = self._measured(now)
        self.rounds = now.t
        self._settle()
        self._keep()
        self._thin(self._kept.held(self.rounds))

    def _settle(self) -> None:
        """The spec says of how many rounds the record is, and what is kept of them."""
        how = {"rounds": self.rounds, "record": self._kept.policy(self.rounds)}
        self._spec = self._spec.model_copy(update=how)

    def _write(self, now: OpenRound, who: Sequence[int], sent: Sequence[Message]) -> None:
        """The files of a round: of those whose updates are kept."""
        kept = self._kept.senders(who, now.t, self._spec.seed)
        names = {"aggregator", *(f"client/{c}" for c in kept)}
        model = Message(now.t, 0, "server", "client/*", "model", now.model)
        file, head = round_file(now.t), {"round": now.t}
        some = [model, *(m for m in sent if m.sender in names)]
        write_messages(self.path / "transcript" / file, some, self._stored)
        if now.t == 1 and "untrained" in self._kept.stages:
            self._stored = StoredTensors.of(self.path / "transcript" / file)
        as_sent = {m.name: m.payload for m in some}
        bare = [
            m
            for m in now.bare
            if m.sender in names and not _same(m.payload, as_sent.get(m.name, {}))
        ]
        if bare:
            write_messages(self.path / "control" / file, bare)
        for room, told in (("known", now.labels), ("truth", now.truth)):
            of_kept = {c: entry for c, entry in told.items() if int(c) in kept}
            if not self._truth and not of_kept:
                continue
            write_tree(self.path / room / file, {"client": of_kept}, head, sync=False)

    def _thin(self, held: Collection[int]) -> None:
        """Take away the files of all other rounds, those of one that was killed among them."""
        names = {round_file(t) for t in held}
        for file in self.path.glob("*/round-*.safetensors"):
            if file.name not in names:
                file.unlink()

    def _say_size(self) -> None:
        """One line on what the record will take, before anything is written."""
        kept, data = self._kept, self.data
        private = nbytes(data.train.stored)
        beside = nbytes(data.aux.stored) + (private if private <= private_data.LARGEST else 0)
        many = "for each round" if kept.whole and not kept.rounds else ""
        which = "all" if kept.whole else ", ".join(kept.stages)
        size = f"up to {max((kept.size + beside) / 1e6, 0.1):.1f} MB {many}".rstrip()
        terminal.say(
            f"leakbench: {self.path.name} will take {size}, of the rounds {which} and of"
            f" {kept.many} of {len(self._own)} clients; keep=dict(rounds=..., clients=...) keeps"
            " others."
        )

    def _compare(self, now: OpenRound) -> None:
        """Say where attacks replay something else than was done; one client's update a round.

        What they do not find then acquits nobody.
        """
        if self._strange:
            return
        if self._training.kept and now.t > 1:
            self._strange = True
            terminal.say(
                "leakbench: clients keep the state of their optimizer from round to round, and no"
                f" message tells it: from round {now.t} on attacks replay steps that begin anew,"
                " which are not those that were made. This record may accuse and never acquits"
                " (flag no_control)."
            )
            return
        if not now.told:
            return
        client, steps, sent, ordered = now.told[now.t % len(now.told)]
        self._fed.t = now.t
        found = likeness.unlike(self._fed, now.model, client, steps, sent, ordered=ordered)
        if found is not None:
            self._strange = True
            terminal.say(
                f"leakbench: what client {client} sent in round {now.t} is not what the declared"
                f" training makes of its rows (cosine {found[0]:.2f}, {found[1]:.2g} times as"
                " long): see whether sgd, loss, rows and the scaling of data are those of the loop,"
                " and covered where messages were changed. Until then this record may accuse and"
                " never acquits (flag no_control)."
            )

    def _measured(self, now: OpenRound) -> Tensor:
        """The metric, of the mean of what was sent, weighted by what clients hold."""
        total = sum(n for n, _ in now.moved)
        after = dict(now.model)
        for n, moved in now.moved:
            after = {k: v + moved[k] * (n / total) if k in moved else v for k, v in after.items()}
        self._fed.t, self._fed.model = now.t, after
        scores = Evaluations()
        scores.add(self._fed)
        self.scores.diagnostics += scores.diagnostics
        return scores.scores[now.t]

    def begin(self) -> None:
        """A new record, or the one that is there.

        Raises:
            UsageError: something else is there, or one that was begun otherwise.
        """
        self._origin = origins.origin_of(self._spec, self.data, "cpu")
        where = self.path / "run.json"
        if not where.exists():
            if not self._restart and any(p.name != ".lock" for p in self.path.iterdir()):
                raise UsageError(f"{self.path} holds something else: give another name, or out.")
            return
        then = read_sealed(where)
        if not origins.is_outside(then):
            raise UsageError(f"{self.path} is a run that leakbench trained: give another name.")
        if self._restart:
            return
        self.declare(max(int(then["spec"]["rounds"]), 1))
        differs = _differs(then["spec"], self._spec.model_dump(mode="json"))
        self.complete = then["status"] == "done"
        if self.complete:
            if differs:
                self.refuse_more()
            self.rounds = int(then["spec"]["rounds"])
            return
        if not differs and not (self.path / STATE).exists():
            return
        tree, meta = read_tree(self.path / STATE) if not differs else ({}, {})
        if not differs and meta["summed"] is not None:
            self.sums(summed=bool(meta["summed"]))
        if not differs and {*meta["covered"]} != self._traffic.covered:
            differs = "another covered"
        if not differs:
            unlike = origins.unlike_parts(
                meta["origin"], {**self._origin, "run": meta["origin"]["run"]}
            )
            differs = ", ".join(f"{origins.part_text(k)} that differs" for k in unlike)
        if differs:
            raise UsageError(
                f"{self.path} was begun with {differs}: go on as it was begun, give another name,"
                " or restart=True, which replaces it and its attacks."
            )
        if meta["how"] != self._how:
            raise UsageError(
                f"{self.path} was begun with another keep, truth or observer: go on as it was"
                " begun, give another name, or restart=True, which replaces it and its attacks."
            )
        self.rounds, self._bare = int(meta["rounds"]), bool(meta["bare"])
        self._strange = bool(meta["strange"])
        self._traffic.restore(tree.get("traffic", {}), meta["totals"])
        scores = {int(t): v for t, v in flat(tree.get("scores", {})).items()}
        self.scores = Evaluations(scores, [(t, n, v) for t, n, v in meta["diagnostics"]])
        if self.rounds:
            self._settle()
            if "untrained" in self._kept.stages:
                self._stored = StoredTensors.of(self.path / "transcript" / round_file(1))

    def refuse_more(self) -> None:
        """Raise UsageError: it is complete."""
        raise UsageError(
            f"{self.path} is complete: give another name or seed, or restart=True, which replaces"
            " it and its attacks."
        )

    def _keep(self) -> None:
        """How things stand between two rounds."""
        rows, totals = self._traffic.state()
        measured = {f"{t:06d}": v for t, v in self.scores.scores.items()}
        tree = {"traffic": rows, "scores": measured}
        meta = {"rounds": self.rounds, "totals": totals, "origin": self._origin}
        meta |= {
            "bare": self._bare,
            "strange": self._strange,
            "summed": self.summed,
            "covered": sorted(self._traffic.covered),
            "how": self._how,
        }
        write_tree(self.path / STATE, tree, {**meta, "diagnostics": self.scores.diagnostics})
        write_sealed(self.path / "run.json", {**self._described(), "status": "running"})

    def _described(self) -> dict[str, Any]:
        """run.json as it stands, without its status."""
        spec = self._spec
        alone = self._strange or (bool(self._traffic.covered) and not self._bare)
        more: dict[str, Any] = {"no_control": True} if alone else {}
        more |= {"declared": self._observer.told} if self._observer else {}
        more |= {"hides": bool(self._traffic.covered)}
        more |= {"id": spec.folder(), "spec": spec.model_dump(mode="json")}
        stages = spec.record.stages(spec.rounds)
        kept = spec.rounds if spec.record.name == "all" else len(stages)
        more |= {"pooled": kept if self._traffic.covered else 0}
        return {**self._about, **more, "stages": stages}

    @property
    def _how(self) -> dict[str, Any]:
        """By which a loop that is gone on with is known, beside its spec."""
        who = self._observer.told if self._observer else {}
        return {"keep": self._kept.settings, "truth": self._truth, "observer": who}

    @cached_property
    def _about(self) -> dict[str, Any]:
        """What of run.json does not depend on the rounds."""
        facts = origins.origin_facts(self._origin, [], self.data)
        told = run_described(self._spec, self._parts, self._federation(), "cpu", facts)
        return {**told, "origin": origins.OUTSIDE, "command": ""}

    def _federation(self) -> Federation:
        """One that begins: of the network, and to measure utility; nothing of it is trained."""
        return replace(self._parts, wrappers=()).federation(self.data)

    def end(self) -> None:
        """Everything that is written once, run.json last.

        Raises:
            UsageError: there is no round.
        """
        if self.complete:
            return
        if not self.rounds:
            raise UsageError("nothing was recorded: call seen.sent and seen.update in the loop.")
        path = self.path
        write_csv(path / "utility.csv", RUN_UTILITY, utility_rows(self.metric, self.scores.scores))
        measured = {f"{t:06d}": v for t, v in self.scores.scores.items()}
        write_tree(path / "utility.safetensors", measured, {"metric": self.metric})
        told = [dict(zip(RUN_DIAGNOSTICS, d, strict=True)) for d in self.scores.diagnostics]
        write_csv(path / "diagnostics.csv", RUN_DIAGNOSTICS, told)
        head = {"columns": ["round", "sender", "receiver"]}
        traffic = self._traffic.tensors()
        write_tree(path / "transcript" / "rounds.safetensors", traffic, head)
        private_data.write_known(path, self.data, self._spec)
        if self._truth:
            truth = path / "truth" / "data.safetensors"
            private_data.write_private_data(truth, self.data, self._spec)
        (path / STATE).unlink(missing_ok=True)
        policy = self._spec.record
        if policy.name != "all":
            self._thin(policy.stages(self.rounds).values())
        who = self._observer.words if self._observer else ""
        gone = audited.outside_lacking(policy, self.rounds, traffic["update"].tolist(), who)
        done = {**self._described(), "status": "done", "sent": self._traffic.table()}
        done |= {"missing": audited.missing_lines(gone)}
        done |= {"phases": {"loss": "outside"}, "fallbacks": {}}
        without = ("attacks/", STATE.as_posix(), "run.json")
        write_sealed(path / "run.json", {**done, "files": digests(path, without=without)})
        if not self._truth:
            exporting.untold(folders.load(path))


def _differs(then: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """In what a record was begun otherwise, as it is called in ``observe``; empty: in nothing."""
    before, now = then["task"]["params"], mine["task"]["params"]
    for key, called in (("data", "other data"), ("network", "another model")):
        if before.get(key) != now[key]:
            return called
    if then["defense"] != mine["defense"]:
        return "another sgd or optimizer"
    return next((f"another {k}" for k in ("task", "seed") if then[k] != mine[k]), "")


def _same(one: Tree, other: Tree) -> bool:
    """The same tensors to the last bit?"""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def _cleared(path: Path) -> None:
    """Delete a record and its attacks; nothing that is none."""
    rooms = ("transcript", "control", "known", "truth", "checkpoint", "attacks")
    for room in rooms:
        shutil.rmtree(path / room, ignore_errors=True)
    for name in ("run.json", "utility.csv", "utility.safetensors", "diagnostics.csv"):
        (path / name).unlink(missing_ok=True)
