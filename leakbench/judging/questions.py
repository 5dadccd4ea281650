"""What can be asked of a setting, in words: topics, the metrics that answer them, and how each
number is read aloud.
"""

from __future__ import annotations

from dataclasses import dataclass

from leakbench.base.printable_text import one_line


@dataclass(frozen=True)
class Words:
    """How a metric is spoken of.

    ``verb`` stands between "an attacker" and the amount. ``noun``: the units of a share of a whole
    ("94 of 100 clients"); empty for any other number, which is written with ``decimals`` and
    ``suffix``. ``as_good``: the value from which a guess is as good as the original, for metrics
    without a natural end. ``end``: the ends of its range, None where it is open.
    """

    title: str
    verb: str
    meaning: str
    noun: str = ""
    decimals: int = 2
    suffix: str = ""
    as_good: float | None = None
    log: bool = False
    end: tuple[float, float] | None = (0.0, 1.0)


@dataclass(frozen=True)
class Topic:
    """What an attacker may be after. The first of ``metrics`` that a task has judges it; the others
    stand in the table.
    """

    name: str
    kinds: frozenset[str]
    kind: str
    metrics: tuple[str, ...]
    ask: str


TOPICS = (
    Topic(
        "prototypes",
        frozenset({"prototype"}),
        "prototype",
        ("p_leak", "recovered", "prototype_cosine", "p_leak_public", "recovery_precision"),
        "share a prototype each (one vector that sums up their data) in place of the data. Can an"
        " attacker tell whose it is?",
    ),
    Topic(
        "images",
        frozenset({"update", "sum", "mean_data", "data", "features"}),
        "update",
        ("identification", "psnr", "ssim", "lpips", "mse", "nearest_psnr", "recognised"),
        "send what they learned in place of their data. Can an attacker rebuild the images that it"
        " was learned from?",
    ),
    Topic(
        "labels",
        frozenset({"update", "sum", "labels"}),
        "update",
        ("label_overlap", "label_set"),
        "send what they learned, or names of labels, in place of their data. Can an attacker tell"
        " which classes they hold?",
    ),
    Topic(
        "context",
        frozenset({"features", "mean_data", "data"}),
        "features",
        ("context_accuracy", "samples_to_90"),
        "share features, means or a part of their data. Can an attacker tell whose carry a certain"
        " trait, such as a camera's defect?",
    ),
    Topic(
        "resemblance",
        frozenset({"features"}),
        "features",
        ("dcor2_corrected", "dcor", "flea_correlation"),
        "share features of their examples. How much of the examples is still in them?",
    ),
    Topic(
        "exposure",
        frozenset({"features", "mean_data", "data"}),
        "features",
        ("exposure", "exposure_undirected"),
        "pass features, means or data on to each other. How many clients get to see another's?",
    ),
    Topic(
        "identity",
        frozenset({"features"}),
        "features",
        ("reidentified",),
        "share features of their examples again and again. Can an attacker tell that two sets come"
        " from the same client?",
    ),
)

_CORRELATION = (
    "Distance correlation between examples and what is shared of them: 0 where they are"
    " independent, 1 where one fixes the other."
)

