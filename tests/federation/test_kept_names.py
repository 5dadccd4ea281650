"""What never leaves a client is told by one function, in training and to attacks alike."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from leakbench.federation import Defense, kept_names
from leakbench.models.stages import Stages

ROOT = Path(__file__).parents[2]


class Kept(Defense):
    """Keeps one bias."""

    def keeps(self, name, module):
        return name == "head.bias" and isinstance(module, nn.Linear)


def test_a_name_is_the_tensors_full_one():
    module = Stages({"first": nn.Linear(3, 4), "head": nn.Linear(4, 2)})
    assert kept_names(Kept(), module) == {"head.bias"}
    assert kept_names(Defense(), module) == set()


def test_nobody_asks_a_method_but_through_it():
    """With a name of another form an attack would take for private what is sent."""
    here = [*(ROOT / "leakbench").rglob("*.py"), *(ROOT / "attacks").rglob("*.py")]
    asks = [p.name for p in here if "ethod.keeps(" in p.read_text() or " m.keeps(" in p.read_text()]
    assert asks == ["client_tensors.py"]
