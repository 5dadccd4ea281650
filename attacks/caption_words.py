"""What a client's captions say of its data: the words in them, and the topics they speak of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _updates
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import tokens, torch
from leakbench.metrics import LABEL_OVERLAP, LABEL_SET, WORD_PRECISION, WORD_RECALL

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation import Examples

FIRST = len(tokens.SPECIAL)  # the first token that is a word


class CaptionWords(Attack):
    """Two ways to the words of a client's private captions.

    "message": reads every caption that a client shared until the attacked round. Words of these
    that at most ``common`` of the auxiliary captions have stand in the client's data, for certain;
    named are these alone, as "a" and "the" stand in everybody's. Topics: each distinct caption goes
    to the topic whose auxiliary captions make its words the likeliest (naive Bayes on which words
    occur, one added to every count); the guess is the shares of these. A low recall says that few
    captions were shared; each of them is one of the client's own, word for word.

    "update": what is told even where no caption is sent. A word's embedding has a gradient where
    the word occurs and none elsewhere, so the words whose rows moved in the audited clients' first
    update of the round are those of all captions behind it, however many the steps, by SGD or Adam.
    Named are the uncommon ones, to be held against "message". Noise on the update moves all rows,
    and then there is no guess.

    Floor: as many uncommon words, those most frequent in the auxiliary captions; the topics'
    frequencies there. In the control clients send the same captions (and their images), and the
    same update: what FedAA hides by sending no image is not their words.
    """

    about: ClassVar[str] = (
        "which words and topics a client's captions have, read off those it shares, or its update"
    )
    paper: ClassVar[str] = "FedAA, Section 3.2: captions are called a non-sensitive modality"
    metrics: ClassVar[tuple[Metric, ...]] = (WORD_PRECISION, WORD_RECALL, LABEL_OVERLAP, LABEL_SET)
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"source": "message"}, {"source": "update"})

    source: Literal["message", "update"] = Field(
        "message", description="what is read: the captions that clients send, or their updates"
    )
    common: float = Field(
        0.05, ge=0, le=1, description="share of auxiliary captions from which a word is common"
    )

    @property
    def threat(self) -> ThreatModel:
        if self.source == "message":
            return ThreatModel(
                kinds=("labels",), rounds="all", knows=("aux_data", "facts"), rung="public"
            )
        return ThreatModel(
            kinds=("update",),
            rounds="audited",
            knows=("aux_data", "method", "facts"),
            rung="public",
        )

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why:
            return why
        if run.facts.targets != "tokens":
            return "the task has classes and no captions"
        if self.source == "update" and not _embedding(run.module()):
            return "the network has no embedding of words"
        return ""

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        return [self._guess(view, client, read) for client, read in self._read(view).items()]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """As many uncommon words as the client's messages tell, the most frequent elsewhere."""
        aux, out = view.know("aux_data"), []
        prior = aux.y.bincount(minlength=view.facts.classes).double()
        often = frequency(aux, view.facts.dim)
        order = torch.where(often > self.common, -1.0, often).argsort(descending=True, stable=True)
        for client, read in self._read(view).items():
            count = max(1, int(self._uncommon(read, often).sum()))
            words = torch.zeros(view.facts.dim, dtype=torch.int64)
            words[order[order >= FIRST][:count].cpu()] = 1
            found = {"words": words}
            if self.source == "message":
                found["shares"] = prior / prior.sum()
            out.append(Guess(client, view.round, found))
        return out

    def _guess(self, view: View, client: str, read: Tensor) -> Guess:
        aux = view.know("aux_data")
        words = self._uncommon(read, frequency(aux, view.facts.dim))
        if not bool(words.any()):
            return Guess(client, view.round, failed="it tells no uncommon word")
        if read.dim() == 1 and bool(read.all()):
            return Guess(client, view.round, failed="the row of every word moved")
        found = {"words": words.long()}
        if self.source == "message":
            found["shares"] = topics_of(read, aux, view.facts.classes)
        return Guess(client, view.round, found, accepted=True)

    def _read(self, view: View) -> dict[str, Tensor]:
        """Each client's distinct captions (n, T), or which words' rows moved, (V,) bool."""
        if self.source == "message":
            out: dict[str, list[Tensor]] = {}
            for m in view.messages("labels"):
                if m.sender != "server":
                    out.setdefault(m.sender, []).append(m.payload)
            return {
                client: torch.unique(torch.cat(sent), dim=0) for client, sent in sorted(out.items())
            }
        name = f"{_embedding(view.module)}.weight"
        sent = {m.sender: m.payload for m in _updates.first(view)}
        return {c: (p[name] != 0).any(1) for c, p in sent.items() if name in p}

    def _uncommon(self, read: Tensor, often: Tensor) -> Tensor:
        """(V,) bool: the uncommon words of what was read."""
        said = read.clone() if read.dim() == 1 else present(read, len(often)).any(0)
        said[:FIRST] = False
        return said & (often <= self.common)


def _embedding(module: torch.nn.Module) -> str:
    """The name of the network's embedding of words, or "" if it has none."""
    found = [n for n, m in module.named_modules() if isinstance(m, torch.nn.Embedding)]
    return found[0] if found else ""


def present(captions: Tensor, words: int) -> Tensor:
    """(n, V) bool: which words occur in captions (n, T)."""
    out = torch.zeros(len(captions), words, dtype=torch.bool, device=captions.device)
    return out.scatter(1, captions, src=torch.ones_like(captions, dtype=torch.bool))


def frequency(aux: Examples, words: int) -> Tensor:
    """(V,) float64: the share of auxiliary captions that have each word."""
    assert aux.targets is not None  # noqa: S101 - for the type checker
    return present(aux.targets, words).double().mean(0)


def topics_of(captions: Tensor, aux: Examples, classes: int) -> Tensor:
    """(K,) float64: the share of captions (n, T) that goes to each topic, by naive Bayes."""
    assert aux.targets is not None  # noqa: S101 - for the type checker
    words = int(max(aux.targets.max(), captions.max())) + 1
    had = present(aux.targets, words).double()[:, FIRST:]
    said = present(captions, words).double()[:, FIRST:]
    own = torch.nn.functional.one_hot(aux.y, classes).double()  # (m, K)
    counts = own.sum(0)
    share = ((own.T @ had) + 1) / (counts[:, None] + 2)
    score = said @ share.log().T + (1 - said) @ (1 - share).log().T
    score = score + ((counts + 1) / (counts.sum() + classes)).log()
    return score.argmax(1).bincount(minlength=classes).double() / len(captions)