METRICS = {
    "p_leak": Words(
        "P_leak, share of clients named",
        "names",
        "Share of clients whose true prototype, among all clients', is the nearest to what the"
        " attacker made of their messages.",
        "clients",
    ),
    "p_leak_public": Words(
        "P_leak against public candidates",
        "names",
        "The same, with candidates that an outsider could make from public data: no true prototypes"
        " needed.",
        "clients",
    ),
    "prototype_cosine": Words(
        "cosine to the true prototype",
        "comes within cosine",
        "Cosine between the recovered and the true prototype: 1 is the same direction.",
        end=(-1.0, 1.0),
    ),
    "recovered": Words(
        "share of prototypes recovered",
        "recovers the prototypes of",
        "Share of clients whose recovered prototype has a cosine above 0.99 to the true one.",
        "clients",
    ),
    "recovery_precision": Words(
        "precision of what is called recovered",
        "is right about",
        "Of the prototypes that the attack itself calls recovered, the share that are.",
    ),
    "identification": Words(
        "share of images found among look-alikes",
        "finds",
        "Share of images whose reconstruction is nearer to the true image than to every look-alike,"
        " up to 99 others of its class.",
        "images",
    ),
    "psnr": Words(
        "PSNR of the reconstruction, dB",
        "rebuilds images to",
        "Peak signal-to-noise ratio of the reconstruction: higher is closer; 30 dB looks like the"
        " original.",
        decimals=1,
        suffix=" dB",
        as_good=30.0,
        end=None,
    ),
    "ssim": Words(
        "SSIM of the reconstruction",
        "rebuilds images to SSIM",
        "Structural similarity of the reconstruction: 1 is the original.",
        as_good=0.95,
    ),
    "lpips": Words(
        "LPIPS of the reconstruction",
        "rebuilds images to LPIPS",
        "Perceptual distance of the reconstruction, seen by a network: lower is closer, 0 is the"
        " original.",
        as_good=0.05,
    ),
    "mse": Words(
        "mean squared error of the reconstruction",
        "rebuilds examples to an error of",
        "Mean squared error of the reconstruction: lower is closer, 0 is the original.",
        decimals=4,
        log=True,
        end=None,
    ),
    "nearest_psnr": Words(
        "PSNR of the best pair, dB",
        "comes to an image of a client as near as",
        "Largest PSNR of any reconstruction to any image of the client: 30 dB means that one of"
        " them is reproduced.",
        decimals=1,
        suffix=" dB",
        as_good=30.0,
        end=None,
    ),
    "recognised": Words(
        "share of examples recognised",
        "makes examples of the right class, a share of",
        "Share of the examples made that a classifier trained on other data gives the class they"
        " were made for.",
    ),
    "dcor": Words("distance correlation", "sees a correlation of", _CORRELATION),
    "dcor2_corrected": Words(
        "squared distance correlation, bias-corrected",
        "sees a correlation of",
        _CORRELATION,
        end=(-1.0, 1.0),
    ),
    "flea_correlation": Words(
        "FLea's correlation",
        "sees a correlation of",
        "FLea's own correlation (its Eq. 8), on squared distances.",
    ),
    "context_accuracy": Words(
        "balanced accuracy of telling the context",
        "tells contexts apart with accuracy",
        "Balanced accuracy of an attacker who tells the context of held-out clients' features: 0.5"
        " is a coin.",
    ),
    "samples_to_90": Words(
        "samples until accuracy 0.90",
        "needs for accuracy 0.90 only so many samples:",
        "Smallest number of samples with which the attacker reaches accuracy 0.90: fewer is worse.",
        decimals=0,
        log=True,
        end=None,
    ),
    "exposure": Words(
        "share of the others whose features a client got",
        "with no skill sees the features of this share of the others:",
        "Per client, the share of the other clients whose features it received so far.",
    ),
    "exposure_undirected": Words(
        "share of the others that got or gave features",
        "with no skill trades features with this share of the others:",
        "Per client, the share of the other clients whose features it got, or who got its own.",
    ),
    "reidentified": Words(
        "share of clients recognised in a later round",
        "recognises",
        "Share of clients whose features of a later round are, of all sent then, the likest to what"
        " they sent before.",
        "clients",
    ),
    "label_overlap": Words(
        "share of labels recovered",
        "recovers a share of a client's labels of",
        "Share of a client's labels, or of those of a batch, that the attacker recovers, counted as"
        " multisets.",
    ),
    "label_set": Words(
        "classes named rightly",
        "names a client's classes with a Jaccard index of",
        "Classes that the attacker names and the client has, among all that are named or held: 1 is"
        " exactly the client's classes.",
    ),
    "accuracy": Words(
        "accuracy", "has accuracy", "Share of test examples classified correctly.", decimals=3
    ),
    "auroc": Words(
        "AUROC",
        "has AUROC",
        "Mean one-class area under the ROC curve: 0.5 is a coin, 1 is perfect.",
        decimals=3,
    ),
    "eer": Words(
        "equal error rate",
        "has equal error rate",
        "Error where false accepts equal false rejects: lower is better.",
        decimals=3,
    ),
    "bleu4": Words(
        "BLEU-4",
        "has BLEU-4",
        "Overlap of four-word sequences with the reference text: 1 is the same text.",
        decimals=3,
    ),
}

SHORT = {
    "p_leak": "P_leak",
    "identification": "identification",
    "psnr": "PSNR",
    "ssim": "SSIM",
    "lpips": "LPIPS",
    "mse": "MSE",
}


def words(metric: str) -> Words:
    """The words of a metric; a plugin's own metric gets plain ones."""
    name = one_line(metric)
    return METRICS.get(
        metric,
        Words(
            name, f"reaches {name}", f"{name}: defined by the plugin that measures it.", end=None
        ),
    )


def topic(metric: str) -> Topic:
    """The topic that a metric belongs to; a plugin's metric is a topic of its own, read off no
    particular kind of message.
    """
    for found in TOPICS:
        if metric in found.metrics:
            return found
    return Topic(
        metric,
        frozenset(),
        "messages of this kind",
        (metric,),
        f"send messages. What does {metric} say about them?",
    )


def better(utility_metric: str) -> str:
    """Whether more of this utility is better: "up" or "down"."""
    return "down" if utility_metric == "eer" else "up"
