"""Under which conditions an inversion was made: what a reader compares two of them by."""

from __future__ import annotations

from leakbench.attacking import Outline, ThreatModel

SOK = "threat model {} of Carletti et al., USENIX Security 2025"


def conditions(run: Outline, threat: ThreatModel, *, probe: bool, labels: str) -> dict[str, str]:
    """What every row of the attack says of how it was made, by name.

    Args:
        run: what was attacked.
        threat: what the attacker reads and knows.
        probe: single-image updates, or the real ones?
        labels: given, inferred or solved.
    """
    many = 1 if probe else run.method.batch
    noun = "image" if run.facts.pictured else "example"
    return {
        "assumes": SOK.format(letter(threat)),
        "batch": f"{many} {noun}{'s' * (many > 1)} a step",
        "mode": "in the mode of training",  # in which every loss is replayed
        "labels": f"labels {labels}",
    }


def letter(threat: ThreatModel) -> str:
    """The class of the attacker, A to H, in the systematisation of Carletti et al.

    A sees the updates alone, B has basic knowledge besides, C the details of the local training, D
    data like the clients', E also statistics of the clients' own. F to H are servers that send
    manipulated models, and none of ours is. Whoever knows the method knows how clients train.
    """
    if "norm_statistics" in threat.knows:
        return "E"
    if "aux_data" in threat.knows:
        return "D"
    if "method" in threat.knows:
        return "C"
    return "B" if threat.knows else "A"
