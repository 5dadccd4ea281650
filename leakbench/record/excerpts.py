"""The excerpt: a small part of a run, for attacks that are not written yet.

It holds the last rounds' prototypes, the bank, and what scoring needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

import torch

from leakbench.base.errors import UsageError
from leakbench.base.files import file_digest, pack_csv, pack_tree
from leakbench.base.tree import flat
from leakbench.federation.traffic import SERVER
from leakbench.record.columns import RUN_UTILITY, Row
from leakbench.record.folders import Run
from leakbench.record.messages import round_file
from leakbench.record.parts import AUX_DATA, RunPart

LIMIT = 5_000_000  # bytes of the whole folder
SPARE = 64 * 1024  # of these, kept free for run.json
KINDS = ("prototype", "statistics")  # small messages of which an excerpt is made
EXTRAS = ("evaluations", "checkpoint", "model", "rows", "banks")  # the most useful first
TRAFFIC, FINAL = "transcript/rounds.safetensors", "checkpoint/model.safetensors"
DATA, HELD = "truth/data.safetensors", ("counts", "client_class")


def write_excerpt(
    run: Run,
    out: Path,
    rounds: int,
    extras: Collection[str] = EXTRAS,
    more: Callable[[Run], Row] = lambda _: {},
) -> Run:
    """Write an excerpt of at most 5 MB to ``out``, in place of what is there.

    It holds, of the kinds `prototype` and `statistics`: every uplink of the last ``rounds`` rounds,
    each client's newest one where that is older, and what stood for them with nothing defended.
    Beside them the traffic of these rounds, everybody's secrets at the recorded rounds among them,
    the last evaluation and diagnostics.

    Args:
        run: complete; of an excerpt a smaller one is made.
        out: the folder; not the run's own.
        rounds: at least 1; fewer are kept where they would not fit.
        extras: what else is kept, as far as it fits: earlier `evaluations`; the final model
            (`checkpoint`); the last `model` sent, with the auxiliary data; who holds which `rows`;
            what the server sent (`banks`: in the last round, then the first, then the newest).
        more: what else run.json says, by the files as they lie there.

    Raises:
        UsageError: not even one round fits; ``out`` cannot be written.
        BrokenFile: a file of the run is missing, changed or damaged.
    """
    made = _Excerpt(run, extras)
    wanted = min(rounds, made.last)
    while not made.begun(made.last - wanted + 1):
        if wanted == 1:
            raise UsageError(
                f"{run.id}: not even one round fits into an excerpt of {LIMIT / 1e6:.0f} MB."
            )
        wanted = max(1, wanted * 9 // 10)
    made.fill()
    return made.part.folder(out, made.meta(), more)


class _Excerpt:
    """An excerpt in the making."""

    def __init__(self, run: Run, extras: Collection[str]) -> None:
        self.run, self.extras, self.last = run, extras, int(run.spec["rounds"])
        self.traffic = flat(run.tree(TRAFFIC)[0])
        self.utility = run.table("utility.csv", RUN_UTILITY)
        self.times = sorted({r["round"] for r in self.utility})
        # (kind, sender, round) of each client's newest message, kept or not.
        self.newest: set[tuple[str, str, int]] = set()
        for kind in KINDS:
            sent = {i: t for t, i in self._sent(kind) if i != SERVER}
            self.newest |= {(kind, f"client/{i}", t) for i, t in sent.items()}

    def begun(self, first: int) -> bool:
        """Begin anew, with what every excerpt from round ``first`` on holds. Does it fit?"""
        self.first, self.part, self.left_out = first, RunPart(self.run), list[str]()
        # Of which rounds what the server sent is kept, and the last model?
        self.banks, self.model = {self.last} if "banks" in self.extras else set[int](), False
        up = []
        for t in sorted({*range(first, self.last + 1), *(t for _, _, t in self.newest)}):
            up += self._messages(t, KINDS if t in self.banks else (), self.part)
            self.part.messages(f"control/{round_file(t)}", self._is_uplink)
        self.up = [m for m in up if m["sender"] != "server"]
        rounds = sorted({m["round"] for m in self.up})
        self.part.put(TRAFFIC, partial(self._rows, rounds))
        # A curve has a point at every surveyed round until which something was sent.
        for t in range(min(rounds, default=first), self.last + 1):
            self.part.tensors(f"truth/{round_file(t)}", lambda k: k.startswith("everyone/"))
        self.part.tensors(DATA, HELD.__contains__)
        self.part.same("diagnostics.csv")
        self._evaluations(self.times[-1], self.part)
        return self.part.size <= LIMIT - SPARE

    def fill(self) -> None:
        """Add what else is wanted and fits, and note what is not there."""
        fits = (t for t in self.times if self._added("evaluations", partial(self._evaluations, t)))
        if (begin := next(fits, self.times[-1])) > self.times[0]:
            self._note("evaluations", f"utility before round {begin}")
        if not self._added("checkpoint", lambda part: part.same(FINAL)):
            self._note("checkpoint", "the final model")
        self.model = self._added("model", self._model)
        if any(s["kind"] == "model" for s in self.run.meta["sent"]) and not self.model:
            self._note("model", "the last model with the auxiliary data")
        if self.model and AUX_DATA not in self.part.files:  # a larger excerpt had none
            self._note("", "the auxiliary data")
        more = (*HELD, "y", "rows")
        if not self._added("rows", lambda part: part.tensors(DATA, more.__contains__)):
            self._note("rows", "who holds which rows")
        sent = {t for kind in KINDS for t, i in self._sent(kind) if i == SERVER and t >= self.first}
        for t in sorted(sent - self.banks, key=lambda t: (t != self.first, -t)):
            if self._added("banks", partial(self._messages, t, KINDS)):
                self.banks.add(t)
        if few := len(sent - self.banks):
            which = f"{few} of {len(sent)} rounds"
            self._note("banks", f"what the server sent of prototypes in {which}")

    def meta(self) -> Row:
        """The run's own run.json, with this folder's files and what is not in it."""
        meta = self.run.meta
        whole = {
            "of": self.run.id,
            "run_json": file_digest(self.run.path / "run.json"),
            "left_out": [],
        }
        before = meta.get("excerpt", whole)
        # Of an earlier stage not every client's newest message would be there.
        stages = {s: t for s, t in meta["stages"].items() if self.first == 1 or t == self.last}
        gone = {  # what a larger excerpt lacked is lacking still
            *(text for text in before["left_out"] if text.startswith(("stage ", "utility "))),
            *(f"stage {s} (round {t})" for s, t in meta["stages"].items() if s not in stages),
            f"messages before round {self.first}, but each client's newest",
            "kinds other than prototype and statistics" + " and the last model" * self.model,
            "draws, batches and states of single clients, images",
            *self.left_out,
        }
        counts = Counter(m["sender"] for m in self.up if m["kind"] == "prototype")
        most = max(counts.values(), default=0)
        missing = [m for m in meta["missing"] if "excerpt" not in m["reason"]]
        return self.part.described(
            {**meta, "stages": stages, "missing": missing},
            "excerpt",
            {**before, "rounds": [self.first, self.last], "left_out": sorted(gone)},
            f"an excerpt: {most} messages of a client at most; left out: {'; '.join(sorted(gone))}",
        )

    def _added(self, extra: str, change: Callable[[RunPart], object]) -> bool:
        """Add what ``change`` adds, where it is wanted, adds anything, and fits."""
        trial = RunPart(self.run, dict(self.part.files))
        if extra in self.extras:
            change(trial)
        if trial.files == self.part.files or trial.size > LIMIT - SPARE:
            return False
        self.part = trial
        return True

    def _note(self, extra: str, what: str) -> None:
        self.left_out.append(what + ": too large" * (extra in self.extras))

    def _sent(self, kind: str) -> list[list[int]]:
        """(round, sender) of every message of ``kind`` up to the last round, kept or not."""
        rows = self.traffic.get(kind, torch.zeros(0, 3))
        found: list[list[int]] = rows[rows[:, 0] <= self.last, :2].tolist()
        return found

    def _is_uplink(self, m: Row) -> bool:
        """Is it a client's message that is kept?"""
        late = m["round"] >= self.first or (m["kind"], m["sender"], m["round"]) in self.newest
        return m["sender"] != "server" and m["kind"] in KINDS and late

    def _messages(self, t: int, down: Collection[str], part: RunPart) -> list[Row]:
        """Round t's uplinks, and what the server sent of the kinds ``down``."""

        def keep(m: Row) -> bool:
            return m["kind"] in down if m["sender"] == "server" else self._is_uplink(m)

        return part.messages(f"transcript/{round_file(t)}", keep)

    def _model(self, part: RunPart) -> None:
        """The last model, and the auxiliary data: alone it serves no attack on prototypes."""
        down = (*KINDS, "model") if self.banks else ("model",)
        if any(m["kind"] == "model" for m in self._messages(self.last, down, part)):
            part.same(AUX_DATA)

    def _evaluations(self, first: int, part: RunPart) -> None:
        """Utility from round ``first`` on."""
        rows = [r for r in self.utility if r["round"] >= first]
        part.put("utility.csv", partial(pack_csv, RUN_UTILITY, rows))
        part.tensors("utility.safetensors", lambda k: int(k) >= first)

    def _rows(self, rounds: Sequence[int]) -> bytes:
        """The traffic of ``rounds`` and of all from the first on, and each party's newest."""
        out = {}
        for kind, rows in self.traffic.items():
            keep = (rows[:, 0] >= self.first) | torch.isin(rows[:, 0], torch.tensor(rounds))
            # Rows are in order of their rounds.
            newest = {sender: j for j, sender in enumerate(rows[:, 1].tolist())}
            keep[[j for sender, j in newest.items() if sender != SERVER]] = True
            out[kind] = rows[keep]
        return pack_tree(out, {"columns": ["round", "sender", "receiver"]})
