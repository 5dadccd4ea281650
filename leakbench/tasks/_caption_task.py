"""What the captioning tasks share: pairs of image and caption, spread over clients by topic."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from leakbench.base import Rng, UsageError, shared, torch
from leakbench.data import Captioned, Vocabulary, caption_files
from leakbench.federation import Defense, Examples, Facts, Task, TaskData, padded

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.models import Captioner

# FedAA, Section 4.3: for every method alike. One epoch each; FedAA itself has one before and one
# after its server's work.
LOCAL: dict[str, Any] = {
    "average": "weighted",
    "batch": 32,
    "steps": 0,
    "epochs": 1,
    "optimizer": "adam",
}


@dataclass(frozen=True)
class CaptionPart:
    """Images with captions, and the number of the topic of each."""

    images: Sequence[Captioned]
    topics: Sequence[int]


class CaptionTask(Task):
    """Clients hold images of their own topics with five captions each, and train a captioner.

    A training example is one image with one of its captions. Utility is BLEU-4 of greedily decoded
    captions against all that the test image has. The vocabulary is made of all clients' training
    captions and public, as the papers have it: that it lists a rare word tells that somebody holds
    it. An attacker may be granted auxiliary images with captions and topics (``aux``).
    """

    targets: ClassVar[Literal["classes", "tokens"]] = "tokens"
    source: ClassVar[str]  # the set's name in leakbench.data.caption_files; also of the streams

    model: str = Field(description="captioner, captioner_alexnet or captioner_resnet50")
    vocabulary: int = Field(
        ge=5, le=100_000, description="words of the network, four of them padding, start, end, rest"
    )
    least: int = Field(ge=1, description="how often a word occurs in training captions to be known")
    length: int = Field(
        22, ge=4, le=200, description="longest caption in words, its start and its end counted"
    )
    decoder_rate: float = Field(
        4.0,
        gt=0,
        description="learning rate of the decoder (T) over the encoder's (F), which is lr",
    )
    frozen_encoder: bool = Field(False, description="the encoder stays as it is, and is not sent")
    weights: str = Field(
        "",
        description=(
            "torchvision's weights of the encoder, a safetensors file in the data folder; empty:"
            " drawn like the rest"
        ),
    )
    utility: str = Field("bleu4", description="what a run gains: BLEU-4 of decoded captions")
    dim: int = Field(64, ge=2, le=4096, description="not used: methods here compare no embeddings")

    @abstractmethod
    def parts(self) -> tuple[CaptionPart, CaptionPart, CaptionPart]:
        """Training, test and auxiliary images.

        Raises:
            BrokenFile: a file is not what its name says.
            UsageError: the set is nowhere, or too small.
        """

    @property
    def one_class_each(self) -> bool:
        """No client stands for a topic, even where it holds one alone."""
        return False

    def suits(self, method: Defense) -> None:
        """Refuse methods whose loss is of classes alone.

        Raises:
            UsageError: the method's is.
        """
        if not method.texts or method.outputs != "logits":
            raise UsageError(
                f"{type(method).__name__} trains on classes, and this task asks for captions; take"
                " a method whose loss knows texts (`texts` in its class)."
            )

    def facts(self, method: Defense) -> Facts:
        """Public facts; the network's outputs are the words."""
        return replace(super().facts(method), dim=self.vocabulary)

    def module(self, facts: Facts) -> Captioner:
        """The captioner; its numbers come from a named stream.

        Raises:
            UsageError: there is no such captioner, or it does not fit.
        """
        from leakbench.models import CAPTIONERS, fix

        if self.model not in CAPTIONERS:
            raise UsageError(
                f"task.model = {self.model!r}: expected one of {', '.join(CAPTIONERS)}."
            )
        how: dict[str, Any] = {"length": self.length}
        if self.model != "captioner":
            how["frozen"] = self.frozen_encoder
        module = CAPTIONERS[self.model](facts.shape, facts.dim, self.width, **how)
        module.rates = {"decoder": self.decoder_rate}
        for stage in self.frozen:
            fix(module.get_submodule(stage))
        return module

    @property
    def frozen(self) -> tuple[str, ...]:
        """The pretrained encoder, where it stays as it is; of the small one all of it."""
        if not self.frozen_encoder:
            return ()
        return ("encoder",) if self.model == "captioner" else ("encoder.body",)

    def words(self) -> Vocabulary:
        """The vocabulary, made anew of the training captions; in what order it counts, is public.

        Raises:
            BrokenFile: a file is not what its name says.
            UsageError: the set is nowhere.
        """
        return self._words(self.parts()[0])

    def _words(self, train: CaptionPart) -> Vocabulary:
        said = (c for image in train.images for c in image.captions)
        return Vocabulary.of(said, least=self.least, most=self.vocabulary)

    def load(self) -> TaskData:
        """Images as uint8, topics as classes, captions as targets.

        Raises:
            BrokenFile: a file is not what its name says.
            UsageError: the set is nowhere, too small, or cannot be dealt to so many clients.
        """
        train, test, aux = self.parts()
        known = self._words(train)
        pairs = self._pairs(train, known)
        parts = self._dealt(pairs.y)
        rows, counts = padded(parts)
        own = torch.full((self.clients,), -1)
        tested, granted = self._whole(test, known), self._pairs(aux, known)
        why = caption_files.unofficial(self.source)
        weights = {}
        if self.weights:
            from leakbench.models import encoder_weights

            weights = dict(encoder_weights(self.model, caption_files.weights(self.weights)))
        held = TaskData(pairs, tested, granted, rows, counts, own, unofficial=why)
        return replace(held, pretrained=weights)

    def _pixels(self, part: CaptionPart) -> Tensor:
        return caption_files.images([image.path for image in part.images], self.shape[1])

    def _pairs(self, part: CaptionPart, known: Vocabulary) -> Examples:
        """Each image once for every caption."""
        captions = [c for image in part.images for c in image.captions]
        times = torch.tensor([len(image.captions) for image in part.images])
        at = torch.arange(len(times)).repeat_interleave(times)
        topics = torch.tensor(part.topics)[at]
        targets = known.encode(captions, self.length)
        return Examples(self._pixels(part)[at], topics, targets=targets)

    def _whole(self, part: CaptionPart, known: Vocabulary) -> Examples:
        """Each image once, with all its captions: targets (n, R, length), rows of 0 where fewer."""
        most = max(len(image.captions) for image in part.images)
        targets = torch.zeros(len(part.images), most, self.length, dtype=torch.int64)
        for i, image in enumerate(part.images):
            targets[i, : len(image.captions)] = known.encode(image.captions, self.length)
        return Examples(self._pixels(part), torch.tensor(part.topics), targets=targets)

    def _dealt(self, topics: Tensor) -> list[Tensor]:
        """The pairs of each client: topics are dealt at random, as evenly as they go."""
        present = torch.tensor(sorted(set(topics.tolist())))
        if len(present) < self.clients:
            raise UsageError(
                f"task.clients = {self.clients}, but the training images have {len(present)} topics"
                " and each client gets one at least; use fewer clients."
            )
        order = self._rng("topics").permutation("deal", len(present))
        mine = [present[order[c :: self.clients]] for c in range(self.clients)]
        return [torch.isin(topics, own).nonzero().flatten() for own in mine]

    def _rng(self, what: str) -> Rng:
        return shared(0, f"task/{self.source}/{what}")
