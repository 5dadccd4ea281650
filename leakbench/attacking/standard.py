"""The standard ensemble: the list of attacks, under a number, that a verdict is cited with.

What AutoAttack (Croce and Hein, ICML 2020) is to robustness: nothing to choose, so that two papers
that say "standard v6" say the same. It has every attack of leakbench in each setting that tries
something else, with its defaults as its budget for a message. A list that changes, or a default, is
another version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakbench.attacking.choices import ReadyAttack, build
from leakbench.record.recording import Recording

NAME = "standard"
VERSION = 6
TITLE = f"{NAME} v{VERSION}"

# What reads comes first, then what trains on auxiliary data, then what searches.
MEMBERS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("label_inference", {"source": "message"}),
    ("label_inference", {"source": "messages"}),
    ("label_inference", {"source": "denoised"}),
    ("label_inference", {"source": "update"}),
    ("label_inference", {"source": "moved"}),
    ("label_inference", {"source": "calibrated"}),
    ("label_inference", {"source": "pooled"}),
    ("caption_words", {"source": "message"}),
    ("caption_words", {"source": "update"}),
    ("prototype_leakage", {}),
    ("prototype_leakage", {"candidates": "public"}),
    ("prototype_averaging", {}),
    ("prototype_averaging", {"window": 20}),
    ("prototype_centring", {}),
    ("prototype_spheres", {}),
    ("prototype_unmixing", {}),
    ("prototype_unmixing", {"twin": True}),
    ("prototype_from_update", {}),
    ("prototype_from_update", {"source": "pooled"}),
    ("codeword_from_update", {}),
    ("codeword_from_update", {"source": "pooled"}),
    ("distance_correlation", {}),
    ("exposure", {}),
    ("reidentification", {}),
    ("caption_reidentification", {"model": "client"}),
    ("caption_reidentification", {"model": "global"}),
    ("adversarial_examples", {}),
    ("membership", {"signal": "cosine"}),
    ("membership", {"signal": "loss"}),
    ("membership", {"signal": "span"}),
    ("membership", {"signal": "likelihood"}),
    ("shadow_membership", {"test": "lira"}),
    ("shadow_membership", {"test": "rmia"}),
    ("shadow_membership", {"test": "lira", "model": "client"}),
    ("shadow_membership", {"test": "rmia", "model": "client"}),
    ("shared_membership", {"signal": "nearest"}),
    ("shared_membership", {"signal": "tracing"}),
    ("user_membership", {}),
    ("attribute", {"signal": "loss"}),
    ("attribute", {"signal": "both"}),
    ("shared_attribute", {}),
    ("planted_model", {}),
    ("context", {"network": "linear"}),
    ("context", {"network": "relu"}),
    ("prototype_picture", {"way": "components"}),
    ("prototype_picture", {"way": "decoder"}),
    ("prototype_picture", {"way": "pixels"}),
    ("prototype_picture", {"source": "unmixed", "way": "decoder"}),
    ("prototype_picture", {"source": "update", "way": "decoder"}),
    ("decoder", {"network": "linear"}),
    ("decoder", {"network": "relu"}),
    ("feature_inversion", {}),
    ("mean_inversion", {}),
    ("statistics_inversion", {}),
    ("gradient_inversion", {"attacker": "naive"}),
    ("gradient_inversion", {"attacker": "joint"}),
    ("gradient_inversion", {"attacker": "joint", "labels": "inferred"}),
    ("gradient_inversion", {"attacker": "joint", "prior": "principal"}),
    ("gradient_inversion", {"attacker": "joint", "source": "pooled"}),
    ("gradient_inversion", {"attacker": "joint", "prior": "principal", "source": "pooled"}),
)


def members() -> list[ReadyAttack]:
    """All of them."""
    return [build(name, dict(params)) for name, params in MEMBERS]


def fitting(recording: Recording) -> list[ReadyAttack]:
    """Those that fit what was shared, with what their defaults fall to there.

    Raises:
        UnknownName: the method that sent it is not installed.
    """
    suited = [c.suited(recording) for c in members()]
    return [c for c in suited if not c.obstacle(recording)]
