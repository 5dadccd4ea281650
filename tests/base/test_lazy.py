"""torch is loaded when it is first asked for, and then answers as if it had been imported."""

from __future__ import annotations

import subprocess
import sys

HERE = """
import sys
from leakbench.base.lazy import torch
assert "torch" not in sys.modules, "loaded before it was needed"
assert torch.Tensor.__name__ == "Tensor"  # loads it: it asks itself for attributes meanwhile
import torch as real
assert torch.stack is real.stack and torch.__name__ == "torch" and dir(torch) == dir(real)
torch.set_for_all = 1  # what is put into it is seen by everybody
assert real.set_for_all == 1
import torch.nn.functional
assert torch.nn.functional is real.nn.functional
try:
    torch.no_such_thing
except AttributeError as error:
    assert "no_such_thing" in str(error)
print("as if imported")
"""


def test_torch_is_loaded_once_it_is_asked():
    done = subprocess.run([sys.executable, "-c", HERE], capture_output=True, text=True)
    assert done.stdout == "as if imported\n", done.stderr
