"""What a client's captions say of its data: the words in them, and the topics they speak of."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import tokens, torch
from leakbench.metrics import LABEL_OVERLAP, LABEL_SET, WORD_PRECISION, WORD_RECALL

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation import Examples

FIRST = len(tokens.SPECIAL)  # the first token that is a word


class CaptionWords(Attack):
    """Reads every caption that a client shared until the attacked round, and nothing else.

    Words: those of its captions that at most ``common`` of the auxiliary captions have stand in
    the client's data, for certain; named are these alone, as "a" and "the" stand in everybody's.
    The floor names as many of the same kind, those most frequent in the auxiliary captions.
    Topics: each distinct caption goes to the topic whose auxiliary captions make its words the
    likeliest (naive Bayes on which words occur, one added to every count); the guess is the shares
    of these.
    The floor is the topics' frequencies in the auxiliary data, as for labels read off a message.

    In the control clients send their images too, with the same captions, so it reads the same
    words: what is hidden by sending no image is not these. A low recall says that few captions were
    shared, each of them as told as ever: one of the client's own, word for word.
    """

    about: ClassVar[str] = (
        "which words and topics a client's captions have, read off those it shares"
    )
    paper: ClassVar[str] = "FedAA, Section 3.2: captions are called a non-sensitive modality"
    metrics: ClassVar[tuple[Metric, ...]] = (WORD_PRECISION, WORD_RECALL, LABEL_OVERLAP, LABEL_SET)

    common: float = Field(
        0.05, ge=0, le=1, description="share of auxiliary captions from which a word is common"
    )

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            kinds=("labels",), rounds="all", knows=("aux_data", "facts"), rung="transcript"
        )

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why or run.facts.targets == "tokens":
            return why
        return "what clients send are labels of classes and no captions"

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        aux, out = view.know("aux_data"), []
        for client, captions in _shared(view).items():
            words = self._words(view, aux, captions)
            shares = topics_of(captions, aux, view.facts.classes)
            if not bool(words.any()):
                why = "none of its captions has an uncommon word"
                out.append(Guess(client, view.round, failed=why))
                continue
            found = {"words": words.long(), "shares": shares}
            out.append(Guess(client, view.round, found, accepted=True))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """As many uncommon words as the client shared, the most frequent elsewhere; and topics."""
        aux, out = view.know("aux_data"), []
        prior = aux.y.bincount(minlength=view.facts.classes).double()
        often = frequency(aux, view.facts.dim)
        order = torch.where(often > self.common, -1.0, often).argsort(descending=True, stable=True)
        for client, captions in _shared(view).items():
            count = max(1, int(self._words(view, aux, captions).sum()))
            words = torch.zeros(view.facts.dim, dtype=torch.int64)
            words[order[order >= FIRST][:count].cpu()] = 1
            found = {"words": words, "shares": prior / prior.sum()}
            out.append(Guess(client, view.round, found))
        return out

    def _words(self, view: View, aux: Examples, captions: Tensor) -> Tensor:
        """(V,) bool: the uncommon words of ``captions`` (n, T)."""
        often = frequency(aux, view.facts.dim)
        said = present(captions, view.facts.dim).any(0)
        said[:FIRST] = False
        return said & (often <= self.common)


def _shared(view: View) -> dict[str, Tensor]:
    """Each client's distinct captions (n, T) until now."""
    out: dict[str, list[Tensor]] = {}
    for m in view.messages("labels"):
        if m.sender != "server":
            out.setdefault(m.sender, []).append(m.payload)
    return {client: torch.unique(torch.cat(sent), dim=0) for client, sent in sorted(out.items())}


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
