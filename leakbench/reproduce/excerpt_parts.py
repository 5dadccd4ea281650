"""The files of an excerpt: which of a run's messages and truths are kept, and how much of the rest
fits.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from leakbench.base.files import write_csv, write_tree
from leakbench.federation.traffic import SERVER
from leakbench.record.columns import RUN_UTILITY
from leakbench.record.folders import Run
from leakbench.record.messages import Message, read_messages, round_file, write_messages
from leakbench.record.recording import Recording
from leakbench.scoring.truth import Truth

LIMIT = 5_000_000  # bytes of the whole folder
KINDS = ("prototype", "statistics")  # small messages of which an excerpt is made
SPARE = 64 * 1024  # bytes kept free for run.json, which is written last


class Source:
    """What is read of a run once, however often a smaller copy has to be tried."""

    def __init__(self, run: Run) -> None:
        self.run, self.last = run, int(run.spec["rounds"])
        self.recording, self.truth = Recording(run), Truth(run)

    @cached_property
    def passed(self) -> list[Message]:
        """What crossed up to the last round, of the kinds of an excerpt, and the models."""
        return [
            m
            for m in self.recording.transcript
            if m.round <= self.last and m.kind in (*KINDS, "model")
        ]

    @cached_property
    def control(self) -> list[Message]:
        """The overlay of what clients would have sent undefended."""
        listed = [n for n in self.run.meta["files"] if n.startswith("control/")]
        if listed:
            self.run.check(*listed)
        return [
            m
            for m in read_messages(self.run.path / "control")
            if m.round <= self.last and m.kind in KINDS
        ]

    @cached_property
    def surveyed(self) -> list[int]:
        """Rounds at which everybody's secrets are known."""
        return sorted(t for t in self.truth.surveyed() if 0 < t <= self.last)

    def newest(self, t: int) -> set[tuple[str, str, int]]:
        """(kind, sender, round) of each client's newest message up to round t, kept or not."""
        found: dict[tuple[str, str], int] = {}
        for kind in KINDS:
            rows = self.recording.traffic.get(kind)
            for at, sender, _ in rows[rows[:, 0] <= t].tolist() if rows is not None else ():
                if sender >= 0:
                    found[kind, f"client/{sender}"] = at
        return {(kind, sender, at) for (kind, sender), at in found.items()}


