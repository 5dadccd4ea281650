"""FedHide's Figure 4 and the rest of Table 4: EER against leakage on voices and faces.

The smaller scales run on spoken digits and on forty people's portraits in their place.
"""

from __future__ import annotations

from typing import Any

from leakbench.record.policy import Policy
from leakbench.reproduce.fedhide import (
    ADAPTIVE,
    ALPHAS,
    AWS,
    CHOICES,
    COSINES,
    HIDING,
    LEAKAGE,
    P_LEAK,
    SIGMAS,
    cs,
    gn,
    hide,
    rates,
)
from leakbench.reproduce.orders import Falls, Keeps
from leakbench.reproduce.recipe import BY_HAND, UTILITY, Case, Measure, Recipe, Scale, Setup

MANY = 50  # neighbours, of VGGFace2 alone
EER = Measure(UTILITY, "EER")
_RECORD = Policy(probes=0, audited=1, last=20)
_VOICES = (
    "4 of the 40 test speakers kept as auxiliary data",
    "two segments of each utterance, drawn once",
)
_FACES = (
    "some of the 500 test people kept as auxiliary data",
    "two pairs of each test image, drawn",
    "faces cut out by the set's own boxes",
)


def _small(rounds: int, **task: Any) -> tuple[Setup, ...]:
    """What stands in for both."""
    voices = Setup(
        dataset="voxceleb1",
        task="spoken-speakers",
        rounds=rounds,
        task_params={"evaluations": 10, **task},
        why=rates(own_lr=BY_HAND),
        stand_in="three people saying ten digits, 30 identities, in place of VoxCeleb1",
        differs=(
            "Fast ResNet-34 of 4 channels, not 16",
            "identities of two other voices with their ten digits tested, not 40 people",
        ),
        needs="fsdd",
    )
    faces = Setup(
        dataset="vggface2",
        task="orl-faces",
        rounds=rounds,
        task_params={"evaluations": 10, **task},
        why=rates(own_lr=BY_HAND),
        stand_in="grey portraits of 26 people, ten each, in place of VGGFace2",
        differs=("MobileFaceNet of 16 channels, not 64", "10 people tested, not 500"),
        needs="orl-faces",
    )
    return voices, faces


_FULL = (
    Setup("voxceleb1", "voxceleb1", 50_000, differs=_VOICES, needs="voxceleb1"),
    Setup("vggface2", "vggface2", 400_000, differs=_FACES, needs="vggface2"),
)
_MANY = tuple(
    Case(hide(a, MANY), "fedhide", {"alpha": a, "k": MANY}, scales=("full",), columns=("vggface2",))
    for a in ALPHAS
)

RECIPE = Recipe(
    name="fedhide-figure4",
    paper="fedhide",
    about=(
        "FedHide, Figure 4 and Table 4: equal error rate and prototype leakage on voices"
        " (VoxCeleb1) and faces (VGGFace2) of people who are no clients."
    ),
    cases=(AWS, *HIDING, *_MANY),
    measures=(EER, P_LEAK, *ADAPTIVE),
    scales={
        "smoke": Scale("a quarter of an hour on two cores", _small(60), record=_RECORD),
        "small": Scale("two hours on two cores", _small(300), seeds=(0, 1, 2), record=_RECORD),
        "full": Scale(
            "one to three days a run on one GPU, three seeds",
            _FULL,
            seeds=(0, 1, 2),
            record=_RECORD,
            excerpts=True,
        ),
    },
    orders=(
        *LEAKAGE,
        Falls("the EER rises with σ", UTILITY, along=tuple(gn(s) for s in reversed(SIGMAS))),
        Falls("the EER falls with cos θ", UTILITY, along=tuple(cs(c) for c in reversed(COSINES))),
        Keeps(
            "FedHide keeps FedAwS's EER (α = 0.1, K of 10 and 20)",
            UTILITY,
            those=(hide(0.1, 10), hide(0.1, 20)),
            reference="FedAwS",
        ),
    ),
    figure="identities",
    choices=(
        *CHOICES[:3],
        (
            "Two inputs are compared by the cosine of their embeddings, of several segments by the"
            " mean over their pairs. The interval's units are the tested identities."
        ),
        *CHOICES[4:6],
        CHOICES[-1],
        "K of 5, 10 and 20 as on CIFAR-100; on VGGFace2 the paper has 10, 20 and 50.",
    ),
)
