"""What an attacker would like to know: opened by scoring only, never by an attack or a view."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leakbench.attacking.guess import Guess
from leakbench.base import registry
from leakbench.base.errors import BrokenFile, NotMeasured
from leakbench.base.files import inside, read_meta
from leakbench.base.lazy import torch
from leakbench.base.shapes import check_shape
from leakbench.base.streams import shared
from leakbench.base.tree import Tree
from leakbench.federation.input_range import InputRange
from leakbench.federation.task import Task
from leakbench.federation.task_data import Examples, in_gallery
from leakbench.record import private_data
from leakbench.record.folders import Run
from leakbench.record.knowledge import FILES
from leakbench.record.messages import round_file
from leakbench.record.shapes import DataHeader, RoundHeader
from leakbench.scoring.image_distances import match
from leakbench.scoring.originals import AMONG, CLASSES, ROWS, Originals, as_floats

if TYPE_CHECKING:
    from torch import Tensor

GALLERY = 100
SECRETS = ("prototype", "codeword")  # what one vector that stands for a client is called


@dataclass(frozen=True)
class Truth:
    """The truth of one run, and which clients guess at it: of themselves nobody asks them."""

    run: Run
    observers: tuple[int, ...] = ()

    @cached_property
    def _file(self) -> tuple[Tree, Any]:
        tree, meta = self.run.tree("truth/data.safetensors")
        check_shape(DataHeader, meta, self.run.path / "truth" / "data.safetensors")
        return tree, meta

    @property
    def data(self) -> Tree:
        """Who holds what: y (n,), rows (C, n_max), counts (C,), client_class (C,)."""
        return self._file[0]

    @cached_property
    def candidates(self) -> Tree:
        """Of whom membership is asked: x (n, ...), y (n,), client (n,); and member (n,) bool.

        Raises:
            NotMeasured: the record has none.
        """
        if "member" not in self.data or FILES["candidates"] not in self.run.meta["files"]:
            raise NotMeasured("the record has no candidates of whom membership could be asked")
        asked = self.run.tree(FILES["candidates"])[0]
        return {**asked, "member": self.data["member"] >= 0}

    @cached_property
    def users(self) -> Tensor:
        """(P,) int64: of each of whom it is asked whether it trained the client, or below 0.

        Raises:
            NotMeasured: the record has none.
        """
        if "user" not in self.data:
            raise NotMeasured("the record has nobody who was dealt data and stayed away")
        people: Tensor = self.data["user"]
        return people

    @cached_property
    def attributed(self) -> Tree:
        """The examples of which the attribute may be told: x (n, ...), y (n,), attribute (n,).

        Raises:
            NotMeasured: the record has none.
        """
        if FILES["attributes"] not in self.run.meta["files"]:
            raise NotMeasured("the record has no examples whose attribute an attacker could know")
        return self.run.tree(FILES["attributes"])[0]

    def images(self, rows: Tensor) -> Tensor:
        """The training images in ``rows`` (k,), (k, ...) float64.

        Raises:
            NotMeasured: the run does not hold them (its set is large), and neither does this
                machine.
        """
        return private_data.images(*self._file, self.run.spec["task"], rows)

    @cached_property
    def task(self) -> Task:
        """The run's task."""
        name, params = self.run.spec["task"]["name"], self.run.spec["task"]["params"]
        return registry.load_plugin("tasks", name).build(params, f"task {name}")

    @cached_property
    def rounds(self) -> dict[int, str]:
        """{round: file} of what was recorded."""
        names = [n for n in self.run.within("truth") if n.startswith("truth/round-")]
        return {self._round_of(n): n for n in names}

    def _round_of(self, name: str) -> int:
        """The round that a file's header says, which is that of its name."""
        path = inside(self.run.path, name)
        meta = read_meta(path)
        check_shape(RoundHeader, meta, path)
        if round_file(meta["round"]) != path.name:
            raise BrokenFile(f"{path} is damaged (it is of round {meta['round']}). Make it again.")
        return int(meta["round"])

    @cached_property
    def _read(self) -> dict[int, Tree]:
        return {}

    @cached_property
    def memo(self) -> dict[Any, Any]:
        """For metrics: what is costly and serves several of them."""
        return {}

    def round(self, t: int) -> Tree:
        """Everything true of round t.

        Raises:
            BrokenFile: it was not recorded.
        """
        if t not in self._read:
            if t not in self.rounds:
                raise BrokenFile(
                    f"{self.run.path / 'truth' / round_file(t)} is missing: the truth of round {t}"
                    " was not recorded. Train the run again."
                )
            self._read[t] = self.run.tree(self.rounds[t])[0]
        return self._read[t]

    def surveyed(self) -> list[int]:
        """Rounds in which every client's secrets were recorded."""
        out = []
        for t, name in self.rounds.items():
            from safetensors import safe_open

            with safe_open(self.run.path / name, "pt") as file:
                if any(k.startswith("everyone/") for k in file.keys()):  # noqa: SIM118 (not a dict)
                    out.append(t)
        return out

    def answer(self, guess: Guess) -> Answer:
        """What is true of the client that ``guess`` is about."""
        return Answer(self, int(guess.unit.split("/")[1]), guess.round, guess.probe)