class Copy:
    """A folder that becomes an excerpt from round ``first`` on."""

    def __init__(self, source: Source, folder: Path, first: int) -> None:
        self.source, self.folder, self.first = source, folder, first
        self.run = source.run
        self.left_out: list[str] = []
        self.model = False
        newest = source.newest(source.last)
        self.sent = [m for m in source.passed if m.kind in KINDS and m.sender != "server"]
        self.sent = [
            m for m in self.sent if m.round >= first or (m.kind, m.sender, m.round) in newest
        ]
        # A curve has a point at every surveyed round until which something was sent.
        self.surveyed = [
            t for t in source.surveyed if t >= min((m.round for m in self.sent), default=first)
        ]
        self.down = [
            m
            for m in source.passed
            if m.kind in KINDS and m.sender == "server" and m.round == source.last
        ]

    def fits(self) -> bool:
        """Is there still room for run.json?"""
        return sum(p.stat().st_size for p in self.folder.rglob("*") if p.is_file()) <= LIMIT - SPARE

    def essential(self) -> bool:
        """Write what every excerpt holds. Does it fit?"""
        self._write("transcript", [*self.down, *self.sent])
        names, kept = {m.name for m in self.sent}, {(m.round, m.kind) for m in self.sent}
        self._write(
            "control",
            [
                m
                for m in self.source.control
                if m.name in names or (m.round >= self.first and (m.round, m.kind) in kept)
            ],
        )
        write_tree(
            self.folder / "transcript" / "rounds.safetensors",
            self._traffic(),
            {"columns": ["round", "sender", "receiver"]},
        )
        for t in self.surveyed:
            name = f"truth/{round_file(t)}"
            tree, meta = self.run.tree(name)
            write_tree(self.folder / name, {"everyone": tree["everyone"]}, meta)
        self._data(("counts", "client_class"))
        self._same("diagnostics.csv")
        return self._utility()

    def optional(self) -> None:
        """Add what fits, the most useful first; note what does not."""
        self._same("checkpoint/model.safetensors")
        models = [
            m
            for m in self.source.passed
            if m.kind == "model" and m.sender == "server" and m.round == self.source.last
        ]
        without = self.down
        self.model = (
            bool(models) and self._try_down(models) and self._same("known/aux_data.safetensors")
        )
        if models and not self.model:
            self.down = without  # a model alone serves no attack on prototypes
            self._write("transcript", [*self.down, *self.sent])
            self.left_out.append("the last model with the auxiliary data: too large")
        if not self._data(("counts", "client_class", "y", "rows")):
            self._data(("counts", "client_class"))
            self.left_out.append("who holds which rows: too large")
        banks = [
            m
            for m in self.source.passed
            if m.kind in KINDS and m.sender == "server" and self.first <= m.round < self.source.last
        ]
        order = sorted({m.round for m in banks}, key=lambda t: (t != self.first, -t))
        kept = [t for t in order if self._try_down([m for m in banks if m.round == t])]
        if len(kept) < len(order):
            self.left_out.append(
                f"what the server sent of prototypes in {len(order) - len(kept)} of"
                f" {len(order) + 1} rounds: too large"
            )

    def _try_down(self, more: Sequence[Message]) -> bool:
        """Add what the server sent; take it out again if it does not fit."""
        before = self.down
        self.down = sorted([*before, *more], key=lambda m: (m.round, m.phase))
        rounds = {m.round for m in more}
        self._write("transcript", [*self.down, *self.sent], rounds)
        if self.fits():
            return True
        self.down = before
        self._write("transcript", [*self.down, *self.sent], rounds)
        return False

    def _write(
        self, place: str, messages: Sequence[Message], rounds: Collection[int] | None = None
    ) -> None:
        """The messages of each round (of ``rounds``), in the order in which they crossed."""
        by_round: dict[int, list[Message]] = {}
        for m in sorted(messages, key=lambda m: (m.round, m.phase)):
            by_round.setdefault(m.round, []).append(m)
        for t in rounds if rounds is not None else by_round:
            path = self.folder / place / round_file(t)
            if t in by_round:
                write_messages(path, by_round[t])
            else:
                path.unlink(missing_ok=True)

    def _traffic(self) -> dict[str, Tensor]:
        """The rows of the rounds of which messages are kept, and each party's newest
        before them.
        """
        rounds = torch.tensor(sorted({m.round for m in self.sent}), dtype=torch.int32)
        out = {}
        for kind, rows in self.source.recording.traffic.items():
            keep = (rows[:, 0] >= self.first) | torch.isin(rows[:, 0], rounds)
            # Rows are in order of their rounds.
            newest = {int(sender): i for i, sender in enumerate(rows[:, 1].tolist())}
            keep[[i for sender, i in newest.items() if sender != SERVER]] = True
            out[kind] = rows[keep].contiguous()
        return out

    def _data(self, names: Sequence[str]) -> bool:
        tree, meta = self.run.tree("truth/data.safetensors")
        write_tree(self.folder / "truth" / "data.safetensors", {k: tree[k] for k in names}, meta)
        return self.fits()

    def _same(self, name: str) -> bool:
        """Copy a file of the run as it is, where it is there and fits."""
        if not (self.run.path / name).is_file():
            return False
        if name in self.run.meta["files"]:
            self.run.check(name)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.run.path / name, path)
        if self.fits():
            return True
        path.unlink()
        return False

    def _utility(self) -> bool:
        """Every evaluation, or the newest ones that fit; the last one at least."""
        lines = self.run.table("utility.csv", RUN_UTILITY)
        tree, meta = self.run.tree("utility.safetensors")
        rounds = sorted({r["round"] for r in lines})
        for i in range(len(rounds)):
            kept = set(rounds[i:])
            write_csv(
                self.folder / "utility.csv", RUN_UTILITY, [r for r in lines if r["round"] in kept]
            )
            write_tree(
                self.folder / "utility.safetensors",
                {k: v for k, v in tree.items() if int(k) in kept},
                meta,
            )
            if self.fits():
                if i:
                    self.left_out.append(f"utility before round {rounds[i]}: too large")
                return True
        return False
