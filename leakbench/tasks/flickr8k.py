"""`flickr8k`: photographs with five captions each (Hodosh et al. 2013), by topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from pydantic import Field

from leakbench.base import UsageError
from leakbench.data import Captioned, caption_files, vocabulary
from leakbench.tasks._caption_task import LOCAL, CaptionPart, CaptionTask

# Ours: Flickr8k has no objects. A topic is these words; the last one is what is left, mostly of
# grown people.
TOPICS: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "snow": "snow snowy ski skis skier skiing snowboard snowboarder sled sledding ice",
        "climbing": (
            "climb climbing climber climbs cliff mountain mountains rope rock rocks hill hillside"
        ),
        "sport": (
            "ball soccer football basketball tennis baseball rugby volleyball frisbee team player"
            " players bike bicycle biker bikes motorcycle skateboard skateboarder skateboarding"
            " scooter car truck ramp race racing"
        ),
        "pool": "pool swimming swim swims swimmer underwater diving dive dives slide",
        "shore": (
            "beach ocean sea lake river wave waves surf surfer surfing boat kayak canoe shore sand"
            " water"
        ),
        "dog": "dog dogs puppy",
        "street": "street sidewalk road city building bench store",
        "girl": "girl girls",
        "children": (
            "boy boys child children kid kids baby toddler swing swings playground toy toys bubbles"
            " trampoline"
        ),
    }.items()
}
LEFT = len(TOPICS)  # the number of the last topic
SHARE = 0.2  # of each topic's images: tested, and once more auxiliary


class Flickr8k(CaptionTask):
    """Ten clients with one topic each; stands in for MS COCO, of which FedAA uses object groups.

    An image's topic is the one whose words (``TOPICS``) most of its captions have, two at least, of
    equal ones the first; where no topic has two captions, "people". Made of the captions: a topic
    says nothing that the captions do not. Of each topic's images a fifth is tested, a fifth
    auxiliary, by named permutations. Unlike COCO's clients with four groups each of 80, a client
    has one topic of ten (``clients`` 5: two).

    Trained as FedAA, Section 4.3, trains, but for few images on two cores: torchvision's AlexNet,
    trained on ImageNet and frozen (``weights``, the file that LPIPS reads, too), with a trained
    convolution behind it and an LSTM of 64 units, on 96x96 pixels, at 0.01 for both, where the
    paper has ResNet-50 at 0.0001 and an LSTM at 0.0004. ``model`` captioner without ``weights``
    and with ``frozen_encoder`` = false is a small one from scratch, which says one caption of all
    images. What is said then speaks of the image, but of 80 test images BLEU-4 shows little: one
    caption for all ("a man in a red shirt") has 0.117, more than any captioner here. Of
    Flickr8k's 8,091 images any part will do (``limit``: at most so many).
    """

    about: ClassVar[str] = "Flickr8k's photographs (96x96) with captions, 10 clients by topic"
    source: ClassVar[str] = caption_files.FLICKR8K
    stand_in: ClassVar[str] = "MS COCO"
    shape: ClassVar[tuple[int, ...]] = (3, 96, 96)
    classes: ClassVar[int] = len(TOPICS) + 1
    rounds: ClassVar[int] = 20
    _local: ClassVar[dict[str, Any]] = {**LOCAL, "lr": 0.01, "fraction": 0.5}
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        **dict.fromkeys(("fedavg", "fedprox", "fedbn", "moon"), _local),
        # With its own 50 iterations one unbounded example in five (Eq. 4 has no bounds) comes to
        # have pixels of 6,000, on which Eq. 5 diverges; with 10 none has over 50.
        "fedaa": {**_local, "examples": 1, "hidden": 64, "search_steps": 10},
    }

    clients: int = Field(10, ge=2, description="clients, each with a topic at least")
    model: str = Field(
        "captioner_alexnet", description="captioner, captioner_alexnet or captioner_resnet50"
    )
    frozen_encoder: bool = Field(
        True, description="the pretrained encoder stays as it is, and is not sent"
    )
    weights: str = Field(
        "lpips/alexnet_features.safetensors",
        description=(
            "torchvision's weights of the encoder, a safetensors file in the data folder; empty:"
            " drawn like the rest"
        ),
    )
    width: int = Field(64, ge=4, le=4096, description="units of the LSTM, and channels")
    vocabulary: int = Field(800, ge=5, le=100_000, description="words of the network")
    least: int = Field(2, ge=1, description="how often a word occurs in training captions")
    decoder_rate: float = Field(1.0, gt=0, description="rate of the decoder over the encoder's")
    limit: int = Field(400, ge=0, description="images that are used, by a named draw; 0: all")
    evaluations: int = Field(
        20,
        ge=10,
        le=1000,
        description="evaluations over the run, evenly spaced, the last round among them",
    )

    def parts(self) -> tuple[CaptionPart, CaptionPart, CaptionPart]:
        """Training, test and auxiliary images, with the topic of each.

        Raises:
            BrokenFile: a file is not what its name says.
            UsageError: the set is nowhere, or too small.
        """
        held = caption_files.flickr8k()
        order = self._rng("images").permutation("order", len(held)).tolist()
        by_topic: list[list[Captioned]] = [[] for _ in range(self.classes)]
        for i in order[: self.limit or None]:
            by_topic[topic(held[i].captions)].append(held[i])
        found = [(k, image) for k, images in enumerate(by_topic) for image in images]
        if len(found) < 3 * self.classes:
            raise UsageError(
                f"flickr8k has {len(found)} images here; {3 * self.classes} at least are needed to"
                " train, test and lend some."
            )
        out: list[list[tuple[int, Captioned]]] = [[], [], []]
        for k, images in enumerate(by_topic):
            n = round(SHARE * len(images))
            cuts = (images[2 * n :], images[:n], images[n : 2 * n])
            for part, some in zip(out, cuts, strict=True):
                part += [(k, image) for image in some]
        train, test, aux = (_part(some) for some in out)
        return train, test, aux


def _part(some: Sequence[tuple[int, Captioned]]) -> CaptionPart:
    return CaptionPart([image for _, image in some], [k for k, _ in some])


def topic(captions: Iterable[str]) -> int:
    """The number of the topic that most of the captions speak of, two at least."""
    said = [set(vocabulary.words(c)) for c in captions]
    best, most = LEFT, 1
    for k, words in enumerate(TOPICS.values()):
        count = sum(not words.isdisjoint(line) for line in said)
        if count > most:
            best, most = k, count
    return best
