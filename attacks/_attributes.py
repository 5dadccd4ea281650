"""Of which people, or other values of an attribute, an attacker knows examples."""

from __future__ import annotations

from leakbench.attacking import Guess, Outline, View


def unknown(run: Outline) -> str:
    """Why nobody is asked whose data these are; empty where that is asked."""
    if not run.facts.attribute:
        return (
            "its task tells no attribute to look for: train -t uci-har -s task.attribute=person,"
            " or -t spoken-digits -s task.attribute=speaker"
        )
    if not run.holds("attributes"):
        return "the record has no examples whose attribute an attacker could know"
    return ""


def blind_guess(view: View, client: int) -> Guess:
    """Of a client: each value as likely as it is among the known examples."""
    value = view.know("attributes").attribute.cpu()
    return Guess(f"client/{client}", view.round, {"attribute": value.bincount().double()})
