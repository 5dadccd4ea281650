"""Which of a round's updates are attacked, where clients train more than once in it."""

from __future__ import annotations

from leakbench.transcript import Message
from leakbench.view import View


def first(view: View, *, probe: bool = False) -> list[Message]:
    """The updates of the attacked round's first training, which starts from the model that opened the round; or its probes."""
    found = view.messages("update", round=view.round, probe=probe)
    return [m for m in found if m.phase == min(e.phase for e in found)]