@dataclass(frozen=True)
class Answer:
    """What is true of one client at one round; metrics compare a guess with it."""

    truth: Truth
    client: int
    round: int  # the attacked one
    probe: int | None = None  # which single image

    @property
    def distance(self) -> str:
        """How the method compares prototypes: "cosine" or "euclidean"."""
        return str(self.truth.run.meta["distance"])

    @property
    def candidates(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All there are: (n, ...) floats, (n,) bool which are members, (n,) client, (n,) class."""
        asked = self.truth.candidates
        return Examples.of(asked).x, asked["member"], asked["client"], asked["y"]

    @property
    def member(self) -> Tensor:
        """(n,) bool: which of the client's candidates it trained on."""
        asked = self.truth.candidates
        own: Tensor = asked["member"][asked["client"] == self.client]
        return own

    @property
    def attribute(self) -> Tensor:
        """(n,) int64: of all training examples, whoever holds them.

        Raises:
            NotMeasured: the task tells none.
        """
        data = self.truth.data
        if "attribute" not in data:
            raise NotMeasured("the task tells no attribute of its examples (see task.attribute)")
        whole: Tensor = data["attribute"]
        return whole

    @property
    def attribute_counts(self) -> Tensor:
        """(V,) int64: how many examples of each value the client holds."""
        whole = self.attribute
        return whole[self.examples].bincount(minlength=int(whole.max()) + 1)

    @property
    def signal(self) -> bool:
        """Are the inputs without bounds, as signals and tables, and no images in a range?"""
        return not self.input_range.bounded

    @property
    def input_range(self) -> InputRange:
        """Where the numbers of an input lie."""
        return self.truth.task.lies_in

    def originals(self, guess: Guess) -> Originals:
        """What ``guess`` is about.

        Rows of a message in their order (tensor "<kind>.rows"), all rows of one in any order
        ("<kind>.among"), some of them in any order (both), those of some classes
        ("<kind>.classes"), or the examples behind an update (of its "phase"), each once: who trains
        on one in several steps is guessed in each of these, and the nearest guess counts.

        Raises:
            BrokenFile: they were not recorded.
            NotMeasured: which examples they are cannot be told, or they lie outside of the range
                that the task declares.
        """
        given = guess.tensors
        for name in given:
            kind = name.removesuffix(ROWS)
            if name.endswith(ROWS):
                at, ordered = given[name].cpu(), kind + AMONG not in given
                return self._originals(self.inputs(kind)[at], self.rows(kind)[at], ordered=ordered)
        for name in given:
            kind = name.removesuffix(AMONG)
            if name.endswith(AMONG):
                x, rows = self.inputs(kind), self.rows(kind)
                return self._originals(x, rows, ordered=False, spare=True)
        for name in given:
            if name.endswith(CLASSES):
                return self._of_classes(guess, name.removesuffix(CLASSES))
        x, _, rows = self.batch(_phase(guess))
        once = _once(rows)
        return self._originals(x[once], rows[once], ordered=False, spare=len(once) < len(rows))

    def _of_classes(self, guess: Guess, kind: str) -> Originals:
        """Of each class as many rows behind ``kind`` as were guessed, at most; the nearest ones."""
        x, rows, lies = self.inputs(kind), self.rows(kind), self.input_range
        named = guess.tensors[kind + CLASSES].cpu()
        made = lies.unit(as_floats(guess.tensors["x"].cpu(), lies)).reshape(-1, *x.shape[1:])
        y = self.truth.data["y"][rows]
        chosen = []
        for c in sorted({*named.tolist()} & {*y.tolist()}):
            mine, some = (y == c).nonzero().flatten(), made[named == c]
            fewer = len(some) < len(mine)
            near = match(lies.unit(x[mine]), some, clip=not self.signal) if fewer else slice(None)
            chosen.append(mine[near])
        if not chosen:
            raise NotMeasured("the client has no example of the classes that were guessed")
        at = torch.cat(chosen).sort().values
        return self._originals(x[at], rows[at], ordered=False, spare=len(made) > len(at))

    def _originals(self, x: Tensor, rows: Tensor, **how: bool) -> Originals:
        return Originals.of(x, rows, self.input_range, **how)

    def classes(self, guess: Guess) -> tuple[Tensor, Tensor]:
        """The labels (B,) of the examples behind the update that ``guess`` is about, each once.

        And their rows (B,) in the task's data; both int64.

        Raises:
            BrokenFile: they were not recorded.
        """
        entry = self._step(_phase(guess))
        once = _once(entry["rows"])
        return entry["y"][once], entry["rows"][once]

    def prototypes(self) -> Tensor:
        """(C, dim) float64: every client's true prototype after this round.

        Codewords in {-1, 1} stand where a method's clients have these in place of prototypes.

        Raises:
            NotMeasured: the method has none.
        """
        everyone = self.truth.round(self.round).get("everyone", {})
        for name in SECRETS:
            if name in everyone:
                true: Tensor = everyone[name]
                return true.double()
        raise NotMeasured(
            "the method's clients have no true prototype to compare with (its `secrets` names"
            " none)."
        )

    def directions(self) -> Tensor:
        """``prototypes`` at length 1 (0 stays 0), made once for all answers about this round.

        Raises:
            NotMeasured: the method has none.
        """
        place = ("directions", self.round)
        if place not in self.truth.memo:
            found = torch.nn.functional.normalize(self.prototypes(), dim=-1)
            self.truth.memo[place] = found
        directions: Tensor = self.truth.memo[place]
        return directions

    def batch(self, phase: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The examples behind the update of this round's ``phase``, or of its first training.

        Returns:
            x (B, ...) float64, y (B,), rows (B,).

        Raises:
            BrokenFile: they were not recorded.
        """
        entry = self._step(phase)
        x = entry["x"].double() if "x" in entry else self.truth.images(entry["rows"])
        return x, entry["y"], entry["rows"]

    def labels(self, phase: int | None = None) -> Tensor:
        """(n,) int64: the labels behind the update of this round's ``phase``, or of all its data.

        Raises:
            BrokenFile: they were not recorded.
        """
        if phase is not None:
            behind: Tensor = self._step(phase)["y"]
            return behind
        held: Tensor = self.truth.data["y"][self.examples]
        return held

    @property
    def examples(self) -> Tensor:
        """(n,) int64: the rows in the task's data of all that the client holds."""
        data = self.truth.data
        rows: Tensor = data["rows"][self.client, : int(data["counts"][self.client])]
        return rows

    def _step(self, phase: int | None) -> Tree:
        """What was recorded of the training in ``phase``, or in the round's first one."""
        phases = self.truth.round(self.round).get("client", {}).get(str(self.client), {})
        for number in sorted(phases, key=int):
            entry = phases[number]
            if self.probe is not None:
                entry = entry.get("probe", {}).get(str(self.probe), {})
            if "rows" in entry and phase in (None, int(number)):
                return entry
        what = f"client {self.client}"
        if self.probe is not None:
            what = f"probe {self.probe} of {what}"
        where = f"round {self.round}" + ("" if phase is None else f", phase {phase}")
        raise BrokenFile(
            f"{self.truth.run.path}/truth holds no batch of {what} in {where}. Train the run again."
        )

    def inputs(self, kind: str) -> Tensor:
        """(n, ...) float64: the examples behind the newest message of ``kind``, row by row."""
        for t in sorted((t for t in self.truth.rounds if t <= self.round), reverse=True):
            phases = self.truth.round(t).get("client", {}).get(str(self.client), {})
            for entry in phases.values():
                if kind in entry.get("inputs", {}):
                    true: Tensor = entry["inputs"][kind]
                    return true.double()
        raise BrokenFile(
            f"{self.truth.run.path}/truth holds no inputs behind {kind!r} of client {self.client}."
            " Train the run again."
        )

    def rows(self, kind: str) -> Tensor:
        """(n,) int64: the rows of ``inputs(kind)`` in the task's data, among this client's own.

        Other clients may hold the very same input; two equal ones of this client are taken in
        order.

        Raises:
            NotMeasured: the client has no such example (or sent it twice), or its examples are
                nowhere on this machine.
        """
        place = ("rows", self.client, self.round, kind)
        if place not in self.truth.memo:
            own = self.examples
            left: dict[bytes, list[int]] = {}
            for row, x in zip(own.tolist(), self.truth.images(own), strict=True):
                left.setdefault(_bytes(x), []).append(row)
            same = [left.get(_bytes(x), []) for x in self.inputs(kind)]
            found = [rows.pop(0) if rows else -1 for rows in same]
            if -1 in found:
                raise NotMeasured(
                    f"an input behind {kind!r} is no example of client {self.client} as the task"
                    " has it (a mean of several, say), or was sent twice."
                )
            self.truth.memo[place] = torch.tensor(found, dtype=torch.int64)
        rows: Tensor = self.truth.memo[place]
        return rows

    def gallery(self, row: int, true: Tensor) -> tuple[Tensor, int]:
        """Up to 100 images of the class of example ``row``, float64, and where ``true`` is in them.

        ``true`` (...): example ``row`` as the client's step saw it, on [0, 1] as originals are.
        From the victim's split: the client's own images of the class first; where they are too few,
        the task's others of the class, augmented as the task augments, or a turned image would be
        known by its corners alone; and, where the task plants a marker, of clients that have it as
        the victim has. Never auxiliary or test data. Drawn by a named stream, the same in every
        attack and seed.
        """
        data, own = self.truth.data, self.examples
        same = data["y"] == data["y"][row]
        if "shown" in data:  # an image with several captions stands there once
            first = torch.cat([same.new_ones(1), data["shown"].diff() > 0])
            same &= first & (data["shown"] != data["shown"][row])
        mine = [int(r) for r in own if same[r] and int(r) != row]
        taken = {row, *mine}
        rest = [int(r) for r in (same & self._alike()).nonzero().flatten() if int(r) not in taken]
        rng = shared(0, f"gallery/{row}")
        chosen = _some(mine, GALLERY - 1, rng.permutation("own", len(mine)))
        chosen += _some(rest, GALLERY - 1 - len(chosen), rng.permutation("others", len(rest)))
        others = self.truth.images(torch.tensor(chosen, dtype=torch.int64))
        others = self.input_range.unit(self.truth.task.augment(others, rng.at("augment")))
        return torch.cat([true.double()[None], others]), 0

    def look_alikes(self, row: int) -> Tensor:
        """Up to 100 places in the task's gallery (``Examples.gallery``); the first shows ``row``.

        Then, by a named stream, images of the class of ``row``, the client's own first, and where
        these are too few, any others.
        """
        data = self.truth.data
        shown = data["shown"]
        rows = in_gallery(shown)
        place = torch.empty_like(rows).index_copy(0, shown[rows], torch.arange(len(rows)))
        own = torch.zeros(len(shown), dtype=torch.bool).index_fill(0, self.examples, value=True)
        same = data["y"] == data["y"][row]
        rest = [r for r in rows.tolist() if int(shown[r]) != int(shown[row])]
        rng = shared(0, f"look-alikes/{row}")
        chosen: list[int] = []
        for name, kind in (("own", own & same), ("class", same & ~own), ("others", ~same)):
            some = [r for r in rest if kind[r]]
            chosen += _some(some, GALLERY - 1 - len(chosen), rng.permutation(name, len(some)))
        return place[shown[torch.tensor([row, *chosen])]]

    def _alike(self) -> Tensor:
        """(n,) bool: examples of clients with the planted marker, or without, as this one is."""
        data = self.truth.data
        if "context" not in data:
            return torch.ones(len(data["y"]), dtype=torch.bool)
        alike = torch.zeros(len(data["y"]), dtype=torch.bool)
        for c in (data["context"] == data["context"][self.client]).nonzero().flatten().tolist():
            alike[data["rows"][c, : int(data["counts"][c])]] = True
        return alike


def _phase(guess: Guess) -> int | None:
    """The training that it is about, if it says so."""
    phase = guess.tensors.get("phase")
    return None if phase is None else int(phase)


def _once(rows: Tensor) -> list[int]:
    """Where each of ``rows`` (k,) stands first."""
    first: dict[int, int] = {}
    for i, r in enumerate(rows.tolist()):
        first.setdefault(r, i)
    return [*first.values()]


def _bytes(x: Tensor) -> bytes:
    """Equal for equal inputs, whether they were floats of 32 or 64 bits."""
    return x.float().contiguous().numpy().tobytes()


def _some(rows: list[int], count: int, order: Tensor) -> list[int]:
    return [rows[int(i)] for i in order[: max(count, 0)]]
